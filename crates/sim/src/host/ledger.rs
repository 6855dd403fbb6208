//! What a queue knows of its tenants: for how long the device worked for each, and whether it ever stood idle while anything waited.

use block::{Nanos, Request, Roster};

use crate::run::{BIN, Timeline};

/// The account of one run.
#[derive(Clone, Debug)]
pub struct Ledger {
    roster: Roster,
    /// In the roster's order, and behind them all who are not on it: nanoseconds that the device worked for each, by the time at which the
    /// request was done.
    disk_time: Vec<Timeline<u64>>,
    idle_while_waiting: Nanos,
    /// Since when the device stands idle although something waits; `None` if it does not.
    idle_since: Option<Nanos>,
}

impl Ledger {
    /// Nothing happened yet.
    pub(super) fn new(roster: &Roster) -> Ledger {
        let disk_time = (0..=roster.tenants().len()).map(|_| Timeline::new(BIN)).collect();
        Ledger { roster: roster.clone(), disk_time, idle_while_waiting: Nanos::ZERO, idle_since: None }
    }

    /// The roster.
    pub fn roster(&self) -> &Roster {
        &self.roster
    }

    /// Nanoseconds that the device worked for each tenant, in the roster's order, and for all others together at the end, by the time at
    /// which requests were done. Empty of a device that does not tell.
    pub fn disk_time(&self) -> &[Timeline<u64>] {
        &self.disk_time
    }

    /// How long the device stood idle while requests waited that it could have served.
    pub fn idle_while_waiting(&self) -> Nanos {
        self.idle_while_waiting
    }

    /// The device worked so long for a request that is done at `at`.
    pub(super) fn worked(&mut self, at: Nanos, request: &Request, work: Nanos) {
        let number = self.roster.owner(request).unwrap_or(self.disk_time.len() - 1);
        self.disk_time[number].add(at, work.0);
    }

    /// From `now` on the device stands idle while something waits, or no longer.
    pub(super) fn stands(&mut self, now: Nanos, is_idle_while_waiting: bool) {
        match (self.idle_since, is_idle_while_waiting) {
            (None, true) => self.idle_since = Some(now),
            (Some(since), false) => {
                self.idle_while_waiting += now - since;
                self.idle_since = None;
            }
            _ => {}
        }
    }
}
