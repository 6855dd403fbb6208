//! Sources of requests: a trace at its recorded times (open loop), or stream by stream after completions (closed loop).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};

use block::{Nanos, Op, StreamId};

use super::ReplayError;
use super::placement::{BATCH, Placement};
use crate::run::{Finished, Issue, RunError, Source};
use crate::trace::{TraceReader, TraceRequest};

/// Number of requests that a closed loop reads ahead to find each stream's next one. This bounds memory; a stream whose next
/// request is further ahead is not served until that is read.
const MAX_READ_AHEAD: usize = 65_536;

/// Limit per stream on the issued requests that later ones may depend on.
const MAX_DEPENDENCIES: usize = 65_536;

/// The reason for which a request has no location.
#[cold]
fn placement_error(request: &TraceRequest, placement: &Placement) -> ReplayError {
    match placement.is_alone() {
        true => ReplayError::Beyond { stream: request.stream, lba: request.lba, capacity: placement.capacity_sectors() },
        false => ReplayError::Changed,
    }
}

/// Converts a request of the trace to an issue on the disk.
#[inline]
fn issue(request: &TraceRequest, placement: &Placement, arrival: Nanos, token: u64) -> Result<Issue, RunError> {
    Ok(Issue {
        arrival,
        lba: placement.lba(request).ok_or_else(|| placement_error(request, placement))?,
        sectors: request.sectors,
        op: request.op,
        sync: request.is_sync(),
        stream: request.stream,
        priority: request.priority,
        token,
    })
}

/// Scales a duration of the trace to `speed`.
fn scaled(span: Nanos, speed: f64) -> Nanos {
    if speed == 1.0 { span } else { Nanos::from_secs_f64(span.as_secs_f64() / speed) }
}

/// Requests read between two checks of the stop flag while searching for a stream's next request.
const READS_PER_CHECK: u64 = 4096;

/// A trace's requests, or some of them, with their numbers.
pub(super) struct Numbered<'a> {
    reader: Box<dyn TraceReader + 'a>,
    /// The selected requests, with the stop flag, since a search may take long; `None` for all.
    only: Option<(Only<'a>, Option<&'a AtomicBool>)>,
    count: u64,
    /// Requests read ahead, and number of them that have been taken.
    batch: Vec<TraceRequest>,
    taken: usize,
}

/// A selection of a trace's requests.
enum Only<'a> {
    /// Those of these streams, which are in ascending order.
    Streams(Vec<StreamId>),
    /// Those of the tenant that this placement is for.
    Meant(&'a Placement),
}

impl<'a> Numbered<'a> {
    fn new(reader: Box<dyn TraceReader + 'a>, only: Option<(Only<'a>, Option<&'a AtomicBool>)>) -> Numbered<'a> {
        Numbered { reader, only, count: 0, batch: Vec::with_capacity(BATCH), taken: 0 }
    }

    /// All requests.
    pub(super) fn all(reader: Box<dyn TraceReader + 'a>) -> Numbered<'a> {
        Numbered::new(reader, None)
    }

    /// Those of `streams`, which are in ascending order. The others are read and skipped.
    pub(super) fn only(reader: Box<dyn TraceReader + 'a>, streams: Vec<StreamId>, stop: Option<&'a AtomicBool>) -> Numbered<'a> {
        Numbered::new(reader, Some((Only::Streams(streams), stop)))
    }

    /// Those of the tenant that `placement` is for. The others are read and skipped.
    pub(super) fn meant(reader: Box<dyn TraceReader + 'a>, placement: &'a Placement, stop: Option<&'a AtomicBool>) -> Numbered<'a> {
        Numbered::new(reader, Some((Only::Meant(placement), stop)))
    }

    /// Reads further requests. Returns whether there are any.
    #[cold]
    #[inline(never)]
    fn read(&mut self) -> Result<bool, RunError> {
        self.batch.clear();
        self.taken = 0;
        Ok(self.reader.next_batch(&mut self.batch, BATCH).map_err(ReplayError::Trace)?)
    }

    #[inline]
    fn next(&mut self) -> Result<Option<(u64, &TraceRequest)>, RunError> {
        loop {
            if self.taken == self.batch.len() && !self.read()? {
                return Ok(None);
            }
            let (number, index) = (self.count, self.taken);
            self.count += 1;
            self.taken += 1;
            if self.wants(&self.batch[index])? {
                return Ok(Some((number, &self.batch[index])));
            }
        }
    }

    #[inline]
    fn wants(&self, request: &TraceRequest) -> Result<bool, RunError> {
        let Some((only, stop)) = &self.only else { return Ok(true) };
        if self.count.is_multiple_of(READS_PER_CHECK) && stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
            return Err(RunError::Interrupted);
        }
        Ok(match only {
            Only::Streams(streams) => streams.binary_search(&request.stream).is_ok(),
            Only::Meant(placement) => placement.is_meant(request),
        })
    }
}

/// Open loop: every request arrives at its recorded time divided by `speed`, whether or not the disk keeps up.
pub(super) struct Open<'a> {
    requests: Numbered<'a>,
    placement: &'a Placement,
    speed: f64,
    next: Option<Issue>,
}

impl<'a> Open<'a> {
    pub(super) fn new(requests: Numbered<'a>, placement: &'a Placement, speed: f64) -> Open<'a> {
        Open { requests, placement, speed, next: None }
    }

    fn read(&mut self) -> Result<Option<Nanos>, RunError> {
        let Some((number, request)) = self.requests.next()? else { return Ok(None) };
        let arrival = scaled(request.arrival, self.speed);
        self.next = Some(issue(request, self.placement, arrival, number)?);
        Ok(Some(arrival))
    }
}

impl Source for Open<'_> {
    type Work = Issue;

    // Called several times per request; the cached answer is nearly always valid.
    #[inline]
    fn next_at(&mut self) -> Result<Option<Nanos>, RunError> {
        match &self.next {
            Some(next) => Ok(Some(next.arrival)),
            None => self.read(),
        }
    }

    #[inline]
    fn take(&mut self, _now: Nanos) -> Result<Option<Issue>, RunError> {
        Ok(self.next.take())
    }

    fn completed(&mut self, _finished: &Finished) {}
}

/// Closed loop: each stream continues after the completion that it waited for in the recording.
///
/// A request is assumed to depend on the stream's request that completed last before it was issued. It is issued its recorded think
/// time after that one completes here, and never before the stream's preceding request, so a stream that kept four requests in
/// flight keeps four in flight. Streams do not wait for asynchronous requests. If the recording has no completions, the whole gap
/// between two requests counts as think time.
pub(super) struct Closed<'a> {
    requests: Numbered<'a>,
    placement: &'a Placement,
    speed: f64,
    at_end: bool,
    buffered: usize,
    /// In order of their first requests.
    streams: Vec<Stream>,
    /// Index of each stream.
    indices: BTreeMap<StreamId, usize>,
    /// The stream read last and its index: consecutive requests are often of the same stream.
    last: Option<(StreamId, usize)>,
    /// Streams whose next request can be issued: issue time, request number, index of the stream.
    ready: BinaryHeap<Reverse<(Nanos, u64, usize)>>,
    /// Requests in flight that others may depend on: from number to recorded completion and index of the stream.
    under_way: BTreeMap<u64, (Nanos, usize)>,
}

#[derive(Default)]
struct Stream {
    /// Its next requests in recorded order, with their numbers in the trace.
    ahead: VecDeque<(u64, TraceRequest)>,
    /// Whether its next request is in the heap of ready ones.
    announced: bool,
    /// Issued requests that later ones may depend on: from recorded completion and number to the completion here.
    behind: BTreeMap<(Nanos, u64), Option<Nanos>>,
    /// Recorded and actual issue time of the last request.
    last_issue: Option<(Nanos, Nanos)>,
}

impl Stream {
    /// Issue time of the next request; `None` if there is none, or while the request that it depends on is in flight.
    fn next_issue(&mut self, speed: f64) -> Option<Nanos> {
        let arrival = self.ahead.front()?.1.arrival;
        let Some((last_recorded, last_here)) = self.last_issue else { return Some(scaled(arrival, speed)) };
        let Some((&dependency, &completion)) = self.behind.range(..=(arrival, u64::MAX)).next_back() else {
            return Some(last_here + scaled(arrival - last_recorded, speed));
        };
        // Later requests were issued later and depend on this one or one that completed later.
        while self.behind.first_key_value().is_some_and(|(&key, _)| key < dependency) {
            self.behind.pop_first();
        }
        Some((completion? + scaled(arrival - dependency.0, speed)).max(last_here))
    }

    /// Records an issued request. Beyond the limit, requests that completed last in the recording are dropped, since they are
    /// needed last.
    fn remember(&mut self, key: (Nanos, u64)) {
        self.behind.insert(key, None);
        if self.behind.len() > MAX_DEPENDENCIES {
            self.behind.pop_last();
        }
    }
}

impl<'a> Closed<'a> {
    pub(super) fn new(requests: Numbered<'a>, placement: &'a Placement, speed: f64) -> Closed<'a> {
        Closed {
            requests,
            placement,
            speed,
            at_end: false,
            buffered: 0,
            streams: Vec::new(),
            indices: BTreeMap::new(),
            last: None,
            ready: BinaryHeap::new(),
            under_way: BTreeMap::new(),
        }
    }

    fn announce(&mut self, index: usize) {
        let stream = &mut self.streams[index];
        if !stream.announced
            && let Some(at) = stream.next_issue(self.speed)
        {
            stream.announced = true;
            let token = stream.ahead.front().map_or(0, |&(token, _)| token);
            self.ready.push(Reverse((at, token, index)));
        }
    }

    /// The index of a stream; a new stream is added.
    fn index_of(&mut self, id: StreamId) -> usize {
        match self.last {
            Some((last, index)) if last == id => index,
            _ => {
                let index = *self.indices.entry(id).or_insert(self.streams.len());
                if index == self.streams.len() {
                    self.streams.push(Stream::default());
                }
                self.last = Some((id, index));
                index
            }
        }
    }

    fn look_ahead(&mut self) -> Result<(), RunError> {
        while !self.at_end && self.buffered < MAX_READ_AHEAD {
            let Some((number, &request)) = self.requests.next()? else {
                self.at_end = true;
                break;
            };
            self.buffered += 1;
            let index = self.index_of(request.stream);
            let stream = &mut self.streams[index];
            stream.ahead.push_back((number, request));
            if stream.ahead.len() == 1 {
                self.announce(index);
            }
        }
        Ok(())
    }
}

impl Source for Closed<'_> {
    type Work = Issue;

    fn next_at(&mut self) -> Result<Option<Nanos>, RunError> {
        self.look_ahead()?;
        Ok(self.ready.peek().map(|Reverse((at, ..))| *at))
    }

    fn take(&mut self, now: Nanos) -> Result<Option<Issue>, RunError> {
        let Some(Reverse((.., index))) = self.ready.pop() else { return Ok(None) };
        let stream = &mut self.streams[index];
        let Some((token, request)) = stream.ahead.pop_front() else { return Ok(None) };
        self.buffered -= 1;
        stream.announced = false;
        stream.last_issue = Some((request.arrival, now));
        // A read-ahead counts as well: the process continues only after it.
        if request.op == Op::Read || request.sync != Some(false) {
            let recorded_completion = request.arrival + request.response.unwrap_or(Nanos::ZERO);
            stream.remember((recorded_completion, token));
            self.under_way.insert(token, (recorded_completion, index));
        }
        self.announce(index);
        // If the queue is full, the process is delayed: in a closed loop the response time starts when the request is admitted.
        issue(&request, self.placement, now, token).map(Some)
    }

    fn completed(&mut self, finished: &Finished) {
        let token = finished.token();
        let Some((recorded_completion, index)) = self.under_way.remove(&token) else { return };
        if let Some(completion) = self.streams[index].behind.get_mut(&(recorded_completion, token)) {
            *completion = Some(finished.at());
            self.announce(index);
        }
    }
}
