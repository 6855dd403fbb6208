//! How long a turn takes.

use std::collections::BTreeMap;

use device_model::rotation::{End, Finder};

use crate::device::access::Access;
use crate::device::findings::Finding;
use crate::device::seek::{self, SeekSample};

/// Speeds that drives were sold with, in turns a minute, and the logarithm of how usual each is compared with the most usual: from data sheets
/// of 1990 to 2020.
const SOLD: [(f64, f64); 9] = [
    (3_600.0, -2.0),
    (4_200.0, -2.5),
    (4_500.0, -2.0),
    (5_400.0, -0.5),
    (5_900.0, -1.5),
    (7_200.0, 0.0),
    (10_000.0, -0.7),
    (12_000.0, -4.0),
    (15_000.0, -1.0),
];
/// Drives turn a little faster or slower than is said, by such a part.
const OFF_SPEED: f64 = 0.015;
/// The smallest part of a turn that shows in place of it.
const MAX_PARTS: u32 = 4;
/// The commonest speed.
pub const USUAL_MS: f64 = 60e3 / 7_200.0;
/// Regions of the disk in which tracks are of the same length, mostly: 1 GiB, as for the schedulers that look for lines.
const REGION_SHIFT: u32 = 21;
/// Completions that a line is looked for in, at least and at most.
const MIN_ENDS: usize = 48;
const MAX_ENDS: usize = 512;
/// The largest number of seeks in which a speed is looked for.
const MAX_SEEKS: usize = 400;
/// The least log-likelihood ratio between a speed and the next one. Seeks are not independent, and no curve is exactly the drive's: four
/// times that of 20 to 1.
const MIN_MARGIN: f64 = 12.0;

/// A turn.
#[derive(Clone, Debug)]
pub struct Turn {
    /// Its time in ms.
    pub ms: f64,
    /// Half the width of the 95% interval, in ms.
    pub uncertainty_ms: f64,
    /// Accesses that it rests on; 0: a default.
    pub accesses: usize,
    /// An LBA where completions show the rotation, and the sectors that pass in a turn there, with skew.
    pub line: Option<(u64, f64)>,
    /// How much likelier short waits are than long ones, see [`seek::Band`].
    pub tilt: f64,
}

/// Finds the time of a turn: as a line in the times of completions, or as the height of the band of accesses over the seek curve.
pub fn find(accesses: &[Access], samples: &[SeekSample], (rate_error, strange): (f64, f64), write_cache: bool) -> Turn {
    if let Some(turn) = by_line(accesses, write_cache) {
        return turn;
    }
    let unknown = Turn { ms: USUAL_MS, uncertainty_ms: USUAL_MS, accesses: 0, line: None, tilt: seek::SLIGHT };
    if samples.len() < super::MIN_SEEKS {
        return unknown;
    }
    // With others at the device it may choose by rotation; a scheduler before it leaves no such trace, but leaves the edge.
    let queued = accesses.iter().filter(|access| access.others > 0).count();
    let tilts = if queued * 2 > accesses.len() { &seek::TILTS[..] } else { &seek::TILTS[..1] };
    let turns = SOLD.map(|(rpm, usual)| (60e3 / rpm, usual));
    let Some((ms, tilt, margin)) = seek::turn(&seek::thin(&shorter(samples), MAX_SEEKS), &turns, (rate_error, strange), tilts)
    else {
        return unknown;
    };
    // Drives turn a little faster or slower than is said: up to 0.5% (10,045 for 10,000).
    let next = turns.iter().map(|turn| (turn.0 - ms).abs()).filter(|off| *off > 0.0).fold(f64::INFINITY, f64::min);
    let uncertainty_ms = if margin >= MIN_MARGIN { 0.005 * ms } else { next + 0.005 * ms };
    Turn { ms, uncertainty_ms, accesses: samples.len(), line: None, tilt }
}

/// The half with the shorter transfers: long ones cross tracks, and wait there, so that their band is higher than a turn.
fn shorter(samples: &[SeekSample]) -> Vec<SeekSample> {
    let mut transfers: Vec<f64> = samples.iter().map(|sample| sample.transfer_ms).collect();
    let middle = transfers.len() / 2;
    let Some((_, median, _)) = transfers.get(middle).is_some().then(|| transfers.select_nth_unstable_by(middle, f64::total_cmp))
    else {
        return Vec::new();
    };
    samples.iter().filter(|sample| sample.transfer_ms <= *median).copied().collect()
}

/// The line in the region where most reads ended.
fn by_line(accesses: &[Access], write_cache: bool) -> Option<Turn> {
    let mut regions: BTreeMap<u64, Vec<End>> = BTreeMap::new();
    for access in accesses.iter().filter(|access| access.follows.is_none() && !(access.write && write_cache)) {
        let end = End { lba: access.end(), at_ns: access.completed as f64 };
        regions.entry(access.end() >> REGION_SHIFT).or_default().push(end);
    }
    let (_, ends) = regions.iter().max_by_key(|(_, ends)| ends.len())?;
    if ends.len() < MIN_ENDS {
        return None;
    }
    let latest = &ends[ends.len().saturating_sub(MAX_ENDS)..];
    let line = Finder::new().find(latest, None)?;
    let middle = latest.iter().map(|end| end.lba as f64).sum::<f64>() / latest.len() as f64;
    // Where several disks serve, a part of a turn shows as well.
    let is_sold = |ms: f64| SOLD.iter().any(|(rpm, _)| (60e3 / ms / rpm - 1.0).abs() < OFF_SPEED);
    let times = (1..=MAX_PARTS).map(f64::from).find(|times| is_sold(times * line.turn_ns / 1e6)).unwrap_or(1.0);
    let ms = times * line.turn_ns / 1e6;
    Some(Turn {
        ms,
        uncertainty_ms: 2e-4 * ms,
        accesses: latest.len(),
        line: Some((middle as u64, times / line.per_sector)),
        tilt: seek::SLIGHT,
    })
}

impl Turn {
    /// As people want it.
    pub fn findings(&self) -> Vec<Finding> {
        let rpm = 60e3 / self.ms;
        vec![
            Finding::number("time of a turn", self.ms, "ms", self.uncertainty_ms, self.accesses),
            Finding::number("speed", rpm, "rpm", rpm * self.uncertainty_ms / self.ms, self.accesses),
        ]
    }
}
