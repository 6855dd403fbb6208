//! Per-tenant device time of a queue, and the time during which the device was idle although requests waited.

use block::{Nanos, Request, Roster};

use crate::run::{BIN, Timeline};

/// The accounts of one run.
#[derive(Clone, Debug)]
pub struct Ledger {
    roster: Roster,
    /// Nanoseconds of device time by completion time: one for each tenant in the roster's order, then one for all other streams.
    disk_time: Vec<Timeline<u64>>,
    idle_while_waiting: Nanos,
    /// When the device became idle although requests wait; `None` if it is not.
    idle_since: Option<Nanos>,
}

impl Ledger {
    /// Empty accounts.
    pub(super) fn new(roster: &Roster) -> Ledger {
        let disk_time = (0..=roster.tenants().len()).map(|_| Timeline::new(BIN)).collect();
        Ledger { roster: roster.clone(), disk_time, idle_while_waiting: Nanos::ZERO, idle_since: None }
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

    /// Device time of one of these timelines: of a tenant by its number, or of all other streams.
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

    /// Adds the device time `work` of a request completed at `at`.
    pub(super) fn add_work(&mut self, at: Nanos, request: &Request, work: Nanos) {
        let number = self.roster.owner(request).unwrap_or(self.disk_time.len() - 1);
        self.disk_time[number].add(at, work.0);
    }

    /// Sets whether from `now` on the device is idle while requests wait.
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
