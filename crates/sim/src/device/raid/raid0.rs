//! RAID 0: striped, without redundancy.

use block::Op;

use super::Raid;
use super::layout::{ArrayLayout, Level};
use super::operation::OperationRange;

/// RAID 0.
#[derive(Debug)]
pub struct Raid0;

impl Level for Raid0 {
    fn number(&self) -> u32 {
        0
    }

    fn min_members(&self) -> usize {
        2
    }

    fn survives_failure(&self) -> bool {
        false
    }

    fn units(&self, rows: u64, members: u64) -> u64 {
        rows * members
    }

    fn stripe_sectors(&self, layout: &ArrayLayout) -> u64 {
        layout.unit * layout.members as u64
    }

    fn must_lock(&self, _op: Op, _degraded: bool) -> bool {
        false
    }

    fn places_of(&self, layout: &ArrayLayout, unit: u64, name: &mut dyn FnMut(usize, u64)) {
        let (member, row) = layout.striped(unit);
        name(member, row);
    }

    fn read(&self, raid: &mut Raid, work: &OperationRange) -> u64 {
        access(raid, work)
    }

    fn write(&self, raid: &mut Raid, work: &OperationRange) -> u64 {
        access(raid, work)
    }
}

/// Issues accesses for all stripe units.
fn access(raid: &mut Raid, work: &OperationRange) -> u64 {
    let layout = raid.layout;
    let mut used = 0;
    for (number, from, to) in layout.units_of(work.at, work.until) {
        let (member, row) = layout.striped(number);
        raid.add(work, member, work.op, (row * layout.unit + from, row * layout.unit + to));
        used |= 1 << member;
    }
    used
}
