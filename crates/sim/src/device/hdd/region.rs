//! The regions of a zone: a track, a cylinder, a range of cylinders or the whole zone, each of which ends or begins with spares.

use super::spec::{Geometry, Sparing, ZoneSpecification};
use crate::device::reciprocal::Reciprocal32;

/// Division of a zone's physical sectors into regions of equal size, the last of which may be cut off.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Regions {
    /// Sectors of a region.
    pub sectors: u32,
    /// Those that hold data.
    pub data: u32,
    by_data: Reciprocal32,
    /// Spares before the data; the others are behind them.
    pub front: u32,
    /// Whether a slip uses no spares and shifts all later data of the zone, not only those of its region.
    pub slips_leave: bool,
}

impl Regions {
    /// The regions of a zone of `total` sectors, whose spares are units of `unit` sectors.
    ///
    /// # Errors
    /// The spares leave no room for data.
    pub(super) fn new(geometry: &Geometry, spec: &ZoneSpecification, unit: u32, total: u32) -> Result<Regions, String> {
        let per_cylinder = u64::from(spec.sectors_per_track) * u64::from(geometry.surfaces);
        let sectors = match geometry.sparing {
            Sparing::SectorsPerTrack => spec.sectors_per_track,
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
        if spares >= u64::from(sectors) {
            let most = u64::from(sectors / unit).saturating_sub(1);
            return Err(format!("spares: {} leave no room for data; at most {most}", spec.spares));
        }
        let at_front = matches!(geometry.sparing, Sparing::SectorsPerCylinderFront | Sparing::SectorsPerCylinderFrontSlipToEnd);
        let slips_leave = matches!(
            geometry.sparing,
            Sparing::SectorsPerCylinderSlipToEnd
                | Sparing::SectorsPerCylinderFrontSlipToEnd
                | Sparing::EndOfDisk
                | Sparing::ZoneSlipToEnd
        );
        let data = sectors - spares as u32;
        let front = if at_front { spares as u32 } else { 0 };
        Ok(Regions { sectors, data, by_data: Reciprocal32::new(data), front, slips_leave })
    }

    /// The region of a data position, and the position within the region's data.
    pub(super) fn split(&self, data: u32) -> (u32, u32) {
        if data < self.data { (0, data) } else { self.by_data.divide(data) }
    }

    /// Number of spares at the front of a region that its data use: as many as sectors are slipped from there on, including bad
    /// spares.
    pub(super) fn drawn_forward(&self, slips: &[u32]) -> u32 {
        let slipped_from = |first: u32| slips.iter().filter(|&&slip| slip % self.sectors >= first).count() as u32;
        let mut drawn = 0;
        while self.front > 0 && drawn <= self.front {
            let slipped = slipped_from(self.front - drawn);
            if slipped == drawn {
                break;
            }
            drawn = slipped;
        }
        drawn
    }

    /// Number of spares of a region. The last range of a zone may be shorter than the others: it has no spares and no limit.
    pub(super) fn spares_of(&self, region: u32, total: u32) -> u32 {
        let end = (u64::from(region) + 1) * u64::from(self.sectors);
        if end <= u64::from(total) { self.sectors - self.data } else { u32::MAX }
    }
}
