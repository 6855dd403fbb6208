//! Measures the processor time of a scheduler and of a controller: the same scheduler with a stopwatch around one call in sixteen.
//!
//! Reading the clock takes longer than most calls. Around every call it would take a quarter of a run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use block::{Insertion, Limits, LiveSwitch, Nanos, Pick, Request, Room, Roster, Scheduler, StreamId, Tags};
use statistics::Rank;

/// A span longer than this was interrupted: the operating system ran another process meanwhile.
const INTERRUPTED_NS: u64 = 100_000;

/// Accumulates processor time.
#[derive(Debug)]
pub struct Stopwatch {
    /// Cost of reading the clock, subtracted from each span.
    clock_ns: u64,
    spent_ns: AtomicU64,
}

impl Stopwatch {
    /// Starts at zero; measures the cost of the clock.
    #[expect(clippy::new_without_default, reason = "it measures the clock")]
    pub fn new() -> Stopwatch {
        Stopwatch { clock_ns: clock_cost_ns(), spent_ns: AtomicU64::new(0) }
    }

    /// The accumulated time in nanoseconds.
    pub fn spent_ns(&self) -> u64 {
        self.spent_ns.load(Ordering::Relaxed)
    }

    /// Times short work; spans of 100 µs or more are discarded as interrupted.
    pub fn uninterrupted<T>(stopwatch: &Option<Arc<Stopwatch>>, work: impl FnOnce() -> T) -> T {
        Stopwatch::timed(stopwatch, INTERRUPTED_NS, work)
    }

    /// Times work that may take long, for example because a model is trained in it.
    pub fn whole<T>(stopwatch: &Option<Arc<Stopwatch>>, work: impl FnOnce() -> T) -> T {
        Stopwatch::timed(stopwatch, u64::MAX, work)
    }

    fn timed<T>(stopwatch: &Option<Arc<Stopwatch>>, limit_ns: u64, work: impl FnOnce() -> T) -> T {
        let Some(stopwatch) = stopwatch else { return work() };
        let start = Instant::now();
        let result = work();
        stopwatch.charge(start, limit_ns, 1);
        result
    }

    /// Adds the span since `start`, which stands for `times` spans.
    fn charge(&self, start: Instant, limit_ns: u64, times: u64) {
        let span = start.elapsed().as_nanos() as u64;
        if span < limit_ns {
            self.spent_ns.fetch_add(span.saturating_sub(self.clock_ns) * times, Ordering::Relaxed);
        }
    }
}

/// One call in this many is timed, on average.
const SAMPLED: u64 = 16;

/// Selects the calls to time. The gap from one to the next is random, from 1 to 31, so that the selection does not align with a pattern
/// in the calls (insert, pick, completed, pick, …).
#[derive(Debug)]
struct Sampling {
    /// Calls until the next timed one, including it.
    until: u64,
    state: u64,
}

impl Sampling {
    fn new() -> Sampling {
        let mut sampling = Sampling { until: 0, state: 1 };
        sampling.until = sampling.gap();
        sampling
    }

    /// Xorshift64* (Vigna: An experimental exploration of Marsaglia's xorshift generators, scrambled, 2016).
    fn gap(&mut self) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        1 + (self.state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) % (2 * SAMPLED - 1)
    }

    /// Whether this call is timed.
    #[inline]
    fn is_next(&mut self) -> bool {
        self.until -= 1;
        if self.until > 0 {
            return false;
        }
        self.until = self.gap();
        true
    }
}

/// A scheduler with a sample of its calls timed by the wall clock; each timed call counts for `SAMPLED`.
pub struct Timed {
    scheduler: Box<dyn Scheduler>,
    stopwatch: Arc<Stopwatch>,
    sampling: Sampling,
}

impl Timed {
    /// Wraps a scheduler.
    pub fn new(scheduler: Box<dyn Scheduler>, stopwatch: Arc<Stopwatch>) -> Timed {
        Timed { scheduler, stopwatch, sampling: Sampling::new() }
    }

    #[inline]
    fn sampled<T>(&mut self, call: impl FnOnce(&mut dyn Scheduler) -> T) -> T {
        if !self.sampling.is_next() {
            return call(&mut *self.scheduler);
        }
        let start = Instant::now();
        let result = call(&mut *self.scheduler);
        self.stopwatch.charge(start, INTERRUPTED_NS, SAMPLED);
        result
    }
}

/// The median span between two readings of the clock with nothing between them.
fn clock_cost_ns() -> u64 {
    let mut spans: Vec<u64> = (0..101).map(|_| Instant::now().elapsed().as_nanos() as u64).collect();
    Rank::Above.of_ordered(&mut spans, 0.5).unwrap_or(0)
}

impl Scheduler for Timed {
    fn insert(&mut self, now: Nanos, request: Request) -> Insertion {
        self.sampled(|scheduler| scheduler.insert(now, request))
    }

    fn pick(&mut self, now: Nanos) -> Pick {
        self.sampled(|scheduler| scheduler.pick(now))
    }

    fn pick_with_cost(&mut self, now: Nanos, cost: &mut dyn FnMut(&Request) -> Option<Nanos>) -> Pick {
        self.sampled(|scheduler| scheduler.pick_with_cost(now, cost))
    }

    fn completed(&mut self, now: Nanos, request: &Request, service: Nanos) {
        self.sampled(|scheduler| scheduler.completed(now, request, service));
    }

    fn tags(&self, room: &Room) -> Option<Tags> {
        self.scheduler.tags(room)
    }

    fn open_tags(&self, depth: u32, request: &Request) -> u32 {
        self.scheduler.open_tags(depth, request)
    }

    fn throttles_write_back(&self) -> bool {
        self.scheduler.throttles_write_back()
    }

    fn live_switch(&self) -> LiveSwitch {
        self.scheduler.live_switch()
    }

    fn retune(&mut self, values: &[i64]) {
        self.scheduler.retune(values);
    }

    fn set_limits(&mut self, limits: &Limits) {
        self.scheduler.set_limits(limits);
    }

    fn set_roster(&mut self, roster: &Roster) {
        self.scheduler.set_roster(roster);
    }

    fn record_disk_time(&mut self, request: &Request, disk_time: Nanos) {
        self.sampled(|scheduler| scheduler.record_disk_time(request, disk_time));
    }

    fn flush_began(&mut self, now: Nanos, stream: StreamId) {
        self.sampled(|scheduler| scheduler.flush_began(now, stream));
    }

    fn flush_ended(&mut self, now: Nanos, stream: StreamId, since: Nanos) {
        self.sampled(|scheduler| scheduler.flush_ended(now, stream, since));
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

    /// Records its calls.
    struct CallLog(Arc<Mutex<Vec<&'static str>>>);

    impl CallLog {
        fn note(&self, what: &'static str) {
            self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(what);
        }
    }

    impl Scheduler for CallLog {
        fn insert(&mut self, _now: Nanos, _request: Request) -> Insertion {
            self.note("insert");
            Insertion::Queued
        }
        fn pick(&mut self, _now: Nanos) -> Pick {
            self.note("pick");
            Pick::Empty
        }
        fn pick_with_cost(&mut self, _now: Nanos, _cost: &mut dyn FnMut(&Request) -> Option<Nanos>) -> Pick {
            self.note("pick_with_cost");
            Pick::Empty
        }
        fn completed(&mut self, _now: Nanos, _request: &Request, _service: Nanos) {
            self.note("completed");
        }
        fn tags(&self, _room: &Room) -> Option<Tags> {
            self.note("tags");
            None
        }
        fn open_tags(&self, depth: u32, _request: &Request) -> u32 {
            self.note("open_tags");
            depth
        }
        fn throttles_write_back(&self) -> bool {
            self.note("throttles_write_back");
            true
        }
        fn live_switch(&self) -> LiveSwitch {
            self.note("live_switch");
            LiveSwitch::default()
        }
        fn retune(&mut self, _values: &[i64]) {
            self.note("retune");
        }
        fn set_limits(&mut self, _limits: &Limits) {
            self.note("set_limits");
        }
        fn set_roster(&mut self, _roster: &Roster) {
            self.note("set_roster");
        }
        fn record_disk_time(&mut self, _request: &Request, _disk_time: Nanos) {
            self.note("record_disk_time");
        }
        fn flush_began(&mut self, _now: Nanos, _stream: StreamId) {
            self.note("flush_began");
        }
        fn flush_ended(&mut self, _now: Nanos, _stream: StreamId, _since: Nanos) {
            self.note("flush_ended");
        }
        fn drain(&mut self, _out: &mut Vec<Request>) {
            self.note("drain");
        }
    }

    #[test]
    fn one_call_in_sixteen_is_timed_at_any_rhythm_of_calls() {
        let mut sampling = Sampling::new();
        let mut timed = [0; 4];
        for call in 0..160_000 {
            timed[call % 4] += u64::from(sampling.is_next());
        }
        for count in timed {
            assert!((2_300..2_700).contains(&count), "{timed:?} of 40,000 each");
        }
    }

    #[test]
    fn what_is_sampled_stands_for_all() {
        /// Takes its time.
        struct Slow;
        impl Scheduler for Slow {
            fn insert(&mut self, _now: Nanos, _request: Request) -> Insertion {
                Insertion::Queued
            }
            fn pick(&mut self, _now: Nanos) -> Pick {
                let start = Instant::now();
                while start.elapsed().as_micros() < 5 {}
                Pick::Empty
            }
            fn retune(&mut self, _values: &[i64]) {}
            fn drain(&mut self, _out: &mut Vec<Request>) {}
        }
        let stopwatch = Arc::new(Stopwatch::new());
        let mut timed = Timed::new(Box::new(Slow), stopwatch.clone());
        for _ in 0..4_000 {
            timed.pick(Nanos::ZERO);
        }
        // At least 20 ms: interrupted calls are discarded, and 250 samples vary by some per cent.
        let spent_ms = stopwatch.spent_ns() as f64 / 1e6;
        assert!((15.0..60.0).contains(&spent_ms), "{spent_ms} ms");
    }

    #[test]
    fn the_timed_scheduler_receives_every_call() {
        let told = Arc::new(Mutex::new(Vec::new()));
        let mut timed = Timed::new(Box::new(CallLog(told.clone())), Arc::new(Stopwatch::new()));
        let (op, priority, arrival) = (Op::Read, Priority::DEFAULT, Nanos::ZERO);
        let request = Request { id: 0, stream: 0, op, sync: true, priority, sectors: 8, lba: 0, arrival };
        timed.insert(Nanos::ZERO, request);
        timed.pick(Nanos::ZERO);
        timed.pick_with_cost(Nanos::ZERO, &mut |_| None);
        timed.completed(Nanos::ZERO, &request, Nanos::ZERO);
        timed.tags(&Room { nr_requests: 1, device: 1 });
        timed.open_tags(1, &request);
        timed.throttles_write_back();
        timed.live_switch();
        timed.retune(&[]);
        timed.set_limits(&Limits::default());
        timed.set_roster(&Roster::default());
        timed.record_disk_time(&request, Nanos::ZERO);
        timed.flush_began(Nanos::ZERO, 0);
        timed.flush_ended(Nanos::ZERO, 0, Nanos::ZERO);
        timed.drain(&mut Vec::new());
        let told = told.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        assert_eq!(
            *told,
            [
                "insert",
                "pick",
                "pick_with_cost",
                "completed",
                "tags",
                "open_tags",
                "throttles_write_back",
                "live_switch",
                "retune",
                "set_limits",
                "set_roster",
                "record_disk_time",
                "flush_began",
                "flush_ended",
                "drain"
            ]
        );
    }
}
