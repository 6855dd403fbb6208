//! ADIOS's model of a device: the latency of one operation as `base + slope × size`, for requests of up to 4 KiB only `base`.
//!
//! ```text
//! latency ÷ prediction   0 ──── 1 ──── 2 ─────────── 5 ───────────── 8 …
//! bucket                 0      20     40            70 → capped at the last one, 63
//! ```
//! Latencies are collected in buckets and enter the model together, after 1,024 of them or 1.5 s; the highest 1% is discarded as outliers.
//! After a certain amount of data, the sums of the model are reduced to a half, three quarters or seven eighths, so that later latencies
//! count.

use crate::Nanos;

/// Requests of at most this many sectors, 4 KiB, are samples of the base; longer ones of the slope (`LM_BLOCK_SIZE_THRESHOLD`).
const SMALL: u32 = 8;
/// Number of latencies that enter the model without waiting for [`INTERVAL`] (`LM_SAMPLES_THRESHOLD`).
const MIN_SAMPLES: u64 = 1_024;
/// Time after which fewer latencies enter as well (`LM_INTERVAL_THRESHOLD`).
const INTERVAL: Nanos = Nanos::from_millis(1_500);
/// Percentage of latencies that are not outliers (`LM_OUTLIER_PERCENTILE`).
const INLIERS: u64 = 99;
/// `LM_LAT_BUCKET_COUNT`.
const BUCKETS: usize = 64;

/// When the model's sums are reduced, and by how much.
#[derive(Clone, Copy)]
pub(super) struct Shrinking {
    /// After this many thousand small requests.
    pub(super) at_kreqs: u64,
    /// After this many GiB of larger requests.
    pub(super) at_gbytes: u64,
    /// The sums are reduced by one part in 2 to this power.
    pub(super) resist: u32,
}

/// Sums of latencies with a similar ratio to their predictions.
#[derive(Clone, Copy, Default)]
struct Bucket {
    samples: u64,
    latency: u64,
    kib: u64,
}

impl Bucket {
    fn add(&mut self, other: Bucket) {
        self.samples = self.samples.saturating_add(other.samples);
        self.latency = self.latency.saturating_add(other.latency);
        self.kib = self.kib.saturating_add(other.kib);
    }

    /// The part of its sums for `samples` of its samples.
    fn part(self, samples: u64) -> Bucket {
        let scale = |sum: u64| (u128::from(sum) * u128::from(samples) / u128::from(self.samples.max(1))) as u64;
        Bucket { samples, latency: scale(self.latency), kib: scale(self.kib) }
    }
}

/// Latencies since the last update of the model.
struct Buckets([Bucket; BUCKETS]);

impl Default for Buckets {
    fn default() -> Buckets {
        Buckets([Bucket::default(); BUCKETS])
    }
}

impl Buckets {
    fn add(&mut self, latency: u64, kib: u64, predicted: u64) {
        self.0[bucket(latency, predicted)].add(Bucket { samples: 1, latency, kib });
    }

    fn samples(&self) -> u64 {
        self.0.iter().map(|bucket| bucket.samples).sum()
    }

    /// The sums of the lowest `percent` of the samples; empties the buckets.
    fn take(&mut self, percent: u64) -> Bucket {
        let mut left = self.samples() * percent / 100;
        let mut sums = Bucket::default();
        for bucket in core::mem::take(self).0 {
            let part = if bucket.samples <= left { bucket } else { bucket.part(left) };
            left -= part.samples;
            sums.add(part);
        }
        sums
    }
}

/// The bucket of a latency (`lm_input_bucket_index`).
fn bucket(latency: u64, predicted: u64) -> usize {
    let (latency, predicted) = (u128::from(latency), u128::from(predicted.max(1)));
    let bucket = match latency / predicted {
        0..2 => latency * 20 / predicted,
        2..5 => latency * 10 / predicted + 20,
        _ => latency * 3 / predicted + 40,
    };
    bucket.min(BUCKETS as u128 - 1) as usize
}

/// The latency model of one operation.
#[derive(Default)]
pub(super) struct Model {
    /// In nanoseconds; 0 until the first small request has completed.
    base: u64,
    /// Nanoseconds per KiB beyond the first 4.
    slope: u64,
    small: Bucket,
    large: Bucket,
    new_small: Buckets,
    new_large: Buckets,
    updated: Nanos,
}

impl Model {
    /// Whether the base is known, without which nothing is predicted.
    pub(super) fn has_base(&self) -> bool {
        self.base > 0
    }

    /// Predicted latency of a request of this size in nanoseconds; 0 until the base is known.
    pub(super) fn predict(&self, sectors: u32) -> u64 {
        self.base.saturating_add(self.slope.saturating_mul(u64::from(sectors.saturating_sub(SMALL)).div_ceil(2)))
    }

    /// Adds a latency. The first one of a small request becomes the base at once; before that, longer requests are ignored.
    pub(super) fn add(&mut self, now: Nanos, sectors: u32, latency: Nanos, predicted: u64, shrinking: &Shrinking) {
        let kib = u64::from(sectors).div_ceil(2);
        if sectors <= SMALL {
            self.new_small.add(latency.0, kib, self.base);
            if !self.has_base() {
                self.update(now, shrinking);
            }
        } else if self.has_base() && predicted > 0 {
            self.new_large.add(latency.0, kib, predicted);
        }
    }

    /// Updates base and slope from the latencies added since the last update, if there are enough of them or it was long ago
    /// (`latency_model_update`).
    pub(super) fn update(&mut self, now: Nanos, shrinking: &Shrinking) {
        let is_due = !self.has_base() || self.updated + INTERVAL <= now;
        let enters = |samples: u64, first: bool| samples > 0 && (is_due || first || samples >= MIN_SAMPLES);
        let percent = |first: bool| if first { 100 } else { INLIERS };
        let (first_small, first_large) = (self.base == 0, self.slope == 0);
        let learns_small = enters(self.new_small.samples(), first_small);
        // `is_due` was decided by the previous base.
        let learns_large = enters(self.new_large.samples(), first_large);
        if learns_small {
            let sums = self.new_small.take(percent(first_small));
            self.learn_base(sums, shrinking);
        }
        if learns_large {
            let sums = self.new_large.take(percent(first_large));
            self.learn_slope(sums, shrinking);
        }
        if learns_small || learns_large || is_due {
            self.updated = now;
        }
    }

    fn learn_base(&mut self, sums: Bucket, shrinking: &Shrinking) {
        if self.small.samples >= 1_000 * shrinking.at_kreqs {
            self.small.samples -= self.small.samples >> shrinking.resist;
            self.small.latency -= self.small.latency >> shrinking.resist;
        }
        self.small.add(sums);
        if let Some(base) = self.small.latency.checked_div(self.small.samples) {
            self.base = base;
        }
    }

    /// As in Linux, the base is subtracted from the sum of the latencies once, not once per request. So most of it is part of the slope,
    /// and predictions for large requests are too high by about the base.
    fn learn_slope(&mut self, sums: Bucket, shrinking: &Shrinking) {
        if self.large.kib >= (shrinking.at_gbytes << 20) {
            self.large.kib -= self.large.kib >> shrinking.resist;
            self.large.latency -= self.large.latency >> shrinking.resist;
        }
        let latency = if sums.latency > self.base { sums.latency - self.base } else { sums.latency };
        self.large.add(Bucket { latency, ..sums });
        if let Some(slope) = self.large.latency.checked_div(self.large.kib) {
            self.slope = slope;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHRINKING: Shrinking = Shrinking { at_kreqs: 5_000, at_gbytes: 50, resist: 2 };
    const US: u64 = 1_000;

    /// Adds a latency every millisecond, and updates every hundredth.
    fn learn(model: &mut Model, begin: u64, latencies: impl IntoIterator<Item = (u32, u64)>) {
        for (number, (sectors, latency)) in latencies.into_iter().enumerate() {
            let now = Nanos::from_millis(begin + number as u64);
            let predicted = model.predict(sectors);
            model.add(now, sectors, Nanos(latency), predicted, &SHRINKING);
            if number % 100 == 99 {
                model.update(now, &SHRINKING);
            }
        }
    }

    #[test]
    fn it_converges_to_a_device_of_constant_latency() {
        let mut model = Model::default();
        assert_eq!(model.predict(8), 0, "nothing is known");
        learn(&mut model, 0, std::iter::repeat_n((8, 900 * US), 1).chain(std::iter::repeat_n((8, 100 * US), 20_000)));
        assert!((100 * US..101 * US).contains(&model.predict(8)), "{}", model.predict(8));
        assert_eq!(model.predict(1), model.predict(8));
    }

    #[test]
    fn it_learns_what_a_kib_more_takes() {
        let mut model = Model::default();
        let latency = |sectors: u32| 80 * US + 2 * US * u64::from(sectors / 2);
        let sizes = [8, 512, 1_024].into_iter().cycle();
        learn(&mut model, 0, sizes.take(30_000).map(|sectors| (sectors, latency(sectors))));
        for sectors in [512, 1_024] {
            let (predicted, took) = (model.predict(sectors), latency(sectors));
            assert!(predicted > took && predicted < took + 120 * US, "{sectors} sectors: {predicted}, {took}");
        }
    }

    #[test]
    fn an_outlier_hardly_moves_it() {
        let mut model = Model::default();
        learn(&mut model, 0, std::iter::repeat_n((8, 100 * US), 4_000));
        let before = model.predict(8);
        let few = (0..2_000).map(|n| (8, if n % 200 == 0 { 50_000 * US } else { 100 * US }));
        learn(&mut model, 10_000, few);
        let moved = model.predict(8).abs_diff(before);
        assert!(moved <= US, "half a percent of latencies of 50 ms moved it by {moved} ns");
        learn(&mut model, 20_000, std::iter::repeat_n((8, 200 * US), 4_000));
        assert!(model.predict(8) > before + 30 * US, "usual latencies move it: {}", model.predict(8));
    }

    #[test]
    fn it_follows_a_device_that_changes_once_it_has_seen_enough() {
        let shrinking = Shrinking { at_kreqs: 1, resist: 1, ..SHRINKING };
        let follow = |shrinking: &Shrinking| {
            let mut model = Model::default();
            for number in 0..100_000 {
                let latency = if number < 50_000 { 100 * US } else { 300 * US };
                let now = Nanos::from_millis(number);
                model.add(now, 8, Nanos(latency), 0, shrinking);
                if number % 100 == 0 {
                    model.update(now, shrinking);
                }
            }
            model.predict(8)
        };
        assert!(follow(&shrinking) > 290 * US);
        assert!(follow(&SHRINKING) < 210 * US, "it remembers up to five million");
    }
}
