//! Sources of expected gains other than the twin.

use super::fleet::Fleet;
use super::learned::Learned;

/// Sources of expected gains that need no forecast.
pub(super) struct Priors {
    /// The model of gains.
    pub learned: Learned,
    /// Measurements of other machines.
    pub fleet: Fleet,
}

impl Priors {
    /// Resets what belongs to a load, for another one.
    pub fn begin_load(&mut self) {
        self.learned.begin_load();
        self.fleet.begin_load();
    }
}
