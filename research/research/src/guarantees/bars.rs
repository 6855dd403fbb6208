//! The measurements, one function per target.

use std::path::Path;

use control::Setting;
use guarantee::tenants::{Reference, TenantGuarantee, judge};
use rand::Rng as _;
use report::record::{Tenancy, TenantFigures};
use sim::run::Watch;
use testbed::chance::{one_of, scaled, source};
use testbed::jobs::JobsLoad;
use testbed::pool::Workers;

use super::draw::{self, Drawn};
use super::edf::Policy;
use super::files;
use super::hosts::HostKind;
use super::runs::run_load;
use crate::worlds::Which;

/// Results of a contract under a scheduler.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Bytes transferred for each tenant.
    pub bytes: Vec<u64>,
    /// The evaluation of its guarantees.
    pub tenancy: Tenancy,
}

/// A contract's results.
#[derive(Clone, Debug)]
pub struct ContractResult {
    /// Its number.
    pub number: u32,
    /// The host, and its kind.
    pub host: String,
    /// The kind of the host.
    pub kind: HostKind,
    /// Its job file.
    pub text: String,
    /// The part of the host that its guarantees need.
    pub demand: f64,
    /// The schedule that keeps it.
    pub policy: Policy,
    /// By tenant: whether it holds a guarantee, and whether each of its operations waits for the medium.
    pub tenants: Vec<TenantKind>,
    /// By scheduler, in the order given.
    pub outcomes: Vec<Outcome>,
}

/// A tenant of a contract.
#[derive(Clone, Copy, Debug)]
pub struct TenantKind {
    /// Whether it holds a guarantee.
    pub is_guaranteed: bool,
    /// Whether it is a log, a group commit or another writer that waits for the medium.
    pub is_sync: bool,
}

impl ContractResult {
    /// Number of broken guarantees, and of all guarantees, under the scheduler with this index.
    pub fn broken(&self, position: usize) -> (usize, usize) {
        self.broken_of(position, |_| true)
    }

    /// Like [`ContractResult::broken`], of logs, group commits and O_SYNC writers only.
    pub fn broken_of_syncs(&self, position: usize) -> (usize, usize) {
        self.broken_of(position, |tenant| tenant.is_sync)
    }

    fn broken_of(&self, position: usize, counts: impl Fn(&TenantKind) -> bool) -> (usize, usize) {
        let tenants = self.outcomes[position].tenancy.tenants.iter().zip(&self.tenants);
        let guaranteed = tenants.filter(|(_, kind)| kind.is_guaranteed && counts(kind));
        let is_broken = |tenant: &TenantFigures| !tenant.broken.is_empty() || tenant.requests == 0;
        (guaranteed.clone().filter(|(tenant, _)| is_broken(tenant)).count(), guaranteed.count())
    }

    /// Bytes of best effort under the scheduler with this index relative to those under the last: of all such tenants together, and of the
    /// tenant with the least. `None` without any under the last.
    pub fn best_effort(&self, position: usize) -> Option<(f64, f64)> {
        let last = self.outcomes.last()?;
        let pairs = self.outcomes[position].bytes.iter().zip(&last.bytes).zip(&self.tenants);
        let pairs: Vec<(u64, u64)> =
            pairs.filter(|(_, kind)| !kind.is_guaranteed).map(|((&here, &there), _)| (here, there)).collect();
        let sum = |of: fn(&(u64, u64)) -> u64| pairs.iter().map(of).sum::<u64>() as f64;
        let there = sum(|pair| pair.1);
        let least = pairs.iter().filter(|pair| pair.1 > 0).map(|pair| pair.0 as f64 / pair.1 as f64).fold(f64::INFINITY, f64::min);
        (there > 0.0).then(|| (sum(|pair| pair.0) / there, least))
    }
}

/// Resamplings for the interval of a median.
const SAMPLES: usize = 2_000;

/// The median of some values, and the ends of its interval at this level. `None` without values.
pub fn median_with_interval(values: &[f64], level: f64) -> Option<(f64, f64, f64)> {
    let median = statistics::median(values.iter().copied())?;
    let mut random = source("median", 1, 0);
    let place = |below: usize| random.random_range(0..below);
    let of = |places: &mut dyn Iterator<Item = usize>| statistics::median(places.map(|place| values[place]));
    let (low, high) = statistics::bootstrap::interval(values.len(), SAMPLES, level, place, of)?;
    Some((median, low, high))
}

/// Runs random contracts under each scheduler, and writes each into a folder of its number below `folder`.
///
/// # Errors
/// A contract cannot be run or written, or the work was interrupted.
pub fn contracts(
    which: Which,
    seed: u64,
    numbers: &[u32],
    schedulers: &[Setting],
    folder: Option<&Path>,
    workers: Workers,
) -> anyhow::Result<Vec<ContractResult>> {
    workers.map("contracts", numbers, |&number| {
        let watch = workers.watch();
        let drawn = draw::contract(which, seed, number, &watch)?;
        if let Some(folder) = folder {
            files::write(&drawn, seed, &folder.join(number.to_string()))?;
        }
        let outcomes = schedulers.iter().map(|scheduler| run(&drawn, scheduler, &watch)).collect::<anyhow::Result<Vec<_>>>()?;
        let tenants = drawn.sections.iter().zip(&drawn.guaranteed);
        let tenants =
            tenants.map(|(section, guaranteed)| TenantKind { is_guaranteed: guaranteed.is_some(), is_sync: section.kind.is_sync });
        Ok(ContractResult {
            number,
            host: drawn.host.world.profile.name().to_owned(),
            kind: drawn.host.kind,
            text: drawn.job_file(|_, reference| reference.to_string()),
            demand: drawn.demand(),
            policy: drawn.policy,
            tenants: tenants.collect(),
            outcomes,
        })
    })
}

fn run(drawn: &Drawn, scheduler: &Setting, watch: &Watch) -> anyhow::Result<Outcome> {
    let summary = run_load(&drawn.load, &drawn.host.world, scheduler, watch)?;
    let tenancy = judge(&drawn.contract, &summary, &drawn.alone());
    let tenancy = tenancy.ok_or_else(|| anyhow::anyhow!("the run had no tenants"))?;
    Ok(Outcome { bytes: tenancy.tenants.iter().map(|tenant| tenant.bytes).collect(), tenancy })
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
