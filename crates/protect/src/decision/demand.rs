//! The time in which a unit has requests or calls outstanding, over which its rates are measured.

use block::Nanos;
use observe::outstanding::Outstanding;

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

/// Accounts for the time in which a unit has requests or calls outstanding.
#[derive(Debug, Default)]
pub(super) struct Demand {
    /// Time up to which outstanding requests and calls are accounted, and that of requests alone.
    since: Nanos,
    asked_since: Nanos,
    /// Times since the last step.
    step: Demanded,
}

impl Demand {
    /// Accounts for a request that begins or ends; `before`: the outstanding ones before it.
    pub fn request(&mut self, now: Nanos, before: &Outstanding) {
        self.call(now, before);
        if before.requests() > 0 {
            self.step.has_requests((now - self.asked_since).as_secs_f64());
        }
        self.asked_since = now;
    }

    /// Accounts for a call that begins or ends.
    pub fn call(&mut self, now: Nanos, before: &Outstanding) {
        if before.is_any() {
            self.step.wanted += (now - self.since).as_secs_f64();
        }
        self.since = now;
    }

    /// Adds a flush that has ended. Where calls are observed, it is part of one.
    pub fn flushed(&mut self, (asked, at): (Nanos, Nanos), has_calls: bool, before: &Outstanding) {
        if before.requests() == 0 {
            self.step.asked += (at - self.asked_since.max(asked)).as_secs_f64();
            self.asked_since = at;
        }
        if !has_calls && !before.is_any() {
            self.step.wanted += (at - self.since.max(asked)).as_secs_f64();
            self.since = at;
        }
    }

    /// Ends a step with these requests and calls outstanding, and returns its times.
    pub fn end_step(&mut self, now: Nanos, outstanding: &Outstanding) -> Demanded {
        self.request(now, outstanding);
        std::mem::take(&mut self.step)
    }
}

#[cfg(test)]
mod tests {
    use block::{Op, Priority, Request};
    use observe::Event;

    use super::*;

    #[test]
    fn a_call_demands_requests_but_no_device_time_and_a_flush_only_where_no_call_has_it() {
        let at = Nanos::from_millis;
        let (stream, op) = (1, Op::Read);
        let request = Request { id: 0, stream, op, sync: true, priority: Priority::DEFAULT, sectors: 8, lba: 0, arrival: at(100) };
        let (mut demand, mut outstanding) = (Demand::default(), Outstanding::default());
        demand.call(at(0), &outstanding);
        outstanding.event(&Event::Called { stream, at: at(0) });
        demand.request(at(100), &outstanding);
        outstanding.event(&Event::Queued(request));
        demand.request(at(300), &outstanding);
        outstanding.event(&Event::Completed { request, dispatched: at(100), at: at(300) });
        demand.flushed((at(400), at(500)), true, &outstanding);
        demand.call(at(600), &outstanding);
        outstanding.event(&Event::Returned { stream, op, bytes: 0, called: at(0), at: at(600) });
        let step = demand.end_step(at(1_000), &outstanding);
        assert!(step.seconds().iter().zip([0.6, 0.6, 0.3, 0.2]).all(|(is, should)| (is - should).abs() < 1e-9), "{step:?}");
        demand.flushed((at(1_100), at(1_200)), false, &outstanding);
        let step = demand.end_step(at(2_000), &outstanding);
        assert!(step.seconds().iter().zip([0.1, 0.1, 0.1, 0.0]).all(|(is, should)| (is - should).abs() < 1e-9), "{step:?}");
    }
}
