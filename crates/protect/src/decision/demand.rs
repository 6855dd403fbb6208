//! The time in which a unit has requests or calls outstanding, over which its rates are measured.

use block::Nanos;

use super::RATES;

/// Seconds of demand in a span.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Demanded {
    /// With requests or calls outstanding.
    pub wanted: f64,
    /// With requests or flushes outstanding, in which device time is demanded.
    asked: f64,
    /// With requests outstanding.
    requested: f64,
}

impl Demanded {
    /// Seconds in which each rate was demanded.
    pub fn seconds(&self) -> [f64; RATES] {
        [self.wanted, self.wanted, self.asked, self.requested]
    }

    pub fn add(&mut self, other: &Demanded) {
        self.wanted += other.wanted;
        self.asked += other.asked;
        self.requested += other.requested;
    }

    fn has_requests(&mut self, seconds: f64) {
        self.asked += seconds;
        self.requested += seconds;
    }
}

/// The outstanding requests and calls of a unit.
#[derive(Debug, Default)]
pub(super) struct Demand {
    /// Number of outstanding requests and calls, and the time up to which it is accounted.
    outstanding: u32,
    since: Nanos,
    /// Number of outstanding requests, and the time up to which it is accounted.
    requests: u32,
    asked_since: Nanos,
    /// Times since the last step.
    step: Demanded,
}

impl Demand {
    /// Adds a request or call that begins, or ends if not `more`.
    fn wants(&mut self, now: Nanos, more: bool) {
        if self.outstanding > 0 {
            self.step.wanted += (now - self.since).as_secs_f64();
        }
        self.since = now;
        self.outstanding = if more { self.outstanding + 1 } else { self.outstanding.saturating_sub(1) };
    }

    /// Adds a request that begins, or ends if not `more`.
    pub fn request(&mut self, now: Nanos, more: bool) {
        self.wants(now, more);
        if self.requests > 0 {
            self.step.has_requests((now - self.asked_since).as_secs_f64());
        }
        self.asked_since = now;
        self.requests = if more { self.requests + 1 } else { self.requests.saturating_sub(1) };
    }

    /// Adds a call that begins, or ends if not `more`.
    pub fn call(&mut self, now: Nanos, more: bool) {
        self.wants(now, more);
    }

    /// Adds a flush that has ended. Where calls are observed, it is part of one.
    pub fn flushed(&mut self, asked: Nanos, at: Nanos, has_calls: bool) {
        if self.requests == 0 {
            self.step.asked += (at - self.asked_since.max(asked)).as_secs_f64();
            self.asked_since = at;
        }
        if !has_calls && self.outstanding == 0 {
            self.step.wanted += (at - self.since.max(asked)).as_secs_f64();
            self.since = at;
        }
    }

    /// Ends a step, and returns its times.
    pub fn end_step(&mut self, now: Nanos) -> Demanded {
        if self.outstanding > 0 {
            self.step.wanted += (now - self.since).as_secs_f64();
        }
        if self.requests > 0 {
            self.step.has_requests((now - self.asked_since).as_secs_f64());
        }
        (self.since, self.asked_since) = (now, now);
        std::mem::take(&mut self.step)
    }

    /// Forgets the outstanding requests and calls, which are unknown after a loss of events.
    pub fn lost(&mut self) {
        (self.outstanding, self.requests) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_demands_requests_but_no_device_time_and_a_flush_only_where_no_call_has_it() {
        let at = Nanos::from_millis;
        let mut demand = Demand::default();
        demand.call(at(0), true);
        demand.request(at(100), true);
        demand.request(at(300), false);
        demand.flushed(at(400), at(500), true);
        demand.call(at(600), false);
        let step = demand.end_step(at(1_000));
        assert!(step.seconds().iter().zip([0.6, 0.6, 0.3, 0.2]).all(|(is, should)| (is - should).abs() < 1e-9), "{step:?}");
        demand.flushed(at(1_100), at(1_200), false);
        let step = demand.end_step(at(2_000));
        assert!(step.seconds().iter().zip([0.1, 0.1, 0.1, 0.0]).all(|(is, should)| (is - should).abs() < 1e-9), "{step:?}");
        demand.request(at(2_100), true);
        demand.lost();
        assert_eq!(demand.end_step(at(3_000)).wanted, 0.0);
    }
}
