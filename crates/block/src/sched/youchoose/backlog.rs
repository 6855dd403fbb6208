//! The work in flight.
//!
//! Each request in flight counts with the expected time for which it keeps the device busy, learned from the spacing of completions. On a
//! device with parallel units (the members of an array, the dies of a flash device) completions are closer the more requests are served at
//! a time. So the sum over the requests in flight is the time until all of them are complete, for any structure of the device, and a device
//! with spare parallelism shows it as soon as it gets more requests.
//!
//! If volumes with guarantees share the device, the number of requests in flight is bounded as well ([`crate::bound`]). On a single disk
//! each volume has its own bound, and the lowest of those that have requests or soon will applies: otherwise a volume that issues one
//! request per second next to hundreds of others would have all of its requests late before one in a hundred is. With several units the
//! lowest of many bounds would keep units idle.

use crate::Nanos;
use crate::bound::is_reached;

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
        is_reached(most, self.count)
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
