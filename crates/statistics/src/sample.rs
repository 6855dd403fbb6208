//! Figures of a sample of independent values.

use crate::student;

/// The arithmetic mean; `None` without values. Summed in order, so the same values in the same order give the same bits.
pub fn mean(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0.0);
    for value in values {
        (sum, count) = (sum + value, count + 1.0);
    }
    (count > 0.0).then(|| sum / count)
}

/// The mean of the finite values; `None` if none is.
pub fn mean_of_finite(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    mean(values.into_iter().filter(|value| value.is_finite()))
}

/// The geometric mean of positive values; `None` without values.
pub fn geometric_mean(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    mean(values.into_iter().map(f64::ln)).map(f64::exp)
}

/// Sum of the squared distances from the mean; 0 without values.
fn squares(values: &[f64], mean: f64) -> f64 {
    values.iter().map(|value| (value - mean) * (value - mean)).sum()
}

/// The variance of the population that the values are drawn from (divisor n - 1); `None` with fewer than two.
pub fn variance(values: &[f64]) -> Option<f64> {
    let mean = mean(values.iter().copied()).filter(|_| values.len() > 1)?;
    Some(squares(values, mean) / (values.len() as f64 - 1.0))
}

/// The variance of the values as the whole population (divisor n); `None` without values.
pub fn population_variance(values: &[f64]) -> Option<f64> {
    let mean = mean(values.iter().copied())?;
    Some(squares(values, mean) / values.len() as f64)
}

/// The coefficient of variation of the values as the whole population: standard deviation by mean. `None` without values; not finite if
/// the mean is 0.
pub fn variation(values: &[f64]) -> Option<f64> {
    let mean = mean(values.iter().copied())?;
    population_variance(values).map(|variance| variance.sqrt() / mean)
}

/// The mean and its standard error; `None` with fewer than two values, as the scatter of one is unknown.
pub fn mean_and_error(values: &[f64]) -> Option<(f64, f64)> {
    let mean = mean(values.iter().copied())?;
    variance(values).map(|variance| (mean, (variance / values.len() as f64).sqrt()))
}

/// The mean and half the width of its 95% confidence interval by Student's t; `None` with fewer than two values.
pub fn mean_and_margin(values: &[f64]) -> Option<(f64, f64)> {
    mean_and_error(values).map(|(mean, error)| (mean, student::two_sided_95(values.len() - 1) * error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_few_values_are_those_of_textbooks() {
        let values = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
        assert_eq!((mean(values), population_variance(&values), variation(&values)), (Some(5.0), Some(4.0), Some(0.4)));
        assert_eq!(variance(&values), Some(32.0 / 7.0));
        assert_eq!(mean_and_error(&values), Some((5.0, (32.0_f64 / 56.0).sqrt())));
        assert!(geometric_mean([1.0, 8.0]).is_some_and(|mean| (mean - 8.0_f64.sqrt()).abs() < 1e-12));
        assert_eq!(mean_of_finite([1.0, f64::NAN, 3.0, f64::INFINITY]), Some(2.0));
    }

    /// NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.5.2: confidence limits for the mean of ZARR13.DAT, 195 values with mean 9.261460
    /// and standard deviation 0.022789: 9.258242 to 9.264679.
    #[test]
    fn the_interval_of_a_mean_is_that_of_the_handbook() {
        // Values with that mean and standard deviation: 97 pairs at equal distances, and the mean itself.
        let distance = |i: i32| if i == 0 { 0.0 } else { 0.022_789 * f64::from(1 - 2 * (i % 2)) };
        let values: Vec<f64> = (0..195).map(|i| 9.261_460 + distance(i)).collect();
        assert!(mean_and_margin(&values).is_some_and(|(mean, margin)| (mean - margin - 9.258_242).abs() < 2e-6), "lower");
        assert!(mean_and_margin(&values).is_some_and(|(mean, margin)| (mean + margin - 9.264_679).abs() < 2e-6), "upper");
    }

    #[test]
    fn too_few_values_have_no_figures() {
        assert_eq!((mean([]), variance(&[1.0]), population_variance(&[]), mean_and_error(&[1.0])), (None, None, None, None));
        assert_eq!((mean_and_margin(&[]), geometric_mean([]), mean_of_finite([f64::NAN])), (None, None, None));
    }
}
