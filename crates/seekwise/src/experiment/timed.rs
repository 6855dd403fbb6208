//! How much processor time a scheduler takes: the same scheduler with a stopwatch around every call.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use block::{Insertion, Nanos, Pick, Request, Scheduler};

/// A call that seems to have taken longer was interrupted: the operating system gave the processor to somebody else meanwhile.
const INTERRUPTED_NS: u64 = 100_000;

/// A scheduler whose calls are timed by the wall clock.
pub struct Timed {
    scheduler: Box<dyn Scheduler>,
    /// What reading the clock costs, to be taken off each span.
    clock_ns: u64,
    spent_ns: Arc<AtomicU64>,
}

impl Timed {
    /// Wraps a scheduler; the nanoseconds it takes add up in the counter returned.
    pub fn new(scheduler: Box<dyn Scheduler>) -> (Timed, Arc<AtomicU64>) {
        let spent_ns = Arc::new(AtomicU64::new(0));
        (Timed { scheduler, clock_ns: clock_cost_ns(), spent_ns: spent_ns.clone() }, spent_ns)
    }

    fn charge(&self, start: Instant) {
        let span = start.elapsed().as_nanos() as u64;
        if span < INTERRUPTED_NS {
            self.spent_ns.fetch_add(span.saturating_sub(self.clock_ns), Ordering::Relaxed);
        }
    }
}

/// The median span between two readings of the clock with nothing between them.
fn clock_cost_ns() -> u64 {
    let mut spans: Vec<u64> = (0..101).map(|_| Instant::now().elapsed().as_nanos() as u64).collect();
    spans.sort_unstable();
    spans[spans.len() / 2]
}

impl Scheduler for Timed {
    fn insert(&mut self, now: Nanos, request: Request) -> Insertion {
        let start = Instant::now();
        let insertion = self.scheduler.insert(now, request);
        self.charge(start);
        insertion
    }

    fn pick(&mut self, now: Nanos) -> Pick {
        let start = Instant::now();
        let pick = self.scheduler.pick(now);
        self.charge(start);
        pick
    }

    fn completed(&mut self, now: Nanos, request: &Request, service: Nanos) {
        let start = Instant::now();
        self.scheduler.completed(now, request, service);
        self.charge(start);
    }

    fn retune(&mut self, values: &[i64]) {
        self.scheduler.retune(values);
    }

    fn drain(&mut self, out: &mut Vec<Request>) {
        self.scheduler.drain(out);
    }
}
