//! Remedies for a refused contract: changes with which no scenario breaks a guarantee.

use std::num::NonZeroU64;

use report::guarantee::{Guarantee, RemedyFigures};
use report::number::three_digits;
use sim::profile::{self, Profile};
use testbed::pool::Workers;

use super::scenarios::{Simulator, Which};
use super::{GuaranteeRequest, Hardest, broken_in, candidates, first_broken, spectrum};
use crate::capacity::{Need, Needs};
use crate::tenants::Reference;

/// Maximum number of remedies of each kind to try, each with all scenarios.
const TRIES: usize = 3;

/// Limits to try on tenants without a guarantee, as parts of their throughput in the scenario that broke one.
const LIMITS: [f64; TRIES] = [0.5, 0.1, 0.02];

/// The kind of remedy that leaves tenants out.
const FEWER: &str = "fewer tenants";

/// A changed request, with its text as the end of a sentence, the hardest patterns of its kinds of guarantees, and whether these do not fit
/// by the capacity check.
struct Remedy {
    text: String,
    request: GuaranteeRequest,
    hardest: Vec<Hardest>,
    is_oversold: bool,
}

impl Remedy {
    /// The scenario that breaks a guarantee, `None` if it is admitted: no scenario breaks one. Without scenarios, the capacity check decides.
    fn breaks_in(&self, which: Which, simulator: &Simulator) -> anyhow::Result<Option<String>> {
        if self.request.scenario.is_none() {
            return Ok(self.is_oversold.then(|| "the capacity check".to_owned()));
        }
        let broken = first_broken(&self.request, &self.hardest, (self.is_oversold, which), simulator);
        simulator.workers.monitor.check()?;
        // A request that does not fit is no remedy.
        Ok(broken.unwrap_or_else(|error| Some(format!("{error:#}"))))
    }
}

/// The largest number of guarantees that are kept if the tenants with the largest needs are left out: by bisection in the scenarios that
/// are known to break one, and then in all.
///
/// # Errors
/// It was interrupted, or the tenants do not fit on the host.
pub(super) fn fewer(
    request: &GuaranteeRequest,
    refused: &Guarantee,
    hardest: &[Hardest],
    simulator: &Simulator,
) -> anyhow::Result<RemedyFigures> {
    let promises = &request.contract.promises;
    let mut guaranteed = needs(request, hardest)?;
    // By need, the largest first, and of equal ones the last in the file.
    guaranteed.sort_by(|one, other| other.1.part().total_cmp(&one.1.part()).then(other.0.cmp(&one.0)));
    let without = |dropped: usize| {
        let out: Vec<usize> = guaranteed[..dropped].iter().map(|(number, _)| *number).collect();
        let names: Vec<&str> =
            (0..promises.len()).filter(|number| out.contains(number)).map(|number| promises[number].name.as_str()).collect();
        let mut fewer = request.clone();
        fewer.contract.promises =
            promises.iter().enumerate().filter(|(number, _)| !out.contains(number)).map(|(_, promise)| promise.clone()).collect();
        let rest: Vec<Need> = guaranteed[dropped..].iter().map(|(_, need)| *need).collect();
        let text = format!("without {}: {} of {} guarantees", names.join(", "), rest.len(), guaranteed.len());
        Remedy { text, request: fewer, hardest: hardest.to_vec(), is_oversold: Needs::of(&rest).part() > 1.0 }
    };
    let (mut broken, mut known, mut tried) = (0, broken_in(refused), Vec::new());
    // Nothing is known of more than `broken` that are left out; without all there is no guarantee.
    while broken + 1 < guaranteed.len() {
        let mut kept = guaranteed.len();
        while broken + 1 < kept {
            let dropped = broken.midpoint(kept);
            let remedy = without(dropped);
            if remedy.breaks_in(Which::Only(&known), simulator)?.is_none() {
                kept = dropped;
            } else {
                broken = dropped;
                tried.push(remedy.text);
            }
        }
        if kept == guaranteed.len() {
            break;
        }
        let remedy = without(kept);
        match remedy.breaks_in(Which::All, simulator)? {
            None => return Ok(RemedyFigures { kind: FEWER.to_owned(), helps: Some(remedy.text), tried }),
            Some(scenario) => known.push(scenario),
        }
        broken = kept;
        tried.push(remedy.text);
    }
    Ok(RemedyFigures { kind: FEWER.to_owned(), helps: None, tried })
}

/// The need of each guarantee, with the number of its tenant.
fn needs(request: &GuaranteeRequest, hardest: &[Hardest]) -> anyhow::Result<Vec<(usize, Need)>> {
    let mut needs = Vec::new();
    for (number, candidate) in candidates(request)?.iter().enumerate() {
        let Some(kind) = candidate.kind() else { continue };
        let known = hardest.iter().find(|known| known.is_of(kind));
        needs.push((number, known.map_or_else(Need::default, |known| known.worst.need)));
    }
    Ok(needs)
}

/// Tries three kinds of remedies that keep all tenants: a limit on those without a guarantee, a smaller guarantee for the tenant whose
/// guarantee breaks first, and if `is_thorough` another host. Returns the first of each kind with which no scenario breaks a guarantee, or
/// unless `is_thorough` up to the first kind that has one.
///
/// # Errors
/// It was interrupted.
pub(super) fn remedies(
    request: &GuaranteeRequest,
    refused: &Guarantee,
    hardest: &[Hardest],
    is_thorough: bool,
    simulator: &Simulator,
) -> anyhow::Result<Vec<RemedyFigures>> {
    let known = broken_in(refused);
    let shipped: Vec<Profile> = profile::BUILT_IN.iter().filter_map(|(name, _)| profile::load(name).ok()).collect();
    let is_oversold = refused.needs_percent > 100.0;
    let mut found = Vec::new();
    let limited = limited(request, refused);
    if !limited.is_empty() {
        let limited = limited.into_iter().map(|(text, request)| Remedy { text, request, hardest: hardest.to_vec(), is_oversold });
        found.push(first_kept("a limit on tenants without a guarantee", limited.collect(), &known, simulator)?);
    }
    if !is_thorough && found.iter().any(|remedy| remedy.helps.is_some()) {
        return Ok(found);
    }
    if let Some(tenant) = blamed(request, refused) {
        let promises = smaller(request, tenant, &shipped, hardest, simulator.workers)?;
        let others: Vec<Need> =
            needs(request, hardest)?.into_iter().filter(|(number, _)| *number != tenant).map(|(_, need)| need).collect();
        let tried = promises.into_iter().map(|kind| {
            let is_oversold = Needs::of(&[&others[..], &[kind.worst.need]].concat()).part() > 1.0;
            let mut smaller = request.clone();
            let promise = &mut smaller.contract.promises[tenant];
            let text = format!("if {} were promised {}", promise.name, kind.reference);
            promise.reference = Some(kind.reference.clone());
            Remedy { text, request: smaller, hardest: [&[kind], hardest].concat(), is_oversold }
        });
        found.push(first_kept("a smaller promise", tried.collect(), &known, simulator)?);
    }
    if !is_thorough {
        return Ok(found);
    }
    let hosts = faster(request, &shipped, hardest, simulator.workers)?.into_iter().map(|host| {
        let text = format!("on {}", host.name());
        Remedy { text, request: GuaranteeRequest { host, ..request.clone() }, hardest: hardest.to_vec(), is_oversold: false }
    });
    found.push(first_kept("another of the shipped devices", hosts.collect(), &known, simulator)?);
    Ok(found)
}

/// Requests with limits on the tenants without a guarantee, relative to their throughput in the first scenario that broke one; empty if
/// there are no such tenants.
fn limited(request: &GuaranteeRequest, refused: &Guarantee) -> Vec<(String, GuaranteeRequest)> {
    let Some(broken) = refused.scenarios.iter().find(|scenario| scenario.is_broken()) else { return Vec::new() };
    let promises = &request.contract.promises;
    let got = |number: usize| broken.tenants.get(number).map_or(0.0, |tenant| tenant.throughput_mb_s);
    let without =
        (0..promises.len()).filter(|&number| promises[number].reference.is_none() && promises[number].rates.reservation.is_none());
    let without: Vec<usize> = without.filter(|&number| got(number) > 0.0).collect();
    if without.is_empty() {
        return Vec::new();
    }
    let tried = LIMITS.into_iter().map(|part| {
        let (mut limited, mut texts) = (request.clone(), Vec::new());
        for &number in &without {
            let promise = &mut limited.contract.promises[number];
            let mb_s = part * got(number);
            let bytes_per_s = NonZeroU64::new((1e6 * mb_s) as u64).unwrap_or(NonZeroU64::MIN);
            let before = promise.rates.limit.bytes_per_s;
            promise.rates.limit.bytes_per_s = Some(before.map_or(bytes_per_s, |before| before.min(bytes_per_s)));
            texts.push(format!("{} to {} MB/s", promise.name, three_digits(mb_s)));
        }
        (format!("if these were limited: {}", texts.join(", ")), limited)
    });
    tried.collect()
}

/// Simulates these in order, at most [`TRIES`], each with the scenarios that are known to break a guarantee first. Returns the first that is
/// admitted.
fn first_kept(kind: &str, remedies: Vec<Remedy>, known: &[String], simulator: &Simulator) -> anyhow::Result<RemedyFigures> {
    let mut tried = Vec::new();
    for remedy in remedies.into_iter().take(TRIES) {
        if remedy.breaks_in(Which::First(known), simulator)?.is_none() {
            return Ok(RemedyFigures { kind: kind.to_owned(), helps: Some(remedy.text), tried });
        }
        tried.push(remedy.text);
    }
    Ok(RemedyFigures { kind: kind.to_owned(), helps: None, tried })
}

/// The tenant whose guarantee breaks first; by capacity alone, the one with the largest need. `None` if there is none with a reference disk
/// of its own.
fn blamed(request: &GuaranteeRequest, refused: &Guarantee) -> Option<usize> {
    let promises = &request.contract.promises;
    let named = |name: &str| promises.iter().position(|promise| promise.name == name && promise.reference.is_some());
    let first = refused.slack.as_ref().filter(|slack| slack.slack_percent < 0.0).and_then(|slack| named(&slack.tenant));
    let needs = |disk: &Reference| {
        let of_disk = refused.needs.iter().filter(|need| need.reference == disk.to_string());
        of_disk.map(|need| need.needs_percent).fold(0.0, f64::max)
    };
    let most = promises.iter().enumerate().filter_map(|(number, promise)| Some((number, needs(promise.reference.as_ref()?))));
    first.or_else(|| most.max_by(|one, other| one.1.total_cmp(&other.1)).map(|(number, _)| number))
}

/// Shipped disks that need less of the host than the tenant's reference disk with its hardest pattern, the largest need first.
fn smaller(
    request: &GuaranteeRequest,
    tenant: usize,
    shipped: &[Profile],
    hardest: &[Hardest],
    workers: Workers,
) -> anyhow::Result<Vec<Hardest>> {
    let Some(reference) = &request.contract.promises[tenant].reference else { return Ok(Vec::new()) };
    let Some(known) = hardest.iter().find(|kind| kind.reference == *reference) else { return Ok(Vec::new()) };
    let holds = if request.contract.promises[tenant].volumes.is_empty() { 0 } else { known.sectors };
    let is_shared = request.contract.promises.len() > 1;
    let disks: Vec<&Profile> = shipped.iter().filter(|disk| disk.capacity_sectors() >= holds).collect();
    // Nearly all disks hold the volume, so the size rarely changes between them.
    let mut sizes: Vec<u64> = disks.iter().map(|disk| known.sectors.min(disk.capacity_sectors())).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let kind = &known.worst.kind;
    let measure = |&sectors: &u64| spectrum::OnHost::measure(&request.host, kind, sectors, request.seed, workers);
    let hosted = workers.map("a pattern on the host", &sizes, measure)?;
    let mut all = workers.map("smaller reference disks", &disks, |disk| {
        let (reference, sectors) = (Reference::of(disk), known.sectors.min(disk.capacity_sectors()));
        let there = spectrum::on_reference(&reference, kind, sectors, request.seed, workers)?;
        let on_host = hosted[sizes.partition_point(|size| *size < sectors)];
        let need = on_host.need(&there, spectrum::Limits::default(), is_shared);
        Ok(Hardest { reference, limits: known.limits, sectors, worst: spectrum::Worst { need, ..known.worst.clone() } })
    })?;
    let need = |kind: &Hardest| kind.worst.need.part();
    all.retain(|kind| need(kind) < need(known));
    all.sort_by(|one, other| need(other).total_cmp(&need(one)));
    Ok(all)
}

/// Shipped devices on which the guarantees fit by the hardest patterns, the largest total need first: that is the smallest device that may
/// do.
fn faster(request: &GuaranteeRequest, shipped: &[Profile], hardest: &[Hardest], workers: Workers) -> anyhow::Result<Vec<Profile>> {
    let is_shared = request.contract.promises.len() > 1;
    let hosts: Vec<&Profile> = shipped.iter().filter(|host| host.name() != request.host.name()).collect();
    let references: Vec<&Reference> = request.contract.promises.iter().filter_map(|promise| promise.reference.as_ref()).collect();
    let mut all = workers.map("other hosts", &hosts, |&host| {
        let mut sum = 0.0;
        for kind in hardest {
            let sectors = kind.sectors.min(host.capacity_sectors());
            let there = spectrum::on_reference(&kind.reference, &kind.worst.kind, sectors, request.seed, workers)?;
            let hosted = spectrum::OnHost::measure(host, &kind.worst.kind, sectors, request.seed, workers)?;
            let part = hosted.need(&there, spectrum::Limits::default(), is_shared).part();
            let tenants = references.iter().filter(|reference| **reference == &kind.reference).count();
            sum += part * tenants as f64;
        }
        Ok((host.clone(), sum))
    })?;
    all.retain(|(_, need)| *need <= 1.0);
    all.sort_by(|one, other| other.1.total_cmp(&one.1));
    Ok(all.into_iter().map(|(host, _)| host).collect())
}
