//! A reference disk, which is a lower bound of a unit's service, request by request.
//!
//! ```text
//! the unit's requests   ├──1──┤├──2──┤      idle      ├──3──┤      with outstanding requests: 1, 2, 3
//! the reference disk    ├─1─┤├──2─┤         idle      ├───3───┤    its service of these: less than they took, or more
//! ```
//! The disk has its own clock, which runs while it serves and stands still while the unit is idle. The guarantee is kept if, in each second
//! in which the unit has requests, the completed ones amount to a second of the disk's service.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use block::tenants::{ServiceModel, ServiceTime};
use block::{Nanos, Request};

/// Maximum number of tracked requests. Beyond it the oldest are dropped, whose completion was probably lost. Choice: bounds the memory
/// after lost completions; many times the tags of a queue; not varied.
const MAX_UNDER_WAY: usize = 1 << 14;

/// A reference disk. Two are equal if their names are.
#[derive(Clone, Debug)]
pub struct Reference {
    /// Its name in the configuration, for example `sata7200`.
    pub name: String,
    /// Its service times.
    pub model: Arc<dyn ServiceModel>,
}

impl PartialEq for Reference {
    fn eq(&self, other: &Reference) -> bool {
        self.name == other.name
    }
}

/// The simulation of a reference disk under a unit's requests.
pub(super) struct Shadow {
    disk: Box<dyn ServiceTime>,
    /// Completion of all requests so far, by the disk's own clock.
    end: Nanos,
    /// Start of the unit's idle time.
    idle_since: Nanos,
    /// Service times of outstanding requests, in order of arrival. Only their sum matters, so completions may be matched in any order.
    under_way: VecDeque<Nanos>,
}

impl fmt::Debug for Shadow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shadow").field("end", &self.end).field("under_way", &self.under_way.len()).finish_non_exhaustive()
    }
}

impl Shadow {
    pub fn new(reference: &Reference) -> Shadow {
        Shadow { disk: reference.model.begin(), end: Nanos::ZERO, idle_since: Nanos::ZERO, under_way: VecDeque::new() }
    }

    /// Adds a request.
    pub fn queued(&mut self, request: &Request) {
        if self.under_way.is_empty() {
            self.end += request.arrival - self.idle_since.min(request.arrival);
        }
        let waiting = u32::try_from(self.under_way.len()).unwrap_or(u32::MAX);
        let service = self.disk.service_time(self.end, request, waiting);
        self.end += service;
        if self.under_way.len() >= MAX_UNDER_WAY {
            self.under_way.pop_front();
        }
        self.under_way.push_back(service);
    }

    /// Forgets the outstanding requests, which are unknown after a loss of events.
    pub fn lost(&mut self) {
        self.under_way.clear();
    }

    /// Records a completion. Returns the reference disk's service time for a request.
    pub fn completed(&mut self, at: Nanos) -> Nanos {
        self.idle_since = at;
        self.under_way.pop_front().unwrap_or(Nanos::ZERO)
    }
}
