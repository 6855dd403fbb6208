//! C-LOOK, the one-way elevator: up to the last request, back to the first, up again.
//!
//! ```text
//! LBA  0 ------100------300-----------900---->
//! sweep 1        1 ----> 2 ----------> 3
//!                ^---------------------'
//! ```

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{Insertion, Pick, Scheduler, SchedulerSpec};
use crate::queue::{Limits, Merging, Queue};
use crate::{Nanos, Request};

pub(super) static SPEC: SchedulerSpec = SchedulerSpec {
    name: "clook",
    summary: "one-way elevator: ascending LBAs, then back to the lowest",
    source: "Worthington, Ganger, Patt, Scheduling algorithms for modern disk drives, SIGMETRICS 1994, section 2",
    tunables: &[],
    work_conserving: true,
    starvation_bound: None,
    knowledge: None,
    build: |limits, _| Box::new(Clook::new(limits)),
};

const LANE: usize = 0;

struct Clook {
    queue: Queue,
    /// End of the last dispatched request. The sweep continues from there, so that repeated requests for one sector cannot hold the
    /// elevator.
    head: u64,
}

impl Clook {
    fn new(limits: &Limits) -> Clook {
        Clook { queue: Queue::new(*limits, Merging { front: true, within_stream: false }), head: 0 }
    }
}

impl Scheduler for Clook {
    fn insert(&mut self, _now: Nanos, request: Request) -> Insertion {
        self.queue.insert(LANE, Nanos::ZERO, request).into()
    }

    fn pick(&mut self, _now: Nanos) -> Pick {
        let Some(slot) = self.queue.next_in_sweep(LANE, self.head) else { return Pick::Empty };
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
