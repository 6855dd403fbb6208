//! A candidate, and how it served the load.

use block::Nanos;
use control::Setting;
use observe::Preference;
use observe::merit::{Scored, TOLERANCE};

/// A difference of this many standard errors is significant (95%).
pub(super) const SIGNIFICANT: f64 = 2.0;
/// What loads drift by between two measurements, as a standard deviation of their scores.
const DRIFT: f64 = 0.01;
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
        (self.scored.over(&other.scored, preference), (self.variance + other.variance + DRIFT * DRIFT).sqrt())
    }
}

/// Whether a gain is significant and large enough for a change.
pub(super) fn is_significant_gain(gain: f64, error: f64) -> bool {
    gain > TOLERANCE.max(SIGNIFICANT * error)
}
