//! First come, first served.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{Insertion, Pick, Scheduler, SchedulerSpec, StarvationBound};
use crate::queue::{Limits, Merging, Queue};
use crate::{Nanos, Request};

pub(super) static SPEC: SchedulerSpec = SchedulerSpec {
    name: "noop",
    summary: "first come, first served; merges, never sorts",
    source: "Linux 2.6 block/noop-iosched.c",
    tunables: &[],
    work_conserving: true,
    starvation_bound: Some(|_| StarvationBound { expires: Nanos::ZERO, picks: 1 }),
    knowledge: None,
    build: |limits, _| Box::new(Noop::new(limits)),
};

const LANE: usize = 0;

/// The block layer finds back merges for it by a hash of request ends (`elv_merge` in `block/elevator.c`); front merges need a sorted
/// queue, which it lacks.
struct Noop {
    queue: Queue,
}

impl Noop {
    fn new(limits: &Limits) -> Noop {
        Noop { queue: Queue::new(*limits, Merging { front: false, within_stream: false }) }
    }
}

impl Scheduler for Noop {
    fn insert(&mut self, _now: Nanos, request: Request) -> Insertion {
        self.queue.insert(LANE, Nanos::ZERO, request).into()
    }

    fn pick(&mut self, _now: Nanos) -> Pick {
        self.queue.oldest(LANE).map_or(Pick::Empty, |slot| Pick::Go(self.queue.take(slot)))
    }

    fn retune(&mut self, _values: &[i64]) {}

    fn set_limits(&mut self, limits: &Limits) {
        self.queue.set_limits(limits);
    }

    fn drain(&mut self, out: &mut Vec<Request>) {
        self.queue.drain(out);
    }
}
