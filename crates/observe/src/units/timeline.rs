//! The units whose requests the device completed over time: the time between two completions belongs to the later one's unit.
//!
//! ```text
//! completions    a     b   b      a         time ─▶      runs: a │ bb │ a │ …     every 64th run with the totals of all units before it
//! belongs to  aaa bbbbbbbbb aaaaaa
//! ```
//! The time of each unit since any moment is the difference of two totals, corrected by at most 64 runs.

use std::collections::VecDeque;

use block::Nanos;

/// Number of runs between two snapshots of the totals: iterating over them takes about as long as subtracting the totals of 50 units.
/// Choice: more lengthen the iteration, fewer cost memory; not varied.
const RUNS_PER_BLOCK: usize = 64;
/// Maximum number of snapshots. With 16,384 runs the record covers at least three seconds of a device with 5,000 completions per
/// second, and more if units have several completions in a row. Choice: more cost memory, fewer forget the beginning of long waits;
/// not varied.
const BLOCKS: usize = 256;

/// A span of time that belongs to one unit.
#[derive(Clone, Copy, Debug)]
struct Run {
    end: Nanos,
    slot: u16,
}

/// The totals of all slots at the beginning of a block of runs.
#[derive(Clone, Debug)]
struct Block {
    began: Nanos,
    totals: Vec<u64>,
}

/// The record of the device's time by unit.
#[derive(Clone, Debug)]
pub(super) struct Timeline {
    runs: VecDeque<Run>,
    blocks: VecDeque<Block>,
    /// Snapshots for reuse, which avoids allocation in the long run.
    spare: Vec<Vec<u64>>,
    /// Number of the first run in the record, counted from the beginning.
    first: u64,
    /// Total nanoseconds of each slot.
    totals: Vec<u64>,
    end: Nanos,
    most_blocks: usize,
}

impl Timeline {
    pub(super) fn new() -> Timeline {
        Timeline::with_blocks(BLOCKS)
    }

    pub(super) fn with_blocks(most_blocks: usize) -> Timeline {
        Timeline {
            runs: VecDeque::new(),
            blocks: VecDeque::new(),
            spare: Vec::new(),
            first: 0,
            totals: Vec::new(),
            end: Nanos::ZERO,
            most_blocks,
        }
    }

    /// The end of the record; 0 if it is empty.
    pub(super) fn end(&self) -> Nanos {
        self.end
    }

    /// Number of the first run in the record.
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// Number of the latest run.
    pub(super) fn last(&self) -> u64 {
        (self.first + self.runs.len() as u64).saturating_sub(1)
    }

    /// Sets the beginning of the record.
    pub(super) fn begin(&mut self, at: Nanos) {
        self.end = at;
    }

    /// Assigns the time up to `until` to a slot.
    pub(super) fn push(&mut self, slot: u16, until: Nanos) {
        if until <= self.end {
            return;
        }
        let place = usize::from(slot);
        if self.totals.len() <= place {
            self.totals.resize(place + 1, 0);
        }
        match self.runs.back_mut() {
            Some(last) if last.slot == slot => last.end = until,
            _ => {
                if self.runs.len().is_multiple_of(RUNS_PER_BLOCK) {
                    self.begin_block();
                }
                self.runs.push_back(Run { end: until, slot });
            }
        }
        self.totals[place] += (until - self.end).0;
        self.end = until;
    }

    fn begin_block(&mut self) {
        if self.blocks.len() >= self.most_blocks {
            self.forget_block();
        }
        let mut totals = self.spare.pop().unwrap_or_default();
        totals.clear();
        totals.extend_from_slice(&self.totals);
        self.blocks.push_back(Block { began: self.end, totals });
    }

    fn forget_block(&mut self) {
        if let Some(block) = self.blocks.pop_front() {
            self.spare.push(block.totals);
            let runs = RUNS_PER_BLOCK.min(self.runs.len());
            self.runs.drain(..runs);
            self.first += runs as u64;
        }
    }

    /// Drops the oldest block; false if there is only one, which is kept.
    pub(super) fn forget_oldest(&mut self) -> bool {
        if self.blocks.len() < 2 {
            return false;
        }
        self.forget_block();
        true
    }

    /// Drops whole blocks that ended before this time, except the latest.
    pub(super) fn forget_before(&mut self, at: Nanos) {
        while self.blocks.get(1).is_some_and(|second| second.began < at) {
            self.forget_block();
        }
    }

    /// Adds the time since `from` to `out` by slot. Time before the record is added to slot 0. `out` must have an element for the highest
    /// slot that was ever pushed.
    pub(super) fn add_since(&self, from: Nanos, out: &mut [u64]) {
        if from >= self.end {
            return;
        }
        // Search blocks first: the runs do not fit in the processor's cache.
        let Some(number) = self.blocks.partition_point(|block| block.began <= from).checked_sub(1) else {
            let began = self.blocks.front().map_or(self.end, |block| block.began);
            out[0] += (began - from).0;
            return self.add_since(began, out);
        };
        let first = number * RUNS_PER_BLOCK;
        let mut runs = self.runs.range(first..(first + RUNS_PER_BLOCK).min(self.runs.len()));
        let Block { began, totals } = &self.blocks[number];
        let mut start = *began;
        let (known, later) = self.totals.split_at(totals.len());
        for ((sum, total), before) in out.iter_mut().zip(known).zip(totals) {
            *sum += total - before;
        }
        for (sum, total) in out[known.len()..].iter_mut().zip(later) {
            *sum += total;
        }
        // Subtract the time between the snapshot and `from`: it was just added, so no sum becomes negative.
        while let Some(run) = runs.next().filter(|_| start < from) {
            let end = run.end.min(from);
            out[usize::from(run.slot)] -= (end - start).0;
            start = end;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_time_since_any_moment_is_that_of_the_runs_since_then(
            pushed in prop::collection::vec((0_u16..5, 0_u64..50), 1..1_000),
            from in 0_u64..30_000,
        ) {
            let mut timeline = Timeline::with_blocks(4);
            let (mut at, mut owners) = (0, Vec::new());
            for (slot, length) in pushed {
                at += length;
                owners.extend((0..length).map(|_| slot));
                timeline.push(slot, Nanos(at));
            }
            let began = timeline.blocks.front().map_or(at, |block| block.began.0);
            let mut expected = [0; 5];
            for (moment, owner) in (0..).zip(owners).filter(|(moment, _)| *moment >= from) {
                expected[if moment < began { 0 } else { usize::from(owner) }] += 1;
            }
            let mut since = [0; 5];
            timeline.add_since(Nanos(from), &mut since);
            prop_assert_eq!(since, expected);
            prop_assert!(timeline.blocks.len() <= 4 && timeline.runs.len() <= 4 * RUNS_PER_BLOCK);
        }
    }

    #[test]
    fn what_is_old_is_forgotten_and_the_time_before_it_is_of_no_unit() {
        let mut timeline = Timeline::new();
        (1..=1_000).for_each(|number| timeline.push(1 + (number % 2) as u16, Nanos(10 * number)));
        timeline.forget_before(Nanos(5_000));
        assert_eq!((timeline.first(), timeline.last()), (448, 999));
        let mut since = [0; 3];
        timeline.add_since(Nanos::ZERO, &mut since);
        assert_eq!(since, [4_480, 2_760, 2_760]);
    }
}
