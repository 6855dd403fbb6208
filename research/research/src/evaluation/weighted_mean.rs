//! Means with confidence intervals.

use crate::report::evaluation::Interval;
use rand::{Rng as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;
use statistics::bootstrap::interval_95;

/// Number of bootstrap samples for an interval.
const SAMPLES: usize = 2000;

/// A weighted mean of (value, weight) pairs, with its interval by resampling the questions with replacement (percentile bootstrap: Efron,
/// Bootstrap methods, 1979). `None` if no weight is above 0.
pub fn weighted_mean(values: &[(f64, f64)], seed: u64) -> Option<Interval> {
    let mean = |values: &mut dyn Iterator<Item = (f64, f64)>| {
        let (sum, weight) = values.fold((0.0, 0.0), |(sum, all), (value, weight)| (sum + value * weight, all + weight));
        (weight > 0.0).then(|| sum / weight)
    };
    let value = mean(&mut values.iter().copied())?;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let draw = |below: usize| random.random_range(0..below);
    let (low, high) = interval_95(values.len(), SAMPLES, draw, |places| mean(&mut places.map(|place| values[place])))?;
    Some(Interval { value, low, high })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::*;

    #[test]
    fn an_interval_holds_the_mean_and_is_narrower_with_more_values() {
        let values = |count: usize| (0..count).map(|i| ((i % 2) as f64, 1.0)).collect::<Vec<_>>();
        let (few, many) = (weighted_mean(&values(10), 1).unwrap(), weighted_mean(&values(1000), 1).unwrap());
        assert_eq!((few.value, many.value), (0.5, 0.5));
        assert!(few.low < 0.5 && few.high > 0.5 && few.high - few.low > 3.0 * (many.high - many.low), "{few:?} {many:?}");
        assert_eq!(weighted_mean(&[(1.0, 0.0)], 1), None);
        assert_eq!(weighted_mean(&[], 1), None);
    }
}
