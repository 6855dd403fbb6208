//! LOOK, the elevator: up to the last request, down to the first, up again. Often called SCAN, which continues to the edge of the disk.
//!
//! ```text
//! LBA  0 ------100------300-----------900---->
//! up             1 ----> 2 ----------> 3
//! down           5 <------------- 4 <--'
//! ```

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{Insertion, Pick, Scheduler, SchedulerSpec};
use crate::queue::{Limits, Merging, Queue, QueuePosition};
use crate::{Nanos, Request};

pub(super) static SPEC: SchedulerSpec = SchedulerSpec {
    name: "scan",
    summary: "elevator: ascending LBAs to the last request, then descending to the first",
    source: "Worthington, Ganger, Patt, Scheduling algorithms for modern disk drives, SIGMETRICS 1994, section 2 (LOOK)",
    tunables: &[],
    work_conserving: true,
    starvation_bound: None,
    knowledge: None,
    build: |limits, _| Box::new(Scan::new(limits)),
};

const LANE: usize = 0;

struct Scan {
    queue: Queue,
    /// First sector of the last dispatched request when going down, its end when going up, so that repeated requests for one sector cannot
    /// hold the elevator.
    head: u64,
    down: bool,
}

impl Scan {
    fn new(limits: &Limits) -> Scan {
        Scan { queue: Queue::new(*limits, Merging { front: true, within_stream: false }), head: 0, down: false }
    }
}

impl Scheduler for Scan {
    fn insert(&mut self, _now: Nanos, request: Request) -> Insertion {
        self.queue.insert(LANE, Nanos::ZERO, request).into()
    }

    fn pick(&mut self, _now: Nanos) -> Pick {
        let head = QueuePosition { lba: self.head, sequence: 0 };
        let (below, ahead) = self.queue.around(LANE, head);
        let slot = if self.down { below.or(ahead) } else { ahead.or(below) };
        let Some(slot) = slot else { return Pick::Empty };
        self.down = Some(slot) == below;
        let request = self.queue.take(slot);
        self.head = if self.down { request.lba } else { request.end() };
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
