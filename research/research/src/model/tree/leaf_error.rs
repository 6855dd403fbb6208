//! Entropy, and the estimated error of a leaf.

/// The sum of -n log2(n/total): entropy times the total.
pub fn entropy(counts: &[f64]) -> f64 {
    let total: f64 = counts.iter().sum();
    counts.iter().filter(|count| **count > 0.0).map(|count| -count * (count / total).log2()).sum()
}

/// Index of the largest value; the first of equals.
pub fn largest(values: &[f64]) -> usize {
    values.iter().enumerate().fold(0, |best, (index, value)| if *value > values[best] { index } else { best })
}

/// The quantile of the standard normal distribution for this probability, to 1e-9 (Acklam's rational approximation).
pub fn normal_quantile(probability: f64) -> f64 {
    const A: [f64; 6] =
        [-39.69683028665376, 220.9460984245205, -275.9285104469687, 138.357751867269, -30.66479806614716, 2.506628277459239];
    const B: [f64; 5] = [-54.47609879822406, 161.5858368580409, -155.6989798598866, 66.80131188771972, -13.28068155288572];
    const C: [f64; 6] =
        [-0.007784894002430293, -0.3223964580411365, -2.400758277161838, -2.549732539343734, 4.374664141464968, 2.938163982698783];
    const D: [f64; 4] = [0.007784695709041462, 0.3224671290700398, 2.445134137142996, 3.754408661907416];
    let polynomial = |coefficients: &[f64], x: f64| coefficients.iter().fold(0.0, |sum, coefficient| sum * x + coefficient);
    let tail = |probability: f64| {
        let q = (-2.0 * probability.ln()).sqrt();
        polynomial(&C, q) / (polynomial(&D, q) * q + 1.0)
    };
    if probability < 0.02425 {
        tail(probability)
    } else if probability > 1.0 - 0.02425 {
        -tail(1.0 - probability)
    } else {
        let q = probability - 0.5;
        let r = q * q;
        polynomial(&A, r) * q / (polynomial(&B, r) * r + 1.0)
    }
}

/// Expected errors among `total` rows beyond the `errors` made in training: the upper limit of a binomial proportion with this confidence
/// (C4.5, section 4.2; Weka's `Stats.addErrs`).
pub fn additional_errors(total: f64, errors: f64, confidence: f64) -> f64 {
    if errors < 1.0 {
        let none = total * (1.0 - confidence.powf(1.0 / total));
        return if errors == 0.0 { none } else { none + errors * (additional_errors(total, 1.0, confidence) - none) };
    }
    if errors + 0.5 >= total {
        return (total - errors).max(0.0);
    }
    let z = normal_quantile(1.0 - confidence);
    let share = (errors + 0.5) / total;
    let spread = z * (share / total - share * share / total + z * z / (4.0 * total * total)).sqrt();
    (share + z * z / (2.0 * total) + spread) / (1.0 + z * z / total) * total - errors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_normal_distribution_is_that_of_the_tables() {
        for (probability, value) in
            [(0.5, 0.0), (0.75, 0.6744897502), (0.975, 1.9599639845), (0.999, 3.0902323062), (0.01, -2.3263478740)]
        {
            assert!((normal_quantile(probability) - value).abs() < 1e-8, "{probability}");
        }
    }

    /// C4.5, section 4.2: U25%(0,6) = 0.206, U25%(0,9) = 0.143, U25%(0,1) = 0.750; and U25%(1,16) = 0.157 by the exact binomial, which
    /// the normal approximation of release 8 puts at 0.162.
    #[test]
    fn a_leaf_may_be_as_wrong_as_in_quinlans_book() {
        for (total, errors, limit) in [(6.0, 0.0, 0.206), (9.0, 0.0, 0.143), (1.0, 0.0, 0.750), (16.0, 1.0, 0.157)] {
            let found = (errors + additional_errors(total, errors, 0.25)) / total;
            assert!((found - limit).abs() < 0.006, "{total} {errors}: {found}");
        }
    }
}
