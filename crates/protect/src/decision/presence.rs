//! Whether a guaranteed unit is idle, so that its neighbours need no limits.

use block::Nanos;

use super::meter::Meter;

/// Time after its last event from which a guaranteed unit counts as idle, so that a pause between two requests does not lift limits.
/// Choice: a longer one holds neighbours back for an idle unit; six steps; not varied.
const IDLE: Nanos = Nanos::from_millis(600);
/// Longest pause over which limits stay, if the unit came back from one of that length to a queue that broke its guarantee. Choice: a longer
/// one holds neighbours back for a unit that has gone, with a shorter one a unit that works every few seconds finds a full queue each time;
/// not varied.
const LONGEST: Nanos = Nanos::from_millis(5_000);
/// Limits stay for the length of such a pause times this. Choice: pauses vary; not varied.
const MARGIN: f64 = 1.5;
/// Time after a return in which the cost of lifted limits shows. Choice: the length of the span over which guarantees hold.
const JUDGED: Nanos = Nanos::from_millis(1_000);

/// The pauses of a guaranteed unit.
#[derive(Debug)]
pub(super) struct Presence {
    /// Time of its latest event, or now if it has requests outstanding; `None` before the first.
    last: Option<Nanos>,
    /// Time after its last event from which it counts as idle.
    linger: Nanos,
    is_idle: bool,
    is_quiet: bool,
    /// Time of its latest return from idleness, and the length of that pause.
    returned: Option<(Nanos, Nanos)>,
}

impl Presence {
    pub fn new() -> Presence {
        Presence { last: None, linger: IDLE, is_idle: true, is_quiet: true, returned: None }
    }

    /// Whether its neighbours need no limits.
    pub fn is_idle(&self) -> bool {
        self.is_idle
    }

    /// Whether it has had no requests for a while: its service shows nothing.
    pub fn is_quiet(&self) -> bool {
        self.is_quiet
    }

    /// Ends a step. `severity`: that of the last second, above 1 if the guarantee was broken. Returns the length of the pause if the unit
    /// came back from idleness.
    pub fn step(&mut self, now: Nanos, meter: &Meter, severity: f64) -> Option<Nanos> {
        let before = self.last;
        self.last = if meter.outstanding.is_any() { Some(now) } else { meter.last };
        let pause = before.filter(|_| self.last > before).map_or(Nanos::ZERO, |before| now - before);
        if pause > LONGEST {
            self.linger = IDLE.max(Nanos(self.linger.0 / 2));
        }
        let was_idle = self.is_idle;
        let within = |time: Nanos| self.last.is_some_and(|last| now - last <= time);
        (self.is_idle, self.is_quiet) = (!within(self.linger), !within(IDLE));
        if was_idle && !self.is_idle {
            self.returned = Some((now, pause)).filter(|_| (IDLE..=LONGEST).contains(&pause));
        }
        if let Some((at, pause)) = self.returned
            && severity > 1.0
        {
            if now - at <= JUDGED {
                self.linger = self.linger.max(Nanos::from_secs_f64(MARGIN * pause.as_secs_f64()));
            }
            self.returned = None;
        }
        (was_idle && !self.is_idle).then_some(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_stay_over_pauses_from_which_a_unit_came_back_to_late_requests_until_it_stays_away() {
        let at = Nanos::from_millis;
        let (mut presence, mut meter) = (Presence::new(), Meter::default());
        let mut idle = Vec::new();
        // An event at these seconds, late ones until the tenth.
        for ms in (0..40_000).step_by(100) {
            let second = ms / 1_000;
            if ms % 1_000 == 0 && matches!(second, 0 | 2 | 4 | 6 | 20 | 22) {
                meter.last = Some(at(ms));
            }
            let was_idle = presence.is_idle();
            presence.step(at(ms), &meter, if second < 10 { 3.0 } else { 0.0 });
            if presence.is_idle() && !was_idle {
                idle.push(ms);
            }
        }
        assert_eq!(idle, [700, 9_100, 21_600, 23_600], "after 0.6 s, then 3 s, and half of that after a long pause");
    }
}
