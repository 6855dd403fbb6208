//! The stream of sectors under the head, in closed form: track after track, each a start time and a rate.

use super::HddModel;
use super::layout::{Angle, SectorLocation};
use super::mechanics::{Arm, Motion, Positioning};

/// Sectors that pass the head one after the other, and when.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// First LBA.
    pub lba: u64,
    /// LBA behind the last one before a break: the end of the track, a slip, a remap.
    pub end: u64,
    /// Where the first one lies.
    pub place: SectorLocation,
    /// When the arm had settled for it.
    pub settled: u64,
    /// When its first sector began to pass.
    pub start: u64,
    /// The angle that one of its sectors takes.
    sector_angle: Angle,
}

impl Extent {
    /// Moves the arm at `at` to `lba`, which lies at `place`.
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

    /// Goes on behind this extent, at `place`; the transfer of this one ended at `at`.
    pub fn next(&self, model: &HddModel, at: u64, place: SectorLocation, write: bool) -> Extent {
        Extent::reach(model, at, Arm::from(&self.place), self.end, place, Motion::Continuing, write).0
    }

    /// When the sector before `lba` has passed completely.
    pub fn passed_at(&self, model: &HddModel, lba: u64) -> u64 {
        self.start.saturating_add(model.mechanics.transfer(self.sector_angle, (lba - self.lba) as u32))
    }

    /// The LBA behind the last sector that has passed completely at `at`.
    pub fn reached(&self, model: &HddModel, at: u64) -> u64 {
        let passed = model.mechanics.passed(&model.layout, &self.place, at.saturating_sub(self.start));
        (self.lba + u64::from(passed)).min(self.end)
    }

    /// With the sectors up to `end` taken in the order they pass: how many of them come last, because the head settled in
    /// their midst; all of them if it settled before the first.
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
