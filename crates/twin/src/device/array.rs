//! Fits an array of disks, if a single arm could not have served the accesses.
//!
//! Each candidate is an array of disks like the estimated one. Replays of the accesses choose the best, unless it is not clearly better
//! than a single disk.

use std::collections::BTreeSet;
use std::sync::Arc;

use sim::device::Device;
use sim::device::hdd::spec::QueuePolicy;
use sim::device::raid::layout::{ArrayLayout, level};
use sim::device::raid::{Raid, RebuildRate};
use sim::profile::{DeviceOptions, DeviceProfile, Profile, ProfileError};

use super::access::Access;
use super::findings::Finding;
use super::hdd::TurnSearch;
use super::refine::{distance_before, distance_of, refine};
use super::{hdd, members};

/// Minimum fraction of accesses with others in flight: without overlap an array behaves like a disk. Choice: fits of arrays take several
/// times as long as that of a disk; not varied.
const QUEUED: f64 = 0.1;
/// An array is accepted if its error is below this factor times that of a single disk. Choice: an array has more parameters, so it fits
/// better by chance, too; not varied.
pub const CLEARLY: f64 = 0.85;
/// An array whose error exceeds that of a single disk by this factor before refinement is dropped. Also the penalty for disks that were
/// never sold. Choice: processor time of a refinement, and the order of shapes of similar error (commit f332c40c); not varied.
const NEARLY: f64 = 1.3;
/// Number of best shapes, besides the best one of each level, whose disks are estimated again from the accesses of each member.
/// Choice: each costs a fit; not varied.
const BY_DISKS: usize = 3;
/// Usual levels and numbers of disks. Choice: the smallest of each level, and larger ones whose time differs visibly; not varied.
const SHAPES: &[(u32, usize)] = &[(0, 2), (0, 4), (0, 8), (1, 2), (10, 4), (5, 3), (5, 5)];
/// The level without stripes.
const MIRRORED: u32 = 1;
/// Stripe units in sectors: 4 KiB, 64 KiB and 512 KiB. Source: mdadm(8), `--chunk`, for the default of md; the others are a page and a
/// usual unit of controllers.
const UNITS: &[u64] = &[8, 128, 1024];

/// A fitted array.
#[derive(Clone, Debug)]
pub struct Array {
    layout: ArrayLayout,
    disk: hdd::Estimate,
    depth: u32,
    accesses: usize,
    distance: f64,
}

/// The array with the lowest replay error; `None` if hardly any accesses overlap. `disk`: the estimate as a single disk.
pub fn better(disk: &hdd::Estimate, accesses: &[Access], search: &mut TurnSearch) -> Option<Array> {
    let queued = accesses.iter().filter(|access| access.others > 0).count();
    if (queued as f64) < QUEUED * accesses.len() as f64 {
        return None;
    }
    // Sectors of a striped array are at other angles than their addresses show.
    let shapes = SHAPES.iter().filter(|(number, _)| *number == MIRRORED || !disk.has_one_rotation());
    let shapes = shapes.flat_map(|&(number, disks)| {
        let units = if number == MIRRORED { &UNITS[..1] } else { UNITS };
        units.iter().map(move |&unit| (number, disks, unit))
    });
    let judged = shapes.filter_map(|(number, disks, unit)| {
        let mut array = Array::of(disk, number, disks, unit, queued)?;
        array.distance = distance_of(accesses, |at_once| array.build(Some(at_once)))?;
        Some(array)
    });
    let mut judged: Vec<Array> = judged.collect();
    judged.sort_by(|a, b| a.distance.total_cmp(&b.distance));
    // The estimate took the array for a single disk, so with it the right level may have the largest error.
    let (mut levels, mut kept) = (BTreeSet::new(), 0);
    judged.retain(|array| {
        kept += 1;
        levels.insert(array.layout.level.number()) || kept <= BY_DISKS
    });
    search.begin_members();
    let by_disks = judged.iter().filter_map(|array| array.estimated_by_disks(accesses, search)).collect::<Vec<_>>();
    judged.into_iter().chain(by_disks).min_by(|a, b| a.judged().total_cmp(&b.judged()))
}

impl Array {
    /// An array of this level and number of disks, with the disk's capacity; `None` if the layout is impossible.
    pub fn of(disk: &hdd::Estimate, number: u32, disks: usize, unit: u64, accesses: usize) -> Option<Array> {
        let level = level(number)?;
        // The ratio between an array's capacity and its members' gives the size of a member.
        let whole = ArrayLayout::new(level, disks, unit, 1 << 30).ok()?;
        let share = (1u64 << 30) as f64 / whole.capacity() as f64;
        let member = (disk.capacity() as f64 * share).ceil() as u64 + 2 * unit;
        let layout = ArrayLayout::new(level, disks, unit, member).ok()?;
        let depth = disk.depth();
        let each = depth.div_ceil(u32::try_from(disks).ok()?).max(1);
        Some(Array { layout, disk: disk.resized(member, each), depth, accesses, distance: f64::INFINITY })
    }

    /// Replay error for comparison with flash.
    pub fn weighed(&self) -> f64 {
        self.disk.weighed(self.distance)
    }

    fn build(&self, at_once: Option<u32>) -> Option<Box<dyn Device>> {
        let profile = FittedArray { layout: self.layout, member: self.disk.profile().ok()?.device(), depth: self.depth };
        Some(profile.build(DeviceOptions { queue_depth: at_once, queue_policy: None }))
    }

    /// The array with its disks estimated from the accesses of each member.
    fn estimated_by_disks(&self, accesses: &[Access], search: &mut TurnSearch) -> Option<Array> {
        let parts = members::accesses(self.layout, accesses);
        let (capacity, each) = (self.disk.capacity(), self.disk.depth());
        let mut of_member = search.of_member();
        let disk = hdd::estimate(&parts, capacity, &mut of_member).resized(capacity, each);
        search.learn(&of_member);
        let mut array = Array { disk, ..self.clone() };
        array.distance = distance_of(accesses, |at_once| array.build(Some(at_once)))?;
        Some(array)
    }

    /// Replay error, with a penalty for disks that were never sold.
    fn judged(&self) -> f64 {
        judged(self.distance, &self.disk)
    }

    /// Refines the disks; `None` if the array is not clearly better than the single disk with this replay error.
    pub fn refined_if_better(mut self, (single, distance): (&hdd::Estimate, f64), accesses: &[Access]) -> Option<Array> {
        let of_single = judged(distance, single);
        if self.judged() > NEARLY * of_single {
            return None;
        }
        let with = |disk: &hdd::Estimate| Array { disk: disk.clone(), ..self.clone() };
        let (disk, distance) = refine(self.disk.clone(), hdd::MOVES, accesses, |disk, at_once| with(disk).build(Some(at_once)));
        (self.disk, self.distance) = (disk, distance);
        (self.judged() < CLEARLY * of_single && !self.is_contradicted_by_early_accesses(single, accesses)).then_some(self)
    }

    /// Whether early accesses contradict the array: it can imitate streams that interfere on one disk, but not each of them alone.
    fn is_contradicted_by_early_accesses(&self, single: &hdd::Estimate, accesses: &[Access]) -> bool {
        let of_array = distance_before(accesses, |at_once| self.build(Some(at_once)));
        let of_single = distance_before(accesses, |at_once| single.build(Some(at_once)));
        of_array.zip(of_single).is_some_and(|(array, single)| array > single)
    }

    /// The profile of a member.
    pub fn member(&self) -> Result<Profile, ProfileError> {
        self.disk.profile()
    }

    /// The profile of the array.
    pub fn profile(&self) -> Option<Arc<dyn DeviceProfile>> {
        let member = self.disk.profile().ok()?.device();
        Some(Arc::new(FittedArray { layout: self.layout, member, depth: self.depth }))
    }

    /// All parameters of the array and its disks.
    pub fn findings(&self) -> Vec<Finding> {
        let ArrayLayout { level, members, unit, .. } = self.layout;
        let array = format!("RAID {} of {members}", level.number());
        let mut all = vec![Finding::choice("array of disks like this", &array, self.accesses)];
        if level.has_stripe_units() {
            all.push(Finding::choice("stripe unit", &format!("{} KiB", unit / 2), self.accesses));
        }
        all.extend(self.disk.findings());
        all
    }
}

/// See [`Array::judged`].
fn judged(distance: f64, disk: &hdd::Estimate) -> f64 {
    if disk.is_usual() { distance } else { NEARLY * distance }
}

#[derive(Debug)]
struct FittedArray {
    layout: ArrayLayout,
    member: Arc<dyn DeviceProfile>,
    depth: u32,
}

impl DeviceProfile for FittedArray {
    fn name(&self) -> &str {
        "fitted"
    }

    fn description(&self) -> &str {
        "an array, fitted to times of requests"
    }

    fn capacity_sectors(&self) -> u64 {
        self.layout.capacity()
    }

    fn build(&self, options: DeviceOptions) -> Box<dyn Device> {
        let of_member = DeviceOptions { queue_depth: None, ..options };
        let members = (0..self.layout.members).map(|_| self.member.build(of_member)).collect();
        let depth = options.queue_depth.or(Some(self.depth));
        Box::new(Raid::new(self.layout, members, depth, None, None, RebuildRate::default()))
    }

    fn disks(&self) -> usize {
        self.layout.members
    }

    fn queue_policy(&self, options: DeviceOptions) -> QueuePolicy {
        self.member.queue_policy(options)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::*;
    use crate::ObservedRequest;
    use crate::device::access;
    use block::Nanos;

    /// Accesses of a disk: one sequential reader with this response time in ms, then four readers that are far apart.
    fn asked(alone_ms: f64) -> Vec<Access> {
        let (mut now, mut places) = (Nanos::ZERO, [0_u64, 1 << 30, 2 << 30, 3 << 30]);
        let mut waiting: Vec<(usize, Nanos)> = vec![(0, now)];
        let read = |number: usize| {
            if number == 600 {
                waiting.extend((1..4).map(|stream| (stream, now)));
            }
            let (stream, arrival) = waiting.remove(0);
            let lba = places[stream];
            places[stream] += 256;
            now += Nanos::from_secs_f64(if number < 600 { alone_ms } else { 8.0 + (number * 7 % 60) as f64 / 20.0 } / 1e3);
            waiting.push((stream, now));
            ObservedRequest::read(stream as u32, (lba, 256), arrival, now)
        };
        access::accesses(&(0..600 + 1_300).map(read).collect::<Vec<ObservedRequest>>())
    }

    #[test]
    fn an_array_that_early_accesses_contradict_is_rejected() {
        const SECTORS: u64 = 1 << 33;
        let accesses = asked(0.7);
        let disk = hdd::estimate(&accesses, SECTORS, &mut TurnSearch::default());
        // An array of disks that are many times slower.
        let slow = hdd::estimate(&asked(9.0), SECTORS, &mut TurnSearch::default());
        let array = Array::of(&slow, 1, 2, UNITS[0], 1_300).unwrap();
        assert!(array.is_contradicted_by_early_accesses(&disk, &accesses));
        let alike = Array::of(&disk, 1, 2, UNITS[0], 1_300).unwrap();
        assert!(!alike.is_contradicted_by_early_accesses(&slow, &accesses), "it serves one reader as its disks do");
        assert!(!array.is_contradicted_by_early_accesses(&disk, &accesses[700..]), "nothing was seen before");
    }
}
