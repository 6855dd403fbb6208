//! Write-back throttling: limits buffered writes in the queue and at the device, so that reads do not wait behind them.
//!
//! ```text
//! the shortest read latency at the device, by windows of 100 ms
//!   above the target (wbt_lat_usec) --> step down: half as many writes, a shorter window
//!   below it, or no reads           --> step up
//! ```
//! Follows `block/blk-wbt.c` of Linux 6.x, with the depths of `block/blk-rq-qos.c` and the windows of `block/blk-stat.c`. A window counts
//! completions from its beginning on; the next begins where it ends, as long as writes are in flight or the depth is not the default.
//! Windows end when the queue is next called, so that they cost no events, unless a request waits for their end.
//!
//! Not modelled: synchronous write-back (fsync), which Linux counts and holds to the whole depth, passes here like direct
//! writes; times are nanoseconds, not jiffies; a request that could join a queued one waits all the same.

use std::cell::Cell;

use block::{Nanos, Op, RequestId, StreamId};

use crate::streams::{FLUSHER, KSWAPD};

/// `RWB_DEF_DEPTH`.
const DEFAULT_DEPTH: u32 = 16;
/// `RWB_WINDOW_NSEC`.
const WINDOW: Nanos = Nanos::from_millis(100);
/// `RWB_MIN_WRITE_SAMPLES`.
const MIN_WRITE_SAMPLES: u32 = 3;
/// `RWB_UNKNOWN_BUMP`.
const UNKNOWN_WINDOWS: u32 = 5;
/// Time after a read during which further reads are expected (`close_io`).
const READ_EXPECTED: Nanos = Nanos::from_millis(100);
/// Time after a writer slept for too many dirty pages during which memory counts as short (`wb_recent_wait`).
const WRITER_SLEPT: Nanos = Nanos::from_millis(1_000);

/// Classes of throttled requests, each with its own count and line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Background,
    Kswapd,
    Discard,
}

const CLASSES: usize = 3;

/// The class of a request; `None` if it is not throttled (`wbt_should_throttle`).
#[inline]
pub(super) fn class(op: Op, sync: bool, stream: StreamId) -> Option<Class> {
    match op {
        Op::Read => None,
        Op::Discard => Some(Class::Discard),
        Op::Write if sync => None,
        Op::Write if stream == KSWAPD => Some(Class::Kswapd),
        Op::Write => Some(Class::Background),
    }
}

/// The state of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WindowState {
    Ok,
    TooSlow,
    OnlyWrites,
    Unknown,
}

/// The depths of the queue for writes (`struct rq_depth`, `calc_wb_limits`).
#[derive(Debug, Default)]
struct Depths {
    /// `blk_queue_depth`.
    queue_depth: u32,
    /// If positive, the number of times the depth is halved; if negative, doubled.
    step: i32,
    deepest: bool,
    max: u32,
    normal: u32,
    background: u32,
}

impl Depths {
    /// The default depths of a queue.
    fn new(queue_depth: u32) -> Depths {
        let mut depths = Depths { queue_depth, ..Depths::default() };
        depths.compute();
        depths
    }

    /// Computes the depths from the step (`rq_depth_calc_max_depth`, `calc_wb_limits`). Returns whether they are the maximum.
    fn compute(&mut self) -> bool {
        let default = DEFAULT_DEPTH.min(self.queue_depth);
        let max = (u64::from(self.queue_depth) * 3 / 4) as u32;
        let (depth, deepest) = match (self.queue_depth, self.step) {
            // A device that takes one request at a time has the next one ready.
            (0 | 1, 1..) => (1, false),
            (0 | 1, _) => (2, true),
            (_, 0) => (default, false),
            (_, 1..) => (1 + ((default - 1) >> self.step.min(31)), false),
            _ => {
                let deeper = 1 + (u64::from(default - 1) << self.step.unsigned_abs().min(31));
                if deeper > u64::from(max) { (max, true) } else { (deeper as u32, false) }
            }
        };
        self.max = depth;
        (self.normal, self.background) = if depth <= 2 { (depth, 1) } else { (depth.div_ceil(2), depth.div_ceil(4)) };
        deepest
    }

    /// Increases the depths by a step. Returns `false` at the maximum.
    fn step_up(&mut self) -> bool {
        if self.deepest {
            return false;
        }
        self.step -= 1;
        self.deepest = self.compute();
        true
    }

    /// Reduces the depths by a step; with `at_once`, depth gained without reads is given up in one step. Returns `false` at the minimum.
    fn step_down(&mut self, at_once: bool) -> bool {
        if self.max <= 1 {
            return false;
        }
        self.step = if self.step < 0 && at_once { 0 } else { self.step + 1 };
        self.compute();
        self.deepest = false;
        true
    }
}

/// A window over completions.
#[derive(Debug, Default)]
struct LatencyWindow {
    length: Nanos,
    /// Its end; `None` if none is open.
    ends: Option<Nanos>,
    /// Reads completed in it, and their shortest latency.
    reads: u32,
    shortest_read: Nanos,
    writes: u32,
}

impl LatencyWindow {
    /// Opens a window, which is shorter the more often the depth was halved (`rwb_arm_timer`).
    fn open(&mut self, at: Nanos, step: i32) {
        let steps = u64::from(step.max(0).unsigned_abs());
        self.length = Nanos((WINDOW.0 << 4) / ((steps + 1) << 8).isqrt());
        self.ends = Some(at + self.length);
    }

    /// Opens no other window for as long as each would have the same result, up to `now`.
    fn extend(&mut self, at: Nanos, now: Nanos) {
        if let Some(ends) = &mut self.ends {
            *ends = at + Nanos(((now - at).0 / self.length.0 + 1) * self.length.0);
        }
    }

    fn clear(&mut self) {
        (self.reads, self.writes) = (0, 0);
    }

    fn add_read(&mut self, latency: Nanos) {
        self.shortest_read = if self.reads == 0 { latency } else { self.shortest_read.min(latency) };
        self.reads += 1;
    }
}

/// `struct rq_wb`.
#[derive(Debug, Default)]
pub(super) struct WriteBackThrottle {
    /// Target latency of reads at the device; zero if throttling is off.
    target: Nanos,
    /// Whether the device reports writes before they are on the media.
    caches_writes: bool,
    depths: Depths,
    window: LatencyWindow,
    /// Number of windows in a row that tell nothing.
    unknown: u32,
    /// A read at the device and its dispatch time: the first after the last such read was done.
    watched: Option<(RequestId, Nanos)>,
    /// Time of the last submission or completion of a read.
    last_read: Option<Nanos>,
    writer_slept: Option<Nanos>,
    /// By class: requests in the queue and at the device, and whether others wait; until they are woken, later ones wait behind them.
    in_flight: [u32; CLASSES],
    asleep: Cell<[bool; CLASSES]>,
}

impl WriteBackThrottle {
    #[inline]
    pub fn is_on(&self) -> bool {
        self.target > Nanos::ZERO
    }

    /// Sets the target; zero disables throttling. A change resets the depth to its default (`wbt_set_min_lat`).
    pub fn set(&mut self, target: Nanos, queue_depth: u32, caches_writes: bool) {
        if (self.target, self.depths.queue_depth) == (target, queue_depth) {
            return;
        }
        (self.target, self.caches_writes) = (target, caches_writes);
        self.depths = Depths::new(queue_depth);
        if !self.is_on() {
            (self.window.ends, self.watched) = (None, None);
        }
        self.wake_all();
    }

    fn step_up(&mut self) {
        if self.depths.step_up() {
            self.unknown = 0;
            self.wake_all();
        }
    }

    /// As [`Depths::step_down`].
    fn step_down(&mut self, at_once: bool) -> bool {
        let was_reduced = self.depths.step_down(at_once);
        if was_reduced {
            self.unknown = 0;
        }
        was_reduced
    }

    fn wake_all(&mut self) {
        self.asleep.set([false; CLASSES]);
    }

    fn all_in_flight(&self) -> u32 {
        self.in_flight.iter().sum()
    }

    fn is_memory_short(&self, now: Nanos) -> bool {
        self.writer_slept.is_some_and(|at| now < at + WRITER_SLEPT)
    }

    fn expects_reads(&self, now: Nanos) -> bool {
        self.last_read.is_some_and(|at| now < at + READ_EXPECTED)
    }

    /// Ends the windows that are over by `now` (`wb_timer_fn`).
    #[inline]
    pub fn catch_up(&mut self, now: Nanos) {
        while let Some(at) = self.window.ends.filter(|&at| at <= now) {
            self.end_window(at, now);
        }
    }

    fn end_window(&mut self, at: Nanos, now: Nanos) {
        let mut stays = false;
        match self.window_state(at) {
            WindowState::TooSlow => _ = self.step_down(true),
            WindowState::Ok | WindowState::OnlyWrites => self.step_up(),
            WindowState::Unknown => {
                self.unknown += 1;
                if self.unknown >= UNKNOWN_WINDOWS && self.depths.step > 0 {
                    self.step_up();
                } else if self.unknown >= UNKNOWN_WINDOWS && self.depths.step < 0 {
                    stays = !self.step_down(false);
                }
            }
        }
        self.window.clear();
        if self.depths.step == 0 && self.all_in_flight() == 0 {
            self.window.ends = None;
            return;
        }
        self.window.open(at, self.depths.step);
        if stays {
            self.window.extend(at, now);
        }
    }

    /// `latency_exceeded`.
    fn window_state(&self, at: Nanos) -> WindowState {
        let watched = self.watched.map_or(Nanos::ZERO, |(_, since)| Nanos(at.0.saturating_sub(since.0)));
        let window = &self.window;
        if watched > window.length || (watched > self.target && window.reads == 0) {
            return WindowState::TooSlow;
        }
        if window.reads == 0 || window.writes < MIN_WRITE_SAMPLES {
            let writes = window.writes > 0 || self.is_memory_short(at) || self.all_in_flight() > 0;
            return if writes { WindowState::OnlyWrites } else { WindowState::Unknown };
        }
        if window.shortest_read > self.target { WindowState::TooSlow } else { WindowState::Ok }
    }

    /// End of a window that may wake a request; `None` if none waits.
    #[inline]
    pub fn next_event(&self) -> Option<Nanos> {
        self.window.ends.filter(|_| self.asleep.get() != [false; CLASSES])
    }

    /// Whether a request of this class is admitted. If not, it waits, and all others of the class behind it (`rq_qos_wait`).
    pub fn admits(&self, now: Nanos, class: Class, stream: StreamId) -> bool {
        let mut asleep = self.asleep.get();
        let is_asleep = &mut asleep[class as usize];
        *is_asleep = *is_asleep || self.in_flight[class as usize] >= self.limit(now, class, stream);
        let admits = !*is_asleep;
        self.asleep.set(asleep);
        admits
    }

    /// `get_limit`.
    fn limit(&self, now: Nanos, class: Class, stream: StreamId) -> u32 {
        match class {
            Class::Discard => self.depths.background,
            Class::Kswapd => self.depths.max,
            Class::Background if self.is_memory_short(now) => self.depths.max,
            // The flusher's writes are marked as background (`wbc_to_write_flags`).
            Class::Background if stream == FLUSHER || self.expects_reads(now) => self.depths.background,
            Class::Background => self.depths.normal,
        }
    }

    /// Counts an admitted request of this class that was not merged.
    pub fn admitted(&mut self, now: Nanos, class: Class) {
        self.in_flight[class as usize] += 1;
        if self.window.ends.is_none() {
            self.window.clear();
            self.window.open(now, self.depths.step);
        }
    }

    /// Releases a request of this class that completed or was merged (`wbt_rqw_done`). Waiting requests are woken only when there is room
    /// for several; with a write cache in the device only when none is left, unless memory is short.
    pub fn released(&mut self, now: Nanos, class: Class) {
        let in_flight = &mut self.in_flight[class as usize];
        *in_flight = in_flight.saturating_sub(1);
        let in_flight = *in_flight;
        let limit = match class {
            Class::Discard => self.depths.background,
            _ if self.caches_writes && !self.is_memory_short(now) => 0,
            _ => self.depths.normal,
        };
        if in_flight == 0 || (in_flight < limit && limit - in_flight >= self.depths.background / 2) {
            self.asleep.get_mut()[class as usize] = false;
        }
    }

    /// Notes the submission of a read.
    #[inline]
    pub fn read_submitted(&mut self, now: Nanos) {
        self.last_read = Some(now);
    }

    /// Notes the dispatch of a read to the device.
    #[inline]
    pub fn read_dispatched(&mut self, now: Nanos, id: RequestId) {
        self.watched.get_or_insert((id, now));
    }

    /// Notes the completion of a request after `service`.
    pub fn completed(&mut self, now: Nanos, id: RequestId, op: Op, service: Nanos) {
        self.catch_up(now);
        if op != Op::Read {
            self.window.writes += 1;
            return;
        }
        self.window.add_read(service);
        self.last_read = Some(now);
        self.watched = self.watched.filter(|&(watched, _)| watched != id);
    }

    /// Notes that a process that dirtied pages is being slowed down.
    pub fn writer_sleeps(&mut self, now: Nanos) {
        self.catch_up(now);
        self.writer_slept = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: StreamId = 7;

    fn ms(millis: u64) -> Nanos {
        Nanos::from_millis(millis)
    }

    fn throttle(queue_depth: u32, caches_writes: bool) -> WriteBackThrottle {
        let mut throttle = WriteBackThrottle::default();
        throttle.set(ms(75), queue_depth, caches_writes);
        throttle
    }

    /// Admits as many requests as possible at `now`. Returns the number in flight then.
    fn fill(throttle: &mut WriteBackThrottle, now: Nanos, class: Class, stream: StreamId) -> u32 {
        while throttle.admits(now, class, stream) {
            throttle.admitted(now, class);
        }
        throttle.in_flight[class as usize]
    }

    #[test]
    fn each_step_halves_or_doubles_the_depth() {
        let mut depths = Depths::new(32);
        let mut at_step = |step| {
            depths.step = step;
            let deepest = depths.compute();
            (depths.max, depths.normal, depths.background, deepest)
        };
        assert_eq!(at_step(0), (16, 8, 4, false));
        assert_eq!(at_step(1), (8, 4, 2, false));
        assert_eq!(at_step(3), (2, 2, 1, false));
        assert_eq!(at_step(9), (1, 1, 1, false));
        assert_eq!(at_step(-1), (24, 12, 6, true));
        let mut single = Depths::new(1);
        assert_eq!((single.max, single.normal, single.background), (2, 2, 1));
        assert!(single.step_down(true));
        assert_eq!(single.max, 1);
        assert!(!single.step_down(true), "there is nothing less");
    }

    #[test]
    fn the_limit_depends_on_the_class_and_on_recent_reads() {
        let later = ms(10_000);
        let in_flight = |class, stream, prepare: fn(&mut WriteBackThrottle)| {
            let mut throttle = throttle(32, false);
            prepare(&mut throttle);
            fill(&mut throttle, later, class, stream)
        };
        let read_lately: fn(&mut WriteBackThrottle) = |throttle| throttle.read_submitted(ms(9_901));
        let read_before: fn(&mut WriteBackThrottle) = |throttle| throttle.read_submitted(ms(9_900));
        let short: fn(&mut WriteBackThrottle) = |throttle| throttle.writer_sleeps(ms(9_001));
        assert_eq!(in_flight(Class::Background, STREAM, |_| {}), 8);
        assert_eq!(in_flight(Class::Background, STREAM, read_before), 8);
        assert_eq!(in_flight(Class::Background, STREAM, read_lately), 4);
        assert_eq!(in_flight(Class::Background, FLUSHER, |_| {}), 4);
        assert_eq!(in_flight(Class::Background, FLUSHER, short), 16);
        assert_eq!(in_flight(Class::Kswapd, KSWAPD, read_lately), 16);
        assert_eq!(in_flight(Class::Discard, STREAM, short), 4);
        assert_eq!(class(Op::Write, true, STREAM), None);
        assert_eq!(class(Op::Read, false, STREAM), None);
    }

    #[test]
    fn waiters_wake_when_several_may_enter_or_with_a_write_cache_when_none_is_left() {
        for (caches_writes, woken_at) in [(false, 6), (true, 0)] {
            let mut throttle = throttle(32, caches_writes);
            assert_eq!(fill(&mut throttle, ms(0), Class::Background, STREAM), 8);
            let left = (0..8).rev().find(|_| {
                throttle.released(ms(1), Class::Background);
                throttle.admits(ms(1), Class::Background, STREAM)
            });
            assert_eq!(left, Some(woken_at), "caches writes: {caches_writes}");
        }
    }

    #[test]
    fn slow_reads_shorten_the_queue_and_the_window_until_they_are_fast() {
        let mut throttle = throttle(32, false);
        let mut now = Nanos::ZERO;
        let mut window = |throttle: &mut WriteBackThrottle, read_ms| {
            fill(throttle, now, Class::Background, STREAM);
            now = throttle.window.ends.unwrap();
            for _ in 0..MIN_WRITE_SAMPLES {
                throttle.completed(now - Nanos(1), 1, Op::Write, ms(1));
            }
            throttle.completed(now - Nanos(1), 2, Op::Read, ms(read_ms));
            throttle.catch_up(now);
            (throttle.depths.max, throttle.window.length.0 / 1_000_000)
        };
        assert_eq!(window(&mut throttle, 76), (8, 72));
        assert_eq!(window(&mut throttle, 200), (4, 59));
        assert_eq!(window(&mut throttle, 75), (8, 72));
        assert_eq!(window(&mut throttle, 1), (16, 100));
        assert_eq!(window(&mut throttle, 1), (24, 100));
        assert_eq!(window(&mut throttle, 76), (16, 100), "the gained depth is given up at once");
    }

    #[test]
    fn a_slow_read_counts_before_it_is_done() {
        let mut throttle = throttle(32, false);
        fill(&mut throttle, ms(0), Class::Background, STREAM);
        throttle.read_dispatched(ms(20), 3);
        throttle.catch_up(ms(100));
        assert_eq!(throttle.depths.max, 8, "80 ms at the device");
        throttle.completed(ms(101), 3, Op::Read, ms(81));
        assert_eq!(throttle.watched, None);
    }

    #[test]
    fn a_pause_of_any_length_resets_the_depth_and_ends_the_windows() {
        for queue_depth in [1, 2, 3, 32, 1000] {
            for (step, deepest) in [(4, false), (-1, false), (-3, false), (0, false)] {
                let mut throttle = throttle(queue_depth, false);
                (throttle.depths.step, throttle.depths.deepest) = (step, deepest);
                throttle.depths.compute();
                throttle.window.open(ms(0), step);
                throttle.catch_up(Nanos::from_millis(1 << 40));
                let stuck = throttle.depths.max == 1 && throttle.depths.step < 0;
                assert!(stuck || throttle.depths.step == 0, "{queue_depth} at {step}: {}", throttle.depths.step);
                assert!(stuck || throttle.window.ends.is_none());
                assert!(throttle.window.ends.is_none_or(|ends| ends > Nanos::from_millis(1 << 40)));
            }
        }
    }
}
