//! Means and standard deviations in one pass.

/// Count, mean and variance of numbers, computed relative to the first one, so that equal large numbers have exactly zero variance.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moments {
    count: u64,
    first: f64,
    sum: f64,
    squares: f64,
}

impl Moments {
    #[inline]
    pub fn add(&mut self, value: f64) {
        if self.count == 0 {
            self.first = value;
        }
        let beyond = value - self.first;
        self.count += 1;
        self.sum += beyond;
        self.squares += beyond * beyond;
    }

    /// The mean; NaN without values.
    pub fn mean(&self) -> f64 {
        self.first + self.sum / self.count as f64
    }

    /// The standard deviation; NaN without values.
    pub fn deviation(&self) -> f64 {
        let count = self.count as f64;
        // Never below zero, as the first value is included: if the others are equal, its distance is most of the variance.
        ((self.squares - self.sum * self.sum / count) / count).sqrt()
    }

    /// The coefficient of variation (standard deviation / mean): 0 for equal numbers, 1 for exponentially distributed ones. NaN if the mean is 0.
    pub fn variation(&self) -> f64 {
        self.deviation() / self.mean()
    }
}

/// The logarithm to base 2 with an error of at most 0.0005: a cubic between powers of two. Unlike a library's it is the same on every machine,
/// and several times as fast. 0 counts as 1.
#[inline]
pub(super) fn log2(value: u64) -> f64 {
    /// Bits after the leading one. Derived: the stored bits of a 64-bit float.
    const MANTISSA_BITS: u32 = f64::MANTISSA_DIGITS - 1;
    let value = value | u64::from(value == 0);
    let zeros = value.leading_zeros();
    // The bits after the leading one, as a number from 1 to 2. Converting a u64 would round, and costs more.
    let mantissa = (value << zeros << 1) >> (u64::BITS - MANTISSA_BITS);
    let fraction = f64::from_bits(mantissa | 1.0_f64.to_bits()) - 1.0;
    let exponent = f64::from(u64::BITS - 1 - zeros);
    // Exact at both ends and in the middle, with the logarithm's slope at both ends.
    let curve = 0.442_695 + fraction * (0.083_6 * fraction - 0.247_648);
    exponent + fraction + fraction * (1.0 - fraction) * curve
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logarithm_is_a_two_thousandth_off_at_most_and_exact_at_powers_of_two() {
        let mut value = 1_u64;
        while value < u64::MAX / 100 * 99 {
            assert!((log2(value) - (value as f64).log2()).abs() < 5e-4, "{value}: {}", log2(value) - (value as f64).log2());
            value += value / 100 + 1;
        }
        assert!((0..64).all(|power| log2(1 << power) == f64::from(power)));
        assert_eq!(log2(0), 0.0);
        assert!((log2(u64::MAX) - 64.0).abs() < 5e-4);
    }

    #[test]
    fn equal_large_numbers_have_no_spread_and_nothing_has_no_mean() {
        let mut moments = Moments::default();
        assert!(moments.mean().is_nan() && moments.deviation().is_nan() && moments.variation().is_nan());
        for _ in 0..1000 {
            moments.add(1e15 + 0.1);
        }
        assert_eq!((moments.mean(), moments.deviation()), (1e15 + 0.1, 0.0));
        moments.add(0.0);
        assert!(moments.deviation() > 0.0);
    }

    #[test]
    fn mean_and_deviation_are_those_of_the_textbook() {
        let mut moments = Moments::default();
        for value in [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0] {
            moments.add(value);
        }
        assert_eq!((moments.mean(), moments.deviation(), moments.variation()), (5.0, 2.0, 0.4));
    }
}
