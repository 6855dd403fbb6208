//! A load and a device that may have these counters: the streams match the counted rates, and everything else is drawn from a prior.

mod device;
mod groups;

use std::sync::Arc;

use block::Nanos;
use control::target::Bounds;
use sim::profile::{DeviceProfile, ProfileError};

use self::groups::Group;
use super::counted::Counted;
use super::draws::{Point, Random, Reader};
use crate::device::AssumedDevice;
use crate::load::{Load, Pace};

/// Coordinates of a point.
pub(super) const DIMENSIONS: usize = device::DIMENSIONS + groups::DIMENSIONS;
/// Approximate number of requests of a load before its streams repeat. Choice: more than the 1,200 requests of a trial of a hypothesis, so
/// that nothing repeats in it; not varied.
const OF_A_LOAD: usize = 2_000;

/// Properties of a device known from sysfs.
#[derive(Clone, Debug, PartialEq)]
pub struct Known {
    /// Queue limits and capacity.
    pub bounds: Bounds,
    /// Whether the kernel reports a rotational disk; `None` if unknown. Often wrong in virtual machines and for USB.
    pub rotational: Option<bool>,
    /// Its queue depth; `None` if unknown.
    pub depth: Option<u32>,
    /// Whether it has a volatile write cache; `None` if unknown.
    pub write_cache: Option<bool>,
}

/// A load and a device.
#[derive(Clone, Debug)]
pub struct Hypothesis {
    /// The device.
    pub device: AssumedDevice,
    groups: Vec<Group>,
    seed: u64,
}

impl Hypothesis {
    /// The hypothesis at this point of the prior.
    pub(super) fn at(point: &Point, counted: &Counted, known: &Known, seed: u64) -> Hypothesis {
        let mut reader: Reader = point.reader();
        let device = device::at(&mut reader, known);
        let groups = groups::at(&mut reader, counted, known.bounds.capacity_sectors);
        Hypothesis { device, groups, seed }
    }

    /// The device, ready to be built.
    ///
    /// # Errors
    /// The parameters describe no possible device.
    pub fn profile(&self, known: &Known) -> Result<Arc<dyn DeviceProfile>, ProfileError> {
        self.device.profile(known.bounds.capacity_sectors)
    }

    /// The load.
    pub fn load(&self, counted: &Counted) -> Load {
        let mut random = Random::new(self.seed);
        let streams: usize = self.groups.iter().map(|group| group.streams as usize).sum();
        let each = (OF_A_LOAD / streams.max(1)).max(16);
        let made: Vec<_> = self.groups.iter().flat_map(|group| group.made(each, &mut random)).collect();
        Load::assumed(&made, Nanos::from_secs_f64(counted.busy_s))
    }

    /// Number of streams.
    pub fn streams(&self) -> u32 {
        self.groups.iter().map(|group| group.streams).sum()
    }

    /// Fraction of the request rate in groups with this property.
    fn share(&self, of: impl Fn(&Group) -> bool) -> f64 {
        let all: f64 = self.groups.iter().map(|group| group.per_s).sum();
        // `sum` of nothing would be -0.0.
        self.groups.iter().filter(|group| of(group)).fold(0.0, |sum, group| sum + group.per_s) / all.max(1e-9)
    }

    /// Fraction of requests in sequential runs.
    pub fn in_order(&self) -> f64 {
        self.share(|group| group.run > 1)
    }

    /// Fraction of requests in closed streams.
    pub fn waits(&self) -> f64 {
        self.share(|group| group.pace != Pace::Open)
    }
}
