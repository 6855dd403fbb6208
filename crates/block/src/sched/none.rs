//! No scheduler: only the device's own queue.
//!
//! A request is admitted when the device has a tag for it, and is dispatched at once; the others wait for a tag. So nothing is merged or
//! sorted. Requests are queued here only while the queue is frozen.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::{Insertion, Pick, Room, Scheduler, SchedulerSpec, StarvationBound, Tags, wake_batch};
use crate::{Nanos, Request};

pub(super) static SPEC: SchedulerSpec = SchedulerSpec {
    name: "none",
    summary: "no scheduler: requests go to the device as long as it takes them, the others wait for a tag",
    source: "Linux 6.18 block/blk-mq.c",
    tunables: &[],
    work_conserving: true,
    starvation_bound: Some(|_| StarvationBound { expires: Nanos::ZERO, picks: 1 }),
    knowledge: None,
    build: |_, _| Box::new(NoScheduler { waiting: VecDeque::new() }),
};

struct NoScheduler {
    waiting: VecDeque<Request>,
}

impl Scheduler for NoScheduler {
    fn insert(&mut self, _now: Nanos, request: Request) -> Insertion {
        self.waiting.push_back(request);
        Insertion::Queued
    }

    fn pick(&mut self, _now: Nanos) -> Pick {
        self.waiting.pop_front().map_or(Pick::Empty, Pick::Go)
    }

    /// The driver's tags (`blk_mq_get_tag`): `nr_requests`, at most the depth of the device.
    fn tags(&self, room: &Room) -> Option<Tags> {
        let depth = room.nr_requests.min(room.device);
        Some(Tags { depth, wake_batch: wake_batch(depth) })
    }

    fn throttles_write_back(&self) -> bool {
        true
    }

    fn retune(&mut self, _values: &[i64]) {}

    fn drain(&mut self, out: &mut Vec<Request>) {
        out.extend(self.waiting.drain(..));
    }
}
