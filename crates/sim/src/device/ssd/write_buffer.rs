//! Memory that takes written pages before the flash does, and gathers the sectors of a page.
//!
//! Pages leave oldest first: at once if all their sectors are there, otherwise when more than half of the buffer is taken, or when a
//! flush waits for them. What is left then stays: the device has no idle-time policy.

use std::collections::VecDeque;

use block::RequestId;

const NONE: u32 = u32::MAX;

/// A page in the buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Buffered {
    /// The logical page.
    pub page: u32,
    /// Its sectors that were written, one bit each.
    pub sectors: u64,
    leaving: bool,
    next_in_bucket: u32,
    /// How many pages came before it.
    number: u64,
}

/// A flush that waits for pages.
#[derive(Clone, Copy, Debug)]
struct Flush {
    id: RequestId,
    /// It waits for the pages numbered below this …
    before: u64,
    /// … of which so many are here.
    left: usize,
}

/// The buffer.
#[derive(Clone, Debug)]
pub(super) struct WriteBuffer {
    slots: Vec<Buffered>,
    free: Vec<u32>,
    /// Chains of slots by a hash of the page, the newest first.
    buckets: Vec<u32>,
    /// Slots that have not left, oldest first.
    order: VecDeque<u32>,
    entered: u64,
    /// Oldest first.
    flushes: VecDeque<Flush>,
}

impl WriteBuffer {
    pub fn new(pages: u32) -> WriteBuffer {
        let empty = Buffered { page: 0, sectors: 0, leaving: false, next_in_bucket: NONE, number: 0 };
        WriteBuffer {
            slots: vec![empty; pages as usize],
            free: (0..pages).rev().collect(),
            buckets: vec![NONE; (pages as usize * 2).next_power_of_two()],
            order: VecDeque::with_capacity(pages as usize),
            entered: 0,
            flushes: VecDeque::new(),
        }
    }

    fn bucket(&self, page: u32) -> usize {
        // Fibonacci hashing: neighbours lie apart, and it is the same on every machine.
        (page.wrapping_mul(0x9e37_79b9) >> 7) as usize & (self.buckets.len() - 1)
    }

    /// The newest copy of a page.
    fn find(&self, page: u32) -> Option<u32> {
        let mut slot = self.buckets[self.bucket(page)];
        while slot != NONE && self.slots[slot as usize].page != page {
            slot = self.slots[slot as usize].next_in_bucket;
        }
        (slot != NONE).then_some(slot)
    }

    /// Whether all these sectors of a page can be read here.
    pub fn holds(&self, page: u32, sectors: u64) -> bool {
        self.find(page).is_some_and(|slot| self.slots[slot as usize].sectors & sectors == sectors)
    }

    /// Takes sectors of a page in; false if there is no room.
    pub fn write(&mut self, page: u32, sectors: u64) -> bool {
        if let Some(slot) = self.find(page)
            && !self.slots[slot as usize].leaving
        {
            self.slots[slot as usize].sectors |= sectors;
            return true;
        }
        let Some(slot) = self.free.pop() else { return false };
        let bucket = self.bucket(page);
        let (next_in_bucket, number) = (self.buckets[bucket], self.entered);
        self.slots[slot as usize] = Buffered { page, sectors, leaving: false, next_in_bucket, number };
        self.entered += 1;
        self.buckets[bucket] = slot;
        self.order.push_back(slot);
        true
    }

    /// Forgets pages from `first` to before `end`, unless they are leaving.
    pub fn discard(&mut self, first: u32, end: u32) {
        for _ in 0..self.order.len() {
            let Some(slot) = self.order.pop_front() else { return };
            if (first..end).contains(&self.slots[slot as usize].page) {
                self.remove(slot);
            } else {
                self.order.push_back(slot);
            }
        }
    }

    /// Pages that are here, leaving ones among them.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Makes all that is here leave.
    pub fn flush(&mut self, id: RequestId) {
        self.flushes.push_back(Flush { id, before: self.entered, left: self.len() });
    }

    /// The next flush whose pages have all gone.
    pub fn flushed(&mut self) -> Option<RequestId> {
        if self.flushes.front()?.left > 0 {
            return None;
        }
        self.flushes.pop_front().map(|flush| flush.id)
    }

    /// The next page for the flash, if one must go; it stays readable until [`remove`](WriteBuffer::remove).
    pub fn leave(&mut self, all_sectors: u64) -> Option<(u32, Buffered)> {
        let &slot = self.order.front()?;
        let crowded = self.len() * 2 > self.slots.len();
        // Flushes grow: the last one waits for the pages of all.
        let flushed = self.flushes.back().map_or(0, |flush| flush.before);
        let buffered = &mut self.slots[slot as usize];
        if !crowded && buffered.number >= flushed && buffered.sectors != all_sectors {
            return None;
        }
        buffered.leaving = true;
        self.order.pop_front();
        Some((slot, self.slots[slot as usize]))
    }

    /// Frees the slot of a page that is on the flash, or discarded.
    pub fn remove(&mut self, slot: u32) {
        let Buffered { page, next_in_bucket, number, .. } = self.slots[slot as usize];
        for flush in self.flushes.iter_mut().filter(|flush| number < flush.before) {
            flush.left -= 1;
        }
        let bucket = self.bucket(page);
        if self.buckets[bucket] == slot {
            self.buckets[bucket] = next_in_bucket;
        } else {
            let mut before = self.buckets[bucket];
            while before != NONE && self.slots[before as usize].next_in_bucket != slot {
                before = self.slots[before as usize].next_in_bucket;
            }
            if let Some(before) = self.slots.get_mut(before as usize) {
                before.next_in_bucket = next_in_bucket;
            }
        }
        self.free.push(slot);
    }
}
