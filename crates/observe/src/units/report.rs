//! Results of units in an interval.

use std::cmp::Reverse;

use block::Nanos;

use super::{MAX_OUTSTANDING, UnitId};
use crate::window::Quantiles;

/// Accumulates requests of one kind.
#[derive(Clone, Debug, Default)]
pub(super) struct Responses {
    requests: u64,
    bytes: u64,
    /// Allocated on first use: most units have no requests of some kinds, and it takes 18 KB.
    times: Option<Quantiles>,
}

impl Responses {
    pub(super) fn add(&mut self, bytes: u64, response: Nanos) {
        self.requests += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        self.times.get_or_insert_with(|| Quantiles::new(MAX_OUTSTANDING.0, 2)).add(response.0);
    }

    /// Returns the results and begins the next interval.
    pub(super) fn take(&mut self) -> Group {
        let quantile = |share| {
            let value = self.times.as_ref().filter(|_| self.requests > 0).map(|times| times.quantile(share));
            value.map(|value| Nanos(value as u64))
        };
        let group = Group { requests: self.requests, bytes: self.bytes, p50: quantile(0.5), p99: quantile(0.99) };
        if self.requests > 0 {
            self.times.iter_mut().for_each(Quantiles::clear);
        }
        (self.requests, self.bytes) = (0, 0);
        group
    }
}

/// Requests of one kind that completed in an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// Number of requests.
    pub requests: u64,
    /// Bytes transferred.
    pub bytes: u64,
    /// Median of their response times, to 1 percent; `None` without requests.
    pub p50: Option<Nanos>,
    /// 99th percentile of their response times, to 1 percent, at most five minutes; `None` without requests.
    pub p99: Option<Nanos>,
}

/// Results of a unit in an interval.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// The unit; `None` for all in excess of the [maximum](super::MOST_UNITS).
    pub unit: Option<UnitId>,
    /// Its reads.
    pub reads: Group,
    /// Its writes.
    pub writes: Group,
    /// Writes among these for which a process waits: direct ones, and those of fsync.
    pub sync_writes: Group,
    /// Flushes of the write cache on its behalf, as by fsync.
    pub flushes: Group,
    /// Number of discards.
    pub others: u64,
    /// Sum of the response times of all these.
    pub waited: Nanos,
    /// That waiting time by the unit behind whose requests it waited, including itself, the largest first. The sum is `waited`. `None`: behind
    /// no known unit, or before the record began.
    pub behind: Vec<(Option<UnitId>, Nanos)>,
}

impl Row {
    /// Number of completed reads, writes and discards.
    pub fn requests(&self) -> u64 {
        self.reads.requests + self.writes.requests + self.others
    }

    /// The other unit behind which it waited longest, and the share of its waiting time; `None` if it waited only for itself.
    pub fn neighbour(&self) -> Option<(Option<UnitId>, f64)> {
        let (unit, waited) = self.behind.iter().find(|(unit, _)| *unit != self.unit)?;
        Some((*unit, waited.0 as f64 / self.waited.0.max(1) as f64))
    }
}

/// Results of all units in an interval.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// When it began.
    pub from: Nanos,
    /// When it ended.
    pub to: Nanos,
    /// Units with completions, those that waited longest first.
    pub rows: Vec<Row>,
}

impl Report {
    /// Sorts the rows, and the waiting times of each.
    pub(super) fn sort(&mut self) {
        for row in &mut self.rows {
            row.behind.sort_by_key(|(unit, waited)| (Reverse(*waited), *unit));
        }
        self.rows.sort_by_key(|row| (Reverse(row.waited), row.unit));
    }

    /// A quantity per second; 0 for an interval without length.
    pub fn per_second(&self, quantity: u64) -> f64 {
        let seconds = (self.to - self.from).as_secs_f64();
        if seconds > 0.0 { quantity as f64 / seconds } else { 0.0 }
    }

    /// Mean number of outstanding requests of a unit: the sum of its response times divided by the interval.
    pub fn wait(&self, row: &Row) -> f64 {
        self.per_second(row.waited.0) / 1e9
    }

    /// Charges the data transferred by one unit, and others' waiting behind it, to other units by these shares, whose sum must be at most 1. Its
    /// own waiting and response times are unchanged. For requests that the kernel issues on behalf of others, such as write-back.
    pub fn charge(&mut self, from: UnitId, shares: &[(UnitId, f64)]) {
        let part = |of: u64, share: f64| (of as f64 * share.clamp(0.0, 1.0)) as u64;
        let Some(sent) = self.rows.iter().find(|row| row.unit == Some(from)) else { return };
        let (read, written) = (sent.reads.bytes, sent.writes.bytes);
        for (unit, share) in shares.iter().filter(|(unit, _)| *unit != from) {
            if self.rows.iter().all(|row| row.unit != Some(*unit)) {
                self.rows.push(Row { unit: Some(*unit), ..Row::default() });
            }
            let (read, written) = (part(read, *share), part(written, *share));
            for row in &mut self.rows {
                if row.unit == Some(from) {
                    row.reads.bytes = row.reads.bytes.saturating_sub(read);
                    row.writes.bytes = row.writes.bytes.saturating_sub(written);
                } else if row.unit == Some(*unit) {
                    row.reads.bytes += read;
                    row.writes.bytes += written;
                }
            }
        }
        for row in self.rows.iter_mut().filter(|row| row.unit != Some(from)) {
            let Some(place) = row.behind.iter().position(|(unit, _)| *unit == Some(from)) else { continue };
            let waited = row.behind[place].1.0;
            for (unit, share) in shares.iter().filter(|(unit, _)| *unit != from) {
                let moved = part(waited, *share).min(row.behind[place].1.0);
                row.behind[place].1 = Nanos(row.behind[place].1.0 - moved);
                match row.behind.iter_mut().find(|(other, _)| *other == Some(*unit)) {
                    Some((_, sum)) => *sum += Nanos(moved),
                    None => row.behind.push((Some(*unit), Nanos(moved))),
                }
            }
            row.behind.retain(|(_, waited)| waited.0 > 0);
        }
        self.sort();
    }
}
