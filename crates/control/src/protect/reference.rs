//! A disk that a unit is served at least as well as, request by request.
//!
//! ```text
//! the unit's requests   ├──1──┤├──2──┤      idle      ├──3──┤      with outstanding requests: 1, 2, 3
//! the reference disk    ├─1─┤├──2─┤         idle      ├───3───┤    its service of these: less than they took, or more
//! ```
//! The disk has a clock of its own, which runs while it serves and idles for as long as the unit does. A unit is served as on that disk if,
//! in each second in which it has requests, those that complete are a second of the disk's service.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use block::tenants::{ServiceModel, ServiceTime};
use block::{Nanos, Request};

/// Requests whose completion was not seen are forgotten from this number on.
const MAX_UNDER_WAY: usize = 1 << 14;

/// A reference disk. Two of one name are the same.
#[derive(Clone, Debug)]
pub struct Reference {
    /// As it was named, such as `sata7200`.
    pub name: String,
    /// Its service times.
    pub model: Arc<dyn ServiceModel>,
}

impl PartialEq for Reference {
    fn eq(&self, other: &Reference) -> bool {
        self.name == other.name
    }
}

/// A reference disk that serves a unit's requests.
pub(super) struct Shadow {
    disk: Box<dyn ServiceTime>,
    /// By its own clock, when all requests so far are done.
    end: Nanos,
    /// Since when the unit has had no request.
    idle_since: Nanos,
    /// Service times of the requests that have not completed, in the order of arrival. Their sum is what counts, not which is which.
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

    /// A request arrives.
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

    /// Which requests have not completed is not known any more.
    pub fn lost(&mut self) {
        self.under_way.clear();
    }

    /// A request completes. Returns what the reference disk needs for it.
    pub fn completed(&mut self, at: Nanos) -> Nanos {
        self.idle_since = at;
        self.under_way.pop_front().unwrap_or(Nanos::ZERO)
    }
}
