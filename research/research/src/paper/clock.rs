//! The time limit of a paper on a real device, and how many of its runs fit in it.

use block::Nanos;

use progress::monitor::Monitor;

/// Times runs by the device's clock and tells whether another one fits.
pub struct Clock<'a> {
    began: Nanos,
    ends: Nanos,
    /// When the current run began, and the longest run so far.
    piece: Nanos,
    longest: Nanos,
    /// Completed runs, and why one failed.
    done: usize,
    failed: Option<String>,
    monitor: &'a dyn Monitor,
}

impl<'a> Clock<'a> {
    /// Starts the clock; progress is shown in seconds.
    pub fn new(minutes: u32, began: Nanos, monitor: &'a dyn Monitor) -> Clock<'a> {
        let seconds = 60 * u64::from(minutes);
        monitor.begin(seconds, "on the device, seconds:");
        let ends = began + Nanos::from_millis(1_000 * seconds);
        Clock { began, ends, piece: began, longest: Nanos::ZERO, done: 0, failed: None, monitor }
    }

    /// Whether a run as long as the longest so far would end in time; always true for the first.
    pub fn has_time_for_another(&self, now: Nanos) -> bool {
        self.failed.is_none() && (self.longest == Nanos::ZERO || now + self.longest <= self.ends)
    }

    /// Records the end of a run and returns its result; `None` if it failed. A failed run is the last: earlier results are still reported.
    ///
    /// # Errors
    /// The first run failed, or the work was interrupted.
    pub fn one_more<T>(&mut self, now: Nanos, came: anyhow::Result<T>) -> anyhow::Result<Option<T>> {
        let piece = match came {
            Err(error) if self.done == 0 || self.monitor.check().is_err() => return Err(error),
            Err(error) => {
                let failed = format!("Runs after number {} failed and are omitted: {error:#}.", self.done);
                self.monitor.warn(&failed);
                self.failed = Some(failed);
                None
            }
            Ok(piece) => Some(piece),
        };
        self.longest = self.longest.max(now - self.piece);
        (self.piece, self.done) = (now, self.done + usize::from(piece.is_some()));
        self.show(now);
        Ok(piece)
    }

    /// Number of completed runs.
    pub fn done(&self) -> usize {
        self.done
    }

    /// A note for the page about the run that failed; `None` if none did.
    pub fn failed(&self) -> Option<String> {
        self.failed.clone()
    }

    /// Reports elapsed time to the progress monitor.
    pub fn show(&self, now: Nanos) {
        self.monitor.progress((now - self.began).as_secs_f64() as u64);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use anyhow::anyhow;

    use super::*;
    use progress::monitor::Quiet;

    #[test]
    fn a_failure_ends_the_work_and_what_was_done_before_stays() {
        let (monitor, at) = (Quiet::default(), |seconds: u64| Nanos::from_millis(1_000 * seconds));
        let mut clock = Clock::new(1, at(0), &monitor);
        assert!(clock.one_more::<()>(at(5), Err(anyhow!("no disk"))).is_err(), "there is nothing to show");
        assert_eq!(clock.one_more(at(10), Ok(1)).unwrap(), Some(1));
        assert!(clock.has_time_for_another(at(10)) && !clock.has_time_for_another(at(56)));
        assert_eq!(clock.one_more::<()>(at(20), Err(anyhow!("no disk"))).unwrap(), None);
        assert!(!clock.has_time_for_another(at(20)));
        assert_eq!(clock.failed().unwrap(), "Runs after number 1 failed and are omitted: no disk.");
    }
}
