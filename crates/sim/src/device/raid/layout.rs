//! What array levels have in common: members, stripe units, and what a level must answer.
//!
//! ```text
//! RAID 0        RAID 1     RAID 5, left-symmetric     RAID 10, near, 2 copies
//! 0  1  2  3    0  0  0    0   1   2   3   P          0  0  1  1      0  0  1   (three members)
//! 4  5  6  7    1  1  1    5   6   7   P   4          2  2  3  3      1  2  2
//! 8  9 10 11    2  2  2    10  11  P   8   9          4  4  5  5      3  3  4
//! ```
//! A column is a member, a row a stripe; a number is a stripe unit of the array (md: a chunk), P the parity of its stripe. All levels
//! are laid out as Linux's md driver does.

use std::fmt;

use block::Op;

use super::operation::Work;
use super::{LEVELS, Raid};

/// Members an array has at most.
pub const MAX_MEMBERS: usize = 64;

/// How an array spreads its data: where a read, a write and a rebuild go.
///
/// The methods that work on a [`Raid`] call [`Raid::add`] for each stretch of a member, and return the members they did that for, a
/// bit each.
pub trait Level: fmt::Debug + Sync {
    /// Its number: 5 for RAID 5.
    fn number(&self) -> u32;

    /// The fewest members it makes sense with.
    fn least_members(&self) -> usize;

    /// Whether a member may fail without loss of data.
    fn survives_failure(&self) -> bool {
        true
    }

    /// Whether data go to the members in turn, in stripe units.
    fn has_stripe_units(&self) -> bool {
        true
    }

    /// Stripe units of an array.
    fn units(&self, rows: u64, members: u64) -> u64;

    /// Sectors of the array that lie in one stripe, about.
    fn stripe_sectors(&self, layout: &ArrayLayout) -> u64;

    /// Whether an operation must have its sectors to itself: a rebuild counts as a write. `degraded`: a member has failed.
    fn must_lock(&self, op: Op, _degraded: bool) -> bool {
        op != Op::Read
    }

    /// What must be locked to work on sectors `at` to `until` of the array.
    fn span(&self, _layout: &ArrayLayout, at: u64, until: u64) -> (u64, u64) {
        (at, until)
    }

    /// What must be locked to work on these sectors of the members, in the same terms.
    fn span_of_members(&self, _layout: &ArrayLayout, first: u64, end: u64) -> (u64, u64) {
        (first, end)
    }

    /// Names the members and rows that hold the data of a stripe unit.
    fn places_of(&self, layout: &ArrayLayout, unit: u64, name: &mut dyn FnMut(usize, u64));

    /// Reads what a read asks for.
    fn read(&self, raid: &mut Raid, work: &Work) -> u64;

    /// Reads what must be known before a write.
    fn read_before_write(&self, _raid: &mut Raid, _work: &Work) -> u64 {
        0
    }

    /// Writes or discards.
    fn write(&self, raid: &mut Raid, work: &Work) -> u64;

    /// Reads from the other members what sectors of the failed one held.
    fn read_for_rebuild(&self, _raid: &mut Raid, _work: &Work, _failed: usize) -> u64 {
        0
    }
}

impl PartialEq for dyn Level {
    fn eq(&self, other: &dyn Level) -> bool {
        self.number() == other.number()
    }
}

/// The level of that number, if there is one.
pub fn level(number: u32) -> Option<&'static dyn Level> {
    LEVELS.iter().copied().find(|level| level.number() == number)
}

/// A checked layout.
#[derive(Clone, Copy, Debug)]
pub struct ArrayLayout {
    /// The level.
    pub level: &'static dyn Level,
    /// How many members.
    pub members: usize,
    /// Sectors of a stripe unit; 1 for a level that has none.
    pub unit: u64,
    /// Stripe units of a member.
    pub rows: u64,
}

impl ArrayLayout {
    /// The layout of `members` members of at least `smallest` sectors; what larger ones have beyond that stays unused. A level without
    /// stripe units ignores the unit.
    ///
    /// # Errors
    /// Too few or too many members, a unit of nothing or larger than a member: what is wrong and what would be right.
    pub fn new(level: &'static dyn Level, members: usize, unit: u64, smallest: u64) -> Result<ArrayLayout, String> {
        let least = level.least_members();
        if !(least..=MAX_MEMBERS).contains(&members) {
            let number = level.number();
            return Err(format!("RAID {number} of {members} disks: it takes {least} to {MAX_MEMBERS}"));
        }
        let unit = if level.has_stripe_units() { unit } else { 1 };
        if unit == 0 || unit > smallest {
            let (kib, most) = (unit as f64 / 2.0, smallest as f64 / 2.0);
            return Err(format!("a stripe unit of {kib} KiB: 0.5 to {most} KiB is right, the size of the smallest disk"));
        }
        // No sum over the members may leave the range of sector numbers.
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

    /// Member and row of a stripe unit, if units go to the members in turn.
    pub fn striped(&self, unit: u64) -> (usize, u64) {
        let members = self.members as u64;
        ((unit % members) as usize, unit / members)
    }

    /// The stripe units in which sectors `at` to `until` of the array lie: each one's number, and the part of it, from and to.
    pub fn units_of(&self, at: u64, until: u64) -> impl Iterator<Item = (u64, u64, u64)> + use<> {
        let unit = self.unit;
        (at / unit..until.div_ceil(unit))
            .map(move |number| (number, at.max(number * unit) - number * unit, until.min((number + 1) * unit) - number * unit))
    }
}
