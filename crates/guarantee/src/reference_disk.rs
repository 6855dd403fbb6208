//! A reference disk: one that a tenant has to itself.

use block::SchedulerSpec;
use sim::host::QueueSettings;
use sim::profile::{DeviceOptions, Profile};
use sim::reference::ReferenceDisk;

/// The scheduler of a reference disk: none, as Linux uses for devices with queues of their own.
pub const SCHEDULER: &str = "none";

/// The specification of [`SCHEDULER`].
pub fn spec() -> &'static SchedulerSpec {
    block::find(SCHEDULER).unwrap_or(block::CLASSIC[0])
}

/// A reference disk with this profile and these queue settings.
pub fn reference_disk(profile: &Profile, settings: QueueSettings) -> ReferenceDisk {
    ReferenceDisk::new(profile, DeviceOptions::default(), settings, (spec(), &spec().defaults()))
}
