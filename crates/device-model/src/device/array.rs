//! Splits requests over the disks of an array.
//!
//! Level, disks and stripe unit of an array are known to its administrator (`mdadm --detail`), so they are given, not learned. The layouts
//! are those of Linux's md driver.

use serde::{Deserialize, Serialize};

/// Maximum number of disks.
const MOST_DISKS: usize = 64;
/// Number of stripe units in a request above which each disk's part, including parity, counts as one piece.
const MOST_UNITS: u64 = 16;

/// An array's layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Array {
    /// RAID 0, 1 or 5.
    pub level: u32,
    /// Number of disks.
    pub disks: usize,
    /// Sectors of a stripe unit; RAID 1 has none.
    pub unit: u64,
}

/// A request to a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub disk: usize,
    pub lba: u64,
    pub sectors: u64,
    pub is_write: bool,
    /// Whether a write follows: it reads old data or parity to compute the new parity.
    pub is_first: bool,
}

impl Array {
    /// A single disk.
    pub(super) const NONE: Array = Array { level: 0, disks: 1, unit: 1 << 62 };

    /// Why the layout is invalid; `None` if it is valid.
    pub(super) fn problem(&self) -> Option<String> {
        let least = match self.level {
            0 => 1,
            1 => 2,
            5 => 3,
            level => return Some(format!("RAID {level} is none of 0, 1 and 5")),
        };
        let is_right = (least..=MOST_DISKS).contains(&self.disks) && (1..=1 << 62).contains(&self.unit);
        (!is_right).then(|| format!("RAID {} of {} disks in units of {} sectors", self.level, self.disks, self.unit))
    }

    /// Splits a request over the disks. `nearest` chooses the disk of a mirror that reads.
    pub(super) fn pieces(
        &self,
        (lba, sectors, is_write): (u64, u64, bool),
        nearest: impl Fn(u64) -> usize,
        pieces: &mut Vec<Piece>,
    ) {
        pieces.clear();
        let whole = Piece { disk: 0, lba, sectors, is_write, is_first: false };
        match self.level {
            _ if self.disks == 1 => pieces.push(whole),
            1 if is_write => pieces.extend((0..self.disks).map(|disk| Piece { disk, ..whole })),
            1 => pieces.push(Piece { disk: nearest(lba), ..whole }),
            5 => self.with_parity(whole, pieces),
            _ => self.striped(whole, pieces),
        }
    }

    /// RAID 0: units go to the disks in turn.
    fn striped(&self, whole: Piece, pieces: &mut Vec<Piece>) {
        let (unit, disks) = (self.unit, self.disks as u64);
        let end = whole.lba + whole.sectors;
        let (first, last) = (whole.lba / unit, (end - 1) / unit);
        // The first row contains the first unit of each disk.
        for number in first..=last.min(first + disks - 1) {
            let final_one = last - (last - number) % disks;
            let from = number / disks * unit + if number == first { whole.lba % unit } else { 0 };
            let to = final_one / disks * unit + if final_one == last { (end - 1) % unit + 1 } else { unit };
            pieces.push(Piece { disk: (number % disks) as usize, lba: from, sectors: to - from, ..whole });
        }
    }

    /// RAID 5: striped with one parity unit per row, whose disk rotates from row to row.
    fn with_parity(&self, whole: Piece, pieces: &mut Vec<Piece>) {
        let (unit, data) = (self.unit, self.disks as u64 - 1);
        let end = whole.lba + whole.sectors;
        let (first, last) = (whole.lba / unit, (end - 1) / unit);
        let (first_row, last_row) = (first / data, last / data);
        if last - first >= MOST_UNITS.max(2 * data) {
            let (from, to) = (first_row * unit, (last_row + 1) * unit);
            pieces.extend((0..self.disks).map(|disk| Piece { disk, lba: from, sectors: to - from, ..whole }));
            return;
        }
        for row in first_row..=last_row {
            let units = first.max(row * data)..=last.min(row * data + data - 1);
            let parity = (self.disks as u64 - 1 - row % self.disks as u64) as usize;
            let touched = (units.end() - units.start() + 1) as usize;
            let (mut low, mut high) = (unit, 0);
            for number in units.clone() {
                let from = if number == first { whole.lba % unit } else { 0 };
                let to = if number == last { (end - 1) % unit + 1 } else { unit };
                (low, high) = (low.min(from), high.max(to));
                let disk = (parity + 1 + (number % data) as usize) % self.disks;
                join(pieces, Piece { disk, lba: row * unit + from, sectors: to - from, ..whole });
            }
            if whole.is_write {
                let parity = Piece { disk: parity, lba: row * unit + low, sectors: high - low, ..whole };
                join(pieces, parity);
                self.reads_first(touched, parity, units, pieces);
            }
        }
    }

    /// The reads before a partial row write: the old data and parity, or the rest of the row if that is not more.
    fn reads_first(&self, touched: usize, parity: Piece, units: std::ops::RangeInclusive<u64>, pieces: &mut Vec<Piece>) {
        let data = self.disks - 1;
        let untouched = data - touched;
        if untouched == 0 {
            return;
        }
        let modifies = touched + 1 < untouched;
        let is_touched = |number: usize| units.contains(&(units.start() / data as u64 * data as u64 + number as u64));
        for number in 0..data {
            if is_touched(number) == modifies {
                let disk = (parity.disk + 1 + number) % self.disks;
                pieces.push(Piece { disk, is_write: false, is_first: true, ..parity });
            }
        }
        if modifies {
            pieces.push(Piece { is_write: false, is_first: true, ..parity });
        }
    }
}

/// Adds a piece, or extends the disk's existing one.
fn join(pieces: &mut Vec<Piece>, piece: Piece) {
    let before = pieces.iter_mut().find(|other| (other.disk, other.is_first) == (piece.disk, piece.is_first));
    match before {
        Some(other) => {
            let end = (other.lba + other.sectors).max(piece.lba + piece.sectors);
            other.lba = other.lba.min(piece.lba);
            other.sectors = end - other.lba;
        }
        None => pieces.push(piece),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(array: Array, lba: u64, sectors: u64, is_write: bool) -> Vec<(usize, u64, u64, bool)> {
        let mut pieces = Vec::new();
        array.pieces((lba, sectors, is_write), |_| 1, &mut pieces);
        pieces.iter().map(|piece| (piece.disk, piece.lba, piece.sectors, piece.is_write)).collect()
    }

    #[test]
    fn stripe_units_go_to_the_disks_in_turn() {
        let array = Array { level: 0, disks: 3, unit: 8 };
        assert_eq!(of(array, 4, 2, false), [(0, 4, 2, false)]);
        // Units 1 to 4; the first and the last partly.
        assert_eq!(of(array, 10, 24, true), [(1, 2, 8, true), (2, 0, 8, true), (0, 8, 8, true)]);
    }

    #[test]
    fn a_mirror_reads_from_one_disk_and_writes_to_all() {
        let array = Array { level: 1, disks: 2, unit: 1 };
        assert_eq!(of(array, 40, 8, false), [(1, 40, 8, false)]);
        assert_eq!(of(array, 40, 8, true), [(0, 40, 8, true), (1, 40, 8, true)]);
    }

    #[test]
    fn a_small_write_to_raid_5_reads_the_blocks_of_its_parity() {
        let array = Array { level: 5, disks: 5, unit: 8 };
        // Row 0: the parity is on disk 4, the data on 0 to 3.
        assert_eq!(of(array, 2, 4, false), [(0, 2, 4, false)]);
        assert_eq!(of(array, 2, 4, true), [(0, 2, 4, true), (4, 2, 4, true), (0, 2, 4, false), (4, 2, 4, false)]);
        let whole = of(array, 0, 32, true);
        assert_eq!(whole, [(0, 0, 8, true), (1, 0, 8, true), (2, 0, 8, true), (3, 0, 8, true), (4, 0, 8, true)]);
    }
}
