//! The set of sectors touched, in bounded memory.
//!
//! ```text
//!  adds ──▶ batch, as they come ──full──▶ sorted ──merged──▶ pieces, sorted, that neither overlap nor touch
//!
//!  exact:    [4..12) [40..48) [49..56)   too many pieces: round outward to 64 sectors
//!  coarse:   [0..64)                     fewer pieces, and an upper bound
//! ```
//! A search tree would take a walk through memory for every request; sorting a batch and merging it take a few steps for each.

/// Pieces kept: 24 MB.
const PIECES: usize = 1 << 20;
/// Ranges collected before they are merged into the pieces.
const BATCH: usize = 1 << 16;

/// A range of grains on a device: from the first to before the last number.
type Piece = (u32, u64, u64);

/// A set of sectors on several devices.
#[derive(Debug)]
pub(super) struct Footprint {
    /// Sorted; they neither overlap nor touch.
    pieces: Vec<Piece>,
    /// Ranges to be merged into the pieces.
    batch: Vec<Piece>,
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
        Footprint { pieces: Vec::new(), batch: Vec::new(), limit, shift: 0 }
    }

    /// Adds the sectors from `start` to before `end`.
    pub(super) fn add(&mut self, device: u32, start: u64, end: u64) {
        if start >= end {
            return;
        }
        let (start, end) = (start >> self.shift, ((end - 1) >> self.shift) + 1);
        match self.batch.last_mut() {
            // A sequential stream is one range.
            Some((same, first, until)) if *same == device && (*first..=*until).contains(&start) => *until = end.max(*until),
            _ => self.batch.push((device, start, end)),
        }
        if self.batch.len() >= BATCH.min(self.limit) {
            self.settle();
        }
    }

    /// Merges the batch into the pieces, and coarsens them if there are too many.
    pub(super) fn settle(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        self.batch.sort_unstable();
        merge(&mut self.pieces, &mut self.batch);
        while self.pieces.len() > self.limit && self.shift < 63 {
            self.coarsen();
        }
    }

    /// The number of sectors in it; an upper bound if the granularity is more than one. Call [`settle`](Footprint::settle) before.
    pub(super) fn sectors(&self) -> u64 {
        let grains = self.pieces.iter().fold(0, |sum: u64, (_, start, end)| sum.saturating_add(end - start));
        grains.saturating_mul(self.granularity_sectors())
    }

    /// The unit that ranges are rounded outward to, in sectors.
    pub(super) fn granularity_sectors(&self) -> u64 {
        1 << self.shift
    }

    /// Makes the grains eight times as large.
    fn coarsen(&mut self) {
        let before = self.shift;
        self.shift = (self.shift + 3).min(63);
        for (_, start, end) in &mut self.pieces {
            (*start, *end) = (*start >> (self.shift - before), ((*end - 1) >> (self.shift - before)) + 1);
        }
        join(&mut self.pieces);
    }
}

/// Merges a sorted batch into sorted pieces, from the back, in place; the batch is empty then.
fn merge(pieces: &mut Vec<Piece>, batch: &mut Vec<Piece>) {
    let mut left = pieces.len();
    pieces.resize(left + batch.len(), (0, 0, 0));
    let mut place = pieces.len();
    while let Some(&last) = batch.last() {
        place -= 1;
        pieces[place] = if left > 0 && pieces[left - 1] > last {
            left -= 1;
            pieces[left]
        } else {
            batch.pop();
            last
        };
    }
    join(pieces);
}

/// Joins sorted pieces that overlap or touch.
fn join(pieces: &mut Vec<Piece>) {
    pieces.dedup_by(|next, kept| {
        let joins = next.0 == kept.0 && next.1 <= kept.2;
        if joins {
            kept.2 = kept.2.max(next.2);
        }
        joins
    });
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn counts_the_same_as_a_set_of_single_sectors(adds in prop::collection::vec((0..3u32, 0..200u64, 1..20u64), 1..200)) {
            let mut footprint = Footprint::default();
            let mut model = BTreeSet::new();
            for (device, start, count) in adds {
                footprint.add(device, start, start + count);
                model.extend((start..start + count).map(|sector| (device, sector)));
                // Merging at any time gives the same.
                if start % 3 == 0 {
                    continue;
                }
                footprint.settle();
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
                prop_assert!(footprint.pieces.len() + footprint.batch.len() <= 64);
                footprint.settle();
                exact.settle();
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
        footprint.settle();
        assert_eq!(footprint.sectors(), u64::MAX, "a bound that does not overflow");
    }
}
