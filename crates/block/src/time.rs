//! Time as every part of Seekwise counts it.

use core::fmt;
use core::ops::{Add, AddAssign, Sub};

/// A point in time or a span of it, in nanoseconds. Whoever hosts a unit says what zero means.
///
/// 64 bits hold 584 years. Arithmetic saturates: a time beyond the end is the end, a span before zero is zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The beginning of time, and the empty span.
    pub const ZERO: Nanos = Nanos(0);
    /// The end of time: later than anything that happens.
    pub const MAX: Nanos = Nanos(u64::MAX);

    /// A span of whole microseconds.
    pub const fn from_micros(micros: u64) -> Nanos {
        Nanos(micros.saturating_mul(1_000))
    }

    /// A span of whole milliseconds.
    pub const fn from_millis(millis: u64) -> Nanos {
        Nanos(millis.saturating_mul(1_000_000))
    }

    /// A span of milliseconds, rounded to the nearest nanosecond; a negative one or NaN is zero.
    pub fn from_millis_f64(millis: f64) -> Nanos {
        // `as` saturates, and adding a half before it truncates rounds a value that is not negative.
        Nanos((millis * 1e6 + 0.5) as u64)
    }

    /// A span of seconds, rounded to the nearest nanosecond; a negative one or NaN is zero.
    pub fn from_secs_f64(seconds: f64) -> Nanos {
        Nanos((seconds * 1e9 + 0.5) as u64)
    }

    /// This span in milliseconds.
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// This span in seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl Add for Nanos {
    type Output = Nanos;
    fn add(self, span: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(span.0))
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, span: Nanos) {
        *self = *self + span;
    }
}

impl Sub for Nanos {
    type Output = Nanos;
    fn sub(self, earlier: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ms", self.as_millis_f64())
    }
}
