//! How long a paper may take on a real device, and how many pieces of it that is.

use block::Nanos;

use progress::monitor::Monitor;

/// Measures pieces of work by the device's clock, from which its times come.
pub struct Clock<'a> {
    began: Nanos,
    ends: Nanos,
    /// When the piece that is under way began, and the longest so far.
    piece: Nanos,
    longest: Nanos,
    /// Pieces that are done, and why there are no more.
    done: usize,
    failed: Option<String>,
    monitor: &'a dyn Monitor,
}

impl<'a> Clock<'a> {
    /// Begins now; progress is shown in seconds.
    pub fn new(minutes: u32, began: Nanos, monitor: &'a dyn Monitor) -> Clock<'a> {
        let seconds = 60 * u64::from(minutes);
        monitor.begin(seconds, "on the device, seconds:");
        let ends = began + Nanos::from_millis(1_000 * seconds);
        Clock { began, ends, piece: began, longest: Nanos::ZERO, done: 0, failed: None, monitor }
    }

    /// Whether a piece as long as the longest so far would be over in time; the first always has time.
    pub fn has_time_for_another(&self, now: Nanos) -> bool {
        self.failed.is_none() && (self.longest == Nanos::ZERO || now + self.longest <= self.ends)
    }

    /// A piece is over, and this came of it. One that failed is the last; what was measured before is worth a page all the same.
    ///
    /// # Errors
    /// The first failed, or the work was interrupted.
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

    /// Pieces that are done.
    pub fn done(&self) -> usize {
        self.done
    }

    /// Why there are no more pieces, if one failed: a note for the page.
    pub fn failed(&self) -> Option<String> {
        self.failed.clone()
    }

    /// Shows how much of the time is over.
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
