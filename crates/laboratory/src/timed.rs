//! How much processor time a scheduler takes, and who steers it: the same scheduler with a stopwatch around every call.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use block::{Insertion, Limits, Nanos, Pick, Request, Scheduler};

/// A call that seems to have taken longer was interrupted: the operating system gave the processor to somebody else meanwhile.
const INTERRUPTED_NS: u64 = 100_000;

/// Adds up processor time.
#[derive(Debug)]
pub struct Stopwatch {
    /// What reading the clock costs, to be taken off each span.
    clock_ns: u64,
    spent_ns: AtomicU64,
}

impl Stopwatch {
    /// At zero.
    pub fn new() -> Stopwatch {
        Stopwatch { clock_ns: clock_cost_ns(), spent_ns: AtomicU64::new(0) }
    }

    /// What has added up, in nanoseconds.
    pub fn spent_ns(&self) -> u64 {
        self.spent_ns.load(Ordering::Relaxed)
    }

    /// Adds short work; what seems to have taken long is left out.
    pub fn uninterrupted<T>(stopwatch: &Option<Arc<Stopwatch>>, work: impl FnOnce() -> T) -> T {
        Stopwatch::timed(stopwatch, INTERRUPTED_NS, work)
    }

    /// Adds work that may take long: a model may be learned in it.
    pub fn whole<T>(stopwatch: &Option<Arc<Stopwatch>>, work: impl FnOnce() -> T) -> T {
        Stopwatch::timed(stopwatch, u64::MAX, work)
    }

    fn timed<T>(stopwatch: &Option<Arc<Stopwatch>>, limit_ns: u64, work: impl FnOnce() -> T) -> T {
        let Some(stopwatch) = stopwatch else { return work() };
        let start = Instant::now();
        let result = work();
        stopwatch.charge(start, limit_ns);
        result
    }

    fn charge(&self, start: Instant, limit_ns: u64) {
        let span = start.elapsed().as_nanos() as u64;
        if span < limit_ns {
            self.spent_ns.fetch_add(span.saturating_sub(self.clock_ns), Ordering::Relaxed);
        }
    }
}

/// A scheduler whose calls are timed by the wall clock.
pub struct Timed {
    scheduler: Box<dyn Scheduler>,
    stopwatch: Arc<Stopwatch>,
}

impl Timed {
    /// Wraps a scheduler.
    pub fn new(scheduler: Box<dyn Scheduler>, stopwatch: Arc<Stopwatch>) -> Timed {
        Timed { scheduler, stopwatch }
    }

    fn charge(&self, start: Instant) {
        self.stopwatch.charge(start, INTERRUPTED_NS);
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

    fn set_limits(&mut self, limits: &Limits) {
        self.scheduler.set_limits(limits);
    }

    fn drain(&mut self, out: &mut Vec<Request>) {
        self.scheduler.drain(out);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use block::{Op, Priority};

    use super::*;

    /// Writes down what it is told.
    struct Told(Arc<Mutex<Vec<&'static str>>>);

    impl Told {
        fn note(&self, what: &'static str) {
            self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(what);
        }
    }

    impl Scheduler for Told {
        fn insert(&mut self, _now: Nanos, _request: Request) -> Insertion {
            self.note("insert");
            Insertion::Queued
        }
        fn pick(&mut self, _now: Nanos) -> Pick {
            self.note("pick");
            Pick::Empty
        }
        fn completed(&mut self, _now: Nanos, _request: &Request, _service: Nanos) {
            self.note("completed");
        }
        fn retune(&mut self, _values: &[i64]) {
            self.note("retune");
        }
        fn set_limits(&mut self, _limits: &Limits) {
            self.note("set_limits");
        }
        fn drain(&mut self, _out: &mut Vec<Request>) {
            self.note("drain");
        }
    }

    #[test]
    fn the_scheduler_behind_the_stopwatch_is_told_everything() {
        let told = Arc::new(Mutex::new(Vec::new()));
        let mut timed = Timed::new(Box::new(Told(told.clone())), Arc::new(Stopwatch::new()));
        let (op, priority, arrival) = (Op::Read, Priority::DEFAULT, Nanos::ZERO);
        let request = Request { id: 0, stream: 0, op, sync: true, priority, sectors: 8, lba: 0, arrival };
        timed.insert(Nanos::ZERO, request);
        timed.pick(Nanos::ZERO);
        timed.completed(Nanos::ZERO, &request, Nanos::ZERO);
        timed.retune(&[]);
        timed.set_limits(&Limits::default());
        timed.drain(&mut Vec::new());
        let told = told.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        assert_eq!(*told, ["insert", "pick", "completed", "retune", "set_limits", "drain"]);
    }
}
