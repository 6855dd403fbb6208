//! Parts of a volume: those that were written during a move and not copied yet, and those that were trimmed.

use std::collections::BTreeMap;

use crate::catalog::EXTENT_BYTES;

/// Granularity in bytes: a small write causes little extra copying, and an extent has 1,024 granules.
pub(crate) const GRANULE: u64 = 64 << 10;
const WORDS: usize = (EXTENT_BYTES / GRANULE / 64) as usize;

/// A set of granules of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Granules {
    /// Bitmap of the granules in the set, by place of the extent.
    extents: BTreeMap<u32, Box<[u64; WORDS]>>,
    granules: u64,
}

/// A range within an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chunk {
    /// Place of the extent in the volume.
    pub place: u32,
    /// Offset within the extent in bytes.
    pub offset: u64,
    pub bytes: u64,
}

impl Granules {
    /// Marks the granules that a range of the volume touches.
    pub(crate) fn mark(&mut self, offset: u64, bytes: u64) {
        if bytes == 0 {
            return;
        }
        for granule in offset / GRANULE..=(offset + bytes - 1) / GRANULE {
            let (place, bit) = (granule * GRANULE / EXTENT_BYTES, granule % (EXTENT_BYTES / GRANULE));
            let words = self.extents.entry(place as u32).or_insert_with(|| Box::new([0; WORDS]));
            let (word, mask) = (&mut words[bit as usize / 64], 1_u64 << (bit % 64));
            self.granules += u64::from(*word & mask == 0);
            *word |= mask;
        }
    }

    /// Marks the granules that lie within a range.
    pub(crate) fn mark_inside(&mut self, offset: u64, bytes: u64) {
        let (begin, end) = (offset.next_multiple_of(GRANULE), (offset + bytes) / GRANULE * GRANULE);
        self.mark(begin, end.saturating_sub(begin));
    }

    /// Removes the granules that a range touches.
    pub(crate) fn unmark(&mut self, offset: u64, bytes: u64) {
        if bytes == 0 {
            return;
        }
        for granule in offset / GRANULE..=(offset + bytes - 1) / GRANULE {
            let (place, bit) = (granule * GRANULE / EXTENT_BYTES, granule % (EXTENT_BYTES / GRANULE));
            let Some(words) = self.extents.get_mut(&(place as u32)) else { continue };
            let (word, mask) = (&mut words[bit as usize / 64], 1_u64 << (bit % 64));
            self.granules -= u64::from(*word & mask != 0);
            *word &= !mask;
        }
    }

    /// Whether the granule of an offset is in the set.
    pub(crate) fn contains(&self, offset: u64) -> bool {
        let bit = (offset % EXTENT_BYTES / GRANULE) as usize;
        let words = self.extents.get(&((offset / EXTENT_BYTES) as u32));
        words.is_some_and(|words| words[bit / 64] & 1 << (bit % 64) != 0)
    }

    /// Places of extents that are in the set as a whole.
    pub(crate) fn whole(&self) -> Vec<u32> {
        let whole = self.extents.iter().filter(|(_, words)| words.iter().all(|word| *word == u64::MAX));
        whole.map(|(place, _)| *place).collect()
    }

    /// Removes an extent.
    pub(crate) fn forget(&mut self, place: u32) {
        if let Some(words) = self.extents.remove(&place) {
            self.granules -= words.iter().map(|word| u64::from(word.count_ones())).sum::<u64>();
        }
    }

    /// Marks a whole extent.
    pub(crate) fn mark_extent(&mut self, place: u32) {
        self.mark(u64::from(place) * EXTENT_BYTES, EXTENT_BYTES);
    }

    /// Adds another set.
    pub(crate) fn merge(&mut self, other: &Granules) {
        for (place, words) in &other.extents {
            let own = self.extents.entry(*place).or_insert_with(|| Box::new([0; WORDS]));
            for (own, word) in own.iter_mut().zip(words.iter()) {
                self.granules += u64::from((*word & !*own).count_ones());
                *own |= word;
            }
        }
    }

    /// Size of the set in bytes, in whole granules.
    pub(crate) fn bytes(&self) -> u64 {
        self.granules * GRANULE
    }

    /// The set in ascending order, as ranges of at most `most` bytes, which is a multiple of the granule.
    pub(crate) fn chunks(&self, most: u64) -> impl Iterator<Item = Chunk> {
        let most = most.max(GRANULE);
        self.extents.iter().flat_map(move |(place, words)| {
            let is_set = move |bit: u64| words[bit as usize / 64] & (1 << (bit % 64)) != 0;
            let bits = EXTENT_BYTES / GRANULE;
            let mut at = 0;
            std::iter::from_fn(move || {
                let begin = (at..bits).find(|bit| is_set(*bit))?;
                let end = (begin..bits).take((most / GRANULE) as usize).find(|bit| !is_set(*bit));
                at = end.unwrap_or((begin + most / GRANULE).min(bits));
                Some(Chunk { place: *place, offset: begin * GRANULE, bytes: (at - begin) * GRANULE })
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extent_is_whole_when_all_of_it_is_trimmed_and_nothing_written_since() {
        let mut set = Granules::default();
        set.mark_inside(EXTENT_BYTES - 1, GRANULE + 1);
        assert_eq!((set.bytes(), set.contains(EXTENT_BYTES), set.contains(EXTENT_BYTES - 1)), (GRANULE, true, false));
        set.mark_inside(EXTENT_BYTES + GRANULE, EXTENT_BYTES);
        assert_eq!(set.whole(), [1]);
        set.unmark(2 * EXTENT_BYTES - 1, 2);
        assert_eq!((set.whole(), set.contains(2 * EXTENT_BYTES)), (vec![], false));
        set.mark_inside(2 * EXTENT_BYTES - GRANULE, GRANULE);
        assert_eq!(set.whole(), [1]);
        set.forget(1);
        assert_eq!((set.whole(), set.bytes()), (vec![], 0));
    }

    /// Every written granule is in exactly one chunk.
    #[test]
    fn chunks_are_the_granules_that_were_written() {
        let mut state = 7_u64;
        let mut below = |most: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % most
        };
        for round in 0..200 {
            let (mut dirty, mut other) = (Granules::default(), Granules::default());
            let mut wanted = std::collections::BTreeSet::new();
            for number in 0..below(20) {
                let (offset, bytes) = (below(3 * EXTENT_BYTES), below(2 << 20));
                if number % 3 == 0 { &mut other } else { &mut dirty }.mark(offset, bytes);
                if bytes > 0 {
                    wanted.extend(offset / GRANULE..=(offset + bytes - 1) / GRANULE);
                }
            }
            dirty.merge(&other);
            let most = 1 + below(20);
            let mut found = Vec::new();
            for chunk in dirty.chunks(most * GRANULE) {
                assert!(chunk.bytes > 0 && chunk.bytes <= most * GRANULE && chunk.offset + chunk.bytes <= EXTENT_BYTES);
                let begin = (u64::from(chunk.place) * EXTENT_BYTES + chunk.offset) / GRANULE;
                found.extend(begin..begin + chunk.bytes / GRANULE);
            }
            assert_eq!(found.len() as u64 * GRANULE, dirty.bytes(), "round {round}");
            assert_eq!(found, wanted.into_iter().collect::<Vec<_>>(), "round {round}");
        }
    }
}
