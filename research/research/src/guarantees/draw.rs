//! Random contracts: a host, tenants with their loads, and guarantees.
//!
//! Guarantees are generated such that the host has the capacity for all of them, which is measured: a slowed-down host has to meet them.
//! While it does not, the tenant with the worst violation gets a slower reference disk, and finally no guarantee.

use anyhow::{Context as _, bail};
use block::StreamId;
use experiment::comparison::regime;
use guarantee::placement::YOUCHOOSE;
use guarantee::tenants::{Alone, Contract, Reference, TenantGuarantee, alone, judge};
use rand::Rng as _;
use rand_xoshiro::Xoshiro256PlusPlus;
use report::record::TenantFigures;
use sim::device::slowed::Speed;
use sim::host::RunSummary;
use sim::run::Watch;
use testbed::chance::{happens, one_of, scaled, source};
use testbed::jobs::JobsLoad;
use testbed::load::Load;
use testbed::world::World;

use crate::worlds::{self, Which};

/// How often a reference disk that is too fast is slowed down, and by which factor.
const SLOWED: u32 = 3;
const SLOWER: f64 = 2.0;
/// Number of attempts to generate a contract with a guarantee; then an error is returned.
const DRAWS: u32 = 16;
/// Upper bound of contract numbers.
const MOST_NUMBER: u32 = 10_000_000;
/// Reads per second, of the largest size of tenants without a guarantee, while the capacity for guarantees is measured.
const PROBES: u32 = 5;
/// Number of reference disks tried before a tenant gets no guarantee.
const ATTEMPTS: u32 = 6;
/// Maximum share of the host's capacity for all files.
const MOST_OF_CAPACITY: f64 = 0.6;
/// Maximum file size of a tenant in MiB: a run touches far less.
const MOST_MIB: u64 = 20_000;
/// Maximum number of concurrent floods, each with 128 requests outstanding: 512 in total is realistic for a host of many tenants.
pub const MOST_FLOODS: u32 = 4;

/// A kind of load, as the section of a job file.
pub struct LoadKind {
    /// The name.
    pub name: &'static str,
    draw: fn(&mut Xoshiro256PlusPlus) -> String,
    /// Whether it requests as much as possible; such tenants have no guarantee.
    pub is_flood: bool,
    /// Whether it writes through the page cache.
    pub is_buffered: bool,
}

impl LoadKind {
    /// Whether a tenant with such a load may have a guarantee. A load that writes through the page cache may not: the guarantee covers the
    /// disk and not the memory, which such a tenant has to itself on its reference disk and shares here. Next to another writer it got 70%
    /// of the throughput with nearly no requests at the disk.
    pub(super) fn may_have_guarantee(&self) -> bool {
        !self.is_flood && !self.is_buffered
    }

    /// Generates the options of such a job.
    pub fn draw(&self, random: &mut Xoshiro256PlusPlus) -> String {
        (self.draw)(random)
    }
}

pub(super) const DIRECT: &str = "ioengine=libaio\ndirect=1\n";

pub(super) fn depth(random: &mut Xoshiro256PlusPlus, most: f64) -> u32 {
    scaled(random, 1.0, most).round() as u32
}

/// Kinds of tenants' loads.
pub static KINDS: &[LoadKind] = &[
    LoadKind {
        name: "random-reader",
        draw: |random| format!("{DIRECT}rw=randread\nbs={}k\niodepth={}\n", one_of(random, &[4, 8, 16, 64]), depth(random, 32.0)),
        is_flood: false,
        is_buffered: false,
    },
    LoadKind {
        name: "mixed",
        draw: |random| {
            let (read, kib) = (random.random_range(30..=90), one_of(random, &[4, 8, 16]));
            format!("{DIRECT}rw=randrw\nrwmixread={read}\nbs={kib}k\niodepth={}\n", depth(random, 32.0))
        },
        is_flood: false,
        is_buffered: false,
    },
    LoadKind {
        name: "random-writer",
        draw: |random| format!("{DIRECT}rw=randwrite\nbs={}k\niodepth={}\n", one_of(random, &[4, 16, 64]), depth(random, 16.0)),
        is_flood: false,
        is_buffered: false,
    },
    LoadKind {
        name: "stream",
        draw: |random| format!("{DIRECT}rw=read\nbs={}k\niodepth={}\n", one_of(random, &[4, 64, 256, 1024]), depth(random, 16.0)),
        is_flood: false,
        is_buffered: false,
    },
    LoadKind {
        name: "cache-writer",
        draw: |random| {
            let (pattern, kib) = (one_of(random, &["write", "randwrite"]), one_of(random, &[4, 64, 1024]));
            format!("ioengine=psync\nrw={pattern}\nbs={kib}k\n")
        },
        is_flood: false,
        is_buffered: true,
    },
    LoadKind {
        name: "pauses",
        draw: |random| {
            let (blocks, ms) = (one_of(random, &[1, 20, 200]), one_of(random, &[20, 500, 2000]));
            let kib = one_of(random, &[4, 8, 64]);
            format!("ioengine=psync\ndirect=1\nrw=randread\nbs={kib}k\nthinktime={ms}ms\nthinktime_blocks={blocks}\n")
        },
        is_flood: false,
        is_buffered: false,
    },
    LoadKind {
        name: "steady",
        draw: |random| {
            let (rate, kib) = (depth(random, 100.0), one_of(random, &[4, 16, 128]));
            format!("{DIRECT}rw=randread\nbs={kib}k\niodepth=16\nrate_iops={rate}\nrate_process=poisson\n")
        },
        is_flood: false,
        is_buffered: false,
    },
    LoadKind {
        name: "flood",
        draw: |random| {
            let pattern = one_of(random, &["randread", "randread", "randwrite", "randrw"]);
            format!("{DIRECT}rw={pattern}\nbs={}k\niodepth=128\n", one_of(random, &[4, 64, 1024]))
        },
        is_flood: true,
        is_buffered: false,
    },
];

/// A random contract on its host.
pub struct Drawn {
    /// The host, with the roster.
    pub world: World,
    /// The job file.
    pub text: String,
    /// The loads.
    pub load: JobsLoad,
    /// The guarantees.
    pub contract: Contract,
    /// Results of tenants alone on their reference disk; `None` for those without.
    pub alone: Vec<Option<Alone>>,
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

/// Whether the device is flash. It serves orders of magnitude more requests than disks, so runs are shorter.
pub fn is_flash(world: &World) -> bool {
    world.profile.build(world.device).flash().is_some()
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

/// A contract with these guarantees.
pub fn of_promises(promises: Vec<TenantGuarantee>) -> Contract {
    Contract { source: "drawn".to_owned(), sha256: String::new(), promises }
}

/// Generates contract `number`, with at least one guarantee, that a host with `most` times the speed can meet without the other tenants.
///
/// # Errors
/// It cannot be run, or no attempt yields a guarantee.
pub fn contract(which: Which, seed: u64, number: u32, most: f64, watch: &Watch) -> anyhow::Result<Drawn> {
    for again in 0..DRAWS {
        let drawn = draw(which, seed, number + again * MOST_NUMBER, most, watch)?;
        if drawn.alone.iter().any(Option::is_some) {
            return Ok(drawn);
        }
    }
    bail!("contract {number}: none of {DRAWS} draws has a guarantee that fits")
}

fn draw(which: Which, seed: u64, number: u32, most: f64, watch: &Watch) -> anyhow::Result<Drawn> {
    let mut random = source("contract", seed, number);
    let mut world = device(which, &mut random, seed, number)?;
    let tenants = scaled(&mut random, 2.0, 40.0).round() as usize;
    let (size_mib, is_flash) = (size_mib(&world, tenants), is_flash(&world));
    let global = global(&world, size_mib);
    let (mut floods, mut sections, mut may_have) = (0, Vec::new(), Vec::new());
    for tenant in 0..tenants {
        let kind = &KINDS[random.random_range(0..KINDS.len())];
        let is_flood = kind.is_flood && floods < MOST_FLOODS;
        let kind = if kind.is_flood && !is_flood { &KINDS[0] } else { kind };
        floods += u32::from(is_flood);
        may_have.push(kind.may_have_guarantee());
        sections.push(format!("[t{tenant}-{}]\n{}", kind.name, (kind.draw)(&mut random)));
    }
    let text = format!("{global}{}", sections.concat());
    let load = JobsLoad::new(&text, "drawn", seed, &world)?;
    let promise = |name: &String| TenantGuarantee { best_effort: true, ..TenantGuarantee::new(name, &[name]) };
    let mut contract = of_promises(load.names().iter().map(promise).collect());
    let unguaranteed = contract.roster(&load, &world, &Reference::model)?;
    let mut all = Vec::new();
    for (tenant, may_have) in may_have.into_iter().enumerate() {
        let mut found = None;
        for attempt in 0..if may_have { ATTEMPTS } else { 0 } {
            let reference = reference(which, &mut random, is_flash, seed, number.wrapping_mul(64) + attempt)?;
            if reference.capacity_sectors().is_some_and(|sectors| sectors < size_mib * 2048) {
                continue;
            }
            let got = alone(&load, &unguaranteed, tenant, &reference, &world, watch)?;
            if got.reference.served.requests > 0 && got.need.part() <= most {
                found = Some((reference, got));
                break;
            }
        }
        all.push(found.map(|(reference, got)| {
            let promise = &mut contract.promises[tenant];
            (promise.reference, promise.best_effort) = (Some(reference), false);
            got
        }));
    }
    let fits = Fits { world: &world, text: &text, sections: &sections, seed, most, watch };
    let mut slowed = vec![0; tenants];
    while let Some(broken) = fits.broken(&contract, &all)? {
        let promise = &mut contract.promises[broken];
        slowed[broken] += 1;
        let iops = all[broken].as_ref().map(|alone| alone.reference.iops()).filter(|_| slowed[broken] <= SLOWED);
        promise.reference =
            iops.map(|iops| Reference::parse(&format!("constant:request_ms={:.3}", SLOWER * 1e3 / iops))).transpose()?;
        promise.best_effort = promise.reference.is_none();
        let again = |reference| alone(&load, &unguaranteed, broken, reference, &world, watch);
        all[broken] = promise.reference.as_ref().map(again).transpose()?;
    }
    world.roster = Some(contract.roster(&load, &world, &Reference::model).context("the drawn roster")?);
    Ok(Drawn { world, text, load, contract, alone: all })
}

/// Checks whether guarantees fit on a fraction of a host.
struct Fits<'a> {
    world: &'a World,
    text: &'a str,
    sections: &'a [String],
    seed: u64,
    most: f64,
    watch: &'a Watch<'a>,
}

impl Fits<'_> {
    /// The tenant with the worst violation on a host of that speed; `None` if all guarantees are met. The other tenants are reduced to
    /// one of their largest reads [`PROBES`] times per second: no scheduler can avoid waiting for a request in service.
    fn broken(&self, contract: &Contract, all: &[Option<Alone>]) -> anyhow::Result<Option<usize>> {
        let guaranteed = || all.iter().enumerate().filter(|(_, alone)| alone.is_some()).map(|(tenant, _)| tenant);
        if guaranteed().next().is_none() {
            return Ok(None);
        }
        let kib = self.sections.iter().zip(all).filter(|(_, alone)| alone.is_none()).filter_map(|(section, _)| block_kib(section));
        let kib = kib.max().unwrap_or(4);
        let probe =
            format!("[probe]\n{DIRECT}size=64m\nrw=randread\nbs={kib}k\niodepth=4\nrate_iops={PROBES}\nrate_process=poisson\n");
        let slow = World { profile: self.world.profile.at_speed(Speed::of(self.most)), ..self.world.clone() };
        let load = JobsLoad::new(&format!("{}{probe}", self.text), "drawn", self.seed, &slow)?;
        let mut contract = contract.clone();
        contract.promises.push(TenantGuarantee { best_effort: true, ..TenantGuarantee::new("probe", &["probe"]) });
        let slow = World { roster: Some(contract.roster(&load, &slow, &Reference::model)?), ..slow };
        let names = guaranteed().map(|tenant| contract.promises[tenant].name.as_str()).chain(["probe"]);
        let streams: Vec<_> = names.flat_map(|name| load.streams_of(name)).collect();
        let alone: Vec<Option<&Alone>> = all.iter().map(Option::as_ref).chain([None]).collect();
        worst_of_either(&load, &streams, &slow, self.watch, |summary| {
            let tenancy = judge(&contract, summary, &alone).context("the run had no tenants")?;
            let broken = tenancy.tenants.iter().enumerate().filter(|(_, tenant)| !tenant.broken.is_empty());
            let by_how_much = |tenant: &TenantFigures| {
                tenant.reference.as_ref().map_or(0.0, |figures| figures.p99_ratio.max(1.0 / figures.throughput_ratio))
            };
            Ok(broken.max_by(|(_, one), (_, other)| by_how_much(one).total_cmp(&by_how_much(other))).map(|(tenant, _)| tenant))
        })
    }
}

/// Runs only these streams under `youchoose` and without a scheduler: the tenant with the worst violation under the former. `None`
/// if either run has no violation, as violations by the scheduler alone do not indicate a lack of capacity.
pub(super) fn worst_of_either(
    load: &JobsLoad,
    streams: &[StreamId],
    world: &World,
    watch: &Watch,
    worst: impl Fn(&RunSummary) -> anyhow::Result<Option<usize>>,
) -> anyhow::Result<Option<usize>> {
    let mut first = None;
    for scheduler in [YOUCHOOSE, "none"] {
        let queue = world.queue(world.scheduler(&regime::scheduler(scheduler)?));
        let found = worst(&load.run_streams(streams, queue, world.host, watch, None)?)?;
        if found.is_none() {
            return Ok(None);
        }
        first = first.or(found);
    }
    Ok(first)
}

/// The request size of a job in KiB; `None` if it is not stated.
fn block_kib(section: &str) -> Option<u32> {
    section.lines().find_map(|line| line.strip_prefix("bs=")?.strip_suffix('k')?.parse().ok())
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
