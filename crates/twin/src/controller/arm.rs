//! A candidate, and how it served the load.

use block::Nanos;
use control::Setting;
use control::ab_test::{Estimate, error_of_difference};
use observe::Preference;
use observe::merit::{Scored, TOLERANCE};

/// An arm that is blocked until the load ends.
pub(super) const NEVER: Nanos = Nanos(u64::MAX);

/// A candidate, and what is known of it under the load.
#[derive(Clone, Debug)]
pub(super) struct Arm {
    pub setting: Setting,
    /// It is not tried before this time.
    pub blocked_until: Nanos,
    /// How it served the load when it was last active.
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
}

impl Measured {
    /// This score less another one, and the standard error of that, which includes the load's drift.
    pub fn over(&self, other: &Measured, preference: &Preference) -> (f64, f64) {
        (self.scored.over(&other.scored, preference), error_of_difference(self.variance, other.variance))
    }
}

/// Whether a gain is significant and large enough for a change.
pub(super) fn is_significant_gain(gain: f64, error: f64) -> bool {
    Estimate { mean: gain, error }.is_significant_gain(TOLERANCE)
}
