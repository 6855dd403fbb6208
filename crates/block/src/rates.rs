//! Rates of a tenant: its reservation and limits, in requests and in bytes per second.
//!
//! ```text
//! paid until   |--cost of A--|----cost of B----|
//!              A             B                 the next one; later if it arrives later
//! ```
//! A request may be dispatched once its predecessors are paid for, regardless of its own size: its cost delays the next one. That is a token
//! bucket in the form of the generic cell rate algorithm (ITU-T I.371, annex A). Costs are kept in whole nanoseconds and fractions of the
//! rate, so that rounding errors do not accumulate.
//!
//! A large request counts as several: one for each [`Rates::unit_bytes`] or part of it, as at cloud providers (256 KiB: AWS, "Amazon EBS
//! volume types") and in QEMU (`iops-size`, `docs/throttle.txt`). A discard counts as one request without bytes. A request is charged at
//! dispatch, after merging.

use core::num::NonZeroU64;

use crate::{Nanos, Request};

/// A second in nanoseconds.
const SECOND: u64 = 1_000_000_000;
/// A sector in bytes.
const SECTOR: u64 = 512;
/// Bytes that count as one request by default: 256 KiB, the I/O size of AWS EBS volumes on SSDs.
pub const UNIT_BYTES: NonZeroU64 = NonZeroU64::MIN.saturating_add((256 << 10) - 1);

/// Requests and bytes per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rate {
    /// Requests per second; `None`: unlimited.
    pub iops: Option<NonZeroU64>,
    /// Bytes per second; `None`: unlimited.
    pub bytes_per_s: Option<NonZeroU64>,
}

impl Rate {
    /// A rate in requests per second; 0 is unlimited.
    pub const fn iops(iops: u64) -> Rate {
        Rate { iops: NonZeroU64::new(iops), bytes_per_s: None }
    }

    /// A rate in bytes per second; 0 is unlimited.
    pub const fn bytes_per_s(bytes: u64) -> Rate {
        Rate { iops: None, bytes_per_s: NonZeroU64::new(bytes) }
    }

    /// Whether neither requests nor bytes are limited.
    pub const fn is_none(&self) -> bool {
        self.iops.is_none() && self.bytes_per_s.is_none()
    }
}

/// The rates of a tenant. By default there is no reservation and no limit.
///
/// ```
/// use block::rates::{Limiter, Rate, Rates};
/// use block::{Nanos, Op, Priority, Request};
///
/// let rates = Rates { limit: Rate::iops(100), ..Rates::default() };
/// let mut limiter = Limiter::new(&rates).unwrap();
/// let (op, priority) = (Op::Read, Priority::DEFAULT);
/// let read = Request { id: 1, stream: 1, op, sync: true, priority, sectors: 2048, lba: 0, arrival: Nanos::ZERO };
/// assert_eq!(limiter.ready_at(Nanos::ZERO, &read), Nanos::ZERO);
/// limiter.charge(Nanos::ZERO, &read);
/// assert_eq!(limiter.ready_at(Nanos::ZERO, &read), Nanos::from_millis(40), "1 MiB counts as four requests");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// Minimum rate, while the tenant requests as much.
    pub reservation: Rate,
    /// Maximum rate, even on an idle disk.
    pub limit: Rate,
    /// Maximum rate of reads.
    pub read_limit: Rate,
    /// Maximum rate of writes and discards.
    pub write_limit: Rate,
    /// Length of unused limit that can be saved up; `None`: one unit of each limit, so that a short wait for the disk wastes nothing.
    pub burst: Option<Nanos>,
    /// Bytes that count as one request; a larger request counts as several.
    pub unit_bytes: NonZeroU64,
}

impl Default for Rates {
    fn default() -> Rates {
        let none = Rate::default();
        Rates { reservation: none, limit: none, read_limit: none, write_limit: none, burst: None, unit_bytes: UNIT_BYTES }
    }
}

impl Rates {
    /// Whether there is a limit.
    pub fn is_limited(&self) -> bool {
        !(self.limit.is_none() && self.read_limit.is_none() && self.write_limit.is_none())
    }

    /// The number of requests that a transfer of this size counts as; at least 1.
    pub fn units(&self, bytes: u64) -> u64 {
        bytes.div_ceil(self.unit_bytes.get()).max(1)
    }

    /// The numbers of requests and bytes that a request is charged.
    fn amounts(&self, request: &Request) -> [u64; 2] {
        let bytes = if request.op.transfers() { SECTOR * u64::from(request.sectors) } else { 0 };
        [self.units(bytes), bytes]
    }
}

/// A rate, and the time up to which it is used up.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    per_second: NonZeroU64,
    /// Time up to which the charges have used up the rate, and the remainder in parts of a nanosecond: `rest / per_second`.
    paid_until: Nanos,
    rest: u64,
}

impl Bucket {
    fn new(per_second: NonZeroU64) -> Bucket {
        Bucket { per_second, paid_until: Nanos::ZERO, rest: 0 }
    }

    /// The first nanosecond from which all charges are paid for.
    fn free_at(&self) -> Nanos {
        self.paid_until + Nanos(u64::from(self.rest > 0))
    }

    /// Time that the rate needs for an amount, rounded up.
    fn span(&self, amount: u64) -> Nanos {
        let span = (u128::from(amount) * u128::from(SECOND)).div_ceil(u128::from(self.per_second.get()));
        Nanos(u64::try_from(span).unwrap_or(u64::MAX))
    }

    /// Charges an amount from `earliest` on, or from the time at which earlier charges are paid for if that is later.
    fn charge(&mut self, earliest: Nanos, amount: u64) {
        if self.paid_until < earliest {
            (self.paid_until, self.rest) = (earliest, 0);
        }
        let rate = u128::from(self.per_second.get());
        let cost = u128::from(amount) * u128::from(SECOND) + u128::from(self.rest);
        self.paid_until += Nanos(u64::try_from(cost / rate).unwrap_or(u64::MAX));
        // The remainder is less than the rate.
        self.rest = (cost % rate) as u64;
    }
}

/// A bucket of requests and one of bytes, in the order of [`Rates::amounts`].
type Pair = [Option<Bucket>; 2];

fn pair(rate: Rate) -> Pair {
    [rate.iops, rate.bytes_per_s].map(|rate| rate.map(Bucket::new))
}

/// The limits of a tenant, and their use.
///
/// In any window of length t at most rate × t, the burst, and one request pass. If a request always waits and is dispatched within the
/// burst after it is allowed, at least rate × t less one request pass.
#[derive(Clone, Copy, Debug)]
pub struct Limiter {
    rates: Rates,
    all: Pair,
    /// Of reads and of writes.
    by_direction: [Pair; 2],
}

impl Limiter {
    /// The limits of a tenant; `None` if it has none.
    pub fn new(rates: &Rates) -> Option<Limiter> {
        let rates = *rates;
        let by_direction = [pair(rates.read_limit), pair(rates.write_limit)];
        rates.is_limited().then(|| Limiter { rates, all: pair(rates.limit), by_direction })
    }

    /// Whether reads and writes have separate limits, so that one may have to wait while the other is allowed.
    pub fn is_by_direction(&self) -> bool {
        self.by_direction.as_flattened().iter().any(Option::is_some)
    }

    /// The earliest time at which a request may be dispatched; `now` if it is allowed at once.
    pub fn ready_at(&self, now: Nanos, request: &Request) -> Nanos {
        let pairs = [&self.all, &self.by_direction[usize::from(request.op.is_write())]];
        pairs.into_iter().flatten().flatten().map(Bucket::free_at).fold(now, Nanos::max)
    }

    /// The earliest time at which some request may be dispatched, in either direction; `now` if one is allowed at once.
    pub fn any_ready_at(&self, now: Nanos) -> Nanos {
        let free_at = |pair: &Pair| pair.iter().flatten().map(Bucket::free_at).fold(now, Nanos::max);
        let [reads, writes] = &self.by_direction;
        free_at(&self.all).max(free_at(reads).min(free_at(writes)))
    }

    /// Charges a request that is dispatched.
    pub fn charge(&mut self, now: Nanos, request: &Request) {
        let amounts = self.rates.amounts(request);
        let units = [1, self.rates.unit_bytes.get()];
        let direction = &mut self.by_direction[usize::from(request.op.is_write())];
        for pair in [&mut self.all, direction] {
            for ((bucket, amount), unit) in pair.iter_mut().zip(amounts).zip(units) {
                if let Some(bucket) = bucket {
                    let saved = self.rates.burst.unwrap_or_else(|| bucket.span(unit));
                    bucket.charge(now - saved, amount);
                }
            }
        }
    }
}

/// The reservation of a tenant, and its use: the reservation tags of mClock, in requests and bytes.
///
/// With a reservation in both, a request is due as long as either is not met.
#[derive(Clone, Copy, Debug)]
pub struct Reservation {
    rates: Rates,
    reserved: Pair,
}

impl Reservation {
    /// The reservation of a tenant; `None` if it has none.
    pub fn new(rates: &Rates) -> Option<Reservation> {
        let rates = *rates;
        (!rates.reservation.is_none()).then(|| Reservation { rates, reserved: pair(rates.reservation) })
    }

    /// The tag of a tenant's next request, the earliest time at which it is within the reserved rate: the time at which earlier charges are
    /// paid for, or its arrival if that is later.
    pub fn due_at(&self, request: &Request) -> Nanos {
        let paid = self.reserved.iter().flatten().map(Bucket::free_at).min();
        paid.unwrap_or(Nanos::MAX).max(request.arrival)
    }

    /// Charges a request that was dispatched because it was due. Other requests are not charged, as they do not count towards the
    /// reservation.
    pub fn charge(&mut self, request: &Request) {
        let amounts = self.rates.amounts(request);
        for (bucket, amount) in self.reserved.iter_mut().zip(amounts) {
            if let Some(bucket) = bucket {
                bucket.charge(request.arrival, amount);
            }
        }
    }

    /// Time for which a request fulfils the reservation; the shorter one if there is a reservation in requests and in bytes.
    pub fn span(&self, request: &Request) -> Nanos {
        let amounts = self.rates.amounts(request);
        let spans = self.reserved.iter().zip(amounts).filter_map(|(bucket, amount)| Some(bucket.as_ref()?.span(amount)));
        spans.min().unwrap_or(Nanos::ZERO)
    }
}

#[cfg(test)]
mod tests;
