//! A hash index: maps a key to the indexes of the items under it, for lookups on the hot path.
//!
//! ```text
//! buckets: [ . | 3 | . | 0 ]        nodes, one per item:  0: key 24 -> 2
//!                |       '----------------------------->  2: key 24 -> none
//!                '------------------------------------->  3: key  9 -> none
//! ```
//!
//! The hash function is fixed, so that the same input gives the same order on every machine. Nothing is allocated once the index has
//! reached its largest number of items.

use alloc::vec;
use alloc::vec::Vec;

/// The end of a bucket's chain.
const NONE: u32 = u32::MAX;

/// Buckets of the smallest non-empty index.
const SMALLEST: usize = 16;

#[derive(Clone, Copy, Debug)]
struct Node {
    key: u64,
    next: u32,
}

/// Items by key. Several items may share a key; each item is in the index at most once.
#[derive(Clone, Debug, Default)]
pub struct HashIndex {
    /// The first item of each chain; the length is a power of two.
    buckets: Vec<u32>,
    nodes: Vec<Node>,
    len: usize,
}

impl HashIndex {
    /// An empty index that does not allocate for up to `items` items with indexes below that number.
    pub fn with_capacity(items: usize) -> HashIndex {
        let mut index = HashIndex::default();
        if items > 0 {
            index.buckets = vec![NONE; items.next_power_of_two().max(SMALLEST)];
            index.nodes.reserve(items);
        }
        index
    }

    /// Inserts an item that is not in the index yet.
    pub fn insert(&mut self, key: u64, item: u32) {
        if self.len >= self.buckets.len() {
            self.grow();
        }
        if self.nodes.len() <= item as usize {
            self.nodes.resize(item as usize + 1, Node { key: 0, next: NONE });
        }
        self.link(key, item);
        self.len += 1;
    }

    /// Removes an item; does nothing if it is not in the index under `key`.
    pub fn remove(&mut self, key: u64, item: u32) {
        if self.buckets.is_empty() {
            return;
        }
        let bucket = self.bucket(key);
        let mut previous = NONE;
        let mut current = self.buckets[bucket];
        while current != NONE {
            let next = self.nodes[current as usize].next;
            if current == item {
                match previous {
                    NONE => self.buckets[bucket] = next,
                    _ => self.nodes[previous as usize].next = next,
                }
                self.len -= 1;
                return;
            }
            previous = current;
            current = next;
        }
    }

    /// All items under `key`, newest first.
    pub fn get(&self, key: u64) -> impl Iterator<Item = u32> + '_ {
        let mut current = if self.buckets.is_empty() { NONE } else { self.buckets[self.bucket(key)] };
        core::iter::from_fn(move || {
            while current != NONE {
                let item = current;
                let node = self.nodes[item as usize];
                current = node.next;
                if node.key == key {
                    return Some(item);
                }
            }
            None
        })
    }

    fn link(&mut self, key: u64, item: u32) {
        let bucket = self.bucket(key);
        self.nodes[item as usize] = Node { key, next: self.buckets[bucket] };
        self.buckets[bucket] = item;
    }

    /// Multiplicative (Fibonacci) hashing: the top bits of the product depend on all bits of the key.
    fn bucket(&self, key: u64) -> usize {
        let bits = self.buckets.len().trailing_zeros();
        (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - bits)) as usize
    }

    fn grow(&mut self) {
        let size = (self.buckets.len() * 2).max(SMALLEST);
        let old = core::mem::replace(&mut self.buckets, vec![NONE; size]);
        for first in old {
            // Linking prepends, so the oldest of a chain must be linked first.
            let mut current = self.reversed(first);
            while current != NONE {
                let node = self.nodes[current as usize];
                self.link(node.key, current);
                current = node.next;
            }
        }
    }

    /// Reverses a chain and returns its new first item.
    fn reversed(&mut self, mut current: u32) -> u32 {
        let mut first = NONE;
        while current != NONE {
            let next = core::mem::replace(&mut self.nodes[current as usize].next, first);
            first = core::mem::replace(&mut current, next);
        }
        first
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_finds_what_a_list_of_pairs_holds(steps in prop::collection::vec((0u64..20, any::<bool>(), any::<usize>()), 1..300)) {
            let (mut index, mut model) = (HashIndex::default(), Vec::<(u64, u32)>::new());
            let mut next = 0;
            for (key, remove, choice) in steps {
                if remove && !model.is_empty() {
                    let (key, item) = model.remove(choice % model.len());
                    index.remove(key, item);
                } else {
                    index.insert(key, next);
                    model.push((key, next));
                    next += 1;
                }
                let newest_first = model.iter().rev().filter(|pair| pair.0 == key).map(|pair| pair.1);
                prop_assert!(index.get(key).eq(newest_first));
            }
        }
    }
}
