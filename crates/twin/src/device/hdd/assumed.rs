//! Builds the estimate of a hypothetical hard disk, without a fit.

use std::sync::Arc;

use sim::device::hdd::spec::QueuePolicy;

use super::memory::Memory;
use super::queue::Queue;
use super::seek::{self, Curve, Waits};
use super::tracks::Tracks;
use super::turn::Turn;
use super::{Estimate, Seeks, USUAL_SETTLE_MS};
use crate::device::AssumedDisk;

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
        turn: Turn { ms, uncertainty_ms: ms, accesses: 0, line: None, tilt: seek::SLIGHT },
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
