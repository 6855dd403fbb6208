//! The event loop, observed through a device of constant service time.

use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;

use block::{Insertion, Nanos, Op, Pick, Priority, Request, Scheduler, StreamId};
use sim::device::{Completion, Device};
use sim::host::{Queue, QueueSettings, RunSummary};
use sim::replay::{Fit, Mode, Placement, Settings, Survey, replay, replay_alone};
use sim::run::{Measure, RunError, StreamMeasure, Watch};
use sim::trace::{TraceError, TraceReader, TraceRequest};

const MS: u64 = 1_000_000;

/// Serves one request after the other, each in `service`, and holds up to `depth`.
struct Steady {
    service: Nanos,
    depth: usize,
    queue: VecDeque<(Nanos, Request)>,
    busy: Nanos,
}

impl Steady {
    fn boxed(service_ms: u64, depth: usize) -> Box<Steady> {
        Box::new(Steady { service: Nanos(service_ms * MS), depth, queue: VecDeque::new(), busy: Nanos::ZERO })
    }
}

impl Device for Steady {
    fn capacity_sectors(&self) -> u64 {
        1 << 30
    }
    fn queue_depth(&self) -> usize {
        self.depth
    }
    fn submit(&mut self, now: Nanos, request: &Request) {
        let start = self.queue.back().map_or(now, |&(done, _)| done);
        self.queue.push_back((start + self.service, *request));
    }
    fn wake_at(&self) -> Option<Nanos> {
        self.queue.front().map(|&(done, _)| done)
    }
    fn advance(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        while self.wake_at().is_some_and(|at| at <= now) {
            let Some((at, request)) = self.queue.pop_front() else { return };
            self.busy += self.service;
            let (seek, rotation) = (Nanos::ZERO, Nanos::ZERO);
            done.push(Completion { id: request.id, at, seek, rotation, seek_cylinders: 0, cache_hit: false, work: None });
        }
    }
    fn busy(&self) -> Nanos {
        self.busy
    }
}

/// First come, first served, but no request before `patience` has passed.
#[derive(Default)]
struct Patient {
    queue: VecDeque<Request>,
    patience: Nanos,
}

impl Scheduler for Patient {
    fn insert(&mut self, _now: Nanos, request: Request) -> Insertion {
        self.queue.push_back(request);
        Insertion::Queued
    }
    fn pick(&mut self, now: Nanos) -> Pick {
        match self.queue.front() {
            Some(request) if request.arrival + self.patience > now => Pick::WaitUntil(request.arrival + self.patience),
            _ => self.queue.pop_front().map_or(Pick::Empty, Pick::Go),
        }
    }
    fn retune(&mut self, _values: &[i64]) {}
    fn drain(&mut self, out: &mut Vec<Request>) {
        out.extend(self.queue.drain(..));
    }
}

struct List(VecDeque<TraceRequest>);

impl TraceReader for List {
    fn next_request(&mut self) -> Option<Result<TraceRequest, TraceError>> {
        self.0.pop_front().map(Ok)
    }
}

fn read(stream: StreamId, arrival_ms: u64, response_ms: Option<u64>) -> TraceRequest {
    TraceRequest {
        arrival: Nanos(arrival_ms * MS),
        device: 0,
        lba: 1000 * arrival_ms,
        sectors: 8,
        op: Op::Read,
        sync: None,
        stream,
        priority: Priority::DEFAULT,
        response: response_ms.map(|ms| Nanos(ms * MS)),
        service: None,
    }
}

fn queue(service_ms: u64, depth: usize, settings: QueueSettings) -> Queue {
    Queue::new(Box::new(Patient::default()), Steady::boxed(service_ms, depth), settings)
}

fn default_queue(service_ms: u64, depth: usize) -> Queue {
    queue(service_ms, depth, QueueSettings::default())
}

fn list(trace: &[TraceRequest]) -> Box<List> {
    Box::new(List(trace.iter().copied().collect()))
}

fn survey(trace: &[TraceRequest]) -> (Survey, Placement) {
    let survey = Survey::take(&mut *list(trace), |_| true).unwrap().unwrap();
    let placement = Placement::new(&survey, 1 << 30, Fit::Exact).unwrap();
    (survey, placement)
}

fn run(trace: &[TraceRequest], mode: Mode, speed: f64, queue: Queue) -> RunSummary {
    let (survey, placement) = survey(trace);
    let followed: Vec<_> = survey.followed().iter().map(|&(stream, _)| stream).collect();
    let settings = Settings { mode, speed };
    let measure = Measure::new(followed);
    replay(list(trace), &placement, queue, &settings, measure, &Watch::default(), None).unwrap()
}

/// (arrival, completion) in ms, in the order of completion; the trace is short enough to be sampled whole.
fn times(outcome: &RunSummary) -> Vec<(u64, u64)> {
    outcome.measure.sample.iter().map(|done| (done.issue.arrival.0 / MS, done.at.0 / MS)).collect()
}

#[test]
fn an_open_replay_keeps_the_traces_times_and_counts_the_waiting() {
    let trace = [read(1, 0, None), read(1, 1, None), read(1, 20, None)];
    let outcome = run(&trace, Mode::Open, 1.0, default_queue(5, 1));
    assert_eq!(times(&outcome), [(0, 5), (1, 10), (20, 25)]);
    assert_eq!(outcome.busy, Nanos(15 * MS));
    assert_eq!(outcome.tally.requests, 3);
    let faster = run(&trace, Mode::Open, 2.0, default_queue(5, 1));
    assert_eq!(times(&faster), [(0, 5), (0, 10), (10, 15)]);
}

#[test]
fn a_closed_replay_issues_each_request_its_think_time_after_the_one_before() {
    // In the recording a request took 2 ms; the stream then thought 3, then 10 ms.
    let trace = [read(1, 0, Some(2)), read(1, 5, Some(2)), read(1, 17, Some(2))];
    let outcome = run(&trace, Mode::Closed, 1.0, default_queue(20, 1));
    assert_eq!(times(&outcome), [(0, 20), (23, 43), (53, 73)]);
    let faster = run(&trace, Mode::Closed, 2.0, default_queue(20, 1));
    assert_eq!(faster.measure.last_completion, Nanos(60 * MS + 6 * MS + MS / 2));
}

#[test]
fn without_recorded_completions_the_whole_gap_is_think_time() {
    let trace = [read(1, 0, None), read(1, 5, None)];
    let outcome = run(&trace, Mode::Closed, 1.0, default_queue(20, 1));
    assert_eq!(times(&outcome), [(0, 20), (25, 45)]);
}

#[test]
fn a_stream_that_kept_two_in_flight_keeps_two_in_flight() {
    // The third was issued 1 ms after the first completed, while the second was under way.
    let trace = [read(1, 0, Some(10)), read(1, 1, Some(20)), read(1, 11, Some(20))];
    let outcome = run(&trace, Mode::Closed, 1.0, default_queue(30, 4));
    assert_eq!(times(&outcome), [(0, 30), (1, 60), (31, 90)]);
}

#[test]
fn asynchronous_requests_block_no_stream() {
    let mut written = read(1, 0, Some(50));
    (written.op, written.sync) = (Op::Write, Some(false));
    let trace = [written, read(1, 60, Some(1))];
    let outcome = run(&trace, Mode::Closed, 1.0, default_queue(500, 2));
    assert_eq!(times(&outcome), [(0, 500), (60, 1000)]);
}

#[test]
fn streams_do_not_wait_for_each_other() {
    let trace = [read(1, 0, Some(1)), read(2, 4, Some(1)), read(1, 6, Some(1)), read(2, 20, Some(1))];
    let outcome = run(&trace, Mode::Closed, 1.0, default_queue(10, 1));
    assert_eq!(times(&outcome), [(0, 10), (4, 20), (15, 30), (35, 45)]);
}

#[test]
fn a_full_queue_makes_the_issuer_wait_but_the_response_time_counts_on() {
    let trace: Vec<_> = (0..10).map(|_| read(1, 0, None)).collect();
    let settings = QueueSettings { nr_requests: 2, ..QueueSettings::default() };
    let outcome = run(&trace, Mode::Open, 1.0, queue(5, 1, settings));
    let expected: Vec<_> = (1..=10).map(|n| (0, 5 * n)).collect();
    assert_eq!(times(&outcome), expected);
}

#[test]
fn a_large_request_is_split_and_is_done_when_its_last_part_is() {
    let mut large = read(1, 0, None);
    large.sectors = 100;
    for nr_requests in [1, 2, 256] {
        let settings = QueueSettings { nr_requests, max_sectors: 30, ..QueueSettings::default() };
        let outcome = run(&[large, read(1, 1, None)], Mode::Open, 1.0, queue(5, 1, settings));
        assert_eq!(times(&outcome), [(0, 20), (1, 25)], "nr_requests {nr_requests}");
        assert_eq!(outcome.measure.read_bytes, 108 * 512);
        assert_eq!(outcome.tally.requests, 5);
    }
}

#[test]
fn an_overloaded_disk_is_recognised_and_the_load_it_would_take_is_true() {
    // 200 requests a second for a disk that does 100.
    let trace: Vec<_> = (0..1000).map(|n| read(1, 5 * n, None)).collect();
    let overloaded = run(&trace, Mode::Open, 1.0, default_queue(10, 1));
    let speed = overloaded.sustainable_speed(1.0).expect("the disk cannot keep up");
    assert!((0.49..=0.51).contains(&speed), "{speed}");
    let relieved = run(&trace, Mode::Open, speed, default_queue(10, 1));
    assert_eq!(relieved.sustainable_speed(speed), None);
    assert!(relieved.measure.all.max() < Nanos(100 * MS));
}

#[test]
fn a_stream_replayed_alone_is_served_as_without_the_others() {
    let trace: Vec<_> = (0..100).flat_map(|n| [read(1, 20 * n, None), read(2, 20 * n + 1, None)]).collect();
    let (_, placement) = survey(&trace);
    let settings = Settings { mode: Mode::Open, speed: 1.0 };
    let build = || default_queue(8, 1);
    let alone = replay_alone(list(&trace), &placement, &build, &settings, Measure::new([1, 2]), &Watch::default()).unwrap();
    let together = run(&trace, Mode::Open, 1.0, build());
    for stream in [1, 2] {
        assert_eq!(alone.streams[&stream].responses.mean(), Nanos(8 * MS));
        assert_eq!(alone.streams[&stream].responses.count(), 100);
    }
    assert_eq!(together.measure.streams[&1].responses.mean(), Nanos(8 * MS));
    assert_eq!(together.measure.streams[&2].responses.mean(), Nanos(15 * MS));
}

#[test]
fn streams_alone_are_served_the_same_in_any_division_among_replays() {
    // Bursts, so that streams queue behind themselves; of stream 7 nothing is asked.
    let request = |n: u64| read(((n + n / 7) % 6 + 1) as u32, n / 40 * 100 + n % 40 / 14, (!n.is_multiple_of(4)).then_some(n % 9));
    let trace: Vec<_> = (0..3000).map(request).collect();
    let (_, placement) = survey(&trace);
    let build = || default_queue(8, 2);
    for mode in [Mode::Open, Mode::Closed] {
        let settings = Settings { mode, speed: 1.0 };
        let alone = |streams: &[StreamId]| {
            let measure = Measure::new(streams.iter().copied());
            replay_alone(list(&trace), &placement, &build, &settings, measure, &Watch::default()).unwrap()
        };
        let whole = alone(&[1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(whole.all.count(), 3000);
        let mut parts = std::collections::BTreeMap::new();
        for part in [&[4, 1][..], &[2, 5, 3, 7], &[6]] {
            let measured = alone(part);
            assert_eq!(measured.all.count(), part.iter().map(|stream| measured.streams[stream].responses.count()).sum::<u64>());
            parts.extend(measured.streams);
        }
        let figures = |streams: &std::collections::BTreeMap<StreamId, StreamMeasure>| -> Vec<_> {
            let figures = |(stream, of): (&StreamId, &StreamMeasure)| {
                let responses = &of.responses;
                (*stream, of.bytes(), responses.count(), responses.mean(), responses.max(), responses.quantile(0.9))
            };
            streams.iter().map(figures).collect()
        };
        assert_eq!(figures(&parts), figures(&whole.streams), "{mode:?}");
    }
}

#[test]
fn a_search_for_one_stream_stops_when_interrupted() {
    let trace: Vec<_> = (0..100_000).map(|n| read(1, n, None)).collect();
    let (_, placement) = survey(&trace);
    let settings = Settings { mode: Mode::Open, speed: 1.0 };
    let build = || default_queue(8, 1);
    let stop = AtomicBool::new(true);
    let watch = Watch { stop: Some(&stop), ..Watch::default() };
    let outcome = replay_alone(list(&trace), &placement, &build, &settings, Measure::new([2]), &watch);
    assert!(matches!(outcome, Err(RunError::Interrupted)));
}

#[test]
fn a_replay_stops_when_interrupted() {
    let trace: Vec<_> = (0..10_000).map(|n| read(1, n, None)).collect();
    let (_, placement) = survey(&trace);
    let stop = AtomicBool::new(true);
    let settings = Settings { mode: Mode::Open, speed: 1.0 };
    let watch = Watch { stop: Some(&stop), ..Watch::default() };
    let outcome = replay(list(&trace), &placement, default_queue(1, 1), &settings, Measure::new([]), &watch, None);
    assert!(matches!(outcome, Err(RunError::Interrupted)));
}

#[test]
fn several_devices_lie_side_by_side_and_the_error_of_a_small_disk_suggests_a_fit() {
    let mut trace = [read(1, 0, None), read(1, 1, None), read(1, 2, None)];
    trace[1].device = 7;
    trace[2].lba = 1 << 31;
    let survey = Survey::take(&mut *list(&trace), |_| true).unwrap().unwrap();
    let refused = Placement::new(&survey, 1 << 30, Fit::Exact).unwrap_err().to_string();
    assert!(refused.contains("--fit compact (98304 sectors)"), "{refused}");
    let compact = Placement::new(&survey, 1 << 30, Fit::Compact).unwrap();
    assert_eq!(trace.each_ref().map(|request| compact.lba(request)), [Some(0), Some(65536 + 1000), Some(32768)]);
    let wide = Placement::new(&survey, 1 << 33, Fit::Exact).unwrap();
    let second = (1 << 31) + 32768 + 1000;
    assert_eq!(trace.each_ref().map(|request| wide.lba(request)), [Some(0), Some(second), Some(1 << 31)]);
    assert_eq!(wide.lba(&TraceRequest { device: 3, ..trace[0] }), None);
}

#[test]
fn a_scheduler_that_waits_is_asked_again_in_time() {
    let scheduler = Patient { patience: Nanos(7 * MS), ..Patient::default() };
    let queue = Queue::new(Box::new(scheduler), Steady::boxed(1, 1), QueueSettings::default());
    let outcome = run(&[read(1, 0, None), read(1, 3, None)], Mode::Open, 1.0, queue);
    assert_eq!(times(&outcome), [(0, 8), (3, 11)]);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a guard against quadratic time needs a clock; the outcome does not depend on it")]
fn a_hundred_thousand_requests_at_one_instant_take_no_time_worth_speaking_of() {
    // Steps that grow with the square of the burst would take minutes.
    let start = std::time::Instant::now();
    for response in [None, Some(0), Some(1_000_000)] {
        let trace: Vec<_> = (0..100_000).map(|n| TraceRequest { lba: n * 8, ..read(1, 7, response) }).collect();
        for mode in [Mode::Open, Mode::Closed] {
            let outcome = run(&trace, mode, 1.0, default_queue(1, 4));
            assert_eq!(outcome.measure.all.count(), 100_000, "{mode:?}, {response:?}");
        }
    }
    let spent = start.elapsed();
    assert!(spent.as_secs() < 20, "{spent:?}");
}
