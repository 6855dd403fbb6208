//! The standard normal distribution.

/// The one-sided 90% quantile, in standard deviations.
pub const ONE_SIDED_90: f64 = 1.281_55;
/// The one-sided 95% quantile: nine in ten values are within this many standard deviations of the mean. As tables print it, like all
/// constants here, so that figures can be recomputed by hand.
pub const ONE_SIDED_95: f64 = 1.645;
/// The one-sided 99% quantile.
pub const ONE_SIDED_99: f64 = 2.326_3;
/// The two-sided 95% quantile.
pub const TWO_SIDED_95: f64 = 1.96;

/// The probability density at `z`.
pub fn density(z: f64) -> f64 {
    (-0.5 * z * z).exp() / std::f64::consts::TAU.sqrt()
}

/// The probability of a value of at most `z`, with an error of at most 1e-14.
pub fn cdf(z: f64) -> f64 {
    tail(-z)
}

/// The probability of a value above `z`, which stays accurate to 1e-8 of itself where it is tiny: Hart's rational approximation below 7.07 standard
/// deviations, and a continued fraction above (West: Better approximations to cumulative normal functions, Wilmott Magazine, 2005).
pub fn tail(z: f64) -> f64 {
    const ABOVE: [f64; 7] = [
        3.526_249_659_989_11e-2,
        0.700_383_064_443_688,
        6.373_962_203_531_65,
        33.912_866_078_383,
        112.079_291_497_871,
        221.213_596_169_931,
        220.206_867_912_376,
    ];
    const BELOW: [f64; 8] = [
        8.838_834_764_831_84e-2,
        1.755_667_163_182_64,
        16.064_177_579_207,
        86.780_732_202_946_1,
        296.564_248_779_674,
        637.333_633_378_831,
        793.826_512_519_948,
        440.413_735_824_752,
    ];
    let distance = z.abs();
    let polynomial = |coefficients: &[f64]| coefficients.iter().fold(0.0, |sum, coefficient| sum * distance + coefficient);
    let exponential = (-0.5 * distance * distance).exp();
    let upper = if distance < 7.071_067_811_865_47 {
        exponential * polynomial(&ABOVE) / polynomial(&BELOW)
    } else {
        let fraction = [4.0, 3.0, 2.0, 1.0].iter().fold(distance + 0.65, |fraction, step| distance + step / fraction);
        exponential / (fraction * std::f64::consts::TAU.sqrt())
    };
    if z >= 0.0 { upper } else { 1.0 - upper }
}

/// The value that a standard normal variable does not exceed with this probability: Acklam's rational approximation (2003), which is
/// within 1.15e-9, and one step of Halley's method. Infinite at 0 and 1; NaN outside.
pub fn quantile(probability: f64) -> f64 {
    const A: [f64; 6] = [
        -39.696_830_286_653_76,
        220.946_098_424_520_5,
        -275.928_510_446_968_7,
        138.357_751_867_269,
        -30.664_798_066_147_16,
        2.506_628_277_459_239,
    ];
    const B: [f64; 6] =
        [-54.476_098_798_224_06, 161.585_836_858_040_9, -155.698_979_859_886_6, 66.801_311_887_719_72, -13.280_681_552_885_72, 1.0];
    const C: [f64; 6] = [
        -0.007_784_894_002_430_293,
        -0.322_396_458_041_136_5,
        -2.400_758_277_161_838,
        -2.549_732_539_343_734,
        4.374_664_141_464_968,
        2.938_163_982_698_783,
    ];
    const D: [f64; 5] = [0.007_784_695_709_041_462, 0.322_467_129_070_039_8, 2.445_134_137_142_996, 3.754_408_661_907_416, 1.0];
    if !(0.0..=1.0).contains(&probability) {
        return f64::NAN;
    }
    // From the lower half, whose tail has all digits.
    if probability > 0.5 {
        return -quantile(1.0 - probability);
    }
    if probability == 0.0 {
        return f64::NEG_INFINITY;
    }
    let polynomial = |coefficients: &[f64], x: f64| coefficients.iter().fold(0.0, |sum, coefficient| sum * x + coefficient);
    let rough = if probability < 0.02425 {
        let q = (-2.0 * probability.ln()).sqrt();
        polynomial(&C, q) / polynomial(&D, q)
    } else {
        let (q, r) = (probability - 0.5, (probability - 0.5) * (probability - 0.5));
        polynomial(&A, r) * q / polynomial(&B, r)
    };
    let step = (tail(-rough) - probability) / density(rough);
    if step.is_finite() { rough - step / (1.0 + 0.5 * rough * step) } else { rough }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Abramowitz and Stegun, Handbook of Mathematical Functions (1964), table 26.1; the far tails from table 26.2 (minus log10 of the tail:
    /// 5 standard deviations 6.54265, 10 of them 23.11805).
    #[test]
    fn the_distribution_function_is_that_of_the_tables() {
        for (z, expected) in [
            (0.0, 0.5),
            (0.5, 0.691_462_461_274_013),
            (1.0, 0.841_344_746_068_543),
            (1.5, 0.933_192_798_731_142),
            (2.0, 0.977_249_868_051_821),
            (2.5, 0.993_790_334_674_224),
            (3.0, 0.998_650_101_968_370),
        ] {
            assert!((cdf(z) - expected).abs() < 1e-14, "{z}: {}", cdf(z));
            assert!((cdf(-z) - (1.0 - expected)).abs() < 1e-14 && (tail(z) - cdf(-z)).abs() == 0.0, "{z}");
        }
        for (z, expected) in [(5.0, 6.542_65), (10.0, 23.118_05)] {
            assert!((-tail(z).log10() - expected).abs() < 1e-5, "{z}: {}", tail(z));
        }
        assert!((tail(7.071_067_811_8) / tail(7.071_067_811_9) - 1.0).abs() < 1e-8, "both parts meet");
        assert_eq!((tail(40.0), cdf(f64::INFINITY), cdf(f64::NEG_INFINITY)), (0.0, 1.0, 0.0));
    }

    #[test]
    fn the_density_is_that_of_the_tables() {
        for (z, expected) in [(0.0, 0.398_942_280_401_433), (1.0, 0.241_970_724_519_143), (3.0, 0.004_431_848_411_938)] {
            assert!((density(z) - expected).abs() < 1e-15, "{z}");
        }
    }

    /// Abramowitz and Stegun, table 26.5: values of z for tail probabilities; and more digits as computed by Wichura's AS 241.
    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (probability, expected) in [
            (0.5, 0.0),
            (0.75, 0.674_489_750_196_082),
            (0.9, 1.281_551_565_544_6),
            (0.95, 1.644_853_626_951_473),
            (0.975, 1.959_963_984_540_054),
            (0.99, 2.326_347_874_040_841),
            (0.999, 3.090_232_306_167_814),
            (0.01, -2.326_347_874_040_841),
        ] {
            assert!((quantile(probability) - expected).abs() < 1e-12, "{probability}: {}", quantile(probability));
        }
        assert!(
            (quantile(1e-10) + 6.361_340_902_404_056).abs() < 1e-9,
            "a far tail is known to 1e-8 of itself: {}",
            quantile(1e-10)
        );
        assert_eq!((quantile(0.0), quantile(1.0)), (f64::NEG_INFINITY, f64::INFINITY));
        assert!(quantile(-0.1).is_nan() && quantile(1.1).is_nan() && quantile(f64::NAN).is_nan());
        for step in 1..1000 {
            let probability = f64::from(step) / 1000.0;
            assert!((cdf(quantile(probability)) - probability).abs() < 1e-13, "{probability}");
        }
    }

    #[test]
    fn the_constants_are_the_quantiles_rounded() {
        for (constant, probability, within) in
            [(ONE_SIDED_90, 0.9, 5e-6), (ONE_SIDED_95, 0.95, 5e-4), (ONE_SIDED_99, 0.99, 5e-5), (TWO_SIDED_95, 0.975, 5e-3)]
        {
            assert!((constant - quantile(probability)).abs() < within, "{probability}");
        }
    }
}
