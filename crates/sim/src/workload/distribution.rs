//! fio's distributions of random offsets (its HOWTO, `random_distribution`; `fio-genzipf` draws the same).
//!
//! Zipf, Pareto and normal draw a rank, which a multiplication then scatters over the file, so that popular blocks are not
//! adjacent. The scattering is fio's (determined from its own logs): several ranks may share a block if the number of blocks is not
//! a power of two.

use rand::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::options::Distribution;

/// 2^64 divided by the golden ratio squared: Knuth's multiplicative hash, with the constant of Linux's hash.h.
const SCATTER: u64 = 0x61c8_8646_80b5_83eb;

/// Draws block numbers.
#[derive(Clone, Debug)]
pub(super) enum Sampler {
    /// Uniform.
    Uniform { blocks: u64 },
    /// A rank by Zipf's law, scattered.
    Zipf(Zipf, Scatter),
    /// A rank by Pareto's law, scattered.
    Pareto { power: f64, scatter: Scatter },
    /// A rank around the middle, scattered.
    Normal { width: f64, scatter: Scatter },
    /// Zones: cumulative percentage, first block, number of blocks.
    Zoned(Vec<(u8, u64, u64)>),
}

/// Maps ranks to blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scatter {
    blocks: u64,
    offset: u64,
}

impl Scatter {
    fn block(&self, rank: u64) -> u64 {
        // Both are below 2^63: a device has at most 2^64 bytes, a block at least one and the offset is below the number of
        // blocks.
        (rank.wrapping_mul(SCATTER) % self.blocks).wrapping_add(self.offset) % self.blocks
    }
}

impl Sampler {
    /// A sampler of `blocks` blocks of `block` bytes, at least one. `seed` determines the most popular one if the options do not.
    pub(super) fn new(distribution: &Distribution, blocks: u64, block: u64, seed: u64) -> Sampler {
        let scatter = |center: Option<f64>| {
            let offset = center.map_or(seed % blocks, |center| (blocks as f64 * center) as u64 % blocks);
            Scatter { blocks, offset }
        };
        match distribution {
            Distribution::Uniform => Sampler::Uniform { blocks },
            Distribution::Zipf(theta, center) => Sampler::Zipf(Zipf::new(blocks, *theta), scatter(*center)),
            Distribution::Pareto(h, center) => Sampler::Pareto { power: h.ln() / (1.0 - h).ln(), scatter: scatter(*center) },
            // Ranks are distributed around the middle: a centre shifts them by its distance from it.
            Distribution::Normal(deviation, center) => {
                let moved = center.map_or(0.0, |center| (center - 0.5).rem_euclid(1.0));
                Sampler::Normal { width: (blocks as f64 * (deviation / 100.0).min(0.5)).ceil(), scatter: scatter(Some(moved)) }
            }
            Distribution::Zoned(zones) => {
                zoned(zones.iter().map(|&(share, size)| (share, (u128::from(blocks) * u128::from(size) / 100) as u64)), blocks)
            }
            Distribution::ZonedAbsolute(zones) => zoned(zones.iter().map(|&(share, bytes)| (share, bytes / block)), blocks),
        }
    }

    /// Draws a block.
    pub(super) fn draw(&self, random: &mut Xoshiro256PlusPlus) -> u64 {
        match self {
            Sampler::Uniform { blocks } => below(random, *blocks),
            Sampler::Zipf(zipf, scatter) => scatter.block(zipf.rank(random.random())),
            Sampler::Pareto { power, scatter } => {
                let share: f64 = random.random();
                scatter.block(((scatter.blocks - 1) as f64 * share.powf(*power)) as u64)
            }
            Sampler::Normal { width, scatter } => scatter.block(normal(random, scatter.blocks, *width)),
            Sampler::Zoned(zones) => {
                let share = below(random, 100) as u8;
                let last = zones.len() - 1;
                let (_, first, blocks) = zones[zones.iter().position(|zone| share < zone.0).unwrap_or(last)];
                first + below(random, blocks)
            }
        }
    }
}

/// Draws a number below `bound`, which must not be 0: the upper half of a product, without division.
pub(super) fn below(random: &mut Xoshiro256PlusPlus, bound: u64) -> u64 {
    ((u128::from(random.random::<u64>()) * u128::from(bound)) >> 64) as u64
}

/// Draws from the normal distribution by fio's method: the mean of twelve draws over the whole file, which is nearly normal with a
/// deviation of a twelfth of the file, plus one draw from a range as wide as the deviation of the option, at most half the file,
/// halved until the result is inside the file. Measured, `normal:10` has a deviation of 8.8% of the file, and `normal:60`, like
/// `normal:50`, one of 16.7%.
fn normal(random: &mut Xoshiro256PlusPlus, blocks: u64, width: f64) -> u64 {
    let n = blocks as f64;
    let mean = n * (0..12).map(|_| random.random::<f64>()).sum::<f64>() / 12.0;
    let mut moved = width * (random.random::<f64>() - 0.5);
    while !(0.0..n).contains(&(mean + moved)) && moved.abs() >= 0.5 {
        moved /= 2.0;
    }
    ((mean + moved).max(0.0) as u64).min(blocks - 1)
}

/// Places zones one after another; a zone without remaining blocks shares the last block with the previous one.
fn zoned(zones: impl Iterator<Item = (u8, u64)>, blocks: u64) -> Sampler {
    let (mut up_to, mut first) = (0u8, 0u64);
    let zones = zones.map(|(share, size)| {
        up_to = up_to.saturating_add(share);
        let begin = first.min(blocks - 1);
        first = first.saturating_add(size).min(blocks);
        (up_to, begin, (first.saturating_sub(begin)).max(1))
    });
    Sampler::Zoned(zones.collect())
}

/// Zipf's law by the method of Gray et al., "Quickly Generating Billion-Record Synthetic Databases", SIGMOD 1994, section 3.2:
/// exact for the two most popular ranks, approximated by a curve for the others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Zipf {
    ranks: f64,
    zeta: f64,
    /// 1 + 0.5^theta.
    two: f64,
    alpha: f64,
    eta: f64,
}

impl Zipf {
    fn new(ranks: u64, theta: f64) -> Zipf {
        let n = ranks as f64;
        let (zeta, two) = (zeta(ranks, theta), 1.0 + 0.5f64.powf(theta));
        let eta = (1.0 - (2.0 / n).powf(1.0 - theta)) / (1.0 - two / zeta);
        Zipf { ranks: n, zeta, two, alpha: 1.0 / (1.0 - theta), eta }
    }

    /// Maps a number in [0, 1) to a rank, from 0.
    fn rank(&self, share: f64) -> u64 {
        let product = share * self.zeta;
        if product < 1.0 || self.ranks < 2.0 {
            return 0;
        }
        if product < self.two {
            return 1;
        }
        let rank = (self.ranks * (self.eta * share - self.eta + 1.0).powf(self.alpha)) as u64;
        rank.min(self.ranks as u64 - 1)
    }
}

/// The sum of 1 / i^theta for i up to `ranks`: the first terms exactly, the rest by the Euler–Maclaurin formula (relative error
/// below 1e-12). fio stops after ten million terms.
fn zeta(ranks: u64, theta: f64) -> f64 {
    const TERMS: u64 = 1000;
    let terms = ranks.min(TERMS);
    let sum: f64 = (1..=terms).map(|i| (i as f64).powf(-theta)).sum();
    if ranks <= TERMS {
        return sum;
    }
    let (a, b) = (TERMS as f64, ranks as f64);
    let integral = (b.powf(1.0 - theta) - a.powf(1.0 - theta)) / (1.0 - theta);
    let ends = (b.powf(-theta) - a.powf(-theta)) / 2.0;
    let slopes = theta * (a.powf(-theta - 1.0) - b.powf(-theta - 1.0)) / 12.0;
    sum + integral + ends + slopes
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    fn counts(sampler: &Sampler, blocks: u64, draws: u64) -> Vec<u64> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut counts = vec![0; blocks as usize];
        (0..draws).for_each(|_| counts[sampler.draw(&mut random) as usize] += 1);
        counts
    }

    #[test]
    fn the_sum_of_many_ranks_is_the_one_added_up() {
        for theta in [0.3, 0.99, 1.1, 2.5] {
            let added: f64 = (1..=100_000u64).map(|i| (i as f64).powf(-theta)).sum();
            assert!((zeta(100_000, theta) / added - 1.0).abs() < 1e-9, "{theta}");
        }
    }

    #[test]
    fn zipf_ranks_are_as_frequent_as_the_law_says() {
        for theta in [0.8, 1.2] {
            let (blocks, draws) = (1 << 16, 2_000_000);
            let sampler = Sampler::new(&Distribution::Zipf(theta, Some(0.25)), blocks, 4096, 0);
            let Sampler::Zipf(_, scatter) = &sampler else { panic!() };
            let counts = counts(&sampler, blocks, draws);
            let zeta = zeta(blocks, theta);
            assert_eq!(scatter.block(0), blocks / 4);
            // The first two exactly.
            for rank in 0..2u64 {
                let law = ((rank + 1) as f64).powf(-theta) / zeta;
                let share = counts[scatter.block(rank) as usize] as f64 / draws as f64;
                assert!((share / law - 1.0).abs() < 0.02, "theta {theta} rank {rank}: {share} instead of {law}");
            }
            // The others only in sum, since the curve is an approximation.
            for upto in [10u64, 100, 1000, 10_000] {
                let law: f64 = (1..=upto).map(|i| (i as f64).powf(-theta)).sum::<f64>() / zeta;
                let share = (0..upto).map(|rank| counts[scatter.block(rank) as usize]).sum::<u64>() as f64 / draws as f64;
                assert!((share / law - 1.0).abs() < 0.06, "theta {theta}, {upto} ranks: {share} instead of {law}");
            }
        }
    }

    #[test]
    fn pareto_sends_most_io_to_few_blocks() {
        let (blocks, draws) = (1 << 16, 1_000_000);
        let sampler = Sampler::new(&Distribution::Pareto(0.2, None), blocks, 4096, 12345);
        let mut counts = counts(&sampler, blocks, draws);
        counts.sort_unstable_by(|a, b| b.cmp(a));
        // h = 0.2: a share x of the blocks gets x^(ln 0.8 / ln 0.2) of the I/O, so that 20% get 80%.
        let share = counts[..blocks as usize / 5].iter().sum::<u64>() as f64 / draws as f64;
        assert!((share - 0.8).abs() < 0.01, "{share}");
    }

    #[test]
    fn normal_deviates_as_fio_was_measured_to() {
        for (deviation, measured) in [(0.0, 0.0836), (10.0, 0.0883), (30.0, 0.1202), (60.0, 0.1666)] {
            let blocks = 1u64 << 20;
            let Sampler::Normal { width, .. } = Sampler::new(&Distribution::Normal(deviation, None), blocks, 4096, 0) else {
                panic!()
            };
            let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
            let draws: Vec<f64> = (0..100_000).map(|_| normal(&mut random, blocks, width) as f64 / blocks as f64).collect();
            let mean = draws.iter().sum::<f64>() / 1e5;
            let sd = (draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 1e5).sqrt();
            assert!((mean - 0.5).abs() < 0.003 && (sd - measured).abs() < 0.001, "{deviation}: {mean} {sd}");
        }
    }

    #[test]
    fn zones_get_their_shares() {
        let sampler = Sampler::new(&Distribution::Zoned(vec![(60, 10), (30, 20), (10, 70)]), 1000, 4096, 0);
        let counts = counts(&sampler, 1000, 1_000_000);
        for (range, share) in [(0..100, 0.6), (100..300, 0.3), (300..1000, 0.1)] {
            let part = counts[range.clone()].iter().sum::<u64>() as f64 / 1e6;
            assert!((part - share).abs() < 0.003, "{range:?}: {part}");
        }
        let absolute = Distribution::ZonedAbsolute(vec![(90, 40 << 12), (10, 1 << 40)]);
        let counts = self::counts(&Sampler::new(&absolute, 100, 4096, 0), 100, 100_000);
        let part = counts[..40].iter().sum::<u64>() as f64 / 1e5;
        assert!((part - 0.9).abs() < 0.01 && counts.iter().all(|count| *count > 0), "{part}");
    }
}
