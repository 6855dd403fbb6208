//! What came of promises, and what others are worth by that.

use std::collections::BTreeMap;

use control::controller::Prediction;
use observe::merit::TOLERANCE;

/// One promise that is not kept counts at most as an error of so many error bars.
const MOST_BROKEN: f64 = 3.0;
/// What came of promises counts as if so many had been kept before; and of those of one scheduler, as if one had been.
const KEPT_BEFORE: f64 = 4.0;
const KEPT_OF_ONE: f64 = 1.0;

/// What came of promises: how many, and the sum of the squares of their errors by their error bars.
#[derive(Clone, Copy, Debug, Default)]
struct Kept {
    count: f64,
    squares: f64,
}

impl Kept {
    fn note(&mut self, z: f64) {
        (self.count, self.squares) = (self.count + 1.0, self.squares + z * z);
    }

    /// How many times as wide as usual error bars are, if so many promises had been kept before.
    fn unsure(&self, before: f64) -> f64 {
        ((before + self.squares) / (before + self.count)).sqrt()
    }
}

/// Of one scheduler: what the twin has wrong of it, it has wrong of all its tunings.
#[derive(Clone, Copy, Debug, Default)]
struct Trust {
    kept: Kept,
    /// By how much the latest promise under this load was too high.
    too_high: f64,
}

/// What came of all promises on a device.
#[derive(Clone, Debug, Default)]
pub struct Promises {
    all: Kept,
    of: BTreeMap<&'static str, Trust>,
}

impl Promises {
    /// How many times as wide as usual error bars are.
    pub fn unsure(&self) -> f64 {
        self.all.unsure(KEPT_BEFORE)
    }

    /// What is left of a promise, by what came of others of its scheduler. `is_biased`: of what was promised too much before, this is.
    pub fn trusted(&self, promise: &Prediction, is_biased: bool) -> Prediction {
        let Trust { kept, too_high } = self.of.get(promise.setting.spec.name).copied().unwrap_or_default();
        let gain = promise.gain - if is_biased { too_high } else { 0.0 };
        Prediction { gain, error: promise.error * kept.unsure(KEPT_OF_ONE), ..promise.clone() }
    }

    /// This came of a promise.
    pub fn note(&mut self, promise: &Prediction, gain: f64) {
        let z = ((gain - promise.gain) / promise.error.max(TOLERANCE)).clamp(-MOST_BROKEN, MOST_BROKEN);
        self.all.note(z);
        let trust = self.of.entry(promise.setting.spec.name).or_default();
        trust.kept.note(z);
        // What was promised too little is not promised more: it was tried.
        trust.too_high = (trust.too_high + promise.gain - gain).max(0.0);
    }

    /// It did such harm that nobody waited for a measurement.
    pub fn note_broken(&mut self, promise: &Prediction) {
        let least = promise.gain - MOST_BROKEN * promise.error.max(TOLERANCE);
        self.note(promise, least.min(0.0));
    }

    /// Another load has begun: of that the twin may be right.
    pub fn begin_load(&mut self) {
        self.of.values_mut().for_each(|trust| trust.too_high = 0.0);
    }
}
