//! Media time of the requests that the device has taken and not finished yet.
//!
//! ```text
//!  dispatched            acknowledged by the cache            on the media
//!      │◀──── flying ─────────▶│◀──────── unwritten ─────────────▶│
//!      └────────────────────── outstanding ───────────────────────┘
//! ```
//! A write cache acknowledges a write long before its time at the media has passed, and spends that time while later requests wait. So a
//! write stays outstanding until then. Time that the device spends on reads is not spent on the writes in its cache.

use crate::Nanos;
use crate::bound::{Bound, is_reached};
use crate::tenants::Roster;

/// A completed request, as input of the ledger.
pub(super) struct Completed {
    pub(super) dispatched: Nanos,
    /// Its expected media time, and the result of [`Ledger::sent`].
    pub(super) work: Nanos,
    pub(super) begin: f64,
    /// The media time that the host reports; `None` if it cannot tell.
    pub(super) reported: Option<Nanos>,
    pub(super) is_write: bool,
}

#[derive(Debug)]
pub(super) struct Ledger {
    /// Whether the device serves one request at a time. A device with parallel units empties its cache at the same time.
    has_one_arm: bool,
    disks: u32,
    /// Bound of the requests in flight of a device with parallel units.
    bound: Bound,
    /// Expected media time of the requests in flight, and their number.
    flying: Nanos,
    count: u32,
    /// Time that the device has spent per time of expected work in flight, at this time.
    progress: f64,
    progress_at: Nanos,
    /// When the cache will be empty, unless reads keep the arm from it.
    clean_at: Nanos,
    last_completion: Nanos,
    /// Media time spent so far.
    done: Nanos,
    /// Flushes at the device.
    flushing: u32,
}

impl Ledger {
    pub(super) fn new(roster: &Roster) -> Ledger {
        Ledger {
            has_one_arm: roster.has_one_arm(),
            disks: roster.disks(),
            bound: Bound::of_disks(roster.disks()),
            flying: Nanos::ZERO,
            count: 0,
            progress: 0.0,
            progress_at: Nanos::ZERO,
            clean_at: Nanos::ZERO,
            last_completion: Nanos::ZERO,
            done: Nanos::ZERO,
            flushing: 0,
        }
    }

    /// The same of the device of this roster.
    pub(super) fn on(self, roster: &Roster) -> Ledger {
        let bound = if roster.disks() == self.disks { self.bound } else { Bound::of_disks(roster.disks()) };
        Ledger { has_one_arm: roster.has_one_arm(), disks: roster.disks(), bound, ..self }
    }

    /// Number of requests in flight.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// Media time spent so far.
    pub(super) fn done(&self) -> Nanos {
        self.done
    }

    /// Media time of the requests in flight and of the writes in the cache.
    pub(super) fn outstanding(&self, now: Nanos) -> Nanos {
        self.flying + (self.clean_at - now)
    }

    /// Whether no request may be sent: a drive takes no other command before the end of a flush (`ata_std_qc_defer`), and then serves those
    /// that it got meanwhile in its own order.
    pub(super) fn is_flushing(&self) -> bool {
        self.has_one_arm && self.flushing > 0
    }

    /// Whether a device with parallel units has as many requests as it completes in time; never for a single disk.
    pub(super) fn is_full(&self) -> bool {
        !self.has_one_arm && is_reached(self.bound.most(), self.count)
    }

    /// Whether a device with parallel units would complete more requests in time; never for a single disk.
    pub(super) fn has_free_units(&self) -> bool {
        !self.has_one_arm && !self.is_full()
    }

    /// Records whether the device was late with a request, dispatched with `count` requests in flight. It has completed.
    pub(super) fn judge(&mut self, now: Nanos, dispatched: Nanos, count: u32, is_late: bool) {
        match is_late {
            true => self.bound.was_late(now, dispatched, count),
            false => self.bound.was_in_time(self.count),
        }
    }

    /// Records a dispatch. Returns the progress at this time.
    pub(super) fn sent(&mut self, now: Nanos, work: Nanos) -> f64 {
        self.advance(now);
        self.flying += work;
        self.count += 1;
        self.progress
    }

    fn advance(&mut self, now: Nanos) {
        if self.flying > Nanos::ZERO {
            self.progress += (now - self.progress_at).0 as f64 / self.flying.0 as f64;
        }
        self.progress_at = now;
    }

    /// Records a completion. Returns the media time that it took: the time since the previous completion, and the rest after its
    /// acknowledgement.
    pub(super) fn completed(&mut self, now: Nanos, request: &Completed) -> Nanos {
        self.advance(now);
        let since = self.last_completion.max(request.dispatched);
        let spacing = now - since;
        self.last_completion = now;
        let caches = request.is_write && self.has_one_arm;
        let left = if caches { request.reported.unwrap_or(Nanos::ZERO) - (now - request.dispatched) } else { Nanos::ZERO };
        if self.clean_at > since && !request.is_write {
            self.clean_at += spacing;
        }
        self.clean_at = self.clean_at.max(now) + left;
        self.flying = self.flying - request.work;
        self.count = self.count.saturating_sub(1);
        self.done += spacing + left;
        match self.has_one_arm {
            true => spacing + left,
            false => Nanos((request.work.0 as f64 * (self.progress - request.begin)) as u64),
        }
    }

    pub(super) fn flush_began(&mut self) {
        self.flushing += 1;
    }

    pub(super) fn flush_ended(&mut self, now: Nanos) {
        self.flushing = self.flushing.saturating_sub(1);
        (self.clean_at, self.last_completion) = (now, now);
    }
}
