//! The time: by the monotonic clock, which the kernel's events have, and by the calendar.

use std::time::{SystemTime, UNIX_EPOCH};

use block::Nanos;
use rustix::time::{ClockId, clock_gettime};

/// A time, by both clocks.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// The monotonic clock, which events have.
    pub at: Nanos,
    /// Seconds since 1970, for people.
    pub unix_seconds: u64,
}

/// Now, by both clocks.
pub fn now() -> Moment {
    let unix_seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    Moment { at: monotonic(), unix_seconds }
}

/// Now, by the monotonic clock.
pub fn monotonic() -> Nanos {
    let at = clock_gettime(ClockId::Monotonic);
    Nanos(u64::try_from(at.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(at.tv_nsec).unwrap_or(0))
}
