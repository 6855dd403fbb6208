//! The paper's two stages in turn: a generation is bred on evaluations of its individuals, then tested on random workloads.

use control::Setting;
use control::search::Genome;
use control::search::ioperf::{Converter, Optimizer, POPULATION, Pattern, fitness};

use super::Plan;
use super::machine::{Got, Kernel, Run, pattern};
use experiment::pool::Workers;

/// A workload under what the population has for it, and under the default.
pub struct Test {
    /// The generation that was tested, from 0 on.
    pub generation: usize,
    /// The workload.
    pub pattern: Pattern,
    /// What the monitor chose.
    pub ours: Got,
    /// What the kernel does by itself: the paper's `IOBad`.
    pub default: Got,
}

impl Test {
    /// Megabytes a second of each process.
    pub fn productivity(&self, got: &Got) -> f64 {
        got.bytes_per_s / 1e6 / f64::from(self.pattern.processes)
    }
}

/// Everything that was tested.
pub struct Evolution {
    /// In the order of the tests.
    pub tests: Vec<Test>,
}

impl Evolution {
    /// Breeds generations and tests each.
    ///
    /// # Errors
    /// It was interrupted.
    pub fn run(plan: Plan, workers: Workers) -> anyhow::Result<Evolution> {
        let kernel = Kernel::OF_THE_PAPER;
        let (default, space) = (kernel.default()?, kernel.space(false)?);
        let mut optimizer = Optimizer::new(Converter::new(space.clone()), POPULATION, plan.seed);
        let Plan { generations, tests, evaluation_s, test_s, .. } = plan;
        let mut all = Vec::new();
        for generation in 0..generations {
            let unrated: Vec<(Pattern, Genome)> = optimizer.unrated().collect();
            let what = format!("evaluating generation {} of {generations}", generation + 1);
            let rated = workers.map(&what, &unrated, |(pattern, genome)| {
                let run = Run { pattern, default: &default, seconds: evaluation_s, seed: plan.seed };
                run.simulate(&space.setting(genome), workers.monitor)
            })?;
            let fitness: Vec<f64> = unrated
                .iter()
                .zip(&rated)
                .map(|((pattern, _), got)| fitness(pattern, got.bytes_per_s * evaluation_s as f64, got.latency_s))
                .collect();
            optimizer.rate(&fitness);
            let numbers: Vec<usize> = (generation * tests..(generation + 1) * tests).collect();
            let what = format!("testing generation {} of {generations}", generation + 1);
            let tested = workers.map(&what, &numbers, |&number| {
                let pattern = pattern("ioperf test", plan.seed, number);
                let solution = optimizer.solution(&pattern).map(|one| space.setting(&one.genome));
                let solution: Setting = solution.unwrap_or_else(|| default.clone());
                let run = Run { pattern: &pattern, default: &default, seconds: test_s, seed: number as u64 };
                let (ours, default) = (run.simulate(&solution, workers.monitor)?, run.simulate(&default, workers.monitor)?);
                Ok(Test { generation, pattern, ours, default })
            })?;
            all.extend(tested);
            optimizer.breed();
        }
        Ok(Evolution { tests: all })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::*;
    use progress::monitor::Quiet;

    #[test]
    fn populations_and_tests_are_the_same_for_any_number_of_threads_and_others_for_another_seed() {
        let plan = |seed| Plan { generations: 2, tests: 2, evaluation_s: 2, test_s: 4, ..Plan::new(true, seed) };
        let run = |threads, seed| {
            let evolution = Evolution::run(plan(seed), Workers::new(&Quiet::default(), Some(threads))).unwrap();
            evolution.tests.iter().map(|test| (test.pattern, test.ours.bytes_per_s, test.default.latency_s)).collect::<Vec<_>>()
        };
        let one = run(1, 1);
        assert!(one.len() == 4 && one.iter().all(|(_, bytes_per_s, _)| *bytes_per_s > 0.0), "{one:?}");
        assert_eq!(one, run(3, 1));
        assert_ne!(one, run(3, 2));
    }
}
