//! The set of sectors touched, in bounded memory.
//!
//! ```text
//!  exact:    [4..12) [40..48) [49..56)   too many pieces: round outward to 64 sectors
//!  coarse:   [0..64)                     fewer pieces, and an upper bound
//! ```

use std::collections::BTreeMap;

/// Pieces kept; with the tree's overhead about 60 MB.
const PIECES: usize = 1 << 20;

/// A set of sectors on several devices.
#[derive(Debug)]
pub(super) struct Footprint {
    /// Pieces that neither overlap nor touch: (device, first grain) to the first grain behind.
    pieces: BTreeMap<(u32, u64), u64>,
    limit: usize,
    /// A grain is 2 to this sectors.
    shift: u32,
}

impl Default for Footprint {
    fn default() -> Footprint {
        Footprint::with_limit(PIECES)
    }
}

impl Footprint {
    fn with_limit(limit: usize) -> Footprint {
        Footprint { pieces: BTreeMap::new(), limit, shift: 0 }
    }

    /// Adds the sectors from `start` to before `end`.
    pub(super) fn add(&mut self, device: u32, start: u64, end: u64) {
        if start < end {
            self.insert(device, start >> self.shift, ((end - 1) >> self.shift) + 1);
        }
        while self.pieces.len() > self.limit && self.shift < 63 {
            self.coarsen();
        }
    }

    /// The number of sectors in it; an upper bound if the granularity is more than one.
    pub(super) fn sectors(&self) -> u64 {
        let grains = self.pieces.iter().fold(0, |sum: u64, (&(_, start), &end)| sum.saturating_add(end - start));
        grains.saturating_mul(self.granularity_sectors())
    }

    /// The unit that ranges are rounded outward to, in sectors.
    pub(super) fn granularity_sectors(&self) -> u64 {
        1 << self.shift
    }

    /// Inserts grains, merging the pieces they overlap or touch.
    fn insert(&mut self, device: u32, mut start: u64, mut end: u64) {
        if let Some((&(_, before), &until)) = self.pieces.range((device, 0)..=(device, start)).next_back()
            && until >= start
        {
            if until >= end {
                return;
            }
            start = before;
        }
        while let Some((&key, &until)) = self.pieces.range((device, start)..=(device, end)).next() {
            end = end.max(until);
            self.pieces.remove(&key);
        }
        self.pieces.insert((device, start), end);
    }

    /// Makes the grains eight times as large.
    fn coarsen(&mut self) {
        self.shift = (self.shift + 3).min(63);
        for ((device, start), end) in std::mem::take(&mut self.pieces) {
            self.insert(device, start >> 3, ((end - 1) >> 3) + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn counts_what_a_set_of_single_sectors_counts(adds in prop::collection::vec((0..3u32, 0..200u64, 1..20u64), 1..200)) {
            let mut footprint = Footprint::default();
            let mut model = BTreeSet::new();
            for (device, start, count) in adds {
                footprint.add(device, start, start + count);
                model.extend((start..start + count).map(|sector| (device, sector)));
                prop_assert_eq!(footprint.sectors(), model.len() as u64);
            }
            prop_assert_eq!(footprint.granularity_sectors(), 1);
        }

        #[test]
        fn is_an_upper_bound_in_bounded_memory(adds in prop::collection::vec((0..3u32, 0..1u64 << 40, 1..2000u64), 1..400)) {
            let mut footprint = Footprint::with_limit(32);
            let mut exact = Footprint::default();
            for (device, start, count) in adds {
                footprint.add(device, start, start + count);
                exact.add(device, start, start + count);
                prop_assert!(footprint.pieces.len() <= 32);
                prop_assert!(footprint.sectors() >= exact.sectors());
            }
        }
    }

    #[test]
    fn takes_the_last_sector_there_is() {
        let mut footprint = Footprint::with_limit(1);
        footprint.add(0, u64::MAX - 1, u64::MAX);
        footprint.add(0, 0, 1);
        assert_eq!(footprint.sectors(), u64::MAX, "a bound that does not overflow");
    }
}
