//! Whether a guarantee was met in each second, and the neighbours' throughput.

use block::Nanos;
use protect::simulated::{CgroupPilot, CgroupRecord, ResponseKind, Second};

use super::draw::{Drawn, Promised};

/// Nanoseconds per second.
const SECOND: u64 = 1_000_000_000;
/// Minimum requests in a second for one of them to be allowed to be late.
const FEW: u64 = 20;
/// The share of seconds in which a guarantee must be met.
pub const KEPT: f64 = 0.95;
/// The fraction of the reference disk's performance that counts as equal: locations differ randomly between seconds.
const AS_ON_IT: f64 = 0.95;
/// Limit changes by more than this factor count.
const CHANGED: f64 = 1.2;
/// Seconds after a load change before it counts as steady, for the number of limit changes.
const SETTLED_S: u64 = 5;

/// A guarantee with its figure.
#[derive(Clone, Copy, Debug)]
pub enum Promise {
    /// At most 1% of requests of this kind take longer.
    P99(ResponseKind, Nanos),
    /// Requests per second, over the time in which some are outstanding.
    Iops(f64),
    /// Share of that time in which the device works for it.
    Share(f64),
    /// Requests per second over that time, as on the reference disk.
    Reference(f64),
}

/// Requests per second over the time in which some are outstanding, and the share of it in which the device works for them. `None` without
/// requests.
pub fn rates(record: &CgroupRecord) -> Option<(f64, f64)> {
    let sum = record
        .seconds
        .iter()
        .fold((0, Nanos::ZERO, Nanos::ZERO), |sum, second| (sum.0 + second.requests, sum.1 + second.device, sum.2 + second.wanted));
    let (requests, device, wanted) = (sum.0, sum.1.as_secs_f64(), sum.2.as_secs_f64());
    (requests > 0).then(|| (requests as f64 / wanted, device / wanted))
}

/// The guarantee derived from a tenant's p99 and rates when it runs alone; `None` for a reference disk.
pub fn promise(promised: Promised, alone: &CgroupRecord, times: f64, part: f64) -> Option<Promise> {
    let kind = match promised {
        Promised::ReadP99 => ResponseKind::Read,
        Promised::FlushP99 => ResponseKind::Flush,
        Promised::Iops => return rates(alone).map(|(iops, _)| Promise::Iops(part * iops)),
        Promised::Share(of) => return rates(alone).map(|(_, share)| Promise::Share(of * share)),
        Promised::Reference => return None,
    };
    let mut times_of: Vec<Nanos> =
        alone.responses.iter().filter(|response| response.kind == kind).map(|response| response.at - response.arrival).collect();
    times_of.sort_unstable();
    let place = (times_of.len() * 99).div_ceil(100).checked_sub(1)?;
    Some(Promise::P99(kind, Nanos((times_of[place].0 as f64 * times) as u64)))
}

/// By second, whether the guarantee was met; `None` if the victim had no requests.
pub fn seconds(promise: Promise, record: &CgroupRecord, length: u64) -> Vec<Option<bool>> {
    // For seconds in which the tenant was active, whether it got enough of a resource.
    let by_second = |is_enough: &dyn Fn(&Second, f64) -> bool| {
        let kept = |number: usize| {
            let second = record.seconds.get(number).copied().unwrap_or_default();
            let wanted = second.wanted.as_secs_f64();
            (wanted > 0.0).then(|| is_enough(&second, wanted))
        };
        (0..length as usize).map(kept).collect()
    };
    match promise {
        Promise::Iops(least) => by_second(&|second, wanted| second.requests as f64 >= least * wanted - 1.0),
        Promise::Reference(least) => by_second(&|second, wanted| second.requests as f64 >= AS_ON_IT * least * wanted - 1.0),
        Promise::Share(share) => by_second(&|second, wanted| {
            let device = second.device.as_secs_f64();
            // A shortfall of less than a request is tolerated.
            device + device / second.requests.max(1) as f64 >= share * wanted
        }),
        Promise::P99(kind, limit) => {
            let mut counts = vec![(0_u64, 0_u64); length as usize];
            for response in record.responses.iter().filter(|response| response.kind == kind) {
                let done = response.at.0 / SECOND;
                let late_from = (response.arrival + limit).0 / SECOND;
                if response.at - response.arrival <= limit {
                    if let Some(count) = counts.get_mut(done as usize) {
                        count.0 += 1;
                    }
                    continue;
                }
                // It counts as late in every second from when it became late until its completion.
                for second in late_from..=done {
                    if let Some(count) = counts.get_mut(second as usize) {
                        (count.0, count.1) = (count.0 + 1, count.1 + 1);
                    }
                }
            }
            let kept = |(requests, late): (u64, u64)| {
                let allowed = if requests < FEW { 0 } else { (requests / 100).max(1) };
                (requests > 0).then_some(late <= allowed)
            };
            counts.into_iter().map(kept).collect()
        }
    }
}

/// Results of a run.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// Share of the victim's active seconds in which its guarantee was met, from the second after each arrival.
    pub kept: f64,
    /// Bytes transferred by the neighbours in those seconds.
    pub bytes: u64,
    /// Bytes transferred by the neighbours while the victim paused, from the second second of the pause.
    pub bytes_in_pause: u64,
    /// The largest number of changes of a neighbour's limit by over 20% in 5 s of steady load.
    pub changes: u32,
    /// Seconds from the first arrival until the guarantee was met in three consecutive seconds; `None`: never.
    pub until_kept: Option<u64>,
}

impl Outcome {
    /// Whether the guarantee was met.
    pub fn is_kept(&self) -> bool {
        self.kept >= KEPT
    }
}

/// Judges a run.
pub fn judge(drawn: &Drawn, promise: Promise, pilot: &CgroupPilot) -> Outcome {
    let all = seconds(promise, &pilot.records[0], drawn.seconds);
    let counts = |second: &u64| {
        drawn.has_neighbours(*second) && !drawn.is_arrival(*second) && !(drawn.pause.0..=drawn.pause.1).contains(second)
    };
    let counted: Vec<u64> = (0..drawn.seconds).filter(counts).collect();
    let judged: Vec<bool> = counted.iter().filter_map(|&second| all[second as usize]).collect();
    let kept = judged.iter().filter(|kept| **kept).count() as f64 / judged.len().max(1) as f64;
    let bytes = |second: u64| -> u64 {
        pilot.records[1..].iter().filter_map(|record| record.seconds.get(second as usize)).map(|second| second.bytes).sum()
    };
    let arrival = drawn.arrival();
    let is_kept = |second: u64| all.get(second as usize).copied().flatten() == Some(true);
    let until_kept =
        (arrival..drawn.seconds.saturating_sub(2)).find(|&from| (from..from + 3).all(is_kept)).map(|from| from - arrival);
    Outcome {
        kept,
        bytes: counted.iter().map(|&second| bytes(second)).sum(),
        bytes_in_pause: (0..drawn.seconds).filter(|&second| drawn.is_pause(second)).map(bytes).sum(),
        changes: (1..pilot.records.len()).map(|unit| changes(drawn, pilot, unit)).max().unwrap_or(0),
        until_kept,
    }
}

/// The largest number of changes of a unit's limit by over 20% in 5 s of steady load.
fn changes(drawn: &Drawn, pilot: &CgroupPilot, unit: usize) -> u32 {
    let figures = |limit: &protect::Limit| {
        [limit.read_bytes_per_s, limit.write_bytes_per_s, limit.read_iops, limit.write_iops]
            .map(|figure| figure.map_or(f64::INFINITY, |figure| figure as f64))
    };
    let mut reference = [f64::INFINITY; 4];
    let mut times: Vec<Nanos> = Vec::new();
    for (at, change) in pilot.changes.iter().filter(|(_, change)| change.unit == unit) {
        let now = figures(&change.limit);
        let differs = reference.iter().zip(&now).any(|(one, other)| one != other && (one / other).max(other / one) > CHANGED);
        if differs {
            reference = now;
            if !drawn.has_changed(at.0 / SECOND, SETTLED_S) {
                times.push(*at);
            }
        }
    }
    let in_span = |from: &Nanos| times.iter().filter(|at| *at >= from && **at < *from + Nanos(5 * SECOND)).count() as u32;
    times.iter().map(in_span).max().unwrap_or(0)
}
