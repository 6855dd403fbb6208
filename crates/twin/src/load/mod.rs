//! Infers a load from the times of its requests: which wait for completions, which are issued on a clock, and which continue a sequential
//! run.
//!
//! ```text
//! requests of a stream, in order of arrival
//!   ├─▶ pace:   issued some think time after completions, or some time after the previous request
//!   └─▶ places: runs that continue sequentially, others drawn from the observed positions
//! ```
//! A recording ends, and under a better setting a trial consumes more requests than were recorded: a stream that has issued all of its
//! requests restarts. Its long runs continue where they ended and other positions are drawn again, to avoid false cache hits.

mod ahead;
mod assumed;
mod pace;
mod places;
mod source;

use std::collections::BTreeMap;

use block::{Nanos, StreamId};

use crate::recording::ObservedRequest;
pub(crate) use ahead::BIO_SECTORS;
pub use assumed::{AssumedRequest, AssumedStream};
pub use pace::Pace;
use pace::{Again, Step};
use places::Places;
pub use source::{Asked, Replayed};

/// The requests that streams would issue to any device.
///
/// ```
/// use block::{Nanos, Op};
/// use twin::load::{AssumedRequest, AssumedStream, Load, Pace};
///
/// // A process that reads 64 KiB in order, and thinks for a millisecond after each read.
/// let after = Nanos::from_millis(1);
/// let read = |number: u64| AssumedRequest { op: Op::Read, sync: true, sectors: 128, lba: 128 * number, after };
/// let stream = AssumedStream { pace: Pace::Closed, depth: 1, requests: (0..16).map(read).collect() };
/// let load = Load::assumed(&[stream], Nanos::from_millis(100));
/// assert_eq!(load.requests(), 16);
/// ```
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
    /// Whether it was active at the end of the recording.
    goes_on: bool,
    /// Whether it was idle for so long at the end that it counts as ended.
    is_over: bool,
    /// Whether waits for room in the queue count as response time. Not for observed streams, whose waits were not observed.
    waits_for_room: bool,
}

/// A stream counts as active at the end if it issued a request within this last fraction of the time. Choice: active streams with few
/// requests against ones that have ended; not varied.
const LATELY: f64 = 0.1;
/// A stream counts as ended if it was idle at the end for this many times its longest gap, and had more than [`MIN_GAPS`] requests.
/// Choice: longer would keep ended streams in forecasts for longer (commit 2bbc4c21); not varied.
const SILENT: f64 = 2.0;
/// Minimum number of gaps that show the longest one, see [`SILENT`]. Choice: the longest of a few gaps is exceeded too often; not varied.
const MIN_GAPS: usize = 10;

impl Load {
    /// Infers the load of the requests that arrived between `from` and `to`. `seen`: all requests and flushes that were in flight at any
    /// time between them, in any order.
    pub fn infer<'a>(seen: impl IntoIterator<Item = &'a ObservedRequest>, from: Nanos, to: Nanos) -> Load {
        let mut by_stream: BTreeMap<StreamId, Vec<&ObservedRequest>> = BTreeMap::new();
        for seen in seen.into_iter().filter(|seen| seen.request.arrival < to && seen.completed >= from) {
            by_stream.entry(seen.request.stream).or_default().push(seen);
        }
        let begin = |seen: &[&ObservedRequest]| {
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
            // Searched backwards, as the latest requests decide most often.
            let goes_on = seen.iter().rev().any(|seen| seen.completed > to || seen.request.arrival >= lately);
            let is_over = !goes_on && is_over(&seen, to);
            (!steps.is_empty()).then(|| {
                let pace = Pace::of(&steps);
                Stream { id, pace, steps, again, places, goes_on, is_over, waits_for_room: false }
            })
        });
        Load { streams: streams.collect(), span: to - from }
    }

    /// The load from the time of a live switch: streams that started late start at once, and streams that have ended are removed. `None` if
    /// there are no such streams, or none remain.
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

    /// The load as it would be if its files had been opened under a read-ahead of `to` instead of `from`, both in sectors; `None` if there
    /// is no difference.
    pub fn reading_ahead(&self, from: u32, to: u32) -> Option<Load> {
        // Checked first, as most loads are unaffected, and copies are large.
        let differs = self.streams.iter().any(|stream| stream.windows(from, to).is_some());
        let stream = |stream: &Stream| stream.reading_ahead(from, to).unwrap_or_else(|| stream.clone());
        differs.then(|| Load { streams: self.streams.iter().map(stream).collect(), span: self.span })
    }

    /// The mean weight of a request of each stream in response times ([`block::Request::response_weight`]).
    pub fn response_weights(&self) -> BTreeMap<StreamId, f64> {
        self.streams.iter().map(|stream| (stream.id, stream.response_weight())).collect()
    }

    /// The time span from which it was inferred.
    pub fn span(&self) -> Nanos {
        self.span
    }

    /// Number of requests from which it was inferred.
    pub fn requests(&self) -> usize {
        self.streams.iter().map(|stream| stream.steps.len()).sum()
    }

    /// Summaries of its streams.
    pub fn streams(&self) -> impl Iterator<Item = Understood> {
        self.streams.iter().map(|stream| stream.understood(self.span))
    }
}

/// Whether a stream has been idle for far longer than ever before. `seen`: its requests in order of arrival.
fn is_over(seen: &[&ObservedRequest], to: Nanos) -> bool {
    let longest = seen.windows(2).map(|pair| pair[1].request.arrival - pair[0].request.arrival).max().unwrap_or(Nanos::ZERO);
    let silent = seen.iter().map(|seen| seen.completed).max().map_or(Nanos::ZERO, |last| to - last.min(to));
    seen.len() > MIN_GAPS && silent.as_secs_f64() > SILENT * longest.as_secs_f64()
}

/// A summary of a stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Understood {
    /// The stream.
    pub stream: StreamId,
    /// When it issues requests.
    pub pace: Pace,
    /// Number of observed requests.
    pub requests: usize,
    /// Median number of its requests in flight when it issues one, including that one.
    pub in_flight: u32,
    /// Its median think time; `None` if it never waited for a completion.
    pub thought: Option<Nanos>,
    /// Requests per second.
    pub rate: f64,
}

impl Stream {
    fn understood(&self, span: Nanos) -> Understood {
        let mut in_flight: Vec<u32> = self.steps.iter().map(|step| step.in_flight).collect();
        let mut thoughts: Vec<Nanos> = self.steps.iter().filter_map(|step| step.thought).collect();
        let thought = (!thoughts.is_empty()).then(|| *middle(&mut thoughts));
        Understood {
            stream: self.id,
            pace: self.pace,
            requests: self.steps.len(),
            in_flight: *middle(&mut in_flight) + 1,
            thought,
            rate: self.steps.len() as f64 / span.as_secs_f64(),
        }
    }
}

fn middle<T: Ord>(values: &mut [T]) -> &T {
    let middle = values.len() / 2;
    values.select_nth_unstable(middle).1
}
