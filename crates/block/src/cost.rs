//! The expected cost of a request by its size: a linear fit to recent requests.

/// Length of the memory, in requests.
const MEMORY: f64 = 32.0;

/// Assumed disk time of a request before the first completion, in nanoseconds.
const FIRST_GUESS: f64 = 5e6;

/// Regression of disk time on sectors: exponentially weighted means and moments.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    count: f64,
    sectors: f64,
    time: f64,
    /// Variance of the sectors, and covariance of sectors and time.
    spread: f64,
    together: f64,
}

impl Cost {
    /// Adds a completed request with its disk time in nanoseconds.
    pub(crate) fn learn(&mut self, sectors: u32, took: u64) {
        if self.count < MEMORY {
            self.count += 1.0;
        }
        let rate = 1.0 / self.count;
        let (by_sectors, by_time) = (f64::from(sectors) - self.sectors, took as f64 - self.time);
        self.sectors += rate * by_sectors;
        self.time += rate * by_time;
        self.spread = (1.0 - rate) * (self.spread + rate * by_sectors * by_sectors);
        self.together = (1.0 - rate) * (self.together + rate * by_sectors * by_time);
    }

    /// Mean disk time of the recent requests in nanoseconds; `None` if there were none.
    pub(crate) fn mean(&self) -> Option<f64> {
        (self.count > 0.0).then_some(self.time)
    }

    /// Cost of a sector in nanoseconds; `None` if all requests had about the same size.
    fn slope(&self) -> Option<f64> {
        (self.spread > 1.0).then(|| (self.together / self.spread).max(0.0))
    }

    /// Expected disk time of a request in nanoseconds; parameters that are unknown here are taken from `others`.
    pub(crate) fn estimate(&self, sectors: u32, others: &Cost) -> u64 {
        self.estimate_or(sectors, others, 0.0)
    }

    /// The same; `slope` is the cost of a sector if all requests had the same size.
    pub(crate) fn estimate_or(&self, sectors: u32, others: &Cost, slope: f64) -> u64 {
        let of = if self.count > 0.0 { self } else { others };
        let Some(mean) = of.mean() else { return (FIRST_GUESS + slope * f64::from(sectors)) as u64 };
        let slope = of.slope().or(others.slope()).unwrap_or(slope);
        let estimate = mean + slope * (f64::from(sectors) - of.sectors);
        // A line through few points may extrapolate to any value, even below zero.
        estimate.max(mean / 16.0) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_expected_cost_of_large_requests_follows_the_fit() {
        let mut cost = Cost::default();
        assert_eq!(cost.estimate(8, &Cost::default()), 5_000_000);
        for sectors in [8, 64, 256, 16, 128].into_iter().cycle().take(200) {
            cost.learn(sectors, 4_000_000 + 20_000 * u64::from(sectors));
        }
        let expected = cost.estimate(1_000, &Cost::default());
        assert!((23_900_000..24_100_000).contains(&expected), "{expected}");
        let mut newcomer = Cost::default();
        newcomer.learn(8, 4_160_000);
        let expected = newcomer.estimate(1_000, &cost);
        assert!((23_900_000..24_100_000).contains(&expected), "the slope is that of others: {expected}");
    }
}
