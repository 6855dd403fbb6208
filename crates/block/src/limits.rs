//! Limits of operations and bytes a second, as `io.max` of Linux's cgroups sets them (`Documentation/admin-guide/cgroup-v2.rst`).
//!
//! ```text
//! passes at      |--cost of A--|----cost of B----|
//!                A             B                 the next one; later if it comes later
//! ```
//! A request may go when the ones before it have been paid for, however large it is itself: it leaves a debt to the next. What was not used
//! is lost. Linux earns for as long as a slice of 100 ms lasts and lets small requests through in a burst (`block/blk-throttle.c`); here
//! they are spaced, so that no window of any length holds more than the limit and one request.

use core::num::NonZeroU64;

use crate::{Nanos, Op, Request, Tenant};

/// A tenant's limits, and when the next request may pass them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Throttle {
    iops: Option<NonZeroU64>,
    bytes_per_s: Option<NonZeroU64>,
    passes_at: Nanos,
}

impl Throttle {
    /// With what a tenant may have at most; without a tenant, without limits.
    pub fn of(tenant: Option<&Tenant>) -> Throttle {
        let (iops, bytes_per_s) = tenant.map_or((None, None), |tenant| (tenant.limit_iops, tenant.limit_bytes_per_s));
        Throttle { iops, bytes_per_s, passes_at: Nanos::ZERO }
    }

    /// When the next request may go, at the earliest.
    pub fn passes_at(&self) -> Nanos {
        self.passes_at
    }

    /// A request goes now.
    pub fn pass(&mut self, now: Nanos, request: &Request) {
        let operation = self.iops.map_or(0, |rate| span(1, rate));
        let bytes = if request.op == Op::Discard { 0 } else { 512 * u64::from(request.sectors) };
        let bytes = self.bytes_per_s.map_or(0, |rate| span(bytes, rate));
        self.passes_at = now.max(self.passes_at) + Nanos(operation.max(bytes));
    }
}

/// How long so much takes at a rate per second, in nanoseconds.
fn span(amount: u64, rate: NonZeroU64) -> u64 {
    let span = (u128::from(amount) * 1_000_000_000).div_ceil(u128::from(rate.get()));
    u64::try_from(span).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Priority;

    fn read(sectors: u32) -> Request {
        let (op, priority) = (Op::Read, Priority::DEFAULT);
        Request { id: 0, stream: 0, op, sync: true, priority, sectors, lba: 0, arrival: Nanos::ZERO }
    }

    #[test]
    fn the_slower_of_both_limits_spaces_requests() {
        let limited = Tenant { limit_iops: NonZeroU64::new(100), limit_bytes_per_s: NonZeroU64::new(512_000), ..Tenant::new("a") };
        let mut throttle = Throttle::of(Some(&limited));
        let passed = [1, 8, 20, 1].map(|sectors| {
            let at = throttle.passes_at();
            throttle.pass(at, &read(sectors));
            at.0 / 1_000_000
        });
        assert_eq!(passed, [0, 10, 20, 40], "a hundred a second, and twenty sectors in 20 ms");
    }

    #[test]
    fn what_was_not_used_is_lost() {
        let mut throttle = Throttle::of(Some(&Tenant { limit_iops: NonZeroU64::new(10), ..Tenant::new("a") }));
        throttle.pass(Nanos::from_millis(5_000), &read(8));
        assert_eq!(throttle.passes_at(), Nanos::from_millis(5_100));
        assert_eq!(Throttle::of(None).passes_at(), Nanos::ZERO);
    }
}
