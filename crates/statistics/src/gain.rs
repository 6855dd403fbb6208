//! Gains: differences of scores, which are logarithms.

/// Converts a difference of logarithms to per cent: 0 is 0%, ln 2 is 100%, minus infinity is -100%.
pub fn percent(gain: f64) -> f64 {
    100.0 * gain.exp_m1()
}

/// Converts per cent to a difference of logarithms, the inverse of [`percent`]; NaN below -100%.
pub fn of_percent(percent: f64) -> f64 {
    (percent / 100.0).ln_1p()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gain_of_the_logarithm_of_two_is_a_hundred_per_cent() {
        assert!((percent(std::f64::consts::LN_2) - 100.0).abs() < 1e-12);
        assert_eq!((percent(0.0), percent(f64::NEG_INFINITY)), (0.0, -100.0));
        // As the logarithm of 1.000001 would lose half of its digits.
        assert!((percent(1e-6) - 1.000_000_5e-4).abs() < 1e-15);
    }

    #[test]
    fn per_cent_and_gains_convert_into_each_other() {
        for gain in [-3.0, -0.1, 0.0, 1e-9, 0.05, 2.0] {
            assert!((of_percent(percent(gain)) - gain).abs() <= 1e-12 * gain.abs(), "{gain}");
        }
        assert!(of_percent(-101.0).is_nan());
    }
}
