//! Numbers streams: a dense number for each key in use, and for those used lately.
//!
//! A trace may hold hundreds of thousands of streams, so that only those with something held (a request that waits or is at
//! the device) are sure to stay; of the others the [`IDLE_MAX`] used last are remembered and older ones forgotten.

use alloc::vec::Vec;

use crate::hash_index::HashIndex;
use crate::list::{Linked, Links, List};

/// How many streams without requests are remembered.
const IDLE_MAX: usize = 4096;

struct Entry {
    key: u64,
    holds: u32,
    /// Its neighbours among the idle ones, while `holds` is 0.
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

/// Keys and their numbers. The owner keeps a `Vec` with what it knows of each.
#[derive(Default)]
pub(crate) struct Directory {
    entries: Vec<Entry>,
    by_key: HashIndex,
    /// Those that nothing is held of, the one used longest ago first.
    idle: List,
}

impl Directory {
    /// The number of `key`, if it is remembered.
    pub(crate) fn find(&self, key: u64) -> Option<usize> {
        self.by_key.get(key).next().map(|slot| slot as usize)
    }

    /// Holds `key` once more. True: it is new, and what the owner keeps under this number belongs to another key.
    pub(crate) fn hold(&mut self, key: u64) -> (usize, bool) {
        if let Some(number) = self.find(key) {
            self.hold_number(number);
            return (number, false);
        }
        let entry = Entry { key, holds: 1, links: Links::default() };
        let number = match self.forget_oldest() {
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

    /// Holds the key with this number once more.
    pub(crate) fn hold_number(&mut self, number: usize) {
        if self.entries[number].holds == 0 {
            self.idle.remove(&mut self.entries, number as u32);
        }
        self.entries[number].holds += 1;
    }

    /// Lets go of the key with this number once.
    pub(crate) fn release(&mut self, number: usize) {
        self.entries[number].holds -= 1;
        if self.entries[number].holds == 0 {
            self.idle.push_back(&mut self.entries, number as u32);
        }
    }

    /// Frees a number if enough idle keys are remembered.
    fn forget_oldest(&mut self) -> Option<u32> {
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
    fn held_streams_stay_and_of_the_idle_ones_the_oldest_is_forgotten() {
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
    fn a_stream_that_comes_again_and_again_makes_no_other_forgotten() {
        let mut directory = Directory::default();
        for key in core::iter::once(1).chain(core::iter::repeat_n(2, 2 * IDLE_MAX)).chain(3..100) {
            let (number, _) = directory.hold(key);
            directory.release(number);
        }
        assert!((1..100).all(|key| directory.find(key).is_some()));
    }
}
