//! Distributions of response times.

use block::Nanos;
use hdrhistogram::Histogram;

/// A distribution of response times: exact count, mean, deviation and extremes, quantiles to some significant digits.
#[derive(Clone, Debug)]
pub struct Responses {
    histogram: Histogram<u64>,
    sum: u128,
    /// Sum of the squares, in ns². Saturates only after 10^18 responses of ten seconds each.
    squares: u128,
    min: u64,
    max: u64,
}

impl Responses {
    pub(super) fn new(significant_digits: u8) -> Responses {
        // The bounds are constants within the crate's limits (low >= 1, high >= 2 low, digits <= 5); the range grows automatically. It
        // starts small: each of many streams has several histograms, some of which stay empty.
        #[expect(clippy::expect_used, reason = "constant arguments, valid by the crate's documentation")]
        let histogram = Histogram::new_with_bounds(1, 2, significant_digits).expect("valid bounds");
        let mut responses = Responses { histogram, sum: 0, squares: 0, min: u64::MAX, max: 0 };
        responses.histogram.auto(true);
        responses
    }

    pub(super) fn record(&mut self, response: Nanos) {
        // The histogram grows as needed; if it cannot, the value counts as its largest.
        if self.histogram.record(response.0).is_err() {
            self.histogram.saturating_record(response.0);
        }
        let exact = u128::from(response.0);
        self.sum += exact;
        self.squares = self.squares.saturating_add(exact * exact);
        self.min = self.min.min(response.0);
        self.max = self.max.max(response.0);
    }

    /// Adds the values of another distribution with the same number of digits.
    pub(super) fn add(&mut self, other: &Responses) {
        // It grows as it does for single values: only a histogram of fixed size can refuse.
        #[expect(clippy::expect_used, reason = "both grow by themselves")]
        self.histogram.add(&other.histogram).expect("a histogram that grows");
        self.sum += other.sum;
        self.squares = self.squares.saturating_add(other.squares);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// The same values with fewer significant digits. Buckets of fewer digits consist of whole buckets of more.
    pub(super) fn coarser(&self, significant_digits: u8) -> Responses {
        let mut coarser = Responses { histogram: Responses::new(significant_digits).histogram, ..*self };
        for step in self.histogram.iter_recorded() {
            // The histogram grows as needed, so this cannot fail.
            let _ = coarser.histogram.record_n(step.value_iterated_to(), step.count_since_last_iteration());
        }
        coarser
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The mean; zero if there are none.
    pub fn mean(&self) -> Nanos {
        Nanos((self.sum / u128::from(self.count().max(1))) as u64)
    }

    /// The standard deviation of all of them as a population; zero if there are none.
    pub fn deviation(&self) -> Nanos {
        let count = u128::from(self.count().max(1));
        // n · Σx² − (Σx)² is exact and never negative, unless a term overflows u128: then floating point is used.
        let spread = match (count.checked_mul(self.squares), self.sum.checked_mul(self.sum)) {
            (Some(squares), Some(square)) => squares.saturating_sub(square) as f64,
            _ => (count as f64 * self.squares as f64 - (self.sum as f64).powi(2)).max(0.0),
        };
        Nanos((spread.sqrt() / count as f64).round() as u64)
    }

    /// The shortest; zero if there are none.
    pub fn min(&self) -> Nanos {
        Nanos(self.min.min(self.max))
    }

    /// The longest.
    pub fn max(&self) -> Nanos {
        Nanos(self.max)
    }

    /// The response time that a share `quantile` of all requests does not exceed.
    pub fn quantile(&self, quantile: f64) -> Nanos {
        Nanos(self.histogram.value_at_quantile(quantile).min(self.max))
    }

    /// The cumulative distribution in some hundred steps: (response time, share of requests at most that).
    pub fn cumulative(&self) -> Vec<(Nanos, f64)> {
        let total = self.count() as f64;
        let mut below = 0;
        let mut points: Vec<(Nanos, f64)> = Vec::new();
        for step in self.histogram.iter_recorded() {
            below += step.count_since_last_iteration();
            let point = (Nanos(step.value_iterated_to().min(self.max)), below as f64 / total);
            // One point for each half per cent of requests or tenth of an octave suffices for any plot, and the tail stays visible.
            match points.last() {
                Some(&(at, share)) if point.1 - share < 0.005 && (point.0.0 as f64) < at.0 as f64 * 1.07 && point.1 < 1.0 => {}
                _ => points.push(point),
            }
        }
        points
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_mean_and_maximum_are_those_of_the_recorded_values() {
        let mut responses = Responses::new(3);
        (1..=1000).for_each(|ms| responses.record(Nanos::from_millis(ms)));
        assert_eq!(responses.count(), 1000);
        assert_eq!(responses.mean(), Nanos::from_micros(500_500));
        assert_eq!((responses.min(), responses.max()), (Nanos::from_millis(1), Nanos::from_millis(1000)));
        // Of 1 to n, the variance is (n² − 1) / 12.
        assert_eq!(responses.deviation(), Nanos((999_999f64 / 12.0).sqrt().mul_add(1e6, 0.0).round() as u64));
        for (quantile, ms) in [(0.5, 500.0), (0.99, 990.0), (0.999, 999.0)] {
            let measured = responses.quantile(quantile).as_millis_f64();
            assert!((measured / ms - 1.0).abs() < 0.002, "{quantile}: {measured} ms instead of {ms}");
        }
        let cumulative = responses.cumulative();
        assert!(cumulative.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1));
        assert_eq!(cumulative.last().map(|point| point.1), Some(1.0));
    }
}
