//! The population and its evolution (section 5).

use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::chromosome::{Chromosome, Converter, Pattern};
use crate::search::Genome;

/// The paper's population: two individuals for each of 25 ranges. Derived: section 5 of the paper.
pub const POPULATION: usize = LEAST * RANGES.len() * RANGES.len();
/// Upper bounds of the five ranges of the read percentage, and of the random percentage. Source: section 5 of the paper.
const RANGES: [u32; 5] = [4, 34, 64, 94, 100];
/// Minimum number of individuals kept in each pair of ranges. Source: section 5 of the paper.
const LEAST: usize = 2;
/// First and last rate of crossover. Source: section 5 of the paper.
const CROSSOVER: (f64, f64) = (0.9, 0.7);
/// First and last rate of mutation. Source: section 5 of the paper.
const MUTATION: (f64, f64) = (0.1, 0.25);
/// Number of generations of the transition between the rates. Choice: a longer one explores later; section 5 of the paper only calls it
/// gradual; not varied.
const GRADUAL: f64 = 8.0;

/// A chromosome with its fitness.
#[derive(Clone, Debug)]
pub struct Individual {
    chromosome: Chromosome,
    /// Its access pattern.
    pub pattern: Pattern,
    /// Its settings.
    pub genome: Genome,
    /// Its fitness; `None` before evaluation.
    pub fitness: Option<f64>,
}

/// A population.
#[derive(Clone, Debug)]
pub struct Optimizer {
    converter: Converter,
    size: usize,
    population: Vec<Individual>,
    random: Xoshiro256PlusPlus,
    generation: u32,
    /// The pattern of all individuals; `None` in the normal mode, in which patterns evolve.
    fixed: Option<Pattern>,
}

/// The pair of ranges of a pattern, as an index below 25: read percentage first, then random percentage.
pub fn range_of(pattern: &Pattern) -> usize {
    let range = |percent: u32| RANGES.iter().position(|&last| percent <= last).unwrap_or(RANGES.len() - 1);
    range(pattern.read_percent) * RANGES.len() + range(pattern.random_percent)
}

/// Number of the 25 pairs of ranges with at least two of these patterns, the minimum that a population keeps.
pub fn ranges_with_two<'a>(patterns: impl Iterator<Item = &'a Pattern>) -> usize {
    let mut counts = [0_usize; RANGES.len() * RANGES.len()];
    patterns.for_each(|pattern| counts[range_of(pattern)] += 1);
    counts.into_iter().filter(|count| *count >= LEAST).count()
}

impl Optimizer {
    /// A random population, with at least two individuals in each of the 25 pairs of ranges.
    pub fn new(converter: Converter, size: usize, seed: u64) -> Optimizer {
        let random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut optimizer = Optimizer { converter, size, population: Vec::new(), random, generation: 0, fixed: None };
        for number in 0..size.max(LEAST * RANGES.len() * RANGES.len()) {
            let drawn = optimizer.converter.draw(&mut optimizer.random);
            let pattern = optimizer.converter.pattern(&drawn);
            let range = number % (RANGES.len() * RANGES.len());
            let (reads, at_random) = (range / RANGES.len(), range % RANGES.len());
            let pattern = Pattern { read_percent: optimizer.within(reads), random_percent: optimizer.within(at_random), ..pattern };
            let genome = optimizer.converter.genome(&drawn);
            let chromosome = optimizer.converter.encode(&pattern, &genome);
            optimizer.add(chromosome);
        }
        optimizer.size = optimizer.population.len();
        optimizer
    }

    /// A population for one pattern: the seeds, then random ones.
    pub fn for_pattern(
        converter: Converter,
        pattern: Pattern,
        seeds: &[Genome],
        size: usize,
        random: Xoshiro256PlusPlus,
    ) -> Optimizer {
        let mut optimizer = Optimizer { converter, size, population: Vec::new(), random, generation: 0, fixed: Some(pattern) };
        for number in 0..size.max(1) {
            let chromosome = match seeds.get(number) {
                Some(genome) => optimizer.converter.encode(&pattern, genome),
                None => optimizer.converter.draw(&mut optimizer.random),
            };
            optimizer.add(chromosome);
        }
        optimizer
    }

    /// A random percentage in this range.
    fn within(&mut self, range: usize) -> u32 {
        let first = range.checked_sub(1).map_or(0, |before| RANGES[before] + 1);
        self.random.random_range(first..=RANGES[range])
    }

    fn add(&mut self, chromosome: Chromosome) {
        let genome = self.converter.genome(&chromosome);
        let pattern = self.fixed.unwrap_or_else(|| self.converter.pattern(&chromosome));
        let chromosome = if self.fixed.is_some() { self.converter.encode(&pattern, &genome) } else { chromosome };
        self.population.push(Individual { chromosome, pattern, genome, fitness: None });
    }

    /// Number of generations bred.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// Number of individuals that survive a generation.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The individuals.
    pub fn population(&self) -> &[Individual] {
        &self.population
    }

    /// The current rates of crossover and of mutation.
    pub fn rates(&self) -> (f64, f64) {
        let part = (f64::from(self.generation) / GRADUAL).min(1.0);
        let between = |(first, last): (f64, f64)| first + part * (last - first);
        (between(CROSSOVER), between(MUTATION))
    }

    /// The individuals to evaluate: patterns and genomes.
    pub fn unrated(&self) -> impl Iterator<Item = (Pattern, Genome)> + '_ {
        self.population.iter().filter(|one| one.fitness.is_none()).map(|one| (one.pattern, one.genome.clone()))
    }

    /// Sets the fitness of the [unrated](Optimizer::unrated), in order. The fittest survive, with at least two in each pair of ranges.
    pub fn rate(&mut self, fitness: &[f64]) {
        let unrated = self.population.iter_mut().filter(|one| one.fitness.is_none());
        unrated.zip(fitness).for_each(|(one, fitness)| one.fitness = Some(*fitness));
        let fitness = |one: &Individual| one.fitness.unwrap_or(f64::NEG_INFINITY);
        self.population.sort_by(|a, b| fitness(b).total_cmp(&fitness(a)));
        let mut kept = [0_usize; RANGES.len() * RANGES.len()];
        // The individuals kept for their range precede the fittest of the others.
        let (of_ranges, others): (Vec<Individual>, Vec<Individual>) = self.population.drain(..).partition(|one| {
            let range = &mut kept[range_of(&one.pattern)];
            *range += 1;
            *range <= LEAST
        });
        self.population = of_ranges.into_iter().chain(others).take(self.size).collect();
    }

    /// Adds a new generation to the old one: parents are selected at random and crossed at a random point; some children are mutants.
    pub fn breed(&mut self) {
        let (crossover, mutation) = self.rates();
        let parents = self.population.len();
        let pairs = (crossover * parents as f64 / 2.0).round() as usize;
        let mut children = Vec::new();
        for _ in 0..pairs {
            let drawn = [0; 2].map(|_| self.population.choose(&mut self.random));
            let [Some(one), Some(other)] = drawn else { continue };
            let point = self.random.random_range(1..one.chromosome.0.len().max(2));
            children
                .extend([crossed(&one.chromosome, &other.chromosome, point), crossed(&other.chromosome, &one.chromosome, point)]);
        }
        for number in 0..parents {
            if self.random.random::<f64>() < mutation {
                let mut mutant = self.population[number].chromosome.clone();
                let bit = self.random.random_range(0..mutant.0.len().max(1));
                if let Some(bit) = mutant.0.get_mut(bit) {
                    *bit = !*bit;
                }
                children.push(mutant);
            }
        }
        children.into_iter().for_each(|child| self.add(child));
        self.generation += 1;
    }

    /// Adds an individual to evaluate with the next generation: an inert chromosome, which section 7 transfers from the normal mode to the
    /// learning mode.
    pub fn add_inert(&mut self, pattern: &Pattern, genome: &[f64]) {
        let chromosome = self.converter.encode(pattern, genome);
        self.add(chromosome);
    }

    /// The monitor's choice: the individual with the most similar pattern, the fittest among several; `None` if none was evaluated.
    pub fn solution(&self, pattern: &Pattern) -> Option<&Individual> {
        self.solution_by(|other| other.distance(pattern))
    }

    /// Like [`solution`](Self::solution), with another distance of patterns.
    pub fn solution_by(&self, distance: impl Fn(&Pattern) -> f64) -> Option<&Individual> {
        let rated = self.population.iter().filter(|one| one.fitness.is_some());
        let key = |one: &Individual| (distance(&one.pattern), -one.fitness.unwrap_or(f64::NEG_INFINITY));
        rated.min_by(|a, b| {
            let (a, b) = (key(a), key(b));
            a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1))
        })
    }
}

/// The bits of `one` up to the point, then those of `other`.
fn crossed(one: &Chromosome, other: &Chromosome, point: usize) -> Chromosome {
    Chromosome(one.0.iter().take(point).chain(other.0.iter().skip(point)).copied().collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::*;
    use crate::search::Space;
    use crate::setting::Setting;

    fn optimizer() -> Optimizer {
        let schedulers = ["noop", "anticipatory", "deadline", "cfq"].map(|name| Setting::parse(name).unwrap());
        Optimizer::new(Converter::new(Space::new(&schedulers, false, std::iter::empty())), POPULATION, 1)
    }

    #[test]
    fn the_fittest_survive_and_each_range_keeps_two() {
        let mut optimizer = optimizer();
        assert_eq!(optimizer.population().len(), 50, "two for each of 5 × 5 ranges");
        optimizer.rate(&[1.0; 50]);
        optimizer.breed();
        // 0.9 × 50 / 2 = 22.5 pairs, rounded to 23, produce 46 children; about a tenth of 50 individuals are mutated.
        let bred = optimizer.unrated().count();
        assert!((46..=46 + 15).contains(&bred), "{bred}");
        // All children are fitter than all parents: only parents kept for their ranges survive.
        optimizer.rate(&vec![2.0; bred]);
        assert_eq!(optimizer.population().len(), 50);
        assert_eq!(ranges_with_two(optimizer.population().iter().map(|one| &one.pattern)), 25);
    }

    #[test]
    fn rates_go_from_the_first_to_the_last_of_the_paper() {
        let mut optimizer = optimizer();
        let mut rates = vec![optimizer.rates()];
        for _ in 0..8 {
            let unrated = optimizer.unrated().count();
            optimizer.rate(&vec![1.0; unrated]);
            optimizer.breed();
            rates.push(optimizer.rates());
        }
        // Linear over eight generations: after four, half of the way from 0.9 to 0.7 and from 0.1 to 0.25.
        for (number, crossover, mutation) in [(0, 0.9, 0.1), (4, 0.8, 0.175), (8, 0.7, 0.25)] {
            let (a, b) = rates[number];
            assert!((a - crossover).abs() < 1e-9 && (b - mutation).abs() < 1e-9, "{rates:?}");
        }
    }

    #[test]
    fn children_have_the_first_bits_of_one_parent_and_the_last_of_the_other() {
        let of = |bits: [u8; 4]| Chromosome(bits.iter().map(|bit| *bit == 1).collect());
        assert_eq!(crossed(&of([1, 1, 1, 1]), &of([0, 0, 0, 0]), 1), of([1, 0, 0, 0]));
    }

    #[test]
    fn ranges_have_the_papers_borders() {
        let pattern = |read_percent, random_percent| Pattern { processes: 1, read_percent, random_percent, request_kib: 4 };
        // [0,4], [5,34], [35,64], [65,94], [95,100]: the read percentage gives the first digit in base five, the random percentage the
        // second.
        for (reads, at_random, range) in [(0, 0, 0), (4, 5, 1), (5, 4, 5), (34, 35, 7), (64, 65, 13), (94, 94, 18), (95, 100, 24)] {
            assert_eq!(range_of(&pattern(reads, at_random)), range, "{reads} {at_random}");
        }
    }
}
