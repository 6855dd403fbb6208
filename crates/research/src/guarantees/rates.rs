//! Limits and reservations in every second: drawn hosts and tenants, and each scheduler's results.
//!
//! Tenants ask all the time. Reservations are drawn so that the host has room for all of them at once: of its work, with each request's
//! cost beside others, and of its time, of which a tenant needs the part that its reservation is of what it gets alone in its worst second.

use anyhow::Context as _;
use block::Nanos;
use control::Setting;
use experiment::chance::{happens, one_of, scaled, source};
use experiment::comparison::{JobsLoad, regime};
use experiment::load::Load as _;
use experiment::pool::Workers;
use experiment::tenants::judge::{RateFigures, rate_figures};
use experiment::tenants::{Contract, Reference, TenantGuarantee};
use experiment::world::World;
use rand_xoshiro::Xoshiro256PlusPlus;
use sim::run::{Served, TenantMeasure, Watch};

use super::bars::run_load;
use super::draw::{self, DIRECT};
use crate::worlds::Which;

/// Draws of a reservation before a tenant gets none.
const ATTEMPTS: u32 = 6;
/// A limit is at least this many times a reservation of the same tenant.
const ABOVE_RESERVATION: f64 = 1.2;
/// Tenants that may ask with 128 requests at a time: what a host of few tenants has.
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
    /// What its reservations need of the host.
    pub needs: f64,
    /// Its tenants with rates, and the bytes of all, by scheduler in the order given.
    pub outcomes: Vec<(Vec<TenantRates>, u64)>,
}

impl RatesResult {
    /// Broken and all limits, or reservations, under the scheduler of this position: one that is missed in a single second is broken.
    pub fn broken(&self, position: usize, is_limit: bool) -> (usize, usize) {
        let all = self.outcomes[position].0.iter().flat_map(|tenant| &tenant.rates);
        let all = all.filter(|figures| figures.is_limit == is_limit && figures.windows > 0);
        (all.clone().filter(|figures| figures.missed > 0).count(), all.count())
    }
}

/// Runs drawn cases under each of the schedulers.
///
/// # Errors
/// One cannot be run, or it was interrupted.
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
        Ok(RatesResult { number, host: drawn.world.profile.name().to_owned(), text: drawn.text, needs: drawn.needs, outcomes })
    })
}

fn run(drawn: &Drawn, scheduler: &Setting, watch: &Watch) -> anyhow::Result<(Vec<TenantRates>, u64)> {
    let summary = run_load(&drawn.load, &drawn.world, scheduler, watch)?;
    let tenants = summary.measure.tenants.context("the run had no tenants")?;
    let ledger = summary.ledger.context("the run had no ledger")?;
    let all = drawn.contract.promises.iter().zip(tenants.on_roster()).zip(ledger.sent());
    let rates = all.filter(|((promise, _), _)| promise.rates.is_limited() || !promise.rates.reservation.is_none());
    let rates = rates
        .map(|((promise, here), sent)| TenantRates { name: promise.name.clone(), rates: rate_figures(&promise.rates, here, sent) });
    Ok((rates.collect(), tenants.on_roster().iter().map(|tenant| tenant.served.bytes).sum()))
}

/// A drawn case on its host.
struct Drawn {
    world: World,
    text: String,
    load: JobsLoad,
    contract: Contract,
    needs: f64,
}

/// The jobs of a tenant: one, or one that reads and one that writes.
struct Jobs {
    sections: Vec<String>,
    is_flood: bool,
}

impl Jobs {
    fn draw(random: &mut Xoshiro256PlusPlus, may_flood: bool) -> Jobs {
        let is_flood = may_flood && happens(random, 0.3);
        let (kib, depth) = (one_of(random, &[4, 16, 64, 256, 1024]), if is_flood { 128 } else { draw::depth(random, 32.0) });
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

/// Draws case `number`, whose reservations need at most `most` of the host's capacity.
fn draw(which: Which, seed: u64, number: u32, most: f64, watch: &Watch) -> anyhow::Result<Drawn> {
    let mut random = source("rates", seed, number);
    let mut world = draw::device(which, &mut random, seed, number)?;
    let tenants = scaled(&mut random, 2.0, 8.0).round() as usize;
    // A tenant has at most two jobs.
    let global = draw::global(&world, draw::size_mib(&world, 2 * tenants));
    let (mut needs, mut floods, mut sections) = (0.0, 0, Vec::new());
    for tenant in 0..tenants {
        let jobs = Jobs::draw(&mut random, floods < FLOODS);
        floods += usize::from(jobs.is_flood);
        let alone = jobs.sections.iter().map(|section| Alone::of(&global, section, &world, seed, watch));
        let alone = alone.collect::<anyhow::Result<Vec<Alone>>>()?;
        let mut reserved = None;
        if !jobs.is_flood && happens(&mut random, 0.7) {
            let cost = cost_beside(&global, &jobs.sections[0], &world, seed, watch)?;
            reserved = (0..ATTEMPTS).find_map(|_| {
                let part = scaled(&mut random, 0.02, 0.7);
                let need = f64::max(part, part * alone[0].least.requests as f64 * cost / world.profile.disks() as f64);
                (needs + need <= most).then_some((part, need))
            });
            needs += reserved.map_or(0.0, |(_, need)| need);
        }
        let terms = terms(&mut random, &alone, reserved.map(|(part, _)| part), jobs.is_flood);
        sections.push(jobs.text(tenant, &terms));
    }
    let text = format!("{global}{}", sections.concat());
    let load = JobsLoad::new(&text, "drawn", seed, &world)?;
    let contract = Contract::of_job_file(&text, "drawn")?.context("the drawn text names no tenants")?;
    world.roster = Some(contract.roster(&load, &world, &Reference::model).context("the drawn roster")?);
    Ok(Drawn { world, text, load, contract, needs })
}

/// What a job gets alone on the host in a second without a scheduler.
struct Alone {
    /// In the second with the fewest requests, and in the mean.
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
        // The last one may be a part of a second.
        let whole = &seconds.bins()[..seconds.bins().len().saturating_sub(1)];
        let least = whole.iter().min_by_key(|second| second.requests).copied().unwrap_or_default();
        let per_second = |amount: u64| (amount as f64 / here.wanted.as_secs_f64()) as u64;
        let mean = Served { bytes: per_second(here.served.bytes), requests: per_second(here.served.requests), ..Served::default() };
        Ok(Alone { least, mean })
    }
}

/// Device time of a request of the tenant beside another tenant whose requests are anywhere, in seconds: what moves the arm away between its
/// requests. 0 if the device does not say.
fn cost_beside(global: &str, section: &str, world: &World, seed: u64, watch: &Watch) -> anyhow::Result<f64> {
    let text = format!("{global}{section}[filler]\n{DIRECT}rw=randread\nbs=4k\niodepth=1\n");
    let load = JobsLoad::new(&text, "drawn", seed, world)?;
    let contract = draw::of_promises(load.names().iter().map(|name| TenantGuarantee::new(name, &[name])).collect());
    let shared = World { roster: Some(contract.roster(&load, world, &Reference::model)?), ..world.clone() };
    let setting = regime::scheduler("none")?;
    let summary = run_load(&load, &shared, &setting, watch)?;
    let requests = summary.measure.tenants.as_ref().map_or(0, |tenants| tenants.on_roster()[0].served.requests);
    let work = summary.ledger.as_ref().map_or(Nanos::ZERO, |ledger| ledger.work_of(0));
    Ok(if requests > 0 { work.as_secs_f64() / requests as f64 } else { 0.0 })
}

/// A tenant's guarantees, as in the comment of a job; `reserved`: the part of what it gets alone that is its reservation.
fn terms(random: &mut Xoshiro256PlusPlus, alone: &[Alone], reserved: Option<f64>, is_flood: bool) -> String {
    let mut terms = String::new();
    let unit_kib = one_of(random, &[256, 256, 256, 4, 64, 1024]);
    if unit_kib != 256 {
        terms += &format!(" io_unit_kib={unit_kib}");
    }
    let units = |served: &Served| {
        served.requests as f64 * (served.bytes as f64 / served.requests.max(1) as f64 / (unit_kib << 10) as f64).ceil()
    };
    // Each in requests, in bytes, or in both.
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
            // The writer alone: its limit leaves the reader what is reserved.
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
