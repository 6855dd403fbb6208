//! DFTL's cached mapping table: the groups of map entries in memory, evicted least recently used first.
//!
//! The paper keeps a segmented LRU list; this is a plain one. Only presence is kept here: the entries' values are in the flash
//! translation layer's own tables, which stand for both the cached and the flash-resident copy.
//!
//! ```text
//!  index   hash of a group ─▶ group, slot          open addressing, at most half full; grows with its entries
//!  slots   group, links, next dirty                two lists: by age, and the dirty ones of each translation page
//! ```

use block::list::{Linked, Links, List};

const NONE: u32 = u32::MAX;

/// End of a list of dirty slots; distinguishes the last dirty slot from clean ones.
const LAST: u32 = u32::MAX - 1;

/// Initial size of the index.
const FIRST_INDEX: usize = 16;

#[derive(Clone, Copy, Debug)]
struct Slot {
    group: u32,
    /// Links of the list by age.
    links: Links,
    /// The next dirty slot of the same translation page, or [`LAST`]; [`NONE`] if this one is clean.
    next_dirty: u32,
}

impl Linked for Slot {
    fn links(&self) -> &Links {
        &self.links
    }

    fn links_mut(&mut self) -> &mut Links {
        &mut self.links
    }
}

/// An entry of the index: empty if the slot is [`NONE`].
#[derive(Clone, Copy, Debug)]
struct IndexEntry {
    group: u32,
    slot: u32,
}

const EMPTY: IndexEntry = IndexEntry { group: 0, slot: NONE };

/// The set of groups in memory.
#[derive(Clone, Debug)]
pub(super) struct CachedMap {
    slots: Vec<Slot>,
    capacity: usize,
    index: Vec<IndexEntry>,
    /// The least recently used first.
    ages: List,
    /// By translation page: the first of its dirty slots, or [`LAST`].
    first_dirty: Vec<u32>,
}

impl CachedMap {
    /// A cache of `capacity` (at least 1) of `groups` groups, which lie in `map_pages` translation pages.
    pub fn new(capacity: u32, groups: usize, map_pages: usize) -> CachedMap {
        CachedMap {
            slots: Vec::new(),
            capacity: (capacity.max(1) as usize).min(groups.max(1)),
            index: vec![EMPTY; FIRST_INDEX],
            ages: List::new(),
            first_dirty: vec![LAST; map_pages],
        }
    }

    fn home(&self, group: u32) -> usize {
        // Fibonacci hashing by the product's high bits: spreads neighbours, and is the same on every machine.
        (group.wrapping_mul(0x9e37_79b9) >> (32 - self.index.len().ilog2())) as usize
    }

    /// The position of a group in the index, or the free position for it.
    #[inline]
    fn position(&self, group: u32) -> usize {
        let mut at = self.home(group);
        while self.index[at].slot != NONE && self.index[at].group != group {
            at = (at + 1) & (self.index.len() - 1);
        }
        at
    }

    #[inline]
    fn find(&self, group: u32) -> Option<u32> {
        let slot = self.index[self.position(group)].slot;
        (slot != NONE).then_some(slot)
    }

    /// Makes a group the most recently used; returns `false` if it is not cached.
    pub fn touch(&mut self, group: u32) -> bool {
        let Some(slot) = self.find(group) else { return false };
        if self.ages.last() != Some(slot) {
            self.ages.remove(&mut self.slots, slot);
            self.ages.push_back(&mut self.slots, slot);
        }
        true
    }

    /// Marks a group, which lies in `map_page`, as differing from the flash; returns `false` if it is not cached.
    #[inline]
    pub fn set_dirty(&mut self, group: u32, map_page: usize) -> bool {
        let Some(slot) = self.find(group) else { return false };
        let entry = &mut self.slots[slot as usize];
        if entry.next_dirty == NONE {
            entry.next_dirty = std::mem::replace(&mut self.first_dirty[map_page], slot);
        }
        true
    }

    /// Marks all groups of a translation page as equal to the flash.
    pub fn set_clean(&mut self, map_page: usize) {
        // A dirty group never leaves the cache before its page is clean, so the list holds no slot of another page.
        let mut slot = std::mem::replace(&mut self.first_dirty[map_page], LAST);
        while slot != LAST {
            slot = std::mem::replace(&mut self.slots[slot as usize].next_dirty, NONE);
        }
    }

    /// The next victim and whether it is dirty; `None` while there is free space.
    pub fn next_out(&self) -> Option<(u32, bool)> {
        if self.slots.len() < self.capacity {
            return None;
        }
        let slot = self.slots[self.ages.first()? as usize];
        Some((slot.group, slot.next_dirty != NONE))
    }

    /// Inserts a group that is not cached, evicting the victim if necessary.
    pub fn insert(&mut self, group: u32) {
        let entry = Slot { group, links: Links::default(), next_dirty: NONE };
        let slot = match self.make_room() {
            Some(slot) => {
                self.slots[slot as usize] = entry;
                slot
            }
            None => {
                self.slots.push(entry);
                if self.slots.len() * 2 > self.index.len() {
                    self.grow();
                }
                self.slots.len() as u32 - 1
            }
        };
        let at = self.position(group);
        self.index[at] = IndexEntry { group, slot };
        self.ages.push_back(&mut self.slots, slot);
    }

    /// Evicts the victim if the cache is full. Returns its slot.
    fn make_room(&mut self) -> Option<u32> {
        if self.slots.len() < self.capacity {
            return None;
        }
        let slot = self.ages.pop_front(&mut self.slots)?;
        self.forget(self.slots[slot as usize].group);
        Some(slot)
    }

    /// Doubles the index. The newest slot is not in it yet.
    #[cold]
    fn grow(&mut self) {
        let size = self.index.len() * 2;
        let old = std::mem::replace(&mut self.index, vec![EMPTY; size]);
        for place in old.into_iter().filter(|place| place.slot != NONE) {
            let at = self.position(place.group);
            self.index[at] = place;
        }
    }

    /// Removes a group from the index, and closes the gap in its probe sequence.
    fn forget(&mut self, group: u32) {
        let mask = self.index.len() - 1;
        let mut gap = self.position(group);
        let mut at = gap;
        loop {
            at = (at + 1) & mask;
            let place = self.index[at];
            if place.slot == NONE {
                break;
            }
            let from_home = at.wrapping_sub(self.home(place.group)) & mask;
            if from_home >= (at.wrapping_sub(gap) & mask) {
                self.index[gap] = place;
                gap = at;
            }
        }
        self.index[gap] = EMPTY;
    }
}
