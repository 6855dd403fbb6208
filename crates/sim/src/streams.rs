//! Stream ids of kernel threads that issue requests of their own. All are defined here, so that no two share an id.
//!
//! They count down from the highest id; processes count up from 0.

use block::StreamId;

/// The flusher thread.
pub const FLUSHER: StreamId = StreamId::MAX;

/// kswapd, which swaps out in the background.
pub const KSWAPD: StreamId = FLUSHER - 1;

/// The first of the [`BACKGROUND_PROCESSES`]; the others count down from it.
pub const BACKGROUND: StreamId = KSWAPD - 1;

/// Number of processes that share the anonymous memory and its touches.
pub const BACKGROUND_PROCESSES: u32 = 4;

/// The rebuild of an array member.
pub const REBUILD: StreamId = BACKGROUND - BACKGROUND_PROCESSES;

/// The copying of volumes between arrays.
pub const COPY: StreamId = REBUILD - 1;

/// The first stream of the reads issued when a scheduler is replaced; the others count down from it. The kernel uses no lower ids.
pub const SWITCH_READS: StreamId = COPY - 1;

/// Maximum number of streams of these reads.
pub const MAX_SWITCH_READERS: u32 = 64;

/// Whether a stream is one of the reads issued when a scheduler is replaced.
#[inline]
pub(crate) fn is_switch_read(stream: StreamId) -> bool {
    SWITCH_READS - MAX_SWITCH_READERS < stream && stream <= SWITCH_READS
}
