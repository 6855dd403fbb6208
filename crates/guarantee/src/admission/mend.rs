//! Remedies for a refused contract: changes with which it is admitted, confirmed by an assessment.

use std::num::NonZeroU64;

use report::guarantee::{Guarantee, RemedyFigures};
use report::number::three_digits;
use sim::profile::{self, Profile};
use testbed::pool::Workers;

use super::{GuaranteeRequest, assess, is_broken, spectrum};
use crate::tenants::Reference;

/// Maximum number of remedies of each kind to try, each with all scenarios.
const TRIES: usize = 3;

/// Limits to try on tenants without a guarantee, as parts of their throughput in the scenario that broke one.
const LIMITS: [f64; TRIES] = [0.5, 0.1, 0.02];

/// Tries three kinds of remedies: a limit on tenants without a guarantee, a smaller guarantee for the tenant whose guarantee breaks first,
/// and another host. Returns the first of each kind that is admitted.
///
/// # Errors
/// It was interrupted.
pub(super) fn remedies(
    request: &GuaranteeRequest,
    refused: &Guarantee,
    hardest: &[(Reference, u64, spectrum::Worst)],
    workers: Workers,
) -> anyhow::Result<Vec<RemedyFigures>> {
    let shipped: Vec<Profile> = profile::BUILT_IN.iter().filter_map(|(name, _)| profile::load(name).ok()).collect();
    let mut found = Vec::new();
    let limited = limited(request, refused);
    if !limited.is_empty() {
        found.push(first_admitted("a limit on tenants without a guarantee", limited, workers)?);
    }
    if let Some(tenant) = blamed(request, refused) {
        let promises = smaller(request, tenant, &shipped, hardest, workers)?;
        let tried = promises.into_iter().map(|reference| {
            let mut smaller = request.clone();
            let promise = &mut smaller.contract.promises[tenant];
            let text = format!("if {} were promised {reference}", promise.name);
            promise.reference = Some(reference);
            (text, smaller)
        });
        found.push(first_admitted("a smaller promise", tried.collect(), workers)?);
    }
    let hosts = faster(request, &shipped, hardest, workers)?;
    let tried = hosts.into_iter().map(|host| (format!("on {}", host.name()), GuaranteeRequest { host, ..request.clone() }));
    found.push(first_admitted("another of the shipped devices", tried.collect(), workers)?);
    Ok(found)
}

/// Requests with limits on the tenants without a guarantee, relative to their throughput in the first scenario that broke one; empty if
/// there are no such tenants.
fn limited(request: &GuaranteeRequest, refused: &Guarantee) -> Vec<(String, GuaranteeRequest)> {
    let Some(broken) = refused.scenarios.iter().find(|scenario| is_broken(scenario)) else { return Vec::new() };
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

/// Assesses these requests in order, at most [`TRIES`], and returns the first that is admitted.
fn first_admitted(kind: &str, tried: Vec<(String, GuaranteeRequest)>, workers: Workers) -> anyhow::Result<RemedyFigures> {
    let mut texts = Vec::new();
    for (text, request) in tried.into_iter().take(TRIES) {
        // A request that does not fit is no remedy.
        match assess(&request, workers) {
            Ok((guarantee, ..)) if guarantee.can_be_guaranteed() => {
                return Ok(RemedyFigures { kind: kind.to_owned(), helps: Some(text), tried: texts });
            }
            _ => workers.monitor.check()?,
        }
        texts.push(text);
    }
    Ok(RemedyFigures { kind: kind.to_owned(), helps: None, tried: texts })
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

/// Shipped disks that need less of the host than the tenant's reference disk, the largest need first.
fn smaller(
    request: &GuaranteeRequest,
    tenant: usize,
    shipped: &[Profile],
    hardest: &[(Reference, u64, spectrum::Worst)],
    workers: Workers,
) -> anyhow::Result<Vec<Reference>> {
    let Some(reference) = &request.contract.promises[tenant].reference else { return Ok(Vec::new()) };
    let Some((_, sectors, worst)) = hardest.iter().find(|(known, ..)| known == reference) else { return Ok(Vec::new()) };
    let volumes = &request.contract.promises[tenant].volumes;
    let holds = if volumes.is_empty() { 0 } else { *sectors };
    let is_shared = request.contract.promises.len() > 1;
    // Nearly all disks hold the volume, so the size rarely changes between them.
    let mut hosted: Option<(u64, spectrum::OnHost)> = None;
    let mut all: Vec<(Reference, f64)> = Vec::new();
    for disk in shipped.iter().filter(|disk| disk.capacity_sectors() >= holds) {
        let smaller = Reference::of(disk);
        let sectors = (*sectors).min(disk.capacity_sectors());
        let there = spectrum::on_reference(&smaller, &worst.kind, sectors, request.seed, workers)?;
        let on_host = match hosted {
            Some((known, on_host)) if known == sectors => on_host,
            _ => spectrum::OnHost::measure(&request.host, &worst.kind, sectors, request.seed, workers)?,
        };
        hosted = Some((sectors, on_host));
        all.push((smaller, on_host.need(&there, spectrum::Limits::default(), is_shared).part()));
    }
    all.retain(|(_, need)| *need < worst.need.part());
    all.sort_by(|one, other| other.1.total_cmp(&one.1));
    Ok(all.into_iter().map(|(reference, _)| reference).collect())
}

/// Shipped devices on which the guarantees fit by the hardest patterns, the largest total need first: that is the smallest device that may
/// do.
fn faster(
    request: &GuaranteeRequest,
    shipped: &[Profile],
    hardest: &[(Reference, u64, spectrum::Worst)],
    workers: Workers,
) -> anyhow::Result<Vec<Profile>> {
    let mut all: Vec<(Profile, f64)> = Vec::new();
    let is_shared = request.contract.promises.len() > 1;
    for host in shipped.iter().filter(|host| host.name() != request.host.name()) {
        let parts = hardest.iter().map(|(reference, sectors, worst)| {
            let sectors = (*sectors).min(host.capacity_sectors());
            let there = spectrum::on_reference(reference, &worst.kind, sectors, request.seed, workers)?;
            let hosted = spectrum::OnHost::measure(host, &worst.kind, sectors, request.seed, workers)?;
            Ok(hosted.need(&there, spectrum::Limits::default(), is_shared).part())
        });
        let parts = parts.collect::<anyhow::Result<Vec<f64>>>()?;
        let references = request.contract.promises.iter().filter_map(|promise| promise.reference.as_ref());
        let kinds = references.filter_map(|disk| hardest.iter().position(|(known, ..)| known == disk));
        let sum: f64 = kinds.map(|kind| parts[kind]).sum();
        all.push((host.clone(), sum));
    }
    all.retain(|(_, need)| *need <= 1.0);
    all.sort_by(|one, other| other.1.total_cmp(&one.1));
    Ok(all.into_iter().map(|(host, _)| host).collect())
}
