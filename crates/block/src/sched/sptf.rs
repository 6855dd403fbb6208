//! Shortest positioning time first: the request that the device can reach soonest, according to a model of its arm and platter.
//!
//! No kernel has such a model, so this bounds the gain of a scheduler that had one. A host with such estimates passes them to
//! [`Scheduler::pick_with_cost`]; without them, distance stands for time as in `sstf`. Distant requests starve as long as near ones keep
//! arriving.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{Insertion, Pick, Scheduler, SchedulerSpec};
use crate::queue::{Limits, Merging, Queue, Slot};
use crate::{Nanos, Request};

pub(super) static SPEC: SchedulerSpec = SchedulerSpec {
    name: "sptf",
    summary: "the request that the device can reach soonest, which only a simulated one knows; others may starve",
    source: "Worthington, Ganger, Patt, Scheduling algorithms for modern disk drives, SIGMETRICS 1994 (SPTF)",
    tunables: &[],
    work_conserving: true,
    starvation_bound: None,
    knowledge: None,
    build: |limits, _| Box::new(Sptf::new(limits)),
};

const LANE: usize = 0;

struct Sptf {
    queue: Queue,
    /// End of the last dispatched request.
    head: u64,
}

impl Sptf {
    fn new(limits: &Limits) -> Sptf {
        Sptf { queue: Queue::new(*limits, Merging { front: true, within_stream: false }), head: 0 }
    }

    /// The cheapest request, the oldest of several; `None` if any request has no cost.
    fn cheapest(&self, cost: &mut dyn FnMut(&Request) -> Option<Nanos>) -> Option<Slot> {
        let mut candidate = self.queue.oldest(LANE)?;
        let mut best = (cost(self.queue.request(candidate))?, candidate);
        while let Some(newer) = self.queue.newer(candidate) {
            candidate = newer;
            let cost = cost(self.queue.request(candidate))?;
            if cost < best.0 {
                best = (cost, candidate);
            }
        }
        Some(best.1)
    }

    fn take(&mut self, slot: Option<Slot>) -> Pick {
        let Some(slot) = slot else { return Pick::Empty };
        let request = self.queue.take(slot);
        self.head = request.end();
        Pick::Go(request)
    }

    fn nearest(&self) -> Option<Slot> {
        self.queue.nearest(LANE, self.head, u64::MAX, 1)
    }
}

impl Scheduler for Sptf {
    fn insert(&mut self, _now: Nanos, request: Request) -> Insertion {
        self.queue.insert(LANE, Nanos::ZERO, request).into()
    }

    fn pick(&mut self, _now: Nanos) -> Pick {
        self.take(self.nearest())
    }

    fn pick_with_cost(&mut self, _now: Nanos, cost: &mut dyn FnMut(&Request) -> Option<Nanos>) -> Pick {
        let slot = if self.queue.len() > 1 { self.cheapest(cost) } else { None };
        self.take(slot.or_else(|| self.nearest()))
    }

    fn retune(&mut self, _values: &[i64]) {}

    fn set_limits(&mut self, limits: &Limits) {
        self.queue.set_limits(limits);
    }

    fn drain(&mut self, out: &mut Vec<Request>) {
        self.queue.drain(out);
    }
}
