//! The number of requests and calls that are queued or in flight: one count per device or unit, fed once per event and read by reference.
//!
//! Other states of outstanding requests are kept apart, as they answer other questions: [`History`](crate::window::History) has their number
//! by stream at an arrival, [`Tally`](crate::window::Tally) integrates waiting time over windows, `twin`'s recording has the requests
//! themselves, its streams the longest waits under the original setting, and `block::in_flight` matches requests to sectors.

use block::Nanos;

use crate::event::Event;

/// Number of outstanding requests and calls of a device or unit.
///
/// ```
/// use block::{Nanos, Op, Priority, Request};
/// use observe::Event;
/// use observe::outstanding::Outstanding;
///
/// let (op, priority, arrival) = (Op::Read, Priority::DEFAULT, Nanos(5));
/// let request = Request { id: 0, stream: 1, op, sync: true, priority, sectors: 8, lba: 0, arrival };
/// let mut outstanding = Outstanding::new(Nanos::ZERO);
/// outstanding.event(&Event::Queued(request));
/// assert_eq!((outstanding.requests(), outstanding.last_progress()), (1, Nanos(5)));
/// outstanding.event(&Event::Completed { request, dispatched: Nanos(6), at: Nanos(9) });
/// assert_eq!((outstanding.is_any(), outstanding.completed(), outstanding.last_progress()), (false, 1, Nanos(9)));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outstanding {
    requests: u32,
    calls: u32,
    completed: u64,
    last_progress: Nanos,
}

impl Outstanding {
    /// Nothing is outstanding.
    pub fn new(now: Nanos) -> Outstanding {
        Outstanding { last_progress: now, ..Outstanding::default() }
    }

    /// Adds an event.
    #[inline]
    pub fn event(&mut self, event: &Event) {
        match event {
            Event::Queued(request) => {
                if self.requests == 0 {
                    self.last_progress = request.arrival;
                }
                self.requests += 1;
            }
            Event::Completed { at, .. } => {
                self.requests = self.requests.saturating_sub(1);
                self.completed += 1;
                self.last_progress = *at;
            }
            Event::Called { .. } => self.calls += 1,
            Event::Returned { .. } => self.calls = self.calls.saturating_sub(1),
            Event::Flushed { .. } => {}
        }
    }

    /// Restarts the counts of outstanding requests and calls at 0: after a loss of events they are unknown. Later completions still count.
    pub fn forget(&mut self, now: Nanos) {
        *self = Outstanding { completed: self.completed, ..Outstanding::new(now) };
    }

    /// Number of requests queued or in flight.
    pub fn requests(&self) -> u32 {
        self.requests
    }

    /// Number of calls that have not returned; 0 if calls are not observed.
    pub fn calls(&self) -> u32 {
        self.calls
    }

    /// Whether any request or call is outstanding.
    pub fn is_any(&self) -> bool {
        self.requests > 0 || self.calls > 0
    }

    /// Number of completed requests since the beginning.
    pub fn completed(&self) -> u64 {
        self.completed
    }

    /// Time of the last completion or of the first request to an idle device, whichever is later.
    pub fn last_progress(&self) -> Nanos {
        self.last_progress
    }
}

#[cfg(test)]
mod tests {
    use block::{Op, Priority, Request};

    use super::*;

    #[test]
    fn a_loss_of_events_leaves_no_negative_count_and_keeps_the_completed_ones() {
        let (op, priority, arrival) = (Op::Write, Priority::DEFAULT, Nanos(1));
        let request = Request { id: 0, stream: 1, op, sync: false, priority, sectors: 8, lba: 0, arrival };
        let completed = Event::Completed { request, dispatched: Nanos(1), at: Nanos(20) };
        let mut outstanding = Outstanding::new(Nanos::ZERO);
        outstanding.event(&Event::Queued(request));
        outstanding.event(&Event::Queued(request));
        outstanding.event(&completed);
        outstanding.forget(Nanos(10));
        outstanding.event(&Event::Called { stream: 1, at: Nanos(11) });
        outstanding.event(&completed);
        assert_eq!((outstanding.requests(), outstanding.calls(), outstanding.completed()), (0, 1, 2), "the call still waits");
        assert!(outstanding.is_any());
        outstanding.event(&Event::Returned { stream: 1, op, bytes: 0, called: Nanos(11), at: Nanos(21) });
        outstanding.event(&Event::Returned { stream: 1, op, bytes: 0, called: Nanos(0), at: Nanos(22) });
        assert!(!outstanding.is_any());
        assert_eq!(outstanding.last_progress(), Nanos(20), "calls show no progress of the device");
    }
}
