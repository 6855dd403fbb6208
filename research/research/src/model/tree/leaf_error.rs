//! Entropy, and the estimated error of a leaf.

use statistics::normal;

/// The sum of -n log2(n/total): entropy times the total.
pub fn entropy(counts: &[f64]) -> f64 {
    let total: f64 = counts.iter().sum();
    counts.iter().filter(|count| **count > 0.0).map(|count| -count * (count / total).log2()).sum()
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
    let z = normal::quantile(1.0 - confidence);
    let share = (errors + 0.5) / total;
    let spread = z * (share / total - share * share / total + z * z / (4.0 * total * total)).sqrt();
    (share + z * z / (2.0 * total) + spread) / (1.0 + z * z / total) * total - errors
}

#[cfg(test)]
mod tests {
    use super::*;

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
