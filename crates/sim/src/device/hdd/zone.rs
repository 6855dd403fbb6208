//! A zone: a range of cylinders with the same number of sectors per track.

use super::region::Regions;
use super::shifts::Shifts;
use super::spec::{Geometry, Sparing, ZoneSpecification};
use crate::device::reciprocal::Reciprocal32;

/// A fraction of a revolution in units of 2⁻⁶⁴, so that additions wrap at a full revolution.
pub type Angle = u64;

/// `count` physical sectors from `bad` on are replaced by those from `good` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Remap {
    bad: u32,
    good: u32,
    count: u32,
}

/// Angles at which tracks begin.
#[derive(Debug, PartialEq, Eq)]
struct Skews {
    origin: Angle,
    track: Angle,
    cylinder: Angle,
    /// On some disks the skew is counted in data sectors, so that every slip before the cylinder or track increases it: number of
    /// tracks in such a unit. `None` on all others.
    follows_slips: Option<u32>,
    /// The slipped sectors, sorted.
    slips: Box<[u32]>,
}

impl Skews {
    fn new(geometry: &Geometry, spec: &ZoneSpecification, slips: Box<[u32]>) -> Skews {
        let per_track = spec.sectors_per_track;
        let surfaces = u32::from(geometry.surfaces);
        let track = angle_of(spec.track_skew, per_track, geometry);
        Skews {
            origin: angle_of(spec.first_sector_offset, per_track, geometry),
            track,
            cylinder: angle_of(spec.cylinder_skew, per_track, geometry).wrapping_add(track.wrapping_mul(u64::from(surfaces - 1))),
            follows_slips: match geometry.sparing {
                Sparing::SectorsPerTrack => Some(1),
                Sparing::SectorsPerCylinder
                | Sparing::SectorsPerCylinderSlipToEnd
                | Sparing::SectorsPerCylinderFront
                | Sparing::SectorsPerCylinderFrontSlipToEnd => Some(surfaces),
                _ => None,
            },
            slips,
        }
    }

    /// The angle at which the `ordinal`-th track of a cylinder begins, without the [slipped](Skews::slipped) sectors.
    fn begin(&self, cylinder: u32, ordinal: u32) -> Angle {
        self.origin
            .wrapping_add(self.cylinder.wrapping_mul(u64::from(cylinder)))
            .wrapping_add(self.track.wrapping_mul(u64::from(ordinal)))
    }

    /// Number of sectors by which slips increase the skew of a track.
    fn slipped(&self, track: u32, sectors_per_track: u32) -> u64 {
        match self.follows_slips {
            Some(tracks) if !self.slips.is_empty() => {
                let first = (track - track % tracks) * sectors_per_track;
                self.slips.partition_point(|&slip| slip < first) as u64
            }
            _ => 0,
        }
    }
}

/// Precomputed layout of a zone.
#[derive(Debug, PartialEq, Eq)]
pub struct Zone {
    /// Its first LBA.
    pub first_lba: u64,
    /// Number of its LBAs.
    pub sectors: u32,
    /// Physical sectors per track.
    pub sectors_per_track: u32,
    /// Angle of one sector.
    pub sector_angle: Angle,
    /// Absolute number of its first cylinder.
    pub first_cylinder: u32,
    /// Divides by the sectors per track.
    pub(super) by_track: Reciprocal32,
    /// Whether its LBAs are contiguous from the first to the last.
    pub(super) is_unbroken: bool,
    reserved: u32,
    regions: Regions,
    shifts: Shifts,
    remaps: Box<[Remap]>,
    skews: Skews,
}

impl Zone {
    /// The zone whose first LBA is `first_lba` and whose first cylinder is `next_cylinder` or later.
    ///
    /// # Errors
    /// A value is invalid; the message names its key within the zone.
    pub(super) fn new(geometry: &Geometry, spec: &ZoneSpecification, first_lba: u64, next_cylinder: u32) -> Result<Zone, String> {
        let per_track = spec.sectors_per_track;
        let total = physical_sectors(geometry, spec, next_cylinder)?;
        let unit = if geometry.sparing == Sparing::Track { per_track } else { 1 };
        let regions = Regions::new(geometry, spec, unit, total)?;
        let slips = if geometry.sparing == Sparing::None { Vec::new() } else { sorted_slips(&spec.slips, total / unit)? };
        let shifts = Shifts::new(&regions, &slips, unit, total)?;
        let slips = if unit == 1 { slips.into() } else { Box::default() };
        let skews = Skews::new(geometry, spec, slips);
        let remaps = remaps(&spec.remaps, unit, total)?;
        let mut zone = Zone {
            first_lba,
            sectors: 0,
            sectors_per_track: per_track,
            sector_angle: sector_angle(per_track),
            first_cylinder: spec.first_cylinder,
            by_track: Reciprocal32::new(per_track),
            is_unbroken: shifts.len() == 0 && remaps.is_empty() && regions.sectors >= total,
            reserved: 0,
            regions,
            shifts,
            remaps,
            skews,
        };
        zone.reserve(spec.reserved_sectors, total)?;
        Ok(zone)
    }

    /// Sets the reserved sectors at the front, and computes the number of LBAs.
    fn reserve(&mut self, reserved: u32, total: u32) -> Result<(), String> {
        let regions = total / self.regions.sectors;
        let rest = total % self.regions.sectors;
        let in_rest = self.skews.slips.iter().filter(|&&slip| slip >= total - rest).count() as u32;
        let slipped = if self.regions.slips_leave { self.shifts.len() as u32 } else { 0 };
        let data = regions * self.regions.data + rest.saturating_sub(in_rest).min(self.regions.data);
        self.sectors = data.saturating_sub(slipped).saturating_sub(reserved);
        if self.sectors == 0 {
            return Err(format!("reserved_sectors: {reserved} leave nothing of the zone's {data}"));
        }
        self.reserved = reserved;
        Ok(())
    }

    /// The physical sector of a zone's LBA, and the length of the run until the next slip, remap or region boundary.
    pub(super) fn physical(&self, relative: u32) -> (u32, u32) {
        let mut data = relative + self.reserved;
        let (shift, mut run) = self.shifts.at(data);
        if self.regions.slips_leave {
            data = data.wrapping_add_signed(shift);
        }
        let (region, offset) = self.regions.split(data);
        run = run.min(self.regions.data - offset).min(self.sectors - relative);
        let within_region = if self.regions.slips_leave { 0 } else { shift };
        let physical = (region * self.regions.sectors + self.regions.front + offset).wrapping_add_signed(within_region);
        if self.remaps.is_empty() { (physical, run) } else { self.remapped(physical, run) }
    }

    #[cold]
    fn remapped(&self, physical: u32, run: u32) -> (u32, u32) {
        let next = self.remaps.partition_point(|remap| remap.bad <= physical);
        let run = run.min(self.remaps.get(next).map_or(u32::MAX, |remap| remap.bad - physical));
        match next.checked_sub(1).map(|last| self.remaps[last]) {
            Some(Remap { bad, good, count }) if physical - bad < count => (good + physical - bad, run.min(bad + count - physical)),
            _ => (physical, run),
        }
    }

    /// The angle at which a sector of a track begins: the `ordinal`-th track of a cylinder.
    pub(super) fn angle(&self, track: u32, cylinder: u32, ordinal: u32, sector: u32) -> Angle {
        let sectors = u64::from(sector) + self.skews.slipped(track, self.sectors_per_track);
        self.skews.begin(cylinder, ordinal).wrapping_add(self.sector_angle.wrapping_mul(sectors))
    }
}

/// Number of physical sectors of a zone.
fn physical_sectors(geometry: &Geometry, spec: &ZoneSpecification, next_cylinder: u32) -> Result<u32, String> {
    if spec.first_cylinder < next_cylinder {
        return Err(format!("first_cylinder: {} lies in the zone before; at least {next_cylinder}", spec.first_cylinder));
    }
    if spec.last_cylinder < spec.first_cylinder || spec.last_cylinder >= geometry.cylinders {
        let (first, last) = (spec.first_cylinder, geometry.cylinders.saturating_sub(1));
        return Err(format!("last_cylinder: {} is not within {first} to {last}", spec.last_cylinder));
    }
    let per_track = spec.sectors_per_track;
    let cylinders = spec.last_cylinder - spec.first_cylinder + 1;
    let per_cylinder = u64::from(per_track) * u64::from(geometry.surfaces);
    let total = per_cylinder.saturating_mul(u64::from(cylinders));
    if per_track == 0 || total > u64::from(u32::MAX / 2) {
        return Err(format!("sectors_per_track: {per_track} makes a zone of {total} sectors; 1 to 2147483647 are possible"));
    }
    Ok(total as u32)
}

/// The slips of a zone of `units` units, sorted, each once.
fn sorted_slips(slips: &[u32], units: u32) -> Result<Vec<u32>, String> {
    let mut sorted = slips.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    match sorted.last().filter(|&&last| last >= units) {
        Some(last) => Err(format!("slips: {last} lies outside the zone; at most {}", units - 1)),
        None => Ok(sorted),
    }
}

/// The remaps of a zone, sorted by bad sector.
fn remaps(remaps: &[(u32, u32)], unit: u32, total: u32) -> Result<Box<[Remap]>, String> {
    let mut sorted: Vec<Remap> = Vec::with_capacity(remaps.len());
    for &(bad, good) in remaps {
        if bad.max(good) >= total / unit {
            return Err(format!("remaps: [{bad}, {good}] lies outside the zone; at most {}", total / unit - 1));
        }
        if bad != good {
            sorted.push(Remap { bad: bad * unit, good: good * unit, count: unit });
        }
    }
    sorted.sort_unstable_by_key(|remap| remap.bad);
    if let Some(pair) = sorted.windows(2).find(|pair| pair[0].bad == pair[1].bad) {
        return Err(format!("remaps: {} is remapped twice", pair[0].bad / unit));
    }
    Ok(sorted.into())
}

/// 2⁶⁴ / sectors, rounded down; for a single sector, a revolution less 2⁻⁶⁴.
fn sector_angle(sectors_per_track: u32) -> Angle {
    u64::MAX / u64::from(sectors_per_track)
}

/// Converts a skew in the geometry's unit to an angle. Whole sectors are exact.
fn angle_of(skew: f64, sectors_per_track: u32, geometry: &Geometry) -> Angle {
    if geometry.skew_in_revolutions {
        return (skew.rem_euclid(1.0) * 2f64.powi(64)) as u64;
    }
    // DiskSim drops fractions of a sector as well.
    sector_angle(sectors_per_track).wrapping_mul(skew.trunc().rem_euclid(f64::from(sectors_per_track)) as u64)
}
