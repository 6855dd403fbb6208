//! The kernel's own streams: threads that issue requests of their own. All are numbered here, so that no two share a number.
//!
//! They count down from the highest number; processes count up from 0.

use block::StreamId;

/// The flusher thread.
pub const FLUSHER: StreamId = StreamId::MAX;

/// kswapd, which swaps out in the background.
pub const KSWAPD: StreamId = FLUSHER - 1;

/// The first of the [`BACKGROUND_PROCESSES`]; the others count down from here.
pub const BACKGROUND: StreamId = KSWAPD - 1;

/// The processes that share the anonymous memory and its touches.
pub const BACKGROUND_PROCESSES: u32 = 4;

/// The rebuild of an array's member.
pub const REBUILD: StreamId = BACKGROUND - BACKGROUND_PROCESSES;

/// The copying of volumes from array to array.
pub const COPY: StreamId = REBUILD - 1;

/// The first of those who read when a scheduler takes over; the others count down from here. No stream below them is the kernel's.
pub const TAKE_OVER: StreamId = COPY - 1;

/// As many read then at most.
pub const TAKE_OVER_READERS: u32 = 64;

/// Whether this stream only reads because a scheduler takes over.
#[inline]
pub(crate) fn is_of_take_over(stream: StreamId) -> bool {
    TAKE_OVER - TAKE_OVER_READERS < stream && stream <= TAKE_OVER
}
