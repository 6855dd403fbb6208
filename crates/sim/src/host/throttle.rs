//! Dirty throttling: the pace of writers, so that dirty pages stay within their limit.
//!
//! ```text
//! pace of a writer
//! 2x  |......\
//!     |       \__
//! 1x  |          ---o---.__             x = pages per second at which the number of dirty pages is constant
//!     |             |      \
//! 0   +-----|-------|-------|--> dirty pages
//!        freerun  setpoint  limit
//! ```
//! Follows `mm/page-writeback.c` of Linux 6.x: `domain_dirty_limits`, `pos_ratio_polynom`, `wb_update_write_bandwidth`,
//! `wb_update_dirty_ratelimit`, `wb_min_pause`, `dirty_poll_interval`. Simplified: the second control line (for each device and cgroup) is
//! left out, as are cgroups' limits of memory; floating point in place of shifts.

use block::Nanos;

use super::page_cache::PAGE;

/// `MAX_PAUSE`.
const MAX_PAUSE: Nanos = Nanos::from_millis(200);
/// `BANDWIDTH_INTERVAL`.
const INTERVAL: Nanos = Nanos::from_millis(200);
/// Averaging time of the write bandwidth, in seconds.
const PERIOD_SECONDS: f64 = 4.0;
/// Target length of a writer's sleep, in seconds.
const TARGET_PAUSE: f64 = 0.01;
/// Minimum number of pages dirtied between two pauses, which are lengthened if necessary (`DIRTY_POLL_THRESH`).
const MIN_PAGES_PER_PAUSE: f64 = 32.0;
/// Maximum lag that a writer may catch up, in seconds of its pace.
const MAX_LAG: f64 = 1.0;

/// Limits on the pages that are dirty or being written back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DirtyLimits {
    pub background: u64,
    pub limit: u64,
}

/// The part of the memory for file pages that may be dirty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DirtyShare {
    /// `dirty_ratio`, `dirty_background_ratio`.
    Percent(u64),
    /// `dirty_bytes`, `dirty_background_bytes`, in whole pages.
    Pages(u64),
}

impl DirtyShare {
    /// A limit in bytes takes precedence unless it is 0.
    pub fn new(percent: i64, bytes: i64) -> DirtyShare {
        match bytes.unsigned_abs() {
            0 => DirtyShare::Percent(percent.unsigned_abs()),
            bytes => DirtyShare::Pages(bytes.div_ceil(PAGE)),
        }
    }

    fn pages(self, available: u64) -> u64 {
        match self {
            DirtyShare::Percent(percent) => available * percent / 100,
            DirtyShare::Pages(pages) => pages,
        }
    }
}

impl DirtyLimits {
    /// The limits for `available` pages that may hold files.
    pub fn of(available: u64, limit: DirtyShare, background: DirtyShare) -> DirtyLimits {
        let limit = limit.pages(available).max(1);
        let background = background.pages(available);
        DirtyLimits { background: if background >= limit { limit / 2 } else { background }, limit }
    }

    /// Number of dirty pages below which no writer is throttled (`dirty_freerun_ceiling`).
    pub fn free_run(self) -> u64 {
        (self.limit + self.background) / 2
    }

    /// Number of pages that a process may write before it checks again (`dirty_poll_interval`).
    pub fn poll_interval(self, dirty: u64) -> u64 {
        if self.limit > dirty { 1 << ((self.limit - dirty).ilog2() / 2) } else { 1 }
    }
}

/// Write state of a process on a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Writer {
    /// Pages dirtied since the last check whether it must sleep, and pages that it may dirty before the next check.
    pub dirtied: u64,
    pub check_after: u64,
    /// End of its last sleep, or the end that its pace would have required.
    pub slept_until: Option<Nanos>,
}

impl Writer {
    pub fn new() -> Writer {
        Writer { dirtied: 0, check_after: MIN_PAGES_PER_PAUSE as u64, slept_until: None }
    }
}

/// The measured write bandwidth of the device, and the resulting pace of writers.
#[derive(Debug)]
pub(super) struct Throttle {
    /// Pages per second.
    bandwidth: f64,
    average_bandwidth: f64,
    /// Pages per second for each writer.
    pace: f64,
    balanced: f64,
    /// Pages made dirty, and pages written, so far.
    pub dirtied: u64,
    pub written: u64,
    at: Nanos,
    dirtied_then: u64,
    written_then: u64,
}

impl Throttle {
    /// Starts with an assumed write bandwidth in pages per second.
    pub fn new(bandwidth: f64) -> Throttle {
        Throttle {
            bandwidth,
            average_bandwidth: bandwidth,
            pace: bandwidth,
            balanced: bandwidth,
            dirtied: 0,
            written: 0,
            at: Nanos::ZERO,
            dirtied_then: 0,
            written_then: 0,
        }
    }

    /// Updates the measured bandwidth if the interval has passed. `writing`: whether writers are being throttled, so that the pace has an
    /// effect.
    pub fn update(&mut self, now: Nanos, limits: DirtyLimits, dirty: u64, writing: bool) {
        let elapsed = now - self.at;
        if elapsed < INTERVAL {
            return;
        }
        // After an idle period the figures reflect its length, not the speed of the device.
        if elapsed.0 < 5 * INTERVAL.0 {
            let seconds = elapsed.as_secs_f64();
            let written = (self.written - self.written_then) as f64 / seconds;
            if writing {
                let dirtied = (self.dirtied - self.dirtied_then) as f64 / seconds;
                self.update_pace(limits, dirty, dirtied);
            }
            self.update_bandwidth(written, seconds);
        }
        (self.at, self.dirtied_then, self.written_then) = (now, self.dirtied, self.written);
    }

    fn update_bandwidth(&mut self, seen: f64, seconds: f64) {
        let old = self.bandwidth;
        let share = (seconds / PERIOD_SECONDS).min(1.0);
        self.bandwidth = seen * share + old * (1.0 - share);
        let moves_on =
            (self.average_bandwidth > old && old >= self.bandwidth) || (self.average_bandwidth < old && old <= self.bandwidth);
        if moves_on {
            self.average_bandwidth += (old - self.average_bandwidth) / 8.0;
        }
    }

    fn update_pace(&mut self, limits: DirtyLimits, dirty: u64, dirtied: f64) {
        let task = self.pace * position_ratio(limits, dirty) + 1.0;
        let balanced = (task * self.bandwidth / dirtied.max(1.0)).min(self.bandwidth.max(1.0));
        let setpoint = (limits.free_run() + limits.limit) / 2;
        let step = if dirty < setpoint {
            (self.balanced.min(balanced).min(task) - self.pace).max(0.0)
        } else {
            (self.balanced.max(balanced).max(task) - self.pace).min(0.0)
        };
        // A step is damped more the smaller it is relative to the pace.
        let shift = (self.pace / (2.0 * step.abs() + 1.0)).min(64.0);
        self.pace = (self.pace + step / 8.0 / shift.floor().exp2()).max(1.0);
        self.balanced = balanced;
    }

    /// How long a process must sleep now; `None` if that is too short, so that it continues and sleeps later. `dirty` is the number of all
    /// dirty pages, `own` of those counted by this throttle.
    pub fn pause(&self, now: Nanos, limits: DirtyLimits, (dirty, own): (u64, u64), writer: &mut Writer) -> Option<Nanos> {
        let longest = self.longest_pause(own);
        let pace = self.pace * position_ratio(limits, dirty);
        let (check_after, shortest) = self.pages_between_pauses(longest.as_secs_f64(), pace);
        let pause = if dirty >= limits.limit || pace < 1.0 {
            longest
        } else {
            let period = writer.dirtied as f64 / pace;
            let since_it_slept = writer.slept_until.map_or(0.0, |until| now.as_secs_f64() - until.as_secs_f64());
            let pause = period - since_it_slept;
            if pause < shortest {
                let until = if pause < -MAX_LAG { now } else { writer.slept_until.unwrap_or(now) + Nanos::from_secs_f64(period) };
                *writer = Writer { dirtied: 0, slept_until: Some(until), ..*writer };
                return None;
            }
            Nanos::from_secs_f64(pause).min(longest)
        }
        .max(Nanos(1));
        *writer = Writer { dirtied: 0, check_after, slept_until: Some(now + pause) };
        Some(pause)
    }

    /// Number of pages that a throttled process may dirty before it checks again, and its minimum sleep then, in seconds (`wb_min_pause`).
    fn pages_between_pauses(&self, longest: f64, pace: f64) -> (u64, f64) {
        let log = |rate: f64| f64::max(rate, 1.0).log2().floor();
        // With more writers, pauses are longer, to save processor time.
        let mut pause = TARGET_PAUSE * (1.0 + f64::max(log(self.bandwidth) - log(self.pace), 0.0) * 1_000.0 / 1_024.0);
        pause = pause.min(longest / 2.0);
        let mut pages = self.pace * pause;
        if pages < MIN_PAGES_PER_PAUSE {
            pause = longest.min(MIN_PAGES_PER_PAUSE / self.pace);
            pages = self.pace * pause;
        }
        if pages > longest * pace {
            (pause, pages) = (longest, longest * pace);
        }
        ((pages as u64).max(1), if pages >= MIN_PAGES_PER_PAUSE { pause / 2.0 } else { pause })
    }

    /// `wb_max_pause`: the longest pause that does not starve the device.
    fn longest_pause(&self, dirty: u64) -> Nanos {
        Nanos::from_millis(1 + dirty / (1 + self.bandwidth as u64 / 128)).min(MAX_PAUSE)
    }

    /// Number of pages of one file that the flusher writes before it turns to the next (`writeback_chunk_size`): half a second's worth, in
    /// steps of 4 MiB.
    pub fn chunk(&self, limits: DirtyLimits) -> u64 {
        let pages = ((self.average_bandwidth / 2.0) as u64).min(limits.limit / 8);
        (pages + 1024) / 1024 * 1024
    }
}

/// `pos_ratio_polynom`: 1 at the setpoint, 2 at the end of the free run, 0 at the limit.
fn position_ratio(limits: DirtyLimits, dirty: u64) -> f64 {
    let setpoint = (limits.free_run() + limits.limit) as f64 / 2.0;
    let x = (setpoint - dirty as f64) / (limits.limit as f64 - setpoint).max(1.0);
    (1.0 + x * x * x).clamp(0.0, 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: DirtyLimits = DirtyLimits { background: 1000, limit: 2000 };

    #[test]
    fn the_background_share_is_always_below_the_limit() {
        let limits =
            |available, ratio, background| DirtyLimits::of(available, DirtyShare::new(ratio, 0), DirtyShare::new(background, 0));
        assert_eq!(limits(10_000, 20, 10), LIMITS);
        assert_eq!(limits(10_000, 20, 50), DirtyLimits { background: 1000, limit: 2000 });
        assert_eq!(limits(0, 20, 10), DirtyLimits { background: 0, limit: 1 });
    }

    #[test]
    fn limits_in_bytes_override_those_in_per_cent_page_by_page() {
        let limits =
            |bytes, background_bytes| DirtyLimits::of(10_000, DirtyShare::new(20, bytes), DirtyShare::new(10, background_bytes));
        assert_eq!(limits(0, 0), LIMITS);
        assert_eq!(limits(400 * 4096, 0), DirtyLimits { background: 200, limit: 400 }, "the background share must be lower");
        assert_eq!(limits(0, 100 * 4096 - 1), DirtyLimits { background: 100, limit: 2000 });
        assert_eq!(limits(400 * 4096 + 1, 4096), DirtyLimits { background: 1, limit: 401 });
        assert_eq!(limits(1 << 40, 1), DirtyLimits { background: 1, limit: 1 << 28 });
    }

    #[test]
    fn a_writer_finds_the_pace_of_the_device() {
        let mut throttle = Throttle::new(25_600.0);
        let (mut dirty, mut now) = (1500.0f64, Nanos::ZERO);
        // The device writes 5,000 pages per second; the writer follows the pace.
        for _ in 0..3000 {
            now += Nanos::from_millis(10);
            let dirtied = throttle.pace * position_ratio(LIMITS, dirty as u64) / 100.0;
            throttle.dirtied += dirtied as u64;
            throttle.written += 50;
            dirty = (dirty + dirtied - 50.0).clamp(0.0, 2000.0);
            throttle.update(now, LIMITS, dirty as u64, true);
        }
        let pace = throttle.pace * position_ratio(LIMITS, dirty as u64);
        assert!((pace / 5000.0 - 1.0).abs() < 0.15, "{pace} pages a second, {dirty} dirty");
        assert!((1500.0..2000.0).contains(&dirty), "{dirty}");
    }

    #[test]
    fn pauses_end_at_the_longest_and_at_the_limit_every_writer_sleeps() {
        let throttle = Throttle::new(25_600.0);
        let pause = |dirty, dirtied| throttle.pause(Nanos::ZERO, LIMITS, (dirty, dirty), &mut Writer { dirtied, ..Writer::new() });
        assert_eq!(pause(1750, 1_000_000), Some(throttle.longest_pause(1750)));
        assert!(pause(2000, 1) > Some(Nanos::ZERO));
    }

    const LARGE: DirtyLimits = DirtyLimits { background: 60_000, limit: 120_000 };
    /// The setpoint of these limits.
    const BALANCED: u64 = 105_000;

    #[test]
    fn the_slower_the_pace_compared_with_the_device_the_longer_the_pauses() {
        // A single writer, one of four, and one of 64 writers to a device with 21 MiB per second.
        for (pace, pages, pause_ms) in [(5_376.0, 53, 10.0), (1_344.0, 39, 29.5), (168.0, 32, 190.5)] {
            let throttle = Throttle { pace, ..Throttle::new(5_376.0) };
            let longest = throttle.longest_pause(BALANCED).as_secs_f64();
            assert_eq!(throttle.pages_between_pauses(longest, pace).0, pages, "{pace}");
            let mut writer = Writer { dirtied: pages, ..Writer::new() };
            let pause = throttle.pause(Nanos::ZERO, LARGE, (BALANCED, BALANCED), &mut writer);
            assert!(pause.is_some_and(|pause| (pause.as_millis_f64() / pause_ms - 1.0).abs() < 0.06), "{pace}: {pause:?}");
            assert_eq!((writer.dirtied, writer.check_after, writer.slept_until), (0, pages, pause));
        }
    }

    #[test]
    fn short_sleeps_are_postponed() {
        let throttle = Throttle::new(25_600.0);
        let mut writer = Writer { dirtied: 64, slept_until: Some(Nanos::ZERO), ..Writer::new() };
        // 2.5 ms of pages, without elapsed time.
        assert_eq!(throttle.pause(Nanos::ZERO, LARGE, (BALANCED, BALANCED), &mut writer), None);
        writer.dirtied = 192;
        let pause = throttle.pause(Nanos::ZERO, LARGE, (BALANCED, BALANCED), &mut writer);
        assert!(pause.is_some_and(|pause| (pause.as_millis_f64() - 10.0).abs() < 0.1), "{pause:?}");
        // The time between calls counts as sleep.
        writer.dirtied = 256;
        assert_eq!(throttle.pause(Nanos::from_millis(19), LARGE, (BALANCED, BALANCED), &mut writer), None);
    }
}
