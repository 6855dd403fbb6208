//! Mechanics of a disk: seek times, and the angles at which sectors pass.
//!
//! ```text
//! sent            overhead and seek: reach(distance)        turn                  transfer
//!  |-------------------------------------------------|------ wait ------|------------------------| done
//!                                                                       at T × (angle + any whole number)
//! ```

use std::fmt::Write as _;

use block::Nanos;
use serde::{Deserialize, Serialize};

use super::tracks::{Place, Tracks, part};

/// Maximum number of points of the seek curve.
const MOST_POINTS: usize = 512;

/// Mechanics of a disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mechanics {
    /// Time of a revolution.
    pub(super) turn_ns: f64,
    /// Positions of the sectors.
    pub(super) tracks: Tracks,
    /// The seek curve: distance in cylinders, and the minimum time until a sector is read, in nanoseconds.
    pub(super) reach: Vec<(u64, f64)>,
    /// Minimum time of each further sector in nanoseconds, if the interface is slower than the media.
    pub(super) sector_ns: f64,
    /// How writes complete.
    pub(super) writes: Writes,
}

/// How writes complete.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub(super) enum Writes {
    /// When they are in the drive's cache.
    Buffered,
    /// When they are on the media, `later` than a read would be, after a longer settling time of the head.
    OnMedia {
        /// In revolutions.
        later: f64,
        /// In nanoseconds.
        settle_ns: f64,
    },
}

/// Times of an access to the media.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Access {
    /// When it is done, in nanoseconds.
    pub done_ns: f64,
    /// Transfer time in nanoseconds.
    pub transfer_ns: f64,
    /// Rotational latency in revolutions.
    pub wait: f64,
    /// Time from the request until the head is on the track, in nanoseconds.
    pub reach_ns: f64,
    /// The arm's cylinder after the access.
    pub cylinder: u64,
    /// Seek distance in cylinders.
    pub distance: u64,
}

impl Mechanics {
    /// Mechanics of a disk with unknown seek times.
    pub(super) fn of(turn_ns: f64, tracks: Tracks) -> Mechanics {
        Mechanics { turn_ns, tracks, reach: vec![(0, 0.0)], sector_ns: 0.0, writes: Writes::Buffered }
    }

    /// Time of a revolution.
    pub fn turn(&self) -> Nanos {
        Nanos(self.turn_ns as u64)
    }

    /// The position of a sector.
    pub fn place(&self, lba: u64) -> Place {
        self.tracks.place(lba)
    }

    /// Overhead and seek.
    #[inline]
    pub(super) fn reach_ns(&self, distance: u64) -> f64 {
        let after = self.reach.partition_point(|(point, _)| *point <= distance);
        let Some(&(from, least)) = self.reach[..after].last() else { return 0.0 };
        match self.reach.get(after) {
            Some(&(to, most)) => least + (most - least) * (distance - from) as f64 / (to - from) as f64,
            None => least,
        }
    }

    /// An access to the media requested at `asked_ns`, by an arm at `cylinder`.
    pub(super) fn access(&self, asked_ns: f64, cylinder: u64, is_write: bool, lba: u64, sectors: u64) -> Access {
        let (later, settle_ns) = match self.writes {
            Writes::OnMedia { later, settle_ns } if is_write => (later, settle_ns),
            _ => (0.0, 0.0),
        };
        let (place, last) = self.tracks.places(lba, sectors);
        let distance = place.cylinder.abs_diff(cylinder);
        let reach_ns = self.reach_ns(distance) + settle_ns;
        let ready = (asked_ns + reach_ns) / self.turn_ns;
        let wait = part(place.turned + later - ready);
        let transfer_ns = self.transfer_ns(&place, &last, sectors);
        Access {
            done_ns: asked_ns + reach_ns + wait * self.turn_ns + transfer_ns,
            transfer_ns,
            wait,
            reach_ns,
            cylinder: last.cylinder,
            distance,
        }
    }

    /// An access to the media by an arm at `cylinder` while the platter's angle is unknown: half a revolution on average, or none directly after
    /// the sector before. It begins at 0.
    pub(super) fn access_from(&self, cylinder: u64, goes_on: bool, is_write: bool, lba: u64, sectors: u64) -> Access {
        let settle_ns = match self.writes {
            Writes::OnMedia { settle_ns, .. } if is_write => settle_ns,
            _ => 0.0,
        };
        let (place, last) = self.tracks.places(lba, sectors);
        let distance = place.cylinder.abs_diff(cylinder);
        let transfer_ns = self.transfer_ns(&place, &last, sectors);
        let (reach_ns, wait) = if goes_on { (0.0, 0.0) } else { (self.reach_ns(distance) + settle_ns, 0.5) };
        let done_ns = reach_ns + wait * self.turn_ns + transfer_ns;
        Access { done_ns, transfer_ns, wait, reach_ns, cylinder: last.cylinder, distance }
    }

    /// Time of all sectors after the first.
    fn transfer_ns(&self, first: &Place, last: &Place, sectors: u64) -> f64 {
        let more = sectors.saturating_sub(1) as f64;
        let straight = more * first.per_sector;
        // Different stretches have different origins of their angles.
        let turns = if first.stretch == last.stretch { (last.turned - first.turned).max(straight) } else { straight };
        (turns * self.turn_ns).max(more * self.sector_ns)
    }

    /// Appends a description for people.
    pub(super) fn describe(&self, text: &mut String) {
        let Mechanics { turn_ns, tracks, reach, writes, .. } = self;
        let turn_ms = turn_ns / 1e6;
        let of = |part: f64| {
            let point = ((reach.len().saturating_sub(1)) as f64 * part) as usize;
            reach.get(point).map_or(0.0, |(_, ns)| ns / 1e6)
        };
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "A turn takes {turn_ms:.4} ms ({:.0} rpm). Command and arm: {:.2} ms on a cylinder, {:.2} ms at most.",
            60e3 / turn_ms,
            of(0.0),
            of(1.0)
        );
        let sectors = tracks.zones.iter().map(|zone| zone.sectors);
        let (least, most) = (sectors.clone().min().unwrap_or(0), sectors.max().unwrap_or(0));
        let (zones, stretches) = (tracks.zones.len(), tracks.stretches.len());
        let _ = writeln!(text, "Tracks of {least} to {most} sectors in {zones} zones, {stretches} stretches without a break.");
        let _ = writeln!(
            text,
            "Writes are reported when they are {}.",
            match writes {
                Writes::Buffered => "in the drive's memory",
                Writes::OnMedia { .. } => "on the media",
            }
        );
    }

    /// Checks the invariants that calculations rely on.
    pub(super) fn check(&self) -> Result<(), String> {
        if !(1e5..=1e9).contains(&self.turn_ns) {
            return Err(format!("a turn takes {} ns; 1e5 to 1e9 are right", self.turn_ns));
        }
        let are_times = self.reach.iter().all(|(_, ns)| (0.0..=1e10).contains(ns));
        let in_order = self.reach.windows(2).all(|pair| pair[0].0 < pair[1].0);
        if !are_times || !in_order || self.reach.len() > MOST_POINTS || self.reach.first().is_none_or(|point| point.0 != 0) {
            return Err("the curve of seeks should begin at distance 0 and grow in distance, with times of up to 10 s".to_owned());
        }
        let is_right = match self.writes {
            Writes::Buffered => true,
            Writes::OnMedia { later, settle_ns } => later.abs() <= 1.0 && settle_ns.abs() <= 1e9,
        };
        if !is_right || !(0.0..=1e9).contains(&self.sector_ns) {
            return Err(format!("a sector takes {} ns, writes are {:?}", self.sector_ns, self.writes));
        }
        self.tracks.check()
    }
}
