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

use super::spec::{Geometry, Mapping, ZoneSpecification};
use super::zone::{MAX_SECTORS, Zone};
use crate::device::reciprocal::Reciprocal32;

pub use super::zone::Angle;

/// Location of an LBA, and the length of the contiguous run that starts there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectorLocation {
    /// Index into [`HddLayout::zones`].
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

/// Precomputed layout of a disk.
#[derive(Debug, PartialEq, Eq)]
pub struct HddLayout {
    /// The zones, by LBA; a large one in several parts.
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
        HddLayout::in_parts(geometry, zones, MAX_SECTORS)
    }

    /// [`HddLayout::new`] with zones split into parts of at most `most` sectors. That changes no location but its index of the zone.
    pub(super) fn in_parts(geometry: &Geometry, zones: &[ZoneSpecification], most: u32) -> Result<HddLayout, String> {
        let mut built: Vec<Zone> = Vec::with_capacity(zones.len());
        let mut next_lba = 0;
        let mut next_cylinder = 0;
        for (index, spec) in zones.iter().enumerate() {
            let parts = Zone::parts(geometry, spec, next_lba, next_cylinder, most).map_err(|e| format!("zone[{index}].{e}"))?;
            next_lba += parts.iter().map(|zone| u64::from(zone.sectors)).sum::<u64>();
            next_cylinder = spec.last_cylinder + 1;
            built.extend(parts);
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
        if zone.is_unbroken && start >= zone.first_lba {
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
