//! Per-tenant requests and device time of a queue, and the time during which the device was idle although requests waited.

use block::{Nanos, Rates, Request, Roster};

use crate::run::{BIN, Served, Timeline};

/// The accounts of one run.
#[derive(Clone, Debug)]
pub struct Ledger {
    roster: Roster,
    /// Nanoseconds of device time by completion time: one for each tenant in the roster's order, then one for all other streams.
    disk_time: Vec<Timeline<u64>>,
    /// Requests by time of dispatch to the device, in the same order.
    sent: Vec<Timeline<Served>>,
    idle_while_waiting: Nanos,
    /// Time since which the device is idle although requests wait; `None` if it is not.
    idle_since: Option<Nanos>,
}

impl Ledger {
    /// Empty accounts.
    pub(super) fn new(roster: &Roster) -> Ledger {
        let issuers = roster.tenants().len() + 1;
        let (disk_time, sent) = (vec![Timeline::new(BIN); issuers], vec![Timeline::new(BIN); issuers]);
        Ledger { roster: roster.clone(), disk_time, sent, idle_while_waiting: Nanos::ZERO, idle_since: None }
    }

    /// The roster.
    pub fn roster(&self) -> &Roster {
        &self.roster
    }

    /// Nanoseconds of device time by completion time: a timeline for each tenant in the roster's order, and one for all other
    /// streams. They stay empty if the device does not report its work.
    pub fn disk_time(&self) -> &[Timeline<u64>] {
        &self.disk_time
    }

    /// Requests by time of dispatch to the device, merged ones counted once: a timeline for each tenant in the roster's order, and one
    /// for all other streams.
    pub fn sent(&self) -> &[Timeline<Served>] {
        &self.sent
    }

    /// Total device time of one of these timelines: of a tenant by its number, or of all other streams.
    pub fn work_of(&self, number: usize) -> Nanos {
        Nanos(self.disk_time[number].bins().iter().sum())
    }

    /// Device time of all requests; zero if the device does not report its work.
    pub fn work(&self) -> Nanos {
        Nanos(self.disk_time.iter().flat_map(Timeline::bins).sum())
    }

    /// Time during which the device was idle while requests waited that it could have served.
    pub fn idle_while_waiting(&self) -> Nanos {
        self.idle_while_waiting
    }

    /// Adds the device time `work` of a request that completed at `at`.
    pub(super) fn add_work(&mut self, at: Nanos, request: &Request, work: Nanos) {
        let number = self.roster.owner(request).unwrap_or(self.disk_time.len() - 1);
        self.disk_time[number].add(at, work.0);
    }

    /// Adds a request dispatched to the device at `now`.
    pub(super) fn add_sent(&mut self, now: Nanos, request: &Request) {
        let number = self.roster.owner(request).unwrap_or(self.sent.len() - 1);
        let rates = self.roster.tenants().get(number).map_or(Rates::default(), |tenant| tenant.rates);
        let bytes = if request.op.transfers() { u64::from(request.sectors) * 512 } else { 0 };
        self.sent[number].add(now, Served::of(&rates, request.op.is_write(), bytes));
    }

    /// Sets whether the device is idle while requests wait, from `now` on.
    pub(super) fn set_idle(&mut self, now: Nanos, is_idle_while_waiting: bool) {
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
