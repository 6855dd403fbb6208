//! How long a paper may take on a real device, and how many pieces of it that is.

use block::Nanos;

use crate::live::Live;
use crate::monitor::Monitor;

/// Measures pieces of work by the device's clock.
pub struct Clock<'a> {
    began: Nanos,
    ends: Nanos,
    /// When the piece that is under way began, and the longest so far.
    piece: Nanos,
    longest: Nanos,
    monitor: &'a dyn Monitor,
}

impl<'a> Clock<'a> {
    /// Begins now; progress is shown in seconds.
    pub fn new(minutes: u32, live: &dyn Live, monitor: &'a dyn Monitor) -> Clock<'a> {
        let (began, seconds) = (live.now(), 60 * u64::from(minutes));
        monitor.begin(seconds, "on the device, seconds:");
        let ends = began + Nanos::from_millis(1_000 * seconds);
        Clock { began, ends, piece: began, longest: Nanos::ZERO, monitor }
    }

    /// Whether a piece as long as the longest so far would be over in time; the first always has time.
    pub fn has_time_for_another(&self, live: &dyn Live) -> bool {
        self.longest == Nanos::ZERO || live.now() + self.longest <= self.ends
    }

    /// A piece is done.
    pub fn one_more(&mut self, live: &dyn Live) {
        let now = live.now();
        self.longest = self.longest.max(now - self.piece);
        self.piece = now;
        self.show(live);
    }

    /// Shows how much of the time is over.
    pub fn show(&self, live: &dyn Live) {
        self.monitor.progress((live.now() - self.began).as_secs_f64() as u64);
    }
}
