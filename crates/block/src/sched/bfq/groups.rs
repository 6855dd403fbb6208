//! Weights of tenants, in place of Linux's groups (`block/bfq-cgroup.c`, `io.bfq.weight`).
//!
//! Linux schedules groups first, and then the queues within one. Here there is one level: a tenant's weight is divided equally among its
//! processes. So a tenant has its full share while all its processes have requests, and less while only some do. Write-back stays in the
//! shared queues.

use alloc::vec::Vec;

use crate::{Request, Roster, StreamId};

/// The weight of a process without a tenant (`BFQ_WEIGHT_LEGACY_DFL` at the default level); equals that of a tenant with one process and a
/// weight of 1.
const WEIGHT: u64 = 40;

/// The weights of tenants' processes.
#[derive(Default)]
pub(super) struct Groups {
    roster: Roster,
    /// Weight of each process, by tenant.
    weights: Vec<u64>,
}

/// A tenant, and the weight of each of its processes.
#[derive(Clone, Copy)]
pub(super) struct Group {
    pub(super) tenant: usize,
    pub(super) weight: u64,
}

impl Groups {
    pub(super) fn new(roster: &Roster) -> Groups {
        let mut processes = alloc::vec![0u64; roster.tenants().len()];
        roster.streams().for_each(|(_, tenant)| processes[tenant] += 1);
        let weights = roster.tenants().iter().zip(processes).map(|(tenant, processes)| {
            let weight = WEIGHT * u64::from(tenant.weight) / processes.max(1);
            weight.max(1)
        });
        Groups { roster: roster.clone(), weights: weights.collect() }
    }

    /// The group of a request's tenant; `None` if it has no tenant.
    pub(super) fn of(&self, request: &Request) -> Option<Group> {
        self.roster.owner(request).map(|tenant| self.group(tenant))
    }

    /// The group of a stream's tenant; `None` if it has no tenant.
    pub(super) fn of_stream(&self, stream: StreamId) -> Option<Group> {
        self.roster.owner_of_stream(stream).map(|tenant| self.group(tenant))
    }

    pub(super) fn roster(&self) -> &Roster {
        &self.roster
    }

    fn group(&self, tenant: usize) -> Group {
        Group { tenant, weight: self.weights[tenant] }
    }
}
