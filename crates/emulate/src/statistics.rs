//! Statistics of an emulated disk, and its fidelity to the model.

use std::fmt;

use block::{Nanos, Op};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::emulated::{DiskRequest, DueReply, ModelTally};

/// A reply counts as late if it is later than this share of its delay, and later than [`MAX_LATENESS`].
const LATE_SHARE: f64 = 0.05;

/// See [`LATE_SHARE`]. Smaller deviations are within the variation of a system call on a real disk.
const MAX_LATENESS: Nanos = Nanos::from_micros(50);

/// Share of late replies above which the machine is overloaded.
const OVERLOAD_SHARE: f64 = 0.01;

/// Minimum number of replies for a verdict.
const MIN_REPLIES: u64 = 50;

/// Statistics of replies.
#[derive(Debug)]
pub struct Statistics {
    wanted: Histogram<u64>,
    given: Histogram<u64>,
    lateness: Histogram<u64>,
    reads: u64,
    writes: u64,
    discards: u64,
    flushes: u64,
    bytes_read: u64,
    bytes_written: u64,
    failed: u64,
    late: u64,
    /// Replies and late replies at the last check for overload.
    checked: (u64, u64),
}

impl Default for Statistics {
    fn default() -> Statistics {
        Statistics::new()
    }
}

/// Replies since the last check, and how many of them were late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overload {
    /// Replies.
    pub replies: u64,
    /// Late replies.
    pub late: u64,
}

impl fmt::Display for Overload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = self.late as f64 / self.replies as f64 * 100.0;
        write!(
            f,
            "this machine is too busy to be faithful: {share:.1}% of {} replies were late by more than {:.0}% of the delay that the \
             disk wanted, and {} us",
            self.replies,
            LATE_SHARE * 100.0,
            MAX_LATENESS.0 / 1000
        )
    }
}

impl Statistics {
    /// Empty statistics.
    pub fn new() -> Statistics {
        // Up to an hour, with three digits: always valid.
        let empty =
            || Histogram::new_with_max(3_600_000_000_000, 3).unwrap_or_else(|_| unreachable!("bounds and digits are allowed"));
        Statistics {
            wanted: empty(),
            given: empty(),
            lateness: empty(),
            reads: 0,
            writes: 0,
            discards: 0,
            flushes: 0,
            bytes_read: 0,
            bytes_written: 0,
            failed: 0,
            late: 0,
            checked: (0, 0),
        }
    }

    /// Records a reply that left at wall time `sent`.
    pub fn replied<T>(&mut self, due: &DueReply<T>, sent: Nanos) {
        match due.request {
            DiskRequest::Flush => self.flushes += 1,
            DiskRequest::Sectors { op, sectors, .. } => {
                let bytes = u64::from(sectors) * 512;
                match op {
                    Op::Read => (self.reads, self.bytes_read) = (self.reads + 1, self.bytes_read + bytes),
                    Op::Write => (self.writes, self.bytes_written) = (self.writes + 1, self.bytes_written + bytes),
                    Op::Discard => self.discards += 1,
                }
            }
        }
        let lateness = sent - due.target;
        self.wanted.saturating_record(due.wanted.0);
        self.given.saturating_record((due.wanted + lateness).0);
        self.lateness.saturating_record(lateness.0);
        self.late += u64::from(lateness > MAX_LATENESS && lateness.0 as f64 > due.wanted.0 as f64 * LATE_SHARE);
    }

    /// Records a request that failed.
    pub fn failed(&mut self) {
        self.failed += 1;
    }

    /// Late replies since the last check if the machine was overloaded; `None` if it was not, or if there were too few replies to tell.
    pub fn check_overload(&mut self) -> Option<Overload> {
        let (replies, late) = (self.lateness.len() - self.checked.0, self.late - self.checked.1);
        if replies < MIN_REPLIES {
            return None;
        }
        self.checked = (self.lateness.len(), self.late);
        is_overloaded(replies, late).then_some(Overload { replies, late })
    }

    /// The statistics as a record. `scale` converts model time to wall time.
    pub fn record(&self, tally: ModelTally, wall: Nanos, scale: f64, in_flight: usize) -> Record {
        let seconds = |time: Nanos| time.as_secs_f64() / scale;
        let ratio = |part: Nanos| if tally.elapsed.0 == 0 { 0.0 } else { part.0 as f64 / tally.elapsed.0 as f64 };
        let service = if tally.completed == 0 { 0.0 } else { seconds(tally.busy) * 1000.0 / tally.completed as f64 };
        Record {
            seconds: wall.as_secs_f64(),
            scale,
            reads: self.reads,
            writes: self.writes,
            discards: self.discards,
            flushes: self.flushes,
            failed: self.failed,
            under_way: in_flight as u64,
            read_mb: self.bytes_read as f64 / 1e6,
            written_mb: self.bytes_written as f64 / 1e6,
            utilisation: ratio(tally.busy),
            mean_drive_queue: ratio(tally.in_device),
            mean_service_ms: service,
            waited_before_drive: tally.waited_before,
            wanted: Quantiles::of(&self.wanted),
            given: Quantiles::of(&self.given),
            lateness: Quantiles::of(&self.lateness),
            late: self.late,
            faithful: !is_overloaded(self.lateness.len(), self.late),
        }
    }
}

fn is_overloaded(replies: u64, late: u64) -> bool {
    replies >= MIN_REPLIES && late as f64 > replies as f64 * OVERLOAD_SHARE
}

/// Quantiles of a delay, in milliseconds.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Quantiles {
    /// The mean.
    pub mean_ms: f64,
    /// The median.
    pub p50_ms: f64,
    /// The 99th percentile.
    pub p99_ms: f64,
    /// The 99.9th percentile.
    pub p99_9_ms: f64,
    /// The maximum.
    pub max_ms: f64,
}

impl Quantiles {
    fn of(histogram: &Histogram<u64>) -> Quantiles {
        let quantile = |share| histogram.value_at_quantile(share) as f64 / 1e6;
        Quantiles {
            mean_ms: histogram.mean() / 1e6,
            p50_ms: quantile(0.5),
            p99_ms: quantile(0.99),
            p99_9_ms: quantile(0.999),
            max_ms: histogram.max() as f64 / 1e6,
        }
    }
}

/// Statistics of an emulated disk, in wall time.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Record {
    /// Age of the disk in seconds.
    pub seconds: f64,
    /// Speed relative to the model.
    pub scale: f64,
    /// Number of reads.
    pub reads: u64,
    /// Number of writes.
    pub writes: u64,
    /// Number of discards.
    pub discards: u64,
    /// Number of flushes of the write cache.
    pub flushes: u64,
    /// Requests that failed because of the backing.
    pub failed: u64,
    /// Requests in flight.
    pub under_way: u64,
    /// Bytes read, in whole sectors, in units of 10^6.
    pub read_mb: f64,
    /// Bytes written, in whole sectors, in units of 10^6.
    pub written_mb: f64,
    /// Share of time for which the drive was busy.
    pub utilisation: f64,
    /// Mean number of requests in the drive.
    pub mean_drive_queue: f64,
    /// Busy time of the drive per request, in milliseconds.
    pub mean_service_ms: f64,
    /// Requests that waited because the drive's queue was full.
    pub waited_before_drive: u64,
    /// The delay according to the model.
    pub wanted: Quantiles,
    /// The actual delay.
    pub given: Quantiles,
    /// How much later than their target replies left.
    pub lateness: Quantiles,
    /// Replies that were late by more than 5% of the delay, and 50 us.
    pub late: u64,
    /// Whether at most 1% of the replies were late.
    pub faithful: bool,
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Record { seconds, reads, writes, discards, flushes, read_mb, written_mb, .. } = self;
        writeln!(
            f,
            "{seconds:.1} s: {reads} reads ({read_mb:.1} MB), {writes} writes ({written_mb:.1} MB), {discards} discards, \
             {flushes} flushes, {} failed, {} under way",
            self.failed, self.under_way
        )?;
        writeln!(
            f,
            "drive: utilisation {:.1}%, mean queue {:.2}, mean service time {:.3} ms; {} requests found it full",
            self.utilisation * 100.0,
            self.mean_drive_queue,
            self.mean_service_ms,
            self.waited_before_drive
        )?;
        writeln!(f, "{:12} {:>10} {:>10} {:>10} {:>10} {:>10}", "delay, ms", "mean", "p50", "p99", "p99.9", "max")?;
        for (name, delay) in [("wanted", &self.wanted), ("given", &self.given), ("lateness", &self.lateness)] {
            let Quantiles { mean_ms, p50_ms, p99_ms, p99_9_ms, max_ms } = delay;
            writeln!(f, "{name:12} {mean_ms:>10.3} {p50_ms:>10.3} {p99_ms:>10.3} {p99_9_ms:>10.3} {max_ms:>10.3}")?;
        }
        let verdict = if self.faithful { "faithful" } else { "NOT faithful: this machine was too busy" };
        writeln!(
            f,
            "{} replies late by more than {:.0}% and {} us: {verdict}",
            self.late,
            LATE_SHARE * 100.0,
            MAX_LATENESS.0 / 1000
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(wanted: Nanos) -> DueReply<()> {
        DueReply {
            token: (),
            request: DiskRequest::Sectors { op: Op::Read, lba: 0, sectors: 8 },
            target: Nanos::from_millis(50),
            wanted,
        }
    }

    #[test]
    fn the_actual_delay_is_the_models_plus_the_lateness() {
        let mut statistics = Statistics::new();
        for late in [0, 10, 20] {
            statistics.replied(&due(Nanos::from_millis(1)), Nanos::from_millis(50) + Nanos::from_micros(late));
        }
        let record = statistics.record(ModelTally::default(), Nanos::from_millis(60), 1.0, 0);
        assert_eq!((record.reads, record.faithful), (3, true));
        assert!((record.given.p50_ms - 1.010).abs() < 0.002 && (record.lateness.max_ms - 0.020).abs() < 0.001, "{record}");
    }

    #[test]
    fn an_overload_is_reported_once_for_its_late_replies() {
        let mut statistics = Statistics::new();
        for reply in 0..100 {
            let late = if reply % 10 == 0 { Nanos::from_micros(200) } else { Nanos::ZERO };
            statistics.replied(&due(Nanos::from_millis(1)), Nanos::from_millis(50) + late);
        }
        assert_eq!(statistics.check_overload(), Some(Overload { replies: 100, late: 10 }));
        assert_eq!(statistics.check_overload(), None);
        // 200 us are less than 5% of 10 ms.
        statistics.replied(&due(Nanos::from_millis(10)), Nanos::from_millis(50) + Nanos::from_micros(200));
        assert!(!statistics.record(ModelTally::default(), Nanos::from_millis(60), 1.0, 0).faithful);
        assert_eq!(statistics.late, 10);
    }
}
