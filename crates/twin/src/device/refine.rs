//! Refines an estimate by replays: changes one parameter at a time, as long as a change reduces the replay error.
//!
//! The error is per class, as in the calibration of profiles: the sorted response times of model and device are compared among similar
//! accesses. So errors for reads cannot compensate those for writes, and chance (the position of the platter) matters less.

use std::collections::BTreeMap;

use sim::device::Device;

use super::access::Access;
use super::replay::{self, Responses};

/// Maximum number of accesses to replay, the latest ones: more cost much and add little. Choice: 0.1 s of processor time (`REPLAYED_NS`);
/// parts from earlier in place of the latest were tried, and did not reproduce the cache (commit 98d2780b).
pub const MOST: usize = 1_200;
/// Minimum number of accesses for [`distance_before`]. Choice: the mean of 100 response times that vary by their mean has an error of 10%;
/// not varied.
const MIN_BEFORE: usize = 100;
/// Minimum relative gain of a change: less is noise. Choice: fewer steps against a closer fit; not varied.
const ENOUGH: f64 = 0.01;
/// Step sizes, relative to the changed parameter. Choice: factors of three; without 1.0 replays could not correct a time by more than a
/// third (commit 66e4a0eb).
const STEPS: [f64; 3] = [1.0, 0.3, 0.1];
/// Maximum number of times that a successful step is repeated. Choice: bounds the replays of a fit; not varied.
const AGAIN: usize = 3;

/// The value times `1 + step`; for a negative step, the value divided by `1 - step`.
pub fn scaled(value: f64, step: f64) -> f64 {
    if step > 0.0 { value * (1.0 + step) } else { value / (1.0 - step) }
}

/// A change of an estimate by a signed step; `None` if the result is impossible.
pub type Move<E> = fn(&E, f64) -> Option<E>;

/// The estimate refined to the lowest replay error on these accesses, and that error. `build` builds its device with this queue depth;
/// `None` if that is impossible.
pub fn refine<E: Clone>(
    mut estimate: E,
    moves: &[Move<E>],
    accesses: &[Access],
    build: impl Fn(&E, u32) -> Option<Box<dyn Device>>,
) -> (E, f64) {
    let judge = |estimate: &E| distance_of(accesses, |at_once| build(estimate, at_once));
    let Some(mut least) = judge(&estimate) else { return (estimate, f64::INFINITY) };
    for step in STEPS {
        for go in moves {
            for signed in [step, -step] {
                let before = least;
                for _ in 0..AGAIN {
                    let Some(moved) = go(&estimate, signed) else { break };
                    match judge(&moved) {
                        Some(distance) if distance < least * (1.0 - ENOUGH) => (estimate, least) = (moved, distance),
                        _ => break,
                    }
                }
                if least < before {
                    break;
                }
            }
        }
    }
    (estimate, least)
}

/// Replay error on the latest [`MOST`] accesses; `None` if the device cannot be built.
pub fn distance_of(accesses: &[Access], build: impl Fn(u32) -> Option<Box<dyn Device>>) -> Option<f64> {
    distance_of_all(&accesses[accesses.len().saturating_sub(MOST)..], build)
}

/// Replay error on the first accesses, up to half of [`MOST`] and none of the latest [`MOST`]; `None` if there are too few.
pub fn distance_before(accesses: &[Access], build: impl Fn(u32) -> Option<Box<dyn Device>>) -> Option<f64> {
    let before = accesses.len().saturating_sub(MOST).min(MOST / 2);
    if before < MIN_BEFORE { None } else { distance_of_all(&accesses[..before], build) }
}

fn distance_of_all(accesses: &[Access], build: impl Fn(u32) -> Option<Box<dyn Device>>) -> Option<f64> {
    let classes: Vec<u8> = accesses.iter().map(class).collect();
    let most = accesses.iter().map(|access| access.others + 1).max().unwrap_or(1);
    Some(distance(accesses, &classes, &replay::responses(&mut *build(most)?, accesses)))
}

/// The class of flushes.
const FLUSH: u8 = u8::MAX;

/// The class of an access: operation, operation before it, locality, and number of others in flight.
fn class(access: &Access) -> u8 {
    let way = match (access.follows, access.may_hit) {
        (Some(1), _) => 0,
        (Some(_), _) => 1,
        (None, true) => 2,
        (None, false) => 3,
    };
    let full = access.others.min(7).checked_ilog2().map_or(0, |log| log as u8 + 1);
    let after_write = u8::from(access.before.is_some_and(|(.., wrote)| wrote));
    u8::from(access.write) + 2 * (after_write + 2 * (way + 4 * full))
}

/// Sum of the differences of sorted response times within classes, relative to the sum of the device's response times.
fn distance(accesses: &[Access], classes: &[u8], responses: &Responses) -> f64 {
    let mut of_class: BTreeMap<u8, (Vec<f64>, Vec<f64>)> = BTreeMap::new();
    let mut add = |class: u8, seen: f64, replayed: f64| {
        let (device, model) = of_class.entry(class).or_default();
        device.push(seen);
        model.push(if replayed.is_finite() { replayed } else { 0.0 });
    };
    for ((access, class), (response, flush)) in accesses.iter().zip(classes).zip(responses.accesses.iter().zip(&responses.flushes))
    {
        add(*class, access.response_ms(), *response);
        if let Some(seen) = access.flush {
            add(FLUSH, seen.response_ms(), *flush);
        }
    }
    let (mut off, mut all) = (0.0, 0.0);
    for (device, model) in of_class.values_mut() {
        device.sort_by(f64::total_cmp);
        model.sort_by(f64::total_cmp);
        off += device.iter().zip(model.iter()).map(|(device, model)| (device - model).abs()).sum::<f64>();
        all += device.iter().sum::<f64>();
    }
    off / all.max(1e-9)
}
