//! The paper's two stages, repeated: a generation is bred by evaluating its individuals, then tested on random workloads.
//!
//! ```text
//!  optimization  individuals not yet rated ─▶ Simulator, 30 s each ─▶ fitness ─▶ the fittest of each range stay, and breed
//!  monitoring    20 random workloads ─▶ the most similar individual's setting (IOPerf), and the default (IOBad)
//! ```

use control::Setting;
use control::search::Genome;
use control::search::ioperf::{Converter, Optimizer, POPULATION, Pattern, fitness, fitness_without_factor, ranges_with_two};
use testbed::chance;
use testbed::pool::Workers;

use super::machine::{Got, Kernel, Run, pattern};
use super::{Plan, TEST_S};

/// Readings of the paper where it leaves details open, or contradicts its own intention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// As printed: clearance factors are weights, equation 2 is the factor, and the monitor knows the workload's pattern.
    Printed,
    /// A larger clearance factor lets a parameter differ more: the alternative reading of section 4.
    ClearanceDivides,
    /// Without equation 2, which favours the effect that the text intends to compensate.
    WithoutFactor,
    /// The two modes of the last section: the pattern is measured from requests under the default, and tested individuals are added to the
    /// population (the text's inert chromosomes) and evaluated in learning mode.
    Modes,
    /// No population: each test uses a random setting, as from a population without effect.
    Random,
}

impl Variant {
    /// All variants.
    pub const ALL: [Variant; 5] =
        [Variant::Printed, Variant::ClearanceDivides, Variant::WithoutFactor, Variant::Modes, Variant::Random];

    /// The name on the page.
    pub fn name(self) -> &'static str {
        match self {
            Variant::Printed => "as printed",
            Variant::ClearanceDivides => "clearance factors as divisors",
            Variant::WithoutFactor => "without equation 2",
            Variant::Modes => "normal and learning mode, pattern measured",
            Variant::Random => "settings drawn at random",
        }
    }
}

/// A workload on which populations are tested.
pub struct Base {
    /// The workload.
    pub pattern: Pattern,
    /// The pattern measured from its requests under the default.
    measured: Pattern,
    /// Result under the kernel's default: the paper's `IOBad`.
    pub default: Got,
    /// Result under CFQ, the default of Linux since 2.6.18; only for tests on which variants are compared.
    pub cfq: Option<Got>,
    /// Result under the best constant setting of the lessons, if there is one; only for the first [`Plan::constant_tests`].
    pub constant: Option<Got>,
}

impl Base {
    /// Runs the first `count` workloads.
    ///
    /// # Errors
    /// The work was interrupted.
    pub fn run(count: usize, constant: Option<&Setting>, plan: Plan, workers: Workers) -> anyhow::Result<Vec<Base>> {
        let (default, cfq) = (Kernel::OF_THE_PAPER.default()?, Setting::parse("cfq")?);
        let numbers: Vec<usize> = (0..count).collect();
        workers.map("tests under the default", &numbers, |&number| {
            let pattern = pattern("ioperf test", plan.seed, number);
            let run = Run { pattern: &pattern, default: &default, seconds: plan.test_s, seed: number as u64 };
            let (got, measured) = run.simulate_default(workers.monitor)?;
            let constant = constant.filter(|_| number < plan.constant_tests);
            let constant = constant.map(|setting| run.simulate(setting, workers.monitor)).transpose()?;
            let is_compared = number < plan.variant_generations * plan.tests;
            let cfq = is_compared.then(|| run.simulate(&cfq, workers.monitor)).transpose()?;
            Ok(Base { pattern, measured, default: got, cfq, constant })
        })
    }
}

/// A workload under the setting that the population provides.
#[derive(Clone)]
pub struct Test {
    /// The generation tested, from 0.
    pub generation: usize,
    /// The workload.
    pub pattern: Pattern,
    /// The setting that the monitor chose.
    pub setting: Setting,
    /// Result under that setting.
    pub ours: Got,
    /// Result under the default.
    pub default: Got,
    /// Results under CFQ, and under the best constant setting of the lessons.
    pub cfq: Option<Got>,
    /// See `cfq`.
    pub constant: Option<Got>,
}

impl Test {
    /// Megabytes per second and process.
    pub fn productivity(&self, got: &Got) -> f64 {
        got.bytes_per_s / 1e6 / f64::from(self.pattern.processes)
    }
}

/// All tests of a population.
pub struct Evolution {
    /// In order of execution.
    pub tests: Vec<Test>,
    /// How many of the 25 ranges have at least two individuals in the last population.
    pub ranges: usize,
}

impl Evolution {
    /// Breeds and tests as many generations as there are workloads for.
    ///
    /// # Errors
    /// The work was interrupted.
    pub fn run(variant: Variant, bases: &[Base], plan: Plan, workers: Workers) -> anyhow::Result<Evolution> {
        let kernel = Kernel::OF_THE_PAPER;
        let (default, space) = (kernel.default()?, kernel.space(false)?);
        let mut optimizer = Optimizer::new(Converter::new(space.clone()), POPULATION, plan.seed);
        let generations = bases.len() / plan.tests;
        let mut all = Vec::new();
        for (generation, bases) in bases.chunks_exact(plan.tests).enumerate() {
            if variant != Variant::Random {
                let what = format!("{}: evaluating generation {} of {generations}", variant.name(), generation + 1);
                evaluate(&mut optimizer, variant, &what, plan, workers)?;
            }
            let chosen = |number: usize, base: &Base| -> Option<Genome> {
                let of = if variant == Variant::Modes { &base.measured } else { &base.pattern };
                Some(match variant {
                    Variant::Random => space.draw(&mut chance::source("ioperf random", plan.seed, number as u32)),
                    Variant::ClearanceDivides => optimizer.solution_by(|pattern| pattern.distance_divided(of))?.genome.clone(),
                    _ => optimizer.solution(of)?.genome.clone(),
                })
            };
            let first = generation * plan.tests;
            let genomes: Vec<Option<Genome>> = bases.iter().enumerate().map(|(place, base)| chosen(first + place, base)).collect();
            let numbers: Vec<usize> = (0..bases.len()).collect();
            let what = format!("{}: testing generation {} of {generations}", variant.name(), generation + 1);
            let tested = workers.map(&what, &numbers, |&place| {
                let base = &bases[place];
                let setting = genomes[place].as_ref().map_or_else(|| default.clone(), |genome| space.setting(genome));
                let seed = (first + place) as u64;
                let run = Run { pattern: &base.pattern, default: &default, seconds: plan.test_s, seed };
                let ours = run.simulate(&setting, workers.monitor)?;
                let Base { pattern, default, cfq, constant, .. } = *base;
                Ok(Test { generation, pattern, setting, ours, default, cfq, constant })
            })?;
            all.extend(tested);
            if variant == Variant::Modes {
                let tested = bases.iter().zip(&genomes);
                tested.for_each(|(base, genome)| genome.iter().for_each(|genome| optimizer.add_inert(&base.measured, genome)));
            }
            optimizer.breed();
        }
        let ranges = ranges_with_two(optimizer.population().iter().filter(|one| one.fitness.is_some()).map(|one| &one.pattern));
        Ok(Evolution { tests: all, ranges })
    }
}

/// Repeats the first tests at the paper's duration.
///
/// # Errors
/// The work was interrupted.
pub fn longer(evolution: &Evolution, plan: Plan, workers: Workers) -> anyhow::Result<Vec<Test>> {
    let default = Kernel::OF_THE_PAPER.default()?;
    let first: Vec<(usize, &Test)> = evolution.tests.iter().take(plan.long_tests).enumerate().collect();
    workers.map("tests of 300 s", &first, |&(number, test)| {
        let run = Run { pattern: &test.pattern, default: &default, seconds: TEST_S, seed: number as u64 };
        let (ours, default) = (run.simulate(&test.setting, workers.monitor)?, run.simulate(&default, workers.monitor)?);
        let Test { generation, pattern, .. } = *test;
        Ok(Test { generation, pattern, setting: test.setting.clone(), ours, default, cfq: None, constant: None })
    })
}

/// Evaluates individuals that are not rated yet, each for [`Plan::evaluation_s`].
fn evaluate(optimizer: &mut Optimizer, variant: Variant, what: &str, plan: Plan, workers: Workers) -> anyhow::Result<()> {
    let kernel = Kernel::OF_THE_PAPER;
    let (default, space) = (kernel.default()?, kernel.space(false)?);
    let unrated: Vec<(Pattern, Genome)> = optimizer.unrated().collect();
    let rated = workers.map(what, &unrated, |(pattern, genome)| {
        let run = Run { pattern, default: &default, seconds: plan.evaluation_s, seed: plan.seed };
        run.simulate(&space.setting(genome), workers.monitor)
    })?;
    let of = if variant == Variant::WithoutFactor { fitness_without_factor } else { fitness };
    let fitness: Vec<f64> = unrated
        .iter()
        .zip(&rated)
        .map(|((pattern, _), got)| of(pattern, got.bytes_per_s * plan.evaluation_s as f64, got.latency_s))
        .collect();
    optimizer.rate(&fitness);
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::*;
    use progress::monitor::Quiet;

    #[test]
    fn populations_and_tests_are_the_same_for_any_number_of_threads_and_others_for_another_seed() {
        let plan = |seed| Plan { tests: 2, evaluation_s: 2, test_s: 4, ..Plan::new(true, seed) };
        let run = |threads, seed| {
            let (quiet, plan) = (Quiet::default(), plan(seed));
            let workers = Workers::new(&quiet, Some(threads));
            let bases = Base::run(4, None, plan, workers).unwrap();
            let evolution = Evolution::run(Variant::Modes, &bases, plan, workers).unwrap();
            assert_eq!(evolution.ranges, 25, "every range keeps two");
            evolution.tests.iter().map(|test| (test.pattern, test.ours.bytes_per_s, test.default.latency_s)).collect::<Vec<_>>()
        };
        let one = run(1, 1);
        assert!(one.len() == 4 && one.iter().all(|(_, bytes_per_s, _)| *bytes_per_s > 0.0), "{one:?}");
        assert_eq!(one, run(3, 1));
        assert_ne!(one, run(3, 2));
    }
}
