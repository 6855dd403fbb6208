//! The measurements, one function per target.

use control::Setting;
use guarantee::tenants::{Reference, TenantGuarantee, judge};
use report::record::Tenancy;
use sim::host::RunSummary;
use sim::run::Watch;
use testbed::chance::{one_of, scaled, source};
use testbed::jobs::JobsLoad;
use testbed::load::Load as _;
use testbed::pool::Workers;
use testbed::world::World;

use super::draw::{self, Drawn};
use crate::worlds::Which;

/// Results of a contract under a scheduler.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Bytes transferred for all tenants.
    pub bytes: u64,
    /// The evaluation of its guarantees.
    pub tenancy: Tenancy,
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
    /// By scheduler, in the order given.
    pub outcomes: Vec<Outcome>,
}

impl ContractResult {
    /// Number of broken guarantees, and of all guarantees, under the scheduler with this index.
    pub fn broken(&self, position: usize) -> (usize, usize) {
        let tenants = &self.outcomes[position].tenancy.tenants;
        let guaranteed = tenants.iter().filter(|tenant| tenant.reference.is_some());
        (guaranteed.clone().filter(|tenant| !tenant.broken.is_empty()).count(), guaranteed.count())
    }
}

/// Runs random contracts under each scheduler.
///
/// # Errors
/// A contract cannot be run, or the work was interrupted.
pub fn contracts(
    which: Which,
    seed: u64,
    numbers: &[u32],
    most: f64,
    schedulers: &[Setting],
    workers: Workers,
) -> anyhow::Result<Vec<ContractResult>> {
    workers.map("contracts", numbers, |&number| {
        let watch = workers.watch();
        let drawn = draw::contract(which, seed, number, most, &watch)?;
        let outcomes = schedulers.iter().map(|scheduler| run(&drawn, scheduler, &watch)).collect::<anyhow::Result<Vec<_>>>()?;
        let host = drawn.world.profile.name().to_owned();
        Ok(ContractResult { number, host, text: drawn.text, outcomes })
    })
}

fn run(drawn: &Drawn, scheduler: &Setting, watch: &Watch) -> anyhow::Result<Outcome> {
    let summary = run_load(&drawn.load, &drawn.world, scheduler, watch)?;
    let alone: Vec<_> = drawn.alone.iter().map(Option::as_ref).collect();
    let tenancy = judge(&drawn.contract, &summary, &alone);
    let tenancy = tenancy.ok_or_else(|| anyhow::anyhow!("the run had no tenants"))?;
    Ok(Outcome { bytes: tenancy.tenants.iter().map(|tenant| tenant.bytes).sum(), tenancy })
}

pub(super) fn run_load(load: &JobsLoad, world: &World, scheduler: &Setting, watch: &Watch) -> anyhow::Result<RunSummary> {
    let queue = world.queue(world.scheduler(scheduler));
    Ok(load.run(queue, world.host, watch, None)?)
}

/// Results of a tenant alone on its reference disk: under the first scheduler relative to the second.
#[derive(Clone, Debug)]
pub struct AloneResult {
    /// Its number.
    pub number: u32,
    /// The host.
    pub host: String,
    /// A short description of its load.
    pub text: String,
    /// Ratio of throughputs.
    pub throughput: f64,
    /// Ratio of p99 response times.
    pub p99: f64,
}

/// Runs tenants alone.
///
/// # Errors
/// A tenant cannot be run, or the work was interrupted.
pub fn alone(
    which: Which,
    seed: u64,
    numbers: &[u32],
    schedulers: &[Setting; 2],
    workers: Workers,
) -> anyhow::Result<Vec<AloneResult>> {
    workers.map("tenants alone", numbers, |&number| {
        let watch = workers.watch();
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
        let contract = draw::of_promises(vec![promise]);
        world.roster = Some(contract.roster(&load, &world, &Reference::model)?);
        let got = schedulers.iter().map(|scheduler| {
            let summary = run_load(&load, &world, scheduler, &watch)?;
            let tenants = summary.measure.tenants.ok_or_else(|| anyhow::anyhow!("the run had no tenants"))?;
            let tenant = &tenants.on_roster()[0];
            Ok((tenant.iops(), tenant.p99().as_secs_f64()))
        });
        let got = got.collect::<anyhow::Result<Vec<_>>>()?;
        let text = format!("{pattern} {kib}k depth {depth}");
        let host = world.profile.name().to_owned();
        Ok(AloneResult { number, host, text, throughput: got[0].0 / got[1].0, p99: got[0].1 / got[1].1 })
    })
}
