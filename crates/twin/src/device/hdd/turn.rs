//! Estimates the rotation time.

use std::collections::BTreeMap;

use device_model::rotation::{End, Finder, Line};
use statistics::Rank;

use crate::device::access::Access;
use crate::device::findings::Finding;
use crate::device::seek::{self, SeekSample};

/// Rotation speeds of drives in rpm, with log priors relative to the commonest. Source: data sheets of 1990 to 2020 for the speeds
/// (`research/research/src/devices`); the priors are a choice, not varied.
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
/// Relative tolerance of the rotation speed. Choice: real speeds deviate by up to 0.5% (10,045 for 10,000), and sold ones differ by 7% at
/// least; not varied.
const OFF_SPEED: f64 = 0.015;
/// Largest divisor: with several disks, completions may show a fraction of a revolution, down to a revolution divided by this. Choice: a
/// RAID 5 showed half a revolution (commit 951dbcd0), and larger divisors match some speed by chance; not varied.
const MAX_PARTS: u32 = 4;
/// Rotation time at the commonest speed, 7,200 rpm. Derived: a minute in ms by 7,200.
pub const USUAL_MS: f64 = 60e3 / 7_200.0;
/// log2 of the sectors of a region in which most tracks have one length: 1 GiB. Choice: as `REGION_SHIFT` of the scheduler that searches
/// for lines (`device_model::sched::per_request`); not varied.
const REGION_SHIFT: u32 = 21;
/// Minimum number of completions in which a line is searched for. Choice: somewhat more than the 40 pairs that a line needs
/// (`device_model::rotation::MIN_PAIRS`); not varied.
const MIN_ENDS: usize = 48;
/// Maximum number of completions in which a line is searched for. Choice: processor time, and the search uses at most 1,500 pairs; not
/// varied.
const MAX_ENDS: usize = 512;
/// Maximum number of seeks from which the speed is inferred. Choice: half of those for the curve, as each speed and tilt is a fit; not
/// varied.
const MAX_SEEKS: usize = 400;
/// Minimum log-likelihood ratio between the best speed and the next one. Seeks are not independent, and no curve matches the drive exactly,
/// so this is four times that of 20 to 1. Derived: 4 ln 20, rounded; with ln 20 alone 4,500 rpm was certain for the HP C2247A of 5,400
/// (commit b9932241).
const MIN_MARGIN: f64 = 12.0;

/// Maximum number of fits between two searches for a rotation that is not visible. Choice: a device whose rotation becomes visible late is
/// known a few fits later, against 30 ms of processor time for each search; not varied.
const MAX_SKIPPED: u32 = 8;

/// The results of earlier searches for the rotation of a device. A search over all speeds takes as much processor time as a third of a fit,
/// and fits of arrays estimate several disks; a known speed takes a five-hundredth of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct TurnSearch {
    disk: KnownTurn,
    /// Of the members of possible arrays, and whether they are searched for in this fit.
    members: KnownTurn,
    is_due: bool,
    /// Number of searches over all speeds.
    pub searches: u32,
}

/// A rotation, or how long to rest until it is searched for again.
#[derive(Clone, Copy, Debug, Default)]
struct KnownTurn {
    /// Time of a revolution, or the fraction that completions show, in ns; `None` before it is found.
    found_ns: Option<f64>,
    /// Number of fits to skip until the next search, and after it if that finds nothing.
    skip: u32,
    next_skip: u32,
}

impl KnownTurn {
    /// Whether to search in this fit.
    fn begin(&mut self) -> bool {
        let is_due = self.skip == 0;
        self.skip = self.skip.saturating_sub(1);
        is_due
    }

    fn found(&mut self, turn_ns: Option<f64>) {
        self.found_ns = turn_ns.or(self.found_ns);
        if turn_ns.is_none() {
            self.skip = self.next_skip;
            self.next_skip = (2 * self.next_skip).clamp(1, MAX_SKIPPED);
        }
    }
}

impl TurnSearch {
    /// The line in these completions; `None` if there is none, or if several searches for it found none.
    fn line(&mut self, ends: &[End]) -> Option<Line> {
        let mut finder = Finder::new();
        if let Some(line) = self.disk.found_ns.and_then(|turn_ns| finder.find(ends, Some(turn_ns))) {
            return Some(line);
        }
        if !self.disk.begin() {
            return None;
        }
        self.searches += 1;
        let line = finder.find(ends, None);
        self.disk.found(line.map(|line| line.turn_ns));
        line
    }

    /// Begins the estimates of the members of possible arrays in one fit.
    pub fn begin_members(&mut self) {
        self.is_due = self.members.found_ns.or(self.disk.found_ns).is_none() && self.members.begin();
        if self.is_due {
            self.members.found(None);
        }
    }

    /// The search for a member. Members turn at one speed, and if the whole shows a rotation, that is theirs.
    pub fn of_member(&self) -> TurnSearch {
        let found_ns = self.disk.found_ns.or(self.members.found_ns);
        let skip = if self.is_due { 0 } else { u32::MAX };
        TurnSearch { disk: KnownTurn { found_ns, skip, next_skip: 0 }, ..TurnSearch::default() }
    }

    /// Adds the results of a [search for a member](TurnSearch::of_member).
    pub fn learn(&mut self, of_member: &TurnSearch) {
        self.searches += of_member.searches;
        self.members.found_ns = self.members.found_ns.or(of_member.disk.found_ns);
    }
}

/// An estimate of the rotation.
#[derive(Clone, Debug)]
pub struct Turn {
    /// Rotation time, in ms.
    pub ms: f64,
    /// Half the width of the 95% interval, in ms.
    pub uncertainty_ms: f64,
    /// Number of accesses that it is based on; 0 for a default.
    pub accesses: usize,
    /// The mean LBA of the completions that show the rotation, and the sectors per revolution there, including skew; `None` if they do not
    /// show it.
    pub line: Option<(u64, f64)>,
    /// Agreement of the completions with that line, from 0 to 1.
    pub agreement: f64,
    /// How much likelier a short rotational latency is than a long one, see [`seek::Waits::new`].
    pub tilt: f64,
}

/// Estimates the rotation: from a line in completion times, or from the height of the band of accesses over the seek curve.
pub fn find(
    accesses: &[Access],
    samples: &[SeekSample],
    (rate_error, strange): (f64, f64),
    write_cache: bool,
    search: &mut TurnSearch,
) -> Turn {
    if let Some(turn) = by_line(accesses, write_cache, search) {
        return turn;
    }
    let unknown = Turn { ms: USUAL_MS, uncertainty_ms: USUAL_MS, accesses: 0, line: None, agreement: 0.0, tilt: seek::SLIGHT };
    if samples.len() < super::MIN_SEEKS {
        return unknown;
    }
    // With others in flight the drive may schedule by rotational position. A scheduler on the host tilts the band less.
    let queued = accesses.iter().filter(|access| access.others > 0).count();
    let tilts = if queued * 2 > accesses.len() { &seek::TILTS[..] } else { &seek::TILTS[..1] };
    let turns = SOLD.map(|(rpm, usual)| (60e3 / rpm, usual));
    let Some((ms, tilt, margin)) = seek::turn(&seek::thin(&shorter(samples), MAX_SEEKS), &turns, (rate_error, strange), tilts)
    else {
        return unknown;
    };
    // Real speeds deviate by up to 0.5% (10,045 for 10,000).
    let next = turns.iter().map(|turn| (turn.0 - ms).abs()).filter(|off| *off > 0.0).fold(f64::INFINITY, f64::min);
    let uncertainty_ms = if margin >= MIN_MARGIN { 0.005 * ms } else { next + 0.005 * ms };
    Turn { ms, uncertainty_ms, accesses: samples.len(), line: None, agreement: 0.0, tilt }
}

/// The half of the samples with the shorter transfers: long ones cross tracks and wait there, so their band is higher than a revolution.
fn shorter(samples: &[SeekSample]) -> Vec<SeekSample> {
    let mut transfers: Vec<f64> = samples.iter().map(|sample| sample.transfer_ms).collect();
    let median = Rank::Above.of(&mut transfers, 0.5).unwrap_or(0.0);
    samples.iter().filter(|sample| sample.transfer_ms <= median).copied().collect()
}

/// The line in the region with the most completions; `None` if it does not show rotation.
fn by_line(accesses: &[Access], write_cache: bool, search: &mut TurnSearch) -> Option<Turn> {
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
    let line = search.line(latest)?;
    let middle = latest.iter().map(|end| end.lba as f64).sum::<f64>() / latest.len() as f64;
    // With several disks, the line may show a fraction of a revolution.
    let is_sold = |ms: f64| SOLD.iter().any(|(rpm, _)| (60e3 / ms / rpm - 1.0).abs() < OFF_SPEED);
    let times = (1..=MAX_PARTS).map(f64::from).find(|times| is_sold(times * line.turn_ns / 1e6)).unwrap_or(1.0);
    let ms = times * line.turn_ns / 1e6;
    Some(Turn {
        ms,
        uncertainty_ms: 2e-4 * ms,
        accesses: latest.len(),
        line: Some((middle as u64, times / line.per_sector)),
        agreement: line.agreement,
        tilt: seek::SLIGHT,
    })
}

impl Turn {
    /// The rotation as findings for display.
    pub fn findings(&self) -> Vec<Finding> {
        let rpm = 60e3 / self.ms;
        vec![
            Finding::number("time of a turn", self.ms, "ms", self.uncertainty_ms, self.accesses),
            Finding::number("speed", rpm, "rpm", rpm * self.uncertainty_ms / self.ms, self.accesses),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Completions on a drive of 10,500 rpm with 1,344 sectors per revolution, or at any time.
    fn ends(turns: bool) -> Vec<End> {
        let (turn_ns, mut number, mut now) = (60e9 / 10_500.0, 1_u64, 0.0_f64);
        let mut draw = || {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (number >> 33) as f64 / 2_f64.powi(31)
        };
        let mut end = || {
            let lba = (draw() * 50_000.0) as u64 * 8;
            now += 1e6 + 5e6 * draw();
            let angle = (lba as f64 / 1_344.0).fract();
            now = if turns { ((now / turn_ns - angle).ceil() + angle) * turn_ns } else { now };
            End { lba, at_ns: now }
        };
        (0..300).map(|_| end()).collect()
    }

    #[test]
    fn a_known_rotation_is_not_searched_for_and_an_invisible_one_ever_more_rarely() {
        let mut search = TurnSearch::default();
        let lines: Vec<Line> = (0..5).filter_map(|_| search.line(&ends(true))).collect();
        assert_eq!((lines.len(), search.searches), (5, 1));
        assert!(lines.iter().all(|line| (line.turn_ns / 60e9 * 10_500.0 - 1.0).abs() < 1e-4), "{lines:?}");
        let mut search = TurnSearch::default();
        let searches: Vec<u32> = (0..20).map(|_| (search.line(&ends(false)), search.searches).1).collect();
        assert_eq!(searches, [1, 2, 2, 3, 3, 3, 4, 4, 4, 4, 4, 5, 5, 5, 5, 5, 5, 5, 5, 5]);
        assert!((0..9).any(|_| search.line(&ends(true)).is_some()), "a rotation that becomes visible");
        search.begin_members();
        let mut of_member = search.of_member();
        assert!(of_member.line(&ends(true)).is_some() && of_member.line(&ends(false)).is_none());
        assert_eq!(of_member.searches, 0, "the members of an array turn as it does");
    }

    #[test]
    fn members_of_arrays_are_searched_in_ever_fewer_fits_until_one_shows_the_rotation_of_all() {
        let mut search = TurnSearch::default();
        let mut fit = |turns: bool| {
            search.begin_members();
            for _ in 0..3 {
                let mut of_member = search.of_member();
                of_member.line(&ends(turns));
                search.learn(&of_member);
            }
            search.searches
        };
        let searches = [false, false, false, true, true].map(&mut fit);
        assert_eq!(searches, [3, 6, 6, 7, 7]);
    }
}
