//! RAID 5: striped, with parity that rotates over the members. The left-symmetric layout of `raid5_compute_sector` in
//! `drivers/md/raid5.c` (`ALGORITHM_LEFT_SYMMETRIC`).

use block::Op;

use super::Raid;
use super::layout::{ArrayLayout, Level};
use super::operation::OperationRange;

/// RAID 5.
#[derive(Debug)]
pub struct Raid5;

impl Level for Raid5 {
    fn number(&self) -> u32 {
        5
    }

    fn min_members(&self) -> usize {
        3
    }

    fn units(&self, rows: u64, members: u64) -> u64 {
        rows * (members - 1)
    }

    fn stripe_sectors(&self, layout: &ArrayLayout) -> u64 {
        layout.unit * (layout.members as u64 - 1)
    }

    /// The stripe must not change while it is reconstructed.
    fn must_lock(&self, op: Op, degraded: bool) -> bool {
        op != Op::Read || degraded
    }

    /// The sectors of the parity.
    fn span(&self, layout: &ArrayLayout, at: u64, until: u64) -> (u64, u64) {
        let (unit, sectors) = (layout.unit, self.stripe_sectors(layout));
        if at / unit == (until - 1) / unit {
            let base = at / sectors * unit + at % unit;
            return (base, base + (until - at));
        }
        (at / sectors * unit, ((until - 1) / sectors + 1) * unit)
    }

    fn places_of(&self, layout: &ArrayLayout, unit: u64, name: &mut dyn FnMut(usize, u64)) {
        let data = layout.members as u64 - 1;
        let row = unit / data;
        name(((parity(layout, row) as u64 + 1 + unit % data) % layout.members as u64) as usize, row);
    }

    fn read(&self, raid: &mut Raid, work: &OperationRange) -> u64 {
        access(raid, work, Op::Read, Stripe::reads_of_read)
    }

    fn read_before_write(&self, raid: &mut Raid, work: &OperationRange) -> u64 {
        access(raid, work, Op::Read, Stripe::reads_of_write)
    }

    fn write(&self, raid: &mut Raid, work: &OperationRange) -> u64 {
        access(raid, work, work.op, Stripe::writes)
    }

    fn read_for_rebuild(&self, raid: &mut Raid, work: &OperationRange, failed: usize) -> u64 {
        let used = raid.layout.all() & !(1 << failed);
        raid.add_all(work, used, Op::Read, (work.at, work.until));
        used
    }
}

/// For each stripe touched, reads or writes (`op`) the members that `members_of` chooses.
fn access(raid: &mut Raid, work: &OperationRange, op: Op, members_of: fn(&Stripe, u64) -> u64) -> u64 {
    let (layout, whole) = (raid.layout, raid.whole());
    let (unit, sectors) = (layout.unit, layout.level.stripe_sectors(&layout));
    let failed = raid.redundancy.failed.map_or(0, |member| 1 << member);
    let mut used = 0;
    for row in work.at / sectors..work.until.div_ceil(sectors) {
        let (at, end) = (work.at.max(row * sectors), work.until.min((row + 1) * sectors));
        // The parity of a partly discarded stripe would no longer be correct.
        if work.op == Op::Discard && end - at < sectors {
            continue;
        }
        let (all, parity) = (layout.all(), 1 << parity(&layout, row));
        for band in bands(&layout, at, end).into_iter().filter(|band| band.touched != 0) {
            // The rebuilt part of a spare may end within the stripe.
            let (first, last) = (row * unit + band.first, row * unit + band.end);
            let cut = whole.clamp(first, last);
            for (missing, first, end) in [(0, first, cut), (failed, cut, last)] {
                if first == end {
                    continue;
                }
                let members = members_of(&Stripe { all, parity, missing }, band.touched);
                used |= members;
                raid.add_all(work, members, op, (first, end));
            }
        }
    }
    used
}

/// The member with the parity of a row.
fn parity(layout: &ArrayLayout, row: u64) -> usize {
    let members = layout.members as u64;
    (members - 1 - row % members) as usize
}

/// The members of a stripe as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stripe {
    /// All members.
    all: u64,
    /// The parity member.
    parity: u64,
    /// The member that cannot be accessed; 0 if there is none.
    missing: u64,
}

impl Stripe {
    /// The members to read for a read: the touched ones, or all others if one of those is missing.
    fn reads_of_read(&self, touched: u64) -> u64 {
        if touched & self.missing == 0 { touched } else { self.all & !self.missing }
    }

    /// The members to read before a write to compute the parity: old data and old parity (read-modify-write), or the data that are
    /// not written (reconstruct-write), whichever are fewer; ties go to the latter, as in md's `handle_stripe_dirtying`. None if
    /// the parity is missing, though md reads even then.
    fn reads_of_write(&self, touched: u64) -> u64 {
        let untouched = self.all & !self.parity & !touched;
        let modify = touched | self.parity;
        if untouched == 0 || self.parity & self.missing != 0 {
            0
        } else if touched & self.missing != 0 {
            untouched
        } else if untouched & self.missing != 0 || modify.count_ones() < untouched.count_ones() {
            modify
        } else {
            untouched
        }
    }

    /// The members to write for a write.
    fn writes(&self, touched: u64) -> u64 {
        (touched | self.parity) & !self.missing
    }
}

/// The part of a stripe, by offset in the stripe unit, in which a request touches the same members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Band {
    /// First sector within the stripe unit.
    pub(super) first: u64,
    /// End within the stripe unit (exclusive).
    pub(super) end: u64,
    /// The members whose data the request touches, one bit each.
    pub(super) touched: u64,
}

/// The bands touched by sectors `from` to `end` of the array, which lie in one row. Bands may be empty.
pub(super) fn bands(layout: &ArrayLayout, from: u64, end: u64) -> [Band; 3] {
    let (data, unit) = (layout.members as u64 - 1, layout.unit);
    let (first, last) = (from / unit, (end - 1) / unit);
    let (start, stop) = (from - first * unit, end - last * unit);
    let behind_parity = parity(layout, first / data) as u64 + 1;
    let touched = |units: std::ops::Range<u64>| {
        units.fold(0u64, |bits, number| bits | 1 << ((behind_parity + number % data) % layout.members as u64))
    };
    if first == last {
        return [Band { first: start, end: stop, touched: touched(first..first + 1) }, Band::default(), Band::default()];
    }
    let inner = touched(first + 1..last);
    let (head, tail) = (touched(first..first + 1), touched(last..last + 1));
    let middle = if start < stop { inner | head | tail } else { inner };
    [
        Band { first: 0, end: start.min(stop), touched: inner | tail },
        Band { first: start.min(stop), end: start.max(stop), touched: middle },
        Band { first: start.max(stop), end: unit, touched: inner | head },
    ]
}
