//! What an emulated disk did, and how true it was to its model.

use std::fmt;

use block::{Nanos, Op};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::emulated::{Ask, Due, ModelTally};

/// A reply that is later than this share of the delay that was wanted, and than [`MOST_LATE`], is unfaithful.
const LATE_SHARE: f64 = 0.05;

/// See [`LATE_SHARE`]. Shorter delays of a reply are within what a system call on a real disk differs by.
const MOST_LATE: Nanos = Nanos::from_micros(50);

/// A machine that makes more than one in a hundred replies unfaithful is too busy.
const UNFAITHFUL_SHARE: f64 = 0.01;

/// Fewer replies say nothing about the machine.
const LEAST_REPLIES: u64 = 50;

/// Collects, reply by reply.
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
    unfaithful: u64,
    /// `requests` and `unfaithful` when it was last asked whether the machine keeps up.
    asked: (u64, u64),
}

impl Default for Statistics {
    fn default() -> Statistics {
        Statistics::new()
    }
}

/// Replies and how many of them were unfaithful.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy {
    /// Replies.
    pub replies: u64,
    /// How many of them were late.
    pub late: u64,
}

impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = self.late as f64 / self.replies as f64 * 100.0;
        write!(
            f,
            "this machine is too busy to be faithful: {share:.1}% of {} replies were late by more than {:.0}% of the delay that the \
             disk wanted, and {} us",
            self.replies,
            LATE_SHARE * 100.0,
            MOST_LATE.0 / 1000
        )
    }
}

impl Statistics {
    /// Nothing has happened.
    pub fn new() -> Statistics {
        // Up to an hour, with three digits: such histograms always exist.
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
            unfaithful: 0,
            asked: (0, 0),
        }
    }

    /// Counts a reply that left at wall time `sent`.
    pub fn replied<T>(&mut self, due: &Due<T>, sent: Nanos) {
        match due.ask {
            Ask::Flush => self.flushes += 1,
            Ask::Sectors { op, sectors, .. } => {
                let bytes = u64::from(sectors) * 512;
                match op {
                    Op::Read => (self.reads, self.bytes_read) = (self.reads + 1, self.bytes_read + bytes),
                    Op::Write => (self.writes, self.bytes_written) = (self.writes + 1, self.bytes_written + bytes),
                    Op::Discard => self.discards += 1,
                }
            }
        }
        let late = sent - due.target;
        self.wanted.saturating_record(due.wanted.0);
        self.given.saturating_record((due.wanted + late).0);
        self.lateness.saturating_record(late.0);
        self.unfaithful += u64::from(late > MOST_LATE && late.0 as f64 > due.wanted.0 as f64 * LATE_SHARE);
    }

    /// Counts a request that failed.
    pub fn failed(&mut self) {
        self.failed += 1;
    }

    /// Whether the machine was too busy since this was last asked.
    pub fn too_busy(&mut self) -> Option<Busy> {
        let (replies, late) = (self.lateness.len() - self.asked.0, self.unfaithful - self.asked.1);
        if replies < LEAST_REPLIES {
            return None;
        }
        self.asked = (self.lateness.len(), self.unfaithful);
        is_too_busy(replies, late).then_some(Busy { replies, late })
    }

    /// All of it as a record. `scale` turns the model's times into times of the wall.
    pub fn record(&self, tally: ModelTally, wall: Nanos, scale: f64, under_way: usize) -> Record {
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
            under_way: under_way as u64,
            read_mb: self.bytes_read as f64 / 1e6,
            written_mb: self.bytes_written as f64 / 1e6,
            utilisation: ratio(tally.busy),
            mean_drive_queue: ratio(tally.in_device),
            mean_service_ms: service,
            waited_before_drive: tally.waited_before,
            wanted: Quantiles::of(&self.wanted),
            given: Quantiles::of(&self.given),
            lateness: Quantiles::of(&self.lateness),
            late: self.unfaithful,
            faithful: !is_too_busy(self.lateness.len(), self.unfaithful),
        }
    }
}

fn is_too_busy(replies: u64, late: u64) -> bool {
    replies >= LEAST_REPLIES && late as f64 > replies as f64 * UNFAITHFUL_SHARE
}

/// Quantiles of a delay, in milliseconds.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Quantiles {
    /// The mean.
    pub mean_ms: f64,
    /// Half are shorter.
    pub p50_ms: f64,
    /// 99 of 100 are shorter.
    pub p99_ms: f64,
    /// 999 of 1,000 are shorter.
    pub p99_9_ms: f64,
    /// The longest.
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

/// What an emulated disk did. Times are of the wall clock.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Record {
    /// Since the disk exists.
    pub seconds: f64,
    /// How many times as fast as its model.
    pub scale: f64,
    /// Requests.
    pub reads: u64,
    /// Requests.
    pub writes: u64,
    /// Requests.
    pub discards: u64,
    /// Requests to empty the write cache.
    pub flushes: u64,
    /// Requests that failed, because the backing did.
    pub failed: u64,
    /// Requests that have no reply yet.
    pub under_way: u64,
    /// 10^6 bytes, whole sectors.
    pub read_mb: f64,
    /// 10^6 bytes, whole sectors.
    pub written_mb: f64,
    /// Share of the time that the drive was at work.
    pub utilisation: f64,
    /// Requests in the drive on average.
    pub mean_drive_queue: f64,
    /// Busy time of the drive for each request.
    pub mean_service_ms: f64,
    /// Requests that found the drive's queue full.
    pub waited_before_drive: u64,
    /// The delay that the model wanted.
    pub wanted: Quantiles,
    /// The delay that was given.
    pub given: Quantiles,
    /// By how much replies were later than they should have been.
    pub lateness: Quantiles,
    /// Replies that were late by more than 5% of the delay wanted, and 50 us.
    pub late: u64,
    /// Not more than 1% of the replies were.
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
        writeln!(f, "{} replies late by more than {:.0}% and {} us: {verdict}", self.late, LATE_SHARE * 100.0, MOST_LATE.0 / 1000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(wanted: Nanos) -> Due<()> {
        Due { token: (), ask: Ask::Sectors { op: Op::Read, lba: 0, sectors: 8 }, target: Nanos::from_millis(50), wanted }
    }

    #[test]
    fn what_was_given_is_what_was_wanted_and_the_lateness() {
        let mut statistics = Statistics::new();
        for late in [0, 10, 20] {
            statistics.replied(&due(Nanos::from_millis(1)), Nanos::from_millis(50) + Nanos::from_micros(late));
        }
        let record = statistics.record(ModelTally::default(), Nanos::from_millis(60), 1.0, 0);
        assert_eq!((record.reads, record.faithful), (3, true));
        assert!((record.given.p50_ms - 1.010).abs() < 0.002 && (record.lateness.max_ms - 0.020).abs() < 0.001, "{record}");
    }

    #[test]
    fn a_busy_machine_is_noticed_once_for_the_replies_it_made_late() {
        let mut statistics = Statistics::new();
        for reply in 0..100 {
            let late = if reply % 10 == 0 { Nanos::from_micros(200) } else { Nanos::ZERO };
            statistics.replied(&due(Nanos::from_millis(1)), Nanos::from_millis(50) + late);
        }
        assert_eq!(statistics.too_busy(), Some(Busy { replies: 100, late: 10 }));
        assert_eq!(statistics.too_busy(), None);
        // 200 us are less than 5% of 10 ms.
        statistics.replied(&due(Nanos::from_millis(10)), Nanos::from_millis(50) + Nanos::from_micros(200));
        assert!(!statistics.record(ModelTally::default(), Nanos::from_millis(60), 1.0, 0).faithful);
        assert_eq!(statistics.unfaithful, 10);
    }
}
