//! The page cache: the frame of each page, and the LRU lists. Anonymous pages have their frames here as well.
//!
//! ```text
//! heads[hash]: frame -> frame              (chains of pages with the same hash)
//! lists: inactive anonymous | active anonymous | inactive file | active file
//!        newest <-> … <-> oldest           (linked through the frames; reclaim takes the oldest)
//! ```
//! Follows `mm/swap.c` (`folio_mark_accessed`, `lru_note_cost`) and `mm/workingset.c` (`workingset_refault`) of Linux 6.x.
//! Simplified: one node without zones or control groups; every folio is one page of 4 KiB; lists change immediately, not in batches
//! for each processor.
//!
//! Memory per page: 32 bytes, 4 to 8 in the hash table, 8 to 16 for its shadow.

use block::list::{Linked, Links, List};

use super::FileId;
use super::shadows::{Refault, Shadows};
use super::watermarks::Watermarks;
use block::scramble::scramble;

pub(super) const PAGE: u64 = 4096;
pub(super) const NONE: u32 = u32::MAX;
/// The owner of anonymous pages.
pub(super) const ANONYMOUS: FileId = u32::MAX;

/// Page flags, under the kernel's names (`include/linux/page-flags.h`) where they exist.
pub(super) mod flag {
    pub const REFERENCED: u16 = 1;
    pub const ACTIVE: u16 = 1 << 1;
    pub const DIRTY: u16 = 1 << 2;
    pub const WRITEBACK: u16 = 1 << 3;
    /// Being read: not up to date.
    pub const LOCKED: u16 = 1 << 4;
    /// Reading this page triggers further read-ahead.
    pub const MARKER: u16 = 1 << 5;
    /// It was active before.
    pub const WORKINGSET: u16 = 1 << 6;
    /// Reclaim could not free it yet: it is reclaimed first when its write is done.
    pub const RECLAIM: u16 = 1 << 7;
    /// Read ahead, and not used yet.
    pub const AHEAD: u16 = 1 << 8;
    /// Touched by its process since the last scan: the accessed bit of the page table. Anonymous pages only.
    pub const YOUNG: u16 = 1 << 9;
}

/// The lists, numbered as in `include/linux/mmzone.h`: twice the kind, plus one if active.
pub(super) const INACTIVE: [usize; 2] = [0, 2];
pub(super) const ACTIVE: [usize; 2] = [1, 3];
/// The kinds of pages.
pub(super) const ANON: usize = 0;
pub(super) const FILE: usize = 1;

#[derive(Clone, Copy)]
pub(super) struct Page {
    /// Links of its list, from newest to oldest.
    links: Links,
    /// The next page with the same hash.
    chain: u32,
    pub file: FileId,
    pub index: u64,
    /// The transfer that reads or writes it, while it is locked or under write-back.
    pub transfer: u32,
    pub flags: u16,
}

impl Linked for Page {
    fn links(&self) -> &Links {
        &self.links
    }

    fn links_mut(&mut self) -> &mut Links {
        &mut self.links
    }
}

/// Counts of pages read.
#[derive(Clone, Copy, Default)]
pub(super) struct Reads {
    pub hits: u64,
    pub misses: u64,
    pub ahead: u64,
    pub ahead_used: u64,
    pub ahead_wasted: u64,
}

pub(super) struct PageCache {
    total: u32,
    watermarks: Watermarks,
    has_swap: bool,
    pages: Vec<Page>,
    /// Free frames, linked through `chain`: a slab would need another word per page.
    free: u32,
    used: u32,
    heads: Vec<u32>,
    lists: [List; 4],
    shadows: Shadows,
    /// By file: number of its pages in memory.
    cached: Vec<u64>,
    /// Recent cost of reclaiming each kind.
    cost: [u64; 2],
    /// By kind: pages that were refaulted soon enough to be activated immediately.
    activations: [u64; 2],
    reads: Reads,
}

impl PageCache {
    /// `total` frames for pages of this number of `files`. `has_swap`: whether there is a swap area.
    pub fn new(total: u32, files: usize, has_swap: bool) -> PageCache {
        PageCache {
            total,
            watermarks: Watermarks::new(total),
            has_swap,
            pages: Vec::new(),
            free: NONE,
            used: 0,
            heads: vec![NONE; 1024],
            lists: [List::new(); 4],
            shadows: Shadows::default(),
            cached: vec![0; files],
            cost: [0; 2],
            activations: [0; 2],
            reads: Reads::default(),
        }
    }

    pub fn total(&self) -> u32 {
        self.total
    }

    pub fn free(&self) -> u32 {
        self.total - self.used
    }

    pub fn watermarks(&self) -> Watermarks {
        self.watermarks
    }

    /// Pages available to files: their current pages, and free ones above the reserve (`global_dirtyable_memory`).
    pub fn available_to_files(&self) -> u64 {
        u64::from(self.free().saturating_sub(self.watermarks.high)) + u64::from(self.pages_of(FILE))
    }

    /// Whether there are anonymous pages and they can be swapped out.
    pub fn can_swap(&self) -> bool {
        self.has_swap && self.pages_of(ANON) > 0
    }

    /// Number of a file's pages in memory.
    pub fn cached(&self, file: FileId) -> u64 {
        self.cached[file as usize]
    }

    pub fn cost(&self) -> [u64; 2] {
        self.cost
    }

    pub fn activations(&self) -> [u64; 2] {
        self.activations
    }

    pub fn reads(&self) -> Reads {
        self.reads
    }

    /// Number of frames that were ever in use.
    pub fn frames(&self) -> u32 {
        self.pages.len() as u32
    }

    pub fn len(&self, list: usize) -> u32 {
        self.lists[list].len() as u32
    }

    /// Number of pages of a kind, active and inactive.
    pub fn pages_of(&self, kind: usize) -> u32 {
        self.len(INACTIVE[kind]) + self.len(ACTIVE[kind])
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

    /// Clears a flag. Returns whether it was set.
    pub fn take(&mut self, frame: u32, one: u16) -> bool {
        let was_set = self.has(frame, one);
        if was_set {
            self.clear(frame, one);
        }
        was_set
    }

    pub fn set_transfer(&mut self, frame: u32, transfer: u32) {
        self.pages[frame as usize].transfer = transfer;
    }

    /// The frame of a page; `None` if it is not cached.
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

    /// The first of the `most` pages from `index` on that is not cached, or the page after them (`page_cache_next_miss`).
    pub fn next_miss(&self, file: FileId, index: u64, most: u64) -> u64 {
        let end = index.saturating_add(most);
        (index..end).find(|&index| self.find(file, index).is_none()).unwrap_or(end)
    }

    /// Number of contiguous cached pages right before `index`, at most `most` (`count_history_pages`).
    pub fn history(&self, file: FileId, index: u64, most: u64) -> u64 {
        (0..most.min(index)).find(|&back| self.find(file, index - 1 - back).is_none()).unwrap_or(most.min(index))
    }

    /// Assigns a frame to a page and puts it on its kind's inactive list, or on the active one if it was evicted recently. There
    /// must be a free frame, and the page must not be cached.
    pub fn insert(&mut self, file: FileId, index: u64, flags: u16) -> u32 {
        self.used += 1;
        if let Some(cached) = self.cached.get_mut(file as usize) {
            *cached += 1;
        }
        if self.used as usize > self.heads.len() {
            self.grow();
        }
        let bucket = self.bucket(file, index);
        let page = Page { links: Links::default(), chain: self.heads[bucket], file, index, transfer: NONE, flags };
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

    /// Removes a page that is neither dirty nor in transfer. `evicted`: by reclaim, which leaves a shadow.
    pub fn remove(&mut self, frame: u32, evicted: bool) {
        self.take_off(frame);
        let Page { file, index, chain, flags, .. } = self.pages[frame as usize];
        if let Some(cached) = self.cached.get_mut(file as usize) {
            *cached -= 1;
            self.reads.ahead_wasted += u64::from(flags & flag::AHEAD != 0);
        }
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
            self.shadows.leave(self.total, scatter(file, index), flags & flag::WORKINGSET != 0);
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
        self.lists[list].last()
    }

    /// Puts a page that is on no list on the list for its kind and flags, as the newest.
    pub fn put_newest(&mut self, frame: u32) {
        let list = self.list(frame);
        self.lists[list].push_front(&mut *self.pages, frame);
    }

    pub fn take_off(&mut self, frame: u32) {
        let list = self.list(frame);
        self.lists[list].remove(&mut *self.pages, frame);
    }

    /// Moves a page whose write is done to the reclaim end of the list (`folio_rotate_reclaimable`).
    pub fn rotate_reclaimable(&mut self, frame: u32) {
        self.take_off(frame);
        self.clear(frame, flag::ACTIVE | flag::RECLAIM);
        let list = self.list(frame);
        self.lists[list].push_back(&mut *self.pages, frame);
    }

    /// Counts a page copied out by a buffered read; `missed`: the process had to wait for it.
    pub fn count_read(&mut self, missed: bool) {
        if missed {
            self.reads.misses += 1;
        } else {
            self.reads.hits += 1;
        }
    }

    /// Counts a page read ahead.
    pub fn count_ahead(&mut self) {
        self.reads.ahead += 1;
    }

    /// Records the use of a file's page: counts it if it was read ahead.
    pub fn mark_used(&mut self, frame: u32) {
        if self.take(frame, flag::AHEAD) {
            self.reads.ahead_used += 1;
        }
    }

    /// `folio_mark_accessed`: a first use references the page, a second one activates it.
    pub fn mark_accessed(&mut self, frame: u32) {
        if !self.has(frame, flag::REFERENCED) {
            self.set(frame, flag::REFERENCED);
        } else if !self.has(frame, flag::ACTIVE) {
            self.take_off(frame);
            self.set(frame, flag::ACTIVE);
            self.clear(frame, flag::REFERENCED);
            self.put_newest(frame);
            self.shadows.tick();
        }
    }

    /// `lru_note_cost`: I/O costs 32 times as much as a page scanned in vain; old costs decay.
    pub fn note_cost(&mut self, kind: usize, transfers: u64, rotated: u64) {
        self.cost[kind] += transfers * 32 + rotated;
        let size = u64::from(self.pages_of(ANON)) + u64::from(self.pages_of(FILE));
        if self.cost[ANON] + self.cost[FILE] > size / 4 {
            self.cost = self.cost.map(|cost| cost / 2);
        }
    }

    /// `workingset_refault`: a page that would still be cached if active ones had been evicted instead is part of the working set.
    fn refault(&mut self, frame: u32) {
        let Page { file, index, .. } = self.pages[frame as usize];
        let Some(Refault { distance, workingset }) = self.shadows.take(|| scatter(file, index)) else { return };
        let kind = self.kind(frame);
        let mut working_set = self.len(ACTIVE[FILE]);
        if kind == ANON {
            working_set += self.len(INACTIVE[FILE]);
        }
        if self.has_swap {
            working_set += self.len(ACTIVE[ANON]) + if kind == FILE { self.len(INACTIVE[ANON]) } else { 0 };
        }
        if distance > working_set {
            return;
        }
        self.set(frame, flag::ACTIVE);
        self.shadows.tick();
        self.activations[kind] += 1;
        if workingset {
            self.set(frame, flag::WORKINGSET);
            self.note_cost(kind, 1, 0);
        }
    }

    /// Sixteen consecutive pages are adjacent in the table, so that sequential reads hit the processor's cache.
    fn bucket(&self, file: FileId, index: u64) -> usize {
        (((scatter(file, index >> 4) as usize) << 4) | (index & 15) as usize) & (self.heads.len() - 1)
    }

    fn grow(&mut self) {
        self.heads = vec![NONE; self.heads.len() * 2];
        for list in self.lists {
            let mut next = list.first();
            while let Some(frame) = next {
                let Page { file, index, links, .. } = self.pages[frame as usize];
                let bucket = self.bucket(file, index);
                self.pages[frame as usize].chain = std::mem::replace(&mut self.heads[bucket], frame);
                next = links.next();
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
    fn a_page_is_found_until_it_is_removed_among_any_number() {
        let mut cache = PageCache::new(50_000, 5, false);
        for index in 0..50_000 {
            cache.insert(3, index * 7, 0);
        }
        assert_eq!(cache.free(), 0);
        for index in (0..50_000).step_by(2) {
            let frame = cache.find(3, index * 7).unwrap();
            cache.remove(frame, false);
        }
        for index in 0..50_000 {
            assert_eq!(cache.find(3, index * 7).is_some(), index % 2 == 1);
            assert!(cache.find(4, index * 7).is_none());
        }
        assert_eq!((cache.free(), cache.len(INACTIVE[FILE])), (25_000, 25_000));
    }

    #[test]
    fn a_page_used_twice_is_active_and_a_rotated_one_goes_first() {
        let mut cache = PageCache::new(8, 1, false);
        let frames = [0, 1, 2].map(|index| cache.insert(0, index, 0));
        cache.mark_accessed(frames[0]);
        cache.mark_accessed(frames[0]);
        assert_eq!((cache.len(ACTIVE[FILE]), cache.len(INACTIVE[FILE])), (1, 2));
        assert_eq!(cache.oldest(INACTIVE[FILE]), Some(frames[1]));
        cache.rotate_reclaimable(frames[2]);
        assert_eq!(cache.oldest(INACTIVE[FILE]), Some(frames[2]));
        cache.rotate_reclaimable(frames[0]);
        assert_eq!((cache.oldest(INACTIVE[FILE]), cache.len(ACTIVE[FILE])), (Some(frames[0]), 0));
    }

    #[test]
    fn a_page_that_comes_back_sooner_than_the_active_ones_were_used_is_active_at_once() {
        let mut cache = PageCache::new(8, 1, false);
        let active = [0, 1, 2, 3].map(|index| cache.insert(0, index, flag::ACTIVE));
        let frame = cache.insert(0, 100, 0);
        cache.remove(frame, true);
        let back = cache.insert(0, 100, 0);
        assert!(cache.has(back, flag::ACTIVE));
        cache.remove(back, true);
        for frame in active {
            cache.remove(frame, true);
        }
        let late = cache.insert(0, 100, 0);
        assert!(!cache.has(late, flag::ACTIVE));
    }

    #[test]
    fn a_million_pages_cost_less_than_a_hundred_and_fifty_megabytes() {
        let mut cache = PageCache::new(1 << 20, 1, false);
        for index in 0..1 << 20 {
            cache.insert(0, index * 1000, 0);
        }
        cache.remove(0, true);
        let bytes = cache.pages.capacity() * size_of::<Page>() + cache.heads.capacity() * size_of::<u32>() + cache.shadows.bytes();
        assert!(bytes < 150_000_000, "{bytes}");
    }
}
