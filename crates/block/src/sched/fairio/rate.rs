//! Disk time provided by the device per unit of time: less than its number of disks if tenants have few requests, and more than 1 for flash
//! with several units.

use crate::Nanos;

/// Length of the memory, in spans.
const MEMORY: f64 = 16.0;
/// Length of the memory for lower rates, in spans in which tenants were held back.
const HELD_MEMORY: f64 = 256.0;
/// Minimum rate: if a cache serves almost all requests, the wait for a cycle stays bounded.
const LEAST_RATE: f64 = 0.1;
/// Minimum length of a span, as completions come in bursts.
const SPAN: u64 = 50_000_000;

/// The mean disk time per unit of time while no tenant is held back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rate {
    rate: f64,
    spans: f64,
    since: Nanos,
    /// Start of the device's idle time, which is excluded from spans; `None` while it is busy.
    idle_since: Option<Nanos>,
    done: u64,
    is_held: bool,
}

impl Rate {
    /// Before the first span, all disks are assumed to be busy.
    pub(super) fn new(disks: u32) -> Rate {
        Rate { rate: f64::from(disks), spans: 0.0, since: Nanos::ZERO, idle_since: Some(Nanos::ZERO), done: 0, is_held: false }
    }

    /// Records a dispatch.
    pub(super) fn begin(&mut self, now: Nanos) {
        if let Some(since) = self.idle_since.take() {
            self.since += now - since;
        }
    }

    /// Records that no more requests are in flight.
    pub(super) fn end(&mut self, now: Nanos) {
        self.idle_since.get_or_insert(now);
    }

    /// Adds the disk time of a completed request.
    pub(super) fn add(&mut self, took: u64) {
        self.done = self.done.saturating_add(took);
    }

    /// Ends a span if it is long enough. `is_held`: tenants were held back in it, so the device may have worked less than usual.
    pub(super) fn end_span(&mut self, now: Nanos, is_held: bool) {
        let elapsed = (self.idle_since.unwrap_or(now) - self.since).0;
        self.is_held |= is_held;
        if elapsed < SPAN {
            return;
        }
        let rate = self.done as f64 / elapsed as f64;
        if !self.is_held || rate > self.rate {
            self.spans = (self.spans + 1.0).min(MEMORY);
            self.rate += (rate - self.rate) / self.spans;
        } else {
            self.rate += (rate - self.rate) / HELD_MEMORY;
        }
        (self.since, self.done, self.is_held) = (self.idle_since.unwrap_or(now), 0, false);
    }

    /// Disk time that the device provides in a time span; both in nanoseconds.
    pub(super) fn work_in(&self, time: u64) -> u64 {
        (self.rate * time as f64) as u64
    }

    /// Time that the device needs for a disk time; both in nanoseconds.
    pub(super) fn time_for(&self, work: u64) -> u64 {
        (work as f64 / self.rate.max(LEAST_RATE)) as u64
    }
}
