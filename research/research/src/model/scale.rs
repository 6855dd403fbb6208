//! Features on a common scale: mean 0, standard deviation 1 over the training set, missing values at the mean.
//!
//! A non-negative feature that is skewed to the right is first transformed by ln(1 + x/m), where m is the median of its positive
//! values: rates and sizes span orders of magnitude, and the largest would dominate any distance. The transform is used if the
//! skewness is above 1 and the logarithm brings it nearer to 0.

use serde::{Deserialize, Serialize};
use statistics::Rank;

use super::dataset::Examples;

/// Skewness (third standardised moment) above which the logarithm is tried.
const SKEWED: f64 = 1.0;

/// Maximum distance from the mean in standard deviations; larger ones are clamped, so that sums stay finite.
const FARTHEST: f64 = 1000.0;

/// Scaling of one feature.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scale {
    /// The m of ln(1 + x/m); `None` without a logarithm.
    pub log: Option<f64>,
    /// Mean over the training set, after the logarithm.
    pub mean: f64,
    /// Standard deviation after the logarithm; 0 if the feature is constant there, which always maps to the mean.
    pub deviation: f64,
}

impl Scale {
    /// Fits to one feature's values, each with its weight; ignores NaN.
    fn fit(values: &[(f64, f64)]) -> Scale {
        let known: Vec<(f64, f64)> = values.iter().copied().filter(|(value, _)| !value.is_nan()).collect();
        let straight = Moments::of(&known);
        let plain = Scale { log: None, mean: straight.mean, deviation: straight.deviation };
        if straight.skewness <= SKEWED || known.iter().any(|(value, _)| *value < 0.0) {
            return plain;
        }
        let mut positive: Vec<f64> = known.iter().map(|(value, _)| *value).filter(|value| *value > 0.0).collect();
        let Some(median) = Rank::Above.of(&mut positive, 0.5) else { return plain };
        let bent: Vec<(f64, f64)> = known.iter().map(|&(value, weight)| ((value / median).ln_1p(), weight)).collect();
        let logarithm = Moments::of(&bent);
        let is_better = logarithm.skewness.abs() < straight.skewness && logarithm.mean.is_finite() && logarithm.deviation > 0.0;
        if is_better { Scale { log: Some(median), mean: logarithm.mean, deviation: logarithm.deviation } } else { plain }
    }

    /// A value in standard deviations from the mean; NaN stays NaN.
    pub fn apply(&self, value: f64) -> f64 {
        let value = self.log.map_or(value, |median| (value.max(0.0) / median).ln_1p() + if value.is_nan() { value } else { 0.0 });
        if value.is_nan() {
            return value;
        }
        if self.deviation == 0.0 { 0.0 } else { ((value - self.mean) / self.deviation).clamp(-FARTHEST, FARTHEST) }
    }

    /// The value at this many standard deviations from the mean.
    pub fn invert(&self, scaled: f64) -> f64 {
        let value = self.mean + self.deviation * scaled;
        self.log.map_or(value, |median| value.exp_m1() * median)
    }

    fn problem(&self) -> Option<String> {
        let is_sound = self.mean.is_finite()
            && self.deviation.is_finite()
            && self.deviation >= 0.0
            && self.log.is_none_or(|median| median.is_finite() && median > 0.0);
        (!is_sound).then(|| format!("{self:?}"))
    }
}

struct Moments {
    mean: f64,
    deviation: f64,
    skewness: f64,
}

impl Moments {
    /// Moments of weighted values; 0 without any.
    fn of(values: &[(f64, f64)]) -> Moments {
        // In units of the largest value, so that squares of huge values do not overflow.
        let unit = values.iter().map(|(value, _)| value.abs()).fold(0.0, f64::max);
        let total: f64 = values.iter().map(|(_, weight)| weight).sum();
        if unit == 0.0 || total == 0.0 {
            return Moments { mean: 0.0, deviation: 0.0, skewness: 0.0 };
        }
        let mean = values.iter().map(|(value, weight)| value / unit * weight).sum::<f64>() / total;
        let moment =
            |power: i32| values.iter().map(|(value, weight)| (value / unit - mean).powi(power) * weight).sum::<f64>() / total;
        let deviation = moment(2).sqrt();
        // A constant column differs from its mean only by rounding.
        if deviation <= 1e-12 * mean.abs() {
            return Moments { mean: mean * unit, deviation: 0.0, skewness: 0.0 };
        }
        Moments { mean: mean * unit, deviation: deviation * unit, skewness: moment(3) / deviation.powi(3) }
    }
}

/// Scaling of every feature.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Scaler(pub Vec<Scale>);

impl Scaler {
    /// Fits to these rows.
    pub fn fit(examples: &Examples) -> Scaler {
        let column = |feature: usize| -> Vec<(f64, f64)> {
            examples.rows.iter().zip(&examples.weights).map(|(row, &weight)| (row[feature], weight)).collect()
        };
        Scaler((0..examples.features()).map(|feature| Scale::fit(&column(feature))).collect())
    }

    /// Scales a row. Missing values become the mean if `filled`, else they stay NaN. A row that is too short ends with missing values.
    pub fn apply(&self, row: &[f64], filled: bool, out: &mut Vec<f64>) {
        out.clear();
        out.extend(self.0.iter().enumerate().map(|(feature, scale)| {
            let value = scale.apply(row.get(feature).copied().unwrap_or(f64::NAN));
            if filled && value.is_nan() { 0.0 } else { value }
        }));
    }

    /// Why it is invalid for this number of features, when read from a file; `None` if it is valid.
    pub fn problem(&self, features: usize) -> Option<String> {
        if self.0.len() != features {
            return Some(format!("scales for {} features; there should be {features}", self.0.len()));
        }
        self.0.iter().find_map(Scale::problem).map(|scale| format!("{scale}: no such scale can be"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fit(values: &[f64]) -> Scale {
        Scale::fit(&values.iter().map(|&value| (value, 1.0)).collect::<Vec<_>>())
    }

    #[test]
    fn values_are_counted_in_standard_deviations_from_the_mean() {
        let scale = fit(&[1.0, 3.0, f64::NAN]);
        assert_eq!((scale.log, scale.mean, scale.deviation), (None, 2.0, 1.0));
        assert_eq!((scale.apply(4.0), scale.invert(2.0)), (2.0, 4.0));
        assert!(scale.apply(f64::NAN).is_nan());
    }

    #[test]
    fn what_spans_orders_of_magnitude_goes_through_a_logarithm() {
        let scale = fit(&[1.0, 10.0, 100.0, 1000.0, 10_000.0]);
        assert_eq!(scale.log, Some(100.0));
        assert!((scale.invert(scale.apply(37.0)) - 37.0).abs() < 1e-9);
        assert!(scale.apply(f64::NAN).is_nan());
        assert_eq!(scale.apply(-5.0), scale.apply(0.0));
        assert_eq!(fit(&[-1.0, 10.0, 100.0, 1000.0, 10_000.0]).log, None, "there is no logarithm of a negative value");
    }

    #[test]
    fn constant_columns_missing_columns_and_huge_values_stay_finite() {
        for values in [vec![7.3; 9], vec![f64::NAN; 3], vec![0.0; 3]] {
            let scale = fit(&values);
            assert_eq!((scale.apply(7.3), scale.apply(1e300)), (0.0, 0.0), "{values:?}");
        }
        let scale = fit(&[f64::MAX, 1.0, 0.0, -f64::MAX]);
        assert!(scale.apply(f64::MAX).is_finite() && scale.deviation > 0.0, "{scale:?}");
        assert_eq!(fit(&[0.0, 1e-3]).apply(f64::MAX), FARTHEST);
    }
}
