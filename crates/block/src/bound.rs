//! A learned bound of the requests in flight.
//!
//! It falls with each request that is late because of its time in flight, and rises with requests that are in time, so that about one in a
//! hundred is late. It starts low, and doubles until the first is late (congestion avoidance and slow start: Jacobson, SIGCOMM 1988).

use crate::Nanos;

/// A late request lowers the bound to the requests in flight less one part in this many.
const FALLS: u64 = 8;
/// Number of requests in time that raise the bound by one; until the first is late, each raises it by one.
const RISES: u64 = 64;
/// Initial bound for each disk.
const FIRST: u64 = 2;
/// Resolution of the bound, in parts of a request.
const PARTS: u64 = 1 << 16;

/// Whether this number of requests in flight reaches a bound of `most` parts of a request.
pub(crate) fn is_reached(most: u64, count: u32) -> bool {
    u64::from(count) * PARTS >= most
}

/// Bound of the requests in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    /// In [`PARTS`].
    most: u64,
    /// Time of its last reduction. Requests dispatched before carry no information about the new bound.
    fell: Option<Nanos>,
}

impl Bound {
    /// The initial bound for a device with this many disks.
    pub(crate) fn of_disks(disks: u32) -> Bound {
        Bound::new(FIRST * u64::from(disks) * PARTS)
    }

    /// A bound of `most` parts of a request (see [`Bound::most`]).
    pub(crate) fn new(most: u64) -> Bound {
        Bound { most, fell: None }
    }

    /// The bound in parts of a request, for [`is_reached`].
    pub(crate) fn most(self) -> u64 {
        self.most
    }

    /// Records a request that was late because of others, dispatched with `count` requests in flight.
    pub(crate) fn was_late(&mut self, now: Nanos, dispatched: Nanos, count: u32) {
        if self.fell.is_none_or(|fell| dispatched >= fell) {
            let count = u64::from(count.max(1)) * PARTS;
            self.most = self.most.min(count - count / FALLS).max(PARTS);
            self.fell = Some(now);
        }
    }

    /// Records a request that was in time, with `count` left in flight.
    pub(crate) fn was_in_time(&mut self, count: u32) {
        // A bound that is not reached carries no information about a higher one.
        if is_reached(self.most, count + 1) {
            self.most = self.most.saturating_add(if self.fell.is_none() { PARTS } else { PARTS / RISES });
        }
    }
}
