//! Student's t distribution, for means of few values.

use crate::normal;

/// Degrees of freedom above which the quantile comes from its expansion about the normal one, which is within 1e-8 there.
const MANY: usize = 300;

/// The probability of a value of at most `t` with this many degrees of freedom; NaN with 0. Abramowitz and Stegun, Handbook of Mathematical
/// Functions, 26.7.3 and 26.7.4, which are exact for whole degrees of freedom.
pub fn cdf(t: f64, degrees: usize) -> f64 {
    if degrees == 0 || t.is_nan() {
        return f64::NAN;
    }
    let angle = (t.abs() / (degrees as f64).sqrt()).atan();
    let (sine, cosine) = angle.sin_cos();
    // Even: 1 + 1/2 cos² + 1·3/(2·4) cos⁴ + …; odd: cos + 2/3 cos³ + 2·4/(3·5) cos⁵ + …; both up to the power degrees - 2.
    let is_odd = degrees % 2 == 1;
    let (mut term, mut sum) = if is_odd { (cosine, 0.0) } else { (1.0, 0.0) };
    let mut number = if is_odd { 1 } else { 0 };
    while number + 2 <= degrees {
        sum += term;
        term *= cosine * cosine * (number + 1) as f64 / (number + 2) as f64;
        number += 2;
    }
    let within = if is_odd { std::f64::consts::FRAC_2_PI * (angle + sine * sum) } else { sine * sum };
    0.5 + 0.5 * within.copysign(t)
}

/// The value that a variable with this many degrees of freedom does not exceed with this probability. Infinite with 0 degrees, as then
/// the scatter is unknown, and NaN for probabilities outside 0 to 1.
pub fn quantile(probability: f64, degrees: usize) -> f64 {
    if !(0.0..=1.0).contains(&probability) {
        return f64::NAN;
    }
    if probability < 0.5 {
        return -quantile(1.0 - probability, degrees);
    }
    if probability == 0.5 {
        return 0.0;
    }
    if degrees == 0 || probability == 1.0 {
        return f64::INFINITY;
    }
    if degrees > MANY {
        return expansion(normal::quantile(probability), degrees as f64);
    }
    let (mut low, mut high) = (0.0, 1.0);
    while cdf(high, degrees) < probability && high < 1e300 {
        (low, high) = (high, 2.0 * high);
    }
    loop {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            return high;
        }
        if cdf(middle, degrees) < probability { low = middle } else { high = middle }
    }
}

/// Abramowitz and Stegun, 26.7.5: the quantile by powers of 1/degrees from the normal one.
fn expansion(z: f64, degrees: f64) -> f64 {
    let square = z * z;
    let first = z * (square + 1.0) / 4.0;
    let second = z * ((5.0 * square + 16.0) * square + 3.0) / 96.0;
    let third = z * (((3.0 * square + 19.0) * square + 17.0) * square - 15.0) / 384.0;
    z + (first + (second + third / degrees) / degrees) / degrees
}

/// Standard errors beyond which a mean differs at 95% confidence, on either side. To three decimals, as the tables print it, so that a printed
/// interval can be recomputed by hand and does not depend on the last bit of a machine's arctangent. Infinite with 0 degrees.
pub fn two_sided_95(degrees: usize) -> f64 {
    to_three_decimals(quantile(0.975, degrees))
}

/// Standard errors above which a mean exceeds a bound at 95% confidence; to three decimals. Infinite with 0 degrees.
pub fn one_sided_95(degrees: usize) -> f64 {
    to_three_decimals(quantile(0.95, degrees))
}

fn to_three_decimals(value: f64) -> f64 {
    (1000.0 * value).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2: critical values of Student's t for 1 to 30 and some more degrees of freedom;
    /// one-sided 0.95 and 0.975.
    #[test]
    fn critical_values_are_those_of_the_handbook() {
        const ONE_SIDED: [f64; 30] = [
            6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812, 1.796, 1.782, 1.771, 1.761, 1.753, 1.746, 1.740,
            1.734, 1.729, 1.725, 1.721, 1.717, 1.714, 1.711, 1.708, 1.706, 1.703, 1.701, 1.699, 1.697,
        ];
        const TWO_SIDED: [f64; 30] = [
            12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110,
            2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
        ];
        for (index, (one, two)) in ONE_SIDED.into_iter().zip(TWO_SIDED).enumerate() {
            assert_eq!((one_sided_95(index + 1), two_sided_95(index + 1)), (one, two), "{} degrees", index + 1);
        }
        assert_eq!([40, 60, 100].map(two_sided_95), [2.021, 2.000, 1.984]);
        assert_eq!([40, 60, 100].map(one_sided_95), [1.684, 1.671, 1.660]);
        assert_eq!((two_sided_95(1_000_000), one_sided_95(1_000_000)), (1.960, 1.645), "the normal distribution");
        assert_eq!((two_sided_95(0), one_sided_95(0)), (f64::INFINITY, f64::INFINITY));
    }

    /// Abramowitz and Stegun, table 26.10, for 0.995 and 0.9995 (there A = 0.99 and 0.999).
    #[test]
    fn far_quantiles_are_those_of_the_tables() {
        for (degrees, at_995, at_9995) in
            [(1, 63.657, 636.619), (2, 9.925, 31.599), (5, 4.032, 6.869), (10, 3.169, 4.587), (30, 2.750, 3.646)]
        {
            assert!((quantile(0.995, degrees) - at_995).abs() < 6e-4, "{degrees}: {}", quantile(0.995, degrees));
            assert!((quantile(0.9995, degrees) - at_9995).abs() < 6e-4, "{degrees}: {}", quantile(0.9995, degrees));
        }
    }

    #[test]
    fn the_distribution_function_is_the_inverse_and_has_its_closed_forms() {
        for t in [-3.0, -0.5, 0.0, 0.1, 1.0, 12.0_f64] {
            assert!((cdf(t, 1) - (0.5 + t.atan() / std::f64::consts::PI)).abs() < 1e-15, "Cauchy's distribution at {t}");
            assert!((cdf(t, 2) - (0.5 + 0.5 * t / (2.0 + t * t).sqrt())).abs() < 1e-15, "{t}");
        }
        for degrees in [1, 2, 3, 4, 7, 30, 99, 300, 301, 1000] {
            for probability in [0.05, 0.5, 0.7, 0.975, 0.999] {
                let back = cdf(quantile(probability, degrees), degrees);
                assert!((back - probability).abs() < 1e-9, "{degrees} {probability}: {back}");
            }
        }
        assert!(cdf(1.0, 0).is_nan() && quantile(1.5, 3).is_nan());
        assert_eq!((quantile(1.0, 3), quantile(0.0, 3), cdf(f64::INFINITY, 3)), (f64::INFINITY, f64::NEG_INFINITY, 1.0));
    }
}
