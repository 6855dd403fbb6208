//! Sorts traces of any length by time, in bounded memory.
//!
//! ```text
//!  requests in any order --> runs of 2^20, sorted --> temporary files --> merged by time
//! ```
//! A trace of one run never leaves memory.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use block::{Nanos, Op, Priority, PriorityClass};

use super::{TraceError, TraceReader, TraceRequest};

/// The requests of a run: 80 MB.
const RUN: usize = 1 << 20;
/// The length of a request in a temporary file.
pub(super) const RECORD_BYTES: usize = 56;

/// A trace sorted by arrival, the first request at time zero; ties stay in the file's order.
pub struct SortedTrace {
    /// Read to its end; it has the names.
    names: Box<dyn TraceReader>,
    runs: Vec<Run>,
    /// The next request of each run that has one, by arrival and run.
    next: BinaryHeap<Reverse<(Nanos, usize)>>,
    first: Option<Nanos>,
    /// The folder of the temporary files, for errors.
    folder: PathBuf,
}

/// Reads a trace opened with [`Order::OfTheFile`](super::Order::OfTheFile) to its end and sorts it; `folder` is for temporary files.
/// `progress` is called with the number of requests read so far, now and then; when it returns false, the result is `Ok(None)`.
///
/// # Errors
/// The reader's, and those of writing temporary files.
pub fn sort(
    reader: Box<dyn TraceReader>,
    folder: &Path,
    progress: impl FnMut(u64) -> bool,
) -> Result<Option<SortedTrace>, TraceError> {
    sort_by_runs(reader, folder, RUN, progress)
}

fn sort_by_runs(
    mut reader: Box<dyn TraceReader>,
    folder: &Path,
    run: usize,
    mut progress: impl FnMut(u64) -> bool,
) -> Result<Option<SortedTrace>, TraceError> {
    let mut sorter = Sorter::with_runs(folder, run);
    let mut read = 0;
    while let Some(request) = reader.next_request() {
        sorter.push(request?)?;
        read += 1;
        if read % 4096 == 0 && !progress(read) {
            return Ok(None);
        }
    }
    sorter.finish(reader).map(Some)
}

/// Takes requests in any order.
pub struct Sorter {
    /// The folder of the temporary files.
    folder: PathBuf,
    /// How many requests a run has.
    run: usize,
    runs: Vec<Run>,
    requests: Vec<TraceRequest>,
}

impl Sorter {
    /// Without requests; `folder` is for temporary files.
    pub fn new(folder: &Path) -> Sorter {
        Sorter::with_runs(folder, RUN)
    }

    /// As [`new`](Sorter::new), with at most this many requests in memory.
    pub fn with_runs(folder: &Path, run: usize) -> Sorter {
        Sorter { folder: folder.to_owned(), run, runs: Vec::new(), requests: Vec::new() }
    }

    /// Takes a request.
    ///
    /// # Errors
    /// A temporary file cannot be written.
    pub fn push(&mut self, request: TraceRequest) -> Result<(), TraceError> {
        self.requests.push(request);
        if self.requests.len() == self.run {
            let run = Run::spilled(&mut self.requests, &self.folder);
            self.runs.push(run.map_err(|source| TraceError::Io { path: self.folder.clone(), source })?);
        }
        Ok(())
    }

    /// The requests as a trace; `names` has the names of streams and devices, and all else but requests.
    ///
    /// # Errors
    /// A temporary file cannot be read.
    pub fn finish(self, names: Box<dyn TraceReader>) -> Result<SortedTrace, TraceError> {
        let Sorter { folder, mut runs, requests, .. } = self;
        runs.push(Run::in_memory(requests));
        let mut trace = SortedTrace { names, runs, next: BinaryHeap::new(), first: None, folder };
        for run in 0..trace.runs.len() {
            trace.advance(run)?;
        }
        Ok(trace)
    }
}

impl SortedTrace {
    /// Reads a run's next request.
    fn advance(&mut self, run: usize) -> Result<(), TraceError> {
        let next = self.runs[run].advance().map_err(|source| TraceError::Io { path: self.folder.clone(), source })?;
        self.next.extend(next.map(|arrival| Reverse((arrival, run))));
        Ok(())
    }
}

impl TraceReader for SortedTrace {
    fn next_request(&mut self) -> Option<Result<TraceRequest, TraceError>> {
        let Reverse((arrival, run)) = self.next.pop()?;
        let mut request = self.runs[run].front?;
        if let Err(error) = self.advance(run) {
            return Some(Err(error));
        }
        request.arrival = arrival - *self.first.get_or_insert(arrival);
        Some(Ok(request))
    }

    fn inner(&self) -> Option<&dyn TraceReader> {
        Some(&*self.names)
    }
}

/// Sorted requests.
struct Run {
    rest: Rest,
    /// The request read last.
    front: Option<TraceRequest>,
}

/// Those that are not read yet.
enum Rest {
    InMemory(std::vec::IntoIter<TraceRequest>),
    /// In a file without a name, and how many.
    Spilled(BufReader<File>, usize),
}

impl Run {
    fn in_memory(mut requests: Vec<TraceRequest>) -> Run {
        // Stable: ties stay in order.
        requests.sort_by_key(|request| request.arrival);
        Run { rest: Rest::InMemory(requests.into_iter()), front: None }
    }

    /// Empties `requests` into a file.
    fn spilled(requests: &mut Vec<TraceRequest>, folder: &Path) -> io::Result<Run> {
        requests.sort_by_key(|request| request.arrival);
        let mut out = BufWriter::new(tempfile::tempfile_in(folder)?);
        for request in requests.iter() {
            out.write_all(&encode(request))?;
        }
        let mut file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        io::Seek::rewind(&mut file)?;
        let count = requests.len();
        requests.clear();
        Ok(Run { rest: Rest::Spilled(BufReader::new(file), count), front: None })
    }

    /// Reads the next request into `front` and returns its arrival; `None` at the end.
    fn advance(&mut self) -> io::Result<Option<Nanos>> {
        self.front = match &mut self.rest {
            Rest::InMemory(requests) => requests.next(),
            Rest::Spilled(_, 0) => None,
            Rest::Spilled(file, count) => {
                *count -= 1;
                let mut record = [0; RECORD_BYTES];
                file.read_exact(&mut record)?;
                Some(decode(&record))
            }
        };
        Ok(self.front.map(|request| request.arrival))
    }
}

// Flags of a record's byte 53. The lowest two bits are the operation, the next two whether it is synchronous, the next two the priority's
// class.
const HAS_RESPONSE: u8 = 1 << 6;
const HAS_SERVICE: u8 = 1 << 7;

const OPS: [Op; 3] = [Op::Read, Op::Write, Op::Discard];
const SYNCS: [Option<bool>; 3] = [None, Some(false), Some(true)];
const CLASSES: [PriorityClass; 3] = [PriorityClass::RealTime, PriorityClass::BestEffort, PriorityClass::Idle];

pub(super) fn encode(request: &TraceRequest) -> [u8; RECORD_BYTES] {
    let mut record = [0; RECORD_BYTES];
    let (response, service) = (request.response.unwrap_or_default().0, request.service.unwrap_or_default().0);
    for (at, number) in [request.arrival.0, request.lba, response, service].into_iter().enumerate() {
        record[8 * at..8 * at + 8].copy_from_slice(&number.to_le_bytes());
    }
    for (at, number) in [request.device, request.sectors, request.stream].into_iter().enumerate() {
        record[32 + 4 * at..36 + 4 * at].copy_from_slice(&number.to_le_bytes());
    }
    let sync = SYNCS.iter().position(|sync| *sync == request.sync).unwrap_or_default() as u8;
    let flag = |set: bool, bit: u8| if set { bit } else { 0 };
    record[52] = request.priority.level;
    record[53] = request.op as u8
        | sync << 2
        | (request.priority.class as u8) << 4
        | flag(request.response.is_some(), HAS_RESPONSE)
        | flag(request.service.is_some(), HAS_SERVICE);
    record
}

pub(super) fn decode(record: &[u8; RECORD_BYTES]) -> TraceRequest {
    let long = |at: usize| record[8 * at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let short = |at: usize| record[32 + 4 * at..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
    let flags = record[53];
    let two_bits = |shift: u8| usize::from(flags >> shift & 3).min(2);
    TraceRequest {
        arrival: Nanos(long(0)),
        device: short(0),
        lba: long(1),
        sectors: short(1),
        op: OPS[two_bits(0)],
        sync: SYNCS[two_bits(2)],
        stream: short(2),
        priority: Priority { class: CLASSES[two_bits(4)], level: record[52] },
        response: (flags & HAS_RESPONSE != 0).then_some(Nanos(long(2))),
        service: (flags & HAS_SERVICE != 0).then_some(Nanos(long(3))),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    struct List(std::vec::IntoIter<TraceRequest>);

    impl TraceReader for List {
        fn next_request(&mut self) -> Option<Result<TraceRequest, TraceError>> {
            self.0.next().map(Ok)
        }
    }

    fn request() -> impl Strategy<Value = TraceRequest> {
        let kind = (0..3usize, 0..3usize, 0..3usize, 0..8u8);
        let times = (0..20u64, proptest::option::of(any::<u64>()), proptest::option::of(any::<u64>()));
        (any::<(u32, u64, u32, u32)>(), kind, times).prop_map(
            |((device, lba, sectors, stream), (op, sync, class, level), (arrival, response, service))| TraceRequest {
                // Late in a clock that has nearly run out, and often at the same time.
                arrival: Nanos(u64::MAX - arrival),
                device,
                lba,
                sectors,
                op: OPS[op],
                sync: SYNCS[sync],
                stream,
                priority: Priority { class: CLASSES[class], level },
                response: response.map(Nanos),
                service: service.map(Nanos),
            },
        )
    }

    proptest! {
        #![proptest_config(crate::cases::cases(64))]

        #[test]
        fn requests_in_runs_come_back_sorted_and_otherwise_the_same(requests in prop::collection::vec(request(), 1..100), run in 1..40usize) {
            let folder = tempfile::tempdir().unwrap();
            let mut expected = requests.clone();
            expected.sort_by_key(|request| request.arrival);
            let first = expected[0].arrival;
            for request in &mut expected {
                request.arrival = request.arrival - first;
            }
            let reader = Box::new(List(requests.into_iter()));
            let mut sorted = sort_by_runs(reader, folder.path(), run, |_| true).unwrap().unwrap();
            let read = std::iter::from_fn(|| sorted.next_request()).collect::<Result<Vec<_>, _>>().unwrap();
            prop_assert_eq!(read, expected);
        }
    }

    #[test]
    fn a_sort_that_is_stopped_returns_nothing() {
        let requests = vec![decode(&[0; RECORD_BYTES]); 5_000];
        let reader = Box::new(List(requests.into_iter()));
        assert!(sort(reader, Path::new("/nonexistent"), |_| false).unwrap().is_none());
    }
}
