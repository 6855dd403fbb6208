//! Queries the twin: fits the device, and forecasts every arm.

use std::sync::Arc;

use block::{KnowledgeStore, Nanos};
use control::ab_test::CRITICAL_VALUE;
use control::controller::Prediction;
use control::{Setting, Target};
use device_model::sched;
use sim::profile::DeviceProfile;

use super::track_record::TrackRecord;
use super::{EARLY_REFIT, REFIT, SIMULATED_REQUEST_NS, TwinController, sample};
use crate::device::{self, Finding, MAX_FITTED, TurnSearch};
use crate::forecast::{Activation, Forecast, ForecastError, ForecastRequest, rank, widened};

/// Minimum number of observed requests for a forecast: with fewer, a few seeks or cache hits would determine it. Choice: the mean of 100
/// response times that vary by their mean has an error of 10%; more would delay the first forecast; not varied.
const MIN_FORECAST_REQUESTS: usize = 100;

/// The model of the device, and how accurate it was.
#[derive(Default)]
pub(super) struct DeviceModel {
    /// The fitted device; `None` before the first fit.
    pub device: Option<FittedDevice>,
    /// When the replay error was too large; `None` if it is not, or the device was fitted since.
    pub mismatch: Option<Nanos>,
    /// Why the latest forecast of the load failed; `None` if it did not.
    pub no_forecast: Option<String>,
    /// The searches for its rotation in earlier fits.
    pub rotation: TurnSearch,
    /// The accuracy of earlier predictions.
    pub track_record: TrackRecord,
}

/// The fitted device.
pub(super) struct FittedDevice {
    pub profile: Arc<dyn DeviceProfile>,
    pub findings: Vec<Finding>,
    pub accesses: usize,
    /// Number of requests observed at the time of the fit, in total and under the current load.
    pub seen: usize,
    pub of_load: usize,
    /// Knowledge of learning schedulers about this model.
    pub knowledge: KnowledgeStore,
}

impl FittedDevice {
    /// Whether it is behind a limit of its rate.
    pub fn is_limited(&self) -> bool {
        device::is_limited(&self.findings)
    }
}

impl TwinController {
    /// Refits the device if twice as many requests have been observed, or somewhat more after a mismatch. Spends at most half of the
    /// credit.
    fn fit(&mut self, capacity_sectors: u64) -> Result<(), String> {
        let seen = self.seen.recording.seen().len();
        let of_load = seen - self.seen.recording.done_before(self.present.load.from);
        let affordable = sample::affordable(self.cpu.credit_ns / 2.0);
        if let Some(device) = &self.model.device {
            // After a mismatch only requests of this load count: others may not show the properties that matter now.
            let tells_more = match self.model.mismatch {
                Some(_) => of_load as f64 >= EARLY_REFIT * device.of_load as f64,
                None => seen as f64 >= REFIT * device.seen as f64,
            };
            if !tells_more || affordable < device.accesses.min(seen) / 2 {
                return Ok(());
            }
        }
        let accesses = seen.min(MAX_FITTED).min(affordable);
        let sample = sample::sample(&self.seen.recording, self.timeline.changes.iter().copied(), accesses);
        let searches = self.model.rotation.searches;
        let fitted = device::fit_again(&sample, Some(capacity_sectors), &mut self.model.rotation);
        let searches = self.model.rotation.searches - searches;
        self.cpu.credit_ns -= sample::costs_ns(accesses, searches);
        let fitted = fitted.map_err(|error| error.to_string())?;
        let mut knowledge = KnowledgeStore::new(sched::all());
        knowledge.set_rotation(fitted.turn());
        self.model.device =
            Some(FittedDevice { profile: fitted.profile(), findings: fitted.findings, accesses, seen, of_load, knowledge });
        self.model.mismatch = None;
        Ok(())
    }

    /// Forecasts every arm. Spends at most half of the credit that the fit left.
    pub(super) fn forecast(&mut self, now: Nanos, target: &dyn Target) -> Result<Forecast, String> {
        let bounds = target.bounds();
        self.fit(bounds.capacity_sectors)?;
        // A mismatch is assumed to persist until the age of the load has doubled.
        if let Some(at) = self.model.mismatch.filter(|&at| (now - self.present.load.from).0 < 2 * (at - self.present.load.from).0) {
            return Err(format!("model mismatch {:.0} s ago; waiting for more data", (now - at).as_secs_f64()));
        }
        let of_load = self.seen.recording.seen().len() - self.seen.recording.done_before(self.present.load.from);
        if of_load < MIN_FORECAST_REQUESTS {
            return Err(format!("{of_load} requests are too few"));
        }
        let error_scale = self.model.track_record.error_scale();
        let from = self.observed_from().max(self.seen.recording.known_from());
        let device = self.model.device.as_mut().ok_or("no device was fitted")?;
        let measured =
            self.seen.buckets.served(self.timeline.measured_from.as_secs_f64(), now.as_secs_f64()).ok_or("no request completed")?;
        let candidates: Vec<Setting> = self.arms.iter().map(|arm| arm.setting.clone()).collect();
        let request = ForecastRequest {
            recording: &self.seen.recording,
            from,
            to: now,
            measured,
            device: &device.profile,
            knowledge: &mut device.knowledge,
            active: &self.arms[self.active].setting,
            original: &self.arms[self.original].setting,
            candidates: &candidates,
            bounds,
            preference: self.preference,
            max_requests: (self.cpu.credit_ns / 2.0 / SIMULATED_REQUEST_NS) as u64,
            error_scale,
            activation: Activation::Live,
        };
        let forecast = request.run();
        self.model.mismatch = matches!(forecast, Err(ForecastError::ReplayError { .. })).then_some(now);
        let requests = match &forecast {
            Ok(Forecast { requests, .. }) | Err(ForecastError::ReplayError { requests, .. }) => *requests,
            Err(_) => 0,
        };
        self.cpu.credit_ns -= requests as f64 * SIMULATED_REQUEST_NS;
        let mut forecast = forecast.map_err(|error| error.to_string())?;
        if forecast.predictions.iter().any(|one| one.gain.is_nan()) {
            return Err(format!("the twin serves nothing under {}", self.setting()));
        }
        forecast.predictions = self.calibrated(&forecast.predictions);
        Ok(forecast)
    }

    /// The predictions, corrected by the accuracy of earlier ones for their schedulers and by measurements; the best first.
    pub(super) fn calibrated(&self, predictions: &[Prediction]) -> Vec<Prediction> {
        // The active scheduler is measured, so its predictions are not corrected by their bias.
        let active = self.setting().spec.name;
        let contradiction = self.contradiction(predictions);
        let corrected = |one: &Prediction| self.model.track_record.corrected(one, one.setting.spec.name != active);
        let mut calibrated: Vec<Prediction> = predictions.iter().map(|one| widened(corrected(one), contradiction)).collect();
        rank(&mut calibrated);
        calibrated
    }

    /// The largest error of a predicted difference between the active setting and a measured one, beyond chance; 0 if there is none.
    /// Schedulers that classify processes by their start are excluded, as their live switches vary.
    fn contradiction(&self, predictions: &[Prediction]) -> f64 {
        let Some(is) = self.arms[self.active].measured else { return 0.0 };
        let wrong = predictions.iter().filter_map(|prediction| {
            let arm = self.arm_of(&prediction.setting)?;
            let measured = self.arms[arm].measured.filter(|_| arm != self.active && self.is_comparable_to(&self.arms[arm]))?;
            let (actual, error) = measured.over(&is, &self.preference);
            (prediction.setting.spec.live_switch().min_readers == 0)
                .then(|| (prediction.gain - actual).abs() - CRITICAL_VALUE * error)
        });
        wrong.fold(0.0, f64::max)
    }
}
