//! The swap area: the slots and their owners.

use super::page_cache::NONE;

/// Slots taken in a row before the next free row is searched (`SWAPFILE_CLUSTER`).
const CLUSTER: usize = 256;

/// Slots of one page each, at the end of the device.
///
/// Follows `mm/swapfile.c` for rotating disks: slots are taken consecutively from a row of free ones, otherwise the next free
/// slot after the last one taken.
pub(super) struct SwapArea {
    first_lba: u64,
    owners: Vec<u32>,
    free: usize,
    next: usize,
    /// Number of slots left in the row at `next`.
    row: usize,
}

impl SwapArea {
    pub fn new(first_lba: u64, slots: usize) -> SwapArea {
        SwapArea { first_lba, owners: vec![NONE; slots], free: slots, next: 0, row: 0 }
    }

    pub fn lba(&self, slot: u32) -> u64 {
        self.first_lba + u64::from(slot) * 8
    }

    /// The anonymous page in a slot; `None` if it is free.
    pub fn owner(&self, slot: u32) -> Option<u32> {
        self.owners.get(slot as usize).copied().filter(|&owner| owner != NONE)
    }

    pub fn release(&mut self, slot: u32) {
        self.owners[slot as usize] = NONE;
        self.free += 1;
    }

    /// Takes a slot for a page; `None` if all are taken.
    pub fn take(&mut self, owner: u32) -> Option<u32> {
        if self.free == 0 {
            return None;
        }
        let slots = self.owners.len();
        if self.row == 0
            && let Some(row) = self.free_row()
        {
            (self.next, self.row) = (row, CLUSTER);
        }
        while self.owners[self.next] != NONE {
            self.next = (self.next + 1) % slots;
            self.row = 0;
        }
        let slot = self.next;
        self.owners[slot] = owner;
        self.free -= 1;
        self.next = (slot + 1) % slots;
        self.row = self.row.saturating_sub(1);
        Some(slot as u32)
    }

    /// The next row of free slots after the last one taken; `None` if there is none, or if too few slots are free for a search.
    fn free_row(&self) -> Option<usize> {
        let rows = self.owners.len() / CLUSTER;
        if self.free < self.owners.len() / 8 {
            return None;
        }
        let first = self.next.div_ceil(CLUSTER);
        let row = (0..rows).map(|row| (first + row) % rows * CLUSTER);
        row.into_iter().find(|&row| self.owners[row..row + CLUSTER].iter().all(|&owner| owner == NONE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_swapped_out_one_after_the_other_lie_side_by_side() {
        let mut area = SwapArea::new(1000, 1024);
        let slots: Vec<_> = (0..300).map(|page| area.take(page).unwrap()).collect();
        assert!(slots.windows(2).all(|pair| pair[1] == pair[0] + 1));
        area.release(5);
        assert_eq!(area.take(900), Some(300), "a hole is not filled while there are rows");
        assert_eq!((area.owner(300), area.owner(5), area.lba(2)), (Some(900), None, 1016));
    }

    #[test]
    fn every_slot_is_taken_once_and_then_none() {
        let mut area = SwapArea::new(0, 700);
        let mut slots: Vec<_> = (0..700).map(|page| area.take(page).unwrap()).collect();
        slots.sort_unstable();
        assert!(slots.iter().copied().eq(0..700));
        assert!(area.take(1).is_none());
        area.release(77);
        assert_eq!(area.take(1), Some(77));
    }
}
