//! Reservations and limits: in requests as they count by size, and in bytes; of reads, of writes and of both.

use block::{Nanos, Rate, Rates};
use report::record::GuaranteeFigures;
use sim::run::{Served, TenantMeasure, Timeline};

use super::{SECOND, VIOLATED};
use crate::tenants::contract::TenantGuarantee;
use crate::tenants::service_comparison::LEAST;

/// A limit is kept if a second has at most this many times as much, beside the burst and one request.
const LIMIT: f64 = 1.05;

/// An amount per second, and what a tenant got of it.
struct Bound {
    /// What it bounds: "requests", "MB of reads".
    what: &'static str,
    per_second: f64,
    /// The unit of figures in sentences: 1 for requests, 10^6 for bytes.
    scale: f64,
    /// Amount per mean request, and how much of it is saved up at most.
    request: f64,
    burst: f64,
    count: fn(&Served) -> u64,
}

/// The bounds of a rate; `what` and `count` are for requests and for bytes.
fn bounds(rates: &Rates, rate: &Rate, here: &TenantMeasure, what: [&'static str; 2], count: [fn(&Served) -> u64; 2]) -> Vec<Bound> {
    let [requests, bytes] = count;
    let per_request = |count: fn(&Served) -> u64| count(&here.served) as f64 / here.served.requests.max(1) as f64;
    let unit = [1.0, rates.unit_bytes.get() as f64];
    let given = [(rate.iops, 1.0, requests), (rate.bytes_per_s, 1e6, bytes)];
    let all = given.into_iter().zip(what).zip(unit).filter_map(|(((rate, scale, count), what), unit)| {
        let per_second = u64::from(rate?) as f64;
        let burst = rates.burst.map_or(unit, |burst| per_second * burst.as_secs_f64());
        Some(Bound { what, per_second, scale, request: per_request(count).max(unit), burst, count })
    });
    all.collect()
}

/// All limits.
fn limits(rates: &Rates, here: &TenantMeasure) -> Vec<Bound> {
    let all = bounds(rates, &rates.limit, here, ["requests", "MB"], [|served| served.units, |served| served.bytes]);
    let reads = bounds(
        rates,
        &rates.read_limit,
        here,
        ["reads", "MB of reads"],
        [|served| served.units - served.written_units, |served| served.bytes - served.written_bytes],
    );
    let writes = bounds(
        rates,
        &rates.write_limit,
        here,
        ["writes", "MB of writes"],
        [|served| served.written_units, |served| served.written_bytes],
    );
    all.into_iter().chain(reads).chain(writes).collect()
}

/// Whether a tenant used one of its limits up, so that it could have had no larger share.
pub(super) fn is_at_limit(rates: &Rates, here: &TenantMeasure) -> bool {
    let seconds = here.wanted.as_secs_f64();
    limits(rates, here).iter().any(|bound| (bound.count)(&here.served) as f64 >= LEAST * bound.per_second * seconds)
}

/// The part of what a tenant does on its reference disk that its limits allow.
pub(super) fn part_allowed(rates: &Rates, there: &TenantMeasure) -> f64 {
    let seconds = there.wanted.as_secs_f64();
    let parts = limits(rates, there).into_iter().map(|bound| bound.per_second * seconds / (bound.count)(&there.served) as f64);
    parts.fold(1.0, f64::min)
}

/// Which rates were broken: sentences.
pub(super) fn broken(promise: &TenantGuarantee, here: &TenantMeasure) -> Vec<String> {
    let rates = &promise.rates;
    let (mut served, mut wanting) = (here.timeline.clone(), here.wanting.clone());
    let width = served.width().max(wanting.width()).max(SECOND);
    served.widen_to(width);
    wanting.widen_to(width);
    let reserved = bounds(rates, &rates.reservation, here, ["requests", "MB"], [|served| served.units, |served| served.bytes]);
    let too_slow = reserved.iter().filter_map(|bound| too_slow(bound, &served, &wanting));
    too_slow.chain(limits(rates, here).iter().filter_map(|bound| too_fast(bound, &served))).collect()
}

/// Of a reservation, in the seconds in which the tenant had something outstanding all the time.
fn too_slow(bound: &Bound, served: &Timeline<Served>, wanting: &Timeline<u64>) -> Option<String> {
    let width = served.width();
    let asked: Vec<usize> = (0..wanting.bins().len()).filter(|&bin| wanting.bins()[bin] == width.0).collect();
    // A request that is done a moment later counts in the next second.
    let least = LEAST * bound.per_second * width.as_secs_f64() - bound.request;
    let got = |bin: usize| served.bins().get(bin).map_or(0, |served| (bound.count)(served)) as f64;
    let missed = asked.iter().filter(|&&bin| got(bin) < least).count();
    (missed as f64 > VIOLATED * asked.len() as f64).then(|| {
        let Bound { what, per_second, scale, .. } = bound;
        let (seconds, percent) = (asked.len(), 100.0 * LEAST);
        format!("in {missed} of {seconds} {} it got less than {percent:.0}% of {} {what}", windows(width), per_second / scale)
    })
}

/// Of a limit.
fn too_fast(bound: &Bound, served: &Timeline<Served>) -> Option<String> {
    let width = served.width();
    let most = LIMIT * bound.per_second * width.as_secs_f64() + bound.burst + bound.request;
    let over = served.bins().iter().filter(|bin| (bound.count)(bin) as f64 > most).count();
    (over as f64 > VIOLATED * served.bins().len() as f64).then(|| {
        let Bound { what, per_second, scale, .. } = bound;
        format!("in {over} {} it got more than its limit of {} {what} a second", windows(width), per_second / scale)
    })
}

fn windows(width: Nanos) -> String {
    if width == SECOND { "seconds".to_owned() } else { format!("windows of {} s", width.as_secs_f64()) }
}

/// Whether the 99th percentile of response times is above its bound, as a sentence.
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
