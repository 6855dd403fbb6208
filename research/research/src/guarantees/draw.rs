//! Random contracts: a host, tenants with their loads, and guarantees that can be kept ([`feasible`](super::feasible)).
//!
//! The guarantees of a contract share a drawn part of the host. While their demand is too large, or no schedule keeps them, the tenant with
//! the worst violation gets a slower reference disk, and finally no guarantee.

use anyhow::{Context as _, bail};
use guarantee::tenants::{Alone, Contract, Reference, TenantGuarantee};
use rand::Rng as _;
use rand_xoshiro::Xoshiro256PlusPlus;
use sim::run::Watch;
use testbed::chance::{happens, one_of, scaled, source};
use testbed::jobs::JobsLoad;
use testbed::world::World;

use super::edf::Policy;
use super::feasible::{Guaranteed, MOST_DEMAND, Schedules, Tried, guaranteed, host_rate};
use super::hosts::{self, Host};
use super::loads::{KINDS, LoadKind, Promise, Section};
pub use super::runs::{is_flash, of_promises};
use crate::devices::{self, DrawnDevice};
use crate::worlds::{self, Which};

/// How often a reference disk that is too fast is slowed down, and by which factor.
const SLOWED: u32 = 3;
const SLOWER: f64 = 2.0;
/// Number of attempts to generate a contract with a guarantee; then an error is returned.
const DRAWS: u32 = 16;
/// Upper bound of contract numbers.
const MOST_NUMBER: u32 = 10_000_000;
/// Number of devices tried as a reference disk before a tenant gets a constant one.
const ATTEMPTS: u32 = 3;
/// Probability that a tenant that may hold a guarantee does, and that a reference disk is a device.
const IS_GUARANTEED: f64 = 0.75;
const IS_DEVICE: f64 = 0.5;
/// The part of the host that all guarantees of a contract are drawn to need, minimum and maximum, and the maximum ratio of two tenants' parts.
const LEAST_DEMAND: f64 = 0.15;
const MOST_WEIGHT: f64 = 6.0;
/// A device is a tenant's reference disk if the tenant's part is within these multiples of the drawn one.
const NEAR: (f64, f64) = (0.3, 1.5);
/// The same for its rate at random places, which for streams is far below that in order.
const FAR: (f64, f64) = (0.05, 2.0);
/// Minimum capacity of a reference disk relative to the tenant's files.
const MORE: f64 = 1.2;
/// Minimum requests per second of a reference disk: with fewer, a window of a second would be too short.
const LEAST_RATE: f64 = 4.0;
/// Maximum share of the host's capacity for all files.
const MOST_OF_CAPACITY: f64 = 0.6;
/// Maximum file size of a tenant in MiB: a run touches far less.
const MOST_MIB: u64 = 20_000;
/// Maximum number of tenants that write through the page cache without syncing: they fill the host's memory.
const MOST_CACHE_WRITERS: u32 = 2;
/// Maximum number of concurrent floods, each with 128 requests outstanding: 512 in total is realistic for a host of many tenants.
pub const MOST_FLOODS: u32 = 4;

/// A random contract on its host.
pub struct Drawn {
    /// The host, whose world has the roster.
    pub host: Host,
    /// The tenants' loads.
    pub sections: Vec<DrawnSection>,
    /// Size of each tenant's files in MiB.
    pub size_mib: u64,
    /// Seconds of a run.
    pub seconds: u32,
    /// The loads.
    pub load: JobsLoad,
    /// The guarantees.
    pub contract: Contract,
    /// The files of the reference disks that are devices.
    pub reference_files: Vec<Option<DrawnDevice>>,
    /// Tenants alone on their reference disks; `None` for best effort.
    pub guaranteed: Vec<Option<Guaranteed>>,
    /// A schedule that keeps the contract.
    pub policy: Policy,
}

/// The load of a tenant.
pub struct DrawnSection {
    /// The name of the job and of the tenant.
    pub name: String,
    /// The kind of load.
    pub kind: &'static LoadKind,
    /// Its options.
    pub section: Section,
}

impl Drawn {
    /// Service of the tenants alone, for the judge.
    pub fn alone(&self) -> Vec<Option<&Alone>> {
        self.guaranteed.iter().map(|tenant| tenant.as_ref().map(|tenant| &tenant.alone)).collect()
    }

    /// The part of the host that the guarantees need.
    pub fn demand(&self) -> f64 {
        self.guaranteed.iter().flatten().map(|tenant| tenant.demand).sum()
    }

    /// The job file. `reference` returns the notation of a tenant's reference disk.
    pub fn job_file(&self, reference: impl Fn(usize, &Reference) -> String) -> String {
        let comment = |tenant: usize| match &self.contract.promises[tenant].reference {
            Some(disk) => format!("; seekwise: tenant={} reference={}\n", self.sections[tenant].name, reference(tenant, disk)),
            None => format!("; seekwise: tenant={} best_effort=true\n", self.sections[tenant].name),
        };
        job_file(self.seconds, self.size_mib, &self.sections, comment)
    }
}

fn job_file(seconds: u32, size_mib: u64, sections: &[DrawnSection], comment: impl Fn(usize) -> String) -> String {
    let jobs = sections.iter().enumerate();
    let jobs = jobs
        .map(|(tenant, DrawnSection { name, section, .. })| format!("\n[{name}]\n{}{}", comment(tenant), section.text(size_mib)));
    format!("[global]\ntime_based\nruntime={seconds}\n{}", jobs.collect::<String>())
}

/// A device of a world, generated from a seed.
///
/// # Errors
/// The definition of a family is invalid.
pub fn device(which: Which, random: &mut Xoshiro256PlusPlus, seed: u64, number: u32) -> anyhow::Result<World> {
    let purpose = which.purpose()?;
    let all: Vec<&str> = purpose.devices.iter().chain(&purpose.training_devices).map(String::as_str).collect();
    let families: Vec<&str> = all.iter().copied().filter(|name| name.starts_with(worlds::DRAWN)).collect();
    // Built-in arrays replace families of arrays in a world without any.
    let arrays = all.iter().copied().filter(|name| name.starts_with("raid")).take(if which == Which::Build { 2 } else { 0 });
    let choices: Vec<&str> = families.iter().copied().chain(arrays).collect();
    worlds::drawn(one_of(random, &choices), seed, number)
}

/// Size of each tenant's file in MiB.
pub fn size_mib(world: &World, tenants: usize) -> u64 {
    let capacity_mib = (world.profile.capacity_sectors() / 2048) as f64;
    ((capacity_mib * MOST_OF_CAPACITY / tenants as f64) as u64).clamp(16, MOST_MIB)
}

/// The global section of a job file, with files of this size.
pub fn global(world: &World, size_mib: u64) -> String {
    format!("[global]\ntime_based\nruntime={}\nsize={size_mib}m\n", if is_flash(world) { 5 } else { 20 })
}

/// Generates contract `number`, with at least one guarantee, that can be kept.
///
/// # Errors
/// It cannot be run, or no attempt yields a guarantee.
pub fn contract(which: Which, seed: u64, number: u32, watch: &Watch) -> anyhow::Result<Drawn> {
    for again in 0..DRAWS {
        if let Some(drawn) = draw(which, seed, number + again * MOST_NUMBER, watch)? {
            return Ok(drawn);
        }
    }
    bail!("contract {number}: none of {DRAWS} draws has a guarantee that can be kept")
}

/// The tenants' loads.
fn sections(random: &mut Xoshiro256PlusPlus, tenants: usize) -> Vec<DrawnSection> {
    let (mut floods, mut cache_writers) = (0, 0);
    let one = |tenant: usize| {
        let kind = &KINDS[random.random_range(0..KINDS.len())];
        floods += u32::from(kind.is_flood);
        cache_writers += u32::from(kind.promise == Promise::Never);
        let is_too_many =
            kind.is_flood && floods > MOST_FLOODS || kind.promise == Promise::Never && cache_writers > MOST_CACHE_WRITERS;
        let kind = if is_too_many { &KINDS[0] } else { kind };
        DrawnSection { name: format!("t{tenant}-{}", kind.name), kind, section: kind.draw(random) }
    };
    (0..tenants).map(one).collect()
}

/// Seconds of a run: flash serves orders of magnitude more requests than disks, but not cards and volumes with limits.
fn seconds(host: &Host) -> u32 {
    use super::hosts::HostKind::{Card, Flash, FullFlash, Volume};
    match host.kind {
        Flash | FullFlash => 3,
        Card | Volume => 10,
        _ if is_flash(&host.world) => 3,
        _ => 20,
    }
}

/// The rate of each tenant on the host, and its part of it, by weight. Tenants with the fewest requests per second get no part, until all
/// others have enough of them.
fn parts(rates: &[Option<(f64, f64)>], total: f64) -> Vec<Option<(f64, f64)>> {
    let mut rates = rates.to_vec();
    loop {
        let sum: f64 = rates.iter().flatten().map(|(_, weight)| weight).sum();
        let parts: Vec<_> = rates.iter().map(|rate| rate.map(|(rate, weight)| (rate, total * weight / sum))).collect();
        let promised = parts.iter().enumerate().filter_map(|(tenant, part)| part.map(|(rate, part)| (tenant, rate * part)));
        match promised.min_by(|one, other| one.1.total_cmp(&other.1)) {
            Some((tenant, promised)) if promised < LEAST_RATE => rates[tenant] = None,
            _ => return parts,
        }
    }
}

fn draw(which: Which, seed: u64, number: u32, watch: &Watch) -> anyhow::Result<Option<Drawn>> {
    let mut random = source("contract", seed, number);
    let mut host = hosts::draw(which, &mut random, seed, number)?;
    let tenants = scaled(&mut random, 2.0, 40.0).round() as usize;
    let (size_mib, seconds) = (size_mib(&host.world, tenants), seconds(&host));
    let sections = sections(&mut random, tenants);
    let text = job_file(seconds, size_mib, &sections, |_| String::new());
    let load = JobsLoad::new(&text, "drawn", seed, &host.world)?.drawn_by_seed();
    let promise =
        |section: &DrawnSection| TenantGuarantee { best_effort: true, ..TenantGuarantee::new(&section.name, &[&section.name]) };
    let mut contract = of_promises(sections.iter().map(promise).collect());
    let fills_memory = sections.iter().any(|section| section.kind.promise == Promise::Never);
    let mut rates = Vec::new();
    for DrawnSection { kind, section, .. } in &sections {
        let may = kind.promise == Promise::May || kind.promise == Promise::MayAlone && !fills_memory;
        let is_guaranteed = may && happens(&mut random, IS_GUARANTEED);
        let rate = is_guaranteed.then(|| host_rate(section, size_mib * tenants as u64, &host.world, seed, watch));
        let weight = scaled(&mut random, 1.0, MOST_WEIGHT);
        rates.push(rate.transpose()?.filter(|rate| *rate > 0.0).map(|rate| (rate, weight)));
    }
    let total = scaled(&mut random, LEAST_DEMAND, MOST_DEMAND);
    let parts = parts(&rates, total);
    let mut all: Vec<Option<Guaranteed>> = Vec::new();
    let mut reference_files = vec![None; tenants];
    for (tenant, part) in parts.iter().enumerate() {
        let &Some((rate, part)) = part else {
            all.push(None);
            continue;
        };
        let on = |reference: &Reference| {
            guaranteed((&load, &host.world), (&contract, tenant), reference, (&sections[tenant].section, rate), watch)
        };
        let mut found = None;
        for attempt in 0..if happens(&mut random, IS_DEVICE) { ATTEMPTS } else { 0 } {
            let further = number.wrapping_mul(256).wrapping_add(1_000_000 + tenant as u32 * ATTEMPTS + attempt);
            let device = hosts::reference(which, &mut random, seed, further)?;
            let profile = devices::profile(device.clone())?;
            let reference = Reference::of(&profile);
            if reference.capacity_sectors().is_some_and(|sectors| (sectors as f64) < MORE * (size_mib * 2048) as f64) {
                continue;
            }
            // A short run tells most of those that are too fast or too slow.
            let other = host_rate(&sections[tenant].section, size_mib, &worlds::with_memory(profile), seed, watch)?;
            if other < FAR.0 * rate * part || other > FAR.1 * rate * part {
                continue;
            }
            let got = on(&reference)?;
            if got.demand >= NEAR.0 * part && got.demand <= NEAR.1 * part {
                found = Some((reference, got, Some(device)));
                break;
            }
        }
        let constant = || -> anyhow::Result<(Reference, Guaranteed, Option<DrawnDevice>)> {
            let reference = Reference::parse(&format!("constant:request_ms={:.3}", 1e3 / (rate * part)))?;
            let got = on(&reference)?;
            Ok((reference, got, None))
        };
        let (reference, got, file) = found.map_or_else(constant, Ok)?;
        let promise = &mut contract.promises[tenant];
        (promise.reference, promise.best_effort) = (Some(reference), false);
        all.push(Some(got));
        reference_files[tenant] = file;
    }
    let mut schedules = Schedules::new(&host.world, &load, watch);
    let mut slowed = vec![0; tenants];
    let policy = loop {
        let demand: f64 = all.iter().flatten().map(|tenant| tenant.demand).sum();
        let demanding = |tenant: &usize| all[*tenant].as_ref().map_or(0.0, |tenant| tenant.demand);
        if all.iter().all(Option::is_none) {
            return Ok(None);
        }
        let worst: Vec<usize> = if demand > MOST_DEMAND {
            (0..tenants).max_by(|one, other| demanding(one).total_cmp(&demanding(other))).into_iter().collect()
        } else {
            match schedules.try_all(&contract, &all)? {
                Tried::Kept(policy) => break policy,
                Tried::Broken(broken) => {
                    let half = broken.len().div_ceil(2);
                    broken.into_iter().take(half).collect()
                }
            }
        };
        for tenant in worst {
            slowed[tenant] += 1;
            let iops = all[tenant].as_ref().map(|tenant| tenant.alone.reference.iops());
            let iops = iops.filter(|iops| slowed[tenant] <= SLOWED && iops / SLOWER >= LEAST_RATE / 2.0);
            let reference =
                iops.map(|iops| Reference::parse(&format!("constant:request_ms={:.3}", SLOWER * 1e3 / iops))).transpose()?;
            let rate = rates[tenant].map_or(0.0, |(rate, _)| rate);
            let again = |reference: &Reference| {
                guaranteed((&load, &host.world), (&contract, tenant), reference, (&sections[tenant].section, rate), watch)
            };
            let got = reference.as_ref().map(again).transpose()?;
            let promise = &mut contract.promises[tenant];
            promise.best_effort = reference.is_none();
            promise.reference = reference;
            (all[tenant], reference_files[tenant]) = (got, None);
        }
    };
    host.world.roster = Some(contract.roster(&load, &host.world, &Reference::model).context("the drawn roster")?);
    Ok(Some(Drawn { host, sections, size_mib, seconds, load, contract, reference_files, guaranteed: all, policy }))
}

/// A reference disk: another random device, or a constant one.
///
/// # Errors
/// It cannot be generated.
pub fn reference(
    which: Which,
    random: &mut Xoshiro256PlusPlus,
    is_flash: bool,
    seed: u64,
    number: u32,
) -> anyhow::Result<Reference> {
    if happens(random, 0.3) {
        let (least, most) = if is_flash { (0.2, 20.0) } else { (5.0, 100.0) };
        let (request_ms, mb_s) = (scaled(random, least, most), scaled(random, 2.0, 100.0));
        return Reference::parse(&format!("constant:request_ms={request_ms:.2},mb_s={mb_s:.1}"));
    }
    Ok(Reference::of(&device(which, random, seed, 1_000_000 + number)?.profile))
}
