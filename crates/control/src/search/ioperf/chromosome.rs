//! The encoding of Table 1: converts between bits and patterns or settings (the paper's `EntityAccess`).

use std::fmt;

use block::Tunable;
use rand::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::search::space::{place_of, value_at};
use crate::search::{Genome, Space};
use observe::window::Features;

/// A disk access pattern, for which settings are searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// Number of concurrent processes: 1 to 8.
    pub processes: u32,
    /// Percentage of reads among the requests, 0 to 100.
    pub read_percent: u32,
    /// Percentage of requests that do not continue the process's last one, 0 to 100.
    pub random_percent: u32,
    /// Size of a request in KiB, 0 to 2,047.
    pub request_kib: u32,
}

/// Bits, range and clearance factor of the four parameters of a pattern (Table 1). The less a parameter may differ, the larger its factor,
/// as section 4 requires: the factors are the weights in the distance. Source: Table 1 of the paper.
const PATTERN: [(u32, u32, u32, f64); 4] = [(3, 1, 8, 0.8), (7, 0, 100, 1.0), (7, 0, 100, 1.0), (11, 0, 2047, 0.7)];
/// Bits and range of the tunables that the paper sets, which is narrower than Linux's. Source: Table 1 of the paper.
const OF_TABLE_1: [(&str, u32, i64, i64); 2] = [("read_ahead_kb", 10, 4, 1023), ("swappiness", 7, 0, 100)];
/// Bits of any other tunable, over its declared range and scale. Choice: more lengthen the chromosome, fewer skip values; as the
/// percentages of Table 1; not varied.
const BITS: u32 = 7;

impl Pattern {
    fn numbers(&self) -> [u32; 4] {
        [self.processes, self.read_percent, self.random_percent, self.request_kib]
    }

    fn of_numbers([processes, read_percent, random_percent, request_kib]: [u32; 4]) -> Pattern {
        Pattern { processes, read_percent, random_percent, request_kib }
    }

    /// The pattern of a window's requests.
    pub fn of(features: &Features) -> Pattern {
        let value = |name: &str| features.get(name).filter(|value| value.is_finite()).unwrap_or(0.0);
        let numbers = [
            value("streams"),
            100.0 * value("read_share"),
            100.0 * (1.0 - value("sequential_share")),
            value("size_mean_bytes") / 1024.0,
        ];
        let within = |(number, (_, min, max, _)): (f64, (u32, u32, u32, f64))| (number.round() as u32).clamp(min, max);
        let mut inside = PATTERN.map(|_| 0);
        numbers.into_iter().zip(PATTERN).map(within).zip(&mut inside).for_each(|(number, place)| *place = number);
        Pattern::of_numbers(inside)
    }

    /// Distance from another pattern: the sum of the relative differences, each weighted by its clearance factor.
    pub fn distance(&self, other: &Pattern) -> f64 {
        self.parts(other).map(|(part, clearance)| clearance * part).sum()
    }

    /// Like [`distance`](Self::distance), with the factors as divisors, so that a parameter with a larger clearance factor may differ more.
    pub fn distance_divided(&self, other: &Pattern) -> f64 {
        self.parts(other).map(|(part, clearance)| part / clearance).sum()
    }

    /// Differences of the parameters relative to their ranges, and clearance factors.
    fn parts(&self, other: &Pattern) -> impl Iterator<Item = (f64, f64)> {
        let numbers = self.numbers().into_iter().zip(other.numbers()).zip(PATTERN);
        numbers.map(|((a, b), (_, min, max, clearance))| (f64::from(a.abs_diff(b)) / f64::from(max - min), clearance))
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Pattern { processes, read_percent, random_percent, request_kib } = self;
        let plural = if *processes == 1 { "" } else { "es" };
        write!(f, "{processes} process{plural}, {read_percent}% reads, {random_percent}% at random, {request_kib} KiB")
    }
}

/// Bits, the most significant bit of each field first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chromosome(pub Vec<bool>);

/// A group of bits that encodes a number.
#[derive(Clone, Copy, Debug)]
struct Field {
    bits: u32,
    means: Means,
}

#[derive(Clone, Copy, Debug)]
enum Means {
    /// The pattern's parameter at this index of [`PATTERN`].
    Parameter(usize),
    /// The scheduler.
    Scheduler,
    /// The gene with this index, a tunable with the range of Table 1.
    Narrowed(usize, &'static Tunable, i64, i64),
    /// The gene with this index, over its whole range.
    Gene(usize),
}

/// Converts between bits and a pattern with a genome.
#[derive(Clone, Debug)]
pub struct Converter {
    space: Space,
    fields: Vec<Field>,
}

impl Converter {
    /// A converter for patterns and the settings of a space.
    pub fn new(space: Space) -> Converter {
        let parameter = |number: usize| Field { bits: PATTERN[number].0, means: Means::Parameter(number) };
        let mut fields: Vec<Field> = (0..PATTERN.len()).map(parameter).collect();
        fields.extend((0..space.len()).map(|gene| {
            if space.is_scheduler(gene) {
                let bits = space.schedulers().next_power_of_two().trailing_zeros().max(1);
                return Field { bits, means: Means::Scheduler };
            }
            let host = space.host(gene);
            match host.and_then(|tunable| Some((tunable, OF_TABLE_1.iter().find(|known| known.0 == tunable.name)?))) {
                Some((tunable, &(_, bits, min, max))) => Field { bits, means: Means::Narrowed(gene, tunable, min, max) },
                None => Field { bits: BITS, means: Means::Gene(gene) },
            }
        }));
        Converter { space, fields }
    }

    /// The number of bits of a chromosome.
    pub fn bits(&self) -> usize {
        self.fields.iter().map(|field| field.bits as usize).sum()
    }

    /// The space of its settings.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// A random chromosome.
    pub fn draw(&self, random: &mut Xoshiro256PlusPlus) -> Chromosome {
        Chromosome((0..self.bits()).map(|_| random.random::<bool>()).collect())
    }

    /// The pattern of a chromosome.
    pub fn pattern(&self, chromosome: &Chromosome) -> Pattern {
        let mut numbers = PATTERN.map(|_| 0);
        for (field, code) in self.codes(chromosome) {
            if let Means::Parameter(number) = field.means {
                let (_, min, max, _) = PATTERN[number];
                numbers[number] = spread(code, field.bits, i64::from(min), i64::from(max)) as u32;
            }
        }
        Pattern::of_numbers(numbers)
    }

    /// The genome of a chromosome.
    pub fn genome(&self, chromosome: &Chromosome) -> Genome {
        let mut genome = vec![0.5; self.space.len()];
        for (field, code) in self.codes(chromosome) {
            match field.means {
                Means::Parameter(_) => {}
                // If the number of schedulers is not a power of two, codes wrap around.
                Means::Scheduler => {
                    let schedulers = self.space.schedulers().max(1);
                    genome[0] = ((code as usize % schedulers) as f64 + 0.5) / schedulers as f64;
                }
                Means::Narrowed(gene, tunable, min, max) => genome[gene] = place_of(tunable, spread(code, field.bits, min, max)),
                Means::Gene(gene) => genome[gene] = (code as f64 + 0.5) / f64::from(1_u32 << field.bits),
            }
        }
        genome
    }

    /// The chromosome for a pattern and a genome, at the resolution of its bits.
    pub fn encode(&self, pattern: &Pattern, genome: &[f64]) -> Chromosome {
        let mut bits = Vec::with_capacity(self.bits());
        for field in &self.fields {
            let most = f64::from((1_u32 << field.bits) - 1);
            let share = |value: f64, min: f64, max: f64| ((value - min) / (max - min) * most).round().clamp(0.0, most) as u64;
            let code = match field.means {
                Means::Parameter(number) => {
                    let (_, min, max, _) = PATTERN[number];
                    share(f64::from(pattern.numbers()[number]), f64::from(min), f64::from(max))
                }
                Means::Scheduler => self.space.scheduler(genome) as u64,
                Means::Narrowed(gene, tunable, min, max) => share(value_at(tunable, genome[gene]) as f64, min as f64, max as f64),
                Means::Gene(gene) => (genome[gene] * (most + 1.0)).floor().clamp(0.0, most) as u64,
            };
            bits.extend((0..field.bits).rev().map(|bit| code >> bit & 1 == 1));
        }
        Chromosome(bits)
    }

    fn codes<'a>(&'a self, chromosome: &'a Chromosome) -> impl Iterator<Item = (&'a Field, u64)> {
        let mut bits = chromosome.0.iter();
        self.fields.iter().map(move |field| {
            let code = bits.by_ref().take(field.bits as usize).fold(0, |code, bit| code << 1 | u64::from(*bit));
            (field, code)
        })
    }
}

/// Maps a code to a range. Codes are spread evenly over it, so none is out of range.
fn spread(code: u64, bits: u32, min: i64, max: i64) -> i64 {
    let most = f64::from((1_u32 << bits) - 1);
    min + (code as f64 / most * (max - min) as f64).round() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distance_weighs_parts_of_ranges_by_clearance_factors() {
        let one = Pattern { processes: 1, read_percent: 100, random_percent: 50, request_kib: 0 };
        let other = Pattern { processes: 8, read_percent: 50, random_percent: 25, request_kib: 2047 };
        // 0.8 × 7/7 + 1 × 50/100 + 1 × 25/100 + 0.7 × 2047/2047 = 2.25; divided: 1/0.8 + 0.5 + 0.25 + 1/0.7 = 3.42857….
        assert!((one.distance(&other) - 2.25).abs() < 1e-12);
        assert!((one.distance_divided(&other) - (1.25 + 0.75 + 1.0 / 0.7)).abs() < 1e-12);
    }
}
