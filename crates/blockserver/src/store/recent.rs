//! Throughput and response times per stream in the last whole second.

use std::collections::BTreeMap;

use block::rates::UNIT_BYTES;
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
    /// Response time in milliseconds that at most 1% of the requests exceeded, and in any case one.
    pub tail_ms: f64,
    /// Reads and writes, of which a large one counts as several: see [`UNIT_BYTES`](block::rates::UNIT_BYTES).
    pub units: u64,
    /// Time for which a read or write was outstanding.
    pub busy: Nanos,
    /// Number of the second since the store was opened.
    pub second: u64,
}

/// Samples of a stream in the current second.
struct Current {
    times_us: Histogram<u32>,
    bytes: u64,
    units: u64,
    /// Reads and writes that are outstanding, and since when there are any in this second.
    open: u32,
    since: Nanos,
    busy: Nanos,
}

impl Current {
    fn new() -> Current {
        // Within 1%; three significant digits would take eight times the memory.
        #[expect(clippy::expect_used, reason = "the bounds are the crate's own")]
        let times_us = Histogram::new_with_bounds(1, LONGEST_US, 2).expect("bounds");
        Current { times_us, bytes: 0, units: 0, open: 0, since: Nanos::ZERO, busy: Nanos::ZERO }
    }

    /// Ends a second, and returns its service; `None` if the stream was idle.
    fn turn(&mut self, begun: Nanos, second: u64) -> Option<Served> {
        let end = begun + PERIOD;
        if self.open > 0 {
            self.busy += end - self.since;
            self.since = end;
        }
        let requests = self.times_us.len();
        let is_idle = requests == 0 && self.busy == Nanos::ZERO;
        let ms = |quantile: f64| self.times_us.value_at_quantile(quantile) as f64 / 1000.0;
        let tail = 1.0 - 0.01_f64.max(1.0 / requests.max(1) as f64);
        let (p50_ms, p99_ms, tail_ms) = if requests == 0 { (0.0, 0.0, 0.0) } else { (ms(0.5), ms(0.99), ms(tail)) };
        let (bytes, units, busy) = (self.bytes, self.units, self.busy);
        self.times_us.reset();
        (self.bytes, self.units, self.busy) = (0, 0, Nanos::ZERO);
        (!is_idle).then_some(Served { requests, bytes, p50_ms, p99_ms, tail_ms, units, busy, second })
    }
}

/// The current second and the last complete one, by stream.
#[derive(Default)]
pub(super) struct Recent {
    current: BTreeMap<StreamId, Current>,
    last: BTreeMap<StreamId, Served>,
    begun: Nanos,
}

impl Recent {
    /// Whether the current second has ended.
    pub(super) fn is_over(&self, now: Nanos) -> bool {
        now >= self.begun + PERIOD
    }

    /// Records the arrival of a request.
    pub(super) fn arrived(&mut self, now: Nanos, stream: StreamId, kind: Kind) {
        if !matches!(kind, Kind::Read | Kind::Write) {
            return;
        }
        self.turn(now);
        let current = self.current.entry(stream).or_insert_with(Current::new);
        if current.open == 0 {
            current.since = now;
        }
        current.open += 1;
    }

    /// Records a completed request, which has [`arrived`](Recent::arrived).
    pub(super) fn record(&mut self, now: Nanos, stream: StreamId, kind: Kind, bytes: u64, took: Nanos) {
        self.turn(now);
        let current = self.current.entry(stream).or_insert_with(Current::new);
        current.times_us.saturating_record((took.0 / 1000).max(1));
        if matches!(kind, Kind::Read | Kind::Write) {
            current.bytes += bytes;
            current.units += bytes.div_ceil(UNIT_BYTES.get()).max(1);
            current.open = current.open.saturating_sub(1);
            if current.open == 0 {
                current.busy += now - current.since;
            }
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
        // Seconds without any event lie between; in them requests may have been outstanding.
        while now >= self.begun + PERIOD {
            let second = self.begun.0 / PERIOD.0;
            let served = self.current.iter_mut().filter_map(|(stream, current)| Some((*stream, current.turn(self.begun, second)?)));
            self.last = served.collect();
            self.begun += PERIOD;
            // Nothing but idle streams: the rest is alike.
            if self.last.is_empty() {
                self.begun = Nanos(now.0 - now.0 % PERIOD.0);
            }
        }
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

    #[test]
    fn the_time_with_requests_outstanding_is_known_also_in_seconds_without_an_event() {
        let mut recent = Recent::default();
        recent.arrived(Nanos::from_millis(100), 7, Kind::Write);
        recent.arrived(Nanos::from_millis(200), 7, Kind::Write);
        recent.arrived(Nanos::from_millis(200), 7, Kind::Flush);
        recent.record(Nanos::from_millis(300), 7, Kind::Write, 1 << 20, Nanos::from_millis(200));
        let at = |recent: &mut Recent, ms: u64| recent.last(Nanos::from_millis(ms)).get(&7).copied().unwrap_or_default();
        let first = at(&mut recent, 1_000);
        assert_eq!((first.busy, first.units, first.requests, first.second), (Nanos::from_millis(900), 4, 1, 0));
        let later = at(&mut recent, 4_500);
        assert_eq!((later.busy, later.requests, later.second), (Nanos::from_millis(1_000), 0, 3));
        recent.record(Nanos::from_millis(4_700), 7, Kind::Write, 4096, Nanos::from_millis(4_500));
        assert_eq!(at(&mut recent, 5_000).busy, Nanos::from_millis(700));
        assert_eq!(at(&mut recent, 6_000), Served::default());
    }
}
