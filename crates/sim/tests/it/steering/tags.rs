//! Waiting for tags: overtaking where waiters are woken in batches.

use block::{Insertion, Limits, Nanos, Op, Pick, Priority, Request, Room, Scheduler, StreamId, Tags};
use sim::device::Device;
use sim::host::{Queue, QueueSettings};
use sim::profile::DeviceOptions;
use sim::run::{Finished, Issue, Server};

use crate::steering::device::{Log, Logged};

const DEEP: StreamId = 0;
/// May take the first tag only.
const LIMITED: StreamId = 99;

/// A scheduler with wake batches of this size; `None`: no tags, and waiters are served in order.
struct Batches {
    scheduler: Box<dyn Scheduler>,
    batch: Option<u32>,
}

impl Scheduler for Batches {
    fn insert(&mut self, now: Nanos, request: Request) -> Insertion {
        self.scheduler.insert(now, request)
    }
    fn pick(&mut self, now: Nanos) -> Pick {
        self.scheduler.pick(now)
    }
    fn completed(&mut self, now: Nanos, request: &Request, service: Nanos) {
        self.scheduler.completed(now, request, service);
    }
    fn tags(&self, room: &Room) -> Option<Tags> {
        Some(Tags { wake_batch: self.batch?, ..self.scheduler.tags(room)? })
    }
    fn open_tags(&self, depth: u32, request: &Request) -> u32 {
        if request.stream == LIMITED { 1 } else { depth }
    }
    fn retune(&mut self, values: &[i64]) {
        self.scheduler.retune(values);
    }
    fn drain(&mut self, out: &mut Vec<Request>) {
        self.scheduler.drain(out);
    }
}

fn scheduler(setting: &str) -> Box<dyn Scheduler> {
    let (spec, values) = block::parse(setting).unwrap();
    (spec.build)(&Limits::default(), &values)
}

/// Streams of random 4 KiB requests on a device.
struct Line {
    queue: Queue,
    now: Nanos,
    asked: u64,
    finished: Vec<Finished>,
}

impl Line {
    fn new(scheduler: Box<dyn Scheduler>, device: Box<dyn Device>, nr_requests: u32) -> Line {
        let settings = QueueSettings { nr_requests, ..QueueSettings::default() };
        Line { queue: Queue::new(scheduler, device, settings), now: Nanos::ZERO, asked: 0, finished: Vec::new() }
    }

    fn on_disk(scheduler: Box<dyn Scheduler>) -> Line {
        Line::new(scheduler, sim::profile::load("sata7200").unwrap().build(DeviceOptions::default()), 256)
    }

    /// On a device that serves one request at a time, each in 1 ms.
    fn plain(scheduler: Box<dyn Scheduler>, tags: usize, nr_requests: u32) -> Line {
        Line::new(scheduler, Logged::boxed(&Log::default(), Nanos::from_millis(1), tags), nr_requests)
    }

    fn issue(&mut self, stream: StreamId) {
        self.asked += 1;
        let lba = self.asked.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (self.queue.capacity_sectors() / 8) * 8;
        let (priority, op) = (Priority::DEFAULT, Op::Read);
        let issue = Issue { arrival: self.now, lba, sectors: 8, op, sync: true, stream, priority, token: self.asked };
        self.queue.admit(self.now, issue);
    }

    /// Advances to the next event. Returns the streams and response times of the completed requests.
    fn next_done(&mut self) -> Vec<(StreamId, Nanos)> {
        self.queue.dispatch(self.now);
        self.now = self.queue.next_event().expect("a stream waits forever");
        self.queue.advance(self.now, &mut self.finished);
        let transfers = self.finished.drain(..).filter_map(|done| done.transfer().copied());
        transfers.map(|done| (done.issue.stream, self.now - done.issue.arrival)).collect()
    }

    /// The deep stream keeps `deep` requests in flight, the others one each, for a minute. Returns the mean response time in ms of
    /// the deep stream and of the others.
    fn race(&mut self, deep: u64, others: u32) -> (f64, f64) {
        (0..deep).for_each(|_| self.issue(DEEP));
        (1..=others).for_each(|stream| self.issue(stream));
        let mut took = [(0.0, 0.0); 2];
        while self.now < Nanos::from_millis(60_000) {
            for (stream, time) in self.next_done() {
                let (sum, count) = &mut took[usize::from(stream != DEEP)];
                (*sum, *count) = (*sum + time.0 as f64 / 1e6, *count + 1.0);
                self.issue(stream);
            }
        }
        (took[0].0 / took[0].1, took[1].0 / took[1].1)
    }
}

/// A SATA drive without NCQ behind AHCI.
#[test]
fn a_drive_that_takes_one_request_at_a_time_has_all_tags_of_its_driver() {
    let race = |setting: &str, driver_tags| {
        let mut line = Line::plain(scheduler(setting), 1, 256);
        line.queue.set_settings(line.now, QueueSettings { driver_tags, ..line.queue.settings() });
        line.race(8, 1)
    };
    let (single, ahci) = (race("none", 0), race("none", 32));
    assert!(
        single.1 < 3.1 && single.0 > 11.0,
        "{single:?} ms: with one tag the single request overtakes the deep stream, which sleeps"
    );
    assert!((ahci.0 - 9.0).abs() < 0.1 && (ahci.1 - 9.0).abs() < 0.1, "{ahci:?} ms: all nine are in the queue");
    assert_eq!(race("mq-deadline", 0), race("mq-deadline", 32), "a scheduler's own tags are as many as nr_requests says");
}

#[test]
fn single_requests_overtake_a_sleeping_deep_stream() {
    let device_takes = 32.0;
    for (deep, others) in [(64, 1), (32, 16)] {
        let race = |batch| Line::plain(Box::new(Batches { scheduler: scheduler("none"), batch }), 32, 32).race(deep, others);
        let (in_turn, one, four) = (race(None), race(Some(1)), race(Some(4)));
        println!("{deep} and {others} requests: {in_turn:.1?} ms in turn, {one:.1?} one by one, {four:.1?} by fours");
        assert_eq!(in_turn, one, "one tag wakes one, and no other overtakes it");
        assert!(four.1 < device_takes + 0.1, "{} ms: the others never wait for a tag", four.1);
        assert!(in_turn.1 > device_takes + 1.9, "{} ms: each time they wait for one", in_turn.1);
        assert!(four.0 > in_turn.0, "at the expense of the other");
        assert_eq!(Line::plain(scheduler("none"), 32, 256).race(deep, others), four, "32 tags wake by fours");
    }
    let race = |scheduler| Line::on_disk(scheduler).race(64, 1);
    let (in_turn, four) = (race(Box::new(Batches { scheduler: scheduler("none"), batch: None })), race(scheduler("none")));
    println!("64 and 1 on a disk: {in_turn:.1?} ms in turn, {four:.1?} by fours");
    assert!(four.1 < in_turn.1, "{four:?}, {in_turn:?} in turn");
}

#[test]
fn streams_woken_together_take_free_tags_in_turn() {
    let mut line = Line::plain(scheduler("none"), 32, 256);
    (0..32).for_each(|_| line.issue(DEEP));
    for stream in [1, 2] {
        (0..4).for_each(|_| line.issue(stream));
    }
    let done: Vec<_> = std::iter::repeat_with(|| line.next_done()).take(40).flatten().collect();
    let order: Vec<StreamId> = done.iter().skip(32).map(|(stream, _)| *stream).collect();
    assert_eq!(order, [1, 2, 1, 2, 1, 2, 1, 2]);
    let mut line = Line::plain(scheduler("none"), 32, 256);
    (0..33).for_each(|_| line.issue(DEEP));
    (0..3).for_each(|_| assert_eq!(line.next_done().len(), 1));
    line.issue(1);
    let order: Vec<StreamId> = std::iter::repeat_with(|| line.next_done()).take(31).flatten().map(|(stream, _)| stream).collect();
    assert_eq!(order[29..], [1, DEEP], "it took one of the three that were free, before the fourth woke the other");
}

#[test]
fn a_request_limited_to_the_first_tag_waits_for_it_although_others_are_free() {
    for (before, waits) in [(0, 1), (1, 2)] {
        let mut line = Line::plain(Box::new(Batches { scheduler: scheduler("none"), batch: Some(1) }), 32, 32);
        // The first request holds the first tag.
        (0..before).for_each(|_| line.issue(DEEP));
        (0..2).for_each(|_| line.issue(LIMITED));
        line.issue(1);
        let order: Vec<StreamId> =
            std::iter::repeat_with(|| line.next_done()).take(before + 3).flatten().map(|(stream, _)| stream).collect();
        let first = if before == 0 { LIMITED } else { DEEP };
        assert_eq!(order[..waits], [[first].as_slice(), &[1][..waits - 1]].concat());
        assert_eq!(order[before + 2], LIMITED, "one after the other: {order:?}");
    }
}

#[test]
fn no_stream_sleeps_forever() {
    for (setting, tags, nr_requests) in
        [("none", 64, 256), ("none", 256, 256), ("kyber", 4, 256), ("mq-deadline", 4, 16), ("bfq", 1, 8)]
    {
        for streams in [1, 200, 1_000] {
            let mut line = Line::plain(scheduler(setting), tags, nr_requests);
            (0..2_000).for_each(|number| line.issue(number % streams));
            let mut done = 0;
            while done < 2_000 {
                done += line.next_done().len();
            }
        }
    }
}

#[test]
fn sleepers_survive_a_switch_to_any_way_of_waiting_and_back() {
    let mut line = Line::plain(scheduler("none"), 64, 256);
    (0..1_000).for_each(|number| line.issue(number % 300));
    let mut done = 0;
    for (setting, nr_requests) in [("noop", 256), ("kyber", 256), ("deadline", 4), ("none", 4), ("none", 2048), ("mq-deadline", 64)]
    {
        (0..37).for_each(|_| done += line.next_done().len());
        line.queue.switch(line.now, scheduler(setting));
        line.queue.set_settings(line.now, QueueSettings { nr_requests, ..line.queue.settings() });
    }
    while done < 1_000 {
        done += line.next_done().len();
    }
}
