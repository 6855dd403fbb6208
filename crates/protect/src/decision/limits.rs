//! Translates device time to limits, and lifts limits gradually.

use block::Nanos;

use super::meter::{Flow, Meter};
use super::{Limit, Unit};

/// Write-back may continue at its measured rate with a queue of the first number of seconds; deviations of the queue are corrected within
/// the second number of seconds. Choice: a longer queue delays the unit when it returns, a shorter one leaves the device idle between
/// steps; not varied.
const QUEUED: (f64, f64) = (0.5, 0.5);
/// Bytes and writes that may be queued at any rate, so that write-back can start: a large write, or a few small ones. Choice: more delays
/// the unit when it returns; 1 MB takes a disk 10 ms; not varied.
const LEAST_QUEUED: (f64, f64) = (1e6, 4.0);
/// Minimum factor of a correction. Choice: a smaller factor writes limits at every step; not varied.
const CORRECTED: f64 = 1.5;
/// A unit that used write-back within this time may have dirty data behind its limit, as the flusher writes expired data every five
/// seconds. Derived: two periods of the flusher, `dirty_writeback_interval` in `mm/page-writeback.c`.
const PILED: Nanos = Nanos::from_millis(10_000);

/// Whether limits differ by more than 3%.
pub(super) fn differs(one: &Limit, other: &Limit) -> bool {
    let pairs = [
        (one.read_bytes_per_s, other.read_bytes_per_s),
        (one.write_bytes_per_s, other.write_bytes_per_s),
        (one.read_iops, other.read_iops),
        (one.write_iops, other.write_iops),
    ];
    pairs.into_iter().any(|pair| match pair {
        (Some(one), Some(other)) => one.abs_diff(other) as f64 > 0.03 * one as f64,
        (one, other) => one != other,
    })
}

/// Throughput in bytes per second that a limit allows, given the unit's mean request size, and twice the interval between requests at that
/// rate; `None` without a limit.
pub(super) fn allowed(meter: &Meter, limit: &Limit) -> Option<(f64, Nanos)> {
    let speed = meter.speed.as_ref()?;
    let of = |flow: &Flow, bytes: Option<u64>, requests: Option<u64>| {
        let rate = bytes.map(|bytes| bytes as f64).or(requests.map(|requests| requests as f64 * flow.mean_bytes()))?;
        Some((rate, 2.0 * flow.mean_bytes() / rate.max(1.0)))
    };
    let reads = of(&speed.flows[0], limit.read_bytes_per_s, limit.read_iops);
    let writes = of(&speed.flows[1], limit.write_bytes_per_s, limit.write_iops);
    let both = [reads, writes].into_iter().flatten();
    both.reduce(|one, other| (one.0 + other.0, one.1.max(other.1))).map(|(rate, time)| (rate, Nanos::from_secs_f64(time)))
}

/// The limit under which a unit uses at most `cap` seconds of device time per second: for each direction that it uses, in bytes, or in
/// requests if these are small and random.
pub(super) fn translate(unit: &Unit, meter: &Meter, cap: f64) -> Limit {
    let mut limit = Limit::default();
    let Some(speed) = &meter.speed else { return limit };
    let all: f64 = speed.flows.iter().map(|flow| flow.bytes).sum();
    for (direction, flow) in speed.flows.iter().enumerate() {
        if flow.requests < 0.02 * (speed.flows[0].requests + speed.flows[1].requests) {
            continue;
        }
        let floor = unit.floor_bytes_per_s as f64 * flow.bytes / all.max(1.0);
        let bytes = (cap * flow.bytes / speed.seconds.max(1e-9)).max(floor).max(512.0);
        let (rate, per_second) = match (direction, flow.is_by_requests()) {
            (0, false) => (bytes, &mut limit.read_bytes_per_s),
            (_, false) => (bytes, &mut limit.write_bytes_per_s),
            (0, true) => (bytes / flow.mean_bytes(), &mut limit.read_iops),
            (_, true) => (bytes / flow.mean_bytes(), &mut limit.write_iops),
        };
        *per_second = Some((rate.round() as u64).max(1));
    }
    limit
}

/// Whether this device time limits a unit to its floor.
pub(super) fn is_at_floor(unit: &Unit, meter: &Meter, cap: f64) -> bool {
    let speed = meter.speed.map_or(0.0, |speed| (speed.flows[0].bytes + speed.flows[1].bytes) / speed.seconds.max(1e-9));
    cap * speed <= unit.floor_bytes_per_s as f64
}

/// The limit of a unit while it is being lifted; `wanted` if that has a limit or there was no recent write-back.
///
/// While writes are limited, dirty data accumulates. If the limit were removed at once, all of it would be queued, out of reach of the
/// limits that apply when the guaranteed unit returns. So write-back continues at the device's rate until the dirty data is written.
pub(super) fn lifted(meter: &Meter, now: Nanos, before: &Limit, wanted: Limit) -> Limit {
    if !meter.has_write_back(now, PILED) {
        return wanted;
    }
    let next = |before: Option<u64>, wanted: Option<u64>, (pace, queued): (f64, f64), least: f64| {
        if wanted.is_some() {
            return wanted;
        }
        let before = before? as f64;
        let limit = (pace + (pace * QUEUED.0 + least - queued) / QUEUED.1).max(least);
        let is_other = limit > CORRECTED * before || before > CORRECTED * limit;
        Some(if is_other { limit } else { before } as u64)
    };
    let [bytes, writes] = meter.write_back();
    Limit {
        write_bytes_per_s: next(before.write_bytes_per_s, wanted.write_bytes_per_s, bytes, LEAST_QUEUED.0),
        write_iops: next(before.write_iops, wanted.write_iops, writes, LEAST_QUEUED.1),
        ..wanted
    }
}
