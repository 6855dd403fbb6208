//! Schedulers replaced at any time.

use std::collections::{BTreeMap, BTreeSet};

use block::{Limits, Nanos, Op, Priority};
use proptest::prelude::*;
use sim::host::{Queue, QueueSettings};
use sim::run::{Finished, Issue, Server, ServerEvent, Steerable, Transferred};

use crate::cases::cases;
use crate::steering::device::{Entry, FLUSH, Log, Logged, Spy};

const SWITCH: Nanos = Nanos::from_millis(10);

/// An operation on the queue, after a gap.
#[derive(Clone, Debug)]
enum Step {
    /// The next place on the disk is asked for; neighbours in number are neighbours on the disk.
    Issue {
        op: Op,
        sync: bool,
        sectors: u32,
        stream: u32,
    },
    Switch(usize),
    Retune,
    Set(usize, i64),
    Flush,
}

fn steps() -> impl Strategy<Value = Vec<(u64, usize, Step)>> {
    let op = prop_oneof![3 => Just(Op::Read), 3 => Just(Op::Write), 1 => Just(Op::Discard)];
    let issue = (op, any::<bool>(), prop_oneof![Just(8u32), 1..40u32], 0..3u32)
        .prop_map(|(op, sync, sectors, stream)| Step::Issue { op, sync, sectors, stream });
    let set = prop_oneof![
        (4..20i64).prop_map(|value| Step::Set(0, value)),
        (4..40i64).prop_map(|value| Step::Set(1, value)),
        (0..3i64).prop_map(|value| Step::Set(2, value)),
    ];
    let step = prop_oneof![
        20 => issue,
        3 => (0..block::ALL.len()).prop_map(Step::Switch),
        1 => Just(Step::Retune),
        1 => set,
        1 => Just(Step::Flush),
    ];
    let gap = prop_oneof![3 => Just(0), 3 => 0..1_000u64, 1 => 0..20_000u64];
    proptest::collection::vec((gap, any::<proptest::sample::Index>(), step), 1..120)
        .prop_map(|steps| steps.into_iter().map(|(gap, place, step)| (gap, place.index(64), step)).collect())
}

/// The result of a play.
struct Played {
    issues: Vec<Issue>,
    flushes: BTreeMap<u64, Nanos>,
    finished: Vec<Finished>,
    notes: Vec<ServerEvent>,
    log: Vec<Entry>,
}

/// A queue with a clock.
struct Player {
    queue: Queue,
    log: Log,
    now: Nanos,
    played: Played,
}

impl Player {
    fn new(depth: usize, settings: QueueSettings) -> Player {
        let log = Log::default();
        let mut queue = Queue::new(Spy::on(block::ALL[0]), Logged::boxed(&log, Nanos::from_micros(700), depth), settings);
        queue.record_events();
        let played = Played { issues: vec![], flushes: BTreeMap::new(), finished: vec![], notes: vec![], log: vec![] };
        Player { queue, log, now: Nanos::ZERO, played }
    }

    /// Lets the queue work up to `end`.
    fn run_until(&mut self, end: Nanos) {
        for event in 0.. {
            assert!(event < 100_000, "the queue never comes to rest");
            let Some(at) = self.queue.next_event().filter(|&at| at <= end) else { break };
            self.now = self.now.max(at);
            self.queue.advance(self.now, &mut self.played.finished);
            self.queue.dispatch(self.now);
        }
        if end != Nanos::MAX {
            self.now = end;
        }
    }

    fn issue(&mut self, lba: u64, op: Op, sync: bool, sectors: u32, stream: u32) {
        let token = self.played.issues.len() as u64;
        let issue = Issue { arrival: self.now, lba, sectors, op, sync, stream, priority: Priority::DEFAULT, token };
        self.played.issues.push(issue);
        self.queue.admit(self.now, issue);
    }

    fn switch(&mut self, index: usize) {
        self.log.lock().unwrap().push(Entry::Switched { at: self.now });
        self.queue.switch(self.now, Spy::on(block::ALL[index]));
    }

    fn end(mut self) -> Played {
        self.run_until(Nanos::MAX);
        self.queue.set_settings(self.now, QueueSettings { nr_requests: 1, ..self.queue.settings() });
        let is_full = |stream| self.queue.is_full(stream, true) || self.queue.is_full(stream, false);
        assert!(!(0..8).any(is_full), "the queue is empty and does not know it");
        self.queue.take_events(&mut self.played.notes);
        self.played.log = self.log.lock().unwrap().clone();
        self.played
    }
}

fn play(steps: &[(u64, usize, Step)], depth: usize, nr_requests: u32, has_budget: bool) -> Played {
    let settings = QueueSettings { nr_requests, has_budget, max_sectors: 24, switch_time: SWITCH, ..QueueSettings::default() };
    let mut player = Player::new(depth, settings);
    let mut scheduler = 0;
    // Every place is accessed once, so that each sector at the device identifies its issue.
    let mut next_in_region = [0u64; 64];
    for (gap_us, region, step) in steps {
        player.run_until(player.now + Nanos::from_micros(*gap_us));
        match *step {
            Step::Issue { op, sync, sectors, stream } => {
                let lba = *region as u64 % 4 * 1_000_000 + next_in_region[region % 4];
                next_in_region[region % 4] += u64::from(sectors);
                player.issue(lba, op, sync, sectors, stream);
            }
            Step::Switch(index) => {
                scheduler = index;
                player.switch(index);
            }
            Step::Retune => player.queue.retune(&block::ALL[scheduler].defaults()),
            Step::Set(index, value) => player.queue.set(player.now, index, value).unwrap(),
            Step::Flush => {
                let token = 1_000_000 + player.played.flushes.len() as u64;
                assert!(player.queue.flush(player.now, 3, token));
                player.played.flushes.insert(token, player.now);
            }
        }
        player.queue.dispatch(player.now);
    }
    player.end()
}

/// When the device was done with each sector; each comes once.
fn done_at(log: &[Entry]) -> Result<BTreeMap<u64, Nanos>, TestCaseError> {
    let mut under_way = BTreeMap::new();
    let mut done = BTreeMap::new();
    for entry in log {
        match *entry {
            Entry::Submitted { id, lba, sectors, .. } if id != FLUSH => {
                prop_assert!(under_way.insert(id, (lba, sectors)).is_none(), "{} is at the device twice", id);
            }
            Entry::Completed { at, id } if id != FLUSH => {
                let (lba, sectors) = under_way.remove(&id).unwrap();
                for sector in lba..lba + u64::from(sectors) {
                    prop_assert!(done.insert(sector, at).is_none(), "sector {} was served twice", sector);
                }
            }
            _ => {}
        }
    }
    Ok(done)
}

/// Nothing goes to the device until the time has passed and the device's requests are done, once there was a request.
fn check_freezes(log: &[Entry]) -> Result<(), TestCaseError> {
    let (mut there, mut before, mut until) = (BTreeSet::new(), BTreeSet::new(), Nanos::ZERO);
    let mut ever = false;
    for entry in log {
        match *entry {
            Entry::Submitted { at, id, .. } => {
                prop_assert!(at >= until, "{} went to the device at {}, in a freeze until {}", id, at, until);
                prop_assert!(before.is_empty(), "{} went to the device at {} before {:?} were done", id, at, before);
                there.insert(id);
                ever |= id != FLUSH;
            }
            Entry::Completed { id, .. } => {
                there.remove(&id);
                before.remove(&id);
            }
            Entry::Switched { at } if ever => {
                until = at + SWITCH;
                before = there.clone();
            }
            Entry::Switched { .. } => {}
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn switches_at_any_time_lose_and_duplicate_nothing_and_delay_everything(
        steps in steps(), depth in 1..6usize, nr_requests in prop_oneof![Just(256u32), 4..12u32], has_budget: bool
    ) {
        let played = play(&steps, depth, nr_requests, has_budget);
        check_freezes(&played.log)?;
        let done = done_at(&played.log)?;
        let mut finished: BTreeMap<u64, Finished> = BTreeMap::new();
        for one in &played.finished {
            prop_assert!(finished.insert(one.token(), *one).is_none(), "{} is done twice", one.token());
        }
        prop_assert_eq!(finished.len(), played.issues.len() + played.flushes.len());
        for issue in &played.issues {
            let last = (issue.lba..issue.lba + u64::from(issue.sectors)).map(|sector| done[&sector]).max();
            prop_assert_eq!(Some(finished[&issue.token].at()), last, "{:?} is done when its last sector is", issue);
        }
        for (token, since) in &played.flushes {
            prop_assert!(finished[token].at() >= *since + Nanos::from_micros(700));
        }
        let issued: Vec<Issue> =
            played.notes.iter().filter_map(|noted| if let ServerEvent::Issued(issue) = noted { Some(*issue) } else { None }).collect();
        prop_assert_eq!(&issued, &played.issues);
        let ended: Vec<Transferred> =
            played.notes.iter().filter_map(|noted| if let ServerEvent::Finished(done) = noted { Some(*done) } else { None }).collect();
        let of_issues: Vec<Transferred> = played.finished.iter().filter_map(|one| one.transfer().copied()).collect();
        prop_assert_eq!(ended, of_issues);
    }
}

const MS: fn(u64) -> Nanos = Nanos::from_millis;

/// One request at a time, each in 0.7 ms.
fn player() -> Player {
    Player::new(1, QueueSettings { switch_time: SWITCH, ..QueueSettings::default() })
}

/// When each of the issues was done, in microseconds.
fn ends(played: &Played) -> Vec<u64> {
    played.finished.iter().map(|done| done.at().0 / 1000).collect()
}

#[test]
fn a_switch_delays_waiting_requests_for_its_whole_time() {
    let mut player = player();
    player.issue(0, Op::Read, true, 8, 1);
    player.issue(1000, Op::Read, true, 8, 1);
    player.queue.dispatch(player.now);
    player.run_until(Nanos::from_micros(300));
    player.switch(3);
    player.queue.dispatch(player.now);
    // The request at the device is done in time; the other waits for 0.3 + 10 ms, and then takes its 0.7.
    assert_eq!(ends(&player.end()), [700, 11_000]);
}

#[test]
fn a_switch_waits_for_the_requests_at_the_device_however_long_that_takes() {
    let mut player = Player::new(30, QueueSettings { switch_time: SWITCH, ..QueueSettings::default() });
    for n in 0..31 {
        player.issue(1000 * n, Op::Read, true, 8, 1);
    }
    player.queue.dispatch(player.now);
    player.switch(1);
    player.queue.dispatch(player.now);
    let ends = ends(&player.end());
    assert_eq!((ends[29], ends[30]), (21_000, 21_700));
}

#[test]
fn a_switch_before_the_first_request_delays_nothing() {
    let mut player = player();
    player.switch(5);
    player.issue(0, Op::Read, true, 8, 1);
    player.queue.dispatch(player.now);
    assert_eq!(ends(&player.end()), [700]);
}

#[test]
fn a_switch_that_takes_no_time_on_an_idle_device_delays_nothing() {
    let mut player = Player::new(1, QueueSettings { switch_time: Nanos::ZERO, ..QueueSettings::default() });
    player.issue(0, Op::Read, true, 8, 1);
    player.queue.dispatch(player.now);
    player.run_until(MS(5));
    player.switch(2);
    player.issue(1000, Op::Read, true, 8, 1);
    player.queue.dispatch(player.now);
    assert_eq!(ends(&player.end()), [700, 5_700]);
}

#[test]
fn a_flush_waits_for_the_end_of_a_switch() {
    let mut player = player();
    player.issue(0, Op::Write, true, 8, 1);
    player.queue.dispatch(player.now);
    player.run_until(MS(5));
    player.switch(2);
    assert!(player.queue.flush(player.now, 3, 77));
    player.queue.dispatch(player.now);
    assert_eq!(ends(&player.end()), [700, 15_700]);
}

#[test]
fn a_switch_with_nothing_waiting_is_no_reason_to_go_on() {
    let mut player = player();
    player.issue(0, Op::Write, true, 8, 1);
    player.queue.dispatch(player.now);
    player.run_until(MS(5));
    player.switch(2);
    player.queue.dispatch(player.now);
    assert_eq!(player.queue.next_event(), None);
}

#[test]
fn reads_for_a_new_scheduler_reach_the_device_and_are_not_reported() {
    let mut player = player();
    player.issue(1_000, Op::Read, true, 8, 1);
    player.queue.dispatch(player.now);
    player.run_until(MS(5));
    let bfq = block::find("bfq").unwrap();
    player.queue.switch(player.now, (bfq.build)(&Limits::default(), &bfq.defaults()));
    player.issue(2_000, Op::Read, true, 8, 1);
    player.queue.dispatch(player.now);
    let played = player.end();
    let submitted = played.log.iter().filter(|entry| matches!(entry, Entry::Submitted { .. })).count();
    assert!(submitted > 2, "those that touch each other may be merged");
    assert_eq!(played.finished.len(), 2);
    let stream = |noted: &ServerEvent| match noted {
        ServerEvent::Issued(issue) => Some(issue.stream),
        ServerEvent::Finished(done) => Some(done.issue.stream),
        _ => None,
    };
    assert_eq!(played.notes.iter().filter_map(stream).collect::<Vec<_>>(), [1; 4]);
}

/// Requests that touch each other, put into a queue with room for four that may not merge. Returns the sizes of those that reached
/// the device when a successor with this `nomerges` takes over.
fn sectors_after_switch(nomerges: i64) -> Vec<u32> {
    let mut player = player();
    player.queue.set(player.now, 0, 4).unwrap();
    player.queue.set(player.now, 2, 2).unwrap();
    for n in 0..6 {
        player.issue(8 * n, Op::Read, true, 8, 1);
    }
    player.queue.set(player.now, 2, nomerges).unwrap();
    player.switch(3);
    player.queue.dispatch(player.now);
    let played = player.end();
    assert_eq!(played.finished.len(), 6);
    let sectors = |entry: &Entry| if let Entry::Submitted { sectors, .. } = entry { Some(*sectors) } else { None };
    played.log.iter().filter_map(sectors).collect()
}

#[test]
fn adjacent_requests_merge_and_make_room_when_the_new_scheduler_merges() {
    assert_eq!(sectors_after_switch(0), [48]);
    assert_eq!(sectors_after_switch(2), [8; 6], "a successor keeps to the queue's limits");
}

#[test]
fn without_a_budget_one_request_more_than_the_device_takes_has_left_the_scheduler() {
    let order = |has_budget| {
        let mut player = Player::new(1, QueueSettings { has_budget, ..QueueSettings::default() });
        player.switch(block::ALL.iter().position(|spec| spec.name == "mq-deadline").unwrap());
        for lba in [1_000, 9_000, 5_000, 3_000] {
            player.issue(lba, Op::Read, true, 8, 0);
            player.queue.dispatch(player.now);
        }
        let log = player.end().log;
        let lbas = log.iter().filter_map(|entry| if let Entry::Submitted { lba, .. } = entry { Some(*lba) } else { None });
        lbas.collect::<Vec<_>>()
    };
    assert_eq!(order(true), [1_000, 3_000, 5_000, 9_000]);
    // Nothing lies ahead of 9,000: the oldest is next.
    assert_eq!(order(false), [1_000, 9_000, 5_000, 3_000]);
}

/// Rosters passed to schedulers.
type Rosters = std::sync::Arc<std::sync::Mutex<Vec<String>>>;

/// Serves as noop does, and records its rosters.
struct Listener(Rosters, Box<dyn block::Scheduler>);

impl block::Scheduler for Listener {
    fn insert(&mut self, now: Nanos, request: block::Request) -> block::Insertion {
        self.1.insert(now, request)
    }
    fn pick(&mut self, now: Nanos) -> block::Pick {
        self.1.pick(now)
    }
    fn retune(&mut self, _values: &[i64]) {}
    fn set_roster(&mut self, roster: &block::Roster) {
        self.0.lock().unwrap().extend(roster.tenants().iter().map(|tenant| tenant.name.clone()));
    }
    fn drain(&mut self, out: &mut Vec<block::Request>) {
        self.1.drain(out);
    }
}

#[test]
fn successors_get_the_roster_and_the_accounts_continue() {
    let profile = sim::profile::load("atlas10k").unwrap();
    let (rosters, limits) = (Rosters::default(), block::Limits::default());
    let noop = || (block::find("noop").unwrap().build)(&limits, &[]);
    let listener = |rosters: &Rosters| Box::new(Listener(rosters.clone(), noop()));
    let settings = QueueSettings { switch_time: SWITCH, ..QueueSettings::default() };
    let mut queue = Queue::new(listener(&rosters), profile.build(sim::profile::DeviceOptions::default()), settings);
    let roster = block::Roster::new(vec![block::Tenant::new("a")], vec![(1_000_000..2_000_000, 0)], &[], 1).unwrap();
    queue.set_roster(&roster);
    let (mut now, mut finished) = (Nanos::ZERO, Vec::new());
    for token in 0..20 {
        // Writes of a kernel thread, which belong to a tenant only by their sectors; every other one has no tenant.
        let lba = if token % 2 == 0 { 1_500_000 } else { 5_000_000 } + token * 5_000;
        let (op, priority, stream) = (Op::Write, Priority::DEFAULT, 77);
        queue.admit(now, Issue { arrival: now, lba, sectors: 8, op, sync: false, stream, priority, token });
        queue.dispatch(now);
        while finished.len() <= token as usize {
            now = queue.next_event().unwrap();
            queue.advance(now, &mut finished);
            queue.dispatch(now);
        }
        if token == 9 {
            queue.switch(now, listener(&rosters));
        }
    }
    assert_eq!(*rosters.lock().unwrap(), ["a", "a"]);
    let ledger = queue.ledger().unwrap();
    let worked = |tenant: usize| ledger.work_of(tenant).0;
    assert!(
        worked(0) > 50_000_000 && worked(1) > 50_000_000,
        "ten writes each take some milliseconds: {} {}",
        worked(0),
        worked(1)
    );
    assert!(ledger.idle_while_waiting() >= Nanos::from_millis(9), "while it was exchanged: {}", ledger.idle_while_waiting());
}
