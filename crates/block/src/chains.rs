//! A hash index from a number to slots, for lookups on the hot path.
//!
//! ```text
//! buckets: [ . | 3 | . | 0 ]        nodes, one per slot:  0: key 24 -> 2
//!                |       '----------------------------->  2: key 24 -> none
//!                '------------------------------------->  3: key  9 -> none
//! ```
//!
//! The hash is fixed, so that the same input gives the same order, and nothing is allocated once it has grown to the largest
//! number of slots in use.

use alloc::vec;
use alloc::vec::Vec;

/// The end of a list of slots.
pub(crate) const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Node {
    key: u64,
    next: u32,
}

/// Slots by key; several slots may share a key, and each slot is in it at most once.
#[derive(Default)]
pub(crate) struct Chains {
    /// The first slot of each chain; a power of two of them.
    buckets: Vec<u32>,
    nodes: Vec<Node>,
    len: usize,
}

impl Chains {
    /// Enters `slot`, which must not be in yet.
    pub(crate) fn insert(&mut self, key: u64, slot: u32) {
        if self.len >= self.buckets.len() {
            self.grow();
        }
        if self.nodes.len() <= slot as usize {
            self.nodes.resize(slot as usize + 1, Node { key: 0, next: NONE });
        }
        self.link(key, slot);
        self.len += 1;
    }

    /// Takes `slot` out, if it is in under `key`.
    pub(crate) fn remove(&mut self, key: u64, slot: u32) {
        if self.buckets.is_empty() {
            return;
        }
        let bucket = self.bucket(key);
        let mut previous = NONE;
        let mut current = self.buckets[bucket];
        while current != NONE {
            let next = self.nodes[current as usize].next;
            if current == slot {
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

    /// All slots under `key`, the one entered last first.
    pub(crate) fn slots(&self, key: u64) -> impl Iterator<Item = u32> + '_ {
        let mut current = if self.buckets.is_empty() { NONE } else { self.buckets[self.bucket(key)] };
        core::iter::from_fn(move || {
            while current != NONE {
                let slot = current;
                let node = self.nodes[slot as usize];
                current = node.next;
                if node.key == key {
                    return Some(slot);
                }
            }
            None
        })
    }

    fn link(&mut self, key: u64, slot: u32) {
        let bucket = self.bucket(key);
        self.nodes[slot as usize] = Node { key, next: self.buckets[bucket] };
        self.buckets[bucket] = slot;
    }

    /// Multiplicative (Fibonacci) hashing: the top bits of the product depend on all bits of the key.
    fn bucket(&self, key: u64) -> usize {
        let bits = self.buckets.len().trailing_zeros();
        (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - bits)) as usize
    }

    fn grow(&mut self) {
        let size = (self.buckets.len() * 2).max(16);
        let old = core::mem::replace(&mut self.buckets, vec![NONE; size]);
        for first in old {
            let mut current = first;
            while current != NONE {
                let node = self.nodes[current as usize];
                self.link(node.key, current);
                current = node.next;
            }
        }
    }
}
