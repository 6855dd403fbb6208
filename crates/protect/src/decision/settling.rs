//! The effect of a change of limits, which begins once the requests that were queued before have completed.
//!
//! ```text
//! neighbours  queued ████████ in the drive's cache ▒▒▒▒▒▒▒▒▒▒▒
//! the unit                ├────── a request from before ──────┤├──┤├──┤
//! limits     change ──────────────── settling ────────────────▶ evidence
//! ```
//! A drive with a write cache acknowledges writes long before they are on the media, and keeps a flush or a read waiting for them. So that
//! the neighbours' requests have completed does not show that their work is done; that a request of the unit from before the change has
//! completed does. What the unit did until then is the effect of the limits from before.

use block::Nanos;

use super::PERIOD;

/// Requests already queued when limits change are not affected. The limits take effect once these have completed, or after this time.
/// Choice: three times the six seconds that 32 writes of 1 MiB take on a disk of 5 MB/s; not varied.
const DRAIN: Nanos = Nanos::from_millis(20_000);
/// Maximum time for which neighbours are held at their floors after a change of the load, to drain the queue. Choice: a longer dip costs
/// neighbours more than it gains the unit; ten steps; not varied.
const DIP: Nanos = Nanos::from_millis(1_000);

/// The state of the queue since the last change of the limits.
#[derive(Debug)]
pub(super) struct Settling {
    /// Time of the change.
    changed: Nanos,
    /// Whether the limits have taken effect.
    is_settled: bool,
    /// Number of neighbours' requests that were queued at the change and have not completed.
    to_drain: u32,
    /// Time at which these had completed.
    drained: Option<Nanos>,
    /// Time until which neighbours are held at their floors, so that the queue drains sooner.
    floors_until: Nanos,
    is_at_floors: bool,
}

impl Settling {
    /// Without limits.
    pub fn new() -> Settling {
        Settling {
            changed: Nanos::ZERO,
            is_settled: true,
            to_drain: 0,
            drained: None,
            floors_until: Nanos::ZERO,
            is_at_floors: false,
        }
    }

    /// Whether the limits have taken effect.
    pub fn is_settled(&self) -> bool {
        self.is_settled
    }

    /// Whether neighbours are held at their floors.
    pub fn is_at_floors(&self) -> bool {
        self.is_at_floors
    }

    /// Starts after a change to this device time, with this number of requests queued by this number of neighbours. `is_tighter`: the load
    /// has changed, and the limits became tighter.
    pub fn begin(&mut self, now: Nanos, time: f64, outstanding: u32, neighbours: usize, is_tighter: bool) {
        self.floors_until = if is_tighter && outstanding > 2 * neighbours as u32 { now + DIP } else { now };
        (self.changed, self.to_drain, self.drained) = (now, outstanding, None);
        // Without a limit there is no effect to wait for.
        self.is_settled = time.is_infinite();
    }

    /// Adds a step in which this number of the neighbours' requests completed. `waits`: whether the unit still waits for a request from
    /// before a time. Returns whether the limits take effect with it.
    pub fn drain(&mut self, now: Nanos, done: u32, outstanding: u32, neighbours: usize, waits: impl Fn(Nanos) -> bool) -> bool {
        self.to_drain = self.to_drain.saturating_sub(done);
        if self.to_drain == 0 || outstanding <= neighbours as u32 {
            self.drained.get_or_insert(now);
        }
        let drained = self.drained.is_some_and(|at| !waits(at));
        self.is_settled = now - self.changed >= DRAIN || (drained && now - self.changed >= PERIOD);
        self.is_settled
    }

    /// Ends a step.
    pub fn end_step(&mut self, now: Nanos) {
        self.is_at_floors = !self.is_settled && now < self.floors_until;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_arrived_before_the_queue_had_drained_is_no_evidence_until_it_completes() {
        let at = Nanos::from_millis;
        let mut settling = Settling::new();
        settling.begin(at(1_000), 0.1, 40, 1, false);
        // The unit's request of 1,050 ms waits for the drive's cache until 1,450.
        let waits = |time| at(1_050) < time;
        assert!(!settling.drain(at(1_100), 40, 0, 1, waits) && !settling.drain(at(1_400), 0, 0, 1, waits));
        assert!(settling.drain(at(1_500), 0, 0, 1, |time| at(1_460) < time), "the next one arrived later");
    }

    #[test]
    fn limits_take_effect_once_the_queue_has_drained_and_a_long_queue_drains_at_the_floors() {
        let at = Nanos::from_millis;
        let mut settling = Settling::new();
        settling.begin(at(1_000), 0.1, 40, 1, true);
        assert!(!settling.drain(at(1_100), 30, 10, 1, |_| false));
        settling.end_step(at(1_100));
        assert!(settling.is_at_floors() && !settling.is_settled());
        assert!(!settling.drain(at(2_000), 5, 5, 1, |_| false));
        settling.end_step(at(2_000));
        assert!(!settling.is_at_floors());
        assert!(settling.drain(at(2_100), 4, 1, 1, |_| false) && settling.is_settled());
        settling.begin(at(3_000), 0.1, 40, 1, false);
        settling.end_step(at(3_000));
        assert!(!settling.is_at_floors() && !settling.drain(at(22_900), 0, 40, 1, |_| false));
        assert!(settling.drain(at(23_000), 0, 40, 1, |_| false), "some requests never complete");
        settling.begin(at(24_000), f64::INFINITY, 40, 1, true);
        assert!(settling.is_settled());
    }
}
