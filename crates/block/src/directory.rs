//! Dense numbers for streams: for each key in use, and for recently used keys.
//!
//! A trace may have hundreds of thousands of streams, so only keys that are held (by a queued request or one in flight) are guaranteed to
//! stay. Of the others, the [`IDLE_MAX`] most recently used are kept.

use alloc::vec::Vec;

use crate::hash_index::HashIndex;
use crate::list::{Linked, Links, List};

/// Number of keys without requests to keep.
const IDLE_MAX: usize = 4096;

struct Entry {
    key: u64,
    holds: u32,
    /// Its neighbours in the idle list, while `holds` is 0.
    links: Links,
}

impl Linked for Entry {
    fn links(&self) -> &Links {
        &self.links
    }

    fn links_mut(&mut self) -> &mut Links {
        &mut self.links
    }
}

/// Keys and their numbers. The owner keeps a `Vec` of its state for each number.
#[derive(Default)]
pub(crate) struct Directory {
    entries: Vec<Entry>,
    by_key: HashIndex,
    /// Keys that are not held, least recently used first.
    idle: List,
}

impl Directory {
    /// The number of `key`; `None` if it was evicted or never held.
    pub(crate) fn find(&self, key: u64) -> Option<usize> {
        self.by_key.get(key).next().map(|slot| slot as usize)
    }

    /// Adds a hold on `key`. Returns its number, and whether that was reassigned, so that the owner's state for it belongs to another key.
    pub(crate) fn hold(&mut self, key: u64) -> (usize, bool) {
        if let Some(number) = self.find(key) {
            self.hold_number(number);
            return (number, false);
        }
        let entry = Entry { key, holds: 1, links: Links::default() };
        let number = match self.evict_oldest() {
            Some(number) => {
                self.entries[number as usize] = entry;
                number
            }
            None => {
                self.entries.push(entry);
                (self.entries.len() - 1) as u32
            }
        };
        self.by_key.insert(key, number);
        (number as usize, true)
    }

    /// Adds a hold on the key with this number.
    pub(crate) fn hold_number(&mut self, number: usize) {
        if self.entries[number].holds == 0 {
            self.idle.remove(&mut self.entries, number as u32);
        }
        self.entries[number].holds += 1;
    }

    /// Releases one hold of the key with this number.
    pub(crate) fn release(&mut self, number: usize) {
        self.entries[number].holds -= 1;
        if self.entries[number].holds == 0 {
            self.idle.push_back(&mut self.entries, number as u32);
        }
    }

    /// Frees the number of the least recently used idle key; `None` while fewer than [`IDLE_MAX`] are kept.
    fn evict_oldest(&mut self) -> Option<u32> {
        if self.idle.len() < IDLE_MAX {
            return None;
        }
        let oldest = self.idle.pop_front(&mut self.entries)?;
        self.by_key.remove(self.entries[oldest as usize].key, oldest);
        Some(oldest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn held_keys_stay_and_the_oldest_idle_one_is_evicted() {
        let mut directory = Directory::default();
        let (held, fresh) = directory.hold(7);
        assert!(fresh);
        for key in 1_000..1_000 + 3 * IDLE_MAX as u64 {
            let (number, fresh) = directory.hold(key);
            assert!(fresh);
            directory.release(number);
        }
        assert_eq!(directory.find(7), Some(held));
        assert_eq!(directory.find(1_000), None);
        assert!(directory.find(1_000 + 2 * IDLE_MAX as u64).is_some());
        assert!(directory.entries.len() <= IDLE_MAX + 1);
    }

    #[test]
    fn repeated_use_of_one_key_evicts_no_other() {
        let mut directory = Directory::default();
        for key in core::iter::once(1).chain(core::iter::repeat_n(2, 2 * IDLE_MAX)).chain(3..100) {
            let (number, _) = directory.hold(key);
            directory.release(number);
        }
        assert!((1..100).all(|key| directory.find(key).is_some()));
    }
}
