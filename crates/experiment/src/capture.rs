//! Writes the observed requests of a device as a trace.
//!
//! ```text
//! events in order of time ─▶ waiting: in order of arrival, with or without an answer ─▶ from the front, once answered ─▶ trace
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::io;

use block::{Nanos, Request, StreamId};
use observe::Event;
use sim::trace::write::{About, Field, Losses, Out, OutputFormat, TraceWriter};
use sim::trace::{RecordedDevice, TraceError, TraceReader, TraceRequest};

/// Maximum number of requests that wait behind one without a completion, 28 MB; beyond it, that request is written without a
/// response.
const MOST_WAITING: usize = 1 << 18;

/// A trace that is written while the device works.
pub struct Capture {
    writer: Box<dyn TraceWriter>,
    losses: Losses,
    /// In order of arrival.
    waiting: VecDeque<Waiting>,
    names: Names,
    begins: Option<Nanos>,
    captured: Captured,
}

/// Totals of a capture.
#[derive(Clone, Debug, Default)]
pub struct Captured {
    /// Requests in the trace.
    pub requests: u64,
    /// Number of these without a response: not completed by the end, or their completions were lost.
    pub unanswered: u64,
    /// Flushes of the write cache, which traces do not represent.
    pub flushes: u64,
    /// Time from the first request to the last event.
    pub lasts: Nanos,
    /// Fields that the format cannot represent.
    pub left_out: Vec<Field>,
    /// A note about the file for the user.
    pub note: Option<String>,
}

struct Waiting {
    request: Request,
    /// Times of dispatch and completion; `None` while outstanding.
    answer: Option<(Nanos, Nanos)>,
}

/// Names for the trace writer. It is a reader without requests.
struct Names {
    device: String,
    recorded: Option<RecordedDevice>,
    streams: BTreeMap<StreamId, String>,
}

impl TraceReader for Names {
    fn next_request(&mut self) -> Option<Result<TraceRequest, TraceError>> {
        None
    }

    fn stream_name(&self, stream: StreamId) -> Option<&str> {
        self.streams.get(&stream).map(String::as_str)
    }

    fn device_name(&self, _device: u32) -> Option<&str> {
        Some(&self.device)
    }

    fn recorded_device(&self) -> Option<&RecordedDevice> {
        self.recorded.as_ref()
    }
}

impl Capture {
    /// Begins a trace of a device.
    ///
    /// # Errors
    /// The trace cannot be written.
    pub fn begin(format: &'static OutputFormat, out: Out, about: &About, device: &str) -> io::Result<Capture> {
        Ok(Capture {
            writer: (format.create)(out, about)?,
            losses: Losses::of(format),
            waiting: VecDeque::new(),
            names: Names { device: device.to_owned(), recorded: about.device.clone(), streams: BTreeMap::new() },
            begins: None,
            captured: Captured::default(),
        })
    }

    /// Number of requests queued so far.
    pub fn requests(&self) -> u64 {
        self.captured.requests + self.waiting.len() as u64
    }

    /// Whether a request is outstanding.
    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Adds an event; events must be in order of time. `name` names streams.
    ///
    /// # Errors
    /// The trace cannot be written.
    pub fn event<'a>(&mut self, event: &Event, name: impl Fn(StreamId) -> Option<&'a str>) -> io::Result<()> {
        match *event {
            Event::Queued(request) => {
                self.begins.get_or_insert(request.arrival);
                if let Some(name) = name(request.stream)
                    && self.names.stream_name(request.stream) != Some(name)
                {
                    self.names.streams.insert(request.stream, name.to_owned());
                }
                self.waiting.push_back(Waiting { request, answer: None });
            }
            Event::Completed { request, dispatched, at } => self.answered(&request, dispatched, at),
            Event::Flushed { .. } => self.captured.flushes += 1,
            Event::Called { .. } | Event::Returned { .. } => {}
        }
        if let Some(begins) = self.begins {
            self.captured.lasts = event.at() - begins;
        }
        while self.waiting.len() > MOST_WAITING || self.waiting.front().is_some_and(|front| front.answer.is_some()) {
            self.write_front()?;
        }
        Ok(())
    }

    /// Handles lost events: writes the outstanding requests without responses.
    ///
    /// # Errors
    /// The trace cannot be written.
    pub fn gap(&mut self) -> io::Result<()> {
        while !self.waiting.is_empty() {
            self.write_front()?;
        }
        Ok(())
    }

    /// Completes the trace.
    ///
    /// # Errors
    /// The trace cannot be written.
    pub fn finish(mut self) -> io::Result<Captured> {
        self.gap()?;
        self.captured.left_out = self.losses.lost().collect();
        self.captured.note = self.writer.finish()?;
        Ok(self.captured)
    }

    fn answered(&mut self, request: &Request, dispatched: Nanos, at: Nanos) {
        let from = self.waiting.partition_point(|waiting| waiting.request.arrival < request.arrival);
        let same_time = self.waiting.range_mut(from..).take_while(|waiting| waiting.request.arrival == request.arrival);
        let is_it = |other: &Request| (other.stream, other.lba, other.op) == (request.stream, request.lba, request.op);
        // A request that was already written without a response is not found here.
        if let Some(waiting) = same_time.filter(|waiting| waiting.answer.is_none()).find(|waiting| is_it(&waiting.request)) {
            (waiting.answer, waiting.request.priority) = (Some((dispatched, at)), request.priority);
        }
    }

    fn write_front(&mut self) -> io::Result<()> {
        let (Some(Waiting { request, answer }), Some(begins)) = (self.waiting.pop_front(), self.begins) else { return Ok(()) };
        let Request { stream, op, sync, priority, sectors, lba, arrival, .. } = request;
        let request = TraceRequest {
            arrival: arrival - begins,
            device: 0,
            lba,
            sectors,
            op,
            sync: Some(sync),
            stream,
            priority,
            response: answer.map(|(_, completed)| completed - arrival),
            service: answer.map(|(dispatched, completed)| completed - dispatched),
        };
        self.captured.requests += 1;
        self.captured.unanswered += u64::from(answer.is_none());
        self.losses.see(&request, &self.names);
        self.writer.write(&request, &self.names)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use block::{Op, Priority};
    use sim::trace::{OpenOptions, write};

    use super::*;

    fn request(arrival: u64, lba: u64) -> Request {
        let (op, priority) = (Op::Write, Priority::DEFAULT);
        Request { id: 0, stream: 40, op, sync: false, priority, sectors: 8, lba, arrival: Nanos(arrival) }
    }

    fn completed(request: Request, dispatched: u64, at: u64) -> Event {
        Event::Completed { request, dispatched: Nanos(dispatched), at: Nanos(at) }
    }

    #[test]
    fn a_trace_has_the_requests_in_order_of_arrival_with_their_times() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let format = write::named("parquet").unwrap();
        let out = Box::new(File::create(file.path()).unwrap());
        let mut capture = Capture::begin(format, out, &About::default(), "sda").unwrap();
        let (first, second, lost, last) = (request(1_000, 0), request(1_500, 64), request(1_600, 128), request(9_000, 256));
        let events = [
            Event::Queued(first),
            Event::Queued(second),
            completed(second, 1_700, 2_000),
            Event::Flushed { stream: 1, asked: Nanos(1_000), at: Nanos(2_500) },
            completed(first, 1_800, 3_000),
            Event::Queued(lost),
        ];
        for event in events {
            capture.event(&event, |stream| (stream == 40).then_some("tar")).unwrap();
        }
        capture.gap().unwrap();
        for event in [completed(lost, 1_700, 8_000), Event::Queued(last), completed(last, 9_000, 9_500)] {
            capture.event(&event, |_| None).unwrap();
        }
        let captured = capture.finish().unwrap();
        assert_eq!((captured.requests, captured.unanswered, captured.flushes), (4, 1, 1));
        assert_eq!(captured.lasts, Nanos(8_500));
        let mut reader = sim::trace::open(file.path(), &OpenOptions::default()).unwrap().reader;
        let mut times = Vec::new();
        while let Some(Ok(request)) = reader.next_request() {
            times.push((request.arrival.0, request.lba, request.response.map(|at| at.0), request.service.map(|at| at.0)));
        }
        let expected = [
            (0, 0, Some(2_000), Some(1_200)),
            (500, 64, Some(500), Some(300)),
            (600, 128, None, None),
            (8_000, 256, Some(500), Some(500)),
        ];
        assert_eq!(times, expected);
        assert_eq!((reader.stream_name(40), reader.device_name(0)), (Some("tar"), Some("sda")));
    }
}
