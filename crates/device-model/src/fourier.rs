//! Complex numbers and the discrete Fourier transform of a power of two of them: all that the search for rotation needs of a library.

use std::f64::consts::TAU;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, MulAssign, Sub};

/// A complex number.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Complex {
    pub re: f64,
    pub im: f64,
}

impl Complex {
    pub const ZERO: Complex = Complex { re: 0.0, im: 0.0 };

    /// The unit vector at this angle, in radians.
    pub fn unit(angle: f64) -> Complex {
        let (im, re) = angle.sin_cos();
        Complex { re, im }
    }

    /// The square of the absolute value.
    pub fn norm_squared(self) -> f64 {
        self.re * self.re + self.im * self.im
    }

    /// The absolute value.
    pub fn norm(self) -> f64 {
        self.re.hypot(self.im)
    }
}

impl Add for Complex {
    type Output = Complex;

    fn add(self, other: Complex) -> Complex {
        Complex { re: self.re + other.re, im: self.im + other.im }
    }
}

impl Sub for Complex {
    type Output = Complex;

    fn sub(self, other: Complex) -> Complex {
        Complex { re: self.re - other.re, im: self.im - other.im }
    }
}

impl Mul for Complex {
    type Output = Complex;

    fn mul(self, other: Complex) -> Complex {
        Complex { re: self.re * other.re - self.im * other.im, im: self.re * other.im + self.im * other.re }
    }
}

impl Mul<f64> for Complex {
    type Output = Complex;

    fn mul(self, factor: f64) -> Complex {
        Complex { re: self.re * factor, im: self.im * factor }
    }
}

impl AddAssign for Complex {
    fn add_assign(&mut self, other: Complex) {
        *self = *self + other;
    }
}

impl MulAssign for Complex {
    fn mul_assign(&mut self, other: Complex) {
        *self = *self * other;
    }
}

impl Sum for Complex {
    fn sum<I: Iterator<Item = Complex>>(numbers: I) -> Complex {
        numbers.fold(Complex::ZERO, Add::add)
    }
}

/// The forward transform of a fixed length, a power of two: `X[k] = Σ x[n] exp(-2πi kn / length)`. Decimation in time by two (Cooley and
/// Tukey, An Algorithm for the Machine Calculation of Complex Fourier Series, Math. Comp. 19, 1965).
pub(crate) struct Transform {
    length: usize,
    /// `exp(-2πi k / length)` for the first half of the circle.
    roots: Vec<Complex>,
}

impl Transform {
    /// # Panics
    /// `length` is not a power of two.
    pub fn new(length: usize) -> Transform {
        assert!(length.is_power_of_two(), "a transform of {length} numbers");
        Transform { length, roots: (0..length / 2).map(|k| Complex::unit(-TAU * k as f64 / length as f64)).collect() }
    }

    /// Replaces `numbers` by their transform.
    ///
    /// # Panics
    /// There are more or fewer of them than the length.
    pub fn forward(&self, numbers: &mut [Complex]) {
        assert_eq!(numbers.len(), self.length);
        let unused_bits = usize::BITS - self.length.trailing_zeros();
        for index in 0..self.length {
            let mirrored = if self.length == 1 { 0 } else { index.reverse_bits() >> unused_bits };
            if index < mirrored {
                numbers.swap(index, mirrored);
            }
        }
        let mut half = 1;
        while half < self.length {
            let stride = self.length / (2 * half);
            for block in numbers.chunks_exact_mut(2 * half) {
                let (low, high) = block.split_at_mut(half);
                for ((low, high), root) in low.iter_mut().zip(high).zip(self.roots.iter().step_by(stride)) {
                    let turned = *high * *root;
                    (*low, *high) = (*low + turned, *low - turned);
                }
            }
            half *= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    #[test]
    fn the_transform_is_the_sum_of_its_definition() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        for length in [1, 2, 4, 8, 64, 256] {
            let numbers: Vec<Complex> =
                (0..length).map(|_| Complex { re: random.random_range(-1.0..1.0), im: random.random_range(-1.0..1.0) }).collect();
            let mut transformed = numbers.clone();
            Transform::new(length).forward(&mut transformed);
            for (k, found) in transformed.iter().enumerate() {
                let turned =
                    |(n, number): (usize, &Complex)| *number * Complex::unit(-TAU * (k * n % length) as f64 / length as f64);
                let expected: Complex = numbers.iter().enumerate().map(turned).sum();
                assert!((*found - expected).norm() < 1e-12 * length as f64, "{length}, {k}: {found:?} and not {expected:?}");
            }
        }
    }
}
