//! A sorted list of numbers with 128-bit keys, for short lists that schedulers search often.
//!
//! ```text
//! lows    0        500         900           the keys of a chunk are from its low up to that of the next chunk
//! chunks  3 7 44   500 512     901 950 2000  at most 64 keys each, searched by bisection, moved by copying
//! ```
//!
//! Searching and moving a few cache lines is two to three times faster than a B-tree at the lengths of a disk's queue. Empty chunks are
//! kept for the next split, so nothing is allocated once the list has reached its maximum size.

use alloc::vec;
use alloc::vec::Vec;

const CHUNK: usize = 64;

#[derive(Default)]
struct Chunk {
    keys: Vec<u128>,
    numbers: Vec<u32>,
}

/// The position of a key or its insertion point: chunk and index. Valid until the list changes.
pub(crate) type Spot = (usize, usize);

/// A key by `value`, unique through the number of its holder.
pub(crate) fn key(value: u64, number: usize) -> u128 {
    u128::from(value) << 64 | number as u128
}

/// The value of a [`key`].
pub(crate) fn value(key: u128) -> u64 {
    (key >> 64) as u64
}

/// A key with its number; `None` if there is no such key.
type Found = Option<(u128, u32)>;

/// Numbers ordered by unique keys.
pub(crate) struct SortedList {
    lows: Vec<u128>,
    chunks: Vec<Chunk>,
    spare: Vec<Chunk>,
    len: usize,
}

impl Default for SortedList {
    fn default() -> SortedList {
        SortedList { lows: vec![0], chunks: vec![Chunk::default()], spare: Vec::new(), len: 0 }
    }
}

impl SortedList {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The position of `key` or its insertion point, for a lookup that may be followed by an insertion.
    #[inline]
    pub(crate) fn spot(&self, key: u128) -> Spot {
        if self.len == 0 {
            // The only chunk of an empty list.
            return (0, 0);
        }
        // The first low is 0, so at least one is not above the key.
        let chunk = if self.lows.len() == 1 { 0 } else { self.lows.partition_point(|&low| low <= key) - 1 };
        (chunk, self.chunks[chunk].keys.partition_point(|&other| other < key))
    }

    /// Inserts a new key at its spot.
    pub(crate) fn insert_at(&mut self, spot: Spot, key: u128, number: u32) {
        let (mut chunk, mut index) = spot;
        if self.chunks[chunk].keys.len() == CHUNK {
            self.split(chunk);
            (chunk, index) = self.spot(key);
        }
        let found = &mut self.chunks[chunk];
        if index == found.keys.len() {
            found.keys.push(key);
            found.numbers.push(number);
        } else {
            found.keys.insert(index, key);
            found.numbers.insert(index, number);
        }
        self.len += 1;
    }

    /// Inserts a new key.
    pub(crate) fn insert(&mut self, key: u128, number: u32) {
        self.insert_at(self.spot(key), key, number);
    }

    /// Removes a key, if present.
    pub(crate) fn remove(&mut self, key: u128) {
        if self.len == 1 {
            return self.remove_only(key);
        }
        let (chunk, index) = self.spot(key);
        let found = &mut self.chunks[chunk];
        if found.keys.get(index) != Some(&key) {
            return;
        }
        if index + 1 == found.keys.len() {
            found.keys.pop();
            found.numbers.pop();
        } else {
            found.keys.remove(index);
            found.numbers.remove(index);
        }
        self.len -= 1;
        if found.keys.is_empty() && self.chunks.len() > 1 {
            self.spare.push(self.chunks.remove(chunk));
            self.lows.remove(chunk);
            self.lows[0] = 0;
        }
    }

    /// Moves a number from its previous key to its new one; `None`: it is not in the list before, or after.
    #[inline]
    pub(crate) fn move_entry(&mut self, before: Option<u128>, after: Option<u128>, number: u32) {
        if before != after {
            before.inspect(|&before| self.remove(before));
            after.inspect(|&after| self.insert(after, number));
        }
    }

    fn remove_only(&mut self, key: u128) {
        let only = &mut self.chunks[0];
        if only.keys.first() == Some(&key) {
            only.keys.clear();
            only.numbers.clear();
            self.len = 0;
        }
    }

    /// The first key that is at least `key`.
    #[inline]
    pub(crate) fn at_or_after(&self, key: u128) -> Found {
        self.from(self.spot(key))
    }

    /// The last key below `key`, and the first that is at least `key`.
    pub(crate) fn around(&self, key: u128) -> (Found, Found) {
        let spot = self.spot(key);
        let before = match spot {
            (0, 0) => None,
            (chunk, 0) => self.last_of(chunk - 1),
            (chunk, index) => self.get((chunk, index - 1)),
        };
        (before, self.from(spot))
    }

    /// The first key from a spot on.
    #[inline]
    pub(crate) fn from(&self, (chunk, index): Spot) -> Found {
        match self.get((chunk, index)) {
            None => self.get((chunk + 1, 0)),
            found => found,
        }
    }

    #[inline]
    pub(crate) fn first(&self) -> Found {
        self.get((0, 0))
    }

    /// The first key whose number is not `but`, which has at most one key.
    #[inline]
    pub(crate) fn first_but(&self, but: u32) -> Found {
        let first = self.first()?;
        if first.1 == but { self.at_or_after(first.0 + 1) } else { Some(first) }
    }

    pub(crate) fn last(&self) -> Found {
        self.last_of(self.chunks.len() - 1)
    }

    /// All numbers in the order of their keys.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u32> + '_ {
        self.chunks.iter().flat_map(|chunk| chunk.numbers.iter().copied())
    }

    #[inline]
    fn get(&self, (chunk, index): Spot) -> Found {
        let chunk = self.chunks.get(chunk)?;
        Some((*chunk.keys.get(index)?, *chunk.numbers.get(index)?))
    }

    fn last_of(&self, chunk: usize) -> Found {
        self.get((chunk, self.chunks[chunk].keys.len().checked_sub(1)?))
    }

    fn split(&mut self, chunk: usize) {
        let mut upper = self.spare.pop().unwrap_or_default();
        let lower = &mut self.chunks[chunk];
        upper.keys.extend(lower.keys.drain(CHUNK / 2..));
        upper.numbers.extend(lower.numbers.drain(CHUNK / 2..));
        self.lows.insert(chunk + 1, upper.keys[0]);
        self.chunks.insert(chunk + 1, upper);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::{BTreeMap, btree_map::Entry};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_holds_and_finds_what_a_b_tree_does(steps in proptest::collection::vec((0..400u128, any::<bool>()), 1..1_500)) {
            let (mut list, mut tree) = (SortedList::default(), BTreeMap::new());
            for (step, &(key, remove)) in steps.iter().enumerate() {
                if remove && step % 3 > 0 {
                    list.remove(key);
                    tree.remove(&key);
                } else if let Entry::Vacant(vacancy) = tree.entry(key) {
                    vacancy.insert(step as u32);
                    list.insert(key, step as u32);
                }
                let owned = |(key, number): (&u128, &u32)| (*key, *number);
                let probe = steps[step / 2].0;
                prop_assert_eq!(list.at_or_after(probe), tree.range(probe..).next().map(owned));
                prop_assert_eq!(list.around(probe).0, tree.range(..probe).next_back().map(owned));
                prop_assert_eq!(list.first(), tree.first_key_value().map(owned));
                prop_assert_eq!(list.last(), tree.last_key_value().map(owned));
                prop_assert_eq!(list.len(), tree.len());
            }
            prop_assert!(list.numbers().eq(tree.values().copied()));
        }
    }
}
