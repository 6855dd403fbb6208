//! The requests that were observed, by what they are needed for.

use block::Nanos;
use observe::Event;

use super::background::Background;
use super::starvation::Streams;
use crate::recording::Recording;
use crate::score_buckets::ScoreBuckets;

/// The requests that were observed.
pub(super) struct Observed {
    /// The latest requests, for the twin.
    pub recording: Recording,
    /// Scores of half-seconds. They hold a tally of their own next to the control loop's: its windows end at other times.
    pub buckets: ScoreBuckets,
    /// Waits of each stream.
    pub streams: Streams,
    /// Asynchronous requests, from the tally of `buckets`.
    pub background: Background,
    /// The arm under which the queue's tags were read, and their number.
    pub tags: Option<(usize, u32)>,
}

impl Observed {
    /// No request yet.
    pub fn new() -> Observed {
        Observed {
            recording: Recording::new(),
            buckets: ScoreBuckets::latest(),
            streams: Streams::default(),
            background: Background::default(),
            tags: None,
        }
    }

    /// Processes an event. Waits since `measured_from` count for the active arm; `None` if it is the original one.
    pub fn event(&mut self, event: &Event, measured_from: Option<Nanos>) {
        self.recording.event(event);
        self.buckets.event(event);
        self.streams.event(event, measured_from);
    }
}
