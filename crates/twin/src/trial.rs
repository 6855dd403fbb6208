//! A trial: the load on a simulated device under a setting, measured as on the target.

use std::cell::Cell;
use std::collections::BTreeMap;

use block::{Nanos, Op, Request, Scheduler, SchedulerSpec, StreamId};
use observe::Event;
use observe::performance::Performance;
use observe::starvation::{Tail, Tails};
use sim::host::Queue;
use sim::run::{
    Finished, Flushed, Issue, Measure, Pilot, Responses, RunError, Server, ServerEvent, Steerable, StreamMeasure, Watch,
};

use crate::call_model::{CallModel, StreamProgress};
use crate::load::{Asked, Load, Replayed};
use crate::score_buckets::{BUCKET, ScoreBuckets};

/// Usual number of requests of a trial: enough to distinguish settings that differ by two percent, few enough for a population in a second.
/// Choice: the mean of 3,000 response times that vary by their mean has an error of 1.8%; not varied.
pub(crate) const REQUESTS: f64 = 3_000.0;
/// Minimum number of buckets in the judged part of a trial. Choice: fewer show no fairness over time; shorter buckets hold too few
/// requests; not varied.
const MIN_BUCKETS: u64 = 8;
/// Fraction of a trial that is warm-up. Choice: transients left in the judged part against requests that are simulated but not judged; not
/// varied.
const WARMUP: f64 = 0.2;
/// Warm-up of a live switch: bfq decides after 600 ms which queues it merges (`bfq_late_stable_merging` in `block/bfq-iosched.c`), and has
/// its tunables [written](block::LiveSwitch) nearly as late. Derived: the 600 ms and a margin; 750 ms before the delay of the tunables was
/// known (commit 6575a993).
pub(crate) const SWITCH_WARMUP: Nanos = Nanos::from_millis(1_000);
/// Maximum of [`SWITCH_WARMUP`], as a fraction of the trial. Choice: half of a short trial remains to be judged; not varied.
const MAX_SWITCH_WARMUP: f64 = 0.5;

/// The length of a trial.
#[derive(Clone, Copy, Debug)]
pub struct TrialLength {
    /// The first part, which is not judged: queues and caches fill.
    pub warmup: Nanos,
    /// The second part, which is judged.
    pub judged: Nanos,
    /// The trial ends early after this number of requests.
    pub max_requests: u64,
}

impl TrialLength {
    /// A trial of this length, with the usual warm-up.
    pub fn new(whole: Nanos, max_requests: u64) -> TrialLength {
        TrialLength::with_warmup(whole, Nanos::from_secs_f64(whole.as_secs_f64() * WARMUP), max_requests)
    }

    /// A trial of this length with a live switch in its warm-up.
    pub fn for_live_switch(whole: Nanos, max_requests: u64) -> TrialLength {
        let share = |share: f64| Nanos::from_secs_f64(whole.as_secs_f64() * share);
        TrialLength::with_warmup(whole, share(WARMUP).max(SWITCH_WARMUP.min(share(MAX_SWITCH_WARMUP))), max_requests)
    }

    /// Whether the warm-up is long enough for this scheduler to settle after a live switch.
    pub fn shows_live_switch(&self, scheduler: &SchedulerSpec) -> bool {
        self.warmup >= SWITCH_WARMUP || scheduler.live_switch().settle_time == Nanos::ZERO
    }

    fn with_warmup(whole: Nanos, warmup: Nanos, max_requests: u64) -> TrialLength {
        TrialLength { warmup, judged: whole - warmup, max_requests }
    }

    /// A trial of another length with the same share of warm-up.
    pub fn scaled_to(self, whole: Nanos) -> TrialLength {
        let share = self.warmup.as_secs_f64() / (self.warmup + self.judged).as_secs_f64();
        TrialLength::with_warmup(whole, Nanos::from_secs_f64(whole.as_secs_f64() * share), self.max_requests)
    }
}

/// A setting that becomes active during a trial. The time has lasting effects: every stream's queue under the new scheduler starts then,
/// and bfq merges queues that started together. Linux lets the old scheduler serve all queued requests, and admits no others meanwhile
/// (`blk_mq_freeze_queue` in `elevator_switch`, `block/elevator.c`). The new one first receives one request of every stream, and of those
/// that read at a [live switch](block::LiveSwitch), and each is dispatched before the tunables are written.
pub struct Successor {
    /// Time of the change within the trial.
    pub at: Nanos,
    /// The change.
    pub change: Change,
}

/// What a live switch changes.
pub enum Change {
    /// The scheduler, then the values of its tunables: Linux starts a scheduler with its defaults, under which it serves requests that
    /// arrive until the values are written.
    Scheduler(Box<dyn Scheduler>, Vec<i64>),
    /// Values of tunables only.
    Values(Vec<i64>),
}

/// Delay from the switch of a scheduler to the writing of its tunables. Choice: the order of a write to sysfs, small compared with the
/// switch (31 to 40 ms); not varied.
const WRITE_TIME: Nanos = Nanos::from_millis(1);

/// Service of each stream and direction.
pub type Services = BTreeMap<(StreamId, Op), Service>;

/// Service of a stream's requests in one direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Service {
    /// Number of completed requests.
    pub requests: u64,
    /// Bytes per second of the trial.
    pub bytes_per_s: f64,
    /// Mean response time in seconds.
    pub mean_s: f64,
    /// p99 response time in seconds.
    pub p99_s: f64,
}

/// Service of all streams. Response times of read-ahead are per 128 KiB, as on the target; `weights` has the divisor of each stream.
fn services(streams: &BTreeMap<StreamId, StreamMeasure>, weights: &BTreeMap<StreamId, f64>, lasts: Nanos) -> Services {
    let directions = streams.iter().flat_map(|(&stream, measure)| {
        let of = |op, responses, bytes| ((stream, op), responses, bytes);
        [of(Op::Read, &measure.reads, measure.read_bytes), of(Op::Write, &measure.writes, measure.written_bytes)]
    });
    let served = directions.filter(|(_, responses, _)| responses.count() > 0);
    let service = |(key, responses, bytes): ((StreamId, Op), &Responses, u64)| {
        let weight = if key.1 == Op::Read { weights.get(&key.0).copied().unwrap_or(1.0) } else { 1.0 };
        let service = Service {
            requests: responses.count(),
            bytes_per_s: bytes as f64 / lasts.as_secs_f64().max(f64::MIN_POSITIVE),
            mean_s: responses.mean().as_secs_f64() / weight,
            p99_s: responses.quantile(0.99).as_secs_f64() / weight,
        };
        (key, service)
    };
    served.map(service).collect()
}

/// The result of a trial.
#[derive(Clone, Debug)]
pub struct TrialResult {
    /// Performance of requests in the judged part; `None` if none completed.
    pub served: Option<Performance>,
    /// Performance of calls in the judged part; that of requests if no calls were observed.
    pub calls: Option<Performance>,
    /// p99 response times of streams, over the whole trial.
    pub tails: Tails,
    /// Service of each stream and direction, over the whole trial.
    pub services: Services,
    /// Number of completed requests.
    pub requests: u64,
    /// End of the trial.
    pub until: Nanos,
}

/// Runs the load through `queue`, which must be idle, with a live switch if there is a successor. `on_event` receives every event.
///
/// # Errors
/// The run was stopped.
pub fn run(
    load: &Load,
    (mut queue, successor): (Queue, Option<Successor>),
    length: TrialLength,
    call_model: Option<&CallModel>,
    watch: &Watch,
    on_event: &mut dyn FnMut(&Event),
) -> Result<TrialResult, RunError> {
    let TrialLength { warmup, judged, max_requests } = length;
    let bucket = BUCKET.min(Nanos(judged.0 / MIN_BUCKETS)).max(Nanos(1));
    let frozen = Cell::new(false);
    let mut recorder = Recorder {
        frozen: &frozen,
        in_flight: 0,
        buckets: ScoreBuckets::with_length(bucket),
        from: warmup,
        until: warmup + judged,
        left: max_requests,
        successor,
        call_model,
        progress: BTreeMap::new(),
        on_event,
    };
    let measure = Measure::new(load.streams().map(|one| one.stream));
    let source = Replayed::new(load, queue.capacity_sectors(), warmup + judged, max_requests);
    let mut server = FlushingQueue { queue: &mut queue, flushed: Vec::new(), frozen: &frozen };
    let measure = sim::run::run(source, &mut server, measure, watch, Some(&mut recorder))?;
    let until = recorder.until;
    recorder.buckets.until(until);
    if let Some(model) = call_model {
        recorder.progress.iter_mut().for_each(|(stream, progress)| progress.close(until, *stream, model, warmup));
    }
    let judged = until - warmup;
    let weights = load.response_weights();
    let served = recorder.buckets.served(warmup.as_secs_f64(), until.as_secs_f64());
    let tails = measure.streams.iter().filter_map(|(stream, measure)| {
        let responses = &measure.responses;
        let tail = match call_model {
            // A stream without completions waited for the whole trial.
            _ if responses.count() == 0 => Tail { requests: 1, p99_s: until.as_secs_f64() },
            None => {
                // Response times of read-ahead are per 128 KiB, as on the target.
                let weight = weights.get(stream).copied().unwrap_or(1.0);
                Tail { requests: responses.count(), p99_s: responses.quantile(0.99).as_secs_f64() / weight }
            }
            Some(model) => model.tail(*stream, responses)?,
        };
        Some((*stream, tail))
    });
    Ok(TrialResult {
        served,
        calls: served.map(|served| call_model.map_or(served, |model| model.served(&served, &recorder.progress, judged))),
        tails: tails.collect(),
        services: services(&measure.streams, &weights, until),
        requests: measure.completed(),
        until,
    })
}

/// A queue that also accepts flushes.
struct FlushingQueue<'a> {
    queue: &'a mut Queue,
    /// Flushes of a device without a write cache, which complete at once.
    flushed: Vec<Flushed>,
    /// While set, queued requests are served and no others are admitted.
    frozen: &'a Cell<bool>,
}

impl Server for FlushingQueue<'_> {
    type Work = Asked;

    fn has_room(&self) -> bool {
        !self.frozen.get() && self.queue.has_room()
    }

    fn admit(&mut self, now: Nanos, asked: Asked) {
        match asked {
            Asked::Transfer(issue) => self.queue.admit(now, issue),
            Asked::Flush(stream, token) => {
                if !self.queue.flush(now, stream, token) {
                    self.flushed.push(Flushed { arrival: now, stream, token, at: now });
                }
            }
        }
    }

    fn next_event(&self) -> Option<Nanos> {
        let flushed = self.flushed.first().map(|flushed| flushed.at);
        [flushed, self.queue.next_event()].into_iter().flatten().min()
    }

    fn advance(&mut self, now: Nanos, finished: &mut Vec<Finished>) {
        finished.extend(self.flushed.drain(..).map(Finished::Flush));
        self.queue.advance(now, finished);
    }

    fn dispatch(&mut self, now: Nanos) {
        self.queue.dispatch(now);
    }

    fn steerable(&mut self) -> Option<&mut dyn Steerable> {
        self.queue.steerable()
    }
}

struct Recorder<'a> {
    /// See [`FlushingQueue`].
    frozen: &'a Cell<bool>,
    /// Requests queued or in flight.
    in_flight: u32,
    buckets: ScoreBuckets,
    from: Nanos,
    until: Nanos,
    /// Requests until the trial ends early.
    left: u64,
    successor: Option<Successor>,
    call_model: Option<&'a CallModel>,
    progress: BTreeMap<StreamId, StreamProgress>,
    on_event: &'a mut dyn FnMut(&Event),
}

impl Pilot for Recorder<'_> {
    fn events(&mut self, noted: &[ServerEvent]) {
        for event in noted.iter().map(event) {
            self.buckets.event(&event);
            (self.on_event)(&event);
            match &event {
                Event::Queued(request) => {
                    self.in_flight += 1;
                    self.left = self.left.saturating_sub(1);
                    if self.left == 0 {
                        self.until = self.until.min(request.arrival);
                    }
                }
                Event::Completed { .. } => self.in_flight -= 1,
                _ => {}
            }
            let Some(model) = self.call_model else { continue };
            match &event {
                Event::Queued(request) => self.progress.entry(request.stream).or_default().queued(request, self.from),
                Event::Completed { request, at, .. } if *at < self.until => {
                    self.progress.entry(request.stream).or_default().completed(request, *at, model, self.from);
                }
                Event::Flushed { stream, asked, at } if *at < self.until => {
                    self.progress.entry(*stream).or_default().flushed((*asked, *at), *stream, model, self.from);
                }
                _ => {}
            }
        }
    }

    fn next_step(&self, _quiet_until: Nanos) -> Option<Nanos> {
        let successor = self.successor.as_ref().filter(|_| !self.frozen.get() || self.in_flight == 0);
        successor.map(|successor| successor.at)
    }

    fn step(&mut self, now: Nanos, target: &mut dyn Steerable) -> bool {
        let Some(successor) = self.successor.take() else { return false };
        match successor.change {
            Change::Scheduler(..) if self.in_flight > 0 => {
                self.frozen.set(true);
                self.successor = Some(successor);
                return false;
            }
            Change::Scheduler(scheduler, values) => {
                self.frozen.set(false);
                let written = target.switch_time() + scheduler.live_switch().settle_time.max(WRITE_TIME);
                target.switch(now, scheduler);
                self.successor = Some(Successor { at: now + written, change: Change::Values(values) });
            }
            Change::Values(values) => target.retune(&values),
        }
        true
    }
}

/// Converts to the event that a controller would receive.
pub fn event(noted: &ServerEvent) -> Event {
    match noted {
        ServerEvent::Issued(issue) => Event::Queued(request(issue)),
        ServerEvent::Finished(done) => Event::Completed { request: request(&done.issue), dispatched: done.dispatched, at: done.at },
        ServerEvent::Flushed(done) => Event::Flushed { stream: done.stream, asked: done.arrival, at: done.at },
        ServerEvent::Called { stream, at } => Event::Called { stream: *stream, at: *at },
        ServerEvent::Returned(done) => {
            let (op, bytes) = match done.transfer() {
                Some(done) => (done.issue.op, u64::from(done.issue.sectors) * 512),
                None => (Op::Write, 0),
            };
            Event::Returned { stream: done.stream(), op, bytes, called: done.arrival(), at: done.at() }
        }
    }
}

fn request(issue: &Issue) -> Request {
    let &Issue { arrival, lba, sectors, op, sync, stream, priority, .. } = issue;
    Request { id: 0, stream, op, sync, priority, sectors, lba, arrival }
}
