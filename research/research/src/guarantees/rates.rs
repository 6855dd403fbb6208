//! Limits and reservations checked in every second: random hosts and tenants, and each scheduler's results.
//!
//! Tenants are continuously active. Reservations are generated such that the host has the capacity for all of them, which is measured: a
//! slowed-down host has to meet them without the tenants that have none. While it does not, the tenant that misses them most often loses its
//! rates.

use anyhow::Context as _;
use block::{Nanos, StreamId};
use control::Setting;
use experiment::comparison::regime;
use guarantee::placement::PROMISES;
use guarantee::tenants::judge::{RateFigures, rate_figures};
use guarantee::tenants::{Contract, Reference, TenantGuarantee};
use rand_xoshiro::Xoshiro256PlusPlus;
use sim::device::slowed::Speed;
use sim::host::RunSummary;
use sim::run::{Served, TenantMeasure, Watch};
use testbed::chance::{happens, one_of, scaled, source};
use testbed::jobs::JobsLoad;
use testbed::pool::Workers;
use testbed::world::World;

use super::draw;
use super::loads::{DIRECT, depth};
use super::runs::run_load;
use crate::worlds::Which;

/// Minimum ratio of a limit to a reservation of the same tenant.
const ABOVE_RESERVATION: f64 = 1.2;
/// Maximum number of tenants with 128 requests outstanding, as realistic for a host of few tenants.
const FLOODS: usize = 2;

/// The rates of one tenant under one scheduler.
#[derive(Clone, Debug)]
pub struct TenantRates {
    /// Its name.
    pub name: String,
    /// Each reservation and each limit.
    pub rates: Vec<RateFigures>,
}

/// The results of a case.
#[derive(Clone, Debug)]
pub struct RatesResult {
    /// Its number.
    pub number: u32,
    /// The host.
    pub host: String,
    /// Its job file, with the guarantees.
    pub text: String,
    /// Its tenants with rates, and the bytes of all, by scheduler in the order given.
    pub outcomes: Vec<(Vec<TenantRates>, u64)>,
}

impl RatesResult {
    /// Numbers of broken and of all limits, or reservations, under the scheduler with this index: a miss in a single second breaks one.
    pub fn broken(&self, position: usize, is_limit: bool) -> (usize, usize) {
        let all = self.outcomes[position].0.iter().flat_map(|tenant| &tenant.rates);
        let all = all.filter(|figures| figures.is_limit == is_limit && figures.windows > 0);
        (all.clone().filter(|figures| figures.missed > 0).count(), all.count())
    }
}

/// Runs random cases under each scheduler.
///
/// # Errors
/// A case cannot be run, or the work was interrupted.
pub fn rates(
    which: Which,
    seed: u64,
    numbers: &[u32],
    most: f64,
    schedulers: &[Setting],
    workers: Workers,
) -> anyhow::Result<Vec<RatesResult>> {
    workers.map("rates", numbers, |&number| {
        let watch = workers.watch();
        let drawn = draw(which, seed, number, most, &watch)?;
        let outcomes = schedulers.iter().map(|scheduler| run(&drawn, scheduler, &watch)).collect::<anyhow::Result<Vec<_>>>()?;
        Ok(RatesResult { number, host: drawn.world.profile.name().to_owned(), text: drawn.text, outcomes })
    })
}

fn run(drawn: &Drawn, scheduler: &Setting, watch: &Watch) -> anyhow::Result<(Vec<TenantRates>, u64)> {
    let summary = run_load(&drawn.load, &drawn.world, scheduler, watch)?;
    let all = tenant_rates(&drawn.contract, &summary)?.into_iter().zip(&drawn.contract.promises);
    let rates = all.filter(|(_, promise)| promise.rates.is_limited() || !promise.rates.reservation.is_none());
    let tenants = summary.measure.tenants.context("the run had no tenants")?;
    Ok((rates.map(|(rates, _)| rates).collect(), tenants.on_roster().iter().map(|tenant| tenant.served.bytes).sum()))
}

/// Evaluation of the rates of each tenant.
fn tenant_rates(contract: &Contract, summary: &RunSummary) -> anyhow::Result<Vec<TenantRates>> {
    let tenants = summary.measure.tenants.as_ref().context("the run had no tenants")?;
    let ledger = summary.ledger.as_ref().context("the run had no ledger")?;
    let all = contract.promises.iter().zip(tenants.on_roster()).zip(ledger.sent());
    let rates = all
        .map(|((promise, here), sent)| TenantRates { name: promise.name.clone(), rates: rate_figures(&promise.rates, here, sent) });
    Ok(rates.collect())
}

/// A random case on its host.
struct Drawn {
    world: World,
    text: String,
    load: JobsLoad,
    contract: Contract,
}

/// The jobs of a tenant: one, or separate ones for reads and writes.
struct Jobs {
    sections: Vec<String>,
    is_flood: bool,
}

impl Jobs {
    fn draw(random: &mut Xoshiro256PlusPlus, may_flood: bool) -> Jobs {
        let is_flood = may_flood && happens(random, 0.3);
        let (kib, depth) = (one_of(random, &[4, 16, 64, 256, 1024]), if is_flood { 128 } else { depth(random, 32.0) });
        let patterns =
            [&["randread"][..], &["randread"], &["read"], &["randwrite"], &["write"], &["randrw"], &["randread", "randwrite"]];
        let patterns = one_of(random, &patterns);
        let sections = patterns.iter().map(|pattern| format!("{DIRECT}rw={pattern}\nbs={kib}k\niodepth={depth}\n"));
        Jobs { sections: sections.collect(), is_flood }
    }

    /// The sections of tenant `number`, with its guarantees as a comment in the first.
    fn text(&self, number: usize, terms: &str) -> String {
        let sections = self.sections.iter().enumerate();
        let sections = sections.map(|(job, section)| {
            let terms = if job == 0 { terms } else { "" };
            format!("[t{number}-{job}]\n; seekwise: tenant=t{number}{terms}\n{section}")
        });
        sections.collect()
    }
}

/// Generates case `number`, whose reservations a host with `most` times the speed can meet without the other tenants.
fn draw(which: Which, seed: u64, number: u32, most: f64, watch: &Watch) -> anyhow::Result<Drawn> {
    let mut random = source("rates", seed, number);
    let world = draw::device(which, &mut random, seed, number)?;
    let tenants = scaled(&mut random, 2.0, 8.0).round() as usize;
    // At most two jobs per tenant.
    let global = draw::global(&world, draw::size_mib(&world, 2 * tenants));
    let (mut floods, mut jobs, mut all) = (0, Vec::new(), Vec::new());
    for _ in 0..tenants {
        let its = Jobs::draw(&mut random, floods < FLOODS);
        floods += usize::from(its.is_flood);
        let alone = its.sections.iter().map(|section| Alone::of(&global, section, &world, seed, watch));
        let alone = alone.collect::<anyhow::Result<Vec<Alone>>>()?;
        let is_reserved = !its.is_flood && happens(&mut random, 0.7);
        let part = is_reserved.then(|| scaled(&mut random, 0.02, 0.7));
        all.push(terms(&mut random, &alone, part, its.is_flood));
        jobs.push(its);
    }
    loop {
        let sections = jobs.iter().zip(&all).enumerate().map(|(number, (jobs, terms))| jobs.text(number, terms));
        let drawn = Drawn::new(format!("{global}{}", sections.collect::<String>()), &world, seed)?;
        let Some(missed) = drawn.most_missed(most, seed, watch)? else { return Ok(drawn) };
        all[missed].clear();
    }
}

impl Drawn {
    fn new(text: String, world: &World, seed: u64) -> anyhow::Result<Drawn> {
        let load = JobsLoad::new(&text, "drawn", seed, world)?;
        let contract = Contract::of_job_file(&text, "drawn")?.context("the drawn text names no tenants")?;
        let roster = Some(contract.roster(&load, world, &Reference::model).context("the drawn roster")?);
        Ok(Drawn { world: World { roster, ..world.clone() }, text, load, contract })
    }

    /// The tenant that misses its reservation most often on a host of this speed, without the tenants that have none; `None` if all are met, under
    /// `youchoose` or without a scheduler.
    fn most_missed(&self, speed: f64, seed: u64, watch: &Watch) -> anyhow::Result<Option<usize>> {
        let slow = World { profile: self.world.profile.at_speed(Speed::of(speed)), roster: None, ..self.world.clone() };
        let slow = Drawn::new(self.text.clone(), &slow, seed)?;
        let has_one = |tenant: usize| !self.contract.promises[tenant].rates.reservation.is_none();
        let roster = slow.world.roster.clone().unwrap_or_default();
        let streams: Vec<_> = roster.streams().filter(|(_, owner)| has_one(*owner)).map(|(stream, _)| stream).collect();
        if streams.is_empty() {
            return Ok(None);
        }
        worst_of_either(&slow.load, &streams, &slow.world, watch, |summary| {
            let rates = tenant_rates(&slow.contract, summary)?;
            let missed = |rates: &TenantRates| {
                rates.rates.iter().filter(|figures| !figures.is_limit).map(|figures| figures.missed).max().unwrap_or(0)
            };
            Ok((0..rates.len()).max_by_key(|&tenant| missed(&rates[tenant])).filter(|&tenant| missed(&rates[tenant]) > 0))
        })
    }
}

/// Runs only these streams under `youchoose` and without a scheduler: the tenant with the worst violation under the former. `None`
/// if either run has no violation, as violations by the scheduler alone do not indicate a lack of capacity.
fn worst_of_either(
    load: &JobsLoad,
    streams: &[StreamId],
    world: &World,
    watch: &Watch,
    worst: impl Fn(&RunSummary) -> anyhow::Result<Option<usize>>,
) -> anyhow::Result<Option<usize>> {
    let mut first = None;
    for scheduler in [PROMISES, "none"] {
        let queue = world.queue(world.scheduler(&regime::scheduler(scheduler)?));
        let found = worst(&load.run_streams(streams, queue, world.host, watch, None)?)?;
        if found.is_none() {
            return Ok(None);
        }
        first = first.or(found);
    }
    Ok(first)
}

/// Throughput per second of a job alone on the host, without a scheduler.
struct Alone {
    /// Of the second with the fewest requests, and the mean.
    least: Served,
    mean: Served,
}

impl Alone {
    fn of(global: &str, section: &str, world: &World, seed: u64, watch: &Watch) -> anyhow::Result<Alone> {
        let load = JobsLoad::new(&format!("{global}[only]\n{section}"), "drawn", seed, world)?;
        let contract = draw::of_promises(vec![TenantGuarantee::new("only", &["only"])]);
        let alone = World { roster: Some(contract.roster(&load, world, &Reference::model)?), ..world.clone() };
        let setting = regime::scheduler("none")?;
        let summary = run_load(&load, &alone, &setting, watch)?;
        let tenants = summary.measure.tenants.context("the run had no tenants")?;
        let here: &TenantMeasure = &tenants.on_roster()[0];
        let mut seconds = here.timeline.clone();
        seconds.widen_to(Nanos::from_millis(1_000));
        // The last bin may be incomplete.
        let whole = &seconds.bins()[..seconds.bins().len().saturating_sub(1)];
        let least = whole.iter().min_by_key(|second| second.requests).copied().unwrap_or_default();
        let per_second = |amount: u64| (amount as f64 / here.wanted.as_secs_f64()) as u64;
        let mean = Served { bytes: per_second(here.served.bytes), requests: per_second(here.served.requests), ..Served::default() };
        Ok(Alone { least, mean })
    }
}

/// A tenant's guarantees in the format of a job's comment; `reserved`: its reservation as a share of its throughput alone.
fn terms(random: &mut Xoshiro256PlusPlus, alone: &[Alone], reserved: Option<f64>, is_flood: bool) -> String {
    let mut terms = String::new();
    let unit_kib = one_of(random, &[256, 256, 256, 4, 64, 1024]);
    if unit_kib != 256 {
        terms += &format!(" io_unit_kib={unit_kib}");
    }
    let units = |served: &Served| {
        served.requests as f64 * (served.bytes as f64 / served.requests.max(1) as f64 / (unit_kib << 10) as f64).ceil()
    };
    // Each rate in requests, in bytes, or in both.
    let rate = |random: &mut Xoshiro256PlusPlus, kind: &str, served: &Served, part: f64| {
        let iops = format!(" {kind}_iops={}", (units(served) * part).ceil().max(1.0));
        let mb_s = format!(" {kind}_mb_s={:.3}", (served.bytes as f64 * part / 1e6).max(0.001));
        match one_of(random, &["iops", "mb_s", "both"]) {
            "iops" => iops,
            "mb_s" => mb_s,
            _ => iops + &mb_s,
        }
    };
    if let Some(part) = reserved {
        terms += &rate(random, "reservation", &alone[0].least, part);
    } else if is_flood {
        terms += " best_effort=true";
    }
    if happens(random, if reserved.is_some() { 0.4 } else { 0.6 }) {
        let least = reserved.map_or(0.03, |part| part * ABOVE_RESERVATION);
        match alone {
            // Only the writer has a limit, which leaves the reader its reservation.
            [_, writer] => {
                let part = scaled(random, 0.02, 0.5);
                terms += &rate(random, "limit_write", &writer.mean, part);
            }
            _ => {
                let kind = one_of(random, &["limit", "limit", "limit_read", "limit_write"]);
                let base = if alone[0].mean.bytes > alone[0].least.bytes { &alone[0].mean } else { &alone[0].least };
                let part = scaled(random, least, 1.5_f64.max(least * 2.0));
                terms += &rate(random, kind, base, part);
            }
        }
        terms += one_of(random, &["", "", " limit_burst_s=0", " limit_burst_s=0.1", " limit_burst_s=1"]);
    }
    terms
}
