//! A run as it is handed to the knowledge base.

use observe::Preference;

use crate::steered::Steered;

/// A run, for the knowledge base.
pub struct RunHistory<'a> {
    /// Name of the workload or trace, by which runs of the same load are recognised.
    pub source: &'a str,
    /// Seed of the run.
    pub seed: u64,
    /// The scheduler or controller with its tunables.
    pub under: String,
    /// Preference of the controller, a part of the run's identity.
    pub preference: &'a Preference,
    /// Windows, decisions and requests of the run.
    pub steered: &'a Steered,
}
