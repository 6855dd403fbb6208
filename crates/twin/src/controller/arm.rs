//! A candidate, and its measurements under the load.

use block::Nanos;
use control::Setting;
use control::ab_test::{Estimate, error_of_difference};
use observe::Preference;
use observe::merit::{Scored, TOLERANCE};

/// Blocks an arm until the load ends.
pub(super) const NEVER: Nanos = Nanos(u64::MAX);

/// A candidate, and its state under the load.
#[derive(Clone, Debug)]
pub(super) struct Arm {
    pub setting: Setting,
    /// Time before which it is not tried.
    pub blocked_until: Nanos,
    /// Its score under the load when it was last active; `None` without a measurement.
    pub measured: Option<Measured>,
}

impl Arm {
    pub fn new(setting: Setting) -> Arm {
        Arm { setting, blocked_until: Nanos::ZERO, measured: None }
    }
}

/// A measured score.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    pub scored: Scored,
    pub variance: f64,
    /// Number of buckets that it rests on.
    pub buckets: u32,
}

impl Measured {
    /// This score minus another one, and the standard error of the difference, which includes the load's drift.
    pub fn over(&self, other: &Measured, preference: &Preference) -> (f64, f64) {
        (self.scored.over(&other.scored, preference), error_of_difference(self.variance, other.variance))
    }
}

/// Whether a gain is significant and large enough for a change.
pub(super) fn is_significant_gain(gain: f64, error: f64) -> bool {
    Estimate { mean: gain, error }.is_significant_gain(TOLERANCE)
}
