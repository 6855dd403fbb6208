//! Shortest seek time first: the request nearest to the head, in either direction.
//!
//! LBA distance stands for seek time, which a host does not know. Distant requests starve as long as near ones keep arriving.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{Insertion, Pick, Scheduler, SchedulerSpec};
use crate::queue::{Limits, Merging, Queue};
use crate::{Nanos, Request};

pub(super) static SPEC: SchedulerSpec = SchedulerSpec {
    name: "sstf",
    summary: "the request nearest to the head; far ones may starve",
    source: "Denning, Effects of scheduling on file memory operations, AFIPS SJCC 1967",
    tunables: &[],
    work_conserving: true,
    starvation_bound: None,
    knowledge: None,
    build: |limits, _| Box::new(Sstf::new(limits)),
};

const LANE: usize = 0;

struct Sstf {
    queue: Queue,
    /// End of the last dispatched request.
    head: u64,
}

impl Sstf {
    fn new(limits: &Limits) -> Sstf {
        Sstf { queue: Queue::new(*limits, Merging { front: true, within_stream: false }), head: 0 }
    }
}

impl Scheduler for Sstf {
    fn insert(&mut self, _now: Nanos, request: Request) -> Insertion {
        self.queue.insert(LANE, Nanos::ZERO, request).into()
    }

    fn pick(&mut self, _now: Nanos) -> Pick {
        // At equal distance the one ahead, as the platter rotates towards it.
        let Some(slot) = self.queue.nearest(LANE, self.head, u64::MAX, 1) else { return Pick::Empty };
        let request = self.queue.take(slot);
        self.head = request.end();
        Pick::Go(request)
    }

    fn retune(&mut self, _values: &[i64]) {}

    fn set_limits(&mut self, limits: &Limits) {
        self.queue.set_limits(limits);
    }

    fn drain(&mut self, out: &mut Vec<Request>) {
        self.queue.drain(out);
    }
}
