//! The profile of a device with rate limits: wraps the profile of any kind of device.

use std::sync::Arc;

use super::{DeviceOptions, DeviceProfile, HddProfile, Profile};
use crate::device::Device;
use crate::device::hdd::spec::QueuePolicy;
use crate::device::limited::{Limited, Limits};

/// The profile of a device that has limits.
#[derive(Debug)]
pub struct LimitedProfile {
    inner: Arc<dyn DeviceProfile>,
    limits: Limits,
}

impl LimitedProfile {
    /// The profile of `inner` with these limits.
    pub fn new(inner: Arc<dyn DeviceProfile>, limits: Limits) -> LimitedProfile {
        LimitedProfile { inner, limits }
    }
}

impl DeviceProfile for LimitedProfile {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn description(&self) -> &str {
        self.inner.description()
    }

    fn capacity_sectors(&self) -> u64 {
        self.inner.capacity_sectors()
    }

    fn build(&self, options: DeviceOptions) -> Box<dyn Device> {
        Box::new(Limited::new(self.inner.build(options), &self.limits))
    }

    fn disks(&self) -> usize {
        self.inner.disks()
    }

    fn queue_policy(&self, options: DeviceOptions) -> QueuePolicy {
        self.inner.queue_policy(options)
    }

    fn parts(&self) -> &[(String, Arc<Profile>)] {
        self.inner.parts()
    }

    fn hdd(&self) -> Option<&HddProfile> {
        self.inner.hdd()
    }
}
