//! DFTL's cached mapping table: which groups of entries of the map are in memory, least recently used first out.
//!
//! The paper keeps a segmented LRU list; this is a plain one. Only presence is kept here: what the entries say is in the flash
//! translation layer's own arrays, which stand for both the cached and the flash-resident copy.

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Slot {
    group: u32,
    newer: u32,
    older: u32,
    dirty: bool,
    /// The next dirty one of the same translation page.
    next_dirty: u32,
}

/// Which groups are in memory.
#[derive(Clone, Debug)]
pub(super) struct CachedMap {
    slots: Vec<Slot>,
    capacity: usize,
    /// By group: its slot and one, or 0. Zeroed memory that is never written costs nothing.
    slot_of: Vec<u32>,
    newest: u32,
    oldest: u32,
    /// By translation page: the first of its dirty slots.
    first_dirty: Vec<u32>,
}

impl CachedMap {
    /// Room for `capacity` (at least 1) of `groups` groups, which lie in `map_pages` translation pages.
    pub fn new(capacity: u32, groups: usize, map_pages: usize) -> CachedMap {
        let capacity = (capacity.max(1) as usize).min(groups.max(1));
        CachedMap {
            slots: Vec::with_capacity(capacity),
            capacity,
            slot_of: vec![0; groups],
            newest: NONE,
            oldest: NONE,
            first_dirty: vec![NONE; map_pages],
        }
    }

    fn find(&self, group: usize) -> Option<u32> {
        self.slot_of[group].checked_sub(1)
    }

    /// Makes a group the most recently used; false if it is not there.
    pub fn touch(&mut self, group: usize) -> bool {
        let Some(slot) = self.find(group) else { return false };
        if slot != self.newest {
            self.unlink(slot);
            self.link_newest(slot);
        }
        true
    }

    /// Marks a group, which lies in `map_page`, as differing from the flash; false if it is not there.
    pub fn set_dirty(&mut self, group: usize, map_page: usize) -> bool {
        let Some(slot) = self.find(group) else { return false };
        let entry = &mut self.slots[slot as usize];
        if !entry.dirty {
            (entry.dirty, entry.next_dirty) = (true, self.first_dirty[map_page]);
            self.first_dirty[map_page] = slot;
        }
        true
    }

    /// Marks all groups of a translation page as being on the flash.
    pub fn set_clean(&mut self, map_page: usize) {
        // A dirty group never leaves the cache before its page is clean, so the list holds nobody else's slots.
        let mut slot = std::mem::replace(&mut self.first_dirty[map_page], NONE);
        while let Some(entry) = self.slots.get_mut(slot as usize) {
            entry.dirty = false;
            slot = entry.next_dirty;
        }
    }

    /// The group that must go before another can come, and whether it differs from the flash; none while there is room.
    pub fn next_out(&self) -> Option<(usize, bool)> {
        let slot = (self.slots.len() == self.capacity).then(|| self.slots.get(self.oldest as usize)).flatten()?;
        Some((slot.group as usize, slot.dirty))
    }

    /// Brings a group in that is not there, in place of the one that had to go.
    pub fn insert(&mut self, group: usize) {
        let entry = Slot { group: group as u32, newer: NONE, older: NONE, dirty: false, next_dirty: NONE };
        let slot = if self.slots.len() < self.capacity {
            self.slots.push(entry);
            self.slots.len() as u32 - 1
        } else {
            let slot = self.oldest;
            self.unlink(slot);
            self.slot_of[self.slots[slot as usize].group as usize] = 0;
            self.slots[slot as usize] = entry;
            slot
        };
        self.slot_of[group] = slot + 1;
        self.link_newest(slot);
    }

    fn unlink(&mut self, slot: u32) {
        let Slot { newer, older, .. } = self.slots[slot as usize];
        match self.slots.get_mut(newer as usize) {
            Some(neighbour) => neighbour.older = older,
            None => self.newest = older,
        }
        match self.slots.get_mut(older as usize) {
            Some(neighbour) => neighbour.newer = newer,
            None => self.oldest = newer,
        }
    }

    fn link_newest(&mut self, slot: u32) {
        let older = self.newest;
        (self.slots[slot as usize].newer, self.slots[slot as usize].older) = (NONE, older);
        match self.slots.get_mut(older as usize) {
            Some(neighbour) => neighbour.newer = slot,
            None => self.oldest = slot,
        }
        self.newest = slot;
    }
}
