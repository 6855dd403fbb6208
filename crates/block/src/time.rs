//! The common representation of time.

use core::fmt;
use core::ops::{Add, AddAssign, Sub};

/// A point in time or a duration, in nanoseconds. The host defines the time of zero.
///
/// 64 bits hold 584 years. Arithmetic saturates at zero and at the maximum.
///
/// ```
/// use block::Nanos;
///
/// assert_eq!(Nanos::from_millis(3) - Nanos::from_micros(500), Nanos(2_500_000));
/// assert_eq!(Nanos::from_micros(1) - Nanos::from_millis(1), Nanos::ZERO);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The start of time, and the empty duration.
    pub const ZERO: Nanos = Nanos(0);
    /// A time later than any event.
    pub const MAX: Nanos = Nanos(u64::MAX);

    /// From whole microseconds.
    pub const fn from_micros(micros: u64) -> Nanos {
        Nanos(micros.saturating_mul(1_000))
    }

    /// From whole milliseconds.
    pub const fn from_millis(millis: u64) -> Nanos {
        Nanos(millis.saturating_mul(1_000_000))
    }

    /// From milliseconds, rounded to the nearest nanosecond; zero for negative values and NaN.
    pub fn from_millis_f64(millis: f64) -> Nanos {
        // `as` saturates, and truncation after adding a half rounds a non-negative value.
        Nanos((millis * 1e6 + 0.5) as u64)
    }

    /// From seconds, rounded to the nearest nanosecond; zero for negative values and NaN.
    pub fn from_secs_f64(seconds: f64) -> Nanos {
        Nanos((seconds * 1e9 + 0.5) as u64)
    }

    /// In milliseconds.
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// In seconds.
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
