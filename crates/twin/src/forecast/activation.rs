//! How a setting becomes active, on which its trial depends.

/// How a setting becomes active.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// It replaces the active setting in the middle of the load.
    Live,
    /// It is active before the load starts, like one that is set at boot.
    AtStart,
}
