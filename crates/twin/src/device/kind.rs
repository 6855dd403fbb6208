//! Distinguishes flash from hard disks.

use statistics::Rank;

use super::access::{Access, MIN_COUNT};
use super::findings::Finding;

/// Minimum response time of a disk at the tenth percentile; that of reads on a 15,000 rpm drive is 2 ms. Choice: half of that, and twice
/// the 0.4 ms of a slow card (`disks/sd-card.toml`); not varied.
const QUICKEST_ARM_MS: f64 = 1.0;
/// Minimum response time of a disk per read in flight, for reads that are far apart. Choice: as [`QUICKEST_ARM_MS`].
const QUICKEST_READ_MS: f64 = 1.0;
/// Maximum rate of scattered writes of a disk, buffered or not. Choice: several times the 200 to 300 of an arm, as a cache sorts them; not
/// varied.
const MAX_WRITES_A_SECOND: f64 = 800.0;
/// Maximum throughput of a disk: the fastest of 2020 have 270 MB/s. Choice: a third above that; not varied.
const FASTEST_MEDIA_MB_S: f64 = 350.0;

/// A kind of device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediumKind {
    /// A hard disk: platters and an arm.
    HardDisk,
    /// Flash.
    Flash,
}

/// The kind, and the number of accesses that it is based on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inferred {
    /// The kind of device.
    pub kind: MediumKind,
    accesses: usize,
}

/// Flash if the accesses are too fast for a disk; otherwise a hard disk.
pub fn of(accesses: &[Access]) -> Inferred {
    let far =
        |write: bool| accesses.iter().filter(move |access| access.write == write && !access.may_hit && access.before.is_some());
    let mut reads: Vec<f64> = far(false).map(Access::response_ms).collect();
    let (writes, seconds) = (far(true).count(), busy_s(accesses));
    let (is_flash, told) = if reads.len() >= MIN_COUNT {
        let is_below = |ms: Option<f64>, bound: f64| ms.is_some_and(|ms| ms < bound);
        let is_quick = is_below(Rank::Above.of(&mut reads, 0.1), QUICKEST_ARM_MS);
        // Some distant reads may be cache hits of a disk, but not most.
        let mut shares: Vec<f64> = far(false).map(|access| access.response_ms() / f64::from(access.others + 1)).collect();
        (is_quick && is_below(Rank::Above.of(&mut shares, 0.5), QUICKEST_READ_MS), reads.len())
    } else if writes >= MIN_COUNT {
        (writes as f64 > MAX_WRITES_A_SECOND * seconds, writes)
    } else {
        let mb = accesses.iter().map(|access| access.sectors).sum::<u64>() as f64 * 512e-6;
        (mb > FASTEST_MEDIA_MB_S * seconds, accesses.len())
    };
    Inferred { kind: if is_flash { MediumKind::Flash } else { MediumKind::HardDisk }, accesses: told }
}

/// Time with any access in flight, in seconds.
fn busy_s(accesses: &[Access]) -> f64 {
    let services: f64 = accesses.iter().map(Access::service_ms).sum();
    (services / 1e3).max(1e-6)
}

impl Inferred {
    /// Another kind, based on the same accesses.
    pub fn instead(self, kind: MediumKind) -> Inferred {
        Inferred { kind, ..self }
    }

    /// The kind and the capacity as findings for display. `is_known`: the capacity was given.
    pub fn findings(&self, capacity: u64, is_known: bool) -> Vec<Finding> {
        let name = match self.kind {
            MediumKind::HardDisk => "hard disk",
            MediumKind::Flash => "flash",
        };
        let gigabytes = Finding::choice("capacity", &format!("{:.1} GB", capacity as f64 * 512e-9), 0);
        let from = if is_known { "it was said" } else { "the last sector that was asked for" };
        vec![Finding::choice("kind of device", name, self.accesses), gigabytes.from(from)]
    }
}
