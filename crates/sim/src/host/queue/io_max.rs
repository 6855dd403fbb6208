//! Limits of tenants in front of the queue, as `io.max` limits cgroups: [`Throttle`].
//!
//! An issue is charged to the tenant of its sectors, or else of its stream ([`Roster::owner_at`](block::Roster::owner_at)). So write-back
//! is charged to the tenant with the volume of the pages, as cgroup write-back charges the cgroup that dirtied them. Swapping and flushes
//! are not limited.

use block::rates::Rate;
use block::throttle::{Charge, Throttle};
use block::{Nanos, Roster};

use super::Queue;
use crate::run::Issue;

/// Bytes charged for a discard (`throtl_bio_data_size`).
const DISCARD_BYTES: u64 = 512;

impl Queue {
    /// Makes the tenants cgroups, without limits; the host then accounts write-back for each.
    #[must_use]
    pub fn with_cgroups(mut self) -> Queue {
        let tenants = self.roster().map_or(0, |roster| roster.tenants().len());
        self.io_max = Some(Box::new(Throttle::new(tenants)));
        self
    }

    /// The tenants; `None` if they are not cgroups.
    pub(in crate::host) fn cgroups(&self) -> Option<&Roster> {
        self.io_max.as_ref().and(self.roster())
    }

    /// Sets a tenant's limits on reads and writes. Those of a tenant that is not on the roster are ignored.
    pub fn set_io_max(&mut self, now: Nanos, tenant: usize, limits: [Rate; 2]) {
        let tenants = self.roster().map_or(0, |roster| roster.tenants().len());
        let io_max = self.io_max.get_or_insert_with(|| Box::new(Throttle::new(tenants)));
        io_max.set(now, tenant, limits);
        self.release_held_back(now);
    }

    /// Number of issues that wait for a limit.
    pub(super) fn held_back(&self) -> usize {
        self.io_max.as_ref().map_or(0, |io_max| io_max.len())
    }

    /// Admits an issue if its tenant's limits allow it now; otherwise it waits.
    pub(super) fn admit_within_limits(&mut self, now: Nanos, issue: Issue) {
        let owner = self.roster().and_then(|roster| roster.owner_at(issue.lba, issue.stream));
        let passes = match (&mut self.io_max, owner) {
            (Some(io_max), Some(tenant)) => {
                let requests =
                    if issue.op.transfers() { issue.sectors.div_ceil(self.settings.max_sectors.max(1)).max(1) } else { 1 };
                let bytes = if issue.op.transfers() { issue.bytes() } else { DISCARD_BYTES };
                io_max.submit(now, tenant, Charge { op: issue.op, bytes, requests }, issue)
            }
            _ => Some(issue),
        };
        if let Some(issue) = passes {
            self.enter(now, issue);
        }
    }

    /// Admits the issues that the limits allow by now. Observers see them arrive now, like a throttled bio at the kernel's tracepoints.
    pub(super) fn release_held_back(&mut self, now: Nanos) {
        while let Some(issue) = self.io_max.as_mut().and_then(|io_max| io_max.release(now)) {
            self.record_event(crate::run::ServerEvent::Issued(Issue { arrival: now, ..issue }));
            self.admit_issue(now, issue);
        }
    }
}
