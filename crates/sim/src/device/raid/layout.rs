//! Where an array keeps its data: which member, which sector. As Linux's md driver lays them out.
//!
//! ```text
//! RAID 0        RAID 1     RAID 5, left-symmetric     RAID 10, near, 2 copies
//! 0  1  2  3    0  0  0    0   1   2   3   P          0  0  1  1      0  0  1   (three members)
//! 4  5  6  7    1  1  1    5   6   7   P   4          2  2  3  3      1  2  2
//! 8  9 10 11    2  2  2    10  11  P   8   9          4  4  5  5      3  3  4
//! ```
//! A column is a member, a row a stripe; a number is a stripe unit of the array (md: a chunk), P the parity of its stripe.
//! Sources: `raid5_compute_sector` in `drivers/md/raid5.c` (`ALGORITHM_LEFT_SYMMETRIC`), `__raid10_find_phys` in
//! `drivers/md/raid10.c`.

/// Members an array has at most.
pub const MAX_MEMBERS: usize = 64;

/// How an array spreads its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Striped, nothing kept twice.
    Raid0,
    /// The same on every member.
    Raid1,
    /// Striped, with a parity for each stripe, on another member from stripe to stripe.
    Raid5,
    /// Striped, every stripe unit on two members.
    Raid10,
}

impl Level {
    /// The level of that number: 0, 1, 5 or 10.
    pub fn from_number(number: u32) -> Option<Level> {
        match number {
            0 => Some(Level::Raid0),
            1 => Some(Level::Raid1),
            5 => Some(Level::Raid5),
            10 => Some(Level::Raid10),
            _ => None,
        }
    }

    /// Its number.
    pub fn number(self) -> u32 {
        match self {
            Level::Raid0 => 0,
            Level::Raid1 => 1,
            Level::Raid5 => 5,
            Level::Raid10 => 10,
        }
    }

    /// The fewest members it makes sense with. md takes RAID 10 of two as well, which is RAID 1 in stripe units.
    pub fn least_members(self) -> usize {
        match self {
            Level::Raid0 | Level::Raid1 => 2,
            Level::Raid5 | Level::Raid10 => 3,
        }
    }
}

/// A checked layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The level.
    pub level: Level,
    /// How many members.
    pub members: usize,
    /// Sectors of a stripe unit; 1 for RAID 1, which has none.
    pub unit: u64,
    /// Stripe units of a member.
    pub rows: u64,
}

/// The part of a stripe, by offset in the stripe unit, in which a request touches the same members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Band {
    /// First sector, counted within the stripe unit.
    pub first: u64,
    /// Sector behind the last.
    pub end: u64,
    /// The members whose data the request touches, a bit each.
    pub touched: u64,
}

/// The members of a RAID 5 stripe as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stripe {
    /// All of them.
    pub all: u64,
    /// The one with the parity.
    pub parity: u64,
    /// The one that cannot be read or written; 0 if all can.
    pub missing: u64,
}

impl Stripe {
    /// What must be read to answer a read: what is asked for, or all the others if some of that is missing.
    pub fn reads_of_read(&self, touched: u64) -> u64 {
        if touched & self.missing == 0 { touched } else { self.all & !self.missing }
    }

    /// What must be read before a write so that the parity will be right: the old of what is written and of the parity
    /// (read-modify-write), or the data that are not written (reconstruct-write), whichever are fewer; ties go to the second, as in
    /// md's `handle_stripe_dirtying`. Nothing, if the parity is the missing one: there md reads all the same.
    pub fn reads_of_write(&self, touched: u64) -> u64 {
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

    /// What a write writes.
    pub fn writes(&self, touched: u64) -> u64 {
        (touched | self.parity) & !self.missing
    }
}

impl Layout {
    /// The layout of `members` members of at least `smallest` sectors; whatever larger ones have beyond that stays unused. RAID 1
    /// ignores the unit.
    ///
    /// # Errors
    /// Too few or too many members, a unit of nothing or larger than a member: what is wrong and what would be right.
    pub fn new(level: Level, members: usize, unit: u64, smallest: u64) -> Result<Layout, String> {
        let least = level.least_members();
        if !(least..=MAX_MEMBERS).contains(&members) {
            let number = level.number();
            return Err(format!("RAID {number} of {members} disks: it takes {least} to {MAX_MEMBERS}"));
        }
        let unit = if level == Level::Raid1 { 1 } else { unit };
        if unit == 0 || unit > smallest {
            let (kib, most) = (unit as f64 / 2.0, smallest as f64 / 2.0);
            return Err(format!("a stripe unit of {kib} KiB: 0.5 to {most} KiB is right, the size of the smallest disk"));
        }
        // No sum over the members may leave the range of sector numbers.
        let rows = (smallest / unit).min(u64::MAX / 512 / MAX_MEMBERS as u64 / unit);
        Ok(Layout { level, members, unit, rows })
    }

    /// Sectors of the array.
    pub fn capacity(&self) -> u64 {
        let members = self.members as u64;
        self.unit
            * match self.level {
                Level::Raid0 => self.rows * members,
                Level::Raid1 => self.rows,
                Level::Raid5 => self.rows * (members - 1),
                Level::Raid10 => self.rows * members / 2,
            }
    }

    /// Sectors of the array that lie in one stripe, about.
    pub fn stripe_sectors(&self) -> u64 {
        match self.level {
            Level::Raid0 => self.unit * self.members as u64,
            // Nothing is ever split.
            Level::Raid1 => self.capacity(),
            Level::Raid5 => self.unit * (self.members as u64 - 1),
            Level::Raid10 => self.unit * (self.members as u64 / 2),
        }
    }

    /// All members as bits.
    pub fn all(&self) -> u64 {
        u64::MAX >> (64 - self.members)
    }

    /// RAID 0: member and row of a stripe unit.
    pub fn striped(&self, unit: u64) -> (usize, u64) {
        let members = self.members as u64;
        ((unit % members) as usize, unit / members)
    }

    /// RAID 10: members and rows of a stripe unit's two copies.
    pub fn copies(&self, unit: u64) -> [(usize, u64); 2] {
        [self.striped(2 * unit), self.striped(2 * unit + 1)]
    }

    /// RAID 10: the stripe unit that a member holds in a row; none in the corner that an odd number may leave.
    pub fn mirrored_at(&self, member: usize, row: u64) -> Option<u64> {
        let unit = (row * self.members as u64 + member as u64) / 2;
        (unit < self.rows * self.members as u64 / 2).then_some(unit)
    }

    /// RAID 5: the member with the parity of a row.
    pub fn parity(&self, row: u64) -> usize {
        let members = self.members as u64;
        (members - 1 - row % members) as usize
    }

    /// What must be locked to work on sectors `at` to `until` of the array: of mirrors these, of a RAID 5 those of the parity.
    pub fn span(&self, at: u64, until: u64) -> (u64, u64) {
        if self.level != Level::Raid5 {
            return (at, until);
        }
        let (unit, sectors) = (self.unit, self.stripe_sectors());
        if at / unit == (until - 1) / unit {
            let base = at / sectors * unit + at % unit;
            return (base, base + (until - at));
        }
        (at / sectors * unit, ((until - 1) / sectors + 1) * unit)
    }

    /// What must be locked to work on sectors of the members, in the same terms.
    pub fn span_of_members(&self, first: u64, end: u64) -> (u64, u64) {
        match self.level {
            Level::Raid10 => {
                let (members, unit) = (self.members as u64, self.unit);
                (first / unit * members / 2 * unit, (end.div_ceil(unit) * members).div_ceil(2) * unit)
            }
            _ => (first, end),
        }
    }

    /// RAID 5: what sectors `from` to `end` of the array, which lie in one row, touch there. Bands may be empty.
    pub fn bands(&self, from: u64, end: u64) -> [Band; 3] {
        let (data, unit) = (self.members as u64 - 1, self.unit);
        let (first, last) = (from / unit, (end - 1) / unit);
        let (start, stop) = (from - first * unit, end - last * unit);
        let behind_parity = self.parity(first / data) as u64 + 1;
        let touched = |units: std::ops::Range<u64>| {
            units.fold(0u64, |bits, number| bits | 1 << ((behind_parity + number % data) % self.members as u64))
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
}
