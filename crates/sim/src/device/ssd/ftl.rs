//! The flash translation layer: page mapping with DFTL's cached map, garbage collection and wear levelling.
//!
//! ```text
//! logical page ──┬─▶ plane = page mod planes          every plane is a translation layer of its own:
//!                └─▶ local = page div planes          data, its map and garbage never leave it
//!
//!   plane:  [data][data][open data] … [map][open map] … [free][free][free]
//!             ▲                         ▲                  └─ least worn first
//!             │ logical to physical     │ translation directory (always in memory)
//!           local ──── entry in ──── translation page = local div entries per page
//! ```
//!
//! After Gupta, Kim and Urgaonkar: "DFTL: a flash translation layer employing demand-based selective caching of page-level address
//! mappings", ASPLOS 2009. A miss in the cached map reads a translation page; a dirty victim has its translation page read and
//! written anew, with all its cached dirty entries (batched update). Collection takes the block with the fewest valid pages, data or
//! map; moved pages whose entries are cached only dirty them (lazy copying), the others' translation pages are written anew, each
//! once for a block. Pages of data and of the map go to blocks of their own.
//!
//! What differs: pages are spread over planes statically, so a collection stays within its plane; the LRU list is not segmented;
//! pages move by copy-back within the plane and occupy no channel. A map that is wholly in memory is never written to the flash.
//!
//! Only what differs from the initial state is stored: an entry of 0 means "as at the beginning", so that memory that no
//! request ever reaches stays untouched zeroes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use super::cached_map::CachedMap;
use super::model::Model;
use super::spec::InitialState;
use super::tally::FlashTally;

/// In `Plane` tables' count of valid pages: the block is free or open, and no candidate for collection.
const NOT_CLOSED: u16 = 0x8000;

/// How often a plane looks for a block that is worn too little: at every so many-th collection.
const WEAR_CHECK_PERIOD: u64 = 16;

/// Of what a page holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    Data = 0,
    Map = 1,
}

/// Something that must happen on the flash for a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Step {
    /// Die or plane, whichever works by itself.
    pub unit: u32,
    /// Sectors that cross the channel.
    pub sectors: u32,
    /// A page is programmed, not read.
    pub program: bool,
    /// Nanoseconds of collection that the unit must do before it.
    pub collection: u64,
}

/// What must happen, one after another. Five is the most: a dirty victim read and written, the entry's translation page read, the
/// old page read for the sectors that stay, the page written.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Steps {
    list: [Step; 5],
    len: u8,
}

impl Steps {
    fn push(&mut self, step: Step) {
        self.list[usize::from(self.len)] = step;
        self.len += 1;
    }

    pub fn get(&self, index: u8) -> Option<Step> {
        (index < self.len).then(|| self.list[usize::from(index)])
    }
}

#[derive(Clone, Copy, Debug)]
struct Open {
    block: Option<u32>,
    /// Its next page; beyond the last if it is full.
    next: u32,
}

#[derive(Clone, Debug)]
struct Plane {
    /// Erase count and block, least worn first.
    free: BinaryHeap<Reverse<(u32, u32)>>,
    open: [Open; 2],
    collections: u64,
    most_worn: u32,
}

/// The translation layer of a device. "Page" alone means a physical page counted within its plane, "local" a logical one.
#[derive(Clone, Debug)]
pub(super) struct Ftl {
    model: Arc<Model>,
    /// By plane and local page: the page and one, or 0.
    page_of: Vec<u32>,
    /// By plane and page: what was written there (local or translation page) and one, or 0.
    owner_of: Vec<u32>,
    /// By plane and page.
    valid: Vec<u64>,
    /// By plane and block: its valid pages.
    valid_in: Vec<u16>,
    /// By plane and block.
    erases: Vec<u32>,
    /// By plane and block: holds translation pages.
    holds_map: Vec<bool>,
    /// DFTL's global translation directory. By plane and translation page: the page and one, or 0.
    directory: Vec<u32>,
    planes: Vec<Plane>,
    cache: Option<CachedMap>,
    /// Translation pages to be written anew; empty between collections.
    stale: Vec<u32>,
    pub tally: FlashTally,
}

impl Ftl {
    pub fn new(model: &Arc<Model>) -> Ftl {
        let planes = model.planes as usize;
        let blocks = planes * model.blocks as usize;
        let pages = blocks * model.pages as usize;
        let groups = groups_of_plane(model) * planes;
        let plane = Plane {
            free: BinaryHeap::with_capacity(model.blocks as usize),
            open: [Open { block: None, next: model.pages }; 2],
            collections: 0,
            most_worn: 0,
        };
        let mut ftl = Ftl {
            page_of: vec![0; planes * model.logical as usize],
            owner_of: vec![0; pages],
            valid: vec![0; pages.div_ceil(64)],
            valid_in: vec![NOT_CLOSED; blocks],
            erases: vec![0; blocks],
            holds_map: vec![false; blocks],
            directory: vec![0; planes * model.translation as usize],
            planes: vec![plane; planes],
            cache: model.cached_groups.map(|capacity| CachedMap::new(capacity, groups, planes * model.translation as usize)),
            stale: Vec::with_capacity(model.pages.min(model.translation) as usize),
            tally: FlashTally::default(),
            model: model.clone(),
        };
        for plane in 0..model.planes {
            let used = if model.initial_state == InitialState::Fresh { 0 } else { ftl.lay_out_in_order(plane) };
            let free = (used..model.blocks).map(|block| Reverse((0, block)));
            ftl.planes[plane as usize].free.extend(free);
        }
        if model.initial_state == InitialState::Random {
            ftl.overwrite_at_random();
        }
        ftl
    }

    /// Marks the pages of a plane as written in order, data first and then the map; says how many blocks that took.
    fn lay_out_in_order(&mut self, plane: u32) -> u32 {
        let (logical, translation, pages) = (self.model.logical, self.model.translation, self.model.pages);
        let mut first = 0;
        for (content, count) in [(Content::Data, logical), (Content::Map, translation)] {
            for block in first..first + count.div_ceil(pages) {
                let here = (count - (block - first) * pages).min(pages);
                let index = self.block_index(plane, block);
                self.holds_map[index] = content == Content::Map;
                self.valid_in[index] = here as u16;
                if here < pages {
                    self.valid_in[index] |= NOT_CLOSED;
                    self.planes[plane as usize].open[content as usize] = Open { block: Some(block), next: here };
                }
                self.set_all_valid(plane, block * pages, here);
            }
            if content == Content::Map {
                for number in 0..translation {
                    let (at, page) = (self.directory_index(plane, number), first * pages + number);
                    self.directory[at] = page + 1;
                    let at = self.page_index(plane, page);
                    self.owner_of[at] = number + 1;
                }
            }
            first += count.div_ceil(pages);
        }
        first
    }

    /// Writes twice as many random pages as there are, which no request waits for and no tally counts.
    fn overwrite_at_random(&mut self) {
        let pages = self.logical_pages();
        for count in 0..2 * pages {
            let page = (u64::from(random(count)) * pages) >> 32;
            self.write(page as u32, true);
        }
        self.tally = FlashTally::default();
    }

    /// Logical pages that a host can reach.
    pub fn logical_pages(&self) -> u64 {
        self.model.capacity_sectors.div_ceil(u64::from(self.model.page_sectors))
    }

    /// Finds a logical page in order to read `sectors` of it; says what that takes.
    pub fn read(&mut self, logical: u32, sectors: u32) -> Steps {
        let mut steps = Steps::default();
        let (plane, local) = self.split(logical);
        self.translate(plane, local, false, &mut steps);
        if self.lookup(plane, local).is_some() {
            self.tally.data_reads += 1;
            steps.push(Step { unit: self.unit(plane), sectors, ..Step::default() });
        }
        steps
    }

    /// Gives a logical page a new place; says what that takes. Unless `whole`, the sectors that stay are read first.
    pub fn write(&mut self, logical: u32, whole: bool) -> Steps {
        let mut steps = Steps::default();
        let (plane, local) = self.split(logical);
        self.translate(plane, local, true, &mut steps);
        let (unit, sectors) = (self.unit(plane), self.model.page_sectors);
        if !whole && self.lookup(plane, local).is_some() {
            self.tally.data_reads += 1;
            steps.push(Step { unit, sectors, ..Step::default() });
        }
        let collection = self.collect_if_needed(plane);
        self.tally.data_programs += 1;
        self.place(plane, Content::Data, local);
        steps.push(Step { unit, sectors, program: true, collection });
        steps
    }

    /// Brings the entry of a local page into memory.
    fn translate(&mut self, plane: u32, local: u32, dirty: bool, steps: &mut Steps) {
        let group = self.group_index(plane, local);
        let map_page = self.directory_index(plane, local / self.model.entries_per_page);
        let Some(cache) = &mut self.cache else { return };
        self.tally.map_lookups += 1;
        if cache.touch(group) {
            self.tally.map_hits += 1;
        } else {
            let out = cache.next_out();
            if let Some((victim, true)) = out {
                self.evict(victim, steps);
            }
            if self.directory[map_page] != 0 {
                self.tally.map_reads += 1;
                steps.push(Step { unit: self.unit(plane), sectors: self.model.page_sectors, ..Step::default() });
            }
            if let Some(cache) = &mut self.cache {
                cache.insert(group);
            }
        }
        if dirty && let Some(cache) = &mut self.cache {
            cache.set_dirty(group, map_page);
        }
    }

    /// Writes the translation page of a dirty group anew.
    fn evict(&mut self, group: usize, steps: &mut Steps) {
        let of_plane = groups_of_plane(&self.model);
        let plane = (group / of_plane) as u32;
        let number = (group % of_plane) as u32 * self.model.entries_per_fetch / self.model.entries_per_page;
        let collection = self.collect_if_needed(plane);
        let (unit, sectors) = (self.unit(plane), self.model.page_sectors);
        if self.write_map_page(plane, number) {
            steps.push(Step { unit, sectors, ..Step::default() });
        }
        steps.push(Step { unit, sectors, program: true, collection });
    }

    /// Gives a translation page a new place, and its cached entries the mark of being on the flash; says whether there was an old
    /// one to read.
    fn write_map_page(&mut self, plane: u32, number: u32) -> bool {
        let existed = self.directory[self.directory_index(plane, number)] != 0;
        self.tally.map_reads += u64::from(existed);
        self.tally.map_programs += 1;
        self.place(plane, Content::Map, number);
        let map_page = self.directory_index(plane, number);
        if let Some(cache) = &mut self.cache {
            cache.set_clean(map_page);
        }
        existed
    }

    /// Writes a page of an open block and forgets the old one.
    fn place(&mut self, plane: u32, content: Content, number: u32) {
        let old = match content {
            Content::Data => self.lookup(plane, number),
            Content::Map => self.directory[self.directory_index(plane, number)].checked_sub(1),
        };
        if let Some(old) = old {
            self.set_valid(plane, old, false);
            let block = self.block_index(plane, old / self.model.pages);
            self.valid_in[block] -= 1;
        }
        let page = self.take_page(plane, content);
        self.set_valid(plane, page, true);
        let block = self.block_index(plane, page / self.model.pages);
        self.valid_in[block] += 1;
        let at = self.page_index(plane, page);
        self.owner_of[at] = number + 1;
        match content {
            Content::Data => {
                let at = self.local_index(plane, number);
                self.page_of[at] = page + 1;
            }
            Content::Map => {
                let at = self.directory_index(plane, number);
                self.directory[at] = page + 1;
            }
        }
    }

    /// The next page of the open block; a full one is closed and the least worn free block opened.
    fn take_page(&mut self, plane: u32, content: Content) -> u32 {
        let pages = self.model.pages;
        let open = self.planes[plane as usize].open[content as usize];
        let (block, next) = match open.block {
            Some(block) if open.next < pages => (block, open.next),
            _ => {
                if let Some(full) = open.block {
                    let full = self.block_index(plane, full);
                    self.valid_in[full] &= !NOT_CLOSED;
                }
                let block = self.take_block(plane);
                let index = self.block_index(plane, block);
                self.holds_map[index] = content == Content::Map;
                (block, 0)
            }
        };
        self.planes[plane as usize].open[content as usize] = Open { block: Some(block), next: next + 1 };
        block * pages + next
    }

    #[expect(clippy::expect_used, reason = "a collection begins while it still has the blocks that it needs itself")]
    fn take_block(&mut self, plane: u32) -> u32 {
        let Reverse((_, block)) = self.planes[plane as usize].free.pop().expect("a free block");
        block
    }

    /// Collects if a plane has too few free blocks; says how long its unit is at it.
    fn collect_if_needed(&mut self, plane: u32) -> u64 {
        let mut time = 0;
        if self.free_blocks(plane) < self.model.low_free {
            while self.free_blocks(plane) < self.model.high_free {
                time += self.collect(plane);
            }
            self.tally.collection += block::Nanos(time);
        }
        time
    }

    fn free_blocks(&self, plane: u32) -> u32 {
        self.planes[plane as usize].free.len() as u32
    }

    /// Empties and erases the block with the fewest valid pages, or one that has been spared for too long.
    fn collect(&mut self, plane: u32) -> u64 {
        match self.spared(plane) {
            // What has not changed for so long will hardly change soon: it rests in the most worn block there is.
            Some(spared) => {
                let content = self.content(plane, spared);
                let worn = self.take_most_worn(plane);
                let index = self.block_index(plane, worn);
                self.holds_map[index] = content == Content::Map;
                let rest = Open { block: Some(worn), next: 0 };
                let open = std::mem::replace(&mut self.planes[plane as usize].open[content as usize], rest);
                let time = self.empty(plane, spared);
                self.planes[plane as usize].open[content as usize] = open;
                self.valid_in[index] &= !NOT_CLOSED;
                time
            }
            None => self.empty(plane, self.fewest_valid(plane)),
        }
    }

    /// Moves what is valid in a block to open blocks and erases it; says how long that takes.
    fn empty(&mut self, plane: u32, victim: u32) -> u64 {
        let pages = self.model.pages;
        let content = self.content(plane, victim);
        let (mut reads, mut programs) = (0, 0);
        for page in victim * pages..(victim + 1) * pages {
            if !self.is_valid(plane, page) {
                continue;
            }
            let owner = self.owner(plane, page);
            self.place(plane, content, owner);
            self.tally.pages_moved += 1;
            (reads, programs) = (reads + 1, programs + 1);
            if content == Content::Data {
                self.note_move(plane, owner);
            }
        }
        while let Some(number) = self.stale.pop() {
            reads += u64::from(self.write_map_page(plane, number));
            programs += 1;
        }
        let index = self.block_index(plane, victim);
        self.valid_in[index] = NOT_CLOSED;
        self.erases[index] += 1;
        self.tally.erases += 1;
        let worn = self.erases[index];
        let state = &mut self.planes[plane as usize];
        state.most_worn = state.most_worn.max(worn);
        state.collections += 1;
        state.free.push(Reverse((worn, victim)));
        reads * self.model.read + programs * self.model.program + self.model.erase
    }

    /// Sees to it that the map learns of a moved page.
    fn note_move(&mut self, plane: u32, local: u32) {
        let group = self.group_index(plane, local);
        let number = local / self.model.entries_per_page;
        let map_page = self.directory_index(plane, number);
        if let Some(cache) = &mut self.cache
            && !cache.set_dirty(group, map_page)
            && !self.stale.contains(&number)
        {
            self.stale.push(number);
        }
    }

    fn content(&self, plane: u32, block: u32) -> Content {
        if self.holds_map[self.block_index(plane, block)] { Content::Map } else { Content::Data }
    }

    fn blocks_of(&self, plane: u32) -> std::ops::Range<usize> {
        self.block_index(plane, 0)..self.block_index(plane, self.model.blocks)
    }

    /// The closed block with the fewest valid pages (greedy collection), of equals the least worn.
    fn fewest_valid(&self, plane: u32) -> u32 {
        let all = self.blocks_of(plane);
        let fewest = self.valid_in[all.clone()].iter().copied().min().unwrap_or(0);
        let best = all.clone().filter(|&index| self.valid_in[index] == fewest).min_by_key(|&index| self.erases[index]);
        best.map_or(0, |index| (index - all.start) as u32)
    }

    /// A closed block that is worn too little, if it is time to look for one.
    fn spared(&self, plane: u32) -> Option<u32> {
        let spread = self.model.wear_spread?;
        let state = &self.planes[plane as usize];
        if !state.collections.is_multiple_of(WEAR_CHECK_PERIOD) {
            return None;
        }
        let all = self.blocks_of(plane);
        let closed = all.clone().filter(|&index| self.valid_in[index] & NOT_CLOSED == 0);
        let index = closed.min_by_key(|&index| self.erases[index])?;
        (state.most_worn - self.erases[index] > spread).then(|| (index - all.start) as u32)
    }

    #[expect(clippy::expect_used, reason = "a collection begins while it still has the blocks that it needs itself")]
    fn take_most_worn(&mut self, plane: u32) -> u32 {
        let free = &mut self.planes[plane as usize].free;
        // The order is reversed: the least entry is the most worn.
        let most = *free.iter().min().expect("a free block");
        free.retain(|entry| *entry != most);
        most.0.1
    }

    /// Where a local page is, if it was ever written.
    fn lookup(&self, plane: u32, local: u32) -> Option<u32> {
        match self.page_of[self.local_index(plane, local)] {
            0 => (self.model.initial_state != InitialState::Fresh).then_some(local),
            page => Some(page - 1),
        }
    }

    /// What a page was written with.
    fn owner(&self, plane: u32, page: u32) -> u32 {
        match self.owner_of[self.page_index(plane, page)] {
            0 => page,
            owner => owner - 1,
        }
    }

    fn is_valid(&self, plane: u32, page: u32) -> bool {
        let index = self.page_index(plane, page);
        self.valid[index / 64] >> (index % 64) & 1 == 1
    }

    fn set_valid(&mut self, plane: u32, page: u32, valid: bool) {
        let index = self.page_index(plane, page);
        let bit = 1 << (index % 64);
        if valid { self.valid[index / 64] |= bit } else { self.valid[index / 64] &= !bit }
    }

    /// Marks `count` pages from `page` on as valid, a word of bits at a time.
    fn set_all_valid(&mut self, plane: u32, page: u32, count: u32) {
        let (mut from, to) = (self.page_index(plane, page), self.page_index(plane, page + count));
        while from < to {
            let bits = (64 - from % 64).min(to - from);
            self.valid[from / 64] |= (u64::MAX >> (64 - bits)) << (from % 64);
            from += bits;
        }
    }

    fn split(&self, logical: u32) -> (u32, u32) {
        (logical % self.model.planes, logical / self.model.planes)
    }

    /// Channels change fastest, then dies, then planes: units, whether dies or planes, are the remainder.
    fn unit(&self, plane: u32) -> u32 {
        plane % self.model.units
    }

    fn page_index(&self, plane: u32, page: u32) -> usize {
        plane as usize * self.model.blocks as usize * self.model.pages as usize + page as usize
    }

    fn block_index(&self, plane: u32, block: u32) -> usize {
        plane as usize * self.model.blocks as usize + block as usize
    }

    fn local_index(&self, plane: u32, local: u32) -> usize {
        plane as usize * self.model.logical as usize + local as usize
    }

    fn directory_index(&self, plane: u32, number: u32) -> usize {
        plane as usize * self.model.translation as usize + number as usize
    }

    fn group_index(&self, plane: u32, local: u32) -> usize {
        plane as usize * groups_of_plane(&self.model) + (local / self.model.entries_per_fetch) as usize
    }

    /// The fewest and the most erasures of any block.
    pub fn wear(&self) -> (u32, u32) {
        let most = self.erases.iter().copied().max().unwrap_or(0);
        (self.erases.iter().copied().min().unwrap_or(0), most)
    }
}

fn groups_of_plane(model: &Model) -> usize {
    match model.cached_groups {
        None => 0,
        Some(_) => model.logical.div_ceil(model.entries_per_fetch) as usize,
    }
}

/// A random number from a count (the finaliser of splitmix64; Steele, Lea, Flood 2014).
fn random(count: u64) -> u32 {
    let mut z = count.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 32) as u32
}

#[cfg(test)]
impl Ftl {
    /// Checks that every written logical and translation page has one valid page, that no other page is valid, that blocks count
    /// theirs, and that no block is lost.
    pub fn assert_consistent(&self) {
        let model = &self.model;
        for plane in 0..model.planes {
            let mut expected = vec![None; (model.blocks * model.pages) as usize];
            for local in 0..model.logical {
                if let Some(page) = self.lookup(plane, local) {
                    assert_eq!(expected[page as usize].replace((Content::Data, local)), None, "two owners of page {page}");
                }
            }
            for number in 0..model.translation {
                if let Some(page) = self.directory[self.directory_index(plane, number)].checked_sub(1) {
                    assert_eq!(expected[page as usize].replace((Content::Map, number)), None, "two owners of page {page}");
                }
            }
            let state = &self.planes[plane as usize];
            let mut free: Vec<u32> = state.free.iter().map(|Reverse((_, block))| *block).collect();
            free.sort_unstable();
            assert!(free.windows(2).all(|pair| pair[0] < pair[1]), "a block is free twice");
            for block in 0..model.blocks {
                let index = self.block_index(plane, block);
                let content = if self.holds_map[index] { Content::Map } else { Content::Data };
                let mut count = 0;
                for page in block * model.pages..(block + 1) * model.pages {
                    let holds = expected[page as usize];
                    assert_eq!(self.is_valid(plane, page), holds.is_some(), "plane {plane} page {page}");
                    if let Some(holds) = holds {
                        assert_eq!(holds, (content, self.owner(plane, page)));
                        count += 1;
                    }
                }
                assert_eq!(self.valid_in[index] & !NOT_CLOSED, count, "plane {plane} block {block}");
                let open = state.open.iter().any(|open| open.block == Some(block));
                let is_free = free.binary_search(&block).is_ok();
                assert!(!(is_free && (open || count > 0)), "a free block is in use");
                assert_eq!(self.valid_in[index] & NOT_CLOSED != 0, open || is_free, "block {block} is lost");
            }
            assert!(self.stale.is_empty());
        }
    }
}
