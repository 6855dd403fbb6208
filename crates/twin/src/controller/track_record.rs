//! How earlier predictions compare with measurements, and how others are corrected by that.

use std::collections::BTreeMap;

use control::controller::Prediction;
use observe::merit::TOLERANCE;

/// A failed prediction counts at most as an error of this many error bars.
const MAX_Z: f64 = 3.0;
/// The number of correct predictions that are assumed as a prior, for a device and for one of its schedulers.
const PRIOR: f64 = 4.0;
const SCHEDULER_PRIOR: f64 = 1.0;

/// The number of predictions, and the sum of their squared errors in error bars.
#[derive(Clone, Copy, Debug, Default)]
struct Errors {
    count: f64,
    squares: f64,
}

impl Errors {
    fn note(&mut self, z: f64) {
        (self.count, self.squares) = (self.count + 1.0, self.squares + z * z);
    }

    /// The factor on error bars, with this prior.
    fn scale(&self, prior: f64) -> f64 {
        ((prior + self.squares) / (prior + self.count)).sqrt()
    }
}

/// The predictions of one scheduler: what the twin has wrong of it, it has wrong of all its tunings.
#[derive(Clone, Copy, Debug, Default)]
struct OfScheduler {
    errors: Errors,
    /// By how much gains under this load were predicted too high.
    bias: f64,
}

/// All predictions on a device that were verified.
#[derive(Clone, Debug, Default)]
pub struct TrackRecord {
    all: Errors,
    by_scheduler: BTreeMap<&'static str, OfScheduler>,
}

impl TrackRecord {
    /// The factor on all error bars; 1 without predictions.
    pub fn error_scale(&self) -> f64 {
        self.all.scale(PRIOR)
    }

    /// A prediction corrected by earlier ones of its scheduler: its error bar, and if `is_biased` its gain.
    pub fn corrected(&self, prediction: &Prediction, is_biased: bool) -> Prediction {
        let OfScheduler { errors, bias } = self.by_scheduler.get(prediction.setting.spec.name).copied().unwrap_or_default();
        let gain = prediction.gain - if is_biased { bias } else { 0.0 };
        Prediction { gain, error: prediction.error * errors.scale(SCHEDULER_PRIOR), ..prediction.clone() }
    }

    /// Takes in the measured gain of a prediction.
    pub fn note(&mut self, prediction: &Prediction, gain: f64) {
        let z = ((gain - prediction.gain) / prediction.error.max(TOLERANCE)).clamp(-MAX_Z, MAX_Z);
        self.all.note(z);
        let of = self.by_scheduler.entry(prediction.setting.spec.name).or_default();
        of.errors.note(z);
        // A prediction that was too low does not raise others: its setting was tried.
        of.bias = (of.bias + prediction.gain - gain).max(0.0);
    }

    /// Takes in a prediction whose setting did harm before it could be measured.
    pub fn note_harm(&mut self, prediction: &Prediction) {
        let least = prediction.gain - MAX_Z * prediction.error.max(TOLERANCE);
        self.note(prediction, least.min(0.0));
    }

    /// Forgets the bias, as another load has begun: the twin may be right about that.
    pub fn begin_load(&mut self) {
        self.by_scheduler.values_mut().for_each(|of| of.bias = 0.0);
    }
}
