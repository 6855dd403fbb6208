//! Tenants with a guaranteed disk, on simulated disks that they share.

mod kept;
mod loops;
mod reference;

use block::parse;
use sim::host::QueueSettings;
use sim::profile::{DeviceOptions, load};
use sim::reference::ReferenceDisk;

/// A disk behind a queue that takes requests as they come.
fn disk(profile: &str) -> ReferenceDisk {
    let (spec, values) = parse("noop").unwrap();
    ReferenceDisk::new(&load(profile).unwrap(), DeviceOptions::default(), QueueSettings::default(), (spec, &values))
}
