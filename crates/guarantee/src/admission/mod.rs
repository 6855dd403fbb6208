//! Admission control: whether a host can keep promises to tenants (the work of `seekwise guarantee`).
//!
//! ```text
//! Contract ─▶ for each reference disk: patterns of every kind ─▶ the worst of them ─▶ needs …, has …
//!        └──▶ all tenants at once, each a bad neighbour in turn, ─▶ guarantee ─▶ which promise was broken, or would be first
//!             then each with loads that are drawn
//! ```
//! A guarantee that is broken in a scenario is run there a second time, for twice as long and with other random numbers: it counts as
//! broken only if it is broken in both.
//!
//! A guarantee about a reference disk holds whatever its owner requests. So it is counted with the pattern that needs most of the host (see
//! [`need`](crate::capacity::need)): the one in which the reference disk compares best with the host.

mod mend;
mod neighbours;
mod scenarios;
mod spectrum;

use std::ops::Range;

use anyhow::ensure;
use block::Nanos;
use report::guarantee::{Guarantee, NeedFigures, SCHEMA, ScenarioFigures, SlackFigures};
use sim::device::slowed::Speed;
use sim::profile::Profile;
use testbed::pool::Workers;

use crate::capacity::{Need, Needs};
use crate::placement::PROMISES;
use crate::tenants::{Contract, P99, Reference, THROUGHPUT, TenantGuarantee};
use scenarios::{Simulator, Which};
use spectrum::{Limits, Worst};

/// Steps of the host's speed in the search for headroom.
const TENTHS: u32 = 10;
/// Number of scenarios with the least slack that are repeated on slower hosts.
const TIGHTEST: usize = 4;

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

impl Candidate<'_> {
    /// Its kind of guarantee: the reference disk with the tenant's limits. `None` without a reference disk.
    fn kind(&self) -> Option<(&Reference, Limits)> {
        let rates = self.promise.rates;
        // A reservation counts the tenant's requests before merging in the queue.
        let reserved = rates.reservation.iops.filter(|_| self.promise.reference.is_none());
        let iops = rates.limit.iops.map_or(reserved, |limit| Some(reserved.map_or(limit, |reserved| limit.min(reserved))));
        Some((self.reference.as_ref()?, Limits { iops, bytes_per_s: rates.limit.bytes_per_s }))
    }
}

/// A kind of guarantee with the pattern that is hardest for the host.
#[derive(Clone, Debug)]
struct Hardest {
    reference: Reference,
    limits: Limits,
    /// Sectors of the largest volume with this guarantee.
    sectors: u64,
    worst: Worst,
}

impl Hardest {
    fn is_of(&self, (reference, limits): (&Reference, Limits)) -> bool {
        self.reference == *reference && self.limits == limits
    }
}

/// Admits or refuses the tenants; if admitted, determines the headroom, and if refused, remedies: the first that helps, or with
/// `is_thorough` one of each kind and other hosts, which can take several times as long as the rest.
///
/// # Errors
/// The tenants do not fit on the host or their reference disks, or it was interrupted.
pub fn guarantee(request: &GuaranteeRequest, is_thorough: bool, workers: Workers) -> anyhow::Result<Guarantee> {
    let simulator = Simulator::new(workers)?;
    let (mut answer, hardest) = assess(request, &simulator)?;
    match answer.can_be_guaranteed() {
        _ if answer.needs.is_empty() => {}
        true => answer.kept_at_percent = kept_at_percent(request, &answer, &hardest, &simulator)?,
        false => {
            let fewer = mend::fewer(request, &answer, &hardest, &simulator)?;
            if is_thorough || fewer.helps.is_none() {
                answer.remedies = mend::remedies(request, &answer, &hardest, is_thorough, &simulator)?;
            }
            answer.remedies.insert(0, fewer);
        }
    }
    Ok(answer)
}

/// Admits or refuses the tenants; if refused, determines remedies that keep all of them. The headroom is not determined.
///
/// # Errors
/// Those of [`guarantee`].
pub fn admit_or_mend(request: &GuaranteeRequest, workers: Workers) -> anyhow::Result<Guarantee> {
    let simulator = Simulator::new(workers)?;
    let (mut answer, hardest) = assess(request, &simulator)?;
    if !answer.can_be_guaranteed() {
        answer.remedies = mend::remedies(request, &answer, &hardest, true, &simulator)?;
    }
    Ok(answer)
}

/// Admits or refuses the tenants, without remedies or headroom.
///
/// # Errors
/// Those of [`guarantee`].
pub fn admit(request: &GuaranteeRequest, workers: Workers) -> anyhow::Result<Guarantee> {
    assess(request, &Simulator::new(workers)?).map(|(answer, _)| answer)
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
    Simulator::new(workers)?.breaks_again(request, &candidates, &kinds, &broken_in(refused), Nanos(times * lasts.0))
}

/// The lowest speed of the host at which the [`TIGHTEST`] scenarios break no guarantee, as a percentage in steps of a tenth. `None` without
/// scenarios.
fn kept_at_percent(
    request: &GuaranteeRequest,
    admitted: &Guarantee,
    hardest: &[Hardest],
    simulator: &Simulator,
) -> anyhow::Result<Option<f64>> {
    if request.scenario.is_none() {
        return Ok(None);
    }
    let least =
        |scenario: &ScenarioFigures| slack(std::slice::from_ref(scenario)).map_or(f64::INFINITY, |slack| slack.slack_percent);
    let mut tightest: Vec<(f64, String)> =
        admitted.scenarios.iter().map(|scenario| (least(scenario), scenario.name.clone())).collect();
    tightest.sort_by(|one, other| one.0.total_cmp(&other.0));
    let tightest: Vec<String> = tightest.into_iter().take(TIGHTEST).map(|(_, name)| name).collect();
    let (mut breaks, mut keeps) = (0, TENTHS);
    while breaks + 1 < keeps {
        let tenths = breaks.midpoint(keeps);
        let slower = request.host.at_speed(Speed::of(f64::from(tenths) / f64::from(TENTHS)));
        let slower = GuaranteeRequest { host: slower, ..request.clone() };
        let broken = first_broken(&slower, hardest, (false, Which::Only(&tightest)), simulator)?;
        if broken.is_none() { keeps = tenths } else { breaks = tenths }
    }
    Ok(Some(100.0 * f64::from(keeps) / f64::from(TENTHS)))
}

/// The names of the scenarios that broke a guarantee.
fn broken_in(refused: &Guarantee) -> Vec<String> {
    refused.scenarios.iter().filter(|scenario| scenario.is_broken()).map(|scenario| scenario.name.clone()).collect()
}

/// The name of the first of these scenarios that breaks a guarantee of this request, whose kinds of guarantees have known hardest patterns;
/// `None` if none does, or there are none. `is_oversold`: by the capacity check the guarantees do not fit, so all tenants are the same bad
/// neighbours at once, too.
fn first_broken(
    request: &GuaranteeRequest,
    hardest: &[Hardest],
    (is_oversold, which): (bool, Which),
    simulator: &Simulator,
) -> anyhow::Result<Option<String>> {
    let Some(lasts) = request.scenario else { return Ok(None) };
    let mut candidates = candidates(request)?;
    for candidate in &mut candidates {
        candidate.worst = candidate.kind().and_then(|kind| hardest.iter().position(|known| known.is_of(kind)));
    }
    let ran = simulator.scenarios(request, (&candidates, is_oversold), hardest, (which, lasts))?;
    Ok(ran.into_iter().find(ScenarioFigures::is_broken).map(|scenario| scenario.name))
}

/// Admits or refuses the tenants, and returns the hardest pattern of each kind of guarantee.
fn assess(request: &GuaranteeRequest, simulator: &Simulator) -> anyhow::Result<(Guarantee, Vec<Hardest>)> {
    let mut candidates = candidates(request)?;
    let kinds = worst_of_each(request, &mut candidates, simulator.workers)?;
    let each: Vec<&Worst> = candidates.iter().filter_map(|candidate| candidate.worst).map(|kind| &kinds[kind].worst).collect();
    let all: Vec<Need> = each.iter().map(|worst| worst.need).collect();
    let needs = Needs::of(&all);
    let scenarios = match request.scenario {
        Some(lasts) => simulator.scenarios(request, (&candidates, needs.part() > 1.0), &kinds, (Which::All, lasts))?,
        None => Vec::new(),
    };
    let spare = 1.0 - each.iter().map(|worst| worst.part_beside).sum::<f64>();
    let figures = kinds.iter().enumerate().map(|(kind, Hardest { reference, worst, .. })| {
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
        scheduler: PROMISES.to_owned(),
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
    Ok((answer, kinds))
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
        let Some((reference, limits)) = candidate.kind() else { continue };
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
    let each = kinds.into_iter().zip(worst);
    Ok(each.map(|(((reference, limits), sectors), worst)| Hardest { reference, limits, sectors, worst }).collect())
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
