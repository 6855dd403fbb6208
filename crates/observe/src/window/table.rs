//! Declares features: name, unit, meaning and source in one place.

/// A number that describes a window or a request.
#[derive(Clone, Copy, Debug)]
pub struct Feature {
    /// Its name, in models and tables.
    pub name: &'static str,
    /// Its unit; empty for a share, a ratio or a flag.
    pub unit: &'static str,
    /// Whether it changes with how fast the device serves, as where the next request waits for the answer to the one before (a closed
    /// loop): such a feature also depends on the active setting. The others are the workload's own as long as its streams are served
    /// alike; a stream served faster than others asks more often there, and weighs more in every mean.
    pub depends_on_service: bool,
    /// Its meaning.
    pub doc: &'static str,
}

/// [`Feature::depends_on_service`] of what the workload alone decides.
pub(super) const LOAD: bool = false;
/// [`Feature::depends_on_service`] of the rest.
pub(super) const SERVICE: bool = true;

pub(super) const fn feature(name: &'static str, unit: &'static str, depends_on_service: bool, doc: &'static str) -> Feature {
    Feature { name, unit, depends_on_service, doc }
}

/// The features of a table without what gets their numbers.
pub(super) const fn described<T: Copy, const N: usize>(table: &[(Feature, T)]) -> [Feature; N] {
    let mut features = [table[0].0; N];
    let mut index = 0;
    while index < N {
        features[index] = table[index].0;
        index += 1;
    }
    features
}
