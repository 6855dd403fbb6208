//! A zone: a range of cylinders with the same number of sectors per track. A zone with more sectors than 32 bits can count is
//! built as several parts, which are zones themselves.

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

    /// Makes these the skews of a part of a zone, which continue those of the parts before.
    fn advance(&mut self, part: &Part, sector_angle: Angle) {
        self.origin = self.origin.wrapping_add(self.cylinder.wrapping_mul(u64::from(part.cylinders_before)));
        if self.follows_slips.is_some() {
            self.origin = self.origin.wrapping_add(sector_angle.wrapping_mul(part.slips_before));
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

/// Maximum physical sectors of a zone or of a part of one: positions are 32 bits wide, and sums of two do not overflow.
pub(super) const MAX_SECTORS: u32 = u32::MAX / 2;

/// Maximum physical sectors of a zone, in parts: 512 TiB.
const MAX_ZONE_SECTORS: u64 = 1 << 40;

impl Zone {
    /// The zone whose first LBA is `first_lba` and whose first cylinder is `next_cylinder` or later; in parts of at most `most` sectors, which
    /// is [`MAX_SECTORS`] or less.
    ///
    /// # Errors
    /// A value is invalid; the message names its key within the zone.
    pub(super) fn parts(
        geometry: &Geometry,
        spec: &ZoneSpecification,
        first_lba: u64,
        next_cylinder: u32,
        most: u32,
    ) -> Result<Vec<Zone>, String> {
        if physical_sectors(geometry, spec, next_cylinder)? <= u64::from(most) {
            return Ok(vec![Zone::new(geometry, spec, first_lba, next_cylinder)?]);
        }
        let (mut parts, mut next_lba) = (Vec::new(), first_lba);
        for part in split(geometry, spec, most)? {
            let mut zone = Zone::new(geometry, &part.spec, next_lba, part.spec.first_cylinder)?;
            zone.skews.advance(&part, zone.sector_angle);
            next_lba += u64::from(zone.sectors);
            parts.push(zone);
        }
        Ok(parts)
    }

    /// The zone whose first LBA is `first_lba` and whose first cylinder is `next_cylinder` or later.
    ///
    /// # Errors
    /// A value is invalid; the message names its key within the zone.
    fn new(geometry: &Geometry, spec: &ZoneSpecification, first_lba: u64, next_cylinder: u32) -> Result<Zone, String> {
        let per_track = spec.sectors_per_track;
        // No more than `MAX_SECTORS`, or `parts` splits it.
        let total = physical_sectors(geometry, spec, next_cylinder)?.min(u64::from(MAX_SECTORS)) as u32;
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

/// A part of a zone.
struct Part {
    spec: ZoneSpecification,
    /// Cylinders of the zone before it.
    cylinders_before: u32,
    /// Slips of the zone before it.
    slips_before: u64,
}

/// Splits a zone into parts of nearly the same size, at most `most` sectors, that have the same layout together as the zone has.
fn split(geometry: &Geometry, spec: &ZoneSpecification, most: u32) -> Result<Vec<Part>, String> {
    let per_track = spec.sectors_per_track;
    let per_cylinder = u64::from(per_track) * u64::from(geometry.surfaces);
    // Whole regions of spares, and an even number of cylinders, of which every second may be numbered backwards.
    let range = if geometry.sparing == Sparing::SectorsPerRange { geometry.sparing_range_cylinders.max(1) } else { 1 };
    let step = if range % 2 == 0 { u64::from(range) } else { 2 * u64::from(range) };
    let cylinders = u64::from(spec.last_cylinder - spec.first_cylinder + 1);
    let steps = u64::from(most) / per_cylinder.saturating_mul(step).max(1);
    if steps == 0 || steps == 1 && range > 1 {
        let sectors = per_cylinder.saturating_mul(step);
        return Err(format!(
            "sectors_per_track: {per_track} makes {sectors} sectors in {step} cylinders; at most {most} are possible in a zone of more than {most}"
        ));
    }
    if matches!(geometry.sparing, Sparing::Track | Sparing::Zone) && !spec.slips.is_empty() {
        return Err(format!(
            "slips: a zone of more than {most} sectors with spares at its end can have none; several smaller zones can"
        ));
    }
    let parts = cylinders.div_ceil(steps * step);
    let length = cylinders.div_ceil(parts).next_multiple_of(step) as u32;
    let of_zone = matches!(geometry.sparing, Sparing::Track | Sparing::Zone | Sparing::ZoneSlipToEnd);
    // Units of slips and remaps: tracks or sectors.
    let is_in_tracks = geometry.sparing == Sparing::Track;
    let units = if is_in_tracks { u64::from(geometry.surfaces) } else { per_cylinder };
    let end = cylinders * units;
    let mut parts = Vec::new();
    let (mut slips_placed, mut remaps_placed) = (0, 0);
    let mut slips = if geometry.sparing == Sparing::None { Vec::new() } else { spec.slips.clone() };
    slips.sort_unstable();
    slips.dedup();
    if let Some(last) = slips.last().filter(|&&last| u64::from(last) >= end) {
        return Err(format!("slips: {last} lies outside the zone; at most {}", end - 1));
    }
    if let Some((bad, good)) = spec.remaps.iter().find(|(bad, good)| u64::from(*bad.max(good)) >= end) {
        return Err(format!("remaps: [{bad}, {good}] lies outside the zone; at most {}", end - 1));
    }
    let mut first_cylinder = spec.first_cylinder;
    loop {
        let mut last_cylinder = spec.last_cylinder.min(first_cylinder.saturating_add(length - 1));
        if (1..range).contains(&(spec.last_cylinder - last_cylinder)) {
            // A cut-off range has no spares, unless it is all of a zone: the last part gets a whole one, too.
            last_cylinder -= step as u32;
        }
        let cylinders_before = first_cylinder - spec.first_cylinder;
        let begin = u64::from(cylinders_before) * units;
        let here = begin..u64::from(last_cylinder - spec.first_cylinder + 1) * units;
        let within = |unit: u32| here.contains(&u64::from(unit)).then(|| (u64::from(unit) - begin) as u32);
        let (slips, remaps): (Vec<u32>, Vec<(u32, u32)>) = (
            slips.iter().filter_map(|&slip| within(slip)).collect(),
            spec.remaps.iter().filter_map(|&(bad, good)| Some((within(bad)?, within(good)?))).collect(),
        );
        let slips_before = slips_placed as u64;
        (slips_placed, remaps_placed) = (slips_placed + slips.len(), remaps_placed + remaps.len());
        let is_last = last_cylinder == spec.last_cylinder;
        let part = ZoneSpecification {
            first_cylinder,
            last_cylinder,
            reserved_sectors: if first_cylinder == spec.first_cylinder { spec.reserved_sectors } else { 0 },
            spares: if of_zone && !is_last { 0 } else { spec.spares },
            slips,
            remaps,
            ..spec.clone()
        };
        parts.push(Part { spec: part, cylinders_before, slips_before });
        if is_last {
            break;
        }
        first_cylinder = last_cylinder + 1;
    }
    if remaps_placed < spec.remaps.len() {
        return Err(format!(
            "remaps: a zone of more than {most} sectors is laid out in parts of {length} cylinders; a bad place and its replacement should be in \
             the same part, or the zone be written as several"
        ));
    }
    Ok(parts)
}

/// Number of physical sectors of a zone.
fn physical_sectors(geometry: &Geometry, spec: &ZoneSpecification, next_cylinder: u32) -> Result<u64, String> {
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
    if per_track == 0 || total > MAX_ZONE_SECTORS {
        return Err(format!(
            "sectors_per_track: {per_track} makes a zone of {total} sectors; 1 to {MAX_ZONE_SECTORS} are possible"
        ));
    }
    Ok(total)
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
