//! Observed requests in order of arrival, in bounded memory: most are kept in a temporary file.

use anyhow::Result;
use block::Nanos;
use sim::trace::TraceRequest;
use sim::trace::numbered::Numbered;
use twin::ObservedRequest;

/// The requests of a recording or a run.
#[derive(Default)]
pub struct Requests {
    all: Numbered,
    longest: Nanos,
    lasts: Nanos,
    end: u64,
    has_read_ahead: bool,
}

impl Requests {
    /// Adds a request, which must not arrive earlier than the previous one.
    ///
    /// # Errors
    /// The temporary file cannot be written.
    pub fn push(&mut self, seen: &ObservedRequest) -> Result<()> {
        self.note(seen);
        Ok(self.all.push(in_trace(seen))?)
    }

    /// Takes over the requests of a trace, each of which was [noted](Requests::note).
    pub fn noted(self, all: Numbered) -> Requests {
        Requests { all, ..self }
    }

    /// Updates the statistics with a request, without storing it.
    pub fn note(&mut self, seen: &ObservedRequest) {
        self.longest = self.longest.max(seen.response());
        self.lasts = self.lasts.max(seen.completed);
        self.end = self.end.max(seen.request.end());
        self.has_read_ahead |= seen.request.is_read_ahead();
    }

    /// Number of requests.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Time of the last completion; zero without requests.
    pub fn lasts(&self) -> Nanos {
        self.lasts
    }

    /// The sector after the last one accessed; zero without requests.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Whether any is read-ahead.
    pub fn has_read_ahead(&self) -> bool {
        self.has_read_ahead
    }

    /// Requests from this number on, in order. Items are errors if the temporary file cannot be read.
    pub fn from(&self, number: usize) -> impl Iterator<Item = Result<ObservedRequest>> {
        self.all.from(number).map(|request| Ok(observed(&request?)))
    }

    /// Requests in flight at any time in this range, and some that completed before it.
    pub fn between(&self, from: Nanos, to: Nanos) -> impl Iterator<Item = Result<ObservedRequest>> {
        let requests = self.all.since(from - self.longest).map(|request| Ok(observed(&request?)));
        requests.take_while(move |seen: &Result<ObservedRequest>| seen.as_ref().map_or(true, |seen| seen.request.arrival < to))
    }
}

/// Converts to the format of traces.
pub fn in_trace(seen: &ObservedRequest) -> TraceRequest {
    let ObservedRequest { request, dispatched, completed } = seen;
    TraceRequest {
        arrival: request.arrival,
        device: 0,
        lba: request.lba,
        sectors: request.sectors,
        op: request.op,
        sync: Some(request.sync),
        stream: request.stream,
        priority: request.priority,
        response: Some(*completed - request.arrival),
        service: Some(*completed - *dispatched),
    }
}

fn observed(request: &TraceRequest) -> ObservedRequest {
    ObservedRequest::recorded(request, request.response.unwrap_or_default())
}
