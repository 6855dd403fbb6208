//! Throughput and response times per stream in the last whole second.

use std::collections::BTreeMap;

use block::{Nanos, StreamId};
use hdrhistogram::Histogram;

use super::work::Kind;

/// Period of the statistics.
const PERIOD: Nanos = Nanos::from_millis(1_000);

/// Longer response times are recorded as this: two minutes.
const LONGEST_US: u64 = 120_000_000;

/// Service of a stream in one second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Served {
    /// Completed requests, as the client issued them, before splitting and merging.
    pub requests: u64,
    /// Bytes read and written.
    pub bytes: u64,
    /// Median response time in milliseconds, from the arrival at the store to the reply.
    pub p50_ms: f64,
    /// 99th percentile of the response time, in milliseconds.
    pub p99_ms: f64,
}

/// Samples of a stream in the current second.
struct Current {
    times_us: Histogram<u32>,
    bytes: u64,
}

/// The current second and the last complete one, by stream.
#[derive(Default)]
pub(super) struct Recent {
    current: BTreeMap<StreamId, Current>,
    last: BTreeMap<StreamId, Served>,
    begun: Nanos,
}

impl Recent {
    /// Records a completed request.
    pub(super) fn record(&mut self, now: Nanos, stream: StreamId, kind: Kind, bytes: u64, took: Nanos) {
        self.turn(now);
        let current = self.current.entry(stream).or_insert_with(|| {
            // Within 1%; three significant digits would take eight times the memory.
            #[expect(clippy::expect_used, reason = "the bounds are the crate's own")]
            let times_us = Histogram::new_with_bounds(1, LONGEST_US, 2).expect("bounds");
            Current { times_us, bytes: 0 }
        });
        current.times_us.saturating_record((took.0 / 1000).max(1));
        if matches!(kind, Kind::Read | Kind::Write) {
            current.bytes += bytes;
        }
    }

    /// Service of each stream in the last whole second; without streams that completed nothing.
    pub(super) fn last(&mut self, now: Nanos) -> &BTreeMap<StreamId, Served> {
        self.turn(now);
        &self.last
    }

    /// Starts a new second if the current one is over.
    fn turn(&mut self, now: Nanos) {
        if now < self.begun + PERIOD {
            return;
        }
        let is_next = now < self.begun + PERIOD + PERIOD;
        self.last.clear();
        for (stream, current) in &mut self.current {
            // Otherwise a whole second without samples lies between.
            if is_next && !current.times_us.is_empty() {
                let ms = |quantile: f64| current.times_us.value_at_quantile(quantile) as f64 / 1000.0;
                let served = Served { requests: current.times_us.len(), bytes: current.bytes, p50_ms: ms(0.5), p99_ms: ms(0.99) };
                self.last.insert(*stream, served);
            }
            current.times_us.reset();
            current.bytes = 0;
        }
        self.begun = Nanos(now.0 - now.0 % PERIOD.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_whole_second_is_reported_and_a_silent_one_is_empty() {
        let mut recent = Recent::default();
        for number in 0..100_u64 {
            recent.record(Nanos::from_millis(number * 9), 7, Kind::Read, 4096, Nanos::from_millis(1 + number / 90));
        }
        assert!(recent.last(Nanos::from_millis(950)).is_empty(), "the second runs");
        let served = recent.last(Nanos::from_millis(1_200))[&7];
        assert_eq!((served.requests, served.bytes), (100, 409_600));
        assert!((served.p50_ms - 1.0).abs() < 0.02 && (served.p99_ms - 2.0).abs() < 0.04, "{served:?}");
        assert!(recent.last(Nanos::from_millis(2_100)).is_empty());
        recent.record(Nanos::from_millis(2_200), 8, Kind::Flush, 0, Nanos::from_millis(3));
        assert!(recent.last(Nanos::from_millis(5_000)).is_empty(), "seconds lie between");
    }
}
