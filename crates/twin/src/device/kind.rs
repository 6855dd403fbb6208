//! Rotational or not.

use super::access::Access;
use super::findings::Finding;

/// A kind needs at least this number of accesses.
const MIN_COUNT: usize = 10;
/// No arm crosses a disk in so little time: the shortest tenth of the reads of a 15,000 rpm drive take 2 ms.
const QUICKEST_ARM_MS: f64 = 1.0;
/// Nor does one serve reads that lie apart so fast, however many it holds.
const QUICKEST_READ_MS: f64 = 1.0;
/// No disk serves this number of scattered writes per second, buffered or not.
const MAX_WRITES_A_SECOND: f64 = 800.0;
/// No disk transfers this number of MB/s: the fastest of 2020 have 270.
const FASTEST_MEDIA_MB_S: f64 = 350.0;

/// A kind of device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Platters and an arm.
    HardDisk,
    /// Flash.
    Flash,
}

/// A kind, and the number of accesses that show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inferred {
    /// Which.
    pub kind: Kind,
    accesses: usize,
}

/// Flash if no disk can be so fast; otherwise a hard disk.
pub fn of(accesses: &[Access]) -> Inferred {
    let far =
        |write: bool| accesses.iter().filter(move |access| access.write == write && !access.may_hit && access.before.is_some());
    let mut reads: Vec<f64> = far(false).map(Access::response_ms).collect();
    let (writes, seconds) = (far(true).count(), busy_s(accesses));
    let (is_flash, told) = if reads.len() >= MIN_COUNT {
        let tenth = reads.len() / 10;
        let is_quick = *reads.select_nth_unstable_by(tenth, f64::total_cmp).1 < QUICKEST_ARM_MS;
        // Some that lie apart may be in a disk's memory all the same: most are not.
        let mut shares: Vec<f64> = far(false).map(|access| access.response_ms() / f64::from(access.others + 1)).collect();
        let middle = shares.len() / 2;
        (is_quick && *shares.select_nth_unstable_by(middle, f64::total_cmp).1 < QUICKEST_READ_MS, reads.len())
    } else if writes >= MIN_COUNT {
        (writes as f64 > MAX_WRITES_A_SECOND * seconds, writes)
    } else {
        let mb = accesses.iter().map(|access| access.sectors).sum::<u64>() as f64 * 512e-6;
        (mb > FASTEST_MEDIA_MB_S * seconds, accesses.len())
    };
    Inferred { kind: if is_flash { Kind::Flash } else { Kind::HardDisk }, accesses: told }
}

/// Time during which something was at the device.
fn busy_s(accesses: &[Access]) -> f64 {
    let services: f64 = accesses.iter().map(Access::service_ms).sum();
    (services / 1e3).max(1e-6)
}

impl Inferred {
    /// The other kind, by as many accesses.
    pub fn instead(self, kind: Kind) -> Inferred {
        Inferred { kind, ..self }
    }

    /// As people want it, with the capacity.
    pub fn findings(&self, capacity: u64, is_known: bool) -> Vec<Finding> {
        let name = match self.kind {
            Kind::HardDisk => "hard disk",
            Kind::Flash => "flash",
        };
        let gigabytes = Finding::choice("capacity", &format!("{:.1} GB", capacity as f64 * 512e-9), 0);
        let from = if is_known { "it was said" } else { "the last sector that was asked for" };
        vec![Finding::choice("kind of device", name, self.accesses), gigabytes.from(from)]
    }
}
