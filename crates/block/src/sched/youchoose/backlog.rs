//! The work in flight.
//!
//! Each request in flight counts with the expected time for which it keeps the device busy, learned from the spacing of completions. On a
//! device with parallel units (the members of an array, the dies of a flash device) completions are closer the more requests are served at
//! a time. So the sum over the requests in flight is the time until all of them are complete, for any structure of the device, and a device
//! with spare parallelism shows it as soon as it gets more requests.
//!
//! If volumes with guarantees share the device, the number of requests in flight is bounded as well: the bound falls with each request that
//! is late because of its time in flight, and rises with requests that are in time, so that about one in a hundred is late. It starts low,
//! and doubles until the first is late (congestion avoidance and slow start: Jacobson, SIGCOMM 1988). On a single disk each volume has its
//! own bound, and the lowest of those that have requests or soon will applies: otherwise a volume that issues one request per second next to
//! hundreds of others would have all of its requests late before one in a hundred is. With several units the lowest of many bounds would
//! keep units idle.

use crate::Nanos;

/// A late request lowers the bound to the requests in flight less one part in this many.
const FALLS: u64 = 8;
/// Number of requests in time that raise the bound by one; until the first is late, each raises it by one.
const RISES: u64 = 64;
/// Initial bound for each disk.
const FIRST: u64 = 2;
/// Resolution of the bound, in parts of a request.
const PARTS: u64 = 1 << 16;

/// Bound of the requests in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    /// In [`PARTS`].
    most: u64,
    /// Time of its last reduction. Requests dispatched before carry no information about the new bound.
    fell: Option<Nanos>,
}

impl Bound {
    /// The initial bound for a device with this many disks.
    pub(super) fn of_disks(disks: u32) -> Bound {
        Bound::new(FIRST * u64::from(disks) * PARTS)
    }

    /// A bound of `most` parts of a request (see [`Bound::most`]).
    pub(super) fn new(most: u64) -> Bound {
        Bound { most, fell: None }
    }

    /// The bound in parts of a request, for [`Backlog::is_full`].
    pub(super) fn most(self) -> u64 {
        self.most
    }

    /// Records a request that was late because of others, dispatched with `count` requests in flight.
    pub(super) fn was_late(&mut self, now: Nanos, dispatched: Nanos, count: u32) {
        if self.fell.is_none_or(|fell| dispatched >= fell) {
            let count = u64::from(count.max(1)) * PARTS;
            self.most = self.most.min(count - count / FALLS).max(PARTS);
            self.fell = Some(now);
        }
    }

    /// Records a request that was in time, with `count` left in flight.
    pub(super) fn was_in_time(&mut self, count: u32) {
        // A bound that is not reached carries no information about a higher one.
        if u64::from(count + 1) * PARTS >= self.most {
            self.most = self.most.saturating_add(if self.fell.is_none() { PARTS } else { PARTS / RISES });
        }
    }
}

/// All work in flight.
#[derive(Default)]
pub(super) struct Backlog {
    count: u32,
    work: Nanos,
    /// Busy time for all requests so far.
    done: Nanos,
    last_completion: Nanos,
}

impl Backlog {
    /// Whether this bound of the requests in flight is reached.
    pub(super) fn is_full(&self, most: u64) -> bool {
        u64::from(self.count) * PARTS >= most
    }

    /// Number of requests in flight.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// Expected time until the requests in flight are complete.
    pub(super) fn work(&self) -> Nanos {
        self.work
    }

    /// Total busy time for all requests so far.
    pub(super) fn done(&self) -> Nanos {
        self.done
    }

    pub(super) fn sent(&mut self, work: Nanos) {
        self.count += 1;
        self.work += work;
    }

    /// Records a completion, and returns the time for which the device was busy with the request: since the previous completion, so that
    /// concurrent requests are not counted twice.
    pub(super) fn completed(&mut self, now: Nanos, work: Nanos, dispatched: Nanos) -> Nanos {
        self.count = self.count.saturating_sub(1);
        self.work = self.work - work;
        let since = self.last_completion.max(dispatched);
        self.last_completion = now;
        self.done += now - since;
        now - since
    }
}
