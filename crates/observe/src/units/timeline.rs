//! Whose requests the device completed, and when: the time between two completions belongs to the later one's unit.
//!
//! ```text
//! completions    a     b   b      a         time ─▶      runs: a │ bb │ a │ …     every 64th run with the totals of all units before it
//! belongs to  aaa bbbbbbbbb aaaaaa
//! ```
//! The time that each unit had since any moment is the difference of two totals, corrected by at most 64 runs.

use std::collections::VecDeque;

use block::Nanos;

/// Runs between two snapshots of the totals: walking through them takes about as long as subtracting the totals of 50 units.
const RUNS_PER_BLOCK: usize = 64;
/// Snapshots that are kept. With 16,384 runs the record reaches back for three seconds at least where a device completes 5,000 requests a
/// second, and by as much longer as a unit completes several in a row.
const BLOCKS: usize = 256;

/// Time that belongs to one unit.
#[derive(Clone, Copy, Debug)]
struct Run {
    end: Nanos,
    slot: u16,
}

/// The totals of all slots when a block of runs began.
#[derive(Clone, Debug)]
struct Block {
    began: Nanos,
    totals: Vec<u64>,
}

/// The record of the device's time.
#[derive(Clone, Debug)]
pub(super) struct Timeline {
    runs: VecDeque<Run>,
    blocks: VecDeque<Block>,
    /// Snapshots to be used again, so that none is allocated in the long run.
    spare: Vec<Vec<u64>>,
    /// Number of the first run that is kept, counted from the beginning.
    first: u64,
    /// Nanoseconds that belong to each slot.
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

    /// Up to when it is known whose time it was; 0 before anything is.
    pub(super) fn end(&self) -> Nanos {
        self.end
    }

    /// Number of the first run that is kept.
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// Number of the latest run.
    pub(super) fn last(&self) -> u64 {
        (self.first + self.runs.len() as u64).saturating_sub(1)
    }

    /// The record begins here.
    pub(super) fn begin(&mut self, at: Nanos) {
        self.end = at;
    }

    /// The time up to `until` belongs to a slot.
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

    /// Forgets the oldest block; `false`: there is only the latest one, which stays.
    pub(super) fn forget_oldest(&mut self) -> bool {
        if self.blocks.len() < 2 {
            return false;
        }
        self.forget_block();
        true
    }

    /// Forgets what ended before this time, in whole blocks; the latest one stays.
    pub(super) fn forget_before(&mut self, at: Nanos) {
        while self.blocks.get(1).is_some_and(|second| second.began < at) {
            self.forget_block();
        }
    }

    /// Adds the time since `from` to `out` by slots. What is not in the record any more is added to slot 0. `out` is as long as the highest
    /// slot that was ever pushed, at least.
    pub(super) fn add_since(&self, from: Nanos, out: &mut [u64]) {
        if from >= self.end {
            return;
        }
        // First among the blocks: runs are too many to be in the processor's cache.
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
        // Less what was between the snapshot and `from`: it was just added, so no sum becomes negative.
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
