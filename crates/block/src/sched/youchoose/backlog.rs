//! The work at the device.
//!
//! Each request at the device counts with the time for which the device is expected to be busy with it, which is learned from the spacing of
//! completions. On a device with parallel units (the members of an array, the dies of a flash device) completions are the closer the more
//! requests are served at a time. So the sum over the requests at the device is the time until it has done them all, whatever its parts are,
//! and a device that could do more at a time shows it as soon as it is given more.
//!
//! Where volumes with guarantees share it, the number of requests at the device is bounded as well: on each that is late because of the time
//! that it spends there, the bound falls; it rises with those that are in time, so that about one in a hundred is late. It begins
//! low, and doubles until the first is late (congestion avoidance and slow start: Jacobson, SIGCOMM 1988). On a single disk each volume has
//! a bound of its own, and the lowest of those that have requests or soon will holds: one that issues a request each second beside hundreds
//! of others would have all of its requests late before one in a hundred is. With several units the lowest of many bounds would keep units idle.

use crate::Nanos;

/// The bound falls by this part of the requests at the device, …
const FALLS: u64 = 8;
/// … and rises by one in this many requests that are in time; until the first was late, by one for each.
const RISES: u64 = 64;
/// The bound at first, for each disk.
const FIRST: u64 = 2;
/// Fraction of a request in which the bound is kept.
const PARTS: u64 = 1 << 16;

/// The most requests at the device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    /// In [`PARTS`].
    most: u64,
    /// When it fell last, if it did. Requests from before that show nothing about it.
    fell: Option<Nanos>,
}

impl Bound {
    /// Of a device with this many disks.
    pub(super) fn of_disks(disks: u32) -> Bound {
        Bound::new(FIRST * u64::from(disks) * PARTS)
    }

    /// With `most` parts of a request (see [`Bound::most`]).
    pub(super) fn new(most: u64) -> Bound {
        Bound { most, fell: None }
    }

    /// In parts of a request, for [`Backlog::is_full`].
    pub(super) fn most(self) -> u64 {
        self.most
    }

    /// Records a request that was late because of others, dispatched with `count` requests at the device.
    pub(super) fn was_late(&mut self, now: Nanos, dispatched: Nanos, count: u32) {
        if self.fell.is_none_or(|fell| dispatched >= fell) {
            let count = u64::from(count.max(1)) * PARTS;
            self.most = self.most.min(count - count / FALLS).max(PARTS);
            self.fell = Some(now);
        }
    }

    /// Records a request that was in time, with `count` left at the device.
    pub(super) fn was_in_time(&mut self, count: u32) {
        // A bound that is not reached shows nothing about a higher one.
        if u64::from(count + 1) * PARTS >= self.most {
            self.most = self.most.saturating_add(if self.fell.is_none() { PARTS } else { PARTS / RISES });
        }
    }
}

/// All work at the device.
#[derive(Default)]
pub(super) struct Backlog {
    count: u32,
    work: Nanos,
    /// Busy time for all requests so far.
    done: Nanos,
    last_completion: Nanos,
}

impl Backlog {
    /// Whether no further request should be at the device, by this bound.
    pub(super) fn is_full(&self, most: u64) -> bool {
        u64::from(self.count) * PARTS >= most
    }

    /// Number of requests at the device.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// Expected time until the device has done all requests that are there.
    pub(super) fn work(&self) -> Nanos {
        self.work
    }

    /// Busy time for all requests so far.
    pub(super) fn done(&self) -> Nanos {
        self.done
    }

    pub(super) fn sent(&mut self, work: Nanos) {
        self.count += 1;
        self.work += work;
    }

    /// Records a completion, and returns how long the device was busy with the request: since the previous completion, as concurrent ones
    /// are not counted twice.
    pub(super) fn completed(&mut self, now: Nanos, work: Nanos, dispatched: Nanos) -> Nanos {
        self.count = self.count.saturating_sub(1);
        self.work = self.work - work;
        let since = self.last_completion.max(dispatched);
        self.last_completion = now;
        self.done += now - since;
        now - since
    }
}
