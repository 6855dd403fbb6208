//! Means with their standard errors.

use observe::performance::Performance;
use observe::preference::Preference;
use statistics::sample;

use super::{CRITICAL_VALUE, DRIFT};
use crate::Window;

/// Minimum number of known loads for a prediction. Choice: fewer have no usable spread, more exclude short experience; not varied.
const MIN_KNOWN_LOADS: usize = 3;

/// A score, or a gain as a difference of scores, and its standard error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The best estimate.
    pub mean: f64,
    /// Its standard error; never negative.
    pub error: f64,
}

impl Estimate {
    /// The score of all windows as one, with the standard error of their scores; `None` with fewer than two windows, or if no request
    /// completed. The mean of the windows' scores is not used, as it depends on their length: it is lower for shorter windows.
    pub fn of_windows<'a>(windows: impl Iterator<Item = &'a Window> + Clone, preference: &Preference) -> Option<Estimate> {
        let scores: Vec<f64> = windows.clone().map(|window| window.outcome.score(preference)).collect();
        let whole = Performance::of(windows.map(|window| &window.outcome))?;
        Some(Estimate { mean: whole.score(preference), ..Estimate::of_values(&scores)? })
    }

    /// The mean of independent values with its standard error; `None` with fewer than two.
    pub fn of_values(values: &[f64]) -> Option<Estimate> {
        sample::mean_and_error(values).map(|(mean, error)| Estimate { mean, error })
    }

    /// Combines two independent estimates of one quantity, weighted by their precision.
    #[must_use]
    pub fn combined(&self, other: &Estimate) -> Estimate {
        let mean = weighted_by_precision((self.mean, self.error), (other.mean, other.error));
        Estimate { mean, error: self.error * other.error / self.error.hypot(other.error).max(f64::MIN_POSITIVE) }
    }

    /// The gain over a baseline measured at another time: the error includes [`DRIFT`].
    #[must_use]
    pub fn over(&self, baseline: &Estimate) -> Estimate {
        let error = error_of_difference(self.error.powi(2), baseline.error.powi(2));
        Estimate { mean: self.mean - baseline.mean, error }
    }

    /// Predicts the gain under another load from the weights and gains of known loads; `None` with fewer than three loads. If one load has
    /// most of the weight, the spread is unknown and the error is large.
    pub fn expected(known: &[(f64, f64)]) -> Option<Estimate> {
        let whole: f64 = known.iter().map(|(weight, _)| weight).sum();
        // The effective sample size (Kish).
        let count = whole.powi(2) / known.iter().map(|(weight, _)| weight.powi(2)).sum::<f64>();
        let mean = known.iter().map(|(weight, gain)| weight * gain).sum::<f64>() / whole;
        let spread = known.iter().map(|(weight, gain)| weight * (gain - mean).powi(2)).sum::<f64>() / whole;
        let error = (spread * count / (count - 1.0) * (1.0 + 1.0 / count)).sqrt();
        (known.len() >= MIN_KNOWN_LOADS && error.is_finite()).then_some(Estimate { mean, error })
    }

    /// Whether this gain is significant and above `least`.
    pub fn is_significant_gain(&self, least: f64) -> bool {
        self.mean > least.max(CRITICAL_VALUE * self.error)
    }

    /// Whether this gain is a significant loss of more than `least`.
    pub fn is_significant_loss(&self, least: f64) -> bool {
        self.mean < -least.max(CRITICAL_VALUE * self.error)
    }
}

/// Standard error of the difference of two scores with these variances, measured at different times: includes [`DRIFT`].
pub fn error_of_difference(variance: f64, other: f64) -> f64 {
    (variance + other + DRIFT * DRIFT).sqrt()
}

/// The precision-weighted mean of two values, each with its standard error. A value with an error of 0 decides.
pub fn weighted_by_precision(one: (f64, f64), other: (f64, f64)) -> f64 {
    let precision = |error: f64| error.max(f64::MIN_POSITIVE).powi(-2).min(f64::MAX);
    let (of_one, of_other) = (precision(one.1), precision(other.1));
    (one.0 * of_one + other.0 * of_other) / (of_one + of_other)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::*;

    #[test]
    fn near_loads_weigh_more_than_far_ones_in_an_expected_gain() {
        let alike = Estimate::expected(&[(1.0, 0.1), (1.0, 0.2), (1.0, 0.3)]).unwrap();
        // The spread between loads, combined with the error of the mean of three.
        assert!((alike.mean - 0.2).abs() < 1e-12 && (alike.error - 0.1 * (1.0 + 1.0 / 3.0_f64).sqrt()).abs() < 1e-12, "{alike:?}");
        let near = Estimate::expected(&[(1.0, 0.3), (1.0, 0.3), (1.0, 0.3), (0.5, -0.1), (0.5, -0.1)]).unwrap();
        assert!(near.mean > 0.19 && near.error > 0.1, "{near:?}");
        let one = Estimate::expected(&[(1.0, 0.3), (0.01, 0.1), (0.01, 0.1)]).unwrap();
        assert!(one.mean > 0.29 && one.error > 0.1, "one load is most of what is known: {one:?}");
        assert_eq!(Estimate::expected(&[(1.0, 0.3), (1.0, 0.3)]), None, "two loads");
        assert_eq!(Estimate::expected(&[]), None);
    }

    #[test]
    fn gains_are_significant_beyond_two_standard_errors_and_the_least_gain() {
        let gain = |mean, error| Estimate { mean, error };
        assert!(gain(0.1, 0.04).is_significant_gain(0.02) && !gain(0.1, 0.05).is_significant_gain(0.02));
        assert!(!gain(0.02, 0.0).is_significant_gain(0.02));
        assert!(gain(-0.1, 0.04).is_significant_loss(0.02) && !gain(-0.1, 0.05).is_significant_loss(0.02));
    }

    #[test]
    fn combined_estimates_are_weighted_by_precision() {
        let combined = Estimate { mean: 0.3, error: 0.1 }.combined(&Estimate { mean: -0.1, error: 0.1 });
        assert!((combined.mean - 0.1).abs() < 1e-12 && (combined.error - 0.1 / 2.0_f64.sqrt()).abs() < 1e-12, "{combined:?}");
        assert!((weighted_by_precision((0.3, 0.1), (-0.1, 0.0)) + 0.1).abs() < 1e-9);
    }
}
