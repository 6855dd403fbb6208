//! What is run for the report: its two illustrations and its six benchmarks, each under schedulers.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use block::{Nanos, Tenant};
use control::Setting;
use sim::host::RunSummary;
use sim::profile::DeviceOptions;
use sim::run::Watch;

use super::array;
use super::shares::Outcome;
use experiment::comparison::{JobsLoad, Load};
use experiment::pool::Workers;
use experiment::shipped;
use experiment::synthetic::{Actor, Arrival, Pattern, Phase, Places, Stage};
use experiment::tenants::{Contract, TenantGuarantee};
use experiment::world::World;
use progress::monitor::Monitor;

/// Weights of the illustrations' classes (section II).
pub const TWO: [u32; 2] = [1, 2];
/// Weights of the benchmarks' classes. The report does not print them, but all of them together weigh six times as much as the lightest:
/// equation 3 gives the printed cycles with that and nothing much less or more. "The two classes with higher weights" (section IV) tells the
/// rest.
pub const FOUR: [u32; 4] = [1, 1, 2, 2];

/// A request each so often in the illustrations (section II).
const GAP: Nanos = Nanos::from_millis(10);
/// Requests of a class there; in a quick run of the report's repetition a quarter.
const REQUESTS: u64 = 10_000;
/// Sectors of a volume of the illustrations: more than Illustration 2 goes through.
const VOLUME: u64 = 24 << 20;

/// The benchmarks as Table V calls them, and their job files.
pub const BENCHMARKS: [(&str, &str); 6] = [
    ("BTIO", "fairio/btio"),
    ("MADbench2", "fairio/madbench2"),
    ("varmail", "fairio/varmail"),
    ("IOR1", "fairio/ior1"),
    ("IOR2", "fairio/ior2"),
    ("IOR3", "fairio/ior3"),
];

/// A load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trial {
    /// Number 1 or 2.
    Illustration(u8),
    /// A place in [`BENCHMARKS`].
    Benchmark(usize),
}

impl Trial {
    /// The weights of its classes.
    pub fn weights(self) -> &'static [u32] {
        match self {
            Trial::Illustration(_) => &TWO,
            Trial::Benchmark(_) => &FOUR,
        }
    }
}

/// How much is run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// A quarter of it.
    pub is_quick: bool,
    /// Of everything that is drawn.
    pub seed: u64,
}

/// Runs that are done, by load and scheduler.
pub type Runs = BTreeMap<(Trial, String), Outcome>;

impl Plan {
    /// Runs each load under its scheduler, and adds what comes out.
    ///
    /// # Errors
    /// A scheduler is not there, or it was interrupted.
    pub fn run(&self, wanted: Vec<(Trial, String)>, runs: &mut Runs, workers: Workers) -> anyhow::Result<()> {
        let mut wanted: Vec<(Trial, String)> = wanted.into_iter().filter(|key| !runs.contains_key(key)).collect();
        wanted.sort();
        wanted.dedup();
        let done = workers.map("sharing disk time", &wanted, |(trial, under)| {
            let (setting, monitor) = (Setting::parse(under)?, workers.monitor);
            let run = match trial {
                Trial::Illustration(number) => self.illustration(*number).and_then(|stage| stage.run(&setting, monitor)),
                Trial::Benchmark(place) => self.benchmark(BENCHMARKS[*place].1, &setting, monitor),
            };
            Outcome::of(&run.with_context(|| format!("{trial:?} under {under}"))?, trial.weights())
        })?;
        runs.extend(wanted.into_iter().zip(done));
        Ok(())
    }

    /// Section II: class 1 reads at random, or ever larger pieces ever further apart; class 2 in order.
    fn illustration(&self, number: u8) -> anyhow::Result<Stage> {
        let requests = if self.is_quick { REQUESTS / 4 } else { REQUESTS };
        let random = Pattern::Local { locality: 0.0, reads: 100, sizes: &[128], places: Places::Uniform };
        let first = if number == 1 { random } else { Pattern::Growing };
        let actor = |(name, pattern, weight): (&str, Pattern, u32)| Actor {
            tenant: Tenant::new(name).with_weight(weight),
            sectors: VOLUME,
            phases: vec![Phase { until: Nanos(GAP.0 * requests), arrival: Arrival::Every(GAP), pattern }],
        };
        let actors = [("class-1", first, TWO[0]), ("class-2", Pattern::InOrder(128), TWO[1])].map(actor).to_vec();
        Ok(Stage { profile: array::array()?, queue: array::queue(), device: DeviceOptions::default(), actors, seed: self.seed })
    }

    /// Table IV: four classes of the same benchmark.
    fn benchmark(&self, name: &str, scheduler: &Setting, monitor: &dyn Monitor) -> anyhow::Result<RunSummary> {
        let (text, source) = shipped::find(name).with_context(|| format!("{name}: not a built-in workload"))?;
        let mut world = World { profile: array::array()?, device: DeviceOptions::default(), host: array::host(), roster: None };
        let load = JobsLoad::new(&self.shortened(&text), &source, self.seed, &world)?;
        let promise = |(number, weight): (usize, &u32)| {
            let class = format!("class-{}", number + 1);
            let names = load.names().into_iter().filter(|name| *name == class || name.starts_with(&format!("{class}.")));
            TenantGuarantee { jobs: names.collect(), weight: *weight, is_weighted: true, ..TenantGuarantee::new(&class, &[]) }
        };
        let promises: Vec<TenantGuarantee> = FOUR.iter().enumerate().map(promise).collect();
        ensure!(promises.iter().all(|promise| !promise.jobs.is_empty()), "{source}: has no class of four");
        let contract = Contract { source, sha256: String::new(), promises };
        world.roster = Some(contract.roster(&load, &world, &|reference| reference.model())?);
        let watch = Watch { stop: Some(monitor.stop()), ..Watch::default() };
        let run = load.run(world.queue(world.scheduler(scheduler)), world.host, &watch, None);
        monitor.check()?;
        Ok(run?)
    }

    /// A job file with a quarter of its time.
    fn shortened(&self, text: &str) -> String {
        let line = |line: &str| match line.split_once('=') {
            Some(("runtime", value)) if self.is_quick => match value.parse::<u64>() {
                Ok(seconds) => format!("runtime={}ms\n", 250 * seconds),
                Err(_) => format!("{line}\n"),
            },
            _ => format!("{line}\n"),
        };
        text.lines().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::*;
    use progress::monitor::Quiet;

    fn outcome(under: &str) -> Outcome {
        let plan = Plan { is_quick: true, seed: 1 };
        let stage = plan.illustration(1).unwrap();
        Outcome::of(&stage.run(&Setting::parse(under).unwrap(), &Quiet::default()).unwrap(), &TWO).unwrap()
    }

    #[test]
    fn the_array_is_as_fast_as_the_reports_and_without_sharing_weights_are_missed() {
        let outcome = outcome("noop");
        // The report's 7.28 MB/s, and some 70 ms of disk time for a request.
        assert!((6.5..8.5).contains(&outcome.throughput_mb_s), "{outcome:?}");
        assert!((55.0..85.0).contains(&outcome.service_ms) && outcome.error() > 5.0, "{outcome:?}");
        assert!(outcome.window_errors.iter().all(Option::is_some) && outcome.wanting_percent > 99.0, "{outcome:?}");
    }
}
