//! Response-time histograms per stream since the store was opened, for metrics.

use std::collections::BTreeMap;

use block::{Nanos, StreamId};

use super::work::Kind;

/// Upper bounds of the histogram buckets in microseconds: from flash to an overloaded disk, two to three per power of ten.
pub const CLASSES_US: [u64; 17] = [
    50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000,
    10_000_000,
];

/// Response-time histogram of a stream's requests of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Requests per bucket, not cumulative; the last entry counts those above all bounds.
    pub counts: [u64; CLASSES_US.len() + 1],
    /// Sum of the response times.
    pub sum: Nanos,
}

/// Response times of a stream: reads, writes, and everything else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Reads.
    pub reads: Times,
    /// Writes; durable ones include their flush.
    pub writes: Times,
    /// Flushes, trims and zeroes.
    pub others: Times,
}

/// Totals by stream.
pub(super) type ByStream = BTreeMap<StreamId, Totals>;

impl Totals {
    /// Records a completed request.
    pub(super) fn record(&mut self, kind: Kind, took: Nanos) {
        let times = match kind {
            Kind::Read => &mut self.reads,
            Kind::Write => &mut self.writes,
            Kind::Trim | Kind::Zero | Kind::Flush => &mut self.others,
        };
        times.counts[CLASSES_US.partition_point(|bound| 1000 * bound < took.0)] += 1;
        times.sum += took;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_time_counts_in_the_class_that_it_does_not_exceed() {
        let mut totals = Totals::default();
        for took in [1, 50_000, 50_001, 10_000_000_000, 10_000_000_001] {
            totals.record(Kind::Read, Nanos(took));
        }
        totals.record(Kind::Flush, Nanos(1));
        let counts = totals.reads.counts;
        assert_eq!((counts[0], counts[1], counts[16], counts[17]), (2, 1, 1, 1));
        assert_eq!((totals.reads.sum, totals.writes, totals.others.counts[0]), (Nanos(20_000_100_003), Times::default(), 1));
    }
}
