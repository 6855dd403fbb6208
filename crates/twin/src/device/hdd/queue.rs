//! How much the drive holds at once, and whether it serves it in another order.

use sim::device::hdd::spec::QueuePolicy;

use crate::device::access::Access;
use crate::device::findings::Finding;

/// Reads that were given to the drive behind another, at least, to tell of an order.
const FEWEST: usize = 20;
/// What `sim` takes as the deepest queue.
const DEEPEST: u32 = 1_024;

/// The drive's queue.
#[derive(Clone, Debug)]
pub struct Queue {
    /// Requests at the drive at once.
    pub depth: u32,
    /// Requests waited while so many were there: it takes no more.
    pub is_full: bool,
    /// In which order.
    pub policy: QueuePolicy,
    /// Accesses that tell the order.
    pub queued: usize,
}

impl Queue {
    /// Most at the drive at once; and if reads overtake reads.
    pub fn fit(accesses: &[Access]) -> Queue {
        let depth = accesses.iter().map(|access| access.others + 1).max().unwrap_or(1).min(DEEPEST);
        let waited = |access: &&Access| access.others + 1 >= depth && access.dispatched > access.arrival + 1_000;
        let mut latest = 0;
        let (mut overtaken, mut queued) = (0, 0);
        for access in accesses.iter().filter(|access| !access.write && !access.may_hit) {
            if access.others > 0 {
                queued += 1;
                overtaken += usize::from(access.dispatched < latest);
            }
            latest = latest.max(access.dispatched);
        }
        let reorders = queued >= FEWEST && overtaken * 10 >= queued;
        Queue {
            depth,
            is_full: accesses.iter().any(|access| waited(&access)),
            policy: if reorders { QueuePolicy::Sptf } else { QueuePolicy::Fifo },
            queued: if queued >= FEWEST { queued } else { 0 },
        }
    }

    /// As people want it.
    pub fn findings(&self) -> Vec<Finding> {
        let depth = if self.is_full { self.depth.to_string() } else { format!("at least {}", self.depth) };
        vec![
            Finding::choice("queue depth", &depth, usize::from(self.depth > 1).max(self.queued)),
            Finding::choice("serves its queue by", self.policy.name(), self.queued),
        ]
    }
}
