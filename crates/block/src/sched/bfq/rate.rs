//! The peak rate of the device, estimated from dispatches and completions.

use crate::Nanos;
use crate::decay::DecayingMean;

/// Rates are in sectors per microsecond with 16 fraction bits (`BFQ_RATE_SHIFT`).
const SHIFT: u32 = 16;
/// Minimum samples of an estimate, and their minimum time (`BFQ_RATE_MIN_SAMPLES`, `BFQ_RATE_MIN_INTERVAL`).
const SAMPLES_MIN: u64 = 32;
const INTERVAL_MIN: Nanos = Nanos::from_millis(300);
/// Length of an observation (`BFQ_RATE_REF_INTERVAL`).
const INTERVAL: Nanos = Nanos::from_millis(1_000);
/// Pauses below this are ignored (`BFQ_MIN_TT`).
pub(super) const SHORT: Nanos = Nanos::from_millis(2);
/// Idle time of the device after which a new observation starts.
const DEVICE_IDLE: Nanos = Nanos::from_millis(100);
/// Rates above 20 sectors per microsecond are rejected as errors.
const RATE_MAX: u64 = 20 << SHIFT;

/// Reference rate and reference duration of weight raising in milliseconds, of a disk and of flash (`ref_rate`, `ref_wr_duration`).
const DISK: (u64, u64) = (14_000, 7_000);
const FLASH: (u64, u64) = (33_000, 2_500);

/// Mean interval between completions of random reads below which the device is not a disk.
const FASTEST_DISK: Nanos = Nanos::from_millis(1);
/// Decayed count above which the mean is valid: sixteen samples.
const ENOUGH_SAMPLES: u64 = 220;

/// The estimated peak rate (`bfq_update_peak_rate`), from dispatch times: over a long observation, dispatched and completed sectors are
/// equal.
pub(super) struct PeakRate {
    rate: u64,
    samples: u64,
    sequential: u64,
    sectors: u64,
    largest: u64,
    first_dispatch: Nanos,
    last_dispatch: Nanos,
    observed: Nanos,
    pub(super) last_completion: Nanos,
    rotation: Rotation,
}

impl PeakRate {
    pub(super) fn new() -> PeakRate {
        PeakRate {
            rate: DISK.0 * 2 / 3,
            samples: 0,
            sequential: 0,
            sectors: 0,
            largest: 0,
            first_dispatch: Nanos::ZERO,
            last_dispatch: Nanos::ZERO,
            observed: Nanos::ZERO,
            last_completion: Nanos::ZERO,
            rotation: Rotation::default(),
        }
    }

    /// Sectors transferred in a time span at the peak rate (`bfq_calc_max_budget`).
    pub(super) fn sectors_in(&self, span: Nanos) -> u64 {
        ((self.rate.saturating_mul(span.0 / 1_000)) >> SHIFT).max(1)
    }

    /// Duration of raising an interactive queue: the slower the device, the longer (`bfq_wr_duration`).
    pub(super) fn raising_time(&self) -> Nanos {
        let (rate, millis) = if self.is_flash() { FLASH } else { DISK };
        Nanos::from_millis((rate * millis / self.rate).clamp(3_000, 25_000))
    }

    pub(super) fn is_flash(&self) -> bool {
        self.rotation.is_flash
    }

    fn reset(&mut self, now: Nanos, sectors: u64) {
        (self.first_dispatch, self.last_dispatch) = (now, now);
        (self.samples, self.sequential) = (1, 0);
        (self.sectors, self.largest) = (sectors, sectors);
    }

    /// Records a dispatch with `others` in flight; returns whether the estimate changed.
    pub(super) fn dispatched(&mut self, now: Nanos, sectors: u64, seeks: bool, others: u32) -> bool {
        let mut changed = false;
        if self.samples == 0 {
            self.reset(now, sectors);
        } else if now - self.last_dispatch > DEVICE_IDLE && others == 0 {
            changed = self.conclude();
            self.reset(now, sectors);
        } else {
            self.samples += 1;
            let without_pause = others > 0 || now - self.last_completion < SHORT;
            self.sequential += u64::from(without_pause && !seeks);
            self.sectors = self.sectors.saturating_add(sectors);
            self.largest = if self.samples.is_multiple_of(32) { sectors } else { self.largest.max(sectors) };
            self.observed = now - self.first_dispatch;
            if self.observed >= INTERVAL {
                changed = self.conclude();
                self.reset(now, sectors);
            }
        }
        self.last_dispatch = now;
        changed
    }

    /// Records a completion; returns whether the estimate changed. A slow completion ends the observation before it.
    pub(super) fn completed(&mut self, now: Nanos) -> bool {
        let pause = (now - self.last_completion).0 / 1_000;
        let slow = pause > SHORT.0 / 1_000 && self.samples > 0 && (self.largest << SHIFT) / pause < 1 << (SHIFT - 10);
        let changed = slow && self.conclude();
        if slow {
            self.samples = 0;
        }
        self.last_completion = now;
        changed
    }

    /// Computes an estimate if the observation suffices (`bfq_update_rate_reset`). Returns whether the estimate changed.
    fn conclude(&mut self) -> bool {
        if self.samples < SAMPLES_MIN || self.observed < INTERVAL_MIN {
            return false;
        }
        let observed = self.observed.max(self.last_completion - self.first_dispatch);
        let rate = (self.sectors.min(u64::MAX >> SHIFT) << SHIFT) / (observed.0 / 1_000).max(1);
        // Only sequential access reaches the peak, unless it is exceeded anyway.
        if (self.sequential < (3 * self.samples) >> 2 && rate <= self.rate) || rate > RATE_MAX {
            return false;
        }
        // The new rate weighs between a tenth and a half, more for a longer and more sequential observation.
        let sequential = 9 * self.sequential / self.samples;
        let weight = (sequential * (observed.0 / 1_000) / (INTERVAL.0 / 1_000)).min(8);
        let divisor = 10 - weight;
        self.rate = (self.rate * (divisor - 1) / divisor + rate / divisor).max(1);
        true
    }

    /// Records the completion of a random read (far from the previous one of its queue and from the head), dispatched at `dispatch`.
    pub(super) fn random_read_completed(&mut self, now: Nanos, dispatch: Nanos) {
        self.rotation.random_read_completed(now, dispatch);
    }
}

/// Whether the device is rotational. The kernel knows it; here it is inferred: a disk needs milliseconds between two random reads, however
/// many it may choose from, flash does not. A disk is assumed until there are enough samples.
#[derive(Default)]
struct Rotation {
    is_flash: bool,
    last_completion: Nanos,
    pauses: DecayingMean,
}

impl Rotation {
    fn random_read_completed(&mut self, now: Nanos, dispatch: Nanos) {
        self.pauses.add((now - self.last_completion.max(dispatch)).0);
        self.last_completion = now;
        if self.pauses.samples() > ENOUGH_SAMPLES {
            self.is_flash = self.pauses.mean() < FASTEST_DISK.0;
        }
    }
}
