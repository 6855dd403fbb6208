//! The write buffer, which also gathers the sectors of a page.
//!
//! Pages leave oldest first: immediately if all their sectors are present, otherwise when more than half of the buffer is used, or
//! when a flush waits for them. The rest stays: the device has no idle-time policy.

use std::collections::VecDeque;

use block::RequestId;
use block::hash_index::HashIndex;
use block::list::{Linked, Links, List};
use slab::Slab;

/// A page in the buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Buffered {
    /// The logical page.
    pub page: u32,
    /// Its sectors that were written, one bit each.
    pub sectors: u64,
    leaving: bool,
    /// The slot that follows in its flash page, or among those that wait for one, plus one; 0: none.
    packed_behind: u32,
    /// Number of pages inserted before it.
    number: u64,
    /// Expected cost when it was inserted.
    pub expected: u64,
    /// Links in the order of arrival, until it leaves.
    links: Links,
}

impl Linked for Buffered {
    fn links(&self) -> &Links {
        &self.links
    }

    fn links_mut(&mut self) -> &mut Links {
        &mut self.links
    }
}

/// A flush that waits for pages.
#[derive(Clone, Copy, Debug)]
struct BufferFlush {
    id: RequestId,
    /// It waits for pages numbered below this.
    before: u64,
    /// Number of such pages in the buffer.
    left: usize,
}

/// The buffer.
#[derive(Clone, Debug)]
pub(super) struct WriteBuffer {
    capacity: usize,
    slots: Slab<Buffered>,
    by_page: HashIndex,
    /// Pages that are not leaving, oldest first.
    staying: List,
    entered: u64,
    /// Oldest first.
    flushes: VecDeque<BufferFlush>,
}

impl WriteBuffer {
    pub fn new(pages: u32) -> WriteBuffer {
        let capacity = pages as usize;
        WriteBuffer {
            capacity,
            slots: Slab::with_capacity(capacity),
            by_page: HashIndex::with_capacity(capacity),
            staying: List::new(),
            entered: 0,
            flushes: VecDeque::new(),
        }
    }

    /// The newest copy of a page.
    fn find(&self, page: u32) -> Option<u32> {
        self.by_page.get(u64::from(page)).next()
    }

    /// Whether the buffer has all these sectors of a page.
    pub fn holds(&self, page: u32, sectors: u64) -> bool {
        self.find(page).is_some_and(|slot| self.slots[slot as usize].sectors & sectors == sectors)
    }

    /// Number of pages inserted so far.
    pub fn entered(&self) -> u64 {
        self.entered
    }

    /// Inserts sectors of a page; returns `false` if there is no room. `expected` is the cost of a page that is not in the buffer.
    pub fn write(&mut self, page: u32, sectors: u64, expected: u64) -> bool {
        if let Some(slot) = self.find(page)
            && !self.slots[slot as usize].leaving
        {
            self.slots[slot as usize].sectors |= sectors;
            return true;
        }
        if self.slots.len() == self.capacity {
            return false;
        }
        let (number, links) = (self.entered, Links::default());
        let buffered = Buffered { page, sectors, leaving: false, packed_behind: 0, number, expected, links };
        let slot = self.slots.insert(buffered) as u32;
        self.entered += 1;
        self.by_page.insert(u64::from(page), slot);
        self.staying.push_back(&mut self.slots, slot);
        true
    }

    /// Discards pages from `first` to `end` (exclusive), unless they are leaving.
    pub fn discard(&mut self, first: u32, end: u32) {
        let mut at = self.staying.first();
        while let Some(slot) = at {
            let Buffered { page, links, .. } = self.slots[slot as usize];
            at = links.next();
            if (first..end).contains(&page) {
                self.staying.remove(&mut self.slots, slot);
                self.remove(slot);
            }
        }
    }

    /// Number of pages in the buffer, including leaving ones.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Makes all pages in the buffer leave.
    pub fn flush(&mut self, id: RequestId) {
        self.flushes.push_back(BufferFlush { id, before: self.entered, left: self.len() });
    }

    /// The next flush whose pages are all gone; `None` if there is none.
    pub fn flushed(&mut self) -> Option<RequestId> {
        if self.flushes.front()?.left > 0 {
            return None;
        }
        self.flushes.pop_front().map(|flush| flush.id)
    }

    /// The next page for the flash, if one must go; it stays readable until [`remove`](WriteBuffer::remove).
    pub fn leave(&mut self, all_sectors: u64) -> Option<(u32, Buffered)> {
        let slot = self.staying.first()?;
        let crowded = self.len() * 2 > self.capacity;
        // Flush bounds ascend: the last flush waits for the pages of all.
        let flushed = self.flushes.back().map_or(0, |flush| flush.before);
        let buffered = &mut self.slots[slot as usize];
        if !crowded && buffered.number >= flushed && buffered.sectors != all_sectors {
            return None;
        }
        buffered.leaving = true;
        self.staying.pop_front(&mut self.slots);
        Some((slot, self.slots[slot as usize]))
    }

    /// Links `next` (slot plus one, or 0) behind a leaving page in its flash page.
    pub fn pack_behind(&mut self, slot: u32, next: u32) {
        self.slots[slot as usize].packed_behind = next;
    }

    /// The page that follows a leaving one, as slot plus one, or 0.
    pub fn packed_behind(&self, slot: u32) -> u32 {
        self.slots[slot as usize].packed_behind
    }

    /// Frees the slots of pages in a flash page that was programmed, starting with the first.
    pub fn remove_packed(&mut self, first: u32) {
        let mut next = first + 1;
        while let Some(slot) = next.checked_sub(1) {
            next = self.packed_behind(slot);
            self.remove(slot);
        }
    }

    /// The bound of the last flush, if all pages that it waits for have begun to leave: those numbered below it.
    pub fn flush_waits_for_leaving(&self) -> Option<u64> {
        let flush = self.flushes.back()?;
        let staying = self.staying.first().map(|slot| self.slots[slot as usize].number);
        staying.is_none_or(|number| number >= flush.before).then_some(flush.before)
    }

    /// The number of pages inserted before the one in a slot.
    pub fn number(&self, slot: u32) -> u64 {
        self.slots[slot as usize].number
    }

    /// The expected cost of the page in this slot.
    pub fn expected(&self, slot: u32) -> u64 {
        self.slots[slot as usize].expected
    }

    /// The logical page in this slot.
    pub fn page(&self, slot: u32) -> u32 {
        self.slots[slot as usize].page
    }

    /// Frees the slot of a page that was programmed or discarded.
    pub fn remove(&mut self, slot: u32) {
        let Buffered { page, number, .. } = self.slots.remove(slot as usize);
        for flush in self.flushes.iter_mut().filter(|flush| number < flush.before) {
            flush.left -= 1;
        }
        self.by_page.remove(u64::from(page), slot);
    }
}
