//! The genetic library for the Linux kernel.
//!
//! Moilanen and Williams, "Using genetic algorithms to autonomically tune the kernel", Linux Symposium 2005; Moilanen, "I/O Workload
//! Fingerprinting in the Genetic Library", 2006; as studied by Gaitonde and Sarfare, "A Study of Genetic Algorithms for I/O Scheduling".
//!
//! ```text
//! a generation: each child is active for a window ──▶ ranked separately for each phenotype
//!        ▲                                          │ throughput: these genes
//!        │   worst half: genes of two of the        │ latency: those
//!        └── better half, some of them mutated ◀────┤ fairness: …
//!                                                   └ all three: scheduler, and genes without a clear effect on one of them
//! ```
//! * *Phenotypes.* A child may be among the best for latency and among the worst for throughput: then its throughput genes are replaced and
//!   its latency genes are not. The library has a table of the genes of each phenotype. Here a gene belongs to the phenotype whose fitness
//!   has the highest rank correlation with it over the generation, so genes of any scheduler are assigned without a table.
//! * *Mutation.* The rate rises if a generation scores lower than the previous one, and falls if it scores higher; at most 45%.
//! * *The first child* is always the original setting, the reference for the others, which also shows whether the load has changed. So no
//!   generation is worse than the original setting, at the cost of one child in each.

use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::{Genome, Search, Space, Start};
use crate::ab_test::CRITICAL_VALUE;
use observe::performance::TrialScore;
use observe::preference::Preference;

/// Maximum mutation rate. Source: the genetic library (`genetic.h`, linux-kernel, 15 February 2005).
pub const MAX_MUTATION: f64 = 0.45;
/// Minimum mutation rate. Choice: a higher one disturbs a population near its best; half of the 10% of the library; not varied.
const MIN_MUTATION: f64 = 0.05;
/// Mutation rate of the first generation. Source: as `MAX_MUTATION`.
const FIRST_MUTATION: f64 = 0.15;
/// Change of the mutation rate per generation. Choice: a larger one follows the noise of single generations; the library has 0.04;
/// not varied.
const MUTATION_STEP: f64 = 0.05;
/// Minimum number of children for a correlation. Derived: the least number with which [`CRITICAL_VALUE`] standard errors are no more than a
/// correlation of 1.
const MIN_CHILDREN: usize = 5;

/// A criterion by which children are ranked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phenotype {
    /// Throughput in bytes per second.
    Throughput,
    /// Mean response time.
    Latency,
    /// Fairness (Jain's index).
    Fairness,
    /// The user's preference over all three.
    All,
}

/// The phenotypes with their names. Derived: the variants of [`Phenotype`].
const PHENOTYPES: [(Phenotype, &str); 4] = [
    (Phenotype::Throughput, "throughput"),
    (Phenotype::Latency, "latency"),
    (Phenotype::Fairness, "fairness"),
    (Phenotype::All, "all three"),
];

/// A population of settings.
#[derive(Clone, Debug)]
pub struct Genetic {
    space: Space,
    preference: Preference,
    random: Xoshiro256PlusPlus,
    children: Vec<Genome>,
    generation: u32,
    mutation: f64,
    /// Mean score of the previous generation.
    before: Option<f64>,
    /// Phenotype of each gene, from the last generation.
    owners: Vec<Phenotype>,
}

impl Genetic {
    /// Generations of `children` children, at least four: the seeds, then random ones.
    pub fn new(start: Start, children: usize) -> Genetic {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(start.seed);
        let (space, preference) = (start.space.clone(), start.preference);
        let seeds = start.seeds.into_iter();
        let children = seeds.chain(std::iter::repeat_with(|| space.draw(&mut random))).take(children.max(4)).collect();
        let owners = vec![Phenotype::All; space.len()];
        Genetic { preference, random, children, generation: 0, mutation: FIRST_MUTATION, before: None, owners, space }
    }

    /// Fraction of genes that are mutated when a child is replaced.
    pub fn mutation(&self) -> f64 {
        self.mutation
    }

    fn fitness(&self, phenotype: Phenotype, rated: &Option<TrialScore>) -> f64 {
        let Some(rated) = rated.filter(|rated| !rated.starves() || phenotype == Phenotype::All) else { return f64::NEG_INFINITY };
        match phenotype {
            Phenotype::Throughput => f64::from(rated.served.throughput),
            Phenotype::Latency => -f64::from(rated.served.response_s),
            Phenotype::Fairness => f64::from(rated.served.fairness),
            Phenotype::All => rated.score(&self.preference),
        }
    }

    /// The phenotype whose fitness correlates most with the gene; [`Phenotype::All`] if no correlation is significant.
    fn owner(&self, gene: usize, fitness: &[(Phenotype, Vec<f64>)]) -> Phenotype {
        if self.space.is_scheduler(gene) {
            return Phenotype::All;
        }
        let expressed = |child: &usize| self.space.is_expressed(gene, &self.children[*child]);
        let children: Vec<usize> = (0..self.children.len()).filter(expressed).collect();
        if children.len() < MIN_CHILDREN {
            return Phenotype::All;
        }
        let places: Vec<f64> = children.iter().map(|&child| self.children[child][gene]).collect();
        let correlation = |fitness: &[f64]| {
            let fitness: Vec<f64> = children.iter().map(|&child| fitness[child]).collect();
            rank_correlation(&places, &fitness).abs()
        };
        let single = fitness.iter().filter(|(phenotype, _)| *phenotype != Phenotype::All);
        let clearest = single.map(|(phenotype, fitness)| (*phenotype, correlation(fitness))).max_by(|a, b| a.1.total_cmp(&b.1));
        // The standard error of a rank correlation without an effect is 1 / √(n - 1), over the children that express the gene.
        let least = CRITICAL_VALUE / ((children.len() - 1) as f64).sqrt();
        clearest.filter(|(_, with)| *with >= least.min(1.0)).map_or(Phenotype::All, |(phenotype, _)| phenotype)
    }

    /// Replaces the genes of a phenotype in the worse half by those of two parents of the better half.
    fn replace(&mut self, phenotype: Phenotype, fitness: &[f64], next: &mut [Genome]) {
        let genes: Vec<usize> = (0..self.space.len()).filter(|&gene| self.owners[gene] == phenotype).collect();
        let mut order: Vec<usize> = (0..self.children.len()).collect();
        order.sort_by(|&a, &b| fitness[b].total_cmp(&fitness[a]));
        let (better, worse) = order.split_at(self.children.len().div_ceil(2));
        // The original setting is never replaced.
        for &child in worse.iter().filter(|&&child| child > 0) {
            let parents = [0; 2].map(|_| better.choose(&mut self.random).copied().unwrap_or(child));
            for &gene in &genes {
                let place = self.children[parents[usize::from(self.random.random::<bool>())]][gene];
                let is_mutated = self.random.random::<f64>() < self.mutation;
                next[child][gene] = if is_mutated { self.space.mutated(gene, place, &mut self.random) } else { place };
            }
        }
    }

    fn adapt(&mut self, mean: Option<f64>) {
        if let Some((before, now)) = self.before.zip(mean) {
            let step = if now < before { MUTATION_STEP } else { -MUTATION_STEP };
            self.mutation = (self.mutation + step).clamp(MIN_MUTATION, MAX_MUTATION);
        }
        self.before = mean.or(self.before);
    }
}

impl Search for Genetic {
    fn ask(&mut self) -> Vec<Genome> {
        self.children.clone()
    }

    fn tell(&mut self, rated: &[Option<TrialScore>]) {
        let fitness = PHENOTYPES
            .map(|(phenotype, _)| (phenotype, rated.iter().map(|rated| self.fitness(phenotype, rated)).collect::<Vec<f64>>()));
        let scores: Vec<f64> =
            rated.iter().flatten().map(|rated| rated.score(&self.preference)).filter(|it| it.is_finite()).collect();
        self.adapt(statistics::mean(scores));
        self.owners = (0..self.space.len()).map(|gene| self.owner(gene, &fitness)).collect();
        let mut next = self.children.clone();
        for (phenotype, fitness) in &fitness {
            self.replace(*phenotype, fitness, &mut next);
        }
        self.children = next;
        self.generation += 1;
    }

    fn facts(&self) -> Vec<(String, String)> {
        let mut facts = vec![
            ("generation".to_owned(), format!("{}, of {} children", self.generation, self.children.len())),
            ("mutation rate".to_owned(), format!("{:.0}%, at most {:.0}%", 100.0 * self.mutation, 100.0 * MAX_MUTATION)),
        ];
        for (phenotype, name) in PHENOTYPES.iter().filter(|(phenotype, _)| *phenotype != Phenotype::All) {
            let genes = (0..self.space.len()).filter(|&gene| self.owners[gene] == *phenotype);
            let names: Vec<String> = genes.map(|gene| self.space.name(gene)).collect();
            if !names.is_empty() {
                facts.push((format!("genes of {name}"), names.join(", ")));
            }
        }
        facts
    }
}

/// Spearman's rank correlation; 0 if one of them is constant.
fn rank_correlation(a: &[f64], b: &[f64]) -> f64 {
    let (a, b) = (ranks(a), ranks(b));
    let mean = (a.len() as f64 - 1.0) / 2.0;
    let [mut both, mut of_a, mut of_b] = [0.0; 3];
    for (a, b) in a.iter().zip(&b) {
        both += (a - mean) * (b - mean);
        of_a += (a - mean).powi(2);
        of_b += (b - mean).powi(2);
    }
    if of_a > 0.0 && of_b > 0.0 { both / (of_a * of_b).sqrt() } else { 0.0 }
}

/// The rank of each value from 0; equal values share their mean rank.
fn ranks(values: &[f64]) -> Vec<f64> {
    let below = |value: &f64| values.iter().filter(|other| other.total_cmp(value).is_lt()).count() as f64;
    let equal = |value: &f64| values.iter().filter(|other| other.total_cmp(value).is_eq()).count() as f64;
    values.iter().map(|value| below(value) + (equal(value) - 1.0) / 2.0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rank_correlation_is_1_for_equal_orders_and_0_for_constants() {
        assert_eq!(ranks(&[3.0, 1.0, 3.0, 9.0]), [1.5, 0.0, 1.5, 3.0]);
        assert!((rank_correlation(&[1.0, 2.0, 5.0], &[10.0, 11.0, 99.0]) - 1.0).abs() < 1e-12);
        assert!((rank_correlation(&[1.0, 2.0, 5.0], &[3.0, 2.0, 1.0]) + 1.0).abs() < 1e-12);
        assert_eq!(rank_correlation(&[1.0, 1.0, 1.0], &[3.0, 2.0, 1.0]), 0.0);
    }
}
