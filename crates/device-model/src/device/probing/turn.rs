//! Finds the time of a revolution: a sector passes at times that differ by whole revolutions.

use std::f64::consts::TAU;

use block::Op;
use rand::seq::SliceRandom as _;

use super::{Angles, Probe};
use crate::rotation::FASTEST;

/// Revolutions per second of the slowest drives.
const SLOWEST: f64 = 58.0;
/// Number of sectors read in turn: more than the cache segments of drives, so that each is read from the media.
const PLACES: usize = 320;
/// Number of rounds.
const ROUNDS: usize = 12;
/// Minimum agreement of completions with a revolution: the length of the mean of the angles as unit vectors. Below it there is no platter.
const AGREEMENT: f64 = 0.5;
/// Maximum deviation of a span in revolutions; spans that deviate more were served from the drive's cache.
const OUT_OF_STEP: f64 = 0.02;
/// A lower speed is preferred if its agreement is this fraction of the best, as multiples of the true speed agree as well.
const NEARLY: f64 = 0.9;

/// Finds the time of a revolution; `None` if there is no platter.
pub(super) fn find(probe: &mut dyn Probe, seed: u64) -> Option<Angles<'_>> {
    let mut angles = Angles::new(probe, seed);
    let places: Vec<u64> = (0..PLACES).map(|_| angles.anywhere()).collect();
    let mut ends: Vec<Vec<f64>> = vec![Vec::new(); PLACES];
    let mut order: Vec<usize> = (0..PLACES).collect();
    for _ in 0..ROUNDS {
        // With a fixed order all rounds would take equally long, and spans would be multiples of any period.
        order.shuffle(angles.random());
        for &number in &order {
            ends[number].push(angles.ask(Op::Read, places[number], 1)?.1);
        }
    }
    let near: Vec<f64> = ends.iter().flat_map(|ends| ends.windows(2).map(|pair| pair[1] - pair[0])).collect();
    let mut turn_ns = coarse(&near)?;
    // Longer spans are more accurate; each step is short enough for the previous accuracy to determine the number of revolutions.
    for apart in 1..ROUNDS {
        let spans = ends.iter().flat_map(|ends| ends.iter().zip(&ends[apart..]).map(|(one, next)| next - one));
        let (mut by_turns, mut turns_squared) = (0.0, 0.0);
        for span in spans {
            let turns = (span / turn_ns).round();
            if (span / turn_ns - turns).abs() < OUT_OF_STEP {
                by_turns += span * turns;
                turns_squared += turns * turns;
            }
        }
        if turns_squared > 0.0 {
            turn_ns = by_turns / turns_squared;
        }
    }
    angles.set_turn(turn_ns);
    angles.find_distance()?;
    Some(angles)
}

/// The lowest speed at which all spans are whole revolutions.
fn coarse(spans: &[f64]) -> Option<f64> {
    let longest = spans.iter().copied().fold(0.0, f64::max);
    // Between adjacent speeds, the longest span differs by a tenth of a revolution.
    let step = 0.1 / (longest / 1e9);
    let count = ((FASTEST - SLOWEST) / step) as usize + 1;
    let speeds: Vec<(f64, f64)> =
        (0..count).map(|number| SLOWEST + step * number as f64).map(|speed| (speed, agreement(spans, speed))).collect();
    let best = speeds.iter().map(|(_, agreement)| *agreement).fold(0.0, f64::max);
    if best < AGREEMENT {
        return None;
    }
    let first = speeds.iter().position(|(_, agreement)| *agreement >= NEARLY * best)?;
    // The maximum of the peak that begins there.
    let peak = speeds[first..].iter().take(20).max_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(1e9 / peak.0)
}

fn agreement(spans: &[f64], turns_a_second: f64) -> f64 {
    let (mut across, mut up) = (0.0, 0.0);
    for span in spans {
        let (sine, cosine) = (TAU * super::super::tracks::part(span * 1e-9 * turns_a_second)).sin_cos();
        across += cosine;
        up += sine;
    }
    f64::hypot(across, up) / spans.len().max(1) as f64
}
