//! The transport overhead between a program and the disk, tracked while it serves.

use block::Nanos;

use crate::emulated::OverheadTimes;

/// Tracks the transport overhead. It was measured once, on an idle disk, but varies with the sleep states of processors and the load of the
/// machine. A program with one request at a time shows it: the time from a reply to the next arrival is the overhead of both directions,
/// plus a little work of the program.
///
/// It also corrects for late replies. After a late reply a program issues its next request late; in the model that is issued as early as on
/// the real disk, so that the next reply leaves sooner and throughput stays that of the disk.
#[derive(Debug)]
pub struct TransportOverhead {
    is_measured: bool,
    estimate: Nanos,
    sent: Nanos,
    late: Nanos,
}

impl TransportOverhead {
    /// A request that arrives later than this after a reply followed think time. Twice the overhead measured on sleeping processors.
    const MAX_OVERHEAD: Nanos = Nanos::from_micros(250);
    /// Largest change per arrival, in nanoseconds.
    const STEP: u64 = 200;
    /// Arrivals out of ten that are sooner than the estimate. More than half, because throughput depends on the mean, which is above the
    /// median.
    const SOONER: u64 = 6;

    /// Starts from a measured round trip; zero disables tracking.
    pub fn new(measured: Nanos) -> TransportOverhead {
        TransportOverhead { is_measured: measured > Nanos::ZERO, estimate: measured, sent: Nanos::ZERO, late: Nanos::ZERO }
    }

    /// Both directions, split in half: the parts cannot be told apart, and only the sum matters to a program.
    pub fn times(&self) -> OverheadTimes {
        let inbound = Nanos(self.estimate.0 / 2);
        OverheadTimes { inbound, outbound: self.estimate - inbound }
    }

    /// Records a late reply to a request with this model delay. A delay below the overhead cannot be met and is not corrected.
    pub fn replied(&mut self, sent: Nanos, late: Nanos, wanted: Nanos) {
        self.sent = sent;
        self.late = if wanted > self.estimate { late.min(wanted) } else { Nanos::ZERO };
    }

    /// The time at which the program issued the request that arrives now. `alone`: no other request is in flight.
    pub fn issue_time(&mut self, arrival: Nanos, alone: bool) -> Nanos {
        let since = arrival - self.sent;
        let follows_reply = self.is_measured && since < TransportOverhead::MAX_OVERHEAD && self.sent > Nanos::ZERO;
        if follows_reply && alone {
            self.estimate = if since > self.estimate {
                self.estimate + Nanos(TransportOverhead::STEP * TransportOverhead::SOONER / 10)
            } else {
                self.estimate - Nanos(TransportOverhead::STEP * (10 - TransportOverhead::SOONER) / 10)
            };
        }
        let owed = if follows_reply { self.late } else { Nanos::ZERO };
        arrival - self.times().inbound - owed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: fn(u64) -> Nanos = Nanos::from_micros;

    #[test]
    fn it_converges_to_the_overhead_of_a_waiting_program() {
        for actual in [20, 60] {
            let mut overhead = TransportOverhead::new(US(40));
            for round in 1..5_000 {
                overhead.replied(US(round * 1000), Nanos::ZERO, US(900));
                overhead.issue_time(US(round * 1000 + actual), true);
            }
            assert!(overhead.estimate.0.abs_diff(actual * 1000) <= 1000, "{actual}: {:?}", overhead.estimate);
        }
    }

    #[test]
    fn think_time_and_concurrent_requests_are_no_samples() {
        let mut overhead = TransportOverhead::new(US(40));
        for round in 1..1000 {
            overhead.replied(US(round * 1000), Nanos::ZERO, US(900));
            overhead.issue_time(US(round * 1000 + 500), true);
            overhead.issue_time(US(round * 1000 + 5), false);
        }
        assert_eq!(overhead.estimate, US(40));
    }

    #[test]
    fn a_request_after_a_late_reply_counts_as_issued_earlier() {
        let mut overhead = TransportOverhead::new(US(40));
        overhead.replied(US(1_300), US(300), US(1000));
        // Both directions take 40 us, of which 20 are inbound.
        assert!(overhead.issue_time(US(1_340), false) == US(1_020));
        assert!(overhead.issue_time(US(9_000), false) == US(8_980), "does not follow the late reply");
    }

    #[test]
    fn an_unmeasured_overhead_stays_zero() {
        let mut overhead = TransportOverhead::new(Nanos::ZERO);
        overhead.replied(US(10), US(5), US(5));
        assert_eq!((overhead.issue_time(US(12), true), overhead.times()), (US(12), OverheadTimes::default()));
    }
}
