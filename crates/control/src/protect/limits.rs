//! Limits of units: from device time, and on the way to none.

use block::Nanos;

use super::meter::{Flow, Meter};
use super::{Limit, Unit};

/// Write-back may go on as fast as it is done, so that this many seconds of it are queued; a larger or smaller queue is corrected within as
/// many seconds as the second says.
const QUEUED: (f64, f64) = (0.5, 0.5);
/// Bytes and writes that may be queued whatever the pace, so that it can begin: a large write, or some small ones.
const LEAST_QUEUED: (f64, f64) = (1e6, 4.0);
/// Corrections by a smaller factor are no use.
const CORRECTED: f64 = 1.5;
/// A unit that used write-back within this time may have some piled up in front of its limit: the flusher writes what has expired every
/// five seconds.
const PILED: Nanos = Nanos::from_millis(10_000);

/// Whether limits differ by more than can be ignored.
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

/// The bytes per second that a unit may move, by its mean requests, and twice the time between two requests at that rate; `None` without a
/// limit.
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

/// The limit with which a unit takes at most `cap` seconds of device time per second: of each direction that it uses, in bytes, or in
/// requests where these are small and scattered.
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

/// Whether a unit is limited to its floor by this device time.
pub(super) fn is_at_floor(unit: &Unit, meter: &Meter, cap: f64) -> bool {
    let speed = meter.speed.map_or(0.0, |speed| (speed.flows[0].bytes + speed.flows[1].bytes) / speed.seconds.max(1e-9));
    cap * speed <= unit.floor_bytes_per_s as f64
}

/// The limit of a unit on the way to none, if none is wanted.
///
/// While writes are limited, write-back piles up in front of the limit. If all of it were let go it would be queued at once, out of
/// reach of the limits that are wanted when the promised unit comes back. So it goes at the pace of the device, until it is gone.
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
