//! Predicts the performance of every candidate under the observed load.
//!
//! ```text
//! recording ─┬─▶ load, and how its calls relate to requests ──┐
//!            └─▶ device ──────────────────────────────────────┴─▶ replay of the active setting ─▶ trials of candidates ─▶ predictions
//! ```
//! The active setting is replayed first. Its difference from the measurement, the replay error, shows the accuracy of the twin, and widens
//! every error bar. Schedulers are tried first, then the tunings of the best of them. All trials have the same load with the same random
//! draws.

mod activation;
mod candidates;
mod error;
mod rank;
mod request;
mod rig;

use block::Nanos;
use control::Setting;
use control::controller::Prediction;

use crate::call_model::CallModel;
use crate::load::Load;
use crate::recording::ObservedRequest;

pub use self::activation::Activation;
use self::candidates::LoadVariants;
pub(crate) use self::candidates::{
    NR_REQUESTS, differ_by_read_ahead, is_first_of_scheduler, is_within_block_layer, read_ahead_kib,
};
pub use self::error::ForecastError;
use self::rank::{Comparison, error_by_chance, repeat_best, score};
pub(crate) use self::rank::{GAIN_ERROR, judged_requests, rank, widened};
pub use self::request::{Forecast, ForecastRequest};
use self::rig::Trials;
pub(crate) use self::rig::{SwitchFrom, TrialRig};

/// Minimum number of requests of a load for a forecast. Choice: the mean of 50 response times that vary by their mean has an error of 14%;
/// more would delay the first forecast; not varied.
pub const MIN_REQUESTS: usize = 50;
/// Maximum length of a trial: loads hardly stay the same for longer. Choice: longer trials cost budget in proportion; not varied.
pub(crate) const MAX_TRIAL: Nanos = Nanos::from_millis(20_000);
/// Number of best schedulers whose tunings are tried. Choice: trials of all tunings of each further scheduler against a better tuning of a
/// worse one; not varied.
pub(crate) const TUNED_SCHEDULERS: usize = 2;
/// Maximum replay error of a twin, as a difference of log scores: a factor of 1.5. Choice: more forecasts against less accurate ones; not
/// varied.
pub const MAX_REPLAY_ERROR: f64 = 0.4;

impl ForecastRequest<'_> {
    /// Simulates the active setting and every candidate that can be simulated.
    ///
    /// # Errors
    /// There are too few requests, the budget is too small, or the replay error is too large.
    pub fn run(self) -> Result<Forecast, ForecastError> {
        let from = self.latest();
        let in_span = |seen: &&ObservedRequest| seen.completed >= from && seen.request.arrival < self.to;
        let observed = || self.recording.seen().chain(self.recording.flushes());
        let waiting: Vec<ObservedRequest> = self.recording.in_flight().collect();
        let load = Load::infer(observed().chain(&waiting).filter(in_span), from, self.to);
        if load.requests() < MIN_REQUESTS {
            return Err(ForecastError::TooFewRequests(load.requests()));
        }
        let call_model = CallModel::infer(self.recording.calls(), observed(), from, self.to);
        let chance = error_by_chance(observed().filter(in_span), load.requests());
        let rate = load.requests() as f64 / load.span().as_secs_f64();
        let bounds = self.bounds;
        let is_live = self.is_live();
        let from_now = load.from_now().filter(|_| is_live);
        let kib = read_ahead_kib(self.active, bounds.read_ahead_kib);
        let settings = self.candidates.iter().chain([self.original]);
        let loads = LoadVariants::new(from_now.as_ref().unwrap_or(&load), kib, settings, &bounds);
        let is_simulable = |setting: &Setting| loads.is_simulable(setting, self.active, (&bounds, self.activation));
        let candidates: Vec<Setting> =
            self.candidates.iter().filter(|&setting| setting == self.active || is_simulable(setting)).cloned().collect();
        let length = self.trial_length(&load, rate, &candidates);
        let ForecastRequest { active, original, preference, measured, error_scale, .. } = self;
        let rig = TrialRig { device: &**self.device, bounds, load: &load, call_model: call_model.as_ref(), length };
        let mut trials = Trials { rig, knowledge: self.knowledge, requests: 0, services: Vec::new() };
        // A setting that became active during the load also does so in its replay.
        let from = Some(original).filter(|_| is_live && original != active).map(SwitchFrom::new);
        if from.is_some_and(|from| !from.fits_in(active, &length)) {
            return Err(ForecastError::BudgetTooSmall(active.spec.name));
        }
        let mut replay = trials.run(active, from, true).ok_or(ForecastError::NothingServed)?;
        let served = replay.calls.ok_or(ForecastError::NothingServed)?;
        let replay_error = score(&replay, &preference) - measured.score(&preference);
        if !replay_error.is_finite() {
            return Err(ForecastError::NothingServed);
        }
        if replay_error.abs() > MAX_REPLAY_ERROR {
            return Err(ForecastError::ReplayError { twin: served, measured, requests: trials.requests });
        }
        if from_now.is_some() {
            trials.rig.load = loads.observed;
            replay = trials.run(active, from, false).ok_or(ForecastError::NothingServed)?;
        }
        let mut under = |setting: &Setting, from: SwitchFrom| {
            trials.rig.load = loads.under(read_ahead_kib(setting, bounds.read_ahead_kib));
            trials.run(setting, is_live.then_some(from), false)
        };
        let tails = match original == active {
            true => replay.tails.clone(),
            false => under(original, SwitchFrom::new(active)).ok_or(ForecastError::NothingServed)?.tails,
        };
        let comparison = Comparison {
            preference: &preference,
            active: &replay,
            original: &tails,
            replay_error,
            chance,
            judged_requests: judged_requests(length),
            error_scale,
        };
        let mut predict = |setting: &Setting, from: SwitchFrom| Some(comparison.predict(setting, &under(setting, from)?));
        let mut predictions = vec![comparison.predict(active, &replay)];
        let mut try_all = |settings: &mut dyn Iterator<Item = &Setting>| {
            predictions.extend(settings.filter_map(|setting| predict(setting, SwitchFrom::new(active))));
            rank(&mut predictions);
            best_schedulers(&predictions)
        };
        let others = || candidates.iter().filter(|&setting| setting != active);
        let is_first = |setting: &Setting| is_first_of_scheduler(&candidates, setting) || differ_by_read_ahead(setting, active);
        let best = try_all(&mut others().filter(|setting| is_first(setting)));
        try_all(&mut others().filter(|setting| !is_first(setting) && best.contains(&setting.spec.name)));
        if is_live {
            repeat_best(&mut predictions, active, |setting| predict(setting, SwitchFrom::repeated(active)));
        }
        let (streams, requests) = (load.streams().collect(), trials.requests);
        Ok(Forecast { streams, active: served, replay_error, predictions, services: trials.services, requests })
    }
}

/// The schedulers whose tunings are tried, from ranked predictions.
pub(crate) fn best_schedulers(predictions: &[Prediction]) -> Vec<&'static str> {
    let mut best: Vec<&str> = predictions.iter().map(|one| one.setting.spec.name).collect();
    best.dedup();
    best.truncate(TUNED_SCHEDULERS);
    best
}
