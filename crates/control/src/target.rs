//! Interface to the controlled system (the "plant" of control theory): a simulated host, a Linux block device, our block server.

use block::{Limits, Nanos, SchedulerSpec, Tunable};

use crate::setting::Setting;

/// Something whose scheduler and settings can be chosen while it runs.
///
/// Its host tells a [`ControlLoop`](crate::ControlLoop) what happens and asks it when a window ends; what is decided comes back here.
pub trait Target {
    /// What kind it is, and which device: knowledge is kept under both names.
    fn identity(&self) -> Identity;

    /// Schedulers it can run.
    fn schedulers(&self) -> Vec<&'static SchedulerSpec>;

    /// Tunables of the host that can be set while it runs.
    fn tunables(&self) -> Vec<&'static Tunable>;

    /// What its queue and its device allow.
    fn bounds(&self) -> Bounds;

    /// What is in force, read back.
    fn setting(&self) -> Setting;

    /// How long the device stands idle for a change from one setting to the other, as far as that is known.
    fn switching_time(&self, from: &Setting, to: &Setting) -> Nanos;

    /// Puts a setting in force and reads it back.
    ///
    /// # Errors
    /// It was refused, or something else is in force than was asked for. The one before is in force then.
    fn apply(&mut self, now: Nanos, setting: &Setting) -> Result<(), TargetError>;
}

/// What a plant is, for the knowledge base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The kind of plant: `simulator`, `linux`, `server`.
    pub plant: String,
    /// The device's name or model.
    pub device: String,
}

/// What a device and its queue allow; Linux tells it in `/sys/block/*/size` and `/sys/block/*/queue`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The device's size in 512-byte sectors.
    pub capacity_sectors: u64,
    /// What the scheduler must keep to.
    pub limits: Limits,
    /// Requests of a kind that may be queued or at the device at once.
    pub nr_requests: u32,
    /// The read-ahead of files under settings that do not name one, in KiB; `None` where there is none, or it is not known.
    pub read_ahead_kib: Option<u32>,
}

/// Why a setting is not in force.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot set {setting}: {reason}")]
pub struct TargetError {
    /// What was to be set.
    pub setting: String,
    /// What stood in the way.
    pub reason: String,
}
