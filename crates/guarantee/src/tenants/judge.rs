//! Evaluates the guarantees of each tenant: figures, and broken guarantees as sentences.

use block::Nanos;
use report::record::{
    CapacityFigures, ChanceFigures, RecoveryFigures, ReferenceFigures, ShareFigures, Tenancy, TenantCurve, TenantFigures,
    WindowFigures,
};
use sim::host::{Ledger, RunSummary};
use sim::run::{Served, TenantMeasure, Tenants, Timeline};
use testbed::figures::{rate, response_figures};

use super::contract::{Contract, TenantGuarantee};
use super::reference::Alone;
use super::service_comparison::{LEAST, ServiceComparison, Windows};
use super::significance::{Chance, certain_violation, is_less, is_more_often, is_too_often, least_p99_ratio};
use crate::capacity::{Need, Needs};
use crate::reference_disk::SCHEDULER;

mod rates;

pub use rates::{RateFigures, rate_figures};

/// Lengths of the evaluated windows.
pub const WINDOWS: [Nanos; 3] = [Nanos::from_millis(100), Nanos::from_millis(1_000), Nanos::from_millis(10_000)];
/// Minimum throughput relative to the reference disk, except for chance.
pub const THROUGHPUT: f64 = 0.97;
/// Maximum part of the windows of a second that may be in violation.
pub const VIOLATED: f64 = 0.01;
/// Maximum p99 response time relative to the reference disk.
pub const P99: f64 = 1.1;
/// Maximum shortfall of a share, in percentage points.
const SHARE_POINTS: f64 = 1.0;
/// Minimum time over which shares are evaluated.
const SHARE_TIME: Nanos = Nanos::from_millis(1_000);
/// The window in which rates are evaluated.
const SECOND: Nanos = WINDOWS[1];
/// Maximum number of bins of a curve.
const CURVE: u64 = 600;

/// Evaluates a run. `alone` has the tenants' service alone, in the contract's order; `None` for those without a reference disk.
///
/// Returns `None` if the run's queue did not have the contract's roster.
pub fn judge(contract: &Contract, outcome: &RunSummary, alone: &[Option<&Alone>]) -> Option<Tenancy> {
    let measured = outcome.measure.tenants.as_deref()?;
    let has_weights = contract.promises.iter().any(|promise| promise.is_weighted);
    let shares = outcome.ledger.as_ref().filter(|_| has_weights).and_then(|ledger| shares(measured, ledger, Nanos::MAX));
    let capacity = capacity(alone);
    let tenants = contract.promises.iter().zip(measured.on_roster()).enumerate().map(|(number, (promise, here))| {
        let disk_time = outcome.ledger.as_ref().map(|ledger| ledger.work_of(number).0);
        let share = shares.as_ref().map(|shares| ShareFigures {
            promised_percent: 100.0 * f64::from(promise.weight) / total_weight(contract),
            got_percent: shares[number],
        });
        let alone = alone.get(number).copied().flatten();
        let disk_time_s = disk_time.filter(|&time| time > 0 || here.served.requests == 0).map(|time| time as f64 / 1e9);
        let sent = outcome.ledger.as_ref().map_or(&here.timeline, |ledger| &ledger.sent()[number]);
        tenant(promise, here, sent, alone, share, disk_time_s)
    });
    Some(Tenancy {
        contract: contract.source.clone(),
        sha256: contract.sha256.clone(),
        tenants: tenants.collect(),
        others_requests: measured.others().served.requests,
        all_wanted_s: sum(measured.all_active().bins()) as f64 / 1e9,
        idle_while_waiting_s: outcome.ledger.as_ref().map_or(f64::NAN, |ledger| ledger.idle_while_waiting().as_secs_f64()),
        capacity,
    })
}

/// The part of the disk needed to be as good as all the reference disks at once (see [`need`](crate::capacity::need)).
pub fn capacity(alone: &[Option<&Alone>]) -> Option<CapacityFigures> {
    let each: Vec<Option<Need>> = alone.iter().map(|alone| alone.map(|alone| alone.need)).collect();
    let guaranteed: Vec<Need> = each.iter().flatten().copied().collect();
    let needs = Needs::of(&guaranteed);
    (!guaranteed.is_empty()).then(|| CapacityFigures {
        needs_percent: 100.0 * needs.part(),
        parts: needs.figures(),
        needs_of_tenants_percent: each.iter().map(|need| need.map(|need| 100.0 * need.part())).collect(),
    })
}

fn total_weight(contract: &Contract) -> f64 {
    contract.promises.iter().map(|promise| f64::from(promise.weight)).sum()
}

fn sum(bins: &[u64]) -> u64 {
    bins.iter().sum()
}

/// Each tenant's part of the device time in percent, over the bins before `until` in which all of them had requests outstanding. `None`:
/// there was too little such time.
pub fn shares(measured: &Tenants, ledger: &Ledger, until: Nanos) -> Option<Vec<f64>> {
    let tenants = measured.on_roster().len();
    let mut all_active = measured.all_active().clone();
    let mut work: Vec<Timeline<u64>> = ledger.disk_time()[..tenants].to_vec();
    let width = work.iter().map(Timeline::width).fold(all_active.width(), Nanos::max);
    all_active.widen_to(width);
    work.iter_mut().for_each(|work| work.widen_to(width));
    let bins = all_active.bins().len().min((until.0 / width.0) as usize);
    let counted: Vec<usize> = (0..bins).filter(|&bin| all_active.bins()[bin] == width.0).collect();
    if (counted.len() as u64) * width.0 < SHARE_TIME.0 {
        return None;
    }
    let of = |work: &Timeline<u64>| counted.iter().map(|&bin| work.bins().get(bin).copied().unwrap_or(0)).sum::<u64>() as f64;
    let times: Vec<f64> = work.iter().map(of).collect();
    let all: f64 = times.iter().sum();
    (all > 0.0 && tenants > 1).then(|| times.iter().map(|time| 100.0 * time / all).collect())
}

fn tenant(
    promise: &TenantGuarantee,
    here: &TenantMeasure,
    sent: &Timeline<Served>,
    alone: Option<&Alone>,
    share: Option<ShareFigures>,
    disk_time_s: Option<f64>,
) -> TenantFigures {
    let seconds = here.wanted.as_secs_f64();
    let reference = alone.map(|alone| compared(here, &alone.reference, &alone.again));
    let mut broken = Vec::new();
    if here.served.requests > 0 {
        if let (Some(disk), Some(figures)) = (&promise.reference, &reference) {
            broken.extend(worse_than_reference(&disk.to_string(), figures));
        }
        let is_shared = promise.is_weighted && !rates::is_at_limit(&promise.rates, here);
        broken.extend(share.as_ref().filter(|_| is_shared).and_then(too_small_a_share));
        broken.extend(rates::broken(promise, here, sent));
        broken.extend(rates::too_late(promise, here));
    }
    TenantFigures {
        name: promise.name.clone(),
        promised: rates::promised(promise),
        requests: here.served.requests,
        bytes: here.served.bytes,
        wanted_s: seconds,
        throughput_mb_s: rate(here.served.bytes, seconds) / 1e6,
        iops: rate(here.served.requests, seconds),
        response: response_figures(&here.responses),
        disk_time_s,
        share,
        reference,
        broken,
        curve: curve(here, alone.map(|alone| &alone.reference)),
    }
}

/// Compares a tenant's service here with that on its reference disk, whose variation is measured by a second run `again`.
pub fn compared(here: &TenantMeasure, there: &TenantMeasure, again: &TenantMeasure) -> ReferenceFigures {
    let comparison = ServiceComparison::new(here, there);
    let windows = WINDOWS.map(|length| {
        let Windows { windows, violated, worst } = comparison.windows(length);
        WindowFigures { window_s: length.as_secs_f64(), windows, violated, worst_ratio: worst }
    });
    let chance = Chance::new(there, again, SECOND).figures();
    let certain = certain_violation(&chance);
    let violations: Vec<f64> = comparison.ratios(SECOND).into_iter().filter(|ratio| *ratio < certain).collect();
    let recovery = comparison.recovery();
    let p99 = |measure: &TenantMeasure| measure.p99().as_secs_f64();
    ReferenceFigures {
        scheduler: SCHEDULER.to_owned(),
        wanted_s: there.wanted.as_secs_f64(),
        throughput_mb_s: rate(there.served.bytes, there.wanted.as_secs_f64()) / 1e6,
        response: response_figures(&there.responses),
        throughput_ratio: comparison.throughput_ratio(),
        p99_ratio: p99(here) / p99(there),
        p99_ratio_at_least: least_p99_ratio(&here.responses, &there.responses),
        certainly_violated: violations.len() as u64,
        certainly_missing: violations.iter().map(|ratio| certain - ratio).sum(),
        chance,
        lost_s: comparison.lost().as_secs_f64(),
        windows: windows.to_vec(),
        recovery: RecoveryFigures {
            returns: recovery.returns,
            never: recovery.never,
            longest_s: recovery.longest.map(Nanos::as_secs_f64),
        },
    }
}

/// The figures that are worse than on the reference disk by more than chance (see `significance`), as sentences.
pub fn worse_than_reference(disk: &str, figures: &ReferenceFigures) -> Vec<String> {
    let ReferenceFigures { throughput_ratio, p99_ratio, p99_ratio_at_least, chance, .. } = figures;
    let mut broken = Vec::new();
    let second = figures.windows.iter().find(|window| window.window_s == SECOND.as_secs_f64());
    if is_less(*throughput_ratio, THROUGHPUT, chance, second.map_or(0, |window| window.windows)) {
        let (got, least) = (100.0 * throughput_ratio, 100.0 * THROUGHPUT);
        broken.push(format!("it got {got:.1}% of the throughput that it has on {disk}; at least {least:.0}% is guaranteed"));
    }
    if let Some(&WindowFigures { windows, violated, .. }) = second {
        let often = is_too_often(figures.certainly_violated, windows, VIOLATED);
        let much = figures.certainly_missing > VIOLATED * windows as f64;
        let more = violated as f64 > VIOLATED * windows as f64 && is_more_often(violated, windows, chance);
        if often || much || more {
            let (least, by_chance) = (100.0 * LEAST, by_chance(chance));
            broken.push(format!(
                "in {violated} of {windows} windows of 1 s it got less than {least:.0}% of what {disk} does{by_chance}"
            ));
        }
    }
    if *p99_ratio > P99 * chance.p99_ratio && *p99_ratio_at_least > P99 {
        broken.push(format!("its p99 response time is {p99_ratio:.2} times that on {disk}; at most {P99} times is guaranteed"));
    }
    broken
}

fn by_chance(chance: &ChanceFigures) -> String {
    if chance.violated == 0 { String::new() } else { format!(" ({} of {} by chance)", chance.violated, chance.windows) }
}

fn too_small_a_share(share: &ShareFigures) -> Option<String> {
    let ShareFigures { promised_percent, got_percent } = share;
    (promised_percent - got_percent > SHARE_POINTS)
        .then(|| format!("it got {got_percent:.1}% of the disk's time; its share is {promised_percent:.1}%"))
}

/// Throughput by wall-clock time, in bins of a second or more.
fn curve(here: &TenantMeasure, there: Option<&TenantMeasure>) -> TenantCurve {
    let lines = [Some(here), there].into_iter().flatten().map(|measure| &measure.timeline);
    let mut width = lines.map(Timeline::width).fold(SECOND, Nanos::max);
    let longest = here.timeline.bins().len() as u64 * here.timeline.width().0;
    while longest / width.0 > CURVE {
        width = width + width;
    }
    let mb_s = |measure: &TenantMeasure| {
        let mut line = measure.timeline.clone();
        line.widen_to(width);
        line.bins().iter().map(|bin| bin.bytes as f64 / 1e6 / width.as_secs_f64()).collect()
    };
    TenantCurve { bin_s: width.as_secs_f64(), throughput_mb_s: mb_s(here), reference_mb_s: there.map(mb_s).unwrap_or_default() }
}
