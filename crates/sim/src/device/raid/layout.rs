//! Layouts of arrays: members, stripe units, and the trait of RAID levels.
//!
//! ```text
//! RAID 0        RAID 1     RAID 5, left-symmetric     RAID 10, near, 2 copies
//! 0  1  2  3    0  0  0    0   1   2   3   P          0  0  1  1      0  0  1   (three members)
//! 4  5  6  7    1  1  1    5   6   7   P   4          2  2  3  3      1  2  2
//! 8  9 10 11    2  2  2    10  11  P   8   9          4  4  5  5      3  3  4
//! ```
//! A column is a member, a row a stripe; a number is a stripe unit of the array (md: a chunk), P the parity of its stripe. All levels
//! have the layout of Linux's md driver.

use std::fmt;

use block::Op;

use super::operation::OperationRange;
use super::{LEVELS, Raid};

/// Maximum number of members.
pub const MAX_MEMBERS: usize = 64;

/// A RAID level: the members and sectors that reads, writes and rebuilds access.
///
/// Methods that take a [`Raid`] call `Raid::add` for each extent of a member, and return these members, one bit each.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use sim::device::raid::layout::{ArrayLayout, level};
///
/// let raid5 = level(5).ok_or("no such level")?;
/// assert_eq!(raid5.min_members(), 3);
/// let layout = ArrayLayout::new(raid5, 5, 128, 1_000_000)?;
/// assert_eq!(layout.capacity(), 4 * 128 * (1_000_000 / 128));
/// # Ok(())
/// # }
/// ```
pub trait Level: fmt::Debug + Sync {
    /// The number of the level: 5 for RAID 5.
    fn number(&self) -> u32;

    /// Minimum number of members.
    fn min_members(&self) -> usize;

    /// Whether a member may fail without loss of data.
    fn survives_failure(&self) -> bool {
        true
    }

    /// Whether data are striped.
    fn has_stripe_units(&self) -> bool {
        true
    }

    /// Number of stripe units of an array.
    fn units(&self, rows: u64, members: u64) -> u64;

    /// Sectors of the array in one stripe, approximately.
    fn stripe_sectors(&self, layout: &ArrayLayout) -> u64;

    /// Whether an operation must lock its sectors; a rebuild counts as a write. `degraded`: a member has failed.
    fn must_lock(&self, op: Op, _degraded: bool) -> bool {
        op != Op::Read
    }

    /// The range to lock for sectors `at` to `until` of the array.
    fn span(&self, _layout: &ArrayLayout, at: u64, until: u64) -> (u64, u64) {
        (at, until)
    }

    /// The range to lock for these sectors of the members, in the same units as [`span`](Level::span).
    fn span_of_members(&self, _layout: &ArrayLayout, first: u64, end: u64) -> (u64, u64) {
        (first, end)
    }

    /// Calls `name` with each member and row that holds the data of a stripe unit.
    fn places_of(&self, layout: &ArrayLayout, unit: u64, name: &mut dyn FnMut(usize, u64));

    /// Issues the reads of a read.
    fn read(&self, raid: &mut Raid, work: &OperationRange) -> u64;

    /// Issues the reads needed before a write.
    fn read_before_write(&self, _raid: &mut Raid, _work: &OperationRange) -> u64 {
        0
    }

    /// Issues the writes or discards.
    fn write(&self, raid: &mut Raid, work: &OperationRange) -> u64;

    /// Issues the reads that reconstruct sectors of the failed member.
    fn read_for_rebuild(&self, _raid: &mut Raid, _work: &OperationRange, _failed: usize) -> u64 {
        0
    }
}

impl PartialEq for dyn Level {
    fn eq(&self, other: &dyn Level) -> bool {
        self.number() == other.number()
    }
}

/// The level with this number; `None` if there is none.
pub fn level(number: u32) -> Option<&'static dyn Level> {
    LEVELS.iter().copied().find(|level| level.number() == number)
}

/// A validated layout.
#[derive(Clone, Copy, Debug)]
pub struct ArrayLayout {
    /// The level.
    pub level: &'static dyn Level,
    /// Number of members.
    pub members: usize,
    /// Sectors of a stripe unit; 1 for a level without them.
    pub unit: u64,
    /// Stripe units of a member.
    pub rows: u64,
}

impl ArrayLayout {
    /// The layout of `members` members of at least `smallest` sectors; the excess of larger ones is unused. A level without stripe
    /// units ignores the unit.
    ///
    /// # Errors
    /// Too few or too many members, or a unit that is empty or larger than a member. The message names the problem and the remedy.
    pub fn new(level: &'static dyn Level, members: usize, unit: u64, smallest: u64) -> Result<ArrayLayout, String> {
        let least = level.min_members();
        if !(least..=MAX_MEMBERS).contains(&members) {
            let number = level.number();
            return Err(format!("RAID {number} of {members} disks: it takes {least} to {MAX_MEMBERS}"));
        }
        let unit = if level.has_stripe_units() { unit } else { 1 };
        if unit == 0 || unit > smallest {
            let (kib, most) = (unit as f64 / 2.0, smallest as f64 / 2.0);
            return Err(format!("a stripe unit of {kib} KiB: 0.5 to {most} KiB is right, the size of the smallest disk"));
        }
        // Sums over the members must stay in the range of sector numbers.
        let rows = (smallest / unit).min(u64::MAX / 512 / MAX_MEMBERS as u64 / unit);
        Ok(ArrayLayout { level, members, unit, rows })
    }

    /// Sectors of the array.
    pub fn capacity(&self) -> u64 {
        self.unit * self.level.units(self.rows, self.members as u64)
    }

    /// All members as bits.
    pub fn all(&self) -> u64 {
        u64::MAX >> (64 - self.members)
    }

    /// Member and row of a stripe unit, if units are assigned to members in turn.
    pub fn striped(&self, unit: u64) -> (usize, u64) {
        let members = self.members as u64;
        ((unit % members) as usize, unit / members)
    }

    /// The stripe units of sectors `at` to `until` of the array: the number of each, and the start and end of the part in it.
    pub fn units_of(&self, at: u64, until: u64) -> impl Iterator<Item = (u64, u64, u64)> + use<> {
        let unit = self.unit;
        (at / unit..until.div_ceil(unit))
            .map(move |number| (number, at.max(number * unit) - number * unit, until.min((number + 1) * unit) - number * unit))
    }
}
