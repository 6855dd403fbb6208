//! Quantiles of integers in constant memory.

use hdrhistogram::Histogram;

/// Counts integers with a number of significant digits.
#[derive(Clone, Debug)]
pub(crate) struct Quantiles {
    counts: Histogram<u32>,
}

impl Quantiles {
    /// For numbers up to `highest` (at least 2; larger ones are clamped to it), with 1 to 5 significant digits. Allocates only here.
    #[expect(clippy::expect_used, reason = "refused only with bounds or digits that its callers do not give")]
    pub fn new(highest: u64, digits: u8) -> Quantiles {
        Quantiles { counts: Histogram::new_with_bounds(1, highest, digits).expect("bounds and digits in range") }
    }

    #[inline]
    pub fn add(&mut self, value: u64) {
        self.counts.saturating_record(value);
    }

    /// The smallest number that this share of them does not exceed, rounded down to the resolution; NaN without any.
    pub fn quantile(&self, share: f64) -> f64 {
        if self.counts.is_empty() {
            return f64::NAN;
        }
        self.counts.lowest_equivalent(self.counts.value_at_quantile(share)) as f64
    }

    pub fn clear(&mut self) {
        self.counts.reset();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_below_by_a_step_at_most() {
        for (digits, step) in [(1, 1.0 / 16.0), (2, 1.0 / 128.0)] {
            let mut quantiles = Quantiles::new(1 << 40, digits);
            assert!(quantiles.quantile(0.5).is_nan());
            (1..=100_000).for_each(|value| quantiles.add(value * 1000));
            for share in [0.01, 0.5, 0.95, 0.99, 1.0] {
                let ratio = quantiles.quantile(share) / (share * 1e8);
                assert!(ratio <= 1.0 && ratio >= 1.0 - step, "{share}: {ratio}");
            }
            quantiles.clear();
            assert!(quantiles.quantile(0.5).is_nan());
        }
    }

    #[test]
    fn numbers_beyond_the_bounds_are_counted_at_the_bound() {
        let mut quantiles = Quantiles::new(1 << 20, 2);
        quantiles.add(0);
        quantiles.add(u64::MAX);
        assert_eq!(quantiles.quantile(0.5), 0.0);
        assert!((quantiles.quantile(1.0) / f64::from(1 << 20) - 1.0).abs() < 0.01);
    }
}
