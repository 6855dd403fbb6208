//! The erase blocks of all planes: state, valid pages and wear of each.
//!
//! ```text
//!  free ── take ──▶ open ── close ──▶ closed, in the bucket of its valid pages ── drain ──▶ draining ── erased ──▶ free
//!    least worn first                  0 ▶ b b        a page less: one bucket down
//!                                      1 ▶ b          fewest_valid: first of the lowest bucket that is not empty
//! ```

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::parameters::Parameters;
use super::table::Table;

/// Number of a plane's collections between two searches for an underworn block.
const WEAR_CHECK_PERIOD: u64 = 16;

/// Content of pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Content {
    #[default]
    Data = 0,
    Map = 1,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    #[default]
    Free,
    /// Being written or emptied: not a candidate for collection.
    Busy,
    Closed,
}

/// A block. Links are block numbers in the same plane plus one, or 0 for none.
#[derive(Clone, Copy, Debug, Default)]
struct Block {
    erases: u32,
    before: u32,
    after: u32,
    valid: u16,
    state: State,
    content: Content,
}

/// First and last block of a bucket, plus one; 0 if it is empty.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    first: u32,
    last: u32,
}

#[derive(Clone, Debug, Default)]
struct Plane {
    /// Erase count and block number, least worn first.
    free: BinaryHeap<Reverse<(u32, u32)>>,
    /// This block and all following ones are free and were never erased.
    unused: u32,
    collections: u64,
    most_worn: u32,
    /// Lower bound of the erase counts.
    least_worn: u32,
    /// All lower buckets are empty.
    lowest: u32,
}

/// All blocks, identified by plane and number in the plane.
#[derive(Debug)]
pub(super) struct Blocks {
    table: Table<Block>,
    /// By plane and valid pages.
    buckets: Table<Bucket>,
    planes: Vec<Plane>,
    per_plane: u32,
    pages: u32,
}

impl Blocks {
    /// All blocks are free.
    pub fn new(model: &Parameters) -> Blocks {
        let planes = model.shape.planes as usize;
        Blocks {
            table: Table::new(planes * model.shape.blocks as usize),
            buckets: Table::new(planes * (model.shape.pages as usize + 1)),
            planes: vec![Plane { lowest: model.shape.pages + 1, ..Plane::default() }; planes],
            per_plane: model.shape.blocks,
            pages: model.shape.pages,
        }
    }

    pub fn freeze(&mut self) {
        self.table.freeze();
        self.buckets.freeze();
    }

    /// A copy for another device that shares the tables; they must be frozen.
    pub fn share(&self) -> Blocks {
        Blocks { table: self.table.share(), buckets: self.buckets.share(), planes: self.planes.clone(), ..*self }
    }

    #[inline]
    fn index(&self, plane: u32, block: u32) -> usize {
        plane as usize * self.per_plane as usize + block as usize
    }

    #[inline]
    fn get(&self, plane: u32, block: u32) -> Block {
        self.table.get(self.index(plane, block))
    }

    #[inline]
    fn get_mut(&mut self, plane: u32, block: u32) -> &mut Block {
        let index = self.index(plane, block);
        self.table.get_mut(index)
    }

    #[inline]
    fn bucket_mut(&mut self, plane: u32, valid: u32) -> &mut Bucket {
        self.buckets.get_mut(plane as usize * (self.pages as usize + 1) + valid as usize)
    }

    /// Number of free blocks in a plane.
    #[inline]
    pub fn free(&self, plane: u32) -> u32 {
        let state = &self.planes[plane as usize];
        state.free.len() as u32 + (self.per_plane - state.unused)
    }

    /// Opens the least worn free block.
    #[expect(clippy::expect_used, reason = "a collection begins while it still has the blocks that it needs itself")]
    pub fn take_least_worn(&mut self, plane: u32, content: Content) -> u32 {
        let state = &mut self.planes[plane as usize];
        let block = if state.unused < self.per_plane {
            state.unused += 1;
            state.unused - 1
        } else {
            let Reverse((_, block)) = state.free.pop().expect("a free block");
            block
        };
        self.open(plane, block, content)
    }

    /// Opens the most worn free block.
    pub fn take_most_worn(&mut self, plane: u32, content: Content) -> u32 {
        let free = &mut self.planes[plane as usize].free;
        // The order is reversed: the minimum is the most worn. Blocks that were never erased are not among them.
        let Some(&most) = free.iter().min() else { return self.take_least_worn(plane, content) };
        free.retain(|entry| *entry != most);
        self.open(plane, most.0.1, content)
    }

    fn open(&mut self, plane: u32, block: u32, content: Content) -> u32 {
        let entry = self.get_mut(plane, block);
        (entry.state, entry.content) = (State::Busy, content);
        block
    }

    /// Adds `pages` valid pages of an open block.
    #[inline]
    pub fn add_valid(&mut self, plane: u32, block: u32, pages: u32) {
        self.get_mut(plane, block).valid += pages as u16;
    }

    /// Removes a valid page of a block.
    #[inline]
    pub fn remove_valid(&mut self, plane: u32, block: u32) {
        let entry = self.get_mut(plane, block);
        let closed = entry.state == State::Closed;
        if closed {
            self.unlink(plane, block);
        }
        self.get_mut(plane, block).valid -= 1;
        if closed {
            self.link(plane, block);
        }
    }

    /// Closes a full block.
    pub fn close(&mut self, plane: u32, block: u32) {
        self.get_mut(plane, block).state = State::Closed;
        self.link(plane, block);
    }

    /// Excludes a closed block, which is about to be emptied, from collection.
    pub fn drain(&mut self, plane: u32, block: u32) {
        self.unlink(plane, block);
        self.get_mut(plane, block).state = State::Busy;
    }

    /// Marks a block as erased and free.
    pub fn erased(&mut self, plane: u32, block: u32) {
        let entry = self.get_mut(plane, block);
        let erases = entry.erases.saturating_add(1);
        *entry = Block { erases, ..Block::default() };
        let state = &mut self.planes[plane as usize];
        state.most_worn = state.most_worn.max(erases);
        state.collections += 1;
        state.free.push(Reverse((erases, block)));
    }

    /// The content of a block's pages.
    pub fn content(&self, plane: u32, block: u32) -> Content {
        self.get(plane, block).content
    }

    /// The closed block with the fewest valid pages (greedy collection); among equals the one in that state for longest.
    pub fn fewest_valid(&mut self, plane: u32) -> Option<u32> {
        let mut lowest = self.planes[plane as usize].lowest;
        let from = plane as usize * (self.pages as usize + 1);
        while lowest <= self.pages && self.buckets.get(from + lowest as usize).first == 0 {
            lowest += 1;
        }
        self.planes[plane as usize].lowest = lowest;
        (lowest <= self.pages).then(|| self.buckets.get(from + lowest as usize).first - 1)
    }

    /// A closed block with over `spread` fewer erasures than the most worn one, if a search is due; otherwise `None`.
    pub fn underworn(&mut self, plane: u32, spread: u32) -> Option<u32> {
        let state = &self.planes[plane as usize];
        if !state.collections.is_multiple_of(WEAR_CHECK_PERIOD) || state.most_worn - state.least_worn <= spread {
            return None;
        }
        let most = state.most_worn;
        let erases = |block: &u32| self.get(plane, *block).erases;
        let least = (0..self.per_plane).map(|block| erases(&block)).min().unwrap_or(0);
        let closed = (0..self.per_plane).filter(|&block| self.get(plane, block).state == State::Closed).min_by_key(erases);
        let spared = closed.filter(|block| most - erases(block) > spread);
        self.planes[plane as usize].least_worn = least;
        spared
    }

    /// The lowest and the highest erase count of any block.
    pub fn wear(&self) -> (u32, u32) {
        let all = || self.planes.iter().enumerate();
        let most = all().map(|(_, state)| state.most_worn).max().unwrap_or(0);
        let blocks = |plane: usize| (0..self.per_plane).map(move |block| self.get(plane as u32, block).erases);
        // Without never-used blocks, every block has to be checked.
        let least = if all().any(|(_, state)| state.unused < self.per_plane) {
            0
        } else {
            all().flat_map(|(plane, _)| blocks(plane)).min().unwrap_or(0)
        };
        (least, most)
    }

    /// Appends a block to its bucket.
    #[inline]
    fn link(&mut self, plane: u32, block: u32) {
        let valid = u32::from(self.get(plane, block).valid);
        let bucket = self.bucket_mut(plane, valid);
        let before = std::mem::replace(&mut bucket.last, block + 1);
        if before == 0 {
            bucket.first = block + 1;
        } else {
            self.get_mut(plane, before - 1).after = block + 1;
        }
        let entry = self.get_mut(plane, block);
        (entry.before, entry.after) = (before, 0);
        let lowest = &mut self.planes[plane as usize].lowest;
        *lowest = valid.min(*lowest);
    }

    #[inline]
    fn unlink(&mut self, plane: u32, block: u32) {
        let Block { before, after, valid, .. } = self.get(plane, block);
        match before {
            0 => self.bucket_mut(plane, valid.into()).first = after,
            before => self.get_mut(plane, before - 1).after = after,
        }
        match after {
            0 => self.bucket_mut(plane, valid.into()).last = before,
            after => self.get_mut(plane, after - 1).before = before,
        }
    }

    #[cfg(test)]
    pub fn state(&self, plane: u32, block: u32) -> State {
        self.get(plane, block).state
    }

    #[cfg(test)]
    pub fn own_bytes(&self) -> usize {
        self.table.own_bytes() + self.buckets.own_bytes()
    }

    #[cfg(test)]
    pub fn valid(&self, plane: u32, block: u32) -> u32 {
        self.get(plane, block).valid.into()
    }

    /// Checks that each closed block is in the bucket of its valid pages, that no other block is in a bucket, and that each free
    /// one can be taken.
    #[cfg(test)]
    pub fn assert_consistent(&self) {
        for plane in 0..self.planes.len() as u32 {
            let mut listed = std::collections::BTreeSet::new();
            for valid in 0..=self.pages {
                let mut next = self.buckets.get((plane * (self.pages + 1) + valid) as usize).first;
                let mut before = 0;
                while next > 0 {
                    let block = self.get(plane, next - 1);
                    assert_eq!((block.state, u32::from(block.valid), block.before), (State::Closed, valid, before));
                    assert!(listed.insert(next - 1) && valid >= self.planes[plane as usize].lowest);
                    (before, next) = (next, block.after);
                }
                assert_eq!(self.buckets.get((plane * (self.pages + 1) + valid) as usize).last, before);
            }
            let state = &self.planes[plane as usize];
            let mut free: Vec<u32> = state.free.iter().map(|Reverse((_, block))| *block).collect();
            free.extend(state.unused..self.per_plane);
            free.sort_unstable();
            assert!(free.windows(2).all(|pair| pair[0] < pair[1]), "a block is free twice");
            for block in 0..self.per_plane {
                let state = self.get(plane, block).state;
                assert_eq!(state == State::Closed, listed.contains(&block));
                assert_eq!(state == State::Free, free.binary_search(&block).is_ok());
            }
        }
    }
}
