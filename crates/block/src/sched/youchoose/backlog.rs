//! The work at the device.
//!
//! Each request at the device counts with the time for which the device is expected to be busy with it, which is learned from the spacing of
//! completions. On a device with parallel units (the members of an array, the dies of a flash device) completions are the closer the more
//! requests are served at a time. So the sum over the requests at the device is the time until it has done them all, whatever its parts are,
//! and a device that could do more at a time shows it as soon as it is given more.

use crate::Nanos;

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
