//! Physical location of logical sectors: zones, skews, spares, slips and remaps.
//!
//! ```text
//! LBA ──zone table──▶ zone ──+reserved──▶ data position ──regions, slips──▶ physical sector of the zone
//!                                                                            │ ÷ sectors per track
//!                      angle ◀── skews ── (cylinder, head, sector) ◀─────────┘ ÷ surfaces
//! ```
//!
//! A zone's physical sectors are numbered in the order in which LBAs use them. Sparing divides the zone into regions (a track, a
//! cylinder, a range of cylinders, the zone), each of which ends or begins with spares. A slip is a bad sector that the numbering
//! skips: every later data position of the region (or of the zone) is shifted by one. A sorted table of the positions where the
//! shift changes reduces this to one search. The rules are those of DiskSim's `dm_layout_g1` (`layout_g1.modspec`).

use super::spec::{Geometry, Mapping, Sparing, ZoneSpecification};
use crate::device::reciprocal::Reciprocal32;

/// A fraction of a revolution in units of 2⁻⁶⁴, so that additions wrap at a full revolution.
pub type Angle = u64;

/// Location of an LBA, and the length of the contiguous run that starts there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectorLocation {
    /// Index of the zone.
    pub zone: u16,
    /// Head; 0 is the first surface.
    pub head: u16,
    /// Absolute cylinder.
    pub cylinder: u32,
    /// Physical sector on the track.
    pub sector: u32,
    /// Number of consecutive LBAs from this one on that are contiguous on this track; at least 1.
    pub run: u32,
    /// Angle at which the sector begins.
    pub angle: Angle,
}

impl SectorLocation {
    /// Whether both are on the same track.
    pub fn same_track(&self, other: &SectorLocation) -> bool {
        (self.cylinder, self.head) == (other.cylinder, other.head)
    }
}

/// Data positions of the zone from `position` on, before `until`, are shifted by `shift` sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shift {
    position: u32,
    until: u32,
    shift: i32,
}

/// `count` physical sectors from `bad` on are replaced by those from `good` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Remap {
    bad: u32,
    good: u32,
    count: u32,
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
    first_cylinder: u32,
    reserved: u32,
    region_sectors: u32,
    region_data: u32,
    by_region_data: Reciprocal32,
    by_track: Reciprocal32,
    region_front: u32,
    slips_leave_region: bool,
    /// Whether its LBAs are contiguous from the first to the last.
    unbroken: bool,
    skew_follows_slips: Option<u32>,
    /// Sorted by position; after [`index_shifts`](Zone::index_shifts) with a sentinel at either end.
    shifts: Box<[Shift]>,
    /// Index into [`shifts`](Zone::shifts) for the start of each bucket of 2^`shift_bucket_bits` data positions.
    shift_buckets: Box<[u32]>,
    shift_bucket_bits: u32,
    slips: Box<[u32]>,
    remaps: Box<[Remap]>,
    origin: Angle,
    track_skew: Angle,
    cylinder_skew: Angle,
}

/// Precomputed layout of a disk.
#[derive(Debug, PartialEq, Eq)]
pub struct HddLayout {
    /// The zones, by LBA.
    pub zones: Box<[Zone]>,
    /// Number of LBAs.
    pub capacity_sectors: u64,
    surfaces: u32,
    by_surfaces: Reciprocal32,
    mapping: Mapping,
    /// The zone of the first LBA of each bucket of 2^`bucket_bits` LBAs.
    buckets: Box<[u16]>,
    bucket_bits: u32,
}

/// Number of buckets that map LBAs to zones: few enough to stay in the first-level cache.
const BUCKETS: u64 = 1024;

impl HddLayout {
    /// Precomputes the tables of a geometry.
    ///
    /// # Errors
    /// A value is invalid; the message names its key in the profile, the value and the valid range.
    pub fn new(geometry: &Geometry, zones: &[ZoneSpecification]) -> Result<HddLayout, String> {
        let mut built: Vec<Zone> = Vec::with_capacity(zones.len());
        let mut next_lba = 0;
        let mut next_cylinder = 0;
        for (index, spec) in zones.iter().enumerate() {
            let zone = Zone::new(geometry, spec, next_lba, next_cylinder).map_err(|e| format!("zone[{index}].{e}"))?;
            next_lba += u64::from(zone.sectors);
            next_cylinder = spec.last_cylinder + 1;
            built.push(zone);
        }
        if built.len() > usize::from(u16::MAX) {
            return Err(format!("zone: there are {}; at most {} are possible", built.len(), u16::MAX));
        }
        if built.is_empty() {
            return Err("zone: there is none; a disk needs at least one [[zone]]".to_owned());
        }
        let capacity_sectors = geometry.capacity_sectors.unwrap_or(next_lba);
        if capacity_sectors == 0 || capacity_sectors > next_lba {
            return Err(format!(
                "geometry.capacity_sectors: {capacity_sectors} is not within 1 to {next_lba}, the capacity of the zones"
            ));
        }
        let bucket_bits = (0..64).find(|bits| capacity_sectors >> bits < BUCKETS).unwrap_or(0);
        let buckets = (0..=capacity_sectors >> bucket_bits)
            .map(|bucket| (built.partition_point(|zone| zone.first_lba <= bucket << bucket_bits) - 1) as u16)
            .collect();
        Ok(HddLayout {
            zones: built.into(),
            capacity_sectors,
            surfaces: u32::from(geometry.surfaces),
            by_surfaces: Reciprocal32::new(u32::from(geometry.surfaces)),
            mapping: geometry.mapping,
            buckets,
            bucket_bits,
        })
    }

    /// The location of an LBA; of the last one if it is beyond the disk.
    pub fn locate(&self, lba: u64) -> SectorLocation {
        let lba = lba.min(self.capacity_sectors - 1);
        let mut index = usize::from(self.buckets[(lba >> self.bucket_bits) as usize]);
        let mut zone = &self.zones[index];
        // The zones' LBAs are contiguous, and the disk ends within the last zone or before.
        while lba - zone.first_lba >= u64::from(zone.sectors) {
            index += 1;
            zone = &self.zones[index];
        }
        let (physical, run) = zone.physical((lba - zone.first_lba) as u32);
        let (track, sector) = zone.by_track.divide(physical);
        let (cylinder, ordinal) = self.by_surfaces.divide(track);
        SectorLocation {
            zone: index as u16,
            head: self.head(zone, cylinder, ordinal),
            cylinder: zone.first_cylinder + cylinder,
            sector,
            run: run.min(zone.sectors_per_track - sector),
            angle: zone.angle(track, cylinder, ordinal, sector),
        }
    }

    /// The location of the LBA `sectors` after the one at `place`. They must be in the same run.
    pub fn further(&self, place: &SectorLocation, sectors: u32) -> SectorLocation {
        debug_assert!(sectors < place.run, "{sectors} sectors leave a run of {}", place.run);
        let step = self.zones[usize::from(place.zone)].sector_angle.wrapping_mul(u64::from(sectors));
        SectorLocation { sector: place.sector + sectors, run: place.run - sectors, angle: place.angle.wrapping_add(step), ..*place }
    }

    /// The LBA after the last one on the track of `lba`, which is at `place`.
    pub fn track_end(&self, lba: u64, place: &SectorLocation) -> u64 {
        let mut end = lba + u64::from(place.run);
        if place.sector + place.run < self.zones[usize::from(place.zone)].sectors_per_track {
            while end < self.capacity_sectors {
                let next = self.locate(end);
                if !next.same_track(place) {
                    break;
                }
                end += u64::from(next.run);
            }
        }
        end.min(self.capacity_sectors)
    }

    /// The first LBA on the track of `lba`, which is at `place`.
    pub fn track_start(&self, lba: u64, place: &SectorLocation) -> u64 {
        // With slips and spares this is too early.
        let mut start = lba.saturating_sub(u64::from(place.sector));
        let zone = &self.zones[usize::from(place.zone)];
        if zone.unbroken && start >= zone.first_lba {
            return start;
        }
        while start < lba {
            let there = self.locate(start);
            if there.same_track(place) {
                break;
            }
            start += u64::from(there.run);
        }
        start.min(lba)
    }

    /// The surface of the `ordinal`-th track of a cylinder.
    fn head(&self, zone: &Zone, cylinder: u32, ordinal: u32) -> u16 {
        let backwards = match self.mapping {
            Mapping::Conventional => false,
            Mapping::SerpentinePerZone => cylinder % 2 == 1,
            Mapping::Serpentine => (zone.first_cylinder + cylinder) % 2 == 1,
        };
        // Without a branch: the direction of a random cylinder is unpredictable.
        let other_way = (self.surfaces - 1).wrapping_sub(2 * ordinal);
        ordinal.wrapping_add(u32::from(backwards).wrapping_mul(other_way)) as u16
    }
}

impl Zone {
    fn new(geometry: &Geometry, spec: &ZoneSpecification, first_lba: u64, next_cylinder: u32) -> Result<Zone, String> {
        let surfaces = u32::from(geometry.surfaces);
        if spec.first_cylinder < next_cylinder {
            return Err(format!("first_cylinder: {} lies in the zone before; at least {next_cylinder}", spec.first_cylinder));
        }
        if spec.last_cylinder < spec.first_cylinder || spec.last_cylinder >= geometry.cylinders {
            let (first, last) = (spec.first_cylinder, geometry.cylinders.saturating_sub(1));
            return Err(format!("last_cylinder: {} is not within {first} to {last}", spec.last_cylinder));
        }
        let per_track = spec.sectors_per_track;
        let cylinders = spec.last_cylinder - spec.first_cylinder + 1;
        let per_cylinder = u64::from(per_track) * u64::from(surfaces);
        let total = per_cylinder.saturating_mul(u64::from(cylinders));
        if per_track == 0 || total > u64::from(u32::MAX / 2) {
            return Err(format!("sectors_per_track: {per_track} makes a zone of {total} sectors; 1 to 2147483647 are possible"));
        }
        let total = total as u32;
        let unit = if geometry.sparing == Sparing::Track { per_track } else { 1 };
        let region = match geometry.sparing {
            Sparing::SectorsPerTrack => per_track,
            Sparing::SectorsPerCylinder
            | Sparing::SectorsPerCylinderSlipToEnd
            | Sparing::SectorsPerCylinderFront
            | Sparing::SectorsPerCylinderFrontSlipToEnd => per_cylinder as u32,
            Sparing::SectorsPerRange => {
                (per_cylinder * u64::from(geometry.sparing_range_cylinders.max(1))).min(u64::from(total)) as u32
            }
            Sparing::None | Sparing::Track | Sparing::EndOfDisk | Sparing::Zone | Sparing::ZoneSlipToEnd => total,
        };
        let spares = match geometry.sparing {
            Sparing::None | Sparing::EndOfDisk => 0,
            _ => u64::from(spec.spares) * u64::from(unit),
        };
        if spares >= u64::from(region) {
            let most = u64::from(region / unit).saturating_sub(1);
            return Err(format!("spares: {} leave no room for data; at most {most}", spec.spares));
        }
        let at_front = matches!(geometry.sparing, Sparing::SectorsPerCylinderFront | Sparing::SectorsPerCylinderFrontSlipToEnd);
        let slips_leave_region = matches!(
            geometry.sparing,
            Sparing::SectorsPerCylinderSlipToEnd
                | Sparing::SectorsPerCylinderFrontSlipToEnd
                | Sparing::EndOfDisk
                | Sparing::ZoneSlipToEnd
        );
        let mut zone = Zone {
            first_lba,
            sectors: 0,
            sectors_per_track: per_track,
            sector_angle: sector_angle(per_track),
            first_cylinder: spec.first_cylinder,
            reserved: 0,
            region_sectors: region,
            region_data: region - spares as u32,
            by_region_data: Reciprocal32::new(region - spares as u32),
            by_track: Reciprocal32::new(per_track),
            region_front: if at_front { spares as u32 } else { 0 },
            slips_leave_region,
            unbroken: false,
            skew_follows_slips: match geometry.sparing {
                Sparing::SectorsPerTrack => Some(1),
                Sparing::SectorsPerCylinder
                | Sparing::SectorsPerCylinderSlipToEnd
                | Sparing::SectorsPerCylinderFront
                | Sparing::SectorsPerCylinderFrontSlipToEnd => Some(surfaces),
                _ => None,
            },
            shifts: Box::default(),
            shift_buckets: Box::default(),
            shift_bucket_bits: 0,
            slips: Box::default(),
            remaps: Box::default(),
            origin: angle_of(spec.first_sector_offset, per_track, geometry),
            track_skew: angle_of(spec.track_skew, per_track, geometry),
            cylinder_skew: Angle::default(),
        };
        zone.cylinder_skew =
            angle_of(spec.cylinder_skew, per_track, geometry).wrapping_add(zone.track_skew.wrapping_mul(u64::from(surfaces - 1)));
        if geometry.sparing != Sparing::None {
            zone.slip(&spec.slips, unit, total)?;
        }
        zone.remap(&spec.remaps, unit, total)?;
        zone.reserve(spec.reserved_sectors, total)?;
        zone.unbroken = zone.shifts.is_empty() && zone.remaps.is_empty() && region >= total;
        zone.index_shifts(total);
        Ok(zone)
    }

    /// Sets the slips: sectors, or tracks if whole tracks are spared.
    fn slip(&mut self, slips: &[u32], unit: u32, total: u32) -> Result<(), String> {
        let mut sorted = slips.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        if let Some(last) = sorted.last().filter(|&&last| last >= total / unit) {
            return Err(format!("slips: {last} lies outside the zone; at most {}", total / unit - 1));
        }
        let mut shifts = Vec::with_capacity(sorted.len());
        let physical = sorted.iter().map(|slip| slip * unit).collect::<Vec<_>>();
        if self.slips_leave_region {
            self.slip_to_end(&physical, &mut shifts);
        } else {
            for slips in physical.chunk_by(|a, b| a / self.region_sectors == b / self.region_sectors) {
                self.slip_within_region(slips, unit, total, &mut shifts)?;
            }
        }
        self.shifts = shifts.into();
        if unit == 1 {
            self.slips = sorted.into();
        }
        Ok(())
    }

    /// Slips that use no spares shift all later data of the zone.
    fn slip_to_end(&self, slips: &[u32], shifts: &mut Vec<Shift>) {
        for &slip in slips {
            let (region, offset) = (slip / self.region_sectors, slip % self.region_sectors);
            // A bad spare holds no data: nothing is shifted.
            if (self.region_front..self.region_front + self.region_data).contains(&offset) {
                let moved = shifts.len() as u32;
                let position = (region * self.region_data + offset - self.region_front).saturating_sub(moved);
                shifts.push(Shift { position, until: u32::MAX, shift: moved as i32 + 1 });
            }
        }
    }

    /// Slips of one region, whose spares take the shifted data.
    fn slip_within_region(&self, slips: &[u32], unit: u32, total: u32, shifts: &mut Vec<Shift>) -> Result<(), String> {
        let region = slips[0] / self.region_sectors;
        let first_data = region * self.region_data;
        let until = first_data + self.region_data;
        let drawn_forward = self.drawn_forward(slips);
        if drawn_forward > self.region_front {
            let (slips, spares) = (slips.len(), self.region_front);
            return Err(format!("slips: {slips} in one region are more than its {spares} spares can take"));
        }
        let mut moved = 0;
        if drawn_forward > 0 {
            shifts.push(Shift { position: first_data, until, shift: -(drawn_forward as i32) });
        }
        for offset in slips.iter().map(|slip| slip % self.region_sectors) {
            let first = self.region_front - drawn_forward;
            if offset < first || offset - first >= self.region_data + moved {
                // A bad spare holds no data: nothing is shifted.
                continue;
            }
            let spares = self.spares_of(region, total);
            if moved + unit > spares {
                let (slips, spares) = (slips.len(), spares / unit);
                return Err(format!("slips: {slips} in one region are more than its {spares} spares can take"));
            }
            let position = first_data + offset - first - moved;
            moved += unit;
            shifts.push(Shift { position, until, shift: moved as i32 - drawn_forward as i32 });
        }
        Ok(())
    }

    /// Number of spares at the front of a region that its data use: as many as sectors are slipped from there on, including bad
    /// spares.
    fn drawn_forward(&self, slips: &[u32]) -> u32 {
        let slipped_from = |first: u32| slips.iter().filter(|&&slip| slip % self.region_sectors >= first).count() as u32;
        let mut drawn = 0;
        while self.region_front > 0 && drawn <= self.region_front {
            let slipped = slipped_from(self.region_front - drawn);
            if slipped == drawn {
                break;
            }
            drawn = slipped;
        }
        drawn
    }

    /// Number of spares of a region. The last range of a zone may be shorter than the others: it has no spares and no limit.
    fn spares_of(&self, region: u32, total: u32) -> u32 {
        let end = (u64::from(region) + 1) * u64::from(self.region_sectors);
        if end <= u64::from(total) { self.region_sectors - self.region_data } else { u32::MAX }
    }

    fn remap(&mut self, remaps: &[(u32, u32)], unit: u32, total: u32) -> Result<(), String> {
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
        self.remaps = sorted.into();
        Ok(())
    }

    /// Sets the reserved sectors at the front, and computes the number of LBAs.
    fn reserve(&mut self, reserved: u32, total: u32) -> Result<(), String> {
        let regions = total / self.region_sectors;
        let rest = total % self.region_sectors;
        let in_rest = self.slips.iter().filter(|&&slip| slip >= total - rest).count() as u32;
        let slipped = if self.slips_leave_region { self.shifts.len() as u32 } else { 0 };
        let data = regions * self.region_data + rest.saturating_sub(in_rest).min(self.region_data);
        self.sectors = data.saturating_sub(slipped).saturating_sub(reserved);
        if self.sectors == 0 {
            return Err(format!("reserved_sectors: {reserved} leave nothing of the zone's {data}"));
        }
        self.reserved = reserved;
        Ok(())
    }

    /// The physical sector of a zone's LBA, and the length of the run until the next slip, remap or region boundary.
    fn physical(&self, relative: u32) -> (u32, u32) {
        let mut data = relative + self.reserved;
        let (shift, mut run) = self.shift_at(data);
        if self.slips_leave_region {
            data = data.wrapping_add_signed(shift);
        }
        let (region, offset) = if data < self.region_data { (0, data) } else { self.by_region_data.divide(data) };
        run = run.min(self.region_data - offset).min(self.sectors - relative);
        let within_region = if self.slips_leave_region { 0 } else { shift };
        let physical = (region * self.region_sectors + self.region_front + offset).wrapping_add_signed(within_region);
        if self.remaps.is_empty() { (physical, run) } else { self.remapped(physical, run) }
    }

    /// The shift of a data position, and the number of positions until it changes. Its step is the one in which its bucket begins
    /// or one shortly after.
    fn shift_at(&self, data: u32) -> (i32, u32) {
        let mut step = self.shift_buckets[(data >> self.shift_bucket_bits) as usize] as usize;
        while self.shifts[step + 1].position <= data {
            step += 1;
        }
        let Shift { until, shift, .. } = self.shifts[step];
        (if data < until { shift } else { 0 }, self.shifts[step + 1].position - data)
    }

    /// Prepares [`shift_at`](Zone::shift_at) for a zone of `total` sectors: adds sentinels, so that every position is in a step,
    /// and builds up to 8 buckets per step.
    fn index_shifts(&mut self, total: u32) {
        let edge = |position| Shift { position, until: 0, shift: 0 };
        let steps = std::iter::once(edge(0)).chain(self.shifts.iter().copied()).chain([edge(u32::MAX)]);
        self.shifts = steps.collect();
        let buckets = 8 * self.shifts.len() as u32;
        self.shift_bucket_bits = (0..32).find(|bits| total >> bits < buckets).unwrap_or(0);
        let begins = (0..=total >> self.shift_bucket_bits).map(|bucket| bucket << self.shift_bucket_bits);
        let step_at = |position| self.shifts.partition_point(|shift| shift.position <= position) as u32 - 1;
        self.shift_buckets = begins.map(step_at).collect();
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

    /// Number of slips before a track. On some disks the skew is counted in data sectors, so that every slip before the cylinder
    /// (or track) increases it.
    fn slips_before(&self, track: u32) -> u64 {
        let first = track * self.sectors_per_track;
        self.slips.partition_point(|&slip| slip < first) as u64
    }

    fn angle(&self, track: u32, cylinder: u32, ordinal: u32, sector: u32) -> Angle {
        let skewed_by_slips = match self.skew_follows_slips {
            Some(tracks) if !self.slips.is_empty() => self.slips_before(track - track % tracks),
            _ => 0,
        };
        self.origin
            .wrapping_add(self.cylinder_skew.wrapping_mul(u64::from(cylinder)))
            .wrapping_add(self.track_skew.wrapping_mul(u64::from(ordinal)))
            .wrapping_add(self.sector_angle.wrapping_mul(u64::from(sector) + skewed_by_slips))
    }
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
