//! The flash translation layer: page mapping with DFTL's cached map, garbage collection and wear levelling.
//!
//! ```text
//! logical page ──┬─▶ plane = page mod planes (flash pages, where several pages share one)          every plane is a translation layer of its own:
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
//! rewritten with all its cached dirty entries (batched update). Collection takes the block with the fewest valid pages, data or
//! map; moved pages whose entries are cached only dirty them (lazy copying), the others' translation pages are rewritten, once per
//! block. Pages of data and of the map go to blocks of their own.
//!
//! Where the unit of the map is smaller than a flash page, as on current drives, "page" means the unit here. Those of the host fill
//! the flash page that is open on their plane, a program for each that is full; collection reads each flash page with valid pages
//! once and packs the moved pages into flash pages of its own, so that the two never share one. Repacked pages cross the channel,
//! which takes time but does not block it for others. Collection is paced by host writes, as in drives with steady response times:
//! its time is spread evenly over the programs that use the freed room.
//!
//! Differences: pages are spread over planes statically, so a collection stays within its plane; the LRU list is not segmented;
//! pages move by copy-back within the plane and occupy no channel. A map that is wholly in memory is never written to the flash.
//! The paper does not cover discards: entries of discarded pages change like those of moved pages, and a translation page with only
//! discarded entries is dropped.
//!
//! The devices of a profile share the initial state, and each stores only the differences (`table.rs`).

use std::sync::Arc;

use super::blocks::{Blocks, Content};
use super::cached_map::CachedMap;
use super::parameters::Parameters;
use super::spec::InitialState;
use super::table::Table;
use crate::device::FlashTally;

/// In the table of pages: a discarded page.
const DISCARDED: u32 = u32::MAX;

/// A flash operation of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Step {
    /// Die or plane, whichever operates independently.
    pub unit: u32,
    /// Sectors transferred over the channel.
    pub sectors: u32,
    /// Whether a page is programmed; otherwise read.
    pub program: bool,
    /// Nanoseconds of collection that the unit must do first.
    pub collection: u64,
}

/// A sequence of steps, at most five: a dirty victim read and written, the entry's translation page read, the old page read for the sectors
/// that are kept, the page written.
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

/// A stream of writes with open blocks of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stream {
    /// Host writes, and pages moved by collection unless pages share flash pages.
    Data = 0,
    Map = 1,
    /// Pages moved by collection, where pages share flash pages.
    Moved = 2,
}

impl Stream {
    fn content(self) -> Content {
        if self == Stream::Map { Content::Map } else { Content::Data }
    }
}

/// Pending collection time of a plane, and the number of host programs over which it is spread.
#[derive(Clone, Copy, Debug, Default)]
struct PendingCollection {
    time: u64,
    programs: u32,
}

/// The block being written, and its next page; beyond the last if it is full.
#[derive(Clone, Copy, Debug)]
struct Open {
    block: Option<u32>,
    next: u32,
}

/// The translation layer of a device. "Page" alone means a physical page counted within its plane, "local" a logical one.
#[derive(Debug)]
pub(super) struct Ftl {
    pub(super) model: Arc<Parameters>,
    /// By plane and local page: the page plus one; 0 for the initial state, which is in order or unmapped; or [`DISCARDED`].
    page_of: Table<u32>,
    /// By plane and page: its content (local or translation page) plus one; 0 for the initial state, in order.
    owner_of: Table<u32>,
    /// By plane and page, one bit each.
    valid: Table<u64>,
    /// DFTL's global translation directory. By plane and translation page: the page plus one, or 0.
    directory: Table<u32>,
    pub(super) blocks: Blocks,
    /// By plane and [`Stream`].
    open: Vec<[Open; 3]>,
    /// By plane, if pages share flash pages: collection still to be done.
    owed: Vec<PendingCollection>,
    cache: Option<CachedMap>,
    /// Translation pages of a plane to be rewritten, and one bit for each; empty between collections.
    stale: Vec<u32>,
    /// Pages moved by the current collection; empty between collections.
    moving: Vec<u32>,
    is_stale: Vec<u64>,
    pub tally: FlashTally,
}

impl Ftl {
    /// All blocks erased, nothing written.
    fn fresh(model: &Arc<Parameters>) -> Ftl {
        let planes = model.shape.planes as usize;
        let map_pages = planes * model.map.translation as usize;
        let pages = planes * model.shape.blocks as usize * model.shape.pages as usize;
        Ftl {
            page_of: Table::new(planes * model.map.logical as usize),
            owner_of: Table::new(pages),
            valid: Table::new(pages.div_ceil(64)),
            directory: Table::new(map_pages),
            blocks: Blocks::new(model),
            open: vec![[Open { block: None, next: model.shape.pages }; 3]; planes],
            owed: vec![PendingCollection::default(); planes],
            cache: model.map.cached_groups.map(|capacity| CachedMap::new(capacity, groups_of_plane(model) * planes, map_pages)),
            stale: Vec::new(),
            moving: Vec::new(),
            is_stale: vec![0; (model.map.translation as usize).div_ceil(64)],
            tally: FlashTally::default(),
            model: model.clone(),
        }
    }

    /// Computes the initial state of a profile's devices.
    pub(super) fn initial(model: &Arc<Parameters>) -> Ftl {
        let mut ftl = Ftl::fresh(model);
        match model.initial_state {
            InitialState::Fresh => {}
            InitialState::Sequential => (0..model.shape.planes).for_each(|plane| ftl.lay_out_in_order(plane)),
            InitialState::Random => ftl.lay_out_at_random(),
        }
        ftl.page_of.freeze();
        ftl.owner_of.freeze();
        ftl.valid.freeze();
        ftl.directory.freeze();
        ftl.blocks.freeze();
        ftl.tally = FlashTally::default();
        ftl
    }

    /// Another device with this initial state.
    pub(super) fn share(&self) -> Ftl {
        Ftl {
            model: self.model.clone(),
            page_of: self.page_of.share(),
            owner_of: self.owner_of.share(),
            valid: self.valid.share(),
            directory: self.directory.share(),
            blocks: self.blocks.share(),
            open: self.open.clone(),
            owed: self.owed.clone(),
            cache: self.cache.clone(),
            stale: Vec::new(),
            moving: Vec::new(),
            is_stale: self.is_stale.clone(),
            tally: FlashTally::default(),
        }
    }

    /// Marks the pages of a plane as written in order, data first and then the map.
    fn lay_out_in_order(&mut self, plane: u32) {
        let (logical, translation, pages) = (self.model.map.logical, self.model.map.translation, self.model.shape.pages);
        for (content, count) in [(Content::Data, logical), (Content::Map, translation)] {
            let mut done = 0;
            while done < count {
                let block = self.blocks.take_least_worn(plane, content);
                let here = (count - done).min(pages);
                self.blocks.add_valid(plane, block, here);
                self.set_all_valid(plane, block * pages, here);
                if here < pages {
                    self.open[plane as usize][content as usize] = Open { block: Some(block), next: here };
                } else {
                    self.blocks.close(plane, block);
                }
                // Data are where an entry of 0 implies.
                for number in done..done + if content == Content::Map { here } else { 0 } {
                    self.point(plane, Content::Map, number, block * pages + (number - done));
                }
                done += here;
            }
        }
    }

    /// Number of logical pages visible to the host.
    pub fn logical_pages(&self) -> u64 {
        self.model.capacity_sectors.div_ceil(u64::from(self.model.shape.page_sectors))
    }

    /// Returns the steps to read `sectors` of a logical page.
    pub fn read(&mut self, logical: u32, sectors: u32) -> Steps {
        let mut steps = Steps::default();
        let (plane, local) = self.split(logical);
        self.translate(plane, local, false, &mut steps);
        if self.lookup(plane, local).is_some() {
            self.tally.data_reads += 1;
            steps.push(Step { unit: self.model.shape.unit_of(plane), sectors, ..Step::default() });
        }
        steps
    }

    /// Returns the steps to write a logical page. Unless `whole`, the remaining sectors are read first.
    pub fn write(&mut self, logical: u32, whole: bool) -> Steps {
        let mut steps = Steps::default();
        let (plane, local) = self.split(logical);
        self.translate(plane, local, true, &mut steps);
        let (unit, sectors) = (self.model.shape.unit_of(plane), self.model.shape.page_sectors);
        if !whole && self.lookup(plane, local).is_some() {
            self.tally.data_reads += 1;
            steps.push(Step { unit, sectors, ..Step::default() });
        }
        let collection = self.collect_if_needed(plane);
        self.tally.data_programs += 1;
        if let Some(old) = self.lookup(plane, local) {
            self.invalidate(plane, old);
        }
        self.program(plane, Stream::Data, &[local]);
        steps.push(Step { unit, sectors, program: true, collection });
        steps
    }

    /// Returns the read that completes a partly written logical page, where pages share flash pages; at most one.
    pub fn complete(&mut self, logical: u32, whole: bool) -> Steps {
        let mut steps = Steps::default();
        let (plane, local) = self.split(logical);
        if !whole && self.lookup(plane, local).is_some() {
            self.tally.data_reads += 1;
            steps.push(Step { unit: self.model.shape.unit_of(plane), sectors: self.model.shape.page_sectors, ..Step::default() });
        }
        steps
    }

    /// Puts a logical page into its plane's open flash page. Returns the program of that page if it is full.
    pub fn place(&mut self, logical: u32) -> Option<Steps> {
        let (plane, local) = self.split(logical);
        let freed = self.blocks.free(plane);
        let time = self.collect_if_needed(plane);
        if time > 0 {
            let freed = ((self.blocks.free(plane) - freed) * self.model.shape.pages) >> self.model.shape.packed_bits;
            let owed = &mut self.owed[plane as usize];
            *owed = PendingCollection { time: owed.time + time, programs: freed.max(1) };
        }
        self.tally.data_programs += 1;
        if let Some(old) = self.lookup(plane, local) {
            self.invalidate(plane, old);
        }
        self.program(plane, Stream::Data, &[local]);
        (self.packed(plane, Stream::Data) == 0).then(|| self.program_packed(plane))
    }

    /// Pads a plane's open flash page, which is not empty. Returns its program.
    pub fn pad(&mut self, plane: u32) -> Steps {
        let rest = (1 << self.model.shape.packed_bits) - self.packed(plane, Stream::Data);
        self.open[plane as usize][Stream::Data as usize].next += rest;
        self.tally.data_programs += u64::from(rest);
        self.program_packed(plane)
    }

    fn program_packed(&mut self, plane: u32) -> Steps {
        let mut steps = Steps::default();
        let owed = &mut self.owed[plane as usize];
        let collection = owed.time / u64::from(owed.programs.max(1));
        *owed = PendingCollection { time: owed.time - collection, programs: owed.programs.saturating_sub(1) };
        let sectors = self.model.shape.page_sectors << self.model.shape.packed_bits;
        steps.push(Step { unit: self.model.shape.unit_of(plane), sectors, program: true, collection });
        steps
    }

    /// Number of pages in a plane's open flash page.
    fn packed(&self, plane: u32, stream: Stream) -> u32 {
        self.open[plane as usize][stream as usize].next & ((1 << self.model.shape.packed_bits) - 1)
    }

    /// The plane that a logical page lives on.
    pub fn plane_of(&self, logical: u32) -> u32 {
        self.split(logical).0
    }

    /// Whether both logical pages are in the same flash page.
    pub fn share_flash_page(&self, one: u32, other: u32) -> bool {
        let at = |logical| {
            let (plane, local) = self.split(logical);
            self.lookup(plane, local).map(|page| (plane, page >> self.model.shape.packed_bits))
        };
        at(one).is_some_and(|place| at(other) == Some(place))
    }

    /// Number of pieces of a discard of logical pages `first` to `end` (exclusive), one for each call of [`Ftl::discard`].
    pub fn pieces(&self, first: u32, end: u32) -> u32 {
        if first >= end {
            return 0;
        }
        let number = |logical: u32| self.split(logical).1 >> self.model.map.entries_bits;
        (number(end - 1) - number(first) + 1) * self.model.shape.planes
    }

    /// Discards the logical pages from `first` to `end` (exclusive) whose entries are in one translation page. Returns the steps.
    pub fn discard(&mut self, first: u32, end: u32, piece: u32) -> Steps {
        let mut steps = Steps::default();
        let (planes, bits) = (self.model.shape.planes, self.model.map.entries_bits);
        let (plane, number) = (piece % planes, (self.split(first).1 >> bits) + piece / planes);
        let whole = number << bits..((number + 1) << bits).min(self.model.map.logical);
        // The first local page of this plane at or after a logical one.
        let local = |logical: u32| {
            let (chunk, within) = (logical >> self.model.shape.packed_bits, logical & ((1 << self.model.shape.packed_bits) - 1));
            let before = chunk.saturating_sub(plane).div_ceil(planes) << self.model.shape.packed_bits;
            before + if chunk % planes == plane { within } else { 0 }
        };
        let range = whole.start.max(local(first))..whole.end.min(local(end));
        let map_page = self.directory_index(plane, number);
        let (mut forgotten, mut unknown) = (0, false);
        for local in range.clone() {
            let Some(old) = self.lookup(plane, local) else { continue };
            self.invalidate(plane, old);
            let at = self.local_index(plane, local);
            self.page_of.set(at, DISCARDED);
            forgotten += 1;
            let group = self.group_index(plane, local);
            unknown |= self.cache.as_mut().is_some_and(|cache| !cache.set_dirty(group, map_page));
        }
        self.tally.pages_discarded += forgotten;
        let Some(cache) = &mut self.cache else { return steps };
        if range == whole {
            cache.set_clean(map_page);
            if let Some(old) = self.directory.get(map_page).checked_sub(1) {
                self.invalidate(plane, old);
                self.directory.set(map_page, 0);
            }
        } else if unknown {
            self.renew(plane, number, &mut steps);
        }
        steps
    }

    /// Loads the entry of a local page into memory.
    fn translate(&mut self, plane: u32, local: u32, dirty: bool, steps: &mut Steps) {
        let group = self.group_index(plane, local);
        let Some(cache) = &mut self.cache else { return };
        self.tally.map_lookups += 1;
        let hit = cache.touch(group);
        let map_page = self.directory_index(plane, local >> self.model.map.entries_bits);
        if hit {
            self.tally.map_hits += 1;
        } else {
            self.make_room(steps);
            if self.directory.get(map_page) != 0 {
                self.tally.map_reads += 1;
                let (unit, sectors) = (self.model.shape.unit_of(plane), self.model.shape.page_sectors);
                steps.push(Step { unit, sectors, ..Step::default() });
            }
        }
        if let Some(cache) = &mut self.cache {
            if !hit {
                cache.insert(group);
            }
            if dirty {
                cache.set_dirty(group, map_page);
            }
        }
    }

    /// Writes the translation page of the cache's victim if it is dirty.
    fn make_room(&mut self, steps: &mut Steps) {
        if let Some((victim, true)) = self.cache.as_ref().and_then(CachedMap::next_out) {
            let of_plane = groups_of_plane(&self.model) as u32;
            let (plane, group) = (victim / of_plane, victim % of_plane);
            self.renew(plane, (group << self.model.map.fetch_bits) >> self.model.map.entries_bits, steps);
        }
    }

    /// Rewrites a translation page, after a collection if there is no free space.
    fn renew(&mut self, plane: u32, number: u32, steps: &mut Steps) {
        let collection = self.collect_if_needed(plane);
        let (unit, sectors) = (self.model.shape.unit_of(plane), self.model.shape.page_sectors);
        if self.write_map_page(plane, number) {
            steps.push(Step { unit, sectors, ..Step::default() });
        }
        steps.push(Step { unit, sectors, program: true, collection });
    }

    /// Moves a translation page and marks its cached entries as clean. Returns whether there was an old one to read.
    fn write_map_page(&mut self, plane: u32, number: u32) -> bool {
        let existed = self.retire_map_page(plane, number);
        self.program(plane, Stream::Map, &[number]);
        existed
    }

    /// Invalidates a translation page that is about to be rewritten. Returns whether there is one to read.
    fn retire_map_page(&mut self, plane: u32, number: u32) -> bool {
        let map_page = self.directory_index(plane, number);
        let old = self.directory.get(map_page).checked_sub(1);
        self.tally.map_reads += u64::from(old.is_some());
        self.tally.map_programs += 1;
        if let Some(old) = old {
            self.invalidate(plane, old);
        }
        if let Some(cache) = &mut self.cache {
            cache.set_clean(map_page);
        }
        old.is_some()
    }

    /// Marks a page as invalid.
    fn invalidate(&mut self, plane: u32, page: u32) {
        let index = self.page_index(plane, page);
        *self.valid.get_mut(index / 64) &= !(1 << (index % 64));
        self.blocks.remove_valid(plane, self.model.shape.by_pages.quotient(page));
    }

    /// Writes pages to the open block, and to its successors when it is full.
    fn program(&mut self, plane: u32, stream: Stream, mut numbers: &[u32]) {
        while !numbers.is_empty() {
            let (block, next) = self.open_block(plane, stream);
            let (now, later) = numbers.split_at(numbers.len().min((self.model.shape.pages - next) as usize));
            let (page, count) = (block * self.model.shape.pages + next, now.len() as u32);
            self.open[plane as usize][stream as usize].next = next + count;
            self.set_all_valid(plane, page, count);
            self.blocks.add_valid(plane, block, count);
            for (page, &number) in (page..).zip(now) {
                self.point(plane, stream.content(), number, page);
            }
            numbers = later;
        }
    }

    /// Maps `number` to a page, in both directions.
    pub(super) fn point(&mut self, plane: u32, content: Content, number: u32, page: u32) {
        let at = self.page_index(plane, page);
        self.owner_of.set(at, number + 1);
        match content {
            Content::Data => {
                let at = self.local_index(plane, number);
                self.page_of.set(at, page + 1);
            }
            Content::Map => {
                let at = self.directory_index(plane, number);
                self.directory.set(at, page + 1);
            }
        }
    }

    /// The open block and its next page; if it is full, closes it and opens the least worn free block.
    fn open_block(&mut self, plane: u32, stream: Stream) -> (u32, u32) {
        let open = self.open[plane as usize][stream as usize];
        match open.block {
            Some(block) if open.next < self.model.shape.pages => (block, open.next),
            full => {
                if let Some(full) = full {
                    self.blocks.close(plane, full);
                }
                let block = self.blocks.take_least_worn(plane, stream.content());
                self.open[plane as usize][stream as usize] = Open { block: Some(block), next: 0 };
                (block, 0)
            }
        }
    }

    /// Collects if a plane has too few free blocks. Returns the time that its unit needs.
    fn collect_if_needed(&mut self, plane: u32) -> u64 {
        if self.blocks.free(plane) >= self.model.collection.low_free {
            return 0;
        }
        let mut time = 0;
        while self.blocks.free(plane) < self.model.collection.high_free {
            time += self.collect(plane);
        }
        self.tally.collection += block::Nanos(time);
        time
    }

    /// Empties and erases the block with the fewest valid pages, or an underworn one.
    #[expect(clippy::expect_used, reason = "few blocks are free and two are open: all others are closed")]
    fn collect(&mut self, plane: u32) -> u64 {
        match self.model.collection.wear_spread.and_then(|spread| self.blocks.underworn(plane, spread)) {
            // Cold data are moved to the most worn block.
            Some(spared) => {
                let content = self.blocks.content(plane, spared);
                let stream = self.stream_of_moved(content);
                let worn = self.blocks.take_most_worn(plane, content);
                let rest = Open { block: Some(worn), next: 0 };
                let open = std::mem::replace(&mut self.open[plane as usize][stream as usize], rest);
                let mut time = self.empty(plane, spared);
                // The block is closed: its last flash page must be programmed as well.
                time += if self.packed(plane, stream) > 0 { self.model.times.program } else { 0 };
                self.open[plane as usize][stream as usize] = open;
                self.blocks.close(plane, worn);
                time
            }
            None => {
                let victim = self.blocks.fewest_valid(plane).expect("a closed block");
                self.empty(plane, victim)
            }
        }
    }

    fn stream_of_moved(&self, content: Content) -> Stream {
        match content {
            Content::Map => Stream::Map,
            Content::Data if self.model.shape.packed_bits > 0 => Stream::Moved,
            Content::Data => Stream::Data,
        }
    }

    /// Moves the valid pages of a block to open blocks and erases it. Returns the time needed.
    fn empty(&mut self, plane: u32, victim: u32) -> u64 {
        let content = self.blocks.content(plane, victim);
        self.blocks.drain(plane, victim);
        let mut moving = std::mem::take(&mut self.moving);
        let mut reads = self.take_valid(plane, victim, &mut moving);
        let stream = self.stream_of_moved(content);
        let begun = u64::from(self.packed(plane, stream));
        self.program(plane, stream, &moving);
        let moved = moving.len() as u64;
        self.tally.pages_moved += moved;
        let mut programs = (begun + moved) >> self.model.shape.packed_bits;
        // Repacked pages cross the channel twice; whole flash pages stay within their plane.
        let crossings = if self.model.shape.packed_bits > 0 { 2 * moved * u64::from(self.model.shape.page_sectors) } else { 0 };
        if content == Content::Data {
            self.record_moves(plane, &moving);
            let mut stale = std::mem::take(&mut self.stale);
            for &number in &stale {
                self.is_stale[number as usize / 64] = 0;
                reads += u64::from(self.retire_map_page(plane, number));
            }
            self.program(plane, Stream::Map, &stale);
            programs += stale.len() as u64;
            stale.clear();
            self.stale = stale;
        }
        moving.clear();
        self.moving = moving;
        self.tally.erases += 1;
        self.blocks.erased(plane, victim);
        let transfers = crossings * self.model.times.channel_sector_ps / 1000;
        reads * self.model.times.read + programs * self.model.times.program + transfers + self.model.times.erase
    }

    /// Lists and invalidates the valid pages of a block. Returns the number of flash pages they are in.
    fn take_valid(&mut self, plane: u32, block: u32, into: &mut Vec<u32>) -> u64 {
        let first = self.page_index(plane, block * self.model.shape.pages);
        let end = first + self.model.shape.pages as usize;
        let (mut from, mut flash_pages, mut last) = (first, 0, usize::MAX);
        while from < end {
            let to = end.min((from / 64 + 1) * 64);
            // Other blocks may share the word.
            let here = (u64::MAX >> (64 - (to - from))) << (from % 64);
            let word = self.valid.get_mut(from / 64);
            let mut valid = *word & here;
            *word &= !here;
            while valid != 0 {
                let index = from / 64 * 64 + valid.trailing_zeros() as usize;
                valid &= valid - 1;
                let page = block * self.model.shape.pages + (index - first) as u32;
                flash_pages += u64::from(index >> self.model.shape.packed_bits != last);
                last = index >> self.model.shape.packed_bits;
                into.push(self.owner_of.get(index).checked_sub(1).unwrap_or(page));
            }
            from = to;
        }
        flash_pages
    }

    /// Updates the map for moved pages: cached entries become dirty, other translation pages stale.
    fn record_moves(&mut self, plane: u32, locals: &[u32]) {
        for &local in locals {
            let group = self.group_index(plane, local);
            let number = local >> self.model.map.entries_bits;
            let map_page = self.directory_index(plane, number);
            let Some(cache) = &mut self.cache else { return };
            let (word, bit) = (number as usize / 64, 1 << (number % 64));
            if self.is_stale[word] & bit == 0 && !cache.set_dirty(group, map_page) {
                self.is_stale[word] |= bit;
                self.stale.push(number);
            }
        }
    }

    /// The physical page of a local page; `None` if it was never written.
    #[inline]
    fn lookup(&self, plane: u32, local: u32) -> Option<u32> {
        match self.page_of.get(self.local_index(plane, local)) {
            0 => (self.model.initial_state != InitialState::Fresh).then_some(local),
            DISCARDED => None,
            page => Some(page - 1),
        }
    }

    /// Marks `count` pages from `page` on as valid, a word of bits at a time.
    pub(super) fn set_all_valid(&mut self, plane: u32, page: u32, count: u32) {
        let mut from = self.page_index(plane, page);
        let to = from + count as usize;
        while from < to {
            let bits = (64 - from % 64).min(to - from);
            *self.valid.get_mut(from / 64) |= (u64::MAX >> (64 - bits)) << (from % 64);
            from += bits;
        }
    }

    #[inline]
    fn split(&self, logical: u32) -> (u32, u32) {
        let (bits, within) = (self.model.shape.packed_bits, logical & ((1 << self.model.shape.packed_bits) - 1));
        let row = self.model.shape.by_planes.quotient(logical >> bits);
        ((logical >> bits) - row * self.model.shape.planes, (row << bits) | within)
    }

    #[inline]
    fn page_index(&self, plane: u32, page: u32) -> usize {
        plane as usize * self.model.shape.blocks as usize * self.model.shape.pages as usize + page as usize
    }

    #[inline]
    fn local_index(&self, plane: u32, local: u32) -> usize {
        plane as usize * self.model.map.logical as usize + local as usize
    }

    #[inline]
    fn directory_index(&self, plane: u32, number: u32) -> usize {
        plane as usize * self.model.map.translation as usize + number as usize
    }

    #[inline]
    fn group_index(&self, plane: u32, local: u32) -> u32 {
        plane * groups_of_plane(&self.model) as u32 + (local >> self.model.map.fetch_bits)
    }

    /// The lowest and the highest erase count of any block.
    pub fn wear(&self) -> (u32, u32) {
        self.blocks.wear()
    }
}

fn groups_of_plane(model: &Parameters) -> usize {
    match model.map.cached_groups {
        None => 0,
        Some(_) => model.map.logical.div_ceil(1 << model.map.fetch_bits) as usize,
    }
}

#[cfg(test)]
impl Ftl {
    /// Bytes of tables not shared with other devices.
    pub fn own_bytes(&self) -> usize {
        let numbers = [&self.page_of, &self.owner_of, &self.directory];
        numbers.iter().map(|table| table.own_bytes()).sum::<usize>() + self.valid.own_bytes() + self.blocks.own_bytes()
    }

    /// Checks that every written logical and translation page has one valid page, that no other page is valid, that blocks have the right
    /// counts, and that no block is lost.
    pub fn assert_consistent(&self) {
        use super::blocks::State;
        let model = &self.model;
        self.blocks.assert_consistent();
        for plane in 0..model.shape.planes {
            let mut expected = vec![None; (model.shape.blocks * model.shape.pages) as usize];
            for local in 0..model.map.logical {
                if let Some(page) = self.lookup(plane, local) {
                    assert_eq!(expected[page as usize].replace((Content::Data, local)), None, "two owners of page {page}");
                }
            }
            for number in 0..model.map.translation {
                if let Some(page) = self.directory.get(self.directory_index(plane, number)).checked_sub(1) {
                    assert_eq!(expected[page as usize].replace((Content::Map, number)), None, "two owners of page {page}");
                }
            }
            for block in 0..model.shape.blocks {
                let content = self.blocks.content(plane, block);
                let mut count = 0;
                for page in block * model.shape.pages..(block + 1) * model.shape.pages {
                    let holds = expected[page as usize];
                    let index = self.page_index(plane, page);
                    let valid = self.valid.get(index / 64) >> (index % 64) & 1 == 1;
                    assert_eq!(valid, holds.is_some(), "plane {plane} page {page}");
                    if let Some(holds) = holds {
                        let owner = self.owner_of.get(index).checked_sub(1).unwrap_or(page);
                        assert_eq!(holds, (content, owner));
                        count += 1;
                    }
                }
                assert_eq!(self.blocks.valid(plane, block), count, "plane {plane} block {block}");
                let open = self.open[plane as usize].iter().any(|open| open.block == Some(block));
                assert_eq!(self.blocks.state(plane, block) == State::Busy, open, "block {block} is lost");
            }
            assert!(self.stale.is_empty() && self.is_stale.iter().all(|&word| word == 0));
        }
    }
}
