//! Guarantees from the first second on: a tenant starts right after the host was filled with writes, when the device's write cache is full.
//!
//! ```text
//! best effort   |████ writes of 1 MiB, 32 outstanding ████|
//! the tenant                                              |██ 3 s ██|   its p99, relative to that on its reference disk
//! ```
//! The reference disk is such that a schedule of [`Edf`](super::edf::Edf) keeps the guarantee.

use anyhow::{Context as _, bail};
use control::Setting;
use guarantee::tenants::{P99, Reference, TenantGuarantee, judge};
use sim::run::Watch;
use testbed::chance::{one_of, scaled, source};
use testbed::jobs::JobsLoad;
use testbed::pool::Workers;

use super::draw::size_mib;
use super::edf::BestEffort;
use super::feasible::{POLICIES, Schedules, Tried, guaranteed, host_rate};
use super::hosts::{self, Host, HostKind};
use super::loads::{DIRECT, KINDS, LoadKind, Promise};
use super::runs::{is_flash, of_promises, run_load};
use crate::worlds::Which;

/// Seconds of the tenant's run.
const SECONDS: u32 = 3;
/// The part of the host that the tenant is promised, minimum and maximum.
const PART: (f64, f64) = (0.1, 0.5);
/// Number of times that the reference disk is made half as fast before another case is drawn, and of cases drawn before an error.
const SLOWED: u32 = 3;
const DRAWS: u32 = 16;
/// Minimum number of requests on the reference disk: of fewer there is no p99.
const REQUESTS: u64 = 100;
/// Upper bound of numbers.
const MOST_NUMBER: u32 = 10_000_000;

/// The results of a case.
#[derive(Clone, Debug)]
pub struct FirstSecondResult {
    /// Its number.
    pub number: u32,
    /// The host.
    pub host: String,
    /// The kind of the host.
    pub kind: HostKind,
    /// The kind of the tenant's load, and its reference disk.
    pub load: String,
    /// By scheduler, in the order given: the p99 response time relative to the reference disk, and whether that is within the judge's bounds.
    pub outcomes: Vec<(f64, bool)>,
}

/// Runs random cases under each scheduler.
///
/// # Errors
/// A case cannot be run, or the work was interrupted.
pub fn first_second(
    which: Which,
    seed: u64,
    numbers: &[u32],
    schedulers: &[Setting],
    workers: Workers,
) -> anyhow::Result<Vec<FirstSecondResult>> {
    workers.map("first seconds", numbers, |&number| {
        let watch = workers.watch();
        for again in 0..DRAWS {
            if let Some(mut result) = case(which, seed, number + again * MOST_NUMBER, schedulers, &watch)? {
                result.number = number;
                return Ok(result);
            }
        }
        bail!("first second {number}: none of {DRAWS} draws can be kept")
    })
}

fn case(which: Which, seed: u64, number: u32, schedulers: &[Setting], watch: &Watch) -> anyhow::Result<Option<FirstSecondResult>> {
    let mut random = source("first second", seed, number);
    let Host { mut world, kind, .. } = hosts::draw(which, &mut random, seed, number)?;
    let kinds: Vec<&LoadKind> = KINDS.iter().filter(|kind| kind.promise == Promise::May && !kind.is_flood).collect();
    let load_kind = one_of(&mut random, &kinds);
    let section = load_kind.draw(&mut random);
    let (mib, fills) = (size_mib(&world, 2), if is_flash(&world) { 2 } else { 5 });
    let text = format!(
        "[global]\ntime_based\n[filler]\n{DIRECT}rw=write\nbs=1m\niodepth=32\nsize={mib}m\nruntime={fills}\n\
         [tenant]\nstartdelay={fills}\nruntime={SECONDS}\n{}",
        section.text(mib)
    );
    let load = JobsLoad::new(&text, "drawn", seed, &world)?.drawn_by_seed();
    let filler = TenantGuarantee { best_effort: true, ..TenantGuarantee::new("filler", &["filler"]) };
    let mut contract = of_promises(vec![filler, TenantGuarantee::new("tenant", &["tenant"])]);
    let rate = host_rate(&section, 2 * mib, &world, seed, watch)?;
    if rate <= 0.0 {
        return Ok(None);
    }
    let mut request_ms = 1e3 / (rate * scaled(&mut random, PART.0, PART.1));
    for _ in 0..=SLOWED {
        let reference = Reference::parse(&format!("constant:request_ms={request_ms:.3}"))?;
        let got = guaranteed((&load, &world), (&contract, 1), &reference, (&section, rate), watch)?;
        if got.alone.reference.served.requests < REQUESTS {
            return Ok(None);
        }
        contract.promises[1].reference = Some(reference.clone());
        let tenants = [None, Some(got)];
        let mut schedules = Schedules::new(&world, &load, watch);
        schedules.policies = POLICIES.into_iter().filter(|policy| policy.best_effort == BestEffort::All).collect();
        if let Tried::Kept(_) = schedules.try_all(&contract, &tenants)? {
            world.roster = Some(contract.roster(&load, &world, &Reference::model)?);
            let [_, Some(tenant)] = &tenants else { return Ok(None) };
            let outcome = |scheduler: &Setting| {
                let summary = run_load(&load, &world, scheduler, watch)?;
                let tenancy = judge(&contract, &summary, &[None, Some(&tenant.alone)]).context("the run had no tenants")?;
                let Some(figures) = &tenancy.tenants[1].reference else { bail!("the tenant has no reference disk") };
                let is_kept = figures.p99_ratio <= P99 * figures.chance.p99_ratio || figures.p99_ratio_at_least <= P99;
                Ok((figures.p99_ratio, is_kept && tenancy.tenants[1].requests > 0))
            };
            let outcomes = schedulers.iter().map(outcome).collect::<anyhow::Result<Vec<_>>>()?;
            let load = format!("{} on {reference}", load_kind.name);
            return Ok(Some(FirstSecondResult { number, host: world.profile.name().to_owned(), kind, load, outcomes }));
        }
        request_ms *= 2.0;
    }
    Ok(None)
}
