//! A compact copy of a trace in memory, a few bytes per request, so that it need not be read and parsed again.
//!
//! ```text
//!  file --> reader --> Keeping --> survey               Kept --> KeptReader --> replay
//!                         |                              ^
//!                         '-- differences, up to a limit ┘   (beyond it: none, and the file is read again)
//! ```
//!
//! Each request is written as its difference from the one before: a byte of flags for unchanged fields, a byte with the lengths of the
//! differences of arrival and address, these, then a varint (LEB128) for each other changed number. Explicit lengths let the two numbers
//! be read without a branch per byte, which would be mispredicted. A random 4 KiB request takes nine or ten bytes, a sequential one
//! five. Times at the device are left out: no replay needs them.

use std::sync::Arc;

use block::{Nanos, Op, Priority, PriorityClass};

use super::{TraceError, TraceReader, TraceRequest};

/// Allocated at once, so that growing copies nothing.
const CHUNK_BYTES: usize = 256 << 10;
/// The longest encoding of one request: the first two bytes, numbers of 8, 8, 5, 5, 5 and 10 bytes, two bytes of priority.
const LONGEST: usize = 45;
/// Zero bytes after the requests of a chunk, so that eight bytes can be read at the start of any number.
const PADDING: [u8; 8] = [0; 8];

// Flags of the first byte. The lowest two bits are the operation, the next two whether it is synchronous.
const SYNC_SHIFT: u8 = 2;
const SAME_SIZE: u8 = 1 << 4;
const SAME_ISSUER: u8 = 1 << 5;
const HAS_RESPONSE: u8 = 1 << 6;

const OPS: [Op; 3] = [Op::Read, Op::Write, Op::Discard];
const SYNCS: [Option<bool>; 3] = [None, Some(false), Some(true)];
const CLASSES: [PriorityClass; 3] = [PriorityClass::RealTime, PriorityClass::BestEffort, PriorityClass::Idle];

/// The requests of a whole trace.
#[derive(Debug)]
pub struct Kept {
    /// Chunks of whole requests, each followed by [`PADDING`].
    chunks: Vec<Vec<u8>>,
}

impl Kept {
    /// Memory used, in bytes.
    pub fn bytes(&self) -> usize {
        self.chunks.len() * CHUNK_BYTES
    }

    /// Reads the trace from its beginning. Streams and devices have no names here.
    pub fn reader(self: &Arc<Kept>) -> KeptReader {
        KeptReader { kept: Arc::clone(self), chunk: 0, at: 0, last: TraceRequest::ZERO }
    }
}

/// A reader that keeps the requests read through it.
pub struct Keeping<'a> {
    reader: &'a mut dyn TraceReader,
    /// Chunks of [`CHUNK_BYTES`], all but the last truncated to their requests and [`PADDING`]; `None` after an error or beyond the limit.
    chunks: Option<Vec<Vec<u8>>>,
    /// Bytes of requests in the last chunk; zeros follow.
    used: usize,
    limit: usize,
    last: TraceRequest,
    ended: bool,
}

impl<'a> Keeping<'a> {
    /// The default limit of [`new`](Keeping::new), enough for a million random requests.
    pub const DEFAULT_BYTES: usize = 10 << 20;

    /// Keeps the requests of `reader` as they pass.
    pub fn new(reader: &'a mut dyn TraceReader) -> Keeping<'a> {
        Keeping::with_limit(reader, Keeping::DEFAULT_BYTES)
    }

    /// Like [`new`](Keeping::new), with a limit in bytes.
    pub fn with_limit(reader: &'a mut dyn TraceReader, limit: usize) -> Keeping<'a> {
        Keeping { reader, chunks: Some(Vec::new()), used: 0, limit, last: TraceRequest::ZERO, ended: false }
    }

    /// The kept trace; `None` if it was not read to its end or exceeded the limit.
    pub fn kept(self) -> Option<Arc<Kept>> {
        let mut chunks = self.chunks.filter(|_| self.ended)?;
        if let Some(last) = chunks.last_mut() {
            last.truncate(self.used + PADDING.len());
        }
        Some(Arc::new(Kept { chunks }))
    }

    fn keep(&mut self, request: &TraceRequest) {
        let Some(chunks) = &mut self.chunks else { return };
        if chunks.is_empty() || self.used + LONGEST + PADDING.len() > CHUNK_BYTES {
            if (chunks.len() + 1) * CHUNK_BYTES > self.limit {
                self.chunks = None;
                return;
            }
            if let Some(full) = chunks.last_mut() {
                full.truncate(self.used + PADDING.len());
            }
            chunks.push(vec![0; CHUNK_BYTES]);
            self.used = 0;
        }
        if let Some(out) = chunks.last_mut().and_then(|chunk| chunk[self.used..].first_chunk_mut()) {
            self.used += encode(request, &self.last, out);
        }
        self.last = *request;
    }
}

impl TraceReader for Keeping<'_> {
    fn next_request(&mut self) -> Option<Result<TraceRequest, TraceError>> {
        let next = self.reader.next_request();
        match &next {
            Some(Ok(request)) => self.keep(request),
            Some(Err(_)) => self.chunks = None,
            None => self.ended = true,
        }
        next
    }

    fn next_batch(&mut self, out: &mut Vec<TraceRequest>, at_most: usize) -> Result<bool, TraceError> {
        let begin = out.len();
        let read = self.reader.next_batch(out, at_most);
        match &read {
            Ok(true) => out[begin..].iter().for_each(|request| self.keep(request)),
            Ok(false) => self.ended = true,
            Err(_) => self.chunks = None,
        }
        read
    }

    fn inner(&self) -> Option<&dyn TraceReader> {
        Some(&*self.reader)
    }
}

/// Encodes a request into `out` and returns the number of bytes used. The bytes behind them may be overwritten, too.
#[inline]
fn encode(request: &TraceRequest, last: &TraceRequest, out: &mut [u8; LONGEST]) -> usize {
    let issuer = |of: &TraceRequest| (of.device, of.stream, of.priority);
    let from = end(last);
    let same_size = request.sectors == last.sectors;
    let same_issuer = issuer(request) == issuer(last);
    let sync = match request.sync {
        None => 0,
        Some(false) => 1,
        Some(true) => 2,
    };
    let flag = |set: bool, bit: u8| if set { bit } else { 0 };
    out[0] = request.op as u8
        | sync << SYNC_SHIFT
        | flag(same_size, SAME_SIZE)
        | flag(same_issuer, SAME_ISSUER)
        | flag(request.response.is_some(), HAS_RESPONSE);
    let pause = request.arrival.0 - last.arrival.0;
    let away = zigzag(request.lba.wrapping_sub(from));
    out[1] = length(pause) as u8 | (length(away) as u8) << 4;
    let mut at = put_bytes(out, 2, pause);
    at = put_bytes(out, at, away);
    if !same_size {
        at = put(out, at, request.sectors.into());
    }
    if !same_issuer {
        at = put(out, at, request.device.into());
        at = put(out, at, request.stream.into());
        out[at] = request.priority.class as u8;
        out[at + 1] = request.priority.level;
        at += 2;
    }
    if let Some(response) = request.response {
        at = put(out, at, response.0);
    }
    at
}

fn end(request: &TraceRequest) -> u64 {
    request.lba.wrapping_add(request.sectors.into())
}

/// Small differences of either sign as small numbers.
fn zigzag(difference: u64) -> u64 {
    (difference << 1) ^ (((difference as i64) >> 63) as u64)
}

fn unzigzag(number: u64) -> u64 {
    (number >> 1) ^ (number & 1).wrapping_neg()
}

/// Length of a number in bytes, without leading zeros.
#[inline]
fn length(number: u64) -> usize {
    8 - number.leading_zeros() as usize / 8
}

/// Writes a number without its leading zero bytes at an offset, and zeros behind it. Returns the offset behind it.
#[inline]
fn put_bytes(out: &mut [u8; LONGEST], at: usize, number: u64) -> usize {
    out[at..at + 8].copy_from_slice(&number.to_le_bytes());
    at + length(number)
}

/// Reads a number of `length` bytes, at most eight. At least eight bytes must be readable at its offset.
#[inline]
fn bytes_at(bytes: &[u8], at: usize, length: usize) -> Option<u64> {
    let eight = bytes.get(at..)?.first_chunk()?;
    let unused = 64 - 8 * length.min(8) as u32;
    Some(u64::from_le_bytes(*eight) & u64::MAX.checked_shr(unused).unwrap_or(0))
}

/// Writes a number as LEB128 at an offset. Returns the offset behind it.
fn put(out: &mut [u8; LONGEST], mut at: usize, mut number: u64) -> usize {
    while number >= 0x80 {
        out[at] = number as u8 | 0x80;
        number >>= 7;
        at += 1;
    }
    out[at] = number as u8;
    at + 1
}

/// A reader of a kept trace.
#[derive(Debug)]
pub struct KeptReader {
    kept: Arc<Kept>,
    chunk: usize,
    at: usize,
    last: TraceRequest,
}

impl KeptReader {
    /// The next request; `None` at the end.
    #[inline]
    fn decode(&mut self) -> Option<TraceRequest> {
        let mut bytes = self.kept.chunks.get(self.chunk)?.get(self.at..)?;
        if bytes.len() <= PADDING.len() {
            (self.chunk, self.at) = (self.chunk + 1, 0);
            bytes = self.kept.chunks.get(self.chunk)?;
        }
        let before = bytes.len();
        let request = decode(&mut bytes, &self.last)?;
        self.at += before - bytes.len();
        self.last = request;
        Some(request)
    }
}

impl TraceReader for KeptReader {
    fn next_request(&mut self) -> Option<Result<TraceRequest, TraceError>> {
        self.decode().map(Ok)
    }

    fn next_batch(&mut self, out: &mut Vec<TraceRequest>, at_most: usize) -> Result<bool, TraceError> {
        let begin = out.len();
        out.extend(std::iter::from_fn(|| self.decode()).take(at_most));
        Ok(out.len() > begin)
    }
}

#[inline]
fn decode(bytes: &mut &[u8], last: &TraceRequest) -> Option<TraceRequest> {
    let &[first, lengths, ..] = *bytes else { return None };
    let is = |bit: u8| first & bit != 0;
    let (pause, away) = (usize::from(lengths & 15), usize::from(lengths >> 4));
    let mut request = *last;
    request.op = *OPS.get(usize::from(first & 3))?;
    request.sync = *SYNCS.get(usize::from(first >> SYNC_SHIFT & 3))?;
    request.arrival = Nanos(last.arrival.0.wrapping_add(bytes_at(bytes, 2, pause)?));
    request.lba = end(last).wrapping_add(unzigzag(bytes_at(bytes, 2 + pause, away)?));
    *bytes = bytes.get(2 + pause + away..)?;
    if !is(SAME_SIZE) {
        request.sectors = take(bytes)? as u32;
    }
    if !is(SAME_ISSUER) {
        request.device = take(bytes)? as u32;
        request.stream = take(bytes)? as u32;
        request.priority = Priority { class: *CLASSES.get(usize::from(byte(bytes)?))?, level: byte(bytes)? };
    }
    request.response = if is(HAS_RESPONSE) { Some(Nanos(take(bytes)?)) } else { None };
    Some(request)
}

#[inline]
fn byte(bytes: &mut &[u8]) -> Option<u8> {
    let (&first, rest) = bytes.split_first()?;
    *bytes = rest;
    Some(first)
}

#[inline]
fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let next = byte(bytes)?;
        value |= u64::from(next & 0x7f) << shift;
        if next < 0x80 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A trace that is in memory anyway.
    struct List<'a>(std::slice::Iter<'a, TraceRequest>);

    impl TraceReader for List<'_> {
        fn next_request(&mut self) -> Option<Result<TraceRequest, TraceError>> {
            self.0.next().copied().map(Ok)
        }
    }

    fn all(reader: &mut dyn TraceReader) -> Vec<TraceRequest> {
        std::iter::from_fn(|| reader.next_request()).collect::<Result<_, _>>().unwrap()
    }

    fn keep(requests: &[TraceRequest], limit: usize) -> Option<Arc<Kept>> {
        let mut list = List(requests.iter());
        let mut keeping = Keeping::with_limit(&mut list, limit);
        assert!(all(&mut keeping) == requests, "kept requests are not changed");
        keeping.kept()
    }

    /// A request with a pause before it instead of an arrival.
    fn request() -> impl Strategy<Value = TraceRequest> {
        let few = |many: u32| prop_oneof![0..3u32, 0..=many];
        let place = (prop_oneof![0..64u64, 0..1u64 << 55, any::<u64>()], few(u32::MAX), few(u32::MAX));
        let kind = (0..3usize, 0..3usize, 0..3usize, 0..8u8);
        let times = (prop_oneof![0..300u64, 0..1u64 << 50], proptest::option::of(any::<u64>()), few(u32::MAX));
        (place, kind, times).prop_map(|((lba, sectors, device), (op, sync, class, level), (pause, response, stream))| {
            TraceRequest {
                arrival: Nanos(pause),
                device,
                lba,
                sectors,
                op: OPS[op],
                sync: SYNCS[sync],
                stream,
                priority: Priority { class: CLASSES[class], level },
                response: response.map(Nanos),
                service: None,
            }
        })
    }

    proptest! {
        #![proptest_config(crate::cases::cases(64))]

        #[test]
        fn kept_requests_equal_the_requests_read(mut requests in prop::collection::vec(request(), 0..200)) {
            let mut now = Nanos::ZERO;
            for at in 0..requests.len() {
                now += requests[at].arrival;
                requests[at].arrival = now;
                // Some go on where the last one ended.
                if at % 3 == 1 {
                    requests[at].lba = end(&requests[at - 1]);
                }
            }
            let kept = keep(&requests, Keeping::DEFAULT_BYTES).unwrap();
            prop_assert_eq!(all(&mut kept.reader()), requests.clone());
            prop_assert_eq!(all(&mut kept.reader()), requests.clone(), "a second time");
            let (mut reader, mut batched) = (kept.reader(), Vec::new());
            while reader.next_batch(&mut batched, 7).unwrap() {}
            prop_assert_eq!(batched, requests, "in batches");
        }
    }

    fn random_requests(count: u64) -> Vec<TraceRequest> {
        let one = |at: u64| TraceRequest {
            arrival: Nanos(at * 16_600_000),
            lba: block::scramble::scramble(at) % 17_000_000,
            sectors: 8,
            op: if at.is_multiple_of(3) { Op::Write } else { Op::Read },
            ..TraceRequest::ZERO
        };
        (0..count).map(one).collect()
    }

    #[test]
    fn a_random_request_takes_about_nine_bytes_and_chunks_follow_each_other() {
        let requests = random_requests(100_000);
        let kept = keep(&requests, Keeping::DEFAULT_BYTES).unwrap();
        let bytes: usize = kept.chunks.iter().map(Vec::len).sum();
        assert!((8 * requests.len()..10 * requests.len()).contains(&bytes), "{bytes} bytes");
        assert!(kept.chunks.len() > 2 && kept.chunks.iter().all(|chunk| chunk.capacity() == CHUNK_BYTES));
        assert!(all(&mut kept.reader()) == requests);
    }

    #[test]
    fn a_trace_that_is_too_long_or_was_not_read_to_its_end_is_not_kept() {
        let requests = random_requests(100_000);
        assert!(keep(&requests, 2 * CHUNK_BYTES).is_none());
        let mut list = List(requests.iter());
        let mut keeping = Keeping::new(&mut list);
        keeping.next_request();
        assert!(keeping.kept().is_none());
    }
}
