//! Accuracy of admission control (`seekwise guarantee`): whether it admits the contracts that a host can meet and refuses the others.
//!
//! ```text
//! drawn host, tenants, reference disks ─▶ guarantee, with its scenarios ─▶ admitted or refused ─┐
//!                     │                                                                         ├─▶ right or wrong
//!                     └─▶ several drawn sets of loads under youchoose ─▶ kept, or broken in one ─┘
//! ```
//! The loads are those of [`KINDS`], which differ from the neighbours that admission control assumes. It may refuse because of loads that
//! a random set does not include: so a refusal counts as right, too, if its scenario breaks a guarantee again with other random numbers and
//! for longer.

use std::sync::atomic::AtomicBool;

use block::{Merges, Nanos};
use experiment::comparison::regime;
use guarantee::admission::{GuaranteeRequest, admit, breaks_again};
use guarantee::capacity::{self, Extent, serve};
use guarantee::placement::PROMISES;
use guarantee::tenants::{Contract, Reference, TenantGuarantee, alone, judge};
use rand::Rng as _;
use rand_xoshiro::Xoshiro256PlusPlus;
use report::guarantee::Guarantee;
use sim::host::QueueSettings;
use sim::run::Watch;
use testbed::chance::{happens, one_of, scaled, source};
use testbed::jobs::JobsLoad;
use testbed::pool::{Unseen, Workers};
use testbed::synthetic::{Draw, Pattern, Places};
use testbed::world::World;

use super::draw;
use super::loads::{KINDS, LoadKind, Promise};
use super::runs::run_load;
use crate::worlds::Which;

/// Sets of loads per contract; the worst counts.
const SETS: u32 = 4;
/// Total speed of all reference disks relative to the host, minimum and maximum: chosen so that about half of the contracts are refused.
const LEAST_TOTAL: f64 = 0.02;
const MOST_TOTAL: f64 = 1.0;
/// The number of tenants is limited such that a reference disk's mean time for a random read is at most this, in seconds: with a rate of one
/// request per second, a window of a second would be too short.
const MOST_REQUEST_S: f64 = 0.1;
/// Maximum ratio of the fastest reference disk's speed to the slowest's.
const MOST_WEIGHT: f64 = 4.0;
/// Number of devices tried as a reference disk before a tenant gets a constant one.
const ATTEMPTS: u32 = 4;
/// Share of tenants without a guarantee.
const BEST_EFFORT: f64 = 0.2;
/// Probability that such a tenant floods the host.
const FLOODS: f64 = 0.5;
/// Factor of the duration when a scenario that broke a guarantee is repeated.
const AGAIN: u64 = 3;
/// Duration of each scenario of admission control: its default.
const SCENARIO: Nanos = Nanos::from_millis(10_000);

/// A contract's results.
#[derive(Clone, Debug)]
pub struct AdmissionResult {
    /// Its number.
    pub number: u32,
    /// The host.
    pub host: String,
    /// Total speed of all reference disks relative to the host.
    pub total: f64,
    /// The answer of admission control.
    pub answer: Guarantee,
    /// Whether it was refused, and a scenario that caused the refusal breaks a guarantee again with other random numbers.
    pub breaks_again: bool,
    /// Tenants with a broken guarantee, each with its load and the violation, in the first set of loads that broke one.
    pub broken: Vec<String>,
    /// The contract and that set's job file.
    pub text: String,
}

impl AdmissionResult {
    /// Whether admission control was right: admitted and met, or refused and broken, by random loads or by a repeated scenario of the refusal.
    pub fn is_right(&self) -> bool {
        if self.answer.can_be_guaranteed() { self.broken.is_empty() } else { self.breaks_again || !self.broken.is_empty() }
    }
}

/// Generates contracts, runs admission control on each, and runs each with random loads.
///
/// # Errors
/// A contract cannot be run, or the work was interrupted.
pub fn admission(which: Which, seed: u64, numbers: &[u32], workers: Workers) -> anyhow::Result<Vec<AdmissionResult>> {
    workers.map("contracts", numbers, |&number| {
        let drawn = Drawn::new(which, seed, number, workers.monitor.stop())?;
        let unseen = Unseen(workers.monitor);
        let request =
            GuaranteeRequest { contract: drawn.with_sizes(), host: drawn.world.profile.clone(), scenario: Some(SCENARIO), seed };
        let answer = admit(&request, Workers { monitor: &unseen, threads: 1 })?;
        let within = Workers { monitor: &unseen, threads: 1 };
        let breaks_again = !answer.can_be_guaranteed() && breaks_again(&request, &answer, AGAIN, within)?;
        let watch = workers.watch();
        let (mut broken, mut text) = (Vec::new(), String::new());
        for set in 0..SETS {
            (broken, text) = drawn.run(seed, number * SETS + set, &watch)?;
            if !broken.is_empty() {
                break;
            }
        }
        let host = drawn.world.profile.name().to_owned();
        Ok(AdmissionResult { number, host, total: drawn.total, answer, breaks_again, broken, text })
    })
}

/// A random contract, whose tenants have no loads yet.
struct Drawn {
    world: World,
    total: f64,
    size_mib: u64,
    contract: Contract,
}

impl Drawn {
    fn new(which: Which, seed: u64, number: u32, stop: &AtomicBool) -> anyhow::Result<Drawn> {
        let mut random = source("admission", seed, number);
        let world = draw::device(which, &mut random, seed, number)?;
        let host = || capacity::host(&world.profile, world.device, QueueSettings { merges: Merges::All, ..world.host.queue() });
        let all = world.profile.capacity_sectors();
        // Cost of a small request, and per byte of a large one.
        let (request_s, byte_s) = (mean_s(host(), all, &[8], stop)?, mean_s(host(), all, &[2048], stop)? / f64::from(1 << 20));
        let least = LEAST_TOTAL.max(2.0 * request_s / MOST_REQUEST_S).min(MOST_TOTAL);
        let total = scaled(&mut random, least, MOST_TOTAL);
        let tenants = scaled(&mut random, 2.0, 40.0).round().min(total * MOST_REQUEST_S / request_s).max(2.0) as usize;
        let size_mib = draw::size_mib(&world, tenants);
        let sectors = size_mib * 2048;
        let weights: Vec<f64> = (0..tenants).map(|_| scaled(&mut random, 1.0, MOST_WEIGHT)).collect();
        let sum: f64 = weights.iter().sum();
        let mut promises = Vec::new();
        for (tenant, weight) in weights.iter().enumerate() {
            let name = format!("t{tenant}");
            let promise = TenantGuarantee::new(&name, &[&name]);
            // At least one tenant has a guarantee.
            promises.push(if tenant > 0 && happens(&mut random, BEST_EFFORT) {
                TenantGuarantee { best_effort: true, ..promise }
            } else {
                let times = sum / weight / total;
                let first = number * 256 + tenant as u32 * ATTEMPTS;
                let slow = slow_device(which, &mut random, (seed, first), sectors, times * request_s, stop)?;
                let constant = || {
                    let mb_s = 1e-6 / (times * byte_s);
                    Reference::parse(&format!("constant:request_ms={:.4},mb_s={mb_s:.3}", 1e3 * times * request_s))
                };
                TenantGuarantee { reference: Some(slow.map_or_else(constant, Ok)?), ..promise }
            });
        }
        Ok(Drawn { world, total, size_mib, contract: draw::of_promises(promises) })
    }

    /// The contract in an operator's notation, with sizes of volumes.
    fn with_sizes(&self) -> Contract {
        let mut contract = self.contract.clone();
        let sectors = self.size_mib * 2048;
        for (number, promise) in (0_u64..).zip(&mut contract.promises) {
            promise.volumes.push(number * sectors..(number + 1) * sectors);
        }
        contract
    }

    /// Generates a load for each tenant and runs them together. Returns descriptions of broken guarantees, and the job file.
    fn run(&self, seed: u64, set: u32, watch: &Watch) -> anyhow::Result<(Vec<String>, String)> {
        let mut random = source("admission loads", seed, set);
        let mut floods = 0;
        let kinds: Vec<&LoadKind> = self.contract.promises.iter().map(|promise| kind(&mut random, promise, &mut floods)).collect();
        let mut text = draw::global(&self.world, self.size_mib);
        for (promise, kind) in self.contract.promises.iter().zip(&kinds) {
            text += &format!("[{}]\n{}", promise.name, kind.draw(&mut random).text(self.size_mib));
        }
        // A different seed than that of admission control.
        let load = JobsLoad::new(&text, "drawn", seed.wrapping_add(1 + u64::from(set)), &self.world)?;
        let roster = self.contract.roster(&load, &self.world, &Reference::model)?;
        let world = World { roster: Some(roster.clone()), ..self.world.clone() };
        let summary = run_load(&load, &world, &regime::scheduler(PROMISES)?, watch)?;
        let alone = self.contract.promises.iter().enumerate().map(|(tenant, promise)| {
            let reference = promise.reference.as_ref();
            reference.map(|reference| alone(&load, &roster, tenant, reference, &world, watch)).transpose()
        });
        let alone = alone.collect::<Result<Vec<_>, _>>()?;
        let alone: Vec<_> = alone.iter().map(Option::as_ref).collect();
        let tenancy = judge(&self.contract, &summary, &alone).ok_or_else(|| anyhow::anyhow!("the run had no tenants"))?;
        let broken = tenancy.tenants.iter().zip(&kinds).filter(|(tenant, _)| !tenant.broken.is_empty()).map(|(tenant, kind)| {
            let reference = tenant.promised.reference.as_deref().unwrap_or_default();
            format!("{} ({}) on {reference}: {}", tenant.name, kind.name, tenant.broken.join("; "))
        });
        Ok((broken.collect(), text))
    }
}

/// A kind of load for a tenant.
fn kind(random: &mut Xoshiro256PlusPlus, promise: &TenantGuarantee, floods: &mut u32) -> &'static LoadKind {
    let is_flood = promise.best_effort && happens(random, FLOODS);
    let is_flood = is_flood && *floods < draw::MOST_FLOODS;
    *floods += u32::from(is_flood);
    let is_allowed = |kind: &&LoadKind| if promise.best_effort { kind.is_flood == is_flood } else { kind.promise == Promise::May };
    one_of(random, &KINDS.iter().filter(is_allowed).collect::<Vec<_>>())
}

/// Mean seconds per random read of these sizes, with one outstanding.
fn mean_s(queue: sim::host::Queue, sectors: u64, sizes: &'static [u32], stop: &AtomicBool) -> anyhow::Result<f64> {
    let pattern = Pattern::Local { locality: 0.0, reads: 100, sizes, places: Places::Uniform };
    let wanted = (Draw::new(0..sectors, source("admission reads", 1, 0)), pattern);
    let extent = Extent { requests: 500, ..Extent::default() };
    Ok(1.0 / serve(queue, wanted, 1, extent, stop)?.requests)
}

/// A random device with at least this capacity and at least this mean time of a random 4 KiB read. `None` if none of those tried qualifies.
fn slow_device(
    which: Which,
    random: &mut Xoshiro256PlusPlus,
    (seed, first): (u64, u32),
    sectors: u64,
    least_s: f64,
    stop: &AtomicBool,
) -> anyhow::Result<Option<Reference>> {
    if random.random::<bool>() {
        return Ok(None);
    }
    for attempt in 0..ATTEMPTS {
        let reference = Reference::of(&draw::device(which, random, seed, 2_000_000 + first + attempt)?.profile);
        let holds = reference.capacity_sectors().is_none_or(|capacity| capacity >= sectors);
        if holds && mean_s(reference.queue(), sectors, &[8], stop)? >= least_s {
            return Ok(Some(reference));
        }
    }
    Ok(None)
}
