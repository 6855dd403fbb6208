//! The times from and until which measurements and forecasts hold.

use std::collections::VecDeque;

use block::Nanos;

/// Number of remembered changes of the setting or of the load: the device is fitted to requests from between all of them. Choice: variety
/// of the sample against the number of requests from each interval; not varied.
const MAX_CHANGES: usize = 4;

/// Time after a trial without a gain in which only a likely gain is tried. Choice: a device whose settings do not matter should see one trial
/// in ten minutes at most; not varied.
const QUIET: Nanos = Nanos::from_millis(600_000);

/// Times of the present load and setting.
#[derive(Clone, Debug, Default)]
pub(super) struct Timeline {
    /// When the last process of the load started.
    pub complete_from: Nanos,
    /// Start of the current measurement of the active arm.
    pub measured_from: Nanos,
    /// Times of changes of the arm or of the load, in order; at most [`MAX_CHANGES`].
    pub changes: VecDeque<Nanos>,
    /// When the next forecast is due.
    pub next_forecast: Nanos,
    /// End of the settling time of the latest change.
    pub settles_until: Nanos,
    /// Time until which only a likely gain is tried.
    pub quiet_until: Nanos,
    /// Time until which nothing is tried.
    pub silent_until: Nanos,
    /// Minimum probability of a worthwhile gain for a trial, if none was without a gain lately.
    pub least_chance: f64,
    /// Every setting is tried in turn, regardless of the value.
    pub tries_everything: bool,
}

impl Timeline {
    /// A trial has shown no gain.
    pub fn be_quiet(&mut self, now: Nanos) {
        self.quiet_until = now + QUIET;
    }

    /// A gain that was measured was none: comparisons cannot be trusted under such loads.
    pub fn be_silent(&mut self, now: Nanos) {
        self.silent_until = now + QUIET;
    }

    /// Notes a change after which requests show another side of the device.
    pub fn note_change(&mut self, at: Nanos) {
        // A new load is noticed some time after it began, so `at` may precede earlier entries.
        let place = self.changes.partition_point(|change| *change <= at);
        self.changes.insert(place, at);
        if self.changes.len() > MAX_CHANGES {
            self.changes.pop_front();
        }
    }
}
