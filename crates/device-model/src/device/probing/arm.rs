//! Finds the seek curve and the completion of writes.
//!
//! A sector is read when it first passes after the head has arrived. So the time of a read at a distance shows that the head
//! needs no longer than that, and longer than a revolution less. Reads at all angles leave a narrow range.

use std::f64::consts::TAU;

use block::Op;
use rand::Rng as _;
use statistics::Rank;

use super::Angles;
use crate::device::mechanics::{Mechanics, Writes};
use crate::device::tracks::{off, part};

/// Number of pairs of reads.
const PAIRS: usize = 5_000;
/// Number of pairs of a read and a write.
const WRITES: usize = 400;
/// Number of points of the curve per factor of two in distance; then this many evenly spaced ones.
const POINTS: f64 = 4.0;
const EVENLY: u64 = 64;
/// Tolerance of the angle at which a request to the media completes, in revolutions.
const ON_TIME: f64 = 0.02;
/// Minimum share of writes at their angle for a drive to count as completing writes on the media.
const MOSTLY: f64 = 0.6;
/// Number of relaxation sweeps over the points of the curve.
const SWEEPS: usize = 12;
/// Largest request for the time per sector, in sectors.
const LARGEST: u64 = 64;
/// Number of locations where they are tried.
const PLACES: usize = 7;

/// Finds the seek curve, the interface rate, and the completion of writes.
pub(super) fn find(angles: &mut Angles, mechanics: &mut Mechanics) -> Option<()> {
    mechanics.sector_ns = sector(angles, mechanics)?;
    let pairs = pairs(angles, mechanics, PAIRS, Op::Read)?;
    let on_time: Vec<Pair> = pairs.into_iter().filter(|pair| off(pair.off).abs() < ON_TIME).collect();
    mechanics.reach = curve(&on_time, mechanics.turn_ns);
    let writes = self::pairs(angles, mechanics, WRITES, Op::Write)?;
    mechanics.writes = of_writes(&writes, mechanics);
    Some(())
}

/// An access that follows another one.
#[derive(Clone, Copy, Debug)]
struct Pair {
    distance: u64,
    took_ns: f64,
    /// Revolutions between its completion and the passing of its sector.
    off: f64,
}

/// Measures pairs at all distances.
fn pairs(angles: &mut Angles, mechanics: &Mechanics, count: usize, op: Op) -> Option<Vec<Pair>> {
    let capacity = angles.capacity();
    let mut all = Vec::with_capacity(count);
    let mut at = capacity / 2;
    for number in 0..count {
        // Before a write, a read positions the arm.
        if op == Op::Write {
            at = angles.anywhere();
            angles.ask(Op::Read, at, 1)?;
        }
        let lba = match number % 4 {
            0 => angles.anywhere(),
            _ => near(angles, at, capacity),
        };
        let (asked, done) = angles.ask(op, lba, 1)?;
        let place = mechanics.place(lba);
        let distance = place.cylinder.abs_diff(mechanics.place(at).cylinder);
        all.push(Pair { distance, took_ns: done - asked, off: part(done / mechanics.turn_ns - place.turned) });
        at = lba;
    }
    Some(all)
}

/// A sector at a distance whose logarithm is uniform.
fn near(angles: &mut Angles, at: u64, capacity: u64) -> u64 {
    let distance = (angles.random().random::<f64>() * (capacity as f64).ln()).exp() as u64;
    let (down, up) = (at.checked_sub(distance), at.checked_add(distance).filter(|lba| *lba < capacity));
    let is_up = angles.random().random::<bool>();
    (if is_up { up.or(down) } else { down.or(up) }).unwrap_or(at)
}

/// Time per sector in nanoseconds if the interface limits it; 0 if the media do.
fn sector(angles: &mut Angles, mechanics: &Mechanics) -> Option<f64> {
    // In the zone with the highest media rate.
    let fastest = mechanics.tracks.zones.iter().enumerate().min_by(|a, b| a.1.per_sector.total_cmp(&b.1.per_sector));
    let (number, zone) = fastest?;
    let stretch = mechanics.tracks.stretches.iter().find(|stretch| stretch.zone == number)?;
    let mut per_sector = zone.per_sector;
    let mut sectors = 2u32;
    while u64::from(sectors) <= (zone.sectors / 3).min(LARGEST) {
        let mut errors = Vec::with_capacity(PLACES);
        for place in 0..PLACES as u64 {
            let lba = stretch.first + place % 3 * zone.sectors + 1 + place;
            let first = angles.of(lba)?;
            let all = angles.of_many(Op::Read, lba, sectors)?;
            errors.push(off(all - first - f64::from(sectors - 1) * per_sector));
        }
        per_sector += Rank::Above.of(&mut errors, 0.5)? / f64::from(sectors - 1);
        sectors *= 2;
    }
    let is_slower = per_sector > 1.05 * zone.per_sector;
    Some(if is_slower { per_sector * mechanics.turn_ns } else { 0.0 })
}

/// The curve with the smallest violation by the pairs: none is read before the head arrives, or a revolution later than it could be.
fn curve(pairs: &[Pair], turn_ns: f64) -> Vec<(u64, f64)> {
    let longest = pairs.iter().map(|pair| pair.distance).max().unwrap_or(0);
    let mut curve: Vec<(u64, f64)> = points(longest).into_iter().map(|distance| (distance, turn_ns / 2.0)).collect();
    let mut between: Vec<Vec<Pair>> = vec![Vec::new(); curve.len()];
    for pair in pairs {
        let point = curve.partition_point(|(distance, _)| *distance <= pair.distance).saturating_sub(1);
        between[point].push(*pair);
    }
    // The first sweep fits each point independently of its neighbours.
    for sweep in 0..SWEEPS {
        for point in 0..curve.len() {
            if let Some(ns) = settle(&curve, &between, point, turn_ns, sweep == 0) {
                curve[point].1 = ns;
            } else if let Some(before) = point.checked_sub(1) {
                curve[point].1 = curve[before].1;
            }
        }
    }
    curve
}

/// Distances of the curve's points.
fn points(longest: u64) -> Vec<u64> {
    let mut points = vec![0];
    let mut next = 1.0f64;
    while (next as u64) < longest {
        points.push(next as u64);
        let factor = next * 2f64.powf(1.0 / POINTS);
        next = factor.min(next + (longest as f64 / EVENLY as f64).max(1.0)).max(next + 1.0);
    }
    if longest > 0 {
        points.push(longest);
    }
    points.dedup();
    points
}

/// The value of a point with the smallest violation by the pairs on either side; the middle if several are equal. In the first sweep,
/// `alone`, pairs count as if they were at the point.
fn settle(curve: &[(u64, f64)], between: &[Vec<Pair>], point: usize, turn_ns: f64, alone: bool) -> Option<f64> {
    let mut bounds: Vec<(f64, f64)> = Vec::new();
    let mut bound = |pair: &Pair, other: Option<(u64, f64)>| {
        let own = curve[point].0;
        // The weight of this point in the interpolation, and the contribution of the other one.
        let (share, rest) = match other.filter(|_| !alone) {
            Some((distance, ns)) => {
                let share = 1.0 - pair.distance.abs_diff(own) as f64 / own.abs_diff(distance) as f64;
                (share, (1.0 - share) * ns)
            }
            None => (1.0, 0.0),
        };
        if share > 0.05 {
            let most = (pair.took_ns - rest) / share;
            // Weighted by that share: pairs far from the point constrain it less.
            bounds.push((most, share));
            bounds.push((most - turn_ns / share, -share));
        }
    };
    let next = curve.get(point + 1).copied();
    between[point].iter().for_each(|pair| bound(pair, next));
    if let Some(before) = point.checked_sub(1) {
        between[before].iter().for_each(|pair| bound(pair, Some(curve[before])));
    }
    if bounds.is_empty() {
        return None;
    }
    // The violation falls with the shares of lower bounds still above, and rises with those of upper bounds already below.
    bounds.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut slope: f64 = -bounds.iter().map(|(_, share)| share.min(0.0).abs()).sum::<f64>();
    let (mut first, mut last) = (None, None);
    for &(at, share) in &bounds {
        slope += share.abs();
        if slope > -1e-9 && first.is_none() {
            first = Some(at);
        }
        if slope > 1e-9 {
            last = Some(at);
            break;
        }
    }
    let (first, last) = (first?, last.or(first)?);
    Some(((first + last) / 2.0).max(0.0))
}

/// Whether writes complete when their sectors pass, and their additional settling time.
fn of_writes(writes: &[Pair], mechanics: &Mechanics) -> Writes {
    let (across, up) = writes.iter().fold((0.0, 0.0), |(across, up), pair| {
        let (sine, cosine) = (TAU * pair.off).sin_cos();
        (across + cosine, up + sine)
    });
    if f64::hypot(across, up) < MOSTLY * writes.len() as f64 {
        return Writes::Buffered;
    }
    let later = up.atan2(across) / TAU;
    let flat = vec![Vec::from_iter(writes.iter().map(|pair| Pair {
        distance: 0,
        took_ns: pair.took_ns - mechanics.reach_ns(pair.distance) + mechanics.turn_ns,
        off: pair.off,
    }))];
    let settle = settle(&[(0, 0.0)], &flat, 0, mechanics.turn_ns, true);
    Writes::OnMedia { later, settle_ns: settle.unwrap_or(mechanics.turn_ns) - mechanics.turn_ns }
}
