//! RAID 1: every member has the same data.

use block::Op;

use super::Raid;
use super::layout::{ArrayLayout, Level};
use super::operation::OperationRange;

/// RAID 1.
#[derive(Debug)]
pub struct Raid1;

impl Level for Raid1 {
    fn number(&self) -> u32 {
        1
    }

    fn min_members(&self) -> usize {
        2
    }

    fn has_stripe_units(&self) -> bool {
        false
    }

    fn units(&self, rows: u64, _members: u64) -> u64 {
        rows
    }

    /// All sectors: requests are never split.
    fn stripe_sectors(&self, layout: &ArrayLayout) -> u64 {
        layout.capacity()
    }

    fn places_of(&self, layout: &ArrayLayout, unit: u64, name: &mut dyn FnMut(usize, u64)) {
        (0..layout.members).for_each(|member| name(member, unit));
    }

    fn read(&self, raid: &mut Raid, work: &OperationRange) -> u64 {
        read_one(raid, work, 0..raid.layout.members)
    }

    fn write(&self, raid: &mut Raid, work: &OperationRange) -> u64 {
        let missing = raid.unwritten(work.at);
        let mirrors = (0..raid.layout.members).filter(|&member| Some(member) != missing);
        mirrors.fold(0, |used, member| {
            raid.add(work, member, work.op, (work.at, work.until));
            used | 1 << member
        })
    }

    fn read_for_rebuild(&self, raid: &mut Raid, work: &OperationRange, failed: usize) -> u64 {
        read_one(raid, work, (0..raid.layout.members).filter(|&member| member != failed))
    }
}

/// Reads from one of these mirrors.
fn read_one(raid: &mut Raid, work: &OperationRange, mirrors: impl Iterator<Item = usize> + Clone) -> u64 {
    let copies = mirrors.map(|member| (member, work.at));
    let Some((member, _)) = raid.choose(copies, work.until - work.at) else { return 0 };
    raid.add(work, member, Op::Read, (work.at, work.until));
    1 << member
}
