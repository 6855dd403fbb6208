//! Evaluates reservations and limits: in requests counted by size, and in bytes; for reads, writes and both.

use block::{Nanos, Rate, Rates};
use report::record::GuaranteeFigures;
use sim::run::{Served, TenantMeasure, Timeline};

use super::{SECOND, VIOLATED};
use crate::tenants::contract::TenantGuarantee;
use crate::tenants::service_comparison::LEAST;

/// A limit is kept if a second has at most this multiple of it, after the burst and one request are subtracted.
const LIMIT: f64 = 1.05;

/// A rate that bounds a tenant's service from below or above.
struct Bound {
    /// The bounded quantity: "requests", "MB of reads".
    what: &'static str,
    per_second: f64,
    /// Divisor for figures in sentences: 1 for requests, 10^6 for bytes.
    scale: f64,
    /// Amount of the largest request, and the largest burst.
    request: f64,
    burst: f64,
    count: fn(&Served) -> u64,
}

/// The bounds of a rate. `what` and `count` are for requests and for bytes; `all` is the total of the tenant's requests.
fn bounds(rates: &Rates, rate: &Rate, all: &Served, what: [&'static str; 2], count: [fn(&Served) -> u64; 2]) -> Vec<Bound> {
    let unit = rates.unit_bytes.get() as f64;
    let largest = [rates.units(all.largest) as f64, (all.largest as f64).max(unit)];
    let given = [(rate.iops, 1.0, 1.0), (rate.bytes_per_s, 1e6, unit)];
    let bounds =
        given.into_iter().zip(what).zip(count).zip(largest).filter_map(|((((rate, scale, unit), what), count), request)| {
            let per_second = u64::from(rate?) as f64;
            let burst = rates.burst.map_or(unit, |burst| per_second * burst.as_secs_f64());
            Some(Bound { what, per_second, scale, request, burst, count })
        });
    bounds.collect()
}

/// All limits; `total` is the total of the tenant's requests.
fn limits(rates: &Rates, total: &Served) -> Vec<Bound> {
    let all = bounds(rates, &rates.limit, total, ["requests", "MB"], [|served| served.units, |served| served.bytes]);
    let reads = bounds(
        rates,
        &rates.read_limit,
        total,
        ["reads", "MB of reads"],
        [|served| served.units - served.written_units, |served| served.bytes - served.written_bytes],
    );
    let writes = bounds(
        rates,
        &rates.write_limit,
        total,
        ["writes", "MB of writes"],
        [|served| served.written_units, |served| served.written_bytes],
    );
    all.into_iter().chain(reads).chain(writes).collect()
}

/// Whether a tenant used up one of its limits, so that a larger share of the device would not have helped.
pub(super) fn is_at_limit(rates: &Rates, here: &TenantMeasure) -> bool {
    let seconds = here.wanted.as_secs_f64();
    limits(rates, &here.served).iter().any(|bound| (bound.count)(&here.served) as f64 >= LEAST * bound.per_second * seconds)
}

/// Compliance with one reservation or limit.
#[derive(Clone, Debug)]
pub struct RateFigures {
    /// The bounded quantity: "requests", "MB of reads".
    pub what: &'static str,
    /// The amount per second.
    pub per_second: f64,
    /// Whether it is a limit; otherwise a reservation.
    pub is_limit: bool,
    /// Length of the windows: a second, unless the run is so long that its timeline is coarser.
    pub window: Nanos,
    /// Number of windows that count: for a reservation those in which the tenant always had a request outstanding.
    pub windows: usize,
    /// Number of windows in which it was not kept.
    pub missed: usize,
    /// The worst window's amount relative to the rate, after the allowance for bursts and single requests.
    pub worst: f64,
}

/// Compliance with the reservations and limits of a tenant: reservations by completions, limits by what was `sent` to the
/// device.
pub fn rate_figures(rates: &Rates, here: &TenantMeasure, sent: &Timeline<Served>) -> Vec<RateFigures> {
    let (mut served, mut wanting, mut sent) = (here.timeline.clone(), here.wanting.clone(), sent.clone());
    let width = [served.width(), wanting.width(), sent.width()].into_iter().fold(SECOND, Nanos::max);
    served.widen_to(width);
    wanting.widen_to(width);
    sent.widen_to(width);
    let reserved =
        bounds(rates, &rates.reservation, &here.served, ["requests", "MB"], [|served| served.units, |served| served.bytes]);
    let all_sent = sent.bins().iter().fold(Served::default(), |mut sum, bin| {
        sum += *bin;
        sum
    });
    let reservations = reserved.iter().map(|bound| reservation_figures(bound, &served, &wanting));
    reservations.chain(limits(rates, &all_sent).iter().map(|bound| limit_figures(bound, &sent))).collect()
}

/// Broken rates, as sentences.
pub(super) fn broken(promise: &TenantGuarantee, here: &TenantMeasure, sent: &Timeline<Served>) -> Vec<String> {
    let all = rate_figures(&promise.rates, here, sent).into_iter();
    all.filter(|figures| figures.missed as f64 > VIOLATED * figures.windows as f64).map(|figures| sentence(&figures)).collect()
}

/// Compliance with a reservation.
fn reservation_figures(bound: &Bound, served: &Timeline<Served>, wanting: &Timeline<u64>) -> RateFigures {
    let width = served.width();
    let per_window = bound.per_second * width.as_secs_f64();
    let asked: Vec<usize> = (0..wanting.bins().len()).filter(|&bin| wanting.bins()[bin] == width.0).collect();
    // The request in progress at the end of a window counts in the next one.
    let got = |bin: usize| served.bins().get(bin).map_or(0, |served| (bound.count)(served)) as f64 + bound.request;
    let missed = asked.iter().filter(|&&bin| got(bin) < LEAST * per_window).count();
    let worst = asked.iter().map(|&bin| got(bin) / per_window).fold(f64::INFINITY, f64::min);
    let Bound { what, per_second, .. } = *bound;
    RateFigures { what, per_second: per_second / bound.scale, is_limit: false, window: width, windows: asked.len(), missed, worst }
}

/// Compliance with a limit.
fn limit_figures(bound: &Bound, sent: &Timeline<Served>) -> RateFigures {
    let width = sent.width();
    let per_window = bound.per_second * width.as_secs_f64();
    let parts = sent.bins().iter().map(|bin| ((bound.count)(bin) as f64 - bound.burst - bound.request) / per_window);
    let missed = parts.clone().filter(|part| *part > LIMIT).count();
    let worst = parts.fold(0.0, f64::max);
    let Bound { what, per_second, .. } = *bound;
    RateFigures {
        what,
        per_second: per_second / bound.scale,
        is_limit: true,
        window: width,
        windows: sent.bins().len(),
        missed,
        worst,
    }
}

fn sentence(figures: &RateFigures) -> String {
    let RateFigures { what, per_second, missed, windows: of, .. } = figures;
    let windows = windows(figures.window);
    match figures.is_limit {
        true => format!("in {missed} {windows} it got more than its limit of {per_second} {what} a second"),
        false => format!("in {missed} of {of} {windows} it got less than {:.0}% of {per_second} {what}", 100.0 * LEAST),
    }
}

fn windows(width: Nanos) -> String {
    if width == SECOND { "seconds".to_owned() } else { format!("windows of {} s", width.as_secs_f64()) }
}

/// A sentence if the 99th percentile of response times is above its bound, else `None`.
pub(super) fn too_late(promise: &TenantGuarantee, here: &TenantMeasure) -> Option<String> {
    let (bound, p99) = (promise.latency_p99?, here.p99());
    let (bound_ms, p99_ms) = (bound.as_millis_f64(), p99.as_millis_f64());
    (p99 > bound).then(|| format!("its p99 response time is {p99_ms:.3} ms; at most {bound_ms} ms is guaranteed"))
}

/// The guarantee for the record.
pub(super) fn promised(promise: &TenantGuarantee) -> GuaranteeFigures {
    let Rates { reservation, limit, read_limit, write_limit, burst, unit_bytes } = promise.rates;
    let iops = |rate: Rate| rate.iops.map(u64::from);
    let mb_s = |rate: Rate| rate.bytes_per_s.map(|bytes| u64::from(bytes) as f64 / 1e6);
    GuaranteeFigures {
        weight: promise.weight,
        is_weighted: promise.is_weighted,
        reference: promise.reference.as_ref().map(ToString::to_string),
        best_effort: promise.best_effort,
        reservation_iops: iops(reservation),
        reservation_mb_s: mb_s(reservation),
        limit_iops: iops(limit),
        limit_mb_s: mb_s(limit),
        limit_read_iops: iops(read_limit),
        limit_write_iops: iops(write_limit),
        limit_read_mb_s: mb_s(read_limit),
        limit_write_mb_s: mb_s(write_limit),
        limit_burst_s: burst.map(Nanos::as_secs_f64),
        io_unit_kib: u64::from(unit_bytes) >> 10,
        latency_p99_ms: promise.latency_p99.map(Nanos::as_millis_f64),
    }
}
