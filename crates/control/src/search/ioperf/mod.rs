//! `IOPerf`: chromosomes that combine an access pattern with settings for it.
//!
//! Santos, Romero, Taibo and Rodriguez, "Self-Tuning of Disk Input-Output in Operating Systems". The paper's parts are implemented in:
//!
//! ```text
//!  EntityAccess (converter)   chromosome.rs   bits ◀─▶ pattern, setting
//!  Simulator                  the host's: runs a pattern on a device under a setting, for 30 s
//!  Optimizer                  optimizer.rs    population, crossover, mutation, 5 × 5 ranges
//!  Monitor                    Optimizer::solution: the most similar chromosome is applied to a workload
//! ```
//! On a live device the pattern is measured and only settings are searched: this is [`Ioperf`], a [`Search`].

mod chromosome;
mod optimizer;

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::{Genome, Search, Start};
use observe::performance::TrialScore;

pub use chromosome::{Chromosome, Converter, Pattern};
pub use optimizer::{Individual, Optimizer, POPULATION, range_of, ranges_with_two};

/// Length of an evaluation in seconds. Source: section 6 of the paper.
pub const EVALUATION_S: u64 = 30;

/// Equations 1 and 2 with section 5's factor for the number of processes: bytes per second of latency, weighted by the pattern.
///
/// As printed, equation 2 favours reads and sequential access, although the text intends it to offset their natural advantage. So only the
/// minimum number of individuals in each range keeps other patterns in the population.
pub fn fitness(pattern: &Pattern, bytes: f64, latency_s: f64) -> f64 {
    let share = |percent: u32| f64::from(percent + 1) / 100.0;
    let factor = share(pattern.read_percent).powi(2) * share(100 - pattern.random_percent.min(100)).powi(2);
    fitness_without_factor(pattern, bytes, latency_s) * factor
}

/// [`fitness`] without equation 2.
pub fn fitness_without_factor(pattern: &Pattern, bytes: f64, latency_s: f64) -> f64 {
    bytes / latency_s.max(f64::MIN_POSITIVE) / f64::from(pattern.processes.max(1))
}

/// The paper's genetic algorithm over settings, for the pattern of the current load.
#[derive(Clone, Debug)]
pub struct Ioperf {
    pattern: Pattern,
    optimizer: Optimizer,
}

impl Ioperf {
    /// A population of this size: the seeds, then random ones.
    pub fn new(start: Start, population: usize) -> Ioperf {
        let converter = Converter::new(start.space.clone());
        let random = Xoshiro256PlusPlus::seed_from_u64(start.seed);
        let optimizer = Optimizer::for_pattern(converter, start.pattern, &start.seeds, population, random);
        Ioperf { pattern: start.pattern, optimizer }
    }
}

impl Search for Ioperf {
    fn ask(&mut self) -> Vec<Genome> {
        self.optimizer.unrated().map(|(_, genome)| genome).collect()
    }

    fn tell(&mut self, rated: &[Option<TrialScore>]) {
        let fitness = |rated: &Option<TrialScore>| match rated {
            Some(rated) if !rated.starves() => {
                fitness(&self.pattern, f64::from(rated.served.throughput), f64::from(rated.served.response_s))
            }
            _ => f64::NEG_INFINITY,
        };
        let fitness: Vec<f64> = rated.iter().map(fitness).collect();
        self.optimizer.rate(&fitness);
        self.optimizer.breed();
    }

    fn facts(&self) -> Vec<(String, String)> {
        let (crossover, mutation) = self.optimizer.rates();
        vec![
            ("pattern".to_owned(), self.pattern.to_string()),
            ("generation".to_owned(), format!("{}, of {} individuals", self.optimizer.generation(), self.optimizer.size())),
            ("rates".to_owned(), format!("crossover {crossover:.2}, mutation {mutation:.2}")),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fitness_is_equations_1_and_2_by_the_number_of_processes() {
        let pattern = Pattern { processes: 4, read_percent: 49, random_percent: 76, request_kib: 64 };
        // Factor: ((49 + 1) / 100)² × ((100 - 76 + 1) / 100)² = 0.25 × 0.0625 = 0.015625. Equation 1: 8 MB / 0.02 s × that = 6.25 × 10⁶;
        // for each of 4 processes 1.5625 × 10⁶.
        assert!((fitness(&pattern, 8e6, 0.02) - 1.5625e6).abs() < 1e-3);
        assert!((fitness_without_factor(&pattern, 8e6, 0.02) - 1e8).abs() < 1e-3);
    }
}
