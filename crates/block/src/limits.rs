//! Limits of operations and bytes per second, like `io.max` of Linux's cgroups (`Documentation/admin-guide/cgroup-v2.rst`).
//!
//! ```text
//! next allowed   |--cost of A--|----cost of B----|
//!                A             B                 the next one; later if it arrives later
//! ```
//! A request may go once its predecessors are paid for, whatever its own size: its cost delays the next. Unused allowance is lost. Linux
//! grants an allowance for a slice of 100 ms and passes small requests in a burst (`block/blk-throttle.c`); here they are spaced, so that
//! any window holds at most the limit plus one request.

use core::num::NonZeroU64;

use crate::{Nanos, Op, Request, Tenant};

/// A tenant's limits, and the earliest time of its next request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Throttle {
    iops: Option<NonZeroU64>,
    bytes_per_s: Option<NonZeroU64>,
    next_allowed_at: Nanos,
}

impl Throttle {
    /// The limits of a tenant; none without a tenant.
    pub fn for_tenant(tenant: Option<&Tenant>) -> Throttle {
        let (iops, bytes_per_s) = tenant.map_or((None, None), |tenant| (tenant.limit_iops, tenant.limit_bytes_per_s));
        Throttle { iops, bytes_per_s, next_allowed_at: Nanos::ZERO }
    }

    /// The earliest time at which the next request may go.
    pub fn next_allowed_at(&self) -> Nanos {
        self.next_allowed_at
    }

    /// Charges a request that goes now.
    pub fn charge(&mut self, now: Nanos, request: &Request) {
        let operation = self.iops.map_or(0, |rate| span(1, rate));
        let bytes = if request.op == Op::Discard { 0 } else { 512 * u64::from(request.sectors) };
        let bytes = self.bytes_per_s.map_or(0, |rate| span(bytes, rate));
        self.next_allowed_at = now.max(self.next_allowed_at) + Nanos(operation.max(bytes));
    }
}

/// Time for `amount` at `rate` per second, in nanoseconds.
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
        let mut throttle = Throttle::for_tenant(Some(&limited));
        let passed = [1, 8, 20, 1].map(|sectors| {
            let at = throttle.next_allowed_at();
            throttle.charge(at, &read(sectors));
            at.0 / 1_000_000
        });
        assert_eq!(passed, [0, 10, 20, 40], "a hundred a second, and twenty sectors in 20 ms");
    }

    #[test]
    fn unused_allowance_is_lost() {
        let mut throttle = Throttle::for_tenant(Some(&Tenant { limit_iops: NonZeroU64::new(10), ..Tenant::new("a") }));
        throttle.charge(Nanos::from_millis(5_000), &read(8));
        assert_eq!(throttle.next_allowed_at(), Nanos::from_millis(5_100));
        assert_eq!(Throttle::for_tenant(None).next_allowed_at(), Nanos::ZERO);
    }
}
