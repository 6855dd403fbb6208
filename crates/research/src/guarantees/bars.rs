//! The measurements, one function for each bar.

use control::Setting;
use experiment::chance::{one_of, scaled, source};
use experiment::comparison::JobsLoad;
use experiment::load::Load as _;
use experiment::pool::Workers;
use experiment::tenants::{Contract, Reference, TenantGuarantee, judge};
use experiment::world::World;
use report::record::{ReferenceFigures, Tenancy};
use sim::host::RunSummary;
use sim::run::{TenantMeasure, Watch};

use super::draw::{self, Drawn};
use crate::worlds::Which;

/// What one scheduler gave a drawn contract.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Bytes of all tenants.
    pub bytes: u64,
    /// What was judged.
    pub tenancy: Tenancy,
    /// Whether each tenant's guarantee was broken by more than chance.
    pub broken: Vec<bool>,
}

/// Largest count of events with a probability of 1% in `n` trials that is chance: the normal approximation at 99%.
fn by_chance(n: f64) -> f64 {
    0.01 * n + 2.33 * (0.0099 * n).sqrt() + 1.0
}

/// Whether a tenant's guarantee was broken by more than chance.
fn is_broken(here: &TenantMeasure, there: &TenantMeasure, figures: &ReferenceFigures) -> bool {
    let count = here.served.requests as f64;
    let in_time = here.responses.quantile((1.0 - by_chance(count) / count).max(0.0));
    let of = there.served.requests as f64;
    let allowed = there.responses.quantile((0.99 + 2.33 * (0.0099 / of).sqrt()).min(1.0));
    let second = figures.windows.iter().find(|window| window.window_s == 1.0);
    let violated = second.is_some_and(|window| window.violated as f64 > by_chance(window.windows as f64));
    figures.throughput_ratio < 0.97 || violated || in_time.as_secs_f64() > 1.1 * allowed.as_secs_f64()
}

/// A contract's results.
#[derive(Clone, Debug)]
pub struct ContractResult {
    /// Its number.
    pub number: u32,
    /// The host.
    pub host: String,
    /// Its job file.
    pub text: String,
    /// What its guarantees need of the host's capacity.
    pub needs: f64,
    /// By scheduler, in the order given.
    pub outcomes: Vec<Outcome>,
}

impl ContractResult {
    /// Broken and all guarantees under the scheduler of this position.
    pub fn broken(&self, position: usize) -> (usize, usize) {
        let outcome = &self.outcomes[position];
        let guaranteed = outcome.tenancy.tenants.iter().filter(|tenant| tenant.reference.is_some());
        (outcome.broken.iter().filter(|broken| **broken).count(), guaranteed.count())
    }
}

/// Runs drawn contracts under each of the schedulers.
///
/// # Errors
/// One cannot be run, or it was interrupted.
pub fn contracts(
    which: Which,
    seed: u64,
    numbers: &[u32],
    most: f64,
    schedulers: &[Setting],
    workers: Workers,
) -> anyhow::Result<Vec<ContractResult>> {
    workers.map("contracts", numbers, |&number| {
        let watch = Watch { stop: Some(workers.monitor.stop()), ..Watch::default() };
        let drawn = draw::contract(which, seed, number, most, &watch)?;
        let outcomes = schedulers.iter().map(|scheduler| run(&drawn, scheduler, &watch)).collect::<anyhow::Result<Vec<_>>>()?;
        let host = drawn.world.profile.name().to_owned();
        Ok(ContractResult { number, host, text: drawn.text, needs: drawn.needs, outcomes })
    })
}

fn run(drawn: &Drawn, scheduler: &Setting, watch: &Watch) -> anyhow::Result<Outcome> {
    let summary = run_load(&drawn.load, &drawn.world, scheduler, watch)?;
    let alone: Vec<_> = drawn.alone.iter().map(Option::as_ref).collect();
    let tenancy = judge(&drawn.contract, &summary, &alone, drawn.world.profile.disks());
    let tenancy = tenancy.ok_or_else(|| anyhow::anyhow!("the run had no tenants"))?;
    let measured = summary.measure.tenants.as_deref().map(|tenants| tenants.on_roster()).unwrap_or_default();
    let broken = tenancy.tenants.iter().zip(&alone).zip(measured).map(|((tenant, alone), here)| {
        alone.zip(tenant.reference.as_ref()).is_some_and(|(alone, figures)| is_broken(here, &alone.reference, figures))
    });
    let broken = broken.collect();
    Ok(Outcome { bytes: tenancy.tenants.iter().map(|tenant| tenant.bytes).sum(), tenancy, broken })
}

fn run_load(load: &JobsLoad, world: &World, scheduler: &Setting, watch: &Watch) -> anyhow::Result<RunSummary> {
    let queue = world.queue(world.scheduler(scheduler));
    Ok(experiment::load::Load::run(load, queue, world.host, watch, None)?)
}

/// A tenant alone on the disk that it is guaranteed: under the first of the schedulers, relative to the second.
#[derive(Clone, Debug)]
pub struct AloneResult {
    /// Its number.
    pub number: u32,
    /// The host.
    pub host: String,
    /// Its load in a word.
    pub text: String,
    /// Throughput, by the other scheduler's.
    pub throughput: f64,
    /// The p99 response time, by the other scheduler's.
    pub p99: f64,
}

/// Runs tenants alone.
///
/// # Errors
/// One cannot be run, or it was interrupted.
pub fn alone(
    which: Which,
    seed: u64,
    numbers: &[u32],
    schedulers: &[Setting; 2],
    workers: Workers,
) -> anyhow::Result<Vec<AloneResult>> {
    workers.map("tenants alone", numbers, |&number| {
        let watch = Watch { stop: Some(workers.monitor.stop()), ..Watch::default() };
        let mut random = source("alone", seed, number);
        let mut world = draw::device(which, &mut random, seed, number)?;
        let pattern = one_of(&mut random, &["randread", "randwrite", "randrw", "read", "write"]);
        let (kib, depth) = (one_of(&mut random, &[4, 8, 16, 64, 256]), scaled(&mut random, 1.0, 128.0).round() as u32);
        let seconds = if draw::is_flash(&world) { 2 } else { 20 };
        let size_mib = (world.profile.capacity_sectors() / 2048 / 2).min(20_000);
        let text = format!(
            "[only]\nioengine=libaio\ndirect=1\ntime_based\nruntime={seconds}\nsize={size_mib}m\nrw={pattern}\nbs={kib}k\niodepth={depth}\n"
        );
        let load = JobsLoad::new(&text, "drawn", seed, &world)?;
        let reference = Some(Reference::of(&world.profile));
        let promise = TenantGuarantee { reference, ..TenantGuarantee::new("only", &["only"]) };
        let contract = Contract { source: "drawn".to_owned(), sha256: String::new(), promises: vec![promise] };
        world.roster = Some(contract.roster(&load, &world, &Reference::model)?);
        let got = schedulers.iter().map(|scheduler| {
            let summary = run_load(&load, &world, scheduler, &watch)?;
            let tenants = summary.measure.tenants.ok_or_else(|| anyhow::anyhow!("the run had no tenants"))?;
            let tenant = &tenants.on_roster()[0];
            let rate = tenant.served.requests as f64 / tenant.wanted.as_secs_f64();
            Ok((rate, tenant.responses.quantile(0.99).as_secs_f64()))
        });
        let got = got.collect::<anyhow::Result<Vec<_>>>()?;
        let text = format!("{pattern} {kib}k depth {depth}");
        let host = format!("{} {}", world.profile.name(), load.names().len());
        Ok(AloneResult { number, host, text, throughput: got[0].0 / got[1].0, p99: got[0].1 / got[1].1 })
    })
}
