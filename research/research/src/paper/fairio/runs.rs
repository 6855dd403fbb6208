//! Runs of the report's illustrations and benchmarks under each scheduler.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use block::{Nanos, Tenant};
use control::Setting;
use guarantee::tenants::{Contract, TenantGuarantee};
use sim::host::RunSummary;
use sim::profile::DeviceOptions;
use sim::run::Watch;
use testbed::jobs::JobsLoad;
use testbed::load::Load;
use testbed::pool::Workers;
use testbed::shipped;
use testbed::synthetic::{self, Arrival, Pattern, Phase};
use testbed::world::World;

use super::cases::{BENCHMARKS, FOUR, FairioCase, MADBENCH2, TWO};
use super::plan::Plan;
use super::shares::Outcome;
use super::traces::{Places, Traces, last_arrival};
use super::{array, printed, traces};
use crate::stage::{Actor, Stage};
use progress::monitor::Monitor;

/// Interarrival time of a class in the illustrations (section II).
const GAP: Nanos = Nanos::from_millis(10);
/// Number of requests per class in the illustrations.
const REQUESTS: u64 = 10_000;
/// Sectors per volume of the illustrations: more than Illustration 2 covers.
const VOLUME: u64 = 24 << 20;
/// Number of sectors by which the first volume grows with each repetition. In Illustration 2 nothing is random; repetitions differ only in the
/// location of the second class's data.
const SHIFT: u64 = 1 << 17;

/// The scheduler without shares: in order of arrival, as the report's driver without FAIRIO.
pub const UNSHARED: &str = "noop";

/// Details of the set-up that the report leaves open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SetUp {
    /// The array's stripe unit.
    pub stripe_unit_kib: u32,
    /// The benchmarks' weights.
    pub weights: [u32; 4],
    /// Repetition, from 0; each has its data at other locations.
    pub repetition: u32,
    /// Data layout of a trace.
    pub places: Places,
    /// Arrival rate of the two heavier classes of a trace, in percent of the capacity of their shares; `None` for the recorded rate.
    pub demand_percent: Option<u32>,
}

/// The set-up of all runs for which no other is named.
pub const USUAL: SetUp =
    SetUp { stripe_unit_kib: array::STRIPE_UNIT_KIB, weights: FOUR, repetition: 0, places: Places::Extents, demand_percent: None };

/// Key of a run: workload, scheduler and set-up.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Run {
    /// The workload.
    pub trial: FairioCase,
    /// The scheduler with its tunables.
    pub under: String,
    /// The set-up.
    pub set_up: SetUp,
}

impl Run {
    /// A run in the usual set-up.
    pub fn new(trial: FairioCase, under: impl Into<String>) -> Run {
        Run { trial, under: under.into(), set_up: USUAL }
    }

    /// The same run in another set-up.
    pub fn with(self, set_up: SetUp) -> Run {
        Run { set_up, ..self }
    }

    fn setting(&self) -> anyhow::Result<Setting> {
        let schedulers = device_model::sched::all().chain([&printed::SPEC]);
        let (spec, values) = block::parse_among(schedulers, &self.under)?;
        Ok(Setting { spec, values, host: Vec::new() })
    }

    /// Options of the array: the report's controller has an unbounded queue, with which other schedulers would have nothing to schedule.
    fn device(&self) -> DeviceOptions {
        if self.under.starts_with(printed::SPEC.name) { array::infinite() } else { DeviceOptions::default() }
    }
}

/// MADbench2's trace with this arrival rate of its heavier classes.
pub fn demand_run(demand_percent: Option<u32>, under: String) -> Run {
    Run::new(MADBENCH2, under).with(SetUp { demand_percent, ..USUAL })
}

/// Results of runs.
pub type Runs = BTreeMap<Run, Outcome>;

impl Plan {
    /// Executes those runs that are not in `runs`, and adds the results.
    ///
    /// # Errors
    /// An unknown scheduler, or the work was interrupted.
    pub fn run(&self, mut wanted: Vec<Run>, traces: &Traces, runs: &mut Runs, workers: Workers) -> anyhow::Result<()> {
        wanted.retain(|run| !runs.contains_key(run));
        wanted.sort();
        wanted.dedup();
        let done = workers.map("sharing disk time", &wanted, |run| {
            let setting = run.setting()?;
            let about = || format!("{run:?}");
            let on_stage = |actors: Vec<Actor>, arrivals| {
                let weights: Vec<u32> = actors.iter().map(|actor| actor.tenant.weight).collect();
                let summary = self.stage(actors, run)?.run(&setting, workers.monitor).with_context(about)?;
                Outcome::of(&summary, &weights, arrivals)
            };
            match run.trial {
                FairioCase::Illustration(number) => on_stage(illustration(number, run), Some(END)),
                FairioCase::Drawn(number) => on_stage(self.classes(number), None),
                FairioCase::Trace(place) => {
                    let trace =
                        traces.get(&(place, run.set_up.places)).with_context(|| format!("{}: no trace", BENCHMARKS[place].0))?;
                    let unshared = run.set_up.demand_percent.and_then(|_| runs.get(&Run::new(run.trial, UNSHARED)));
                    let demand = run.set_up.demand_percent.zip(unshared);
                    let slower = demand.map(|(percent, unshared)| traces::with_demand(trace, percent, unshared.service_ms));
                    let trace = slower.as_ref().unwrap_or(trace);
                    let array = (run.set_up.stripe_unit_kib, run.device());
                    let summary =
                        traces::replay(trace, &run.set_up.weights, array, &setting, workers.monitor).with_context(about)?;
                    Outcome::of(&summary, &run.set_up.weights, Some(last_arrival(trace)))
                }
                FairioCase::Benchmark(place) => {
                    let summary = self.benchmark(BENCHMARKS[place].1, run, &setting, workers.monitor).with_context(about)?;
                    Outcome::of(&summary, &run.set_up.weights, None)
                }
            }
        })?;
        runs.extend(wanted.into_iter().zip(done));
        Ok(())
    }

    /// A stage with classes of generated requests on the array.
    fn stage(&self, actors: Vec<Actor>, run: &Run) -> anyhow::Result<Stage> {
        let profile = array::array(run.set_up.stripe_unit_kib)?;
        let seed = self.seed.wrapping_add(u64::from(run.set_up.repetition));
        Ok(Stage { profile, queue: array::queue(), device: run.device(), actors, seed })
    }

    /// Table IV: four classes of the same benchmark.
    fn benchmark(&self, name: &str, run: &Run, scheduler: &Setting, monitor: &dyn Monitor) -> anyhow::Result<RunSummary> {
        let (text, source) = shipped::find(name).with_context(|| format!("{name}: not a built-in workload"))?;
        let profile = array::array(run.set_up.stripe_unit_kib)?;
        let mut world = World { profile, device: run.device(), host: array::host(), roster: None };
        let load = JobsLoad::new(&self.shortened(&text), &source, self.seed, &world)?;
        let promise = |(number, weight): (usize, &u32)| {
            let class = format!("class-{}", number + 1);
            let names = load.names().into_iter().filter(|name| *name == class || name.starts_with(&format!("{class}.")));
            TenantGuarantee { jobs: names.collect(), weight: *weight, is_weighted: true, ..TenantGuarantee::new(&class, &[]) }
        };
        let promises: Vec<TenantGuarantee> = run.set_up.weights.iter().enumerate().map(promise).collect();
        ensure!(promises.iter().all(|promise| !promise.jobs.is_empty()), "{source}: has no class of four");
        let contract = Contract { source, sha256: String::new(), promises };
        world.roster = Some(contract.roster(&load, &world, &|reference| reference.model())?);
        let watch = Watch { stop: Some(monitor.stop()), ..Watch::default() };
        let run = load.run(world.queue(world.scheduler(scheduler)), world.host, &watch, None);
        monitor.check()?;
        Ok(run?)
    }
}

/// Section II: class 1 reads at random, or reads growing pieces at growing distances; class 2 reads sequentially.
fn illustration(number: u8, run: &Run) -> Vec<Actor> {
    let random = Pattern::Local { locality: 0.0, reads: 100, sizes: &[128], places: synthetic::Places::Uniform };
    let first = if number == 1 { random } else { Pattern::Growing };
    let actor = |(name, pattern, weight, sectors): (&str, Pattern, u32, u64)| Actor {
        tenant: Tenant::new(name).with_weight(weight),
        sectors,
        phases: vec![Phase { until: END, arrival: Arrival::Every(GAP), pattern }],
    };
    let sectors = VOLUME + u64::from(run.set_up.repetition) * SHIFT;
    [("class-1", first, TWO[0], sectors), ("class-2", Pattern::InOrder(128), TWO[1], VOLUME)].map(actor).to_vec()
}

/// When the illustrations' arrivals end.
const END: Nanos = Nanos(GAP.0 * REQUESTS);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::*;
    use progress::monitor::Quiet;

    fn outcome(number: u8, under: &str) -> Outcome {
        let plan = Plan { is_quick: true, seed: 1 };
        let run = Run::new(FairioCase::Illustration(number), under);
        let stage = plan.stage(illustration(number, &run), &run).unwrap();
        Outcome::of(&stage.run(&run.setting().unwrap(), &Quiet::default()).unwrap(), &TWO, Some(END)).unwrap()
    }

    #[test]
    fn the_array_is_as_fast_as_the_reports_and_without_sharing_weights_are_missed() {
        let outcome = outcome(1, "noop");
        // The report's 7.28 MB/s, and some 70 ms of disk time for a request.
        assert!((6.5..8.5).contains(&outcome.throughput_mb_s), "{outcome:?}");
        assert!((55.0..85.0).contains(&outcome.service_ms) && outcome.error() > 5.0, "{outcome:?}");
        assert!(outcome.window_errors.iter().all(Option::is_some) && outcome.wanting_percent > 99.0, "{outcome:?}");
    }

    #[test]
    fn as_printed_the_error_falls_with_the_cycle_and_with_storage_load_threshold() {
        for number in [1, 2] {
            let error = |tunables: &str| outcome(number, &format!("fairio-report:{tunables}")).errors[0];
            let errors = ["cycle_ms=100", "cycle_ms=500", "cycle_ms=2000"].map(error);
            assert!(errors[0] > 11.0 && errors[0] > 1.3 * errors[1] && errors[1] > 2.0 * errors[2], "{errors:?}");
            // Surplus service goes by order of arrival, so that errors grow with the threshold.
            let errors = [4, 16, 32].map(|threshold| error(&format!("cycle_ms=500,storage_load_threshold={threshold}")));
            assert!(errors.is_sorted() && errors[2] > 4.0 * errors[0], "{errors:?}");
            assert!(outcome(number, "fairio:cycle_ms=500").error() < 0.5);
        }
    }
}
