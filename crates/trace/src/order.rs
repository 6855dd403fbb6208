//! Puts a trace into order: sorted by arrival within a bounded window, the first request at time zero.
//!
//! Recorders write requests as they complete, or one processor's buffer after another's, so traces are often slightly out of
//! order. A window of [`WINDOW`] requests is held back; a request that is late by as many or more is an error.
//!
//! ```text
//!  push --> in order: run  [3 4 7 8 9] --> pop the earlier of the two fronts --> minus the first arrival
//!       \-> earlier than the run's last: late heap (5 6) -/
//! ```

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use block::{Nanos, StreamId};

use super::{Noticed, OpenOptions, Order, RecordedDevice, TraceError, TraceReader, TraceRequest};

/// How many requests are held back to be sorted.
pub(super) const WINDOW: usize = 65_536;

/// Reads one kind of record, in file order.
pub(super) trait Records: Send {
    /// Reads one record or line and pushes the requests it completes; `false` at the end.
    fn advance(&mut self, out: &mut Window) -> Result<bool, TraceError>;
    /// A lower bound on the arrivals of unread requests; `None` if unknown. Requests up to that time need not
    /// be held back.
    #[inline]
    fn earliest_to_come(&self) -> Option<Nanos> {
        None
    }
    /// Appends up to `at_most` next requests if none arrives before `since` or after an unread one, so
    /// that they need not be held back. Returns whether there were any; otherwise [`advance`](Records::advance) goes on.
    fn in_order(&mut self, _out: &mut Vec<TraceRequest>, _at_most: usize, _since: Nanos) -> Result<bool, TraceError> {
        Ok(false)
    }
    /// The error for a damaged record last read.
    fn damaged(&self, message: String) -> TraceError;
    /// The place of the record last read, as in `line 7`.
    fn position(&self) -> String;
    /// Damaged records skipped.
    fn skipped(&self) -> u64;
    /// See [`TraceReader::warnings`].
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }
    /// See [`TraceReader::stream_name`].
    fn stream_name(&self, _stream: StreamId) -> Option<&str> {
        None
    }
    /// See [`TraceReader::device_name`].
    fn device_name(&self, _device: u32) -> Option<&str> {
        None
    }
    /// See [`TraceReader::recorded_device`].
    fn recorded_device(&self) -> Option<&RecordedDevice> {
        None
    }
}

/// A request in the window; ties leave in file order.
#[derive(Clone, Copy)]
struct Held {
    request: TraceRequest,
    sequence: u64,
}

impl Held {
    fn key(&self) -> (Nanos, u64) {
        (self.request.arrival, self.sequence)
    }
}

impl PartialEq for Held {
    fn eq(&self, other: &Held) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Held {}

impl PartialOrd for Held {
    fn partial_cmp(&self, other: &Held) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Held {
    fn cmp(&self, other: &Held) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

/// Requests held back to be sorted. Arrivals are by the trace's own clock, in nanoseconds from any zero.
#[derive(Default)]
pub(super) struct Window {
    order: Order,
    run: VecDeque<Held>,
    late: BinaryHeap<Reverse<Held>>,
    sequence: u64,
    first: Option<Nanos>,
    last: Nanos,
    too_late: Option<Nanos>,
    omitted: u64,
    empty: u64,
    unmatched: u64,
}

impl Window {
    /// Takes a request in file order.
    pub(super) fn push(&mut self, request: TraceRequest) {
        let is_sorted = self.order != Order::OfTheFile;
        if is_sorted && self.first.is_some() && request.arrival < self.last {
            self.too_late = Some(self.last - request.arrival);
            return;
        }
        self.sequence += 1;
        let held = Held { request, sequence: self.sequence };
        match self.run.back() {
            Some(back) if is_sorted && request.arrival < back.request.arrival => self.late.push(Reverse(held)),
            _ => self.run.push_back(held),
        }
    }

    /// Counts a valid record that is no request for sectors, such as a flush.
    pub(super) fn omit(&mut self) {
        self.omitted += 1;
    }

    /// Counts a read, write or discard of no sectors.
    pub(super) fn omit_empty(&mut self) {
        self.omitted += 1;
        self.empty += 1;
    }

    /// Counts a completion of a request that was not seen.
    pub(super) fn unmatched(&mut self) {
        self.unmatched += 1;
    }

    fn len(&self) -> usize {
        self.run.len() + self.late.len()
    }

    /// The arrival of the next request to leave; `None` if some are late or none is left.
    #[inline]
    fn front(&self) -> Option<Nanos> {
        self.run.front().filter(|_| self.late.is_empty()).map(|held| held.request.arrival)
    }

    fn pop(&mut self) -> Option<TraceRequest> {
        let from_late = match (self.run.front(), self.late.peek()) {
            (Some(run), Some(Reverse(late))) => late < run,
            (run, _) => run.is_none(),
        };
        let held = if from_late { self.late.pop().map(|Reverse(held)| held) } else { self.run.pop_front() }?;
        let mut request = held.request;
        self.release(std::slice::from_mut(&mut request));
        Some(request)
    }

    /// Requests leave, in order.
    fn release(&mut self, requests: &mut [TraceRequest]) {
        let [front, ..] = requests else { return };
        let first = *self.first.get_or_insert(front.arrival);
        self.last = requests.last().map_or(self.last, |back| back.arrival);
        if self.order == Order::FromZero {
            requests.iter_mut().for_each(|request| request.arrival = request.arrival - first);
        }
    }
}

/// Records as a trace: in order, from time zero.
pub(super) struct Sorted<R> {
    records: R,
    window: Window,
    skip_bad: bool,
    skipped: u64,
    first_empty: Option<String>,
    first_unmatched: Option<String>,
    ended: bool,
}

impl<R: Records> Sorted<R> {
    pub(super) fn new(records: R, options: &OpenOptions) -> Sorted<R> {
        let window = Window { order: options.order, ..Window::default() };
        let (first_empty, first_unmatched) = (None, None);
        Sorted { records, window, skip_bad: options.skip_bad, skipped: 0, first_empty, first_unmatched, ended: false }
    }

    /// Reads until the window is full or the trace has ended.
    fn fill(&mut self) -> Result<(), TraceError> {
        let enough = if self.window.order == Order::OfTheFile { 1 } else { WINDOW };
        while !self.ended && self.window.len() < enough {
            if let Some(front) = self.window.front()
                && self.records.earliest_to_come().is_some_and(|earliest| front <= earliest)
            {
                break;
            }
            self.ended = !self.records.advance(&mut self.window)?;
            let Window { empty, unmatched, .. } = self.window;
            for (count, first) in [(empty, &mut self.first_empty), (unmatched, &mut self.first_unmatched)] {
                if count > 0 && first.is_none() {
                    *first = Some(self.records.position());
                }
            }
            if let Some(lateness) = self.window.too_late.take() {
                self.skipped += 1;
                if !self.skip_bad {
                    return Err(self.records.damaged(format!(
                        "arrives {lateness} before a request that is {WINDOW} or more requests earlier in the file: sort the trace by time, with trace sort"
                    )));
                }
            }
        }
        Ok(())
    }

    /// After an error nothing comes.
    fn end(&mut self) {
        self.ended = true;
        let Window { omitted, empty, unmatched, .. } = self.window;
        self.window = Window { omitted, empty, unmatched, ..Window::default() };
    }
}

impl<R: Records> TraceReader for Sorted<R> {
    fn next_request(&mut self) -> Option<Result<TraceRequest, TraceError>> {
        if let Err(error) = self.fill() {
            self.end();
            return Some(Err(error));
        }
        self.window.pop().map(Ok)
    }

    fn next_batch(&mut self, out: &mut Vec<TraceRequest>, at_most: usize) -> Result<bool, TraceError> {
        if !self.ended && self.window.order != Order::OfTheFile && self.window.len() == 0 {
            let (begin, since) = (out.len(), self.window.last);
            let in_order = self.records.in_order(out, at_most, since);
            if in_order.is_err() {
                self.end();
            }
            if in_order? {
                self.window.release(&mut out[begin..]);
                return Ok(true);
            }
        }
        let next = self.next_request().transpose()?;
        out.extend(next);
        Ok(next.is_some())
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings = self.records.warnings();
        match self.empty() {
            Noticed { count: 0, .. } => {}
            Noticed { count, first } => {
                let (request, first) = (if count == 1 { "request" } else { "requests" }, first.unwrap_or_default());
                warnings.push(format!("{count} {request} of no sectors left out, the first in {first}"));
            }
        }
        warnings
    }

    fn empty(&self) -> Noticed {
        Noticed { count: self.window.empty, first: self.first_empty.clone() }
    }

    fn unmatched_completions(&self) -> Noticed {
        Noticed { count: self.window.unmatched, first: self.first_unmatched.clone() }
    }

    fn position(&self) -> Option<String> {
        Some(self.records.position())
    }

    fn stream_name(&self, stream: StreamId) -> Option<&str> {
        self.records.stream_name(stream)
    }

    fn device_name(&self, device: u32) -> Option<&str> {
        self.records.device_name(device)
    }

    fn recorded_device(&self) -> Option<&RecordedDevice> {
        self.records.recorded_device()
    }

    fn omitted(&self) -> u64 {
        self.window.omitted
    }

    fn skipped(&self) -> u64 {
        self.skipped + self.records.skipped()
    }
}
