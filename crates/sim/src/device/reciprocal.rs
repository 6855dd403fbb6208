//! Division by constants: one multiplication instead of a division, with the same quotient.
//!
//! A disk divides by its sectors per track, surfaces and revolution for every request, a flash device by its planes; on a processor
//! a division takes several times as long as a multiplication. Granlund and Montgomery, Division by invariant integers using
//! multiplication, PLDI 1994.

/// A divisor of 32-bit numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reciprocal32 {
    divisor: u32,
    /// (2⁶⁴ − 1) / divisor, rounded down.
    inverse: u64,
}

impl Reciprocal32 {
    /// Prepares a divisor; 0 counts as 1.
    pub const fn new(divisor: u32) -> Reciprocal32 {
        let divisor = if divisor == 0 { 1 } else { divisor };
        Reciprocal32 { divisor, inverse: u64::MAX / divisor as u64 }
    }

    /// The quotient.
    ///
    /// With i the inverse, (n + 1)·i / 2⁶⁴ lies below (n + 1) / d by more than 0 and less than 2⁻³² ≤ 1 / d: rounded down it is
    /// the quotient of n, never the next one.
    #[inline]
    pub const fn quotient(self, number: u32) -> u32 {
        (((number as u64 + 1) as u128 * self.inverse as u128) >> 64) as u32
    }

    /// Quotient and remainder.
    #[inline]
    pub const fn divide(self, number: u32) -> (u32, u32) {
        let quotient = self.quotient(number);
        (quotient, number - quotient * self.divisor)
    }
}

/// A divisor of 64-bit numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reciprocal64 {
    divisor: u64,
    /// (2⁶⁴ − 1) / divisor, rounded down.
    inverse: u64,
}

impl Reciprocal64 {
    /// Prepares a divisor; 0 counts as 1.
    pub const fn new(divisor: u64) -> Reciprocal64 {
        let divisor = if divisor == 0 { 1 } else { divisor };
        Reciprocal64 { divisor, inverse: u64::MAX / divisor }
    }

    /// Quotient and remainder. The estimate is the quotient or one less.
    #[inline]
    pub const fn divide(self, number: u64) -> (u64, u64) {
        let estimate = ((number as u128 * self.inverse as u128) >> 64) as u64;
        let rest = number - estimate * self.divisor;
        if rest >= self.divisor { (estimate + 1, rest - self.divisor) } else { (estimate, rest) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_edges_divide_as_the_processor_does() {
        for divisor in [1, 2, 3, 7, 334, u32::MAX / 2, u32::MAX - 1, u32::MAX] {
            let near = (0..4).flat_map(|k| [k * divisor.min(1 << 30)].map(|m| [m.wrapping_sub(1), m, m.wrapping_add(1)])).flatten();
            for number in near.chain([0, 1, u32::MAX - 1, u32::MAX]) {
                assert_eq!(Reciprocal32::new(divisor).divide(number), (number / divisor, number % divisor), "{number} / {divisor}");
                for (number, divisor) in [
                    (u64::from(number), u64::from(divisor)),
                    (u64::MAX - u64::from(number), u64::from(divisor)),
                    (u64::MAX - u64::from(number), u64::MAX - u64::from(divisor)),
                ] {
                    assert_eq!(Reciprocal64::new(divisor).divide(number), (number / divisor, number % divisor));
                }
            }
        }
    }

    proptest! {
        #[test]
        fn every_number_divides_as_the_processor_does(a: u64, b: u64, shift in 0..64u32) {
            let divisor = (b >> shift).max(1);
            prop_assert_eq!(Reciprocal64::new(divisor).divide(a), (a / divisor, a % divisor));
            let (a, divisor) = (a as u32, (divisor as u32).max(1));
            prop_assert_eq!(Reciprocal32::new(divisor).divide(a), (a / divisor, a % divisor));
        }
    }
}
