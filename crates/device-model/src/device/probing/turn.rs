//! Finds the time of a revolution: a sector passes at times that differ by whole revolutions.

use std::f64::consts::TAU;

use block::Op;
use rand::seq::SliceRandom as _;

use super::{Angles, Probe};
use crate::rotation::FASTEST;

/// Revolutions per second of the slowest drives.
const SLOWEST: f64 = 58.0;
/// Sectors that are read in turn: more than drives have segments, so that each comes from the media.
const PLACES: usize = 320;
/// Number of rounds.
const ROUNDS: usize = 12;
/// Sectors are done where the turn says, or nothing turns: the length of the mean of the angles as arrows.
const AGREEMENT: f64 = 0.5;
/// Turns that a span may be off: what is further off came from the drive's memory.
const OUT_OF_STEP: f64 = 0.02;
/// A slower speed than the one that agrees best is the right one if it agrees nearly as well: so do its multiples.
const NEARLY: f64 = 0.9;

/// Finds the revolution; `None` without one.
pub(super) fn find(probe: &mut dyn Probe, seed: u64) -> Option<Angles<'_>> {
    let mut angles = Angles::new(probe, seed);
    let places: Vec<u64> = (0..PLACES).map(|_| angles.anywhere()).collect();
    let mut ends: Vec<Vec<f64>> = vec![Vec::new(); PLACES];
    let mut order: Vec<usize> = (0..PLACES).collect();
    for _ in 0..ROUNDS {
        // In the same order each round would take as long as the one before, and spans would be whole numbers of anything.
        order.shuffle(angles.random());
        for &number in &order {
            ends[number].push(angles.ask(Op::Read, places[number], 1)?.1);
        }
    }
    let near: Vec<f64> = ends.iter().flat_map(|ends| ends.windows(2).map(|pair| pair[1] - pair[0])).collect();
    let mut turn_ns = coarse(&near)?;
    // The further apart, the more exactly; each step may be as long as the one before leaves no doubt about the turns.
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

/// The slowest speed at which spans are whole turns.
fn coarse(spans: &[f64]) -> Option<f64> {
    let longest = spans.iter().copied().fold(0.0, f64::max);
    // From one speed to the next the longest span slips by a tenth of a turn.
    let step = 0.1 / (longest / 1e9);
    let count = ((FASTEST - SLOWEST) / step) as usize + 1;
    let speeds: Vec<(f64, f64)> =
        (0..count).map(|number| SLOWEST + step * number as f64).map(|speed| (speed, agreement(spans, speed))).collect();
    let best = speeds.iter().map(|(_, agreement)| *agreement).fold(0.0, f64::max);
    if best < AGREEMENT {
        return None;
    }
    let first = speeds.iter().position(|(_, agreement)| *agreement >= NEARLY * best)?;
    // The top of the peak that begins there.
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
