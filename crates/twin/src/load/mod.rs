//! The load, understood from the times of its requests: which of them wait for answers, which come by the clock, and where they go on.
//!
//! ```text
//! requests of a stream, in order of arrival
//!   ├─▶ pace:   issued after so many completions and some thought, or a while after the one before
//!   └─▶ places: runs that continue in order, others drawn from where the stream was seen
//! ```
//! A recording ends, and a better setting gets further than what was seen: a stream that comes to its end begins again, with its runs
//! going on from where they were and its other places drawn anew, so that no cache is hit that would not be.

mod ahead;
mod pace;
mod places;
mod source;
mod supposed;

use std::collections::BTreeMap;

use block::{Nanos, StreamId};

use crate::recording::Seen;
pub(crate) use ahead::BIO_SECTORS;
pub use pace::Pace;
use pace::{Again, Step};
use places::Places;
pub use source::{Asked, Replayed};
pub use supposed::{SupposedRequest, SupposedStream};

/// What the streams would ask of any device.
#[derive(Clone, Debug)]
pub struct Load {
    streams: Vec<Stream>,
    span: Nanos,
}

/// A stream of the load.
#[derive(Clone, Debug)]
struct Stream {
    id: StreamId,
    pace: Pace,
    steps: Vec<Step>,
    again: Again,
    places: Places,
    /// Whether it still asked when what was seen ended.
    goes_on: bool,
    /// Whether it was silent at the end for so long that nothing more of it is expected.
    is_over: bool,
    /// What it waits for room in the queue counts: nothing of that was seen, so nobody would think that it thought meanwhile.
    waits_for_room: bool,
}

/// A stream goes on if it asked within this share of the time, the last.
const LATELY: f64 = 0.1;
/// One is over that was silent at the end for so many times as long as it ever was before, if it had so many requests to show that.
const SILENT: f64 = 2.0;
const FEWEST_GAPS: usize = 10;

impl Load {
    /// Understands what was queued between `from` and `to`; `seen` holds every request and every flush that was under way at any time
    /// between them, in any order.
    pub fn infer<'a>(seen: impl IntoIterator<Item = &'a Seen>, from: Nanos, to: Nanos) -> Load {
        let mut by_stream: BTreeMap<StreamId, Vec<&Seen>> = BTreeMap::new();
        for seen in seen.into_iter().filter(|seen| seen.request.arrival < to && seen.completed >= from) {
            by_stream.entry(seen.request.stream).or_default().push(seen);
        }
        let begin = |seen: &[&Seen]| {
            seen.iter().filter(|seen| seen.request.arrival >= from && !seen.is_flush()).map(|seen| seen.request.lba).min()
        };
        let mut begins: Vec<u64> = by_stream.values().filter_map(|seen| begin(seen)).collect();
        begins.sort_unstable();
        let lately = to - Nanos::from_secs_f64(LATELY * (to - from).as_secs_f64());
        let streams = by_stream.into_iter().filter_map(|(id, mut seen)| {
            seen.sort_by_key(|seen| (seen.request.arrival, seen.completed));
            let (steps, again) = pace::steps(&seen, from, to);
            let asked = seen.iter().map(|seen| &seen.request).filter(|request| request.arrival >= from);
            let places = Places::new(asked, id, &begins);
            // The latest first: they tell.
            let goes_on = seen.iter().rev().any(|seen| seen.completed > to || seen.request.arrival >= lately);
            let is_over = !goes_on && is_over(&seen, to);
            (!steps.is_empty()).then(|| {
                let pace = Pace::of(&steps);
                Stream { id, pace, steps, again, places, goes_on, is_over, waits_for_room: false }
            })
        });
        Load { streams: streams.collect(), span: to - from }
    }

    /// The load as it is from now on, where that differs: streams that began meanwhile and go on are there from the beginning, and those
    /// that are over are gone. What takes over finds them all at once.
    pub fn from_now(&self) -> Option<Load> {
        let late = Nanos::from_secs_f64(LATELY * self.span.as_secs_f64());
        let is_late = |stream: &Stream| stream.goes_on && stream.steps[0].gap > late;
        let differs = self.streams.iter().any(|stream| stream.is_over || is_late(stream));
        (differs && self.streams.iter().any(|stream| !stream.is_over)).then(|| {
            let mut load = self.clone();
            load.streams.retain(|stream| !stream.is_over);
            for stream in load.streams.iter_mut().filter(|stream| is_late(stream)) {
                stream.steps[0].gap = Nanos::ZERO;
            }
            load
        })
    }

    /// The load as it would be if its files were opened under another read-ahead, both in sectors; `None` where nothing is read ahead so
    /// far that it would tell.
    pub fn reading_ahead(&self, from: u32, to: u32) -> Option<Load> {
        // Most loads are asked for in vain, and they are large.
        let differs = self.streams.iter().any(|stream| stream.windows(from, to).is_some());
        let stream = |stream: &Stream| stream.reading_ahead(from, to).unwrap_or_else(|| stream.clone());
        differs.then(|| Load { streams: self.streams.iter().map(stream).collect(), span: self.span })
    }

    /// As how many requests one of each stream counts where response times are compared, in the mean ([`block::Request::response_weight`]).
    pub fn counts(&self) -> BTreeMap<StreamId, f64> {
        self.streams.iter().map(|stream| (stream.id, stream.counts_as())).collect()
    }

    /// The length of what it was inferred from.
    pub fn span(&self) -> Nanos {
        self.span
    }

    /// How many requests it was inferred from.
    pub fn requests(&self) -> usize {
        self.streams.iter().map(|stream| stream.steps.len()).sum()
    }

    /// Its streams.
    pub fn streams(&self) -> impl Iterator<Item = Understood> {
        self.streams.iter().map(|stream| stream.understood(self.span))
    }
}

/// Whether a stream, by its requests in order of arrival, was silent until now for far longer than ever before.
fn is_over(seen: &[&Seen], to: Nanos) -> bool {
    let longest = seen.windows(2).map(|pair| pair[1].request.arrival - pair[0].request.arrival).max().unwrap_or(Nanos::ZERO);
    let silent = seen.iter().map(|seen| seen.completed).max().map_or(Nanos::ZERO, |last| to - last.min(to));
    seen.len() > FEWEST_GAPS && silent.as_secs_f64() > SILENT * longest.as_secs_f64()
}

/// What was understood of a stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Understood {
    /// Which.
    pub stream: StreamId,
    /// How it comes.
    pub pace: Pace,
    /// Requests that it had.
    pub requests: usize,
    /// How many of them it has under way at once, most of the time that it asks for one more.
    pub in_flight: u32,
    /// What it takes a stream that waits for answers to ask again, in the median; `None` if it never did.
    pub thought: Option<Nanos>,
    /// Requests a second.
    pub rate: f64,
}

impl Stream {
    fn understood(&self, span: Nanos) -> Understood {
        let mut under_way: Vec<u32> = self.steps.iter().map(|step| step.under_way).collect();
        let mut thoughts: Vec<Nanos> = self.steps.iter().filter_map(|step| step.thought).collect();
        let thought = (!thoughts.is_empty()).then(|| *middle(&mut thoughts));
        Understood {
            stream: self.id,
            pace: self.pace,
            requests: self.steps.len(),
            in_flight: *middle(&mut under_way) + 1,
            thought,
            rate: self.steps.len() as f64 / span.as_secs_f64(),
        }
    }
}

fn middle<T: Ord>(values: &mut [T]) -> &T {
    let middle = values.len() / 2;
    values.select_nth_unstable(middle).1
}
