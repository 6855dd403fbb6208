//! Positions of sectors on the platter, inferred from the times at which they pass.
//!
//! ```text
//! zone: tracks of equal length ── per_sector: revolutions from sector to sector; sectors per track; and the jumps of the angle
//!                                 after each track of a cylinder (head switch, or seek)
//! stretch: tracks of a zone without a break ── begins at a sector, at an angle; spares and defects end it
//! ```
//! An angle is a fraction of a revolution: that at the end of a sector's transfer, as the host observes it.

use serde::{Deserialize, Serialize};

/// Maximum number of stretches.
pub(super) const MOST_STRETCHES: usize = 1 << 16;
/// Maximum number of tracks per cylinder.
pub(super) const MOST_SURFACES: usize = 24;

/// All tracks of a disk.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tracks {
    /// The zones, which stretches refer to by index.
    pub(super) zones: Vec<Zone>,
    /// Ordered by first sector.
    pub(super) stretches: Vec<Stretch>,
}

/// Properties of tracks that are equal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Zone {
    /// Revolutions from a sector to the next.
    pub per_sector: f64,
    /// Data sectors per track.
    pub sectors: u64,
    /// Revolutions between the end of a track and the beginning of the next, beyond one sector; one value per track of a cylinder.
    pub jumps: Vec<f64>,
}

/// Successive tracks without a break.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Stretch {
    /// Its first sector, which begins a track.
    pub first: u64,
    /// Index of its zone.
    pub zone: usize,
    /// Angle of the first sector.
    pub angle: f64,
    /// Cylinder of the first sector.
    pub cylinder: u64,
    /// Index of that track in its cylinder.
    pub track: usize,
}

/// Position of a sector.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Place {
    /// Revolutions since the beginning of the stretch, plus its angle; the fractional part is the angle at which the sector passes.
    pub turned: f64,
    /// Revolutions from a sector to the next.
    pub per_sector: f64,
    /// Cylinder, counted from the first sector as far as observable.
    pub cylinder: u64,
    /// Index of its stretch.
    pub stretch: usize,
}

impl Zone {
    /// Revolutions from the beginning of track `from` of a cylinder to that of the track `tracks` further on.
    pub(super) fn turned(&self, from: usize, tracks: u64) -> f64 {
        let surfaces = self.jumps.len() as u64;
        let whole = tracks / surfaces;
        let of_cylinder: f64 = self.jumps.iter().sum();
        let rest = (tracks % surfaces) as usize;
        let jumps: f64 = (from..from + rest).map(|track| self.jumps[track % self.jumps.len()]).sum();
        tracks as f64 * self.sectors as f64 * self.per_sector + whole as f64 * of_cylinder + jumps
    }
}

impl Tracks {
    /// Position of a sector.
    pub fn place(&self, lba: u64) -> Place {
        self.find(lba).map_or_else(Place::default, |(place, _)| place)
    }

    /// Positions of the first and the last sector of a range.
    pub(super) fn places(&self, lba: u64, sectors: u64) -> (Place, Place) {
        let Some((first, on_track)) = self.find(lba) else { return Default::default() };
        let more = sectors.saturating_sub(1);
        // Most requests end on the track on which they begin.
        let last = match more < on_track {
            true => Place { turned: first.turned + more as f64 * first.per_sector, ..first },
            false => self.place(lba + more),
        };
        (first, last)
    }

    /// The position of a sector, and the number of sectors from there to the end of its track or stretch.
    fn find(&self, lba: u64) -> Option<(Place, u64)> {
        let after = self.stretches.partition_point(|stretch| stretch.first <= lba).max(1);
        let (number, stretch) = (after - 1, self.stretches.get(after - 1)?);
        let zone = &self.zones[stretch.zone];
        let offset = lba.saturating_sub(stretch.first);
        let (tracks, sector) = (offset / zone.sectors, offset % zone.sectors);
        let turned = stretch.angle + zone.turned(stretch.track, tracks) + sector as f64 * zone.per_sector;
        let cylinder = stretch.cylinder + (stretch.track as u64 + tracks) / zone.jumps.len() as u64;
        let to_next = self.stretches.get(after).map_or(u64::MAX, |next| next.first.saturating_sub(lba));
        let place = Place { turned, per_sector: zone.per_sector, cylinder, stretch: number };
        Some((place, (zone.sectors - sector).min(to_next)))
    }

    /// Checks the invariants that lookups rely on.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.stretches.is_empty() || self.stretches.len() > MOST_STRETCHES {
            return Err(format!("there are {} stretches of tracks; 1 to {MOST_STRETCHES} are right", self.stretches.len()));
        }
        for (number, zone) in self.zones.iter().enumerate() {
            let is_right = (1e-6..=0.5).contains(&zone.per_sector)
                && (1..=1 << 24).contains(&zone.sectors)
                && (1..=MOST_SURFACES).contains(&zone.jumps.len())
                && zone.jumps.iter().all(|jump| jump.abs() <= 1.0);
            if !is_right {
                return Err(format!(
                    "zone {number} has {} sectors of {} turns, and jumps {:?}",
                    zone.sectors, zone.per_sector, zone.jumps
                ));
            }
        }
        for (number, stretch) in self.stretches.iter().enumerate() {
            let zone = self.zones.get(stretch.zone);
            let is_right = zone.is_some_and(|zone| stretch.track < zone.jumps.len())
                && (0.0..=1.0).contains(&stretch.angle)
                && stretch.cylinder < 1 << 32
                && stretch.first < 1 << 56;
            if !is_right {
                return Err(format!(
                    "stretch {number} begins at sector {}, at track {} of zone {}",
                    stretch.first, stretch.track, stretch.zone
                ));
            }
        }
        match self.stretches.windows(2).position(|pair| pair[0].first >= pair[1].first) {
            Some(number) => Err(format!("stretch {} begins before stretch {number}", number + 1)),
            None => Ok(()),
        }
    }
}

/// The fractional part of a number of revolutions.
#[inline]
pub(super) fn part(turns: f64) -> f64 {
    turns - turns.floor()
}

/// Signed distance from the nearest whole number of revolutions.
#[inline]
pub(super) fn off(turns: f64) -> f64 {
    turns - turns.round()
}
