//! Builds the estimate of a hypothetical hard disk, without a fit.

use std::sync::Arc;

use sim::device::hdd::spec::QueuePolicy;

use super::memory::Memory;
use super::queue::Queue;
use super::seek::{self, Curve, Waits};
use super::tracks::Tracks;
use super::turn::Turn;
use super::{Estimate, Seeks, USUAL_SETTLE_MS};

/// A hard disk. Seek times include the command overhead.
#[derive(Clone, Debug, PartialEq)]
pub struct AssumedDisk {
    /// Rotation time, in ms.
    pub turn_ms: f64,
    /// Seek time over 0.5% of the stroke, in ms.
    pub short_ms: f64,
    /// Seek time over half of the stroke, in ms.
    pub long_ms: f64,
    /// Factor on the media rate of a default disk of its size.
    pub faster: f64,
    /// Command overhead, in ms.
    pub overhead_ms: f64,
    /// Number of cache segments.
    pub segments: u32,
    /// Whether it reports writes before they reach the media.
    pub write_cache: bool,
    /// Queue depth.
    pub depth: u32,
    /// Whether it reorders queued requests.
    pub reorders: bool,
    /// RAID level and number of disks; `None` for a single disk.
    pub array: Option<(u32, usize)>,
}

/// A disk with this capacity in sectors.
pub fn assumed(capacity: u64, disk: &AssumedDisk) -> Estimate {
    let mut tracks = Tracks::usual(capacity);
    tracks.slow(1.0 / disk.faster, 0);
    // The overhead is a part of the shortest seek.
    let overhead_ms = disk.overhead_ms.min(0.7 * disk.short_ms);
    let memory = Memory::assumed((disk.write_cache, disk.segments), overhead_ms, tracks.transfer_ms(0, 1));
    let policy = if disk.reorders { QueuePolicy::Sptf } else { QueuePolicy::Fifo };
    let ms = disk.turn_ms;
    Estimate {
        capacity,
        turn: Turn { ms, uncertainty_ms: ms, accesses: 0, line: None, agreement: 0.0, tilt: seek::SLIGHT },
        seeks: Seeks {
            samples: Arc::new([]),
            rate_error: tracks.rate_error(),
            waits: Arc::new(Waits::new(seek::SLIGHT, seek::STRANGE)),
        },
        tracks,
        memory,
        queue: Queue { depth: disk.depth, is_full: false, policy, queued: 0 },
        curve: Curve { short_ms: disk.short_ms, long_ms: disk.long_ms.max(1.3 * disk.short_ms), ..Curve::usual() },
        settle_ms: USUAL_SETTLE_MS,
        settled: 0,
    }
}
