//! Admission control: whether a host can keep promises to tenants (the work of `seekwise guarantee`).
//!
//! ```text
//! Contract ─▶ for each reference disk: patterns of every kind ─▶ the worst of them ─▶ needs …, has …
//!        └──▶ all tenants at once, each a bad neighbour in turn, ─▶ youchoose ─▶ which promise was broken, or would be first
//!             then each with loads that are drawn
//! ```
//! A guarantee that is broken in a scenario is run there a second time, for twice as long and with other random numbers: it counts as
//! broken only if it is broken in both.
//!
//! A guarantee about a reference disk holds whatever its owner requests. So it is counted with the pattern that needs most of the host (see
//! [`need`](crate::capacity::need)): the one in which the reference disk compares best with the host.

mod mend;
mod neighbours;
mod spectrum;

use std::ops::Range;

use crate::planner::Assignment;
use anyhow::ensure;
use block::Nanos;
use block::rates::{Rate, Rates};
use control::Setting;
use report::guarantee::{Guarantee, NeedFigures, SCHEMA, ScenarioFigures, SlackFigures};
use sim::device::slowed::Speed;
use sim::profile::Profile;
use testbed::chance;
use testbed::pool::{Unseen, Workers};

use crate::capacity::{Need, Needs};
use crate::placement::{Asks, Cluster, ClusterArray, ClusterVolume, YOUCHOOSE, got};
use crate::tenants::{Contract, P99, Reference, THROUGHPUT, TenantGuarantee};
use neighbours::{KINDS, Kind};
use spectrum::{Limits, Worst};

/// Steps of the host's speed in the search for headroom.
const TENTHS: u32 = 10;
/// Number of scenarios in which each tenant has a random load.
const DRAWN: u32 = 12;

/// A request for admission.
#[derive(Clone, Debug)]
pub struct GuaranteeRequest {
    /// The tenants with their guarantees.
    pub contract: Contract,
    /// The host.
    pub host: Profile,
    /// Length of each scenario; `None`: only the capacity check.
    pub scenario: Option<Nanos>,
    /// Seed of all random numbers.
    pub seed: u64,
}

/// A tenant that requests admission.
struct Candidate<'a> {
    promise: &'a TenantGuarantee,
    reference: Option<Reference>,
    sectors: u64,
    /// Index of the worst pattern of its kind of guarantee; `None` without a reference disk.
    worst: Option<usize>,
}

/// A reference disk with the largest of its volumes and the pattern that is hardest for the host.
type Hardest = (Reference, u64, Worst);

/// Admits or refuses the tenants; if admitted, determines the headroom, and if refused, remedies.
///
/// # Errors
/// The tenants do not fit on the host or their reference disks, or it was interrupted.
pub fn guarantee(request: &GuaranteeRequest, workers: Workers) -> anyhow::Result<Guarantee> {
    let (mut answer, hardest, worst) = assess(request, workers)?;
    match answer.can_be_guaranteed() {
        _ if answer.needs.is_empty() => {}
        true => answer.kept_at_percent = kept_at_percent(request, &hardest, &worst, workers)?,
        false => answer.remedies = mend::remedies(request, &answer, &hardest, workers)?,
    }
    Ok(answer)
}

/// Admits or refuses the tenants; if refused, determines remedies. The headroom is not determined.
///
/// # Errors
/// Those of [`guarantee`].
pub fn admit_or_mend(request: &GuaranteeRequest, workers: Workers) -> anyhow::Result<Guarantee> {
    let (mut answer, hardest, _) = assess(request, workers)?;
    if !answer.can_be_guaranteed() {
        answer.remedies = mend::remedies(request, &answer, &hardest, workers)?;
    }
    Ok(answer)
}

/// Admits or refuses the tenants, without remedies or headroom.
///
/// # Errors
/// Those of [`guarantee`].
pub fn admit(request: &GuaranteeRequest, workers: Workers) -> anyhow::Result<Guarantee> {
    assess(request, workers).map(|(answer, ..)| answer)
}

/// Whether one of the scenarios that broke a guarantee does so again, with other random numbers and `times` as long; `false` without
/// scenarios.
///
/// # Errors
/// Those of [`guarantee`].
pub fn breaks_again(request: &GuaranteeRequest, refused: &Guarantee, times: u64, workers: Workers) -> anyhow::Result<bool> {
    let Some(lasts) = request.scenario else { return Ok(false) };
    let mut candidates = candidates(request)?;
    let kinds = worst_of_each(request, &mut candidates, workers)?;
    let broken: Vec<&str> =
        refused.scenarios.iter().filter(|scenario| is_broken(scenario)).map(|scenario| scenario.name.as_str()).collect();
    let (first, alike) = list(request, &candidates, &kinds)?;
    let scheduler = Setting::parse(YOUCHOOSE)?;
    for scenario in first.iter().chain(&alike).filter(|scenario| broken.contains(&scenario.name.as_str())) {
        let seed = request.seed.wrapping_add(2);
        if is_broken(&scenario.run((request, seed), &candidates, &scheduler, Nanos(times * lasts.0), workers)?) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The lowest speed of the host at which no scenario breaks a guarantee, as a percentage in steps of a tenth; `None` without scenarios.
fn kept_at_percent(
    request: &GuaranteeRequest,
    hardest: &[Hardest],
    worst: &[Option<usize>],
    workers: Workers,
) -> anyhow::Result<Option<f64>> {
    let Some(lasts) = request.scenario else { return Ok(None) };
    let (mut breaks, mut keeps) = (0, TENTHS);
    while breaks + 1 < keeps {
        let tenths = breaks.midpoint(keeps);
        let slower = request.host.at_speed(Speed::of(f64::from(tenths) / f64::from(TENTHS)));
        let slower = GuaranteeRequest { host: slower, ..request.clone() };
        let mut candidates = candidates(&slower)?;
        candidates.iter_mut().zip(worst).for_each(|(candidate, worst)| candidate.worst = *worst);
        let ran = scenarios(&slower, (&candidates, 0.0), hardest, lasts, workers)?;
        if ran.iter().any(is_broken) { breaks = tenths } else { keeps = tenths }
    }
    Ok(Some(100.0 * f64::from(keeps) / f64::from(TENTHS)))
}

fn is_broken(scenario: &ScenarioFigures) -> bool {
    scenario.tenants.iter().any(|tenant| !tenant.broken.is_empty())
}

/// The result, the hardest pattern of each kind of guarantee, and for each tenant the index of its kind.
type Assessed = (Guarantee, Vec<Hardest>, Vec<Option<usize>>);

/// Admits or refuses the tenants, and returns the hardest patterns.
fn assess(request: &GuaranteeRequest, workers: Workers) -> anyhow::Result<Assessed> {
    let mut candidates = candidates(request)?;
    let kinds = worst_of_each(request, &mut candidates, workers)?;
    let each: Vec<&Worst> = candidates.iter().filter_map(|candidate| candidate.worst).map(|kind| &kinds[kind].2).collect();
    let all: Vec<Need> = each.iter().map(|worst| worst.need).collect();
    let needs = Needs::of(&all);
    let scenarios = match request.scenario {
        Some(lasts) => scenarios(request, (&candidates, needs.part()), &kinds, lasts, workers)?,
        None => Vec::new(),
    };
    let spare = 1.0 - each.iter().map(|worst| worst.part_beside).sum::<f64>();
    let figures = kinds.iter().enumerate().map(|(kind, (reference, _, worst))| {
        let waits = Needs::of(&[&all[..], &[worst.need]].concat()).wait;
        let fit = if waits <= 1.0 { (spare / worst.part_beside + 1e-9) as u64 } else { 0 };
        // The wait of one more such tenant in addition to all others.
        let own = Needs { wait: waits, ..Needs::of(&[worst.need]) };
        NeedFigures {
            reference: reference.to_string(),
            tenants: candidates.iter().filter(|candidate| candidate.worst == Some(kind)).count() as u64,
            needs_percent: 100.0 * worst.need.part(),
            parts: own.figures(),
            easiest_percent: 100.0 * worst.least,
            pattern: worst.kind.text.clone(),
            more: fit,
        }
    });
    let answer = Guarantee {
        schema: SCHEMA,
        seekwise_version: env!("CARGO_PKG_VERSION").to_owned(),
        contract: request.contract.source.clone(),
        host: request.host.description().to_owned(),
        scheduler: YOUCHOOSE.to_owned(),
        seed: request.seed,
        needs_percent: 100.0 * needs.part(),
        parts: needs.figures(),
        needs: figures.collect(),
        without_reference: candidates.iter().filter(|candidate| candidate.reference.is_none()).count() as u64,
        slack: slack(&scenarios),
        kept_at_percent: None,
        scenarios,
        remedies: Vec::new(),
    };
    let worst = candidates.iter().map(|candidate| candidate.worst).collect();
    Ok((answer, kinds, worst))
}

/// Tenants with their sizes: those of their volumes, or else equal parts of the host's remaining space, but no more than the reference disk
/// holds.
fn candidates(request: &GuaranteeRequest) -> anyhow::Result<Vec<Candidate<'_>>> {
    let Contract { promises, source, .. } = &request.contract;
    let capacity = request.host.capacity_sectors();
    let given = |promise: &TenantGuarantee| promise.volumes.iter().map(|range: &Range<u64>| range.end - range.start).sum::<u64>();
    let all: u64 = promises.iter().map(given).sum();
    ensure!(
        all <= capacity,
        "{source}: the volumes are {} MiB, and {} holds {} MiB",
        all / 2048,
        request.host.name(),
        capacity / 2048
    );
    let open = promises.iter().filter(|promise| promise.volumes.is_empty()).count() as u64;
    let share = (capacity - all).checked_div(open).unwrap_or(0) / 2048 * 2048;
    ensure!(open == 0 || share > 0, "{source}: {} has no room left for tenants without volumes", request.host.name());
    let each = promises.iter().map(|promise| {
        ensure!(
            promise.rates.reservation.bytes_per_s.is_none(),
            "{source}:{}: tenant {}: reservation_mb_s: admission control counts reservations in requests only; reservation_iops, or \
             reference = \"constant:mb_s=…\", would be right",
            promise.line,
            promise.name
        );
        let reserved = promise
            .rates
            .reservation
            .iops
            .map(|iops| Reference::parse(&format!("constant:request_ms={}", 1e3 / iops.get() as f64)));
        let reference = promise.reference.clone().map(Ok).or(reserved).transpose()?;
        let most = reference.as_ref().and_then(Reference::capacity_sectors).unwrap_or(u64::MAX);
        let sectors = if promise.volumes.is_empty() { share.min(most) } else { given(promise) };
        ensure!(
            sectors <= most,
            "{source}:{}: tenant {}: reference: holds {} MiB, and the tenant has {} MiB; a larger disk would be right",
            promise.line,
            promise.name,
            most / 2048,
            sectors / 2048
        );
        Ok(Candidate { promise, reference, sectors, worst: None })
    });
    each.collect()
}

/// The worst pattern of each reference disk with its limits, for the largest of its volumes. Disk and limits identify a kind of guarantee.
fn worst_of_each(request: &GuaranteeRequest, candidates: &mut [Candidate], workers: Workers) -> anyhow::Result<Vec<Hardest>> {
    let mut kinds: Vec<((Reference, Limits), u64)> = Vec::new();
    for candidate in candidates.iter_mut() {
        let Some(reference) = &candidate.reference else { continue };
        let rates = candidate.promise.rates;
        // A reservation counts the tenant's requests before merging in the queue.
        let reserved = rates.reservation.iops.filter(|_| candidate.promise.reference.is_none());
        let iops = rates.limit.iops.map_or(reserved, |limit| Some(reserved.map_or(limit, |reserved| limit.min(reserved))));
        let limits = Limits { iops, bytes_per_s: rates.limit.bytes_per_s };
        let known = kinds.iter().position(|((known, its), _)| known == reference && *its == limits);
        let kind = known.unwrap_or_else(|| {
            kinds.push(((reference.clone(), limits), 0));
            kinds.len() - 1
        });
        kinds[kind].1 = kinds[kind].1.max(candidate.sectors);
        candidate.worst = Some(kind);
    }
    let is_shared = candidates.len() > 1;
    let asked: Vec<_> = kinds.iter().map(|((reference, limits), sectors)| (reference, *limits, *sectors)).collect();
    let worst = spectrum::worst(&request.host, &asked, is_shared, request.seed, workers)?;
    Ok(kinds.into_iter().zip(worst).map(|(((reference, _), sectors), worst)| (reference, sectors, worst)).collect())
}

/// The host with all tenants, each with its load.
fn cluster(request: &GuaranteeRequest, candidates: &[Candidate], loads: &[(String, Asks)], seed: u64) -> Cluster {
    let host = ClusterArray { name: request.host.name().to_owned(), profile: request.host.clone(), capacity: 1.0 };
    let volumes = candidates.iter().zip(loads).map(|(candidate, (_, asks))| ClusterVolume {
        name: candidate.promise.name.clone(),
        sectors: candidate.sectors,
        reference: candidate.reference.clone(),
        // A reservation is enforced as a reference disk here.
        rates: Rates { reservation: Rate::default(), ..candidate.promise.rates },
        asks: asks.clone(),
        on: Some(0),
    });
    Cluster { arrays: vec![host], volumes: volumes.collect(), seed }
}

/// A load for each tenant, all at once.
struct Scenario {
    name: String,
    /// For each tenant its load, in words and as a workload.
    loads: Vec<(String, Asks)>,
}

/// The scenarios: every tenant is a bad neighbour of each kind in turn, then each has the worst pattern of its own, and then random loads.
/// The second list has those in which all are bad neighbours of the same kind at once.
fn list(request: &GuaranteeRequest, candidates: &[Candidate], kinds: &[Hardest]) -> anyhow::Result<(Vec<Scenario>, Vec<Scenario>)> {
    let load = |kind: &Kind| (kind.name.to_owned(), kind.asks());
    let neighbours = |name: String, kind: &dyn Fn(usize) -> &'static Kind| {
        let loads = (0..candidates.len()).map(|number| load(kind(number))).collect();
        Scenario { name, loads }
    };
    let mut all: Vec<Scenario> = (0..KINDS.len())
        .map(|turn| {
            let name = format!("{} and others after it, the first tenant first", KINDS[turn].name);
            neighbours(name, &|number| &KINDS[(number + turn) % KINDS.len()])
        })
        .collect();
    let worst = |candidate: &Candidate| {
        candidate.worst.map_or_else(|| load(&KINDS[0]), |kind| (kinds[kind].2.kind.text.clone(), kinds[kind].2.kind.asks()))
    };
    all.push(Scenario { name: "each has the worst-case pattern".to_owned(), loads: candidates.iter().map(worst).collect() });
    if candidates.len() < 2 {
        return Ok((all, Vec::new()));
    }
    for number in 0..DRAWN {
        let mut random = chance::source("drawn loads", request.seed, number);
        let loads = candidates.iter().map(|_| neighbours::drawn(&mut random)).collect::<anyhow::Result<_>>()?;
        all.push(Scenario { name: format!("each has a load that is drawn, draw {}", number + 1), loads });
    }
    let alike = KINDS.iter().map(|kind| neighbours(format!("all have {}", kind.name), &|_| kind)).collect();
    Ok((all, alike))
}

/// Runs the scenarios. Those in which all are bad neighbours of the same kind run only if the capacity check says that the guarantees do
/// not fit and no other scenario breaks one.
fn scenarios(
    request: &GuaranteeRequest,
    (candidates, needs): (&[Candidate], f64),
    kinds: &[Hardest],
    lasts: Nanos,
    workers: Workers,
) -> anyhow::Result<Vec<ScenarioFigures>> {
    let scheduler = Setting::parse(YOUCHOOSE)?;
    let (first, alike) = list(request, candidates, kinds)?;
    let run = |all: &[Scenario]| {
        let unseen = Unseen(workers.monitor);
        let within = Workers { monitor: &unseen, threads: 1 };
        workers.map("scenarios with bad neighbours", all, |scenario| {
            scenario.confirmed(request, candidates, &scheduler, lasts, within)
        })
    };
    let mut ran = run(&first)?;
    if needs > 1.0 && !ran.iter().any(is_broken) {
        ran.extend(run(&alike)?);
    }
    Ok(ran)
}

impl Scenario {
    /// Runs the scenario; if a guarantee is broken, runs it again for twice as long. Returns the second run with the guarantees that are
    /// broken in both.
    fn confirmed(
        &self,
        request: &GuaranteeRequest,
        candidates: &[Candidate],
        scheduler: &Setting,
        lasts: Nanos,
        workers: Workers,
    ) -> anyhow::Result<ScenarioFigures> {
        let first = self.run((request, request.seed), candidates, scheduler, lasts, workers)?;
        if !is_broken(&first) {
            return Ok(first);
        }
        let mut second = self.run((request, request.seed.wrapping_add(1)), candidates, scheduler, lasts + lasts, workers)?;
        for (before, tenant) in first.tenants.iter().zip(&mut second.tenants) {
            if before.broken.is_empty() {
                tenant.broken.clear();
            }
        }
        Ok(second)
    }

    fn run(
        &self,
        (request, seed): (&GuaranteeRequest, u64),
        candidates: &[Candidate],
        scheduler: &Setting,
        lasts: Nanos,
        workers: Workers,
    ) -> anyhow::Result<ScenarioFigures> {
        let cluster = cluster(request, candidates, &self.loads, seed);
        let on: Assignment = cluster.assignment();
        let ran = cluster.live(&on, None, scheduler, lasts, workers)?;
        let numbers: Vec<usize> = (0..cluster.volumes.len()).collect();
        let alone = cluster.alone(&numbers, ran.until, workers)?;
        let tenants =
            numbers.iter().zip(&alone).map(|(&volume, alone)| got(&cluster, &on, volume, &ran.volumes[volume], alone.as_ref()));
        let does = self.loads.iter().map(|(text, _)| text.clone()).collect();
        Ok(ScenarioFigures { name: self.name.clone(), lasts_s: ran.until.as_secs_f64(), does, tenants: tenants.collect() })
    }
}

/// The guarantee with the least slack, which is negative if it is broken; `None` without a finite one.
fn slack(scenarios: &[ScenarioFigures]) -> Option<SlackFigures> {
    let each = scenarios.iter().flat_map(|scenario| {
        scenario.tenants.iter().filter_map(move |tenant| {
            let figures = tenant.reference.as_ref()?;
            let throughput = figures.throughput_ratio / THROUGHPUT - 1.0;
            let response = P99 / figures.p99_ratio - 1.0;
            let (slack, of) = if throughput <= response { (throughput, "throughput") } else { (response, "p99 response time") };
            slack.is_finite().then(|| SlackFigures {
                tenant: tenant.volume.clone(),
                scenario: scenario.name.clone(),
                of: of.to_owned(),
                slack_percent: 100.0 * slack,
            })
        })
    });
    each.min_by(|one, other| one.slack_percent.total_cmp(&other.slack_percent))
}
