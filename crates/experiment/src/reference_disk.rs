//! A disk that a tenant has to itself.

use block::SchedulerSpec;
use sim::host::QueueSettings;
use sim::profile::{DeviceOptions, Profile};
use sim::reference::ReferenceDisk;

/// The scheduler of a disk that a tenant has to itself: none, as Linux has it for devices that sort in queues of their own.
pub const SCHEDULER: &str = "none";

/// [`SCHEDULER`].
pub fn spec() -> &'static SchedulerSpec {
    block::find(SCHEDULER).unwrap_or(block::CLASSIC[0])
}

/// The disk of this profile, with these settings of its queue.
pub fn reference_disk(profile: &Profile, settings: QueueSettings) -> ReferenceDisk {
    ReferenceDisk::new(profile, DeviceOptions::default(), settings, (spec(), &spec().defaults()))
}
