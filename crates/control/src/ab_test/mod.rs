//! Whether one setting is better than another: scores with standard errors, and tests of their difference.
//!
//! A score is a logarithm ([`observe::merit`]), so a difference of scores is a relative gain: 0.05 is 5% better.
//!
//! * [`Estimate`]: a mean and its standard error.
//! * [`Comparison`]: the gain of a candidate over a baseline and its critical value, from pairs of turns or from two series of windows.
//! * [`AbTest`]: the protocol that runs a candidate and a baseline in alternating turns until the difference is significant.
//!
//! ```
//! use control::ab_test::{Comparison, Outcome};
//!
//! // Scores of windows before and after a change of setting.
//! let (before, after) = ([1.00, 1.02, 0.98, 1.01], [1.20, 1.22, 1.19, 1.21]);
//! let comparison = Comparison::of_series(&before, &after).ok_or("each series needs two windows")?;
//! assert!((comparison.gain.mean - 0.2025).abs() < 1e-9);
//! assert_eq!(comparison.outcome(0.02), Outcome::Better);
//!
//! // The same settings in alternating turns: pairs cancel changes of the load.
//! let (candidate, baseline) = ([1.1, 1.4, 0.9], [1.0, 1.3, 0.8]);
//! let comparison = Comparison::of_pairs(&candidate, &baseline).ok_or("three pairs are needed")?;
//! assert_eq!((comparison.pairs, comparison.outcome(0.02)), (Some(3), Outcome::Better));
//! # Ok::<(), &str>(())
//! ```

mod alternating;
mod estimate;

use observe::Preference;
use observe::merit::Scored;
use statistics::student;

pub use alternating::{AbTest, Challenger, Winner};
pub use estimate::{Estimate, error_of_difference, weighted_by_precision};

/// Standard errors beyond which a mean of many values is significant, two-sided at 95%. Derived: the normal quantile 1.96, rounded up.
pub const CRITICAL_VALUE: f64 = 2.0;
/// Minimum number of pairs for a comparison: with fewer, the t quantile is 6.3. Choice: more delay a clear result; with three, the quantile
/// is 2.9; not varied.
const MIN_PAIRS: usize = 3;
/// Standard deviation of the drift of a load's score between two measurements, under any setting. Choice: a larger one hides gains, a
/// smaller one takes drift for a gain; half of the difference that counts as equal (`observe::merit::TOLERANCE`); not varied.
pub const DRIFT: f64 = 0.01;
/// Minimum gain that is worth a change. Choice: a lower one makes changes without a noticeable effect, a higher one leaves gains unused;
/// half of [`DRIFT`]; not varied.
pub const MIN_GAIN: f64 = 0.005;

/// The gain of a candidate over a baseline, and the distance from zero at which it is significant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// The difference of the scores, candidate minus baseline, with its standard error.
    pub gain: Estimate,
    /// Standard errors beyond which the gain is significant at 95%.
    pub critical: f64,
    /// Number of pairs; `None` for two series.
    pub pairs: Option<usize>,
}

/// The result of a [`Comparison`] at 95% confidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The gain is significant and above the minimum that is worth a change.
    Better,
    /// None of the other outcomes is significant yet.
    Unclear,
    /// The gain is significantly below the minimum that is worth a change.
    NotBetter,
    /// The gain is significantly below zero, or NaN because no request completed.
    Worse,
}

impl Comparison {
    /// Compares pairs of turns by Student's t; `None` with fewer than three pairs. Values without a partner are ignored.
    pub fn of_pairs(candidate: &[f64], baseline: &[f64]) -> Option<Comparison> {
        let gains: Vec<f64> = candidate.iter().zip(baseline).map(|(candidate, baseline)| candidate - baseline).collect();
        let gain = Estimate::of_values(&gains).filter(|_| gains.len() >= MIN_PAIRS)?;
        Some(Comparison::of_gain_in_pairs(gain, gains.len()))
    }

    /// Compares the windows before a change with those after it; `None` if either has fewer than two. The error includes [`DRIFT`].
    pub fn of_series(before: &[f64], after: &[f64]) -> Option<Comparison> {
        Some(Comparison::of_gain(Estimate::of_values(after)?.over(&Estimate::of_values(before)?)))
    }

    /// Compares scores before and after a change, corrected for requests that are invisible while a queue has no free tags
    /// ([`Scored::over`]). `None` if either side is empty; with a single score on a side the error is infinite, as the scatter is unknown.
    pub fn of_scores(before: &[Scored], after: &[Scored], preference: &Preference) -> Option<Comparison> {
        let mean = |side: &[Scored]| Scored::mean(side.iter().copied());
        let variance = |side: &[Scored]| {
            let scores: Vec<f64> = side.iter().map(|scored| scored.score).collect();
            Estimate::of_values(&scores).map_or(f64::INFINITY, |estimate| estimate.error.powi(2))
        };
        let gain = mean(after)?.over(&mean(before)?, preference);
        Some(Comparison::of_gain(Estimate { mean: gain, error: error_of_difference(variance(before), variance(after)) }))
    }

    /// A comparison from a gain estimated elsewhere, based on many values.
    pub fn of_gain(gain: Estimate) -> Comparison {
        Comparison { gain, critical: CRITICAL_VALUE, pairs: None }
    }

    /// A comparison from the mean gain of `pairs` pairs.
    pub fn of_gain_in_pairs(gain: Estimate, pairs: usize) -> Comparison {
        let few = if pairs < MIN_PAIRS { CRITICAL_VALUE } else { student::one_sided_95(pairs - 1) };
        Comparison { gain, critical: few.max(CRITICAL_VALUE), pairs: Some(pairs) }
    }

    /// The half-width of the confidence interval around the gain.
    pub fn margin(&self) -> f64 {
        self.gain.error * self.critical
    }

    /// The outcome, if gains of `least` or less are not worth a change.
    pub fn outcome(&self, least: f64) -> Outcome {
        let (mean, margin) = (self.gain.mean, self.margin());
        if mean.is_nan() || mean + margin < 0.0 {
            Outcome::Worse
        } else if mean > least.max(margin) {
            Outcome::Better
        } else if mean + margin < least {
            Outcome::NotBetter
        } else {
            Outcome::Unclear
        }
    }
}

/// A gain for display: `3.2% better`, `1.0% worse`.
pub fn percent(gain: f64) -> String {
    let percent = statistics::percent(gain);
    if percent < 0.0 { format!("{:.1}% worse", -percent) } else { format!("{percent:.1}% better") }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::*;

    fn gain(mean: f64, error: f64) -> Estimate {
        Estimate { mean, error }
    }

    #[test]
    fn a_comparison_is_better_worse_or_unclear_by_its_confidence_interval() {
        let outcome = |mean, error| Comparison::of_gain(gain(mean, error)).outcome(0.02);
        assert_eq!(outcome(0.1, 0.04), Outcome::Better);
        assert_eq!(outcome(0.1, 0.06), Outcome::Unclear);
        assert_eq!(outcome(0.01, 0.001), Outcome::NotBetter);
        assert_eq!(outcome(-0.1, 0.04), Outcome::Worse);
        assert_eq!(outcome(f64::NAN, 0.04), Outcome::Worse);
    }

    #[test]
    fn few_pairs_need_more_standard_errors_than_many() {
        let critical = |pairs| Comparison::of_gain_in_pairs(gain(0.1, 0.1), pairs).critical;
        assert_eq!([3, 4, 5, 6, 100].map(critical), [2.92, 2.353, 2.132, 2.015, 2.0]);
        assert_eq!(Comparison::of_pairs(&[1.0, 2.0], &[0.0, 1.0, 2.0]), None, "two pairs");
        assert_eq!(Comparison::of_series(&[1.0], &[1.0, 2.0]), None, "one window before");
    }

    #[test]
    fn scores_of_one_window_have_a_gain_but_no_significance() {
        let preference = Preference::default();
        let compared = |before: &[f64], after: &[f64]| {
            let scored = |scores: &[f64]| scores.iter().map(|&score| Scored::plain(score)).collect::<Vec<_>>();
            Comparison::of_scores(&scored(before), &scored(after), &preference)
        };
        assert_eq!(compared(&[], &[1.0]), None);
        let single = compared(&[1.0], &[2.0, 2.1]).unwrap();
        assert!((single.gain.mean - 1.05).abs() < 1e-9 && single.outcome(0.0) == Outcome::Unclear, "{single:?}");
        let several = compared(&[1.0, 1.1], &[2.0, 2.1]).unwrap();
        assert_eq!(Some(several), Comparison::of_series(&[1.0, 1.1], &[2.0, 2.1]));
    }

    #[test]
    fn gains_are_displayed_in_percent() {
        assert_eq!([percent(0.0), percent(0.1), percent(-0.1)], ["0.0% better", "10.5% better", "9.5% worse"]);
    }
}
