//! RAID 10: striped, with every stripe unit on two members. The near layout of `__raid10_find_phys` in
//! `drivers/md/raid10.c`.

use block::Op;

use super::Raid;
use super::layout::{ArrayLayout, Level};
use super::operation::OperationRange;

/// RAID 10.
#[derive(Debug)]
pub struct Raid10;

impl Level for Raid10 {
    fn number(&self) -> u32 {
        10
    }

    /// md accepts two as well, which is RAID 1 in stripe units.
    fn min_members(&self) -> usize {
        3
    }

    fn units(&self, rows: u64, members: u64) -> u64 {
        rows * members / 2
    }

    fn stripe_sectors(&self, layout: &ArrayLayout) -> u64 {
        layout.unit * (layout.members as u64 / 2)
    }

    fn span_of_members(&self, layout: &ArrayLayout, first: u64, end: u64) -> (u64, u64) {
        let (members, unit) = (layout.members as u64, layout.unit);
        (first / unit * members / 2 * unit, (end.div_ceil(unit) * members).div_ceil(2) * unit)
    }

    fn places_of(&self, layout: &ArrayLayout, unit: u64, name: &mut dyn FnMut(usize, u64)) {
        copies(layout, unit).into_iter().for_each(|(member, row)| name(member, row));
    }

    fn read(&self, raid: &mut Raid, work: &OperationRange) -> u64 {
        let layout = raid.layout;
        let mut used = 0;
        for (number, from, to) in layout.units_of(work.at, work.until) {
            let copies = copies(&layout, number).map(|(member, row)| (member, row * layout.unit + from));
            let Some((member, first)) = raid.choose(copies.into_iter(), to - from) else { continue };
            raid.add(work, member, Op::Read, (first, first + (to - from)));
            used |= 1 << member;
        }
        used
    }

    fn write(&self, raid: &mut Raid, work: &OperationRange) -> u64 {
        let layout = raid.layout;
        let mut used = 0;
        for (number, from, to) in layout.units_of(work.at, work.until) {
            for (member, row) in copies(&layout, number) {
                let stretch = (row * layout.unit + from, row * layout.unit + to);
                if raid.unwritten(stretch.0) != Some(member) {
                    raid.add(work, member, work.op, stretch);
                    used |= 1 << member;
                }
            }
        }
        used
    }

    fn read_for_rebuild(&self, raid: &mut Raid, work: &OperationRange, failed: usize) -> u64 {
        let layout = raid.layout;
        let mut used = 0;
        for (row, from, to) in layout.units_of(work.at, work.until) {
            let Some(number) = unit_at(&layout, failed, row) else { continue };
            for (member, row) in copies(&layout, number).into_iter().filter(|&(member, _)| member != failed) {
                raid.add(work, member, Op::Read, (row * layout.unit + from, row * layout.unit + to));
                used |= 1 << member;
            }
        }
        used
    }
}

/// Members and rows of a stripe unit's two copies.
pub(super) fn copies(layout: &ArrayLayout, unit: u64) -> [(usize, u64); 2] {
    [layout.striped(2 * unit), layout.striped(2 * unit + 1)]
}

/// The stripe unit that a member holds in a row; `None` in the corner that an odd number of members may leave.
fn unit_at(layout: &ArrayLayout, member: usize, row: u64) -> Option<u64> {
    let unit = (row * layout.members as u64 + member as u64) / 2;
    (unit < layout.rows * layout.members as u64 / 2).then_some(unit)
}
