//! Declares features: name, unit, meaning and source in one place.

/// A number that describes a window or a request.
#[derive(Clone, Copy, Debug)]
pub struct Feature {
    /// Its name, in models and tables.
    pub name: &'static str,
    /// Its unit; empty for a share, a ratio or a flag.
    pub unit: &'static str,
    /// Whether it depends on the device's speed, as in a closed loop, where the next request waits for the completion of the previous one: such
    /// a feature also depends on the active setting. The others depend on the workload only, as long as its streams are served
    /// equally; a stream served faster than others issues more requests, and has a larger weight in every mean.
    pub depends_on_service: bool,
    /// Its meaning.
    pub doc: &'static str,
}

/// Value of [`Feature::depends_on_service`] for features of the workload alone. Choice: a name for a flag in long tables; not varied.
pub(super) const LOAD: bool = false;
/// Value of [`Feature::depends_on_service`] for other features. Choice: as [`LOAD`].
pub(super) const SERVICE: bool = true;

pub(super) const fn feature(name: &'static str, unit: &'static str, depends_on_service: bool, doc: &'static str) -> Feature {
    Feature { name, unit, depends_on_service, doc }
}

/// The features of a table without their functions.
pub(super) const fn described<T: Copy, const N: usize>(table: &[(Feature, T)]) -> [Feature; N] {
    let mut features = [table[0].0; N];
    let mut index = 0;
    while index < N {
        features[index] = table[index].0;
        index += 1;
    }
    features
}
