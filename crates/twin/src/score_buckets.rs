//! Performance of a load, in buckets of half a second.

use std::collections::VecDeque;

use block::Nanos;
use observe::performance::Performance;
use observe::window::Tally;
use observe::{Event, WindowOutcome};

/// Length of a bucket: long enough for a few requests of a hard disk, short compared with any load. Choice: both bounds leave a factor of
/// ten; not varied.
pub const BUCKET: Nanos = Nanos::from_millis(500);
/// Maximum number of buckets kept of a long run: the minutes relevant to a decision. Choice: five minutes of [`BUCKET`], and tens of
/// kilobytes; not varied.
const MAX_BUCKETS: usize = 600;

/// Performance of a run, in buckets of equal length from time 0.
#[derive(Clone, Debug)]
pub struct ScoreBuckets {
    tally: Tally,
    length: Nanos,
    /// End of the current bucket.
    ends: Nanos,
    /// Number of dropped buckets, which precede the kept ones.
    dropped: usize,
    outcomes: VecDeque<WindowOutcome>,
    max_buckets: usize,
}

impl ScoreBuckets {
    /// An empty recorder that keeps every bucket.
    pub fn new() -> ScoreBuckets {
        ScoreBuckets::of(BUCKET, usize::MAX)
    }

    /// An empty recorder that keeps the last five minutes.
    pub fn latest() -> ScoreBuckets {
        ScoreBuckets::of(BUCKET, MAX_BUCKETS)
    }

    /// An empty recorder that keeps every bucket, with this bucket length.
    pub(crate) fn with_length(length: Nanos) -> ScoreBuckets {
        ScoreBuckets::of(length, usize::MAX)
    }

    fn of(length: Nanos, max_buckets: usize) -> ScoreBuckets {
        ScoreBuckets { tally: Tally::new(), length, ends: length, dropped: 0, outcomes: VecDeque::new(), max_buckets }
    }

    /// Adds an event.
    pub fn event(&mut self, event: &Event) {
        // A request that waited for room in the queue is reported later than its arrival.
        if !matches!(event, Event::Queued(_)) {
            self.until(event.at());
        }
        self.tally.event(event);
    }

    /// The fold of all events so far, the current bucket included.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Closes the buckets that end by `now`.
    pub fn until(&mut self, now: Nanos) {
        while self.ends <= now {
            self.outcomes.push_back(self.tally.close(self.length));
            if self.outcomes.len() > self.max_buckets {
                self.outcomes.pop_front();
                self.dropped += 1;
            }
            self.ends += self.length;
            self.skip_dropped(now);
        }
    }

    /// Closes all buckets at once that would be dropped by `now`.
    fn skip_dropped(&mut self, now: Nanos) {
        let left = now.0.saturating_sub(self.ends.0) / self.length.0;
        let skipped = left.saturating_sub(self.max_buckets as u64);
        if skipped > 0 {
            self.dropped += self.outcomes.len() + skipped as usize;
            self.outcomes.clear();
            let skipped = Nanos(skipped * self.length.0);
            self.tally.close(skipped);
            self.ends += skipped;
        }
    }

    /// Performance between these times, in seconds; `None` if no request completed.
    pub fn served(&self, from_s: f64, to_s: f64) -> Option<Performance> {
        Performance::of(self.between(from_s, to_s))
    }

    /// Performance between these times by requests alone, even if calls were observed; `None` if no request completed.
    pub fn requests(&self, from_s: f64, to_s: f64) -> Option<Performance> {
        let by_requests: Vec<WindowOutcome> =
            self.between(from_s, to_s).map(|bucket| WindowOutcome { calls: None, ..*bucket }).collect();
        Performance::of(&by_requests)
    }

    /// The buckets between these times, in seconds.
    pub fn between(&self, from_s: f64, to_s: f64) -> impl Iterator<Item = &WindowOutcome> {
        let bucket = |time_s: f64| ((time_s / self.length.as_secs_f64()).round() as usize).saturating_sub(self.dropped);
        let to = bucket(to_s).min(self.outcomes.len());
        self.outcomes.range(bucket(from_s).min(to)..to)
    }
}

impl Default for ScoreBuckets {
    fn default() -> ScoreBuckets {
        ScoreBuckets::new()
    }
}
