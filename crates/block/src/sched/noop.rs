//! First come, first served.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::{Insertion, Pick, Scheduler, Spec};
use crate::{Nanos, Request};

pub(super) static SPEC: Spec = Spec {
    name: "noop",
    summary: "first come, first served",
    source: "Linux 2.6 block/noop-iosched.c",
    tunables: &[],
    build: |_| Box::new(Noop::default()),
};

#[derive(Default)]
struct Noop {
    queue: VecDeque<Request>,
}

impl Scheduler for Noop {
    fn insert(&mut self, _now: Nanos, request: Request) -> Insertion {
        self.queue.push_back(request);
        Insertion::Queued
    }

    fn pick(&mut self, _now: Nanos) -> Pick {
        self.queue.pop_front().map_or(Pick::Empty, Pick::Go)
    }

    fn retune(&mut self, _values: &[i64]) {}

    fn drain(&mut self, out: &mut Vec<Request>) {
        out.extend(self.queue.drain(..));
    }
}
