//! A map for lookups on every request: values by key in insertion order, found through a hash index whose order is the same on every
//! machine.

use alloc::vec::Vec;

use crate::hash_index::HashIndex;
use crate::scramble::scramble;

/// A key.
pub trait Key: Copy + Eq {
    /// A number that most likely differs for different keys.
    fn number(self) -> u64;
}

impl Key for u32 {
    fn number(self) -> u64 {
        self.into()
    }
}

/// A range of a device.
impl Key for (u32, u64) {
    fn number(self) -> u64 {
        self.1 ^ scramble(self.0.into())
    }
}

/// Values by key.
#[derive(Clone, Debug)]
pub struct Keyed<K, V> {
    entries: Vec<(K, V)>,
    index: HashIndex,
    /// The entry found last, which is often looked up again.
    last: usize,
}

impl<K, V> Default for Keyed<K, V> {
    fn default() -> Keyed<K, V> {
        Keyed { entries: Vec::new(), index: HashIndex::default(), last: 0 }
    }
}

impl<K: Key, V> Keyed<K, V> {
    /// Number of keys.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// All entries, in insertion order.
    pub fn iter(&self) -> impl Iterator<Item = (K, &V)> {
        self.entries.iter().map(|(key, value)| (*key, value))
    }

    /// The value of a key, inserted with the default if it is new; `None` if it is new and there are `limit` keys.
    #[inline]
    pub fn entry(&mut self, key: K, limit: usize) -> Option<&mut V>
    where
        V: Default,
    {
        let at = match self.find(key) {
            Some(at) => at,
            None if self.entries.len() < limit.min(u32::MAX as usize) => self.insert(key),
            None => return None,
        };
        Some(&mut self.entries[at].1)
    }

    #[inline]
    fn find(&mut self, key: K) -> Option<usize> {
        if self.entries.get(self.last).is_none_or(|(last, _)| *last != key) {
            self.last = self.index.get(key.number()).map(|at| at as usize).find(|&at| self.entries[at].0 == key)?;
        }
        Some(self.last)
    }

    fn insert(&mut self, key: K) -> usize
    where
        V: Default,
    {
        self.last = self.entries.len();
        self.index.insert(key.number(), self.last as u32);
        self.entries.push((key, V::default()));
        self.last
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(crate::cases::cases(64))]

        #[test]
        fn it_holds_the_same_as_a_map(keys in prop::collection::vec((0..3u32, 0..40u64), 0..300), limit in 1..60usize) {
            let (mut keyed, mut model) = (Keyed::<(u32, u64), u64>::default(), BTreeMap::new());
            for key in keys {
                if model.len() < limit || model.contains_key(&key) {
                    *model.entry(key).or_insert(0) += 1;
                }
                if let Some(count) = keyed.entry(key, limit) {
                    *count += 1;
                }
                prop_assert_eq!(keyed.entry(key, 0).copied(), model.get(&key).copied());
            }
            prop_assert_eq!(keyed.iter().map(|(key, &count)| (key, count)).collect::<BTreeMap<_, _>>(), model);
        }
    }
}
