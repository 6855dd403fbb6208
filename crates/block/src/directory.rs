//! Who is who among streams: a dense number for each key in use, and for those used lately.
//!
//! A trace may hold hundreds of thousands of streams, so that only those with something held (a request that waits or is at
//! the device) are sure to stay; of the others the [`IDLE_MAX`] used last are remembered and older ones forgotten.

use alloc::vec::Vec;

use crate::chains::{Chains, NONE};

/// How many streams without requests are remembered.
const IDLE_MAX: usize = 4096;

struct Entry {
    key: u64,
    holds: u32,
    // Neighbours in the list of idle entries, while holds is 0.
    older: u32,
    newer: u32,
}

/// Keys and their numbers. The owner keeps a `Vec` with what it knows of each.
#[derive(Default)]
pub(crate) struct Directory {
    entries: Vec<Entry>,
    by_key: Chains,
    idle: IdleList,
}

struct IdleList {
    oldest: u32,
    newest: u32,
    len: usize,
}

impl Default for IdleList {
    fn default() -> IdleList {
        IdleList { oldest: NONE, newest: NONE, len: 0 }
    }
}

impl Directory {
    /// The number of `key`, if it is remembered.
    pub(crate) fn find(&self, key: u64) -> Option<usize> {
        self.by_key.slots(key).next().map(|slot| slot as usize)
    }

    /// Holds `key` once more. True: it is new, and whatever the owner knew under this number is about another.
    pub(crate) fn hold(&mut self, key: u64) -> (usize, bool) {
        if let Some(number) = self.find(key) {
            self.hold_number(number);
            return (number, false);
        }
        let number = if self.idle.len >= IDLE_MAX {
            let oldest = self.idle.oldest;
            self.leave_idle(oldest);
            self.by_key.remove(self.entries[oldest as usize].key, oldest);
            oldest
        } else {
            self.entries.push(Entry { key, holds: 0, older: NONE, newer: NONE });
            (self.entries.len() - 1) as u32
        };
        self.entries[number as usize] = Entry { key, holds: 1, older: NONE, newer: NONE };
        self.by_key.insert(key, number);
        (number as usize, true)
    }

    /// Holds the key with this number once more.
    pub(crate) fn hold_number(&mut self, number: usize) {
        if self.entries[number].holds == 0 {
            self.leave_idle(number as u32);
        }
        self.entries[number].holds += 1;
    }

    /// Lets go of the key with this number once.
    pub(crate) fn release(&mut self, number: usize) {
        self.entries[number].holds -= 1;
        if self.entries[number].holds > 0 {
            return;
        }
        let older = core::mem::replace(&mut self.idle.newest, number as u32);
        self.entries[number].older = older;
        self.entries[number].newer = NONE;
        match older {
            NONE => self.idle.oldest = number as u32,
            _ => self.entries[older as usize].newer = number as u32,
        }
        self.idle.len += 1;
    }

    fn leave_idle(&mut self, number: u32) {
        let Entry { older, newer, .. } = self.entries[number as usize];
        match older {
            NONE => self.idle.oldest = newer,
            _ => self.entries[older as usize].newer = newer,
        }
        match newer {
            NONE => self.idle.newest = older,
            _ => self.entries[newer as usize].older = older,
        }
        self.idle.len -= 1;
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
