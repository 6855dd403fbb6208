//! What the way between a program and the disk costs, followed while it serves.

use block::Nanos;

use crate::emulated::WayTimes;

/// Follows the cost of the way. It was measured once, on an idle disk, and differs with how long processors sleep between requests and
/// with what else the machine does. A program that waits for one request at a time shows it: the time from a reply to the next arrival
/// is the way out and in, and a little work of the program.
///
/// It also knows what late replies owe. A program that hears late asks late; in the model it asks as early as it would have of the
/// disk, so that a late reply makes the next one come sooner, and throughput stays the disk's.
#[derive(Debug)]
pub struct Way {
    is_measured: bool,
    estimate: Nanos,
    sent: Nanos,
    late: Nanos,
}

impl Way {
    /// Who asks later than this after a reply has thought in between. Twice what the way was seen to cost on processors that slept.
    const AT_ONCE: Nanos = Nanos::from_micros(250);
    /// What one arrival changes at most.
    const STEP: u64 = 200;
    /// Out of ten arrivals how many came sooner. More than half, because the mean of a way, which is what throughput shows, is longer
    /// than its median.
    const SOONER: u64 = 6;

    /// A way that was measured; zero if it was not, and then it stays zero.
    pub fn new(measured: Nanos) -> Way {
        Way { is_measured: measured > Nanos::ZERO, estimate: measured, sent: Nanos::ZERO, late: Nanos::ZERO }
    }

    /// Half of it there and half back: nobody can tell, and to who waits only the sum matters.
    pub fn times(&self) -> WayTimes {
        let inbound = Nanos(self.estimate.0 / 2);
        WayTimes { inbound, outbound: self.estimate - inbound }
    }

    /// A reply left, late, to a request that should have taken so long. What takes less than the way cannot be in time, and owes nothing.
    pub fn replied(&mut self, sent: Nanos, late: Nanos, wanted: Nanos) {
        self.sent = sent;
        self.late = if wanted > self.estimate { late.min(wanted) } else { Nanos::ZERO };
    }

    /// When the program asked whose request arrived now. `alone`: nothing else was under way.
    pub fn asked(&mut self, arrival: Nanos, alone: bool) -> Nanos {
        let since = arrival - self.sent;
        let answers = self.is_measured && since < Way::AT_ONCE && self.sent > Nanos::ZERO;
        if answers && alone {
            self.estimate = if since > self.estimate {
                self.estimate + Nanos(Way::STEP * Way::SOONER / 10)
            } else {
                self.estimate - Nanos(Way::STEP * (10 - Way::SOONER) / 10)
            };
        }
        let owed = if answers { self.late } else { Nanos::ZERO };
        arrival - self.times().inbound - owed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: fn(u64) -> Nanos = Nanos::from_micros;

    #[test]
    fn it_settles_where_a_waiting_program_shows_it() {
        for truth in [20, 60] {
            let mut way = Way::new(US(40));
            for round in 1..5_000 {
                way.replied(US(round * 1000), Nanos::ZERO, US(900));
                way.asked(US(round * 1000 + truth), true);
            }
            assert!(way.estimate.0.abs_diff(truth * 1000) <= 1000, "{truth}: {:?}", way.estimate);
        }
    }

    #[test]
    fn thinking_programs_and_crowds_show_nothing() {
        let mut way = Way::new(US(40));
        for round in 1..1000 {
            way.replied(US(round * 1000), Nanos::ZERO, US(900));
            way.asked(US(round * 1000 + 500), true);
            way.asked(US(round * 1000 + 5), false);
        }
        assert_eq!(way.estimate, US(40));
    }

    #[test]
    fn who_was_answered_late_asked_earlier() {
        let mut way = Way::new(US(40));
        way.replied(US(1_300), US(300), US(1000));
        // Out and in take 40 us, of which 20 are inbound.
        assert!(way.asked(US(1_340), false) == US(1_020));
        assert!(way.asked(US(9_000), false) == US(8_980), "not an answer to the late reply");
    }

    #[test]
    fn a_way_that_was_not_measured_is_nothing() {
        let mut way = Way::new(Nanos::ZERO);
        way.replied(US(10), US(5), US(5));
        assert_eq!((way.asked(US(12), true), way.times()), (US(12), WayTimes::default()));
    }
}
