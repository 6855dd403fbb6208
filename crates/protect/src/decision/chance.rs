//! Tests for counts of rare events: the Poisson distribution.

/// Probability of at least `count` events if `mean` are expected.
pub(super) fn tail(count: f64, mean: f64) -> f64 {
    if count <= 0.0 {
        return 1.0;
    }
    // For large means the terms would underflow; the normal approximation is accurate there.
    if mean > 500.0 {
        return normal_tail((count - 0.5 - mean) / mean.sqrt());
    }
    let mut term = (-mean).exp();
    let mut below = 0.0;
    for number in 0..count.ceil().min(5_000.0) as u32 {
        below += term;
        term *= mean / f64::from(number + 1);
    }
    (1.0 - below).max(0.0)
}

/// Probability of a value above `z` standard deviations: Abramowitz and Stegun 26.2.17, to 1e-7.
fn normal_tail(z: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * z.abs());
    let series = t * (0.319_381_530 + t * (-0.356_563_782 + t * (1.781_477_937 + t * (-1.821_255_978 + t * 1.330_274_429))));
    let upper = (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt() * series;
    if z < 0.0 { 1.0 - upper } else { upper }
}

/// The largest mean with which the probability of at most `allowed` events is 99%.
pub(super) fn bearable_mean(allowed: f64) -> f64 {
    if allowed > 30.0 {
        // Wilson and Hilferty, "The distribution of chi-square" (1931), to 0.1% there.
        let degrees = allowed + 1.0;
        return degrees * (1.0 - 1.0 / (9.0 * degrees) - 2.326_3 / (3.0 * degrees.sqrt())).powi(3);
    }
    let (mut least, mut most) = (0.0, allowed + 1.0);
    for _ in 0..40 {
        let middle = (least + most) / 2.0;
        if tail(allowed + 1.0, middle) <= 0.01 { least = middle } else { most = middle }
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tails_are_those_of_tables() {
        for (count, mean, expected) in [(1.0, 0.5, 0.393_469), (3.0, 1.0, 0.080_301), (10.0, 5.0, 0.031_828), (0.0, 3.0, 1.0)] {
            assert!((tail(count, mean) - expected).abs() < 1e-6, "{count} of {mean}: {}", tail(count, mean));
        }
        assert!((tail(1_050.0, 1_000.0) - 0.0603).abs() < 0.002, "{}", tail(1_050.0, 1_000.0));
    }

    #[test]
    fn the_bearable_mean_is_the_inverse() {
        for (allowed, expected) in [(0.0, 0.010_050), (1.0, 0.148_55), (10.0, 4.771), (100.0, 79.1)] {
            let mean = bearable_mean(allowed);
            assert!((tail(allowed + 1.0, mean) - 0.01).abs() < 1e-3, "{allowed}");
            assert!((mean / expected - 1.0).abs() < 0.02, "{allowed}: {mean}");
        }
    }
}
