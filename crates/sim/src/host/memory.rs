//! The page frames: which page is in which, and on which list it waits to be used again or given up.
//!
//! ```text
//! heads[hash]: frame -> frame              (chains of pages with the same hash)
//! lists: inactive anonymous | active anonymous | inactive file | active file
//!        newest <-> … <-> oldest           (linked through the frames; reclaim takes the oldest)
//! shadows[hash]: when a page left          (so that one that comes back soon is known to be needed)
//! ```
//! Follows `mm/swap.c` (`folio_mark_accessed`, `lru_note_cost`) and `mm/workingset.c` of Linux 6.x. Simplified: one node without
//! zones or control groups; every folio is one page of 4 KiB; lists change at once, not in batches for each processor. Linux keeps
//! shadow entries in each file's own index for as long as there is memory; here they share one table with room for as many as there
//! are frames, where a newer one may take an older one's place.
//!
//! A page costs 32 bytes, its place in the hash 4 to 8, its shadow 8 to 16.

use crate::host::FileId;
use crate::scramble::scramble;

pub(super) const PAGE: u64 = 4096;
pub(super) const NONE: u32 = u32::MAX;
/// The owner of anonymous pages.
pub(super) const ANONYMOUS: FileId = u32::MAX;

/// What is known about a page, under the kernel's names (`include/linux/page-flags.h`) where it has one.
pub(super) mod flag {
    pub const REFERENCED: u16 = 1;
    pub const ACTIVE: u16 = 1 << 1;
    pub const DIRTY: u16 = 1 << 2;
    pub const WRITEBACK: u16 = 1 << 3;
    /// Being read: not up to date.
    pub const LOCKED: u16 = 1 << 4;
    /// Whoever reads this page makes the kernel read ahead of it.
    pub const MARKER: u16 = 1 << 5;
    /// It was active once.
    pub const WORKINGSET: u16 = 1 << 6;
    /// Reclaim met it and could not free it: it goes first when its write is done.
    pub const RECLAIM: u16 = 1 << 7;
    /// Read ahead, and not used so far.
    pub const AHEAD: u16 = 1 << 8;
    /// Touched by its process since reclaim looked: the accessed bit of the page table. Anonymous pages only.
    pub const YOUNG: u16 = 1 << 9;
}

/// The lists, numbered as in `include/linux/mmzone.h`: kind times two, and one more if active.
pub(super) const INACTIVE: [usize; 2] = [0, 2];
pub(super) const ACTIVE: [usize; 2] = [1, 3];
/// The kinds of pages.
pub(super) const ANON: usize = 0;
pub(super) const FILE: usize = 1;

#[derive(Clone, Copy)]
pub(super) struct Page {
    newer: u32,
    older: u32,
    /// The next page with the same hash.
    chain: u32,
    pub file: FileId,
    pub index: u64,
    /// What reads or writes it, while it is locked or written back.
    pub transfer: u32,
    pub flags: u16,
}

#[derive(Clone, Copy)]
struct List {
    newest: u32,
    oldest: u32,
    len: u32,
}

#[derive(Clone, Copy, Default)]
struct Shadow {
    /// 0 says that nothing is here.
    tag: u32,
    /// The clock when the page left, its lowest bit replaced by whether it had been active.
    age: u32,
}

pub(super) struct Memory {
    total: u32,
    pages: Vec<Page>,
    /// Freed frames, linked through `chain`.
    free: u32,
    used: u32,
    heads: Vec<u32>,
    lists: [List; 4],
    shadows: Vec<Shadow>,
    /// Evictions and activations so far, twice (`nonresident_age`): the clock of the shadows.
    clock: u32,
    /// What reclaiming each kind has cost lately.
    pub cost: [u64; 2],
    /// Pages of each kind that came back soon enough to be made active at once.
    pub activations: [u64; 2],
    pub has_swap: bool,
}

impl Memory {
    pub fn new(total: u32) -> Memory {
        Memory {
            total,
            pages: Vec::new(),
            free: NONE,
            used: 0,
            heads: vec![NONE; 1024],
            lists: [List { newest: NONE, oldest: NONE, len: 0 }; 4],
            shadows: Vec::new(),
            clock: 0,
            cost: [0; 2],
            activations: [0; 2],
            has_swap: false,
        }
    }

    pub fn total(&self) -> u32 {
        self.total
    }

    pub fn free(&self) -> u32 {
        self.total - self.used
    }

    /// Frames that were ever in use: those below this number.
    pub fn frames(&self) -> u32 {
        self.pages.len() as u32
    }

    pub fn len(&self, list: usize) -> u32 {
        self.lists[list].len
    }

    /// Pages of a kind, active and inactive.
    pub fn pages_of(&self, kind: usize) -> u32 {
        self.lists[INACTIVE[kind]].len + self.lists[ACTIVE[kind]].len
    }

    pub fn page(&self, frame: u32) -> &Page {
        &self.pages[frame as usize]
    }

    pub fn has(&self, frame: u32, flags: u16) -> bool {
        self.pages[frame as usize].flags & flags != 0
    }

    pub fn set(&mut self, frame: u32, flags: u16) {
        self.pages[frame as usize].flags |= flags;
    }

    pub fn clear(&mut self, frame: u32, flags: u16) {
        self.pages[frame as usize].flags &= !flags;
    }

    pub fn set_transfer(&mut self, frame: u32, transfer: u32) {
        self.pages[frame as usize].transfer = transfer;
    }

    /// The frame that holds a page.
    pub fn find(&self, file: FileId, index: u64) -> Option<u32> {
        let mut frame = self.heads[self.bucket(file, index)];
        while frame != NONE {
            let page = &self.pages[frame as usize];
            if page.index == index && page.file == file {
                return Some(frame);
            }
            frame = page.chain;
        }
        None
    }

    /// The first of the `most` pages from `index` on that is not here, or the one behind them (`page_cache_next_miss`).
    pub fn next_miss(&self, file: FileId, index: u64, most: u64) -> u64 {
        let end = index.saturating_add(most);
        (index..end).find(|&index| self.find(file, index).is_none()).unwrap_or(end)
    }

    /// How many pages right before `index` are here without a gap, at most `most` (`count_history_pages`).
    pub fn history(&self, file: FileId, index: u64, most: u64) -> u64 {
        (0..most.min(index)).find(|&back| self.find(file, index - 1 - back).is_none()).unwrap_or(most.min(index))
    }

    /// Gives a page a frame and puts it on its kind's inactive list, or on the active one if it left too short a time ago.
    /// There must be a free frame, and the page must not be here.
    pub fn insert(&mut self, file: FileId, index: u64, flags: u16) -> u32 {
        self.used += 1;
        if self.used as usize > self.heads.len() {
            self.grow();
        }
        let bucket = self.bucket(file, index);
        let page = Page { newer: NONE, older: NONE, chain: self.heads[bucket], file, index, transfer: NONE, flags };
        let frame = if self.free == NONE {
            self.pages.push(page);
            (self.pages.len() - 1) as u32
        } else {
            let frame = self.free;
            self.free = self.pages[frame as usize].chain;
            self.pages[frame as usize] = page;
            frame
        };
        self.heads[bucket] = frame;
        self.refault(frame);
        self.put_newest(frame);
        frame
    }

    /// Gives up a frame. `evicted`: by reclaim, which leaves a shadow.
    pub fn remove(&mut self, frame: u32, evicted: bool) {
        self.take_off(frame);
        let Page { file, index, chain, .. } = self.pages[frame as usize];
        let bucket = self.bucket(file, index);
        let mut at = self.heads[bucket];
        if at == frame {
            self.heads[bucket] = chain;
        } else {
            while self.pages[at as usize].chain != frame {
                at = self.pages[at as usize].chain;
            }
            self.pages[at as usize].chain = chain;
        }
        if evicted {
            self.leave_shadow(frame);
        }
        self.pages[frame as usize].chain = self.free;
        self.free = frame;
        self.used -= 1;
    }

    pub fn kind(&self, frame: u32) -> usize {
        usize::from(self.pages[frame as usize].file != ANONYMOUS)
    }

    fn list(&self, frame: u32) -> usize {
        2 * self.kind(frame) + usize::from(self.has(frame, flag::ACTIVE))
    }

    pub fn oldest(&self, list: usize) -> Option<u32> {
        Some(self.lists[list].oldest).filter(|&frame| frame != NONE)
    }

    /// Puts a page that is on no list on the one that its kind and flags say.
    pub fn put_newest(&mut self, frame: u32) {
        let list = self.list(frame);
        let newest = std::mem::replace(&mut self.lists[list].newest, frame);
        self.lists[list].len += 1;
        match newest {
            NONE => self.lists[list].oldest = frame,
            _ => self.pages[newest as usize].newer = frame,
        }
        let page = &mut self.pages[frame as usize];
        (page.newer, page.older) = (NONE, newest);
    }

    pub fn take_off(&mut self, frame: u32) {
        let list = self.list(frame);
        let Page { newer, older, .. } = self.pages[frame as usize];
        self.lists[list].len -= 1;
        match newer {
            NONE => self.lists[list].newest = older,
            _ => self.pages[newer as usize].older = older,
        }
        match older {
            NONE => self.lists[list].oldest = newer,
            _ => self.pages[older as usize].newer = newer,
        }
    }

    /// Moves a page whose write is done to where reclaim looks first (`folio_rotate_reclaimable`).
    pub fn rotate_reclaimable(&mut self, frame: u32) {
        self.take_off(frame);
        self.clear(frame, flag::ACTIVE | flag::RECLAIM);
        let list = self.list(frame);
        let oldest = std::mem::replace(&mut self.lists[list].oldest, frame);
        self.lists[list].len += 1;
        match oldest {
            NONE => self.lists[list].newest = frame,
            _ => self.pages[oldest as usize].older = frame,
        }
        let page = &mut self.pages[frame as usize];
        (page.newer, page.older) = (oldest, NONE);
    }

    /// `folio_mark_accessed`: used once it is referenced, used again it is active.
    pub fn mark_accessed(&mut self, frame: u32) {
        if !self.has(frame, flag::REFERENCED) {
            self.set(frame, flag::REFERENCED);
        } else if !self.has(frame, flag::ACTIVE) {
            self.take_off(frame);
            self.set(frame, flag::ACTIVE);
            self.clear(frame, flag::REFERENCED);
            self.put_newest(frame);
            self.tick();
        }
    }

    /// `lru_note_cost`: input and output count 32 times a page that was looked at in vain; old costs fade.
    pub fn note_cost(&mut self, kind: usize, transfers: u64, rotated: u64) {
        self.cost[kind] += transfers * 32 + rotated;
        let size = u64::from(self.pages_of(ANON)) + u64::from(self.pages_of(FILE));
        if self.cost[ANON] + self.cost[FILE] > size / 4 {
            self.cost = self.cost.map(|cost| cost / 2);
        }
    }

    /// One more page left or was made active: the clock of the shadows.
    pub fn tick(&mut self) {
        self.clock = self.clock.wrapping_add(2);
    }

    fn leave_shadow(&mut self, frame: u32) {
        self.tick();
        if self.shadows.is_empty() {
            self.shadows = vec![Shadow::default(); (self.total as usize).next_power_of_two()];
        }
        let Page { file, index, .. } = self.pages[frame as usize];
        let (place, tag) = self.shadow(file, index);
        let age = self.clock & !1 | u32::from(self.has(frame, flag::WORKINGSET));
        self.shadows[place] = Shadow { tag, age };
    }

    /// `workingset_refault`: a page that would still be here if the active ones had given way belongs with them.
    fn refault(&mut self, frame: u32) {
        if self.shadows.is_empty() {
            return;
        }
        let Page { file, index, .. } = self.pages[frame as usize];
        let (place, tag) = self.shadow(file, index);
        let shadow = self.shadows[place];
        if shadow.tag != tag {
            return;
        }
        self.shadows[place] = Shadow::default();
        let kind = self.kind(frame);
        let distance = self.clock.wrapping_sub(shadow.age & !1) / 2;
        let mut working_set = self.lists[ACTIVE[FILE]].len;
        if kind == ANON {
            working_set += self.lists[INACTIVE[FILE]].len;
        }
        if self.has_swap {
            working_set += self.lists[ACTIVE[ANON]].len + if kind == FILE { self.lists[INACTIVE[ANON]].len } else { 0 };
        }
        if distance > working_set {
            return;
        }
        self.set(frame, flag::ACTIVE);
        self.tick();
        self.activations[kind] += 1;
        if shadow.age & 1 == 1 {
            self.set(frame, flag::WORKINGSET);
            self.note_cost(kind, 1, 0);
        }
    }

    fn shadow(&self, file: FileId, index: u64) -> (usize, u32) {
        let hash = scatter(file, index);
        ((hash as usize) & (self.shadows.len() - 1), (hash >> 32) as u32 | 1)
    }

    /// Sixteen pages that follow each other lie side by side in the table: reading in order finds them in the processor's cache.
    fn bucket(&self, file: FileId, index: u64) -> usize {
        (((scatter(file, index >> 4) as usize) << 4) | (index & 15) as usize) & (self.heads.len() - 1)
    }

    fn grow(&mut self) {
        self.heads = vec![NONE; self.heads.len() * 2];
        for list in 0..4 {
            let mut frame = self.lists[list].newest;
            while frame != NONE {
                let Page { file, index, older, .. } = self.pages[frame as usize];
                let bucket = self.bucket(file, index);
                self.pages[frame as usize].chain = std::mem::replace(&mut self.heads[bucket], frame);
                frame = older;
            }
        }
    }
}

/// Spreads pages over 64 bits.
fn scatter(file: FileId, index: u64) -> u64 {
    scramble(index ^ (u64::from(file) << 40) ^ u64::from(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_found_until_it_is_removed_however_many_there_are() {
        let mut memory = Memory::new(50_000);
        for index in 0..50_000 {
            memory.insert(3, index * 7, 0);
        }
        assert_eq!(memory.free(), 0);
        for index in (0..50_000).step_by(2) {
            let frame = memory.find(3, index * 7).unwrap();
            memory.remove(frame, false);
        }
        for index in 0..50_000 {
            assert_eq!(memory.find(3, index * 7).is_some(), index % 2 == 1);
            assert!(memory.find(4, index * 7).is_none());
        }
        assert_eq!((memory.free(), memory.len(INACTIVE[FILE])), (25_000, 25_000));
    }

    #[test]
    fn a_page_used_twice_is_active_and_a_rotated_one_goes_first() {
        let mut memory = Memory::new(8);
        let frames = [0, 1, 2].map(|index| memory.insert(0, index, 0));
        memory.mark_accessed(frames[0]);
        memory.mark_accessed(frames[0]);
        assert_eq!((memory.len(ACTIVE[FILE]), memory.len(INACTIVE[FILE])), (1, 2));
        assert_eq!(memory.oldest(INACTIVE[FILE]), Some(frames[1]));
        memory.rotate_reclaimable(frames[2]);
        assert_eq!(memory.oldest(INACTIVE[FILE]), Some(frames[2]));
        memory.rotate_reclaimable(frames[0]);
        assert_eq!((memory.oldest(INACTIVE[FILE]), memory.len(ACTIVE[FILE])), (Some(frames[0]), 0));
    }

    #[test]
    fn a_page_that_comes_back_sooner_than_the_active_ones_were_used_is_active_at_once() {
        let mut memory = Memory::new(8);
        let active = [0, 1, 2, 3].map(|index| memory.insert(0, index, flag::ACTIVE));
        let frame = memory.insert(0, 100, 0);
        memory.remove(frame, true);
        let back = memory.insert(0, 100, 0);
        assert!(memory.has(back, flag::ACTIVE));
        memory.remove(back, true);
        for frame in active {
            memory.remove(frame, true);
        }
        let late = memory.insert(0, 100, 0);
        assert!(!memory.has(late, flag::ACTIVE));
    }

    #[test]
    fn a_million_pages_cost_less_than_a_hundred_and_fifty_megabytes() {
        let mut memory = Memory::new(1 << 20);
        for index in 0..1 << 20 {
            memory.insert(0, index * 1000, 0);
        }
        memory.remove(0, true);
        let bytes = memory.pages.capacity() * size_of::<Page>()
            + memory.heads.capacity() * size_of::<u32>()
            + memory.shadows.capacity() * size_of::<Shadow>();
        assert!(bytes < 150_000_000, "{bytes}");
    }
}
