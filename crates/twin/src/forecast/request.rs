//! The input and the result of a forecast, and the length of its trials.

use std::sync::Arc;

use block::{KnowledgeStore, Nanos};
use control::Setting;
use control::controller::Prediction;
use control::target::Bounds;
use observe::Preference;
use observe::performance::Performance;
use observe::starvation;
use sim::profile::DeviceProfile;

use super::activation::Activation;
use super::candidates::is_first_of_scheduler;
use super::{MAX_TRIAL, MIN_REQUESTS, TUNED_SCHEDULERS};
use crate::load::{Load, Understood};
use crate::recording::Recording;
use crate::trial::{Services, TrialLength};

/// Minimum number of requests of a trial. Choice: the mean of 200 response times that vary by their mean has an error of 7%; more would
/// exceed small budgets; not varied.
const MIN_TRIAL_REQUESTS: u64 = 200;
/// Target number of requests per stream in a trial: somewhat more than its p99 needs. Derived: from [`starvation::LEAST_REQUESTS`], and half as
/// many again for the warm-up and for uneven rates.
const REQUESTS_PER_STREAM: f64 = 1.5 * starvation::LEAST_REQUESTS as f64;

/// The input of a forecast.
///
/// ```
/// use block::{KnowledgeStore, Limits, Nanos, Op, Priority, Request};
/// use control::Setting;
/// use control::target::Bounds;
/// use observe::{Event, Preference};
/// use twin::{Activation, ForecastRequest, Recording, ScoreBuckets};
///
/// // One process reads pages at random from a part of a disk of 7200 turns per minute.
/// let (mut recording, mut scores, mut now) = (Recording::new(), ScoreBuckets::new(), Nanos::ZERO);
/// for number in 0..400 {
///     let (op, priority, lba) = (Op::Read, Priority::DEFAULT, 8 * (number * 7_919_117 % 10_000_019));
///     let request = Request { id: 0, stream: 1, op, sync: true, priority, sectors: 8, lba, arrival: now };
///     let done = now + Nanos::from_millis(5);
///     for event in [Event::Queued(request), Event::Completed { request, dispatched: now, at: done }] {
///         recording.event(&event);
///         scores.event(&event);
///     }
///     now = done;
/// }
/// let profile = sim::profile::load("sata7200").unwrap();
/// let (capacity_sectors, limits) = (profile.capacity_sectors(), Limits::default());
/// let (active, candidates) = (Setting::parse("mq-deadline").unwrap(), [Setting::parse("none").unwrap()]);
/// let forecast = ForecastRequest {
///     recording: &recording,
///     from: Nanos::ZERO,
///     to: now,
///     measured: scores.served(0.0, now.as_secs_f64()).unwrap(),
///     device: &profile.device(),
///     knowledge: &mut KnowledgeStore::new(device_model::sched::all()),
///     active: &active,
///     original: &active,
///     candidates: &candidates,
///     bounds: Bounds { capacity_sectors, limits, nr_requests: 256, read_ahead_kib: None },
///     preference: Preference::default(),
///     max_requests: 2_000,
///     error_scale: 1.0,
///     activation: Activation::AtStart,
/// };
/// let forecast = forecast.run().unwrap();
/// assert_eq!(forecast.predictions.len(), 2, "one for each candidate, and one for the active setting");
/// assert!(forecast.predictions[0].gain < 0.05, "with one request in flight, schedulers do not differ");
/// ```
pub struct ForecastRequest<'a> {
    /// The observed requests and calls.
    pub recording: &'a Recording,
    /// Start of the load, in the recording's time.
    pub from: Nanos,
    /// End of the load: now.
    pub to: Nanos,
    /// Scores measured under the active setting.
    pub measured: Performance,
    /// The device on which trials are simulated.
    pub device: &'a Arc<dyn DeviceProfile>,
    /// Knowledge of learning schedulers about the device. The trial of the active setting adds to it, as on the target they learn from
    /// every request.
    pub knowledge: &'a mut KnowledgeStore,
    /// The active setting.
    pub active: &'a Setting,
    /// The original setting, against which starvation is judged.
    pub original: &'a Setting,
    /// The settings to compare. Those that cannot be simulated are omitted from the forecast.
    pub candidates: &'a [Setting],
    /// Queue limits and capacity of the device.
    pub bounds: Bounds,
    /// The optimisation target.
    pub preference: Preference,
    /// Limit on simulated requests, over all trials.
    pub max_requests: u64,
    /// Factor on all error bars, from the accuracy of earlier predictions; 1 without any.
    pub error_scale: f64,
    /// How the chosen setting will become active.
    pub activation: Activation,
}

/// The result of a forecast.
#[derive(Clone, Debug)]
pub struct Forecast {
    /// The streams of the inferred load.
    pub streams: Vec<Understood>,
    /// Predicted scores of the active setting.
    pub active: Performance,
    /// The predicted score of the active setting less the measured one, as a difference of logarithms.
    pub replay_error: f64,
    /// A prediction for each candidate that could be simulated, and for the active setting; the best first.
    pub predictions: Vec<Prediction>,
    /// The service of each stream under each simulated setting.
    pub services: Vec<(Setting, Services)>,
    /// Number of simulated requests.
    pub requests: u64,
}

impl ForecastRequest<'_> {
    pub(super) fn is_live(&self) -> bool {
        self.activation == Activation::Live
    }

    /// Start of the part of the load that trials repeat. A live trial that is shorter than the load repeats the latest part, which is the
    /// best predictor of the future. A setting that is active from the start is tried on the whole load.
    pub(super) fn latest(&self) -> Nanos {
        if !self.is_live() {
            return self.from;
        }
        let fewest = (MIN_REQUESTS as u64).max(self.requests_per_trial(self.candidates)) as usize;
        let all = self.recording.seen().rev().take_while(|seen| seen.completed >= self.from);
        let all = all.filter(|seen| seen.request.arrival < self.to);
        all.take(fewest + 1).last().map_or(self.from, |seen| seen.completed)
    }

    /// The length of a trial: the observed time, or longer until every stream has enough requests to be judged, within the budget. `rate`
    /// is the load's, in requests per second.
    pub(super) fn trial_length(&self, load: &Load, rate: f64, candidates: &[Setting]) -> TrialLength {
        let slowest = load.streams().map(|stream| stream.rate).filter(|rate| *rate > 1.0).fold(f64::INFINITY, f64::min);
        let wanted_s = load.span().as_secs_f64().max(REQUESTS_PER_STREAM / slowest).min(MAX_TRIAL.as_secs_f64());
        let each = self.requests_per_trial(candidates);
        let lasts = Nanos::from_secs_f64(wanted_s.min(each as f64 / rate));
        // A candidate that is several times as fast has several times the requests. The excess only adds the waits of other streams.
        let max_requests = (2 * each).max(self.max_requests / 4);
        match self.activation {
            Activation::Live => TrialLength::for_live_switch(lasts, max_requests),
            Activation::AtStart => TrialLength::new(lasts, max_requests),
        }
    }

    fn requests_per_trial(&self, candidates: &[Setting]) -> u64 {
        (self.max_requests / (self.trials(candidates) as u64)).max(MIN_TRIAL_REQUESTS)
    }

    /// The approximate number of trials. The best candidate of a live switch is tried twice.
    fn trials(&self, candidates: &[Setting]) -> usize {
        let first = candidates.iter().filter(|setting| is_first_of_scheduler(candidates, setting)).count();
        2 + usize::from(self.is_live()) + first + (candidates.len() - first) * TUNED_SCHEDULERS / first.max(TUNED_SCHEDULERS)
    }
}
