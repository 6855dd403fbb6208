//! Number of a tenant's requests needed to predict the mean cost of the next ones.
//!
//! The Allan variance (Allan, Statistics of atomic frequency standards, Proceedings of the IEEE 54, 1966) for m requests is half the mean
//! square of the difference between the mean times of m requests and of the next m. For random variation it falls as 1/m; for a drift it
//! rises again with m, as the next requests differ from these. So it distinguishes the paper's types 2 and 1, and shows over how many
//! requests a mean is valid.
//!
//! ```text
//! 1 request    o o o o o o o o     differences of neighbours
//! 2 requests   [o o] [o o] ...     of their means
//! 4 requests   [[o o] [o o]] ...   and so on
//! ```

use super::cycle::Stable;

/// For 1, 2, 4, … 128 requests.
const LEVELS: usize = 8;
/// Length of a variance's memory, in differences.
const MEMORY: f32 = 16.0;
/// Minimum number of differences of a variance.
const ENOUGH: f32 = 4.0;
/// The mean is known if it changes by at most a quarter; the remaining error is compensated in the next cycle.
const TOLERANCE: f32 = 0.25;

/// Statistics of the means of 2^n requests.
#[derive(Clone, Copy, Debug, Default)]
struct Level {
    last: f32,
    /// The last mean is the first of a pair.
    is_first: bool,
    differences: f32,
    variance: f32,
}

/// Allan variances of a tenant's service times.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stability {
    levels: [Level; LEVELS],
}

impl Stability {
    /// Adds the time of a request.
    pub(super) fn learn(&mut self, took: f32) {
        let mut mean = took;
        for level in &mut self.levels {
            let difference = mean - level.last;
            if level.differences > 0.0 || level.is_first {
                level.differences = (level.differences + 1.0).min(MEMORY);
                level.variance += (difference * difference / 2.0 - level.variance) / level.differences;
            }
            let pair = (level.last + mean) / 2.0;
            level.last = mean;
            level.is_first = !level.is_first;
            if level.is_first {
                return;
            }
            mean = pair;
        }
    }

    /// Number of requests needed, given their `mean` time. Without data, the paper's number for classes that are not stable.
    pub(super) fn requests(&self, mean: f32) -> u32 {
        let enough = TOLERANCE * TOLERANCE * mean * mean;
        let (mut least, mut requests) = (f32::MAX, Stable::No.requests());
        for (power, level) in self.levels.iter().enumerate().filter(|(_, level)| level.differences >= ENOUGH) {
            if level.variance < least {
                (least, requests) = (level.variance, 1 << power);
            }
            if least <= enough {
                break;
            }
        }
        requests
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(times: impl Iterator<Item = f32>) -> u32 {
        let (mut stability, mut sum, mut count) = (Stability::default(), 0.0, 0.0);
        for time in times {
            stability.learn(time);
            sum += time;
            count += 1.0;
        }
        stability.requests(sum / count)
    }

    /// Noise between -1 and 1.
    fn noise() -> impl Iterator<Item = f32> {
        let mut state = 88_172_645_463_325_252_u64;
        core::iter::from_fn(move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            Some((state >> 40) as f32 / (1 << 23) as f32 - 1.0)
        })
    }

    #[test]
    fn equal_requests_need_no_averaging() {
        assert_eq!(after(core::iter::repeat_n(5.0, 500)), 1);
    }

    #[test]
    fn more_variation_needs_more_requests() {
        let needed = |spread: f32| after(noise().take(4_000).map(|noise| 10.0 + spread * noise));
        let needed = [1.0, 4.0, 9.0].map(needed);
        assert!(needed.is_sorted() && needed[0] == 1 && needed[2] >= 4, "{needed:?}");
    }

    #[test]
    fn drifting_requests_are_averaged_over_fewer() {
        // With the drift of 0.5 per request, the mean of many predicts less than that of a few.
        let drifting = noise().take(4_000).enumerate().map(|(number, noise)| 100.0 + (number % 400) as f32 * 2.0 + 200.0 * noise);
        let steady = noise().take(4_000).map(|noise| 100.0 + 200.0 * noise);
        let (drifting, steady) = (after(drifting), after(steady));
        assert!(drifting < steady, "{drifting} against {steady}");
    }
}
