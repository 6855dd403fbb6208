//! The device's clock, and its rate (`ioc_timer_fn`, `ioc_adjust_base_vrate`).

use super::Tunables;
use crate::Nanos;

/// Fraction of a period above which waiting for room at the device counts as overload (`RQ_WAIT_BUSY_PCT`).
const BUSY: f64 = 0.05;
/// The device can take more below this fraction of the tolerated values (`UNBUSY_THR_PCT`).
const UNBUSY: f64 = 0.75;

/// The clock of the device: nanoseconds of completed work according to the model.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    /// The reading was `base` at `since`, and increases at `rate`.
    base: u64,
    since: Nanos,
    rate: f64,
    period: Nanos,
    /// Start of this period.
    began: Nanos,
    /// Number of consecutive periods in which the device was overloaded (positive), or could have taken more (negative).
    busy_level: i32,
    /// Reads and writes of this period, and the number of them that missed their latency target.
    done: [u32; 2],
    missed: [u32; 2],
    /// Total time for which eligible requests waited for room at the device.
    waited: Nanos,
    /// Whether requests waited for the clock.
    short: bool,
}

impl Clock {
    pub(super) fn new(set: &Tunables) -> Clock {
        Clock {
            base: 0,
            since: Nanos::ZERO,
            rate: 1.0_f64.clamp(set.min, set.max.max(set.min)),
            period: period(set),
            began: Nanos::ZERO,
            busy_level: 0,
            done: [0; 2],
            missed: [0; 2],
            waited: Nanos::ZERO,
            short: false,
        }
    }

    /// The reading at a time.
    pub(super) fn at(&self, time: Nanos) -> u64 {
        self.base.saturating_add(((time - self.since).0 as f64 * self.rate) as u64)
    }

    /// The time of a reading at the current rate.
    fn when(&self, reading: u64) -> Nanos {
        // Rounded up, as a host must not wake too early again and again.
        self.since + Nanos((reading.saturating_sub(self.base) as f64 / self.rate) as u64) + Nanos(1)
    }

    /// Time to check again for a reading: when it is due, or at the end of a period, as the rate may change then; but not after each of
    /// many short periods.
    pub(super) fn wake(&self, now: Nanos, reading: u64) -> Nanos {
        let due = self.when(reading);
        let half = now + Nanos((due - now).0 / 2);
        due.min(self.period_ends().max(half))
    }

    /// Maximum lag of a tenant's clock: half a period's budget (`MARGIN_TARGET_PCT`).
    pub(super) fn margin(&self) -> u64 {
        (self.period.0 as f64 * self.rate / 2.0) as u64
    }

    fn period_ends(&self) -> Nanos {
        self.began + self.period
    }

    /// Records whether a request met its latency target.
    pub(super) fn latency(&mut self, index: usize, in_time: bool) {
        self.done[index] += 1;
        self.missed[index] += u32::from(!in_time);
    }

    /// Records the dispatch of a request that was eligible from the reading `from` on.
    pub(super) fn waited_for_device(&mut self, now: Nanos, from: u64) {
        self.waited += Nanos((self.at(now).saturating_sub(from) as f64 / self.rate) as u64);
    }

    /// Records that a request waits for the clock.
    pub(super) fn short_of_budget(&mut self) {
        self.short = true;
    }

    /// Sets the rate at the end of a period, and returns the device time of that period; `None` during a period.
    pub(super) fn end_period(&mut self, now: Nanos, set: &Tunables) -> Option<u64> {
        if now < self.period_ends() {
            return None;
        }
        let elapsed = now - self.began;
        let budget = (elapsed.0 as f64 * self.rate) as u64;
        self.adjust(elapsed, set);
        (self.base, self.since) = (self.at(now), now);
        let least = set.min;
        let percent = f64::from(step(self.busy_level)) / 100.0;
        let factor = if self.busy_level > 0 { 1.0 - percent } else { 1.0 + percent };
        self.rate = (self.rate * factor).clamp(least, set.max.max(least));
        self.period = period(set);
        self.began = now;
        (self.done, self.missed, self.waited, self.short) = ([0; 2], [0; 2], Nanos::ZERO, false);
        Some(budget)
    }

    fn adjust(&mut self, elapsed: Nanos, set: &Tunables) {
        let waited = self.waited.0 as f64 / elapsed.0.max(1) as f64;
        let missed = |index: usize| f64::from(self.missed[index]) / f64::from(self.done[index].max(1));
        let allowed = |percentile: f64| if percentile > 0.0 { 1.0 - percentile } else { 1.0 };
        let (reads, writes) = (allowed(set.rpct), allowed(set.wpct));
        let exceeds = |margin: f64| waited > BUSY * margin || missed(0) > reads * margin || missed(1) > writes * margin;
        self.busy_level = if exceeds(1.0) {
            (self.busy_level.max(0) + 1).min(1_000)
        } else if !exceeds(UNBUSY) && self.short {
            (self.busy_level.min(0) - 1).max(-1_000)
        } else {
            0
        };
    }
}

/// Change of the rate in percent at a busy level (`vrate_adj_pct`): the longer the state lasts, the larger.
fn step(busy_level: i32) -> u32 {
    match busy_level.unsigned_abs() {
        0..4 => 0,
        4..20 => 1,
        20..36 => 2,
        36..44 => 4,
        44..52 => 8,
        _ => 16,
    }
}

/// Period length, long enough to measure a percentile of latencies (`ioc_refresh_period_us`).
fn period(set: &Tunables) -> Nanos {
    let (latency, percentile) = if set.rlat >= set.wlat { (set.rlat, set.rpct) } else { (set.wlat, set.wpct) };
    let multiple = if percentile > 0.0 { ((1.0 - percentile) * 20.0).max(2.0) } else { 2.0 };
    Nanos((latency.0 as f64 * multiple) as u64).clamp(Nanos::from_millis(1), Nanos::from_millis(1_000))
}
