//! Whether a contract can be kept, without asking a scheduler of the product: by its demand, and by a schedule that knows the future.
//!
//! * *Demand.* A tenant's part of the host is the rate that it was promised relative to the rate at which the host alone serves the same
//!   requests at random places, with the tenant's own concurrency. The parts of all tenants add up to at most [`MOST_DEMAND`].
//! * *Schedule.* One of the [`POLICIES`] of [`Edf`] keeps every guarantee, as the judge sees it.

use std::sync::Arc;

use anyhow::Context as _;
use block::Nanos;
use experiment::comparison::regime;
use guarantee::capacity::Need;
use guarantee::tenants::{Alone, Contract, Reference, TenantGuarantee, judge};
use report::record::{Tenancy, TenantFigures};
use sim::run::{Owner, TenantMeasure, Tenants, Watch};
use testbed::jobs::JobsLoad;
use testbed::load::{Draws, Load as _};
use testbed::world::World;

use super::edf::{BestEffort, Edf, Plan, Policy, Recorder, TenantPlan};
use super::loads::Section;
use super::runs::{is_flash, of_promises, run_load};

/// Maximum sum of the tenants' parts of the host.
pub const MOST_DEMAND: f64 = 0.7;

const fn policy(depth: usize, best_effort: BestEffort, hold: f64) -> Policy {
    Policy { depth, best_effort, hold }
}

/// The schedules that are tried, in this order.
pub const POLICIES: [Policy; 11] = [
    policy(2, BestEffort::All, 0.0),
    policy(8, BestEffort::All, 0.0),
    policy(1, BestEffort::All, 0.0),
    policy(4, BestEffort::Reads, 0.6),
    policy(1, BestEffort::Reads, 0.6),
    policy(32, BestEffort::All, 0.0),
    policy(4, BestEffort::All, 0.0),
    policy(32, BestEffort::Reads, 0.6),
    policy(1, BestEffort::Nothing, 0.6),
    policy(8, BestEffort::Nothing, 0.6),
    policy(32, BestEffort::Nothing, 0.0),
];
/// Number of policies that are tried again, after all were tried once: the best of them.
const AGAIN: usize = 3;

/// A tenant alone on its reference disk.
#[derive(Clone, Debug)]
pub struct Guaranteed {
    /// Its service.
    pub alone: Alone,
    /// Its requests.
    pub plan: TenantPlan,
    /// Its part of the host.
    pub demand: f64,
}

/// Runs a tenant alone on a reference disk. `host_rate`: requests per second of [`host_rate`].
///
/// # Errors
/// The run was interrupted or failed.
pub fn guaranteed(
    (load, world): (&JobsLoad, &World),
    (contract, tenant): (&Contract, usize),
    reference: &Reference,
    (section, host_rate): (&Section, f64),
    watch: &Watch,
) -> anyhow::Result<Guaranteed> {
    let roster = contract.roster(load, world, &Reference::model)?;
    let mut recorder = Recorder::default();
    let there = load.run_tenant(&roster, tenant, reference.queue(), Draws::OfTheRun, watch, Some(&mut recorder))?;
    let again = load.run_tenant(&roster, tenant, reference.queue(), Draws::Others, watch, None)?;
    let others = |measured: Option<Box<Tenants>>| -> TenantMeasure {
        measured.unwrap_or_else(|| Box::new(Tenants::new(&block::Roster::default(), Owner::Stream))).others().clone()
    };
    let (reference, again) = (others(there.measure.tenants), others(again.measure.tenants));
    let demand = if host_rate > 0.0 { promised_rate(&reference) / host_rate } else { f64::INFINITY };
    let plan = TenantPlan::new(recorder.streams(), section.is_clocked);
    // The service here is for capacities, which are not asked for.
    let alone = Alone { here: reference.clone(), reference, again, need: Need::default() };
    Ok(Guaranteed { alone, plan, demand })
}

/// Requests per second of the tenant's own clock, or in its most active second if that has fewer.
fn promised_rate(reference: &TenantMeasure) -> f64 {
    let mut seconds = reference.timeline.clone();
    seconds.widen_to(Nanos::from_millis(1_000));
    let most = seconds.bins().iter().map(|bin| bin.requests).max().unwrap_or(0) as f64 / seconds.width().as_secs_f64();
    if reference.wanted > Nanos::ZERO { reference.iops().min(most) } else { 0.0 }
}

/// Requests per second of its own clock at which the host alone serves this section's requests at random places of an area of this size.
///
/// # Errors
/// The run was interrupted or failed.
pub fn host_rate(section: &Section, size_mib: u64, world: &World, seed: u64, watch: &Watch) -> anyhow::Result<f64> {
    let ms = if is_flash(world) { 300 } else { 8_000 };
    let text = format!("[only]\ntime_based\nruntime={ms}ms\n{}", section.at_random(size_mib));
    let load = JobsLoad::new(&text, "drawn", seed, world)?;
    let contract = of_promises(vec![TenantGuarantee::new("only", &["only"])]);
    let alone = World { roster: Some(contract.roster(&load, world, &Reference::model)?), ..world.clone() };
    let summary = run_load(&load, &alone, &regime::scheduler("none")?, watch)?;
    let tenants = summary.measure.tenants.context("the run had no tenants")?;
    let here = &tenants.on_roster()[0];
    Ok(if here.wanted > Nanos::ZERO { here.iops() } else { 0.0 })
}

/// A contract whose schedules are tried.
pub struct Schedules<'a> {
    /// The host, whose roster is ignored.
    pub world: &'a World,
    /// The loads.
    pub load: &'a JobsLoad,
    /// Interrupts runs.
    pub watch: &'a Watch<'a>,
    /// The policies to try, best first.
    pub policies: Vec<Policy>,
}

/// The result of trying schedules.
#[derive(Clone, Debug)]
pub enum Tried {
    /// This one keeps all guarantees.
    Kept(Policy),
    /// None does. The tenants that the best one breaks, worst first.
    Broken(Vec<usize>),
}

impl<'a> Schedules<'a> {
    /// All of [`POLICIES`].
    pub fn new(world: &'a World, load: &'a JobsLoad, watch: &'a Watch<'a>) -> Schedules<'a> {
        Schedules { world, load, watch, policies: POLICIES.to_vec() }
    }

    /// Tries schedules for a contract until one keeps it. `tenants`: those with a guarantee.
    ///
    /// # Errors
    /// A run was interrupted or failed.
    pub fn try_all(&mut self, contract: &Contract, tenants: &[Option<Guaranteed>]) -> anyhow::Result<Tried> {
        let world = World { roster: Some(contract.roster(self.load, self.world, &Reference::model)?), ..self.world.clone() };
        let plan: Arc<Plan> = Arc::new(tenants.iter().map(|tenant| tenant.as_ref().map(|tenant| tenant.plan.clone())).collect());
        let alone: Vec<Option<&Alone>> = tenants.iter().map(|tenant| tenant.as_ref().map(|tenant| &tenant.alone)).collect();
        let mut results: Vec<(f64, Policy, Vec<usize>)> = Vec::new();
        let end = self.load.expected_end().unwrap_or(Nanos::ZERO);
        for &policy in &self.policies {
            let queue = world.queue(Box::new(Edf::new(plan.clone(), policy, end)));
            let summary = self.load.run(queue, world.host, self.watch, None)?;
            let tenancy = judge(contract, &summary, &alone).context("the run had no tenants")?;
            let broken = broken(&tenancy, tenants);
            if broken.is_empty() {
                // The next contract of this host is much like this one.
                self.policies.retain(|other| *other != policy);
                self.policies.insert(0, policy);
                return Ok(Tried::Kept(policy));
            }
            let worst = broken.first().map_or(0.0, |&tenant| excess(&tenancy.tenants[tenant]));
            results.push((broken.len() as f64 + worst.min(100.0) / 101.0, policy, broken));
        }
        results.sort_by(|one, other| one.0.total_cmp(&other.0));
        self.policies = results.iter().take(AGAIN).map(|(_, policy, _)| *policy).collect();
        Ok(Tried::Broken(results.into_iter().next().map(|(_, _, broken)| broken).unwrap_or_default()))
    }
}

/// The guaranteed tenants whose guarantee is broken, or that were not served at all; worst first.
fn broken(tenancy: &Tenancy, tenants: &[Option<Guaranteed>]) -> Vec<usize> {
    let all = tenancy.tenants.iter().zip(tenants).enumerate().filter(|(_, (_, guaranteed))| guaranteed.is_some());
    let mut broken: Vec<(usize, f64)> = all
        .filter(|(_, (tenant, _))| !tenant.broken.is_empty() || tenant.requests == 0)
        .map(|(number, (tenant, _))| (number, excess(tenant)))
        .collect();
    broken.sort_by(|one, other| other.1.total_cmp(&one.1));
    broken.into_iter().map(|(number, _)| number).collect()
}

/// By how much a tenant is served worse than on its reference disk, as a ratio of throughputs or of response times.
fn excess(tenant: &TenantFigures) -> f64 {
    tenant.reference.as_ref().map_or(0.0, |figures| figures.p99_ratio.max(1.0 / figures.throughput_ratio.max(1e-9)))
}
