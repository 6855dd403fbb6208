//! Evaluates guarantees for cgroups on random hosts: of a [`Protector`], and of alternatives.
//!
//! ```text
//! drawn device, victim, neighbours ─▶ victim alone ─▶ promise ─┬─▶ nothing: broken, else another case is drawn
//!                                                              ├─▶ largest fixed limit that keeps it (the oracle), else another
//!                                                              ├─▶ bfq, io-cost with ten times the weight
//!                                                              └─▶ Protector
//! ```

pub mod draw;
pub mod judge;

use block::Nanos;
use control::Setting;
use guarantee::tenants::Reference;
use testbed::chance::source;
use testbed::load::Load as _;
use testbed::pool::Workers;

use protect::alone;
use protect::simulated::{CgroupPilot, CgroupRecord, ResponseKind, largest_kept};
use protect::{Limit, Promise as PromisedFigures, Protector, Standing, Unit};
use sim::host::Queue;
use sim::run::Watch;
use twin::unit_load::UnitLoad;

use crate::worlds::Which;
use draw::{Drawn, PromiseKind, Promised};
use judge::{Outcome, Promise, judge};

/// The guaranteed p99 relative to the victim's p99 alone.
const P99_TIMES: f64 = 1.5;
/// The guaranteed IOPS relative to the victim's IOPS alone.
const IOPS_PART: f64 = 0.7;
/// Minimum IOPS on a reference disk relative to those alone.
const REFERENCE_LEAST: f64 = 0.2;
/// Share of seconds in which the victim alone must meet its guarantee; otherwise the case leaves no room for neighbours.
const ALONE: f64 = 0.98;
/// Minimum limit of a neighbour: a read-ahead window of the page cache per second.
pub const FLOOR: u64 = 128 << 10;
/// Number of steps per decade in which fixed limits are tried.
const STEPS_PER_DECADE: u32 = 8;
/// Number of steps: up to ten thousand times the floor, 1.3 GB/s.
const STEPS: u32 = 4 * STEPS_PER_DECADE;
/// Maximum number of draws until a case has room for neighbours and needs protection.
const ATTEMPTS: u32 = 40;

/// Methods by which a victim's neighbours are controlled.
pub const RIVALS: [&str; 5] = ["nothing", "bfq", "io-cost", "fixed io.max", "protector"];

/// A case and its results.
#[derive(Clone, Debug)]
pub struct ProtectResult {
    /// Its number.
    pub number: u32,
    /// Device, scheduler and loads.
    pub about: String,
    /// Its job file.
    pub text: String,
    /// The guarantee.
    pub promise: Promise,
    /// Its kind.
    pub kind: PromiseKind,
    /// The oracle's fixed limit.
    pub fixed_bytes_per_s: u64,
    /// In the order of [`RIVALS`].
    pub outcomes: [Outcome; 5],
    /// Changes by the protector: times, units and reasons.
    pub changes: Vec<String>,
    /// Second by second, whether the guarantee was met under the protector.
    pub seconds: String,
    /// Bytes per second under the protector, by unit with the victim first.
    pub bytes: Vec<Vec<u64>>,
    /// The final state of its guarantee.
    pub standings: Vec<Standing>,
    /// The figure of the victim alone, and its forecast by the twin from a run with neighbours; in seconds, or requests per second.
    pub alone: (f64, Result<f64, String>),
}

/// Generates cases and runs each with every method.
///
/// # Errors
/// A case cannot be run, or the work was interrupted.
pub fn protect(draws: Draws, seed: u64, numbers: &[u32], workers: Workers) -> anyhow::Result<Vec<ProtectResult>> {
    workers.map("cases", numbers, |&number| case(draws, seed, number, &workers.watch()))
}

/// Distribution of the cases, and options of their runs.
#[derive(Clone, Copy, Debug)]
pub struct Draws<'a> {
    /// The world of devices and loads.
    pub which: Which,
    /// Kinds of guarantees.
    pub kinds: &'a [PromiseKind],
    /// The scheduler under which the protector runs; `None`: that of the case.
    pub under: Option<&'a str>,
}

impl Draws<'_> {
    /// The default kinds of guarantees.
    pub fn of(which: Which) -> Draws<'static> {
        Draws { which, kinds: &PromiseKind::USUAL, under: None }
    }
}

fn case(draws: Draws, seed: u64, number: u32, watch: &Watch) -> anyhow::Result<ProtectResult> {
    for attempt in 0..ATTEMPTS {
        let name = number * ATTEMPTS + attempt;
        let mut random = source("protect", seed, name);
        let drawn = draw::case((draws.which, draws.kinds), &mut random, seed, name)?;
        if let Some(result) = run_case(&drawn, number, draws.under, watch)? {
            return Ok(result);
        }
    }
    anyhow::bail!("case {number} of seed {seed}: none of {ATTEMPTS} draws has room for its promise and needs protection")
}

/// Runs a case with every method; `None` if the victim alone leaves no room, or needs no protection.
fn run_case(drawn: &Drawn, number: u32, under: Option<&str>, watch: &Watch) -> anyhow::Result<Option<ProtectResult>> {
    let setting = Setting::parse(drawn.scheduler)?;
    let alone = run_alone(drawn, drawn.world.queue(drawn.world.scheduler(&setting)).with_cgroups(), watch)?;
    let known = match judge::promise(drawn.promised, &alone.records[0], P99_TIMES, IOPS_PART) {
        Some(promise) => Some((promise, None)),
        None => reference(drawn, &alone.records[0], watch)?,
    };
    let Some((promise, reference)) = known else { return Ok(None) };
    let promised = figures(promise, reference.as_ref())?;
    let kept = judge::seconds(promise, &alone.records[0], drawn.seconds);
    let kept: Vec<bool> = kept.into_iter().flatten().collect();
    if (kept.iter().filter(|kept| **kept).count() as f64) < ALONE * kept.len() as f64 || kept.is_empty() {
        return Ok(None);
    }
    let outcome = |pilot: &CgroupPilot| judge(drawn, promise, pilot);
    let unprotected = run(drawn, drawn.scheduler, pilot(drawn).with_recording(), watch)?;
    let nothing = outcome(&unprotected);
    if nothing.is_kept() {
        return Ok(None);
    }
    let Some((fixed_bytes_per_s, fixed)) = oracle(drawn, promise, watch)? else { return Ok(None) };
    let bfq = outcome(&run(drawn, "bfq", pilot(drawn), watch)?);
    let io_cost = outcome(&run(drawn, "io-cost", pilot(drawn), watch)?);
    let protected = pilot(drawn).with_protector(protector(drawn, &promised));
    let protected = run(drawn, under.unwrap_or(drawn.scheduler), protected, watch)?;
    let changes = protected
        .changes
        .iter()
        .map(|(at, change)| format!("{:7.1} s n{}: {:?}: {}", at.as_secs_f64(), change.unit - 1, change.limit, change.why));
    let seconds = judge::seconds(promise, &protected.records[0], drawn.seconds);
    let seconds = seconds.into_iter().map(|kept| kept.map_or('.', |kept| if kept { '+' } else { '-' })).collect();
    Ok(Some(ProtectResult {
        number,
        about: drawn.about.clone(),
        text: drawn.text.clone(),
        promise,
        fixed_bytes_per_s,
        outcomes: [nothing, bfq, io_cost, fixed, outcome(&protected)],
        changes: changes.collect(),
        seconds,
        bytes: protected.records.iter().map(|record| record.seconds.iter().map(|second| second.bytes).collect()).collect(),
        standings: protected.standings(),
        kind: drawn.promised.kind(),
        alone: (figure_alone(drawn.promised, promise, &alone.records[0]), forecast(drawn, (promise, &promised), &unprotected)),
    }))
}

/// The largest equal limit of all neighbours that meets the guarantee, by bisection; `None` if not even the smallest does.
fn oracle(drawn: &Drawn, promise: Promise, watch: &Watch) -> anyhow::Result<Option<(u64, Outcome)>> {
    let run_at = |step: u32| -> anyhow::Result<(u64, Outcome)> {
        let bytes = (FLOOR as f64 * 10_f64.powf(f64::from(step) / f64::from(STEPS_PER_DECADE))) as u64;
        let limit = Limit { read_bytes_per_s: Some(bytes), write_bytes_per_s: Some(bytes), ..Limit::default() };
        let limits = (1..=drawn.spans.len()).map(|unit| (unit, limit)).collect();
        Ok((bytes, judge(drawn, promise, &run(drawn, drawn.scheduler, pilot(drawn).with_limits(limits), watch)?)))
    };
    let lowest = run_at(0)?;
    if !lowest.1.is_kept() {
        return Ok(None);
    }
    largest_kept(lowest, STEPS + 1, run_at, |(_, outcome)| outcome.is_kept()).map(Some)
}

fn pilot(drawn: &Drawn) -> CgroupPilot {
    CgroupPilot::new(&drawn.world.roster.clone().unwrap_or_default(), 0)
}

/// The first reference disk on which the victim alone gets an IOPS in the allowed range, with the guarantee; `None` if there is none.
fn reference(drawn: &Drawn, here: &CgroupRecord, watch: &Watch) -> anyhow::Result<Option<(Promise, Option<Reference>)>> {
    let Some((iops, _)) = judge::rates(here).filter(|_| drawn.promised == Promised::Reference) else { return Ok(None) };
    for reference in &drawn.references {
        let there = run_alone(drawn, reference.queue(), watch)?;
        let Some((least, _)) = judge::rates(&there.records[0]) else { continue };
        if (REFERENCE_LEAST * iops..=IOPS_PART * iops).contains(&least) {
            return Ok(Some((Promise::Reference(least), Some(reference.clone()))));
        }
    }
    Ok(None)
}

/// The guarantee in the form that the controller expects.
fn figures(promise: Promise, reference: Option<&Reference>) -> anyhow::Result<PromisedFigures> {
    let mut figures = PromisedFigures::default();
    match promise {
        Promise::P99(ResponseKind::Read, limit) => figures.read_p99 = Some(limit),
        Promise::P99(ResponseKind::Write, limit) => figures.write_p99 = Some(limit),
        Promise::P99(ResponseKind::Flush, limit) => figures.flush_p99 = Some(limit),
        Promise::Iops(least) => figures.least_iops = Some(least),
        Promise::Share(share) => figures.share = Some(share),
        Promise::Reference(_) => {
            let disk = |disk: &Reference| anyhow::Ok(::protect::Reference { name: disk.to_string(), model: disk.model()? });
            figures.reference = reference.map(disk).transpose()?;
        }
    }
    Ok(figures)
}

/// The figure from which the guarantee was derived; for a reference disk, the ratio of the device's performance to it.
fn figure_alone(promised: Promised, promise: Promise, alone: &CgroupRecord) -> f64 {
    match (promised, promise) {
        (_, Promise::P99(_, limit)) => limit.as_secs_f64() / P99_TIMES,
        (_, Promise::Iops(least)) => least / IOPS_PART,
        (Promised::Share(of), Promise::Share(share)) => share / of,
        (_, Promise::Share(share)) => share,
        (_, Promise::Reference(least)) => judge::rates(alone).map_or(f64::NAN, |(iops, _)| iops / least),
    }
}

/// The twin's forecast of that figure from the recording.
fn forecast(drawn: &Drawn, (promise, promised): (Promise, &PromisedFigures), recorded: &CgroupPilot) -> Result<f64, String> {
    let recording = recorded.recording.as_ref().ok_or("nothing was recorded")?;
    let roster = drawn.world.roster.as_ref().ok_or("there are no tenants")?;
    let load = UnitLoad::infer(recording, drawn.end(), |stream| roster.owner_of_stream(stream) == Some(0))?;
    let alone = alone::forecast(&load, promised, drawn.world.profile.capacity_sectors())?;
    let kinds = [ResponseKind::Read, ResponseKind::Write, ResponseKind::Flush];
    let figure = match promise {
        Promise::P99(of, _) => kinds.iter().zip(alone.p99_s).find(|(kind, _)| **kind == of).and_then(|(_, figure)| figure),
        Promise::Iops(_) => alone.rates[0],
        Promise::Share(_) => alone.rates[2],
        Promise::Reference(_) => alone.rates[3],
    };
    figure.map(|figure| figure.value).ok_or_else(|| "too few requests in the forecast".to_owned())
}

fn protector(drawn: &Drawn, promised: &PromisedFigures) -> Protector {
    let victim = Unit { name: "victim".to_owned(), promise: Some(promised.clone()), is_limitable: true, floor_bytes_per_s: 0 };
    let neighbour = |number| Unit { name: format!("n{number}"), promise: None, is_limitable: true, floor_bytes_per_s: FLOOR };
    Protector::new([victim].into_iter().chain((0..drawn.spans.len()).map(neighbour)).collect())
}

fn run(drawn: &Drawn, scheduler: &str, mut pilot: CgroupPilot, watch: &Watch) -> anyhow::Result<CgroupPilot> {
    let setting = Setting::parse(scheduler)?;
    let queue = drawn.world.queue(drawn.world.scheduler(&setting)).with_cgroups();
    drawn.load.run(queue, drawn.world.host, watch, Some(&mut pilot))?;
    Ok(pilot)
}

/// Runs the victim without its neighbours, on the same locations of a device.
fn run_alone(drawn: &Drawn, queue: Queue, watch: &Watch) -> anyhow::Result<CgroupPilot> {
    let mut pilot = pilot(drawn);
    let streams: Vec<_> = ["victim-0", "victim-1"].iter().flat_map(|name| drawn.load.streams_of(name)).collect();
    drawn.load.run_streams(&streams, queue, drawn.world.host, watch, Some(&mut pilot))?;
    Ok(pilot)
}

/// The guarantee in words.
pub fn promise_text(promise: Promise) -> String {
    match promise {
        Promise::P99(kind, limit) => format!("p99 of {kind:?} {:.2} ms", Nanos::as_millis_f64(limit)),
        Promise::Iops(least) => format!("{least:.0} IOPS"),
        Promise::Share(share) => format!("{:.0}% of the device's time", 100.0 * share),
        Promise::Reference(least) => format!("as on a disk that gives it {least:.0} IOPS"),
    }
}
