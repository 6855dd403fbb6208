//! Draws from a prior as points of the unit cube: nearby points are similar, so a good one can be improved by small moves.

use block::scramble::scramble;

/// A seeded pseudo-random generator.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Different seeds give different numbers.
    pub fn new(seed: u64) -> Random {
        Random(scramble(seed ^ 0x9e37_79b9_7f4a_7c15))
    }

    /// The next number, at least 0 and below 1.
    pub fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        (scramble(self.0) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A standard normal variate (Box and Muller 1958).
    pub fn normal(&mut self) -> f64 {
        let (length, angle) = (self.exponential(2.0).sqrt(), std::f64::consts::TAU * self.unit());
        length * angle.cos()
    }

    /// An exponential variate with this mean: the time between independent events.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }
}

/// A point of the unit cube: the coordinates of a hypothesis.
#[derive(Clone, Debug, PartialEq)]
pub struct Point(Vec<f64>);

impl Point {
    /// A uniformly drawn point.
    pub fn drawn(dimensions: usize, random: &mut Random) -> Point {
        Point((0..dimensions).map(|_| random.unit()).collect())
    }

    /// A Metropolis proposal: some coordinates are shifted, a few drawn again. Proposals are symmetric.
    pub fn moved(&self, random: &mut Random) -> Point {
        /// Probability that a coordinate is shifted. Choice: a larger share rejects more proposals; not varied.
        const MOVED: f64 = 0.25;
        /// Probability that a coordinate is drawn again. Choice: jumps between separate modes, of which most are rejected; not varied.
        const REDRAWN: f64 = 0.05;
        /// Maximum shift of a coordinate. Choice: large steps explore, small ones are accepted; not varied.
        const STEP: f64 = 0.25;
        let moved = |value: &f64| {
            let (chosen, by) = (random.unit(), random.unit());
            if chosen < REDRAWN {
                by
            } else if chosen < REDRAWN + MOVED {
                reflected(value + STEP * (2.0 * by - 1.0))
            } else {
                *value
            }
        };
        Point(self.0.iter().map(moved).collect())
    }

    /// Reads the coordinates in order.
    pub fn reader(&self) -> Reader<'_> {
        Reader(self.0.iter())
    }
}

fn reflected(value: f64) -> f64 {
    let value = value.abs();
    (if value > 1.0 { 2.0 - value } else { value }).min(1.0 - f64::EPSILON)
}

/// Reads the coordinates of a point. Every hypothesis reads all of them, used or not, so that each has a fixed meaning.
pub struct Reader<'a>(std::slice::Iter<'a, f64>);

impl Reader<'_> {
    /// The next coordinate; 0.5 beyond the end of the point.
    pub fn unit(&mut self) -> f64 {
        self.0.next().copied().unwrap_or(0.5)
    }

    /// True with this probability.
    pub fn happens(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// A log-uniform value in this range.
    pub fn scaled(&mut self, least: f64, most: f64) -> f64 {
        least * (most / least).powf(self.unit())
    }

    /// A log-logistic value with this median and this standard deviation of the logarithm.
    pub fn about(&mut self, usual: f64, deviation: f64) -> f64 {
        let unit = self.unit().clamp(1e-3, 1.0 - 1e-3);
        usual * (deviation * 3f64.sqrt() / std::f64::consts::PI * (unit / (1.0 - unit)).ln()).exp()
    }

    /// One of these values, chosen by weight; `None` if there are none.
    pub fn one_of<T: Copy>(&mut self, of: &[(T, f64)]) -> Option<T> {
        let mut left = self.unit() * of.iter().map(|(_, weight)| weight).sum::<f64>();
        for &(value, weight) in of {
            left -= weight;
            if left < 0.0 {
                return Some(value);
            }
        }
        of.last().map(|(value, _)| *value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_that_are_moved_many_times_are_uniform() {
        let mut random = Random::new(1);
        let mut point = Point::drawn(1, &mut random);
        let mut counts = [0_u32; 10];
        for _ in 0..20_000 {
            point = point.moved(&mut random);
            counts[(point.reader().unit() * 10.0) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (1_700..2_300).contains(count)), "{counts:?}");
    }

    #[test]
    fn about_is_spread_by_its_deviation_and_one_of_by_weights() {
        let mut random = Random::new(2);
        let logarithms: Vec<f64> =
            (0..20_000).map(|_| Point::drawn(1, &mut random).reader().about(8.0, 0.5).ln() - 8f64.ln()).collect();
        let square = logarithms.iter().map(|value| value * value).sum::<f64>() / 20_000.0;
        assert!((square.sqrt() - 0.5).abs() < 0.03, "{}", square.sqrt());
        let heads = (0..10_000).filter(|_| Point::drawn(1, &mut random).reader().one_of(&[(1, 3.0), (2, 1.0)]) == Some(1)).count();
        assert!((7_300..7_700).contains(&heads), "{heads}");
    }
}
