//! The per-request scheduler: the request with the shortest expected response time goes first.

use block::{Insertion, Nanos, Pick, Request, Scheduler, Spec};

/// Learns response times and goes by them.
pub static SPEC: Spec = Spec {
    name: "per-request",
    summary: "learns how long requests take and serves the shortest first",
    source: "Zhang and Bhargava, Self-Learning Disk Scheduling, section 3.3.3",
    tunables: &[],
    work_conserving: true,
    patience: None,
    build: |_, _| Box::new(PerRequest { queue: Vec::new() }),
};

struct PerRequest {
    queue: Vec<Request>,
}

impl Scheduler for PerRequest {
    fn insert(&mut self, _now: Nanos, request: Request) -> Insertion {
        self.queue.push(request);
        Insertion::Queued
    }

    fn pick(&mut self, _now: Nanos) -> Pick {
        if self.queue.is_empty() { Pick::Empty } else { Pick::Go(self.queue.remove(0)) }
    }

    fn retune(&mut self, _values: &[i64]) {}

    fn drain(&mut self, out: &mut Vec<Request>) {
        out.append(&mut self.queue);
    }
}
