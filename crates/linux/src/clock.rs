//! The current time: on the monotonic clock, which the kernel's events use, and on the calendar.

use std::time::{SystemTime, UNIX_EPOCH};

use block::Nanos;
use rustix::time::{ClockId, clock_gettime};

/// A time on both clocks.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// Time on the monotonic clock, as in events.
    pub at: Nanos,
    /// Seconds since 1970, for display.
    pub unix_seconds: u64,
}

/// The current time on both clocks.
pub fn now() -> Moment {
    let unix_seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    Moment { at: monotonic(), unix_seconds }
}

/// The current time on the monotonic clock.
pub fn monotonic() -> Nanos {
    let at = clock_gettime(ClockId::Monotonic);
    Nanos(u64::try_from(at.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(at.tv_nsec).unwrap_or(0))
}
