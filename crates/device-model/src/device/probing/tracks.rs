//! Finds tracks: within one the angle grows linearly from sector to sector; at its end it jumps.
//!
//! ```text
//! angle    /|    /|    /|        a track ends where the line does (found by halving)
//!         / |   / |   / |  /     jumps repeat from cylinder to cylinder: number of heads
//!        /  |  /  |  /  | /      the extent of this pattern is found by doubling and halving; a new zone begins there
//!       /   | /   | /   |/
//! sectors ──────────────────▶
//! ```

use super::Angles;
use crate::device::tracks::{MOST_STRETCHES, MOST_SURFACES, Stretch, Tracks, Zone, off, part};

/// Tolerance of a predicted angle, as a share of a sector.
const NEAR: f64 = 0.35;
/// Maximum number of tracks examined for the number of heads, and the minimum if a break ends them early.
const WINDOW: usize = 2 * MOST_SURFACES + 2;
const FEWEST: usize = 6;
/// Number of locations tried for whole tracks before a stretch of the disk is skipped, and their distance.
const TRIES: usize = 40;
/// Maximum number of requests.
const MOST_ASKED: u64 = 6_000_000;
/// Minimum number of sectors per track.
const SHORTEST: u64 = 16;

/// All tracks; `None` if they cannot be found.
pub(super) fn find(angles: &mut Angles) -> Option<Tracks> {
    let mut finder = Finder { capacity: angles.capacity(), angles, tracks: Tracks::default(), cylinder: 0, before: None };
    let mut at = 0;
    while at < finder.capacity && finder.tracks.stretches.len() < MOST_STRETCHES && finder.angles.asked() < MOST_ASKED {
        let found = match finder.before {
            Some(before) => finder.goes_on(at, before)?,
            None => None,
        };
        let stretch = match found {
            Some(stretch) => Some(stretch),
            None => finder.begin_zone(at)?,
        };
        let Some(stretch) = stretch else { break };
        let end = finder.extent(stretch)?;
        finder.before = Some(finder.tracks.stretches.len() - 1);
        at = end.max(at + 1);
    }
    (!finder.tracks.stretches.is_empty()).then_some(finder.tracks)
}

struct Finder<'a, 'b> {
    angles: &'a mut Angles<'b>,
    capacity: u64,
    tracks: Tracks,
    /// The next cylinder.
    cylinder: u64,
    /// The previous stretch.
    before: Option<usize>,
}

/// Part of a track, from one of its sectors to its end.
#[derive(Clone, Copy, Debug)]
struct Line {
    angle: f64,
    per_sector: f64,
    /// The first sector after it.
    end: u64,
}

/// Successive tracks of equal length.
#[derive(Debug)]
struct Run {
    first: u64,
    angle: f64,
    per_sector: f64,
    sectors: u64,
    jumps: Vec<f64>,
}

impl Finder<'_, '_> {
    /// The line that contains a sector; `Some(None)` if there is none.
    fn line(&mut self, from: u64) -> Option<Option<Line>> {
        if from + 2 >= self.capacity {
            return Some(None);
        }
        let angle = self.angles.of(from)?;
        let mut per_sector = part(self.angles.of(from + 1)? - angle);
        if !(1e-6..0.25).contains(&per_sector) {
            return Some(None);
        }
        let (mut on, mut beyond) = (1, 2);
        loop {
            if from + beyond >= self.capacity {
                beyond = self.capacity - from;
                break;
            }
            let error = off(self.angles.of(from + beyond)? - angle - beyond as f64 * per_sector);
            if error.abs() > NEAR * per_sector {
                break;
            }
            per_sector += error / beyond as f64;
            (on, beyond) = (beyond, 2 * beyond);
        }
        let end = self.end_of_line(from, (angle, per_sector), (on, beyond))?;
        Some((end - from >= 2).then_some(Line { angle, per_sector: whole(per_sector), end }))
    }

    /// The first sector after a line, which is known to be above `on` and at most `beyond`.
    fn end_of_line(&mut self, from: u64, (angle, per_sector): (f64, f64), (mut on, mut beyond): (u64, u64)) -> Option<u64> {
        while beyond - on > 1 {
            let middle = on + (beyond - on) / 2;
            let error = off(self.angles.of(from + middle)? - angle - middle as f64 * per_sector);
            if error.abs() > NEAR * per_sector { beyond = middle } else { on = middle }
        }
        Some(from + beyond)
    }

    /// Successive tracks of equal length from a sector that begins a track, up to the first break; at most `most`.
    fn run(&mut self, first: u64, most: usize) -> Option<Option<Run>> {
        let Some(line) = self.line(first)? else { return Some(None) };
        let sectors = line.end - first;
        if sectors < SHORTEST {
            return Some(None);
        }
        let mut run = Run { first, angle: line.angle, per_sector: line.per_sector, sectors, jumps: Vec::new() };
        let mut angle = line.angle;
        while run.jumps.len() < most {
            let next = first + (run.jumps.len() as u64 + 1) * sectors;
            if next + sectors >= self.capacity {
                break;
            }
            let begins = self.angles.of(next)?;
            let ends = self.angles.of(next + sectors - 1)?;
            let straight = off(ends - begins - (sectors - 1) as f64 * run.per_sector).abs() <= NEAR * run.per_sector;
            let jump = off(begins - angle - sectors as f64 * run.per_sector);
            // A line that continues without a jump is not a new track: the previous one was measured too short.
            if !straight || jump.abs() < NEAR * run.per_sector {
                break;
            }
            run.jumps.push(jump);
            angle = begins;
        }
        Some(Some(run))
    }

    /// Learns a zone from tracks at or after this sector, and returns where they begin.
    fn begin_zone(&mut self, at: u64) -> Option<Option<Stretch>> {
        let mut from = at;
        for _ in 0..TRIES {
            let Some(line) = self.line(from)? else {
                if from + 2 >= self.capacity {
                    return Some(None);
                }
                from += 3;
                continue;
            };
            if let Some(run) = self.run(line.end, WINDOW)? {
                if let Some((jumps, track)) = jumps(&run) {
                    return Some(Some(self.zone(&run, jumps, track)));
                }
                from = run.first + (run.jumps.len() as u64 + 1) * run.sectors;
            } else {
                from = line.end;
            }
        }
        Some(None)
    }

    fn zone(&mut self, run: &Run, jumps: Vec<f64>, track: usize) -> Stretch {
        let is_same = |one: &Zone| {
            (one.sectors, one.jumps.len()) == (run.sectors, jumps.len())
                && one.jumps.iter().zip(&jumps).all(|(one, other)| off(one - other).abs() < NEAR * run.per_sector)
        };
        let known = self.tracks.zones.iter().position(is_same);
        let (zone, cylinder) = (known.unwrap_or(self.tracks.zones.len()), self.cylinder);
        if known.is_none() {
            self.tracks.zones.push(Zone { per_sector: run.per_sector, sectors: run.sectors, jumps });
        }
        let first = if self.tracks.stretches.is_empty() { self.begins_at_zero(run, zone, track) } else { None };
        first.unwrap_or(Stretch { first: run.first, zone, angle: run.angle, cylinder, track })
    }

    /// The disk's first track begins with its first sector.
    fn begins_at_zero(&self, run: &Run, zone: usize, track: usize) -> Option<Stretch> {
        let known = &self.tracks.zones[zone];
        let before = run.first.checked_sub(run.sectors).filter(|before| *before == 0)?;
        let track = (track + known.jumps.len() - 1) % known.jumps.len();
        let angle = part(run.angle - known.turned(track, 1));
        Some(Stretch { first: before, zone, angle, cylinder: self.cylinder, track })
    }

    /// After a break, the zone's tracks usually continue with an offset; their jumps identify the tracks of a cylinder.
    fn goes_on(&mut self, at: u64, before: usize) -> Option<Option<Stretch>> {
        let Stretch { zone, .. } = self.tracks.stretches[before];
        let (per_sector, sectors) = (self.tracks.zones[zone].per_sector, self.tracks.zones[zone].sectors);
        let surfaces = self.tracks.zones[zone].jumps.len();
        let Some(line) = self.line(at)? else { return Some(None) };
        if (line.per_sector / per_sector - 1.0).abs() > 1e-3 || line.end - at > sectors {
            return Some(None);
        }
        let Some(run) = self.run(line.end, surfaces + 1)? else { return Some(None) };
        if run.sectors != sectors || run.jumps.is_empty() {
            return Some(None);
        }
        let known = &self.tracks.zones[zone].jumps;
        let is_at = |track: &usize| {
            let expected = |number: usize| known[(track + number) % surfaces];
            run.jumps.iter().enumerate().all(|(number, jump)| off(jump - expected(number)).abs() < NEAR * per_sector)
        };
        // If several match, the next in order.
        let passed = self.passed(before, run.first);
        let found = (0..surfaces).filter(is_at).min_by_key(|track| (track + surfaces - passed.1) % surfaces);
        Some(found.map(|track| {
            let cylinder = passed.0 + u64::from(track < passed.1);
            Stretch { first: run.first, zone, angle: run.angle, cylinder, track }
        }))
    }

    /// Cylinder and track of a sector if the stretch continued up to it.
    fn passed(&self, number: usize, lba: u64) -> (u64, usize) {
        let stretch = &self.tracks.stretches[number];
        let zone = &self.tracks.zones[stretch.zone];
        let surfaces = zone.jumps.len() as u64;
        let tracks = stretch.track as u64 + (lba - stretch.first + zone.sectors / 2) / zone.sectors;
        (stretch.cylinder + tracks / surfaces, (tracks % surfaces) as usize)
    }

    /// Adds a stretch, and returns the sector at which it ends.
    fn extent(&mut self, stretch: Stretch) -> Option<u64> {
        let zone = self.tracks.zones[stretch.zone].clone();
        let all = (self.capacity - stretch.first).div_ceil(zone.sectors);
        // Correction of the revolutions per cylinder: distant angles determine it more accurately than near ones.
        let (mut drift, surfaces) = (0.0, zone.jumps.len() as u64);
        let (mut on, mut beyond) = (0, 1);
        while beyond < all {
            let error = self.error(&stretch, &zone, beyond, drift)?;
            if !error.is_some_and(|error| error.abs() <= NEAR * zone.per_sector) {
                break;
            }
            if let Some(error) = error.filter(|_| beyond >= 4 * surfaces) {
                drift += error / beyond as f64;
            }
            (on, beyond) = (beyond, 2 * beyond);
        }
        beyond = beyond.min(all);
        while beyond - on > 1 {
            let middle = on + (beyond - on) / 2;
            let error = self.error(&stretch, &zone, middle, drift)?;
            if error.is_some_and(|error| error.abs() <= NEAR * zone.per_sector) { on = middle } else { beyond = middle }
        }
        for jump in &mut self.tracks.zones[stretch.zone].jumps {
            *jump += drift;
        }
        self.tracks.stretches.push(stretch);
        let end = (stretch.first + beyond * zone.sectors).min(self.capacity);
        self.cylinder = self.passed(self.tracks.stretches.len() - 1, end).0 + 1;
        Some(end)
    }

    /// Deviation of the angles in a track of a stretch from the expected ones; `Some(None)` if the track is incomplete.
    fn error(&mut self, stretch: &Stretch, zone: &Zone, track: u64, drift: f64) -> Option<Option<f64>> {
        let first = stretch.first + track * zone.sectors;
        let mut last_error = None;
        for sector in [zone.sectors - 2, zone.sectors / 3] {
            if first + sector >= self.capacity {
                return Some(last_error);
            }
            let expected =
                stretch.angle + zone.turned(stretch.track, track) + drift * track as f64 + sector as f64 * zone.per_sector;
            let error = off(self.angles.of(first + sector)? - expected);
            if error.abs() > NEAR * zone.per_sector {
                return Some(Some(error));
            }
            last_error = Some(error);
        }
        Some(last_error)
    }
}

/// Rounds to an integer number of sectors per revolution if that is close.
fn whole(per_sector: f64) -> f64 {
    let sectors = 1.0 / per_sector;
    if (sectors - sectors.round()).abs() < 0.02 { 1.0 / sectors.round() } else { per_sector }
}

/// The jumps of a cylinder, that to the next cylinder last, and the index of the run's first track in its cylinder.
fn jumps(run: &Run) -> Option<(Vec<f64>, usize)> {
    let all = &run.jumps;
    if all.len() < FEWEST {
        return None;
    }
    let is_same = |one: f64, other: f64| off(one - other).abs() < NEAR * run.per_sector;
    let repeats = |surfaces: &usize| (*surfaces..all.len()).all(|number| is_same(all[number], all[number - surfaces]));
    let most = MOST_SURFACES.min(all.len() - 2);
    let surfaces = (1..=most).find(repeats)?;
    // The jump that differs from most others includes the seek to the next cylinder.
    let unlike = |number: &usize| all[..surfaces].iter().filter(|&&other| !is_same(other, all[*number])).count();
    let arm = (0..surfaces).rev().max_by_key(unlike).unwrap_or(0);
    let of_cylinder = (0..surfaces).map(|number| all[(arm + 1 + number) % surfaces]).collect();
    Some((of_cylinder, (surfaces - 1 - arm) % surfaces))
}
