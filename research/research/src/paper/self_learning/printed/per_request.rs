//! Algorithm 3: a model over the request features of Table 2 estimates each request's response time when it arrives, and the request with the
//! shortest estimate goes next.
//!
//! ```text
//! For (each i(R)) { Estimate = ResponseTimeModel(i(R)); Insert(SchedulerQueue, i(R), Estimate) }
//! NR = Head(SchedulerQueue); Schedule(NR); Log(ResponseTime); If (Size(TotalRequest) mod Y == 0) ResponseTimeModel = Run_LearningAlgorithm()
//! ```
//! It is trained by the paper's first method: one scheduler, anticipatory, serves the training workloads, and the response times are
//! collected. The paper leaves open the classes of the "classification model": here [`CLASSES`] with equally many requests each, the estimate
//! being the mean of the class. It also leaves open the order of requests with equal estimates: here the order of arrival. Adjacent requests
//! merge as in every Linux elevator. The model covers every request, so that the default policy of the paper's second method is never used.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use block::queue::{Merging, Placed, Queue, Slot};
use block::{Insertion, Knowledge, Limits, Nanos, Pick, Request, RequestId, Scheduler, SchedulerSpec, StreamId};
use control::controller::{Controller, Decision, Fixed};
use control::{Target, Window, WindowLength};
use observe::Event;
use observe::window::{History, REQUEST_FEATURES, RequestFeatures};

use crate::model::{Dataset, Learner, Model, ModelError, Options, Scratch, train};

macro_rules! spec {
    ($name:literal) => {
        SchedulerSpec {
            name: $name,
            summary: "the request with the shortest response time, as a classifier estimates it at arrival",
            source: "Zhang and Bhargava, Self-Learning Disk Scheduling, algorithm 3 as printed",
            tunables: &[],
            work_conserving: true,
            starvation_bound: None,
            knowledge: None,
            build: |limits, _| Box::new(ShortestEstimate::new(*limits, Known::default())),
        }
    };
}

/// With a support vector machine.
pub static SPEC: SchedulerSpec = spec!("response-time");
/// With logistic regression.
pub static SPEC_LOGISTIC: SchedulerSpec = spec!("response-time-logistic");

/// Number of classes of response times.
const CLASSES: usize = 5;
/// Maximum training samples, taken evenly: training time grows with the square of their number, the time per estimate linearly.
const MOST_SAMPLES: usize = 400;
/// Requests used to choose hyper-parameters, and folds of that cross-validation.
const TUNING_ROWS: usize = 240;
const FOLDS: usize = 3;

/// The features of [`observe`] that are not in Table 2, left column.
const NOT_IN_TABLE_2: [&str; 6] = ["discard", "sync", "sequential_overall", "stream_distance_sectors", "depth", "stream_depth"];

/// The features of a request at its arrival, and its response time.
#[derive(Clone, Debug)]
pub struct Sample {
    features: Vec<f64>,
    seconds: f64,
}

/// Indices of the [`REQUEST_FEATURES`] that are logged.
fn logged() -> Vec<usize> {
    (0..REQUEST_FEATURES.len()).filter(|&feature| !NOT_IN_TABLE_2.contains(&REQUEST_FEATURES[feature].name)).collect()
}

fn row(logged: &[usize], features: &RequestFeatures) -> Vec<f64> {
    let values = features.values();
    logged.iter().map(|&feature| values[feature]).collect()
}

/// A model of response times.
#[derive(Debug)]
pub struct ResponseTimes {
    model: Model,
    /// The mean response time of each of the model's classes, in seconds.
    seconds: Vec<f64>,
}

impl ResponseTimes {
    /// Trains with requests and their response times.
    ///
    /// # Errors
    /// There are no requests, or training fails.
    pub fn learn(samples: &[Sample], learner: &'static dyn Learner, seed: u64) -> Result<ResponseTimes, ModelError> {
        let step = samples.len().div_ceil(MOST_SAMPLES).max(1);
        let samples: Vec<&Sample> = samples.iter().step_by(step).collect();
        let mut times: Vec<f64> = samples.iter().map(|sample| sample.seconds).collect();
        times.sort_by(f64::total_cmp);
        // The lower bound of each class but the first.
        let bounds: Vec<f64> = (1..CLASSES).filter_map(|class| times.get(class * times.len() / CLASSES).copied()).collect();
        let class = |seconds: f64| bounds.iter().filter(|bound| seconds >= **bound).count();
        let mut data = Dataset {
            features: logged().iter().map(|&feature| REQUEST_FEATURES[feature].name.to_owned()).collect(),
            classes: (0..CLASSES).map(|class| class.to_string()).collect(),
            ..Dataset::default()
        };
        let mut sums = [(0.0, 0.0); CLASSES];
        for sample in samples {
            let class = class(sample.seconds);
            data.rows.push(sample.features.clone());
            data.labels.push(class);
            (sums[class].0, sums[class].1) = (sums[class].0 + sample.seconds, sums[class].1 + 1.0);
        }
        let options = Options { seed, folds: FOLDS, tuning_rows: TUNING_ROWS, ..Options::default() };
        let model = train(&data, learner, &options, &mut |_, _| true)?;
        let classes = model.classes().iter().filter_map(|name| name.parse::<usize>().ok());
        let seconds = classes.map(|class| sums[class].0 / sums[class].1).collect();
        Ok(ResponseTimes { model, seconds })
    }

    /// The expected response time in seconds: the mean of the predicted class.
    fn estimate(&self, features: &[f64], scratch: &mut Scratch) -> f64 {
        let (class, _) = self.model.predict_with(features, scratch);
        self.seconds.get(class).copied().unwrap_or(0.0)
    }
}

/// The model, shared with the scheduler, which retrains it after every Y requests.
#[derive(Clone, Default)]
pub struct Known(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    model: Option<Arc<ResponseTimes>>,
    /// Y and the learner; `None` disables learning.
    update: Option<(u64, &'static dyn Learner)>,
    total: u64,
    samples: Samples,
}

impl Known {
    /// A trained model that is retrained after every `update_requests`, the paper's Y.
    pub fn new(model: Arc<ResponseTimes>, update_requests: u64, learner: &'static dyn Learner) -> Known {
        let update = Some((update_requests.max(1), learner));
        Known(Arc::new(Mutex::new(Inner { model: Some(model), update, ..Inner::default() })))
    }

    fn with<T>(&self, look: impl FnOnce(&mut Inner) -> T) -> T {
        // The state is consistent even if another thread panicked while holding the lock.
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Logs a request; retrains the model at multiples of Y.
    fn log(&self, sample: Sample) {
        self.with(|known| {
            let Some((requests, learner)) = known.update else { return };
            known.samples.add(|| sample);
            known.total += 1;
            if known.total.is_multiple_of(requests)
                && let Ok(model) = ResponseTimes::learn(&known.samples.kept, learner, 1)
            {
                known.model = Some(Arc::new(model));
            }
        });
    }
}

impl Knowledge for Known {
    /// Ignored: as printed, it logs only requests that it schedules itself.
    fn learn(&mut self, _request: &Request, _dispatched: Nanos, _completed: Nanos) {}

    fn scheduler(&self, limits: &Limits, _values: &[i64]) -> Box<dyn Scheduler> {
        Box::new(ShortestEstimate::new(*limits, self.clone()))
    }
}

/// An even sample of a stream of bounded size: when it is full, every second element is dropped and the stride doubles.
#[derive(Clone, Debug, Default)]
struct Samples {
    kept: Vec<Sample>,
    /// Base-2 logarithm of the stride: one of 2^n elements is kept.
    stride_log2: u32,
    seen: u64,
}

impl Samples {
    fn add(&mut self, sample: impl FnOnce() -> Sample) {
        if self.seen.is_multiple_of(1 << self.stride_log2) {
            if self.kept.len() == MOST_SAMPLES {
                let mut number = 0;
                self.kept.retain(|_| {
                    number += 1;
                    number % 2 == 1
                });
                self.stride_log2 += 1;
            }
            self.kept.push(sample());
        }
        self.seen += 1;
    }
}

/// The position in the queue: the estimate in nanoseconds, then the order of arrival.
type Place = (u64, u64);

/// A queued or dispatched request.
struct Waiting {
    features: Vec<f64>,
    arrival: Nanos,
    place: Place,
    /// The request, and those merged into it.
    parts: Vec<Request>,
}

struct ShortestEstimate {
    queue: Queue,
    order: BTreeMap<Place, Slot>,
    waiting: BTreeMap<RequestId, Waiting>,
    history: History,
    logged: Vec<usize>,
    known: Known,
    scratch: Scratch,
    arrivals: u64,
}

const LANE: usize = 0;

impl ShortestEstimate {
    fn new(limits: Limits, known: Known) -> ShortestEstimate {
        ShortestEstimate {
            queue: Queue::new(limits, Merging { front: true, within_stream: true }),
            order: BTreeMap::new(),
            waiting: BTreeMap::new(),
            history: History::new(),
            logged: logged(),
            known,
            scratch: Scratch::default(),
            arrivals: 0,
        }
    }
}

impl Scheduler for ShortestEstimate {
    fn insert(&mut self, _now: Nanos, request: Request) -> Insertion {
        let features = row(&self.logged, &self.history.queued(&request));
        let placed = self.queue.insert(LANE, Nanos::ZERO, request);
        match placed {
            Placed::Queued(slot) => {
                let model = self.known.with(|known| known.model.clone());
                let seconds = model.map_or(0.0, |model| model.estimate(&features, &mut self.scratch));
                self.arrivals += 1;
                let place = ((seconds * 1e9) as u64, self.arrivals);
                self.order.insert(place, slot);
                let parts = vec![request];
                self.waiting.insert(request.id, Waiting { features, arrival: request.arrival, place, parts });
            }
            Placed::Merged { into, absorbed } => {
                let absorbed = absorbed.and_then(|absorbed| self.waiting.remove(&absorbed.id));
                if let Some(absorbed) = &absorbed {
                    self.order.remove(&absorbed.place);
                }
                if let Some(into) = self.waiting.get_mut(&into) {
                    into.parts.push(request);
                    into.parts.extend(absorbed.into_iter().flat_map(|absorbed| absorbed.parts));
                }
            }
        }
        placed.into()
    }

    fn pick(&mut self, _now: Nanos) -> Pick {
        match self.order.pop_first() {
            Some((_, slot)) => Pick::Go(self.queue.take(slot)),
            None => Pick::Empty,
        }
    }

    fn completed(&mut self, now: Nanos, request: &Request, _service: Nanos) {
        let Some(Waiting { features, arrival, parts, .. }) = self.waiting.remove(&request.id) else { return };
        parts.iter().for_each(|part| self.history.completed(part, now));
        self.known.log(Sample { features, seconds: (now - arrival).as_secs_f64() });
    }

    fn retune(&mut self, _values: &[i64]) {}

    fn set_limits(&mut self, limits: &Limits) {
        self.queue.set_limits(limits);
    }

    fn drain(&mut self, out: &mut Vec<Request>) {
        self.order.clear();
        self.queue.drain(out);
    }
}

/// Keeps a setting and logs the response times of requests.
pub struct RequestLogger {
    fixed: Fixed,
    history: History,
    logged: Vec<usize>,
    waiting: BTreeMap<(Nanos, StreamId, u64), Vec<f64>>,
    samples: Arc<Mutex<Samples>>,
}

/// The samples of a [`RequestLogger`], to be taken after its run.
pub struct Log(Arc<Mutex<Samples>>);

impl Log {
    /// Removes and returns the samples.
    pub fn take(&self) -> Vec<Sample> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner).kept)
    }
}

impl RequestLogger {
    /// A logger, and access to its samples.
    pub fn new(fixed: Fixed) -> (RequestLogger, Log) {
        let samples = Arc::default();
        let log = Log(Arc::clone(&samples));
        (RequestLogger { fixed, history: History::new(), logged: logged(), waiting: BTreeMap::new(), samples }, log)
    }
}

impl Controller for RequestLogger {
    fn name(&self) -> &'static str {
        self.fixed.name()
    }

    fn begin(&mut self, now: Nanos, target: &dyn Target) -> Decision {
        self.fixed.begin(now, target)
    }

    fn window_length(&self) -> WindowLength {
        self.fixed.window_length()
    }

    fn event(&mut self, event: &Event) -> bool {
        let key = |request: &Request| (request.arrival, request.stream, request.lba);
        match event {
            Event::Queued(request) => {
                let features = row(&self.logged, &self.history.queued(request));
                self.waiting.insert(key(request), features);
            }
            Event::Completed { request, at, .. } => {
                self.history.completed(request, *at);
                if let Some(features) = self.waiting.remove(&key(request)) {
                    let seconds = (*at - request.arrival).as_secs_f64();
                    self.samples.lock().unwrap_or_else(PoisonError::into_inner).add(|| Sample { features, seconds });
                }
            }
            _ => {}
        }
        false
    }

    fn decide(&mut self, window: &Window, target: &dyn Target) -> Decision {
        self.fixed.decide(window, target)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use block::{Op, Priority};

    use super::*;
    use crate::model::learner;

    fn request(id: RequestId, op: Op, lba: u64) -> Request {
        Request {
            id,
            stream: id,
            op,
            sync: true,
            priority: Priority::DEFAULT,
            sectors: 8,
            lba,
            arrival: Nanos::from_millis(u64::from(id)),
        }
    }

    /// Reads take 1 to 2 ms, writes 8 to 10 ms.
    fn samples() -> Vec<Sample> {
        let mut history = History::new();
        let one = |number: u32| {
            let op = if number.is_multiple_of(2) { Op::Read } else { Op::Write };
            let features = row(&logged(), &history.queued(&request(number, op, u64::from(number) * 1000)));
            let among = f64::from(number % 10) / 10.0;
            Sample { features, seconds: if op == Op::Read { 0.001 + 0.001 * among } else { 0.008 + 0.002 * among } }
        };
        (0..100).map(one).collect()
    }

    #[test]
    fn the_request_with_the_shortest_estimate_goes_first_and_of_equals_the_one_that_came_first() {
        let tree = learner("c4.5").unwrap();
        let model = ResponseTimes::learn(&samples(), tree, 1).unwrap();
        let mut scheduler = ShortestEstimate::new(Limits::default(), Known::new(Arc::new(model), 1000, tree));
        // Two writes, then two reads, far from each other: reads are estimated shorter, so the queue is read 3, read 4, write 1, write 2.
        for (id, op, lba) in [(1, Op::Write, 1_000), (2, Op::Write, 90_000), (3, Op::Read, 50_000), (4, Op::Read, 500_000)] {
            assert_eq!(scheduler.insert(Nanos::from_millis(id), request(id as u32, op, lba)), Insertion::Queued);
        }
        let estimates: Vec<u64> = scheduler.order.keys().map(|place| place.0).collect();
        assert!(estimates[0] <= 2_000_000 && estimates[3] >= 8_000_000, "{estimates:?}");
        let mut order = Vec::new();
        while let Pick::Go(request) = scheduler.pick(Nanos::from_millis(9)) {
            order.push(request.op);
        }
        assert_eq!(order, [Op::Read, Op::Read, Op::Write, Op::Write]);
    }

    #[test]
    fn after_y_requests_the_model_is_learned_again_from_what_they_took() {
        let tree = learner("c4.5").unwrap();
        let model = Arc::new(ResponseTimes::learn(&samples(), tree, 1).unwrap());
        let known = Known::new(Arc::clone(&model), 3, tree);
        let mut scheduler = ShortestEstimate::new(Limits::default(), known.clone());
        for id in 1..=3 {
            scheduler.insert(Nanos::from_millis(u64::from(id)), request(id, Op::Read, u64::from(id) * 100_000));
            let Pick::Go(sent) = scheduler.pick(Nanos::from_millis(10)) else { panic!("nothing to do") };
            assert!(known.with(|known| Arc::ptr_eq(known.model.as_ref().unwrap(), &model)), "before request {id}");
            scheduler.completed(Nanos::from_millis(20), &sent, Nanos::from_millis(10));
        }
        assert!(known.with(|known| !Arc::ptr_eq(known.model.as_ref().unwrap(), &model)), "3 is a multiple of 3");
    }

    #[test]
    fn nothing_is_lost_or_served_twice_where_requests_merge_and_complete_out_of_order() {
        let tree = learner("c4.5").unwrap();
        let known = Known::new(Arc::new(ResponseTimes::learn(&samples(), tree, 1).unwrap()), 50, tree);
        let mut scheduler = ShortestEstimate::new(Limits::default(), known);
        let (mut came, mut went) = (0, 0);
        for number in 0..400_u32 {
            // One stream per operation, so that every other request is adjacent to a queued or completed one.
            let op = if number % 3 == 0 { Op::Write } else { Op::Read };
            let next = Request { stream: 1, ..request(number, op, u64::from(number * 7 % 64) * 8) };
            came += u64::from(next.sectors);
            scheduler.insert(Nanos::from_millis(u64::from(number)), next);
            if number % 5 == 4 {
                while let Pick::Go(sent) = scheduler.pick(Nanos::from_millis(u64::from(number))) {
                    went += u64::from(sent.sectors);
                    scheduler.completed(Nanos::from_millis(u64::from(number) + 1), &sent, Nanos::from_millis(1));
                }
            }
        }
        let mut rest = Vec::new();
        scheduler.drain(&mut rest);
        assert_eq!(came, went + rest.iter().map(|request| u64::from(request.sectors)).sum::<u64>());
        assert_eq!((scheduler.pick(Nanos::from_millis(1000)), scheduler.history.depth()), (Pick::Empty, rest.len() as u64));
    }

    #[test]
    fn algorithm_3_keeps_the_rules_of_every_scheduler_before_it_was_trained_and_gives_and_takes_requests() {
        for spec in [&SPEC, &SPEC_LOGISTIC] {
            block::conformance::assert_conforms(spec, 32);
        }
        let deadline = block::find("deadline").unwrap();
        block::conformance::assert_switches(&SPEC, deadline, 16);
        block::conformance::assert_switches(deadline, &SPEC, 16);
    }
}
