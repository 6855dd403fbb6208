//! The stream of sectors under the head in closed form: per contiguous run, a start time and a rate.

use super::HddModel;
use super::layout::{Angle, SectorLocation};
use super::mechanics::{Arm, Motion, Positioning};

/// Contiguous sectors on a track, and when they pass the head.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// First LBA.
    pub lba: u64,
    /// LBA after the last one before a break: the end of the track, a slip, a remap.
    pub end: u64,
    /// Location of the first one.
    pub place: SectorLocation,
    /// Time at which the arm has settled.
    pub settled: u64,
    /// Time at which the first sector begins to pass.
    pub start: u64,
    /// Angle of one sector.
    sector_angle: Angle,
}

impl Extent {
    /// The extent from `lba`, which is at `place`, if the arm starts to move there at `at`.
    pub fn reach(
        model: &HddModel,
        at: u64,
        arm: Arm,
        lba: u64,
        place: SectorLocation,
        motion: Motion,
        write: bool,
    ) -> (Extent, Positioning) {
        let positioning = model.mechanics.position(at, arm, &place, motion, write);
        let settled = at.saturating_add(positioning.seek);
        let start = settled.saturating_add(positioning.rotation);
        let sector_angle = model.layout.zones[usize::from(place.zone)].sector_angle;
        (Extent { lba, end: lba + u64::from(place.run), place, settled, start, sector_angle }, positioning)
    }

    /// The next extent, at `place`, after a transfer of this one that ended at `at`.
    pub fn next(&self, model: &HddModel, at: u64, place: SectorLocation, write: bool) -> Extent {
        Extent::reach(model, at, Arm::from(&self.place), self.end, place, Motion::Continuing, write).0
    }

    /// Time at which the sector before `lba` has passed completely.
    pub fn passed_at(&self, model: &HddModel, lba: u64) -> u64 {
        self.start.saturating_add(model.mechanics.transfer(self.sector_angle, (lba - self.lba) as u32))
    }

    /// The LBA after the last sector that has passed completely at `at`.
    pub fn reached(&self, model: &HddModel, at: u64) -> u64 {
        let passed = model.mechanics.passed(&model.layout, &self.place, at.saturating_sub(self.start));
        (self.lba + u64::from(passed)).min(self.end)
    }

    /// Of a zero-latency transfer of the sectors up to `end`: the number of sectors that are transferred last, because they began
    /// to pass before the head had settled; all if it settled before the first.
    pub fn sectors_in_last_pass(&self, model: &HddModel, end: u64) -> u32 {
        let wanted = (end - self.lba) as u32;
        let wait = self.start - self.settled;
        let gone = model.mechanics.period - wait.min(model.mechanics.period);
        if wait == 0 || gone >= model.mechanics.transfer(self.sector_angle, wanted) {
            return wanted;
        }
        (model.mechanics.passed(&model.layout, &self.place, gone) + 1).min(wanted)
    }
}
