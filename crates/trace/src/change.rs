//! Requests changed or left out on their way out of a reader: selected, scaled.

use std::collections::BTreeSet;
use std::ops::{Range, RangeInclusive};

use block::{Nanos, Op, StreamId};

use super::{TraceError, TraceReader, TraceRequest};

/// The result of a change of one request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    /// It is returned like this.
    Keep(TraceRequest),
    /// It is left out.
    Drop,
    /// It and all that follow are left out.
    End,
}

/// A change of requests, one after another. `names` has the names of streams and devices.
pub trait Change: Send {
    /// Changes the next request, or leaves it out.
    ///
    /// # Errors
    /// A message if the change is impossible, such as an address beyond any disk.
    fn step(&mut self, request: TraceRequest, names: &dyn TraceReader) -> Result<Step, String>;
}

/// A reader of changed requests. All else is the original reader's.
pub struct Changed<C> {
    reader: Box<dyn TraceReader>,
    change: C,
    path: std::path::PathBuf,
    requests: u64,
    ended: bool,
}

impl<C: Change> Changed<C> {
    /// Of the trace at `path`, which errors name.
    pub fn new(reader: Box<dyn TraceReader>, path: &std::path::Path, change: C) -> Changed<C> {
        Changed { reader, change, path: path.to_owned(), requests: 0, ended: false }
    }
}

impl<C: Change> TraceReader for Changed<C> {
    fn next_request(&mut self) -> Option<Result<TraceRequest, TraceError>> {
        while !self.ended {
            let request = match self.reader.next_request()? {
                Ok(request) => request,
                Err(error) => return Some(Err(error)),
            };
            self.requests += 1;
            match self.change.step(request, self.reader.as_ref()) {
                Ok(Step::Keep(request)) => return Some(Ok(request)),
                Ok(Step::Drop) => {}
                Ok(Step::End) => self.ended = true,
                Err(message) => {
                    self.ended = true;
                    let position = format!("request {}", self.requests);
                    return Some(Err(TraceError::Damaged { path: self.path.clone(), position, message }));
                }
            }
        }
        None
    }

    fn inner(&self) -> Option<&dyn TraceReader> {
        Some(&*self.reader)
    }
}

/// A part of a trace. Its first request is at time zero.
#[derive(Clone, Debug)]
pub struct Slice {
    /// The arrivals, since the trace's first.
    pub times: Range<Nanos>,
    /// The requests, numbered from 1 in order of arrival.
    pub requests: RangeInclusive<u64>,
    seen: u64,
    first: Option<Nanos>,
}

impl Slice {
    /// Keeps requests that arrive within these times and have one of these numbers.
    pub fn new(times: Range<Nanos>, requests: RangeInclusive<u64>) -> Slice {
        Slice { times, requests, seen: 0, first: None }
    }
}

impl Change for Slice {
    fn step(&mut self, mut request: TraceRequest, _names: &dyn TraceReader) -> Result<Step, String> {
        self.seen += 1;
        if request.arrival >= self.times.end || self.seen > *self.requests.end() {
            return Ok(Step::End);
        }
        if request.arrival < self.times.start || self.seen < *self.requests.start() {
            return Ok(Step::Drop);
        }
        request.arrival = request.arrival - *self.first.get_or_insert(request.arrival);
        Ok(Step::Keep(request))
    }
}

/// Leaves out a request that is equal to another at the same time, in place, size, direction and stream.
#[derive(Clone, Debug, Default)]
pub struct Unique {
    now: Nanos,
    seen: BTreeSet<(u32, u64, u32, u8, StreamId)>,
}

impl Change for Unique {
    fn step(&mut self, request: TraceRequest, _names: &dyn TraceReader) -> Result<Step, String> {
        if request.arrival != self.now {
            self.seen.clear();
            self.now = request.arrival;
        }
        let TraceRequest { device, lba, sectors, op, stream, .. } = request;
        let is_new = self.seen.insert((device, lba, sectors, op as u8, stream));
        Ok(if is_new { Step::Keep(request) } else { Step::Drop })
    }
}

/// Bytes of an area that [`Scale`] moves as a whole.
pub const AREA_BYTES: u64 = 1 << 20;
/// Its sectors.
const AREA: u64 = AREA_BYTES / 512;

/// Factors for a trace's times and places.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// Of arrivals; response times stay.
    pub time: f64,
    /// Of offsets, in areas of [`AREA_BYTES`]: within one the order stays, and requests keep their sizes.
    pub space: f64,
}

impl Change for Scale {
    fn step(&mut self, mut request: TraceRequest, _names: &dyn TraceReader) -> Result<Step, String> {
        if self.time != 1.0 {
            let arrival = request.arrival.0 as f64 * self.time;
            if arrival >= u64::MAX as f64 {
                return Err(format!("arrives after {}: times {} that is beyond 2^64 ns", request.arrival, self.time));
            }
            request.arrival = Nanos(arrival.round() as u64);
        }
        if self.space != 1.0 {
            let area = ((request.lba / AREA) as f64 * self.space).floor();
            let lba = (area < (1_u64 << 44) as f64).then(|| area as u64 * AREA + request.lba % AREA);
            let fits = |lba: &u64| lba + u64::from(request.sectors) <= 1 << 55;
            request.lba = lba
                .filter(fits)
                .ok_or_else(|| format!("is at sector {}: times {} that is beyond sector 2^55", request.lba, self.space))?;
        }
        Ok(Step::Keep(request))
    }
}

/// Conditions for keeping a request; an empty list is none.
#[derive(Clone, Debug)]
pub struct Filter {
    /// One of these operations.
    pub ops: Vec<Op>,
    /// Of a stream with one of these names or numbers.
    pub streams: Vec<String>,
    /// On a device with one of these names or numbers.
    pub devices: Vec<String>,
    /// The byte it begins at.
    pub offset: Range<u64>,
    /// Its size in bytes.
    pub size: RangeInclusive<u64>,
}

impl Change for Filter {
    fn step(&mut self, request: TraceRequest, names: &dyn TraceReader) -> Result<Step, String> {
        let is_one = |wanted: &[String], number: u32, name: Option<&str>| {
            wanted.is_empty() || wanted.iter().any(|wanted| Some(wanted.as_str()) == name || wanted.parse() == Ok(number))
        };
        let keeps = (self.ops.is_empty() || self.ops.contains(&request.op))
            && self.size.contains(&(u64::from(request.sectors) * 512))
            && self.offset.contains(&request.lba.saturating_mul(512))
            && is_one(&self.streams, request.stream, names.stream_name(request.stream))
            && is_one(&self.devices, request.device, names.device_name(request.device));
        Ok(if keeps { Step::Keep(request) } else { Step::Drop })
    }
}
