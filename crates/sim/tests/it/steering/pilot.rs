//! Pilots: the times of their steps, the events they get, and the effect of their changes.

use std::collections::VecDeque;

use block::{Nanos, Op, Priority};
use sim::host::{Queue, QueueSettings, RunSummary};
use sim::profile::DeviceOptions;
use sim::replay::{Fit, Mode, Placement, Settings, Survey, replay};
use sim::run::{Finished, Measure, Pilot, ServerEvent, Steerable, Watch};
use sim::trace::{TraceError, TraceReader, TraceRequest};
use sim::workload::Workload;

use crate::steering::device::{Log, Logged, Spy};

const MS: fn(u64) -> Nanos = Nanos::from_millis;

/// The place of `read_ahead_kb` among a host's tunables.
fn read_ahead() -> usize {
    sim::host::TUNABLES.iter().position(|tunable| tunable.name == "read_ahead_kb").unwrap()
}

/// Takes a step at a fixed interval, and after a number of events if set; switches the scheduler at every step if set.
#[derive(Default)]
struct Recorder {
    every: Option<Nanos>,
    /// Takes a step after this many events.
    at_event: Option<usize>,
    switches: bool,
    next: Nanos,
    looks: Vec<Nanos>,
    noted: Vec<ServerEvent>,
    begun: usize,
    values: Vec<(Option<i64>, Option<i64>)>,
}

impl Pilot for Recorder {
    fn begin(&mut self, plant: &mut dyn Steerable) {
        assert!(self.noted.is_empty());
        self.begun += 1;
        self.next = self.every.unwrap_or(Nanos::MAX);
        self.values.push((plant.value(0), plant.value(read_ahead())));
    }
    fn events(&mut self, noted: &[ServerEvent]) {
        self.noted.extend(noted);
    }
    fn next_step(&self, _quiet_until: Nanos) -> Option<Nanos> {
        if self.at_event.is_some_and(|events| self.noted.len() >= events) { Some(Nanos::ZERO) } else { Some(self.next) }
    }
    fn step(&mut self, now: Nanos, plant: &mut dyn Steerable) -> bool {
        self.looks.push(now);
        self.at_event = None;
        self.next = self.every.map_or(Nanos::MAX, |every| now + every);
        if self.switches {
            plant.switch(now, Spy::on(block::ALL[self.looks.len() % block::ALL.len()]));
            plant.set(now, 0, 64).unwrap();
        }
        self.values.push((plant.value(0), plant.value(read_ahead())));
        self.switches
    }
}

struct List(VecDeque<TraceRequest>);

impl TraceReader for List {
    fn next_request(&mut self) -> Option<Result<TraceRequest, TraceError>> {
        self.0.pop_front().map(Ok)
    }
}

fn trace(requests: u64, gap: Nanos) -> Vec<TraceRequest> {
    let one = |n: u64| TraceRequest {
        arrival: Nanos(n * gap.0),
        device: 0,
        lba: 1000 * n,
        sectors: 8,
        op: Op::Read,
        sync: None,
        stream: 1,
        priority: Priority::DEFAULT,
        response: None,
        service: None,
    };
    (0..requests).map(one).collect()
}

/// A replay on a device that takes a millisecond for each.
fn run(trace: &[TraceRequest], pilot: Option<&mut dyn Pilot>) -> RunSummary {
    let list = || Box::new(List(trace.iter().copied().collect()));
    let survey = Survey::take(&mut *list(), |_| true).unwrap().unwrap();
    let placement = Placement::new(&survey, 1 << 30, Fit::Exact).unwrap();
    let queue = Queue::new(Spy::on(block::ALL[0]), Logged::boxed(&Log::default(), MS(1), 1), QueueSettings::default());
    let settings = Settings { mode: Mode::Open, speed: 1.0 };
    replay(list(), &placement, queue, &settings, Measure::new([1]), &Watch::default(), pilot).unwrap()
}

#[test]
fn a_pilot_steps_at_its_times_and_not_after_the_end() {
    let mut pilot = Recorder { every: Some(MS(10)), ..Recorder::default() };
    let outcome = run(&trace(4, MS(15)), Some(&mut pilot));
    assert_eq!(outcome.measure.last_completion, MS(46));
    assert_eq!(pilot.looks, [MS(10), MS(20), MS(30), MS(40)]);
    assert_eq!(pilot.begun, 1);
}

#[test]
fn an_overdue_pilot_steps_right_after_the_events_of_the_instant() {
    let mut pilot = Recorder { at_event: Some(3), ..Recorder::default() };
    run(&trace(4, MS(15)), Some(&mut pilot));
    // Issued at 0, done at 1, issued at 15.
    assert_eq!(pilot.looks, [MS(15)]);
}

#[test]
fn a_pilot_that_is_always_due_does_not_stop_time() {
    let mut pilot = Recorder { every: Some(Nanos::ZERO), ..Recorder::default() };
    let outcome = run(&trace(50, MS(2)), Some(&mut pilot));
    assert_eq!(outcome.measure.all.count(), 50);
    assert!(pilot.looks.is_sorted());
}

#[test]
fn a_pilot_sees_every_request_in_the_order_of_time() {
    let mut pilot = Recorder::default();
    run(&trace(300, Nanos::from_micros(400)), Some(&mut pilot));
    let at = |noted: &ServerEvent| match noted {
        ServerEvent::Issued(issue) => issue.arrival,
        ServerEvent::Finished(done) => done.at,
        ServerEvent::Flushed(done) => done.at,
        ServerEvent::Returned(done) => done.at(),
        ServerEvent::Called { at, .. } => *at,
    };
    assert!(pilot.noted.iter().map(at).is_sorted());
    assert_eq!(pilot.noted.iter().filter(|noted| matches!(noted, ServerEvent::Issued(_))).count(), 300);
    assert_eq!(pilot.noted.iter().filter(|noted| matches!(noted, ServerEvent::Finished(_))).count(), 300);
}

#[test]
fn a_pilot_that_only_observes_changes_nothing() {
    let trace = trace(300, Nanos::from_micros(400));
    let mut pilot = Recorder { every: Some(Nanos::from_micros(333)), ..Recorder::default() };
    let (alone, watched) = (run(&trace, None), run(&trace, Some(&mut pilot)));
    assert!(pilot.looks.len() > 300);
    assert_eq!(alone.measure.sample, watched.measure.sample);
}

#[test]
fn settings_of_a_pilot_take_effect_and_cost_their_time() {
    let trace = trace(300, MS(2));
    let mut pilot = Recorder { every: Some(MS(100)), switches: true, ..Recorder::default() };
    let (alone, steered) = (run(&trace, None), run(&trace, Some(&mut pilot)));
    assert_eq!(alone.measure.all.max(), MS(1));
    assert_eq!(steered.measure.all.max(), MS(36));
    assert_eq!(steered.measure.all.count(), 300);
    assert_eq!((pilot.values[0].0, pilot.values[1].0), (Some(256), Some(64)));
    assert_eq!(pilot.values[0].1, None, "a queue has no read-ahead");
}

#[test]
fn a_host_is_steered_with_all_its_tunables() {
    let text = "[readers]\nrw=randread\nsize=64m\nnumjobs=3\nruntime=2\ntime_based\n[writer]\nrw=write\nsize=64m\nfsync=16\n";
    let workload = Workload::parse(text, "steered.fio").unwrap();
    let profile = sim::profile::load("sata7200").unwrap();
    let placed = workload.place(profile.capacity_sectors(), 1).unwrap();
    let run = |pilot: Option<&mut dyn Pilot>| {
        let queue = Queue::new(Spy::on(block::ALL[0]), profile.build(DeviceOptions::default()), QueueSettings::default());
        let mut host = sim::host::Host::new(queue, placed.files(), sim::host::HostSettings::default()).unwrap();
        sim::workload::run(&placed, &mut host, None, Measure::new([0, 1]), &Watch::default(), pilot).unwrap()
    };
    let mut pilot = Recorder { every: Some(MS(150)), switches: true, ..Recorder::default() };
    let outcome = run(Some(&mut pilot));
    assert!(pilot.looks.len() > 10, "{:?}", pilot.looks);
    assert!(pilot.noted.len() > 100);
    // Advice, which fio's jobs give first, is not recorded: it has no completion.
    let calls = pilot.noted.iter().filter(|noted| matches!(noted, ServerEvent::Called { .. })).count();
    assert_eq!(calls, pilot.noted.iter().filter(|noted| matches!(noted, ServerEvent::Returned(_))).count());
    // Each fsync empties the drive's write cache.
    let flushes = pilot.noted.iter().filter(|noted| matches!(noted, ServerEvent::Flushed(flushed) if flushed.stream == 3)).count();
    let fsyncs = pilot.noted.iter().filter(|noted| matches!(noted, ServerEvent::Returned(Finished::Flush(_)))).count();
    assert!(fsyncs > 10);
    assert_eq!(flushes, fsyncs);
    assert_eq!(pilot.values[0], (Some(256), Some(128)));
    assert_eq!(pilot.values[1], (Some(64), Some(128)));
    assert!(outcome.spans.iter().all(Option::is_some));
    assert_ne!(outcome.measure.sample, run(None).measure.sample);
}
