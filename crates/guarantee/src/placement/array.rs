//! An array of a cluster.

use sim::profile::Profile;

/// An array.
#[derive(Clone, Debug)]
pub struct ClusterArray {
    /// Name for reports and errors.
    pub name: String,
    /// The device profile.
    pub profile: Profile,
    /// The part of its time that may be reserved, from 0 to 1.
    pub capacity: f64,
}
