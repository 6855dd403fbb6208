//! Rate limits: a device whose operations or bytes per second are capped, such as a cloud volume.
//!
//! ```text
//!          submit        tokens?                      advance
//!  host ─────┬──────────────────────────────────────────▲────
//!            ▼                                          │
//!      [ queue, first come first served ] ──▶ inner device
//!            ▲
//!      [ bucket ] [ bucket ]   a request takes its tokens from each as it passes
//! ```
//!
//! A bucket earns tokens at its rate up to its size. A request passes when there is at least one token (an operation, or the bytes
//! of a sector) in every bucket, and takes its whole cost: a large request leaves a debt for those behind it. QEMU's throttling
//! charges a request so, after it has passed (`util/throttle.c`). A limit without a burst is a bucket of one token; with one, a
//! bucket of credits that is full at the beginning, and one of a single token that bounds the burst, as AWS describes the I/O
//! credits of EBS gp2 volumes ("Amazon EBS volume types": I/O credits and burst performance).
//!
//! Tokens are counted in 10^-12, so that rates in thousandths refill a whole number of them in each nanosecond: nothing is rounded,
//! and nothing drifts. A flush is not limited: providers count reads and writes, and the writes it covers have already passed.

pub mod spec;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use block::{Nanos, Op, Request, RequestId};

use self::spec::LimitsSpecification;
use super::{Completion, Device, FlashTally};

/// Units of a token.
const TOKEN: i128 = 1_000_000_000_000;

/// Limits that were checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits(LimitsSpecification);

/// Tokens for operations or for bytes.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// It counts bytes, otherwise operations.
    of_bytes: bool,
    /// Parts of tokens earned in a nanosecond, that is thousandths of tokens in a second.
    rate: i128,
    size: i128,
    /// Level required for a request to pass.
    least: i128,
    level: i128,
    /// The time of `level`.
    at: u64,
}

impl Bucket {
    fn new(of_bytes: bool, rate: f64, size: f64) -> Bucket {
        let least = TOKEN * if of_bytes { 512 } else { 1 };
        let size = least.max((size * 1e3).round() as i128 * (TOKEN / 1_000));
        Bucket { of_bytes, rate: ((rate * 1e3).round() as i128).max(1), size, least, level: size, at: 0 }
    }

    /// Adds the tokens earned until `now`, up to its size.
    fn refill(&mut self, now: u64) {
        self.level = self.size.min(self.level + self.rate * i128::from(now - self.at));
        self.at = now;
    }

    /// The earliest time at which a request may pass.
    fn passes_at(&self) -> u64 {
        let lacking = self.least - self.level;
        if lacking <= 0 {
            return self.at;
        }
        let wait = (lacking + self.rate - 1) / self.rate;
        self.at.saturating_add(u64::try_from(wait).unwrap_or(u64::MAX))
    }

    /// Takes the cost of a request that passes at `now`.
    fn take(&mut self, now: u64, tokens: u64) {
        // It passes in the first whole nanosecond behind its token. Tokens earned in the rest of that nanosecond may exceed the
        // size, or times would drift.
        let most = self.size + self.rate - 1;
        self.level = most.min(self.level + self.rate * i128::from(now - self.at)) - i128::from(tokens) * TOKEN;
        self.at = now;
    }
}

/// Computes when requests pass the limits.
#[derive(Clone, Debug)]
pub struct Limiter {
    buckets: Vec<Bucket>,
    /// Sectors up to which a request is one operation.
    operation: u32,
    /// When the last one passed.
    last: u64,
}

impl Limiter {
    /// With all credits.
    pub fn new(Limits(spec): &Limits) -> Limiter {
        let mut buckets = Vec::new();
        let mut add = |of_bytes: bool, scale: f64, rate: Option<f64>, burst: Option<f64>, credits: Option<f64>| {
            let Some(rate) = rate else { return };
            buckets.push(Bucket::new(of_bytes, rate * scale, credits.unwrap_or(0.0) * scale));
            buckets.extend(burst.map(|burst| Bucket::new(of_bytes, burst * scale, 0.0)));
        };
        add(false, 1.0, spec.operations_per_second, spec.burst_operations_per_second, spec.burst_operations);
        add(true, 1e6, spec.mb_s, spec.burst_mb_s, spec.burst_mb);
        Limiter { buckets, operation: spec.operation_kib.map_or(u32::MAX, |kib| 2 * kib), last: 0 }
    }

    /// The time at which a request that arrives at `now` passes, after all earlier ones.
    pub fn pass(&mut self, now: Nanos, request: &Request) -> Nanos {
        let from = now.0.max(self.last);
        self.last = from;
        for bucket in &mut self.buckets {
            bucket.refill(from);
            self.last = self.last.max(bucket.passes_at());
        }
        let (operations, bytes) = match request.op {
            Op::Discard => (1, 0),
            _ => (request.sectors.div_ceil(self.operation).max(1), 512 * u64::from(request.sectors)),
        };
        for bucket in &mut self.buckets {
            bucket.take(self.last, if bucket.of_bytes { bytes } else { u64::from(operations) });
        }
        Nanos(self.last)
    }
}

/// A device behind limits.
pub struct Limited {
    inner: Box<dyn Device>,
    limiter: Limiter,
    /// Each with the time at which it passes.
    waiting: VecDeque<(Nanos, Request)>,
    /// Completions not yet reported to the host.
    ready: Vec<Completion>,
    /// Busy time up to `until`, and that of the inner device. A waiting request keeps the device busy, as seen by a host.
    busy: Nanos,
    inner_busy: Nanos,
    until: Nanos,
}

impl Limited {
    /// At rest, with all credits.
    pub fn new(inner: Box<dyn Device>, limits: &Limits) -> Limited {
        let depth = inner.queue_depth();
        Limited {
            inner,
            limiter: Limiter::new(limits),
            waiting: VecDeque::with_capacity(depth),
            ready: Vec::with_capacity(depth),
            busy: Nanos::ZERO,
            inner_busy: Nanos::ZERO,
            until: Nanos::ZERO,
        }
    }

    /// Processes all events up to `now`.
    fn catch_up(&mut self, now: Nanos) {
        while let Some((at, request)) = self.waiting.front().copied().filter(|(at, _)| *at <= now) {
            self.advance_inner(at);
            self.waiting.pop_front();
            self.inner.submit(at, &request);
        }
        self.advance_inner(now);
    }

    /// Advances the inner device to `now`; no request passes the limits meanwhile.
    fn advance_inner(&mut self, now: Nanos) {
        self.inner.advance(now, &mut self.ready);
        let inner_busy = self.inner.busy();
        self.busy += if self.waiting.is_empty() { inner_busy - self.inner_busy } else { now - self.until };
        (self.inner_busy, self.until) = (inner_busy, now);
    }
}

impl Device for Limited {
    fn capacity_sectors(&self) -> u64 {
        self.inner.capacity_sectors()
    }

    fn queue_depth(&self) -> usize {
        self.inner.queue_depth()
    }

    fn is_rotational(&self) -> bool {
        self.inner.is_rotational()
    }

    fn has_write_cache(&self) -> bool {
        self.inner.has_write_cache()
    }

    fn submit(&mut self, now: Nanos, request: &Request) {
        self.catch_up(now);
        match self.limiter.pass(now, request) {
            at if at > now => self.waiting.push_back((at, *request)),
            _ => self.inner.submit(now, request),
        }
    }

    fn flush(&mut self, now: Nanos, id: RequestId) -> bool {
        self.catch_up(now);
        self.inner.flush(now, id)
    }

    fn time_to_reach(&mut self, now: Nanos, request: &Request) -> Option<Nanos> {
        self.inner.time_to_reach(now, request)
    }

    fn wake_at(&self) -> Option<Nanos> {
        let passes = self.waiting.front().map(|(at, _)| *at);
        let ready = self.ready.first().map(|completion| completion.at);
        [ready, passes, self.inner.wake_at()].into_iter().flatten().min()
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        self.catch_up(now);
        done.append(&mut self.ready);
    }

    fn busy(&self) -> Nanos {
        self.busy
    }

    fn flash(&self) -> Option<FlashTally> {
        self.inner.flash()
    }
}
