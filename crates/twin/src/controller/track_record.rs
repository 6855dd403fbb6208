//! The accuracy of earlier predictions, by which new ones are corrected.

use std::collections::BTreeMap;

use control::controller::Prediction;
use observe::merit::TOLERANCE;

/// Limit on the error of a prediction, in error bars. Choice: one prediction that is wrong altogether should not widen all others for good;
/// not varied.
const MAX_Z: f64 = 3.0;
/// Prior number of correct predictions for a device. Choice: one failure widens error bars by at most 61%; not varied.
const PRIOR: f64 = 4.0;
/// Prior number of correct predictions for a scheduler. Choice: less than [`PRIOR`], as there are fewer predictions for each; one failure
/// widens error bars by at most 124%; not varied.
const SCHEDULER_PRIOR: f64 = 1.0;

/// Number of predictions, and the sum of their squared errors in error bars.
#[derive(Clone, Copy, Debug, Default)]
struct Errors {
    count: f64,
    squares: f64,
}

impl Errors {
    fn note(&mut self, z: f64) {
        (self.count, self.squares) = (self.count + 1.0, self.squares + z * z);
    }

    /// Factor on error bars, given this prior.
    fn scale(&self, prior: f64) -> f64 {
        ((prior + self.squares) / (prior + self.count)).sqrt()
    }
}

/// Predictions for one scheduler: a model error affects all of its tunings.
#[derive(Clone, Copy, Debug, Default)]
struct OfScheduler {
    errors: Errors,
    /// Overestimate of gains under this load; at least 0.
    bias: f64,
}

/// All verified predictions on a device.
#[derive(Clone, Debug, Default)]
pub struct TrackRecord {
    all: Errors,
    by_scheduler: BTreeMap<&'static str, OfScheduler>,
}

impl TrackRecord {
    /// Factor on all error bars; 1 without predictions.
    pub fn error_scale(&self) -> f64 {
        self.all.scale(PRIOR)
    }

    /// A prediction with its error bar scaled by the accuracy of earlier ones for its scheduler, and if `is_biased` with the bias
    /// subtracted.
    pub fn corrected(&self, prediction: &Prediction, is_biased: bool) -> Prediction {
        let OfScheduler { errors, bias } = self.by_scheduler.get(prediction.setting.spec.name).copied().unwrap_or_default();
        let gain = prediction.gain - if is_biased { bias } else { 0.0 };
        Prediction { gain, error: prediction.error * errors.scale(SCHEDULER_PRIOR), ..prediction.clone() }
    }

    /// Adds the measured gain of a prediction.
    pub fn note(&mut self, prediction: &Prediction, gain: f64) {
        let z = ((gain - prediction.gain) / prediction.error.max(TOLERANCE)).clamp(-MAX_Z, MAX_Z);
        self.all.note(z);
        let of = self.by_scheduler.entry(prediction.setting.spec.name).or_default();
        of.errors.note(z);
        // An underestimate does not raise other predictions, as its setting was tried.
        of.bias = (of.bias + prediction.gain - gain).max(0.0);
    }

    /// Adds a prediction whose setting was harmful before its gain could be measured.
    pub fn note_harm(&mut self, prediction: &Prediction) {
        let least = prediction.gain - MAX_Z * prediction.error.max(TOLERANCE);
        self.note(prediction, least.min(0.0));
    }

    /// Resets the bias at the start of a load, for which the twin may be right.
    pub fn begin_load(&mut self) {
        self.by_scheduler.values_mut().for_each(|of| of.bias = 0.0);
    }
}
