//! Where requests come from: a trace by its own times (open loop), or stream by stream after completions (closed loop).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};

use block::{Nanos, StreamId};

use super::ReplayError;
use super::placement::Placement;
use crate::run::{Finished, Issue, RunError, Source};
use crate::trace::{TraceReader, TraceRequest};

/// Requests a closed loop reads ahead in the trace to find each stream's next one. Bounds its memory for traces of any length;
/// a stream whose next request lies further on sleeps until it comes into sight.
const LOOK_AHEAD: usize = 65_536;

/// Requests that a stream of a closed loop may have in flight in the recording and be told apart by.
const LOOK_BEHIND: usize = 65_536;

/// Places a request of the trace on the disk.
#[inline]
fn issue(request: &TraceRequest, placement: &Placement, arrival: Nanos, token: u64) -> Result<Issue, RunError> {
    Ok(Issue {
        arrival,
        lba: placement.lba(request).ok_or(ReplayError::Changed)?,
        sectors: request.sectors,
        op: request.op,
        sync: request.is_sync(),
        stream: request.stream,
        priority: request.priority,
        token,
    })
}

/// A span of the trace's time at `speed`.
fn scaled(span: Nanos, speed: f64) -> Nanos {
    if speed == 1.0 { span } else { Nanos::from_secs_f64(span.as_secs_f64() / speed) }
}

/// Requests read in search of some streams between two checks of the flag that stops a run.
const READS_PER_CHECK: u64 = 4096;

/// A trace's requests with their numbers in it, or those of some streams alone.
pub(super) struct Numbered<'a> {
    reader: Box<dyn TraceReader + 'a>,
    /// If not all: the streams wanted, in ascending order, and what stops the run, for a search may go on for long.
    only: Option<(Vec<StreamId>, Option<&'a AtomicBool>)>,
    count: u64,
}

impl<'a> Numbered<'a> {
    /// All requests.
    pub(super) fn all(reader: Box<dyn TraceReader + 'a>) -> Numbered<'a> {
        Numbered { reader, only: None, count: 0 }
    }

    /// Those of `streams`, in ascending order. The others cost no more than being read.
    pub(super) fn only(reader: Box<dyn TraceReader + 'a>, streams: Vec<StreamId>, stop: Option<&'a AtomicBool>) -> Numbered<'a> {
        Numbered { reader, only: Some((streams, stop)), count: 0 }
    }

    #[inline]
    fn next(&mut self) -> Result<Option<(u64, TraceRequest)>, RunError> {
        loop {
            let request = match self.reader.next_request() {
                Some(Ok(request)) => request,
                Some(Err(error)) => return Err(ReplayError::Trace(error).into()),
                None => return Ok(None),
            };
            let number = self.count;
            self.count += 1;
            if self.wants(request.stream)? {
                return Ok(Some((number, request)));
            }
        }
    }

    #[inline]
    fn wants(&self, stream: StreamId) -> Result<bool, RunError> {
        let Some((streams, stop)) = &self.only else { return Ok(true) };
        if self.count.is_multiple_of(READS_PER_CHECK) && stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
            return Err(RunError::Interrupted);
        }
        Ok(streams.binary_search(&stream).is_ok())
    }
}

/// Open loop: every request at its own time, divided by `speed`, whether or not the disk keeps up.
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
        let next = issue(&request, self.placement, scaled(request.arrival, self.speed), number)?;
        self.next = Some(next);
        Ok(Some(next.arrival))
    }
}

impl Source for Open<'_> {
    type Work = Issue;

    // Asked several times for each request, and nearly always there is the answer of last time.
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

/// Closed loop: each stream goes on from what it waited for in the recording.
///
/// A request is taken to depend on the stream's last request that had completed when it was issued, and is issued its recorded
/// think time after that one completes here; never before the stream's preceding request. So a stream that kept four requests in
/// flight keeps four in flight. No stream waits for asynchronous requests. Where the recording has no completions, the whole
/// gap between two requests counts as think time.
pub(super) struct Closed<'a> {
    requests: Numbered<'a>,
    placement: &'a Placement,
    speed: f64,
    at_end: bool,
    buffered: usize,
    /// In the order of their first requests.
    streams: Vec<Stream>,
    /// Where in it each stream is.
    indices: BTreeMap<StreamId, usize>,
    /// The stream that was read last, and where it is: requests of one come in runs.
    last: Option<(StreamId, usize)>,
    /// Streams whose next request can be issued: when, its number, and where the stream is.
    ready: BinaryHeap<Reverse<(Nanos, u64, usize)>>,
    /// What is under way here and may be waited for: its number, to when it completed in the recording, and where its stream is.
    under_way: BTreeMap<u64, (Nanos, usize)>,
}

#[derive(Default)]
struct Stream {
    /// What it will ask, in the recording's order, with the requests' numbers in the trace.
    ahead: VecDeque<(u64, TraceRequest)>,
    /// Its next request is in the heap of ready ones.
    announced: bool,
    /// What it asked and may still depend on: when each completed in the recording and its number, to when it completed here.
    behind: BTreeMap<(Nanos, u64), Option<Nanos>>,
    /// The latest request issued: when in the recording, when here.
    last_issue: Option<(Nanos, Nanos)>,
}

impl Stream {
    /// When the next request is issued, as far as is known; `None` while what it depends on is under way.
    fn next_issue(&mut self, speed: f64) -> Option<Nanos> {
        let arrival = self.ahead.front()?.1.arrival;
        let Some((last_recorded, last_here)) = self.last_issue else { return Some(scaled(arrival, speed)) };
        let Some((&dependency, &completion)) = self.behind.range(..=(arrival, u64::MAX)).next_back() else {
            return Some(last_here + scaled(arrival - last_recorded, speed));
        };
        // Later requests arrive later still and depend on this one or a later one.
        while self.behind.first_key_value().is_some_and(|(&key, _)| key < dependency) {
            self.behind.pop_first();
        }
        Some((completion? + scaled(arrival - dependency.0, speed)).max(last_here))
    }

    /// Remembers what was asked. Of too many, those that completed last in the recording are forgotten: they are needed last.
    fn remember(&mut self, key: (Nanos, u64)) {
        self.behind.insert(key, None);
        if self.behind.len() > LOOK_BEHIND {
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

    /// Where a stream is; a new one is taken in.
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
        while !self.at_end && self.buffered < LOOK_AHEAD {
            let Some((number, request)) = self.requests.next()? else {
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
        if request.sync != Some(false) {
            let recorded_completion = request.arrival + request.response.unwrap_or(Nanos::ZERO);
            stream.remember((recorded_completion, token));
            self.under_way.insert(token, (recorded_completion, index));
        }
        self.announce(index);
        // A process that finds the queue full is late with its request: in a closed loop the response time starts when it gets in.
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
