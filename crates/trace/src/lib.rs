//! Block traces: which requests a disk received, when and from which stream. One file per format, one line each in [`ALL`].
//!
//! ```text
//!  file --> input: unpacked --> lines or records --> a format --> order: sorted, from zero --> requests
//!                                                        events: queue, dispatch and completion matched
//! ```
//! A trace that is not too long is [kept](Kept) in memory while it is read for the first time.

mod alibaba;
mod biosnoop;
mod blkparse;
mod blktrace;
pub mod change;
mod columns;
mod csv;
mod disksim;
mod disksim_validation;
mod events;
mod extent;
mod fio;
mod fiu;
pub mod info;
mod input;
mod kept;
mod lcs;
mod lines;
pub mod lint;
mod memory;
pub mod merge;
mod mqsim;
mod msr;
mod names;
pub mod numbered;
mod oracle_general;
mod order;
pub mod parquet;
mod records;
pub mod sort;
mod spc;
mod systor;
mod tencent;
mod tracefs;
pub mod volumes;
mod vscsi;
pub mod write;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use block::{Nanos, Op, Priority, StreamId};
use serde::Serialize;

pub use columns::Columns;
pub use csv::csv_fields;
pub use input::{Compression, Head, Input};
pub use kept::{Keeping, Kept, KeptReader};
pub use memory::InMemory;

/// A trace format: how to recognise it and how to read it.
pub struct Format {
    /// Its name for `--format`.
    pub name: &'static str,
    /// One line for `--help`: the format, and which of its fields are used.
    pub summary: &'static str,
    /// Where the format is documented.
    pub source: &'static str,
    /// Whether a file with this beginning may be of this format.
    pub detect: fn(&Head<'_>) -> bool,
    /// Opens it. The reader returns requests sorted by arrival, the first at time zero.
    pub open: OpenFormat,
}

/// Opens a trace of one format.
pub type OpenFormat = fn(Input, &OpenOptions) -> Result<Box<dyn TraceReader>, TraceError>;

impl std::fmt::Debug for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// Every format.
pub static ALL: &[&Format] = &[
    &parquet::FORMAT,
    &blktrace::FORMAT,
    &blkparse::FORMAT,
    &fio::FORMAT,
    &tracefs::FORMAT,
    &biosnoop::FORMAT,
    &spc::FORMAT,
    &msr::FORMAT,
    &disksim::FORMAT,
    &disksim_validation::FORMAT,
    &mqsim::FORMAT,
    &systor::FORMAT,
    &fiu::FORMAT,
    &vscsi::FORMAT,
    &oracle_general::FORMAT,
    &lcs::FORMAT,
    &alibaba::FORMAT,
    &tencent::FORMAT,
    &csv::FORMAT,
    &columns::FORMAT,
];

/// An open trace.
pub struct Opened {
    /// The format, as recognised or as given.
    pub format: &'static Format,
    /// Its requests.
    pub reader: Box<dyn TraceReader>,
}

/// Opens a trace: unpacks gzip, zstd, xz and bzip2, and recognises the format by content unless [`OpenOptions::format`] names it
/// or [`OpenOptions::columns`] describes it.
///
/// A blktrace recording is several files, one per processor; `path` may be any of them, or the part of their names before
/// `.blktrace.N`. Memory is bounded for traces of any length. `path` may be a pipe, except for formats that need to seek.
/// With [`OpenOptions::others`] these are merged with it.
///
/// # Errors
/// [`TraceError::Io`] if the file cannot be opened, [`TraceError::Format`] if it is empty, a directory, of no known format or of
/// several, and [`TraceError::Damaged`] if the format's header or the compression is damaged.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use trace::{OpenOptions, open};
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("two.csv");
/// std::fs::write(&path, "time_ms,lba,sectors,op\n0,0,8,r\n1.5,1000,16,w\n")?;
/// let mut trace = open(&path, &OpenOptions::default())?;
/// assert_eq!(trace.format.name, "csv");
/// while let Some(request) = trace.reader.next_request().transpose()? {
///     println!("{:?}", request);
/// }
/// # Ok(())
/// # }
/// ```
pub fn open(path: &Path, options: &OpenOptions) -> Result<Opened, TraceError> {
    if let Some(memory) = &options.memory {
        return Ok(Opened { format: &memory::FORMAT, reader: Arc::clone(memory).reader(options.order) });
    }
    if !options.others.is_empty() {
        return merge::open(path, options);
    }
    let input = Input::open(&blktrace::first_of(path))?;
    let format = match (&options.format, &options.columns) {
        (Some(name), _) => named(path, name)?,
        (None, Some(_)) => &columns::FORMAT,
        (None, None) => detect(&input, ALL)?,
    };
    if options.columns.is_some() && format.name != columns::FORMAT.name {
        let (columns, name) = (columns::FORMAT.name, format.name);
        return Err(input.not_of_format(format!("--columns describes the format {columns}, not {name}: give one of the two")));
    }
    Ok(Opened { format, reader: (format.open)(input, options)? })
}

/// The files that [`open`] reads for `path`: itself, or all of a blktrace recording.
pub fn files(path: &Path) -> Vec<PathBuf> {
    let first = blktrace::first_of(path);
    let files = blktrace::siblings(&first);
    if files.is_empty() { vec![first] } else { files }
}

/// The format called `name`.
fn named(path: &Path, name: &str) -> Result<&'static Format, TraceError> {
    ALL.iter().copied().find(|format| format.name == name).ok_or_else(|| TraceError::Format {
        path: path.to_owned(),
        message: format!(
            "there is no trace format {name:?}; the formats are {}{}",
            names(ALL),
            block::did_you_mean(name, ALL.iter().map(|format| format.name))
        ),
    })
}

/// The format, among these, of the content with this beginning.
fn detect(input: &Input, formats: &[&'static Format]) -> Result<&'static Format, TraceError> {
    let head = input.head();
    let mut found: Vec<&'static Format> = formats.iter().copied().filter(|format| (format.detect)(&head)).collect();
    // A heading with the names of columns leaves no doubt; lines below it may be of other formats as well.
    if found.iter().any(|format| format.name == csv::FORMAT.name) {
        found = vec![&csv::FORMAT];
    }
    match found[..] {
        [format] => Ok(format),
        [] if head.bytes.get(257..262) == Some(b"ustar") => {
            Err(input.not_of_format("is a tar archive; extract the trace first (tar --extract --file ...)"))
        }
        [] => Err(input.not_of_format(match csv::lacks(&head) {
            Some(message) => format!("looks like CSV, but {message}; or say with --columns which column is what"),
            None => {
                let formats = names(formats);
                format!("no trace format begins like this ({}); name one with --format: {formats}", head.describe())
            }
        })),
        _ => Err(input.not_of_format(format!("may be {}: say which with --format", names(&found)))),
    }
}

/// The formats' names, separated by commas.
fn names(formats: &[&Format]) -> String {
    formats.iter().map(|format| format.name).collect::<Vec<_>>().join(", ")
}

/// One request of a trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TraceRequest {
    /// When it was issued, since the trace's first request.
    pub arrival: Nanos,
    /// The disk, volume or unit within the trace; 0 if there is only one.
    pub device: u32,
    /// The first 512-byte sector on that device.
    pub lba: u64,
    /// How many 512-byte sectors; never 0.
    pub sectors: u32,
    /// Read, write or discard.
    pub op: Op,
    /// Whether it is synchronous; `None` if the format does not say.
    pub sync: Option<bool>,
    /// The process, thread, volume or application unit that issued it.
    pub stream: StreamId,
    /// I/O priority, if the format has one.
    pub priority: Priority,
    /// From arrival to completion, if the format says.
    pub response: Option<Nanos>,
    /// Time from the dispatch of its last part to completion, if the format has it; the rest of the response time was spent in the
    /// host's queue.
    pub service: Option<Nanos>,
}

impl TraceRequest {
    /// A read of nothing at time zero: the defaults of fields that a file lacks, and the start of differences.
    pub(crate) const ZERO: TraceRequest = TraceRequest {
        arrival: Nanos::ZERO,
        device: 0,
        lba: 0,
        sectors: 0,
        op: Op::Read,
        sync: None,
        stream: 0,
        priority: Priority::DEFAULT,
        response: None,
        service: None,
    };
}

impl TraceRequest {
    /// Whether it is synchronous by Linux's rule (`op_is_sync` in `blk_types.h`): every read, and a write or discard marked so. A
    /// write or discard for which the format does not say counts as asynchronous.
    pub fn is_sync(&self) -> bool {
        self.op == Op::Read || self.sync == Some(true)
    }
}

/// The recorded device and its settings at the start of the recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RecordedDevice {
    /// How many 512-byte sectors it has.
    pub capacity_sectors: Option<u64>,
    /// The I/O scheduler, with the tunables that are not at their defaults, as in `bfq:low_latency=0`.
    pub scheduler: Option<String>,
    /// Read-ahead of its files, in KiB.
    pub read_ahead_kib: Option<u32>,
}

/// A trace as the rest of the program sees it: requests in order of arrival, the first at time zero.
///
/// ```
/// use block::{Nanos, Op, Priority};
/// use trace::{TraceError, TraceReader, TraceRequest};
///
/// /// `count` reads of 4 KiB in order, one per millisecond.
/// struct Sequential {
///     count: u64,
///     next: u64,
/// }
///
/// impl TraceReader for Sequential {
///     fn next_request(&mut self) -> Option<Result<TraceRequest, TraceError>> {
///         if self.next == self.count {
///             return None;
///         }
///         let (arrival, lba) = (Nanos::from_millis(self.next), 8 * self.next);
///         self.next += 1;
///         let (op, priority) = (Op::Read, Priority::DEFAULT);
///         Some(Ok(TraceRequest { arrival, device: 0, lba, sectors: 8, op, sync: None, stream: 0, priority, response: None, service: None }))
///     }
/// }
///
/// let mut reader = Sequential { count: 3, next: 0 };
/// assert_eq!(std::iter::from_fn(|| reader.next_request()).count(), 3);
/// ```
pub trait TraceReader: Send {
    /// The next request, or `None` at the end. An error ends the trace.
    fn next_request(&mut self) -> Option<Result<TraceRequest, TraceError>>;

    /// Appends the next requests, at least one and at most `at_most`, which is not zero. Returns whether there were any: `false` at the
    /// end. Equivalent to calling [`next_request`](TraceReader::next_request) repeatedly, errors included: an error is returned once the requests
    /// before it have been returned.
    ///
    /// # Errors
    /// An error ends the trace.
    fn next_batch(&mut self, out: &mut Vec<TraceRequest>, at_most: usize) -> Result<bool, TraceError> {
        debug_assert!(at_most > 0, "at least one request is asked for");
        let next = self.next_request().transpose()?;
        out.extend(next);
        Ok(next.is_some())
    }

    /// The reader whose requests it passes on, which then also answers the methods that this one leaves to it; `None` if it reads by itself.
    fn inner(&self) -> Option<&dyn TraceReader> {
        None
    }

    /// Warnings about the part of the trace read so far: reasons for which it may mean something else (times that look like another unit),
    /// and parts that are not used (records of no sectors, columns that are not known) or not checked. Each is a sentence about the file
    /// without its name.
    fn warnings(&self) -> Vec<String> {
        self.inner().map_or_else(Vec::new, |inner| inner.warnings())
    }

    /// The trace's name for a stream (a program's, a volume's), as far as has been read.
    fn stream_name(&self, stream: StreamId) -> Option<&str> {
        self.inner()?.stream_name(stream)
    }

    /// The trace's name for a device (a path, a host and disk), as far as has been read.
    fn device_name(&self, device: u32) -> Option<&str> {
        self.inner()?.device_name(device)
    }

    /// The recorded device, if the trace describes it.
    fn recorded_device(&self) -> Option<&RecordedDevice> {
        self.inner()?.recorded_device()
    }

    /// Valid records left out so far because they cover no sectors: flushes, requests of length zero.
    fn omitted(&self) -> u64 {
        self.inner().map_or(0, |inner| inner.omitted())
    }

    /// Those of them that are reads, writes or discards of length zero, and where the first is.
    fn empty(&self) -> Noticed {
        self.inner().map_or_else(Noticed::default, |inner| inner.empty())
    }

    /// Completions so far of requests that were not seen, and where the first is.
    fn unmatched_completions(&self) -> Noticed {
        self.inner().map_or_else(Noticed::default, |inner| inner.unmatched_completions())
    }

    /// Where in the file has been read to, as in `line 7`; `None`: not known. With [`Order::OfTheFile`] it is the place of the request last
    /// returned, in formats with a line per request.
    fn position(&self) -> Option<String> {
        None
    }

    /// Damaged lines or records skipped so far ([`OpenOptions::skip_bad`]).
    fn skipped(&self) -> u64 {
        self.inner().map_or(0, |inner| inner.skipped())
    }
}

/// Something of which there are several in a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Noticed {
    /// How many.
    pub count: u64,
    /// Where the first is, as in `line 7`.
    pub first: Option<String>,
}

/// How to open a trace.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// The format's name; `None`: recognise it by content.
    pub format: Option<String>,
    /// The meaning of the columns of a CSV file that the other formats do not describe; the format is then `columns`.
    pub columns: Option<Columns>,
    /// Skip and count damaged lines instead of stopping at the first.
    pub skip_bad: bool,
    /// In which order requests come, and by which clock; always sorted and from zero where there are `others`.
    pub order: Order,
    /// Further traces, which are merged with it by their own clocks.
    pub others: Vec<PathBuf>,
    /// Whether devices and streams of these may be the same.
    pub identity: merge::Identity,
    /// Reads the trace from memory instead of opening a file.
    pub memory: Option<Arc<dyn InMemory>>,
}

impl OpenOptions {
    /// The files that are read for `path` with these options; empty for a trace in memory.
    pub fn files(&self, path: &Path) -> Vec<PathBuf> {
        if self.memory.is_some() {
            return Vec::new();
        }
        std::iter::once(path).chain(self.others.iter().map(PathBuf::as_path)).flat_map(files).collect()
    }

    /// The name in messages: the path, or that these are several.
    pub fn name(&self, path: &Path) -> String {
        if self.others.is_empty() { path.display().to_string() } else { merge::name(path, &self.others) }
    }
}

/// The order of a trace's requests, and the clock of their arrivals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Sorted by arrival, the first at time zero.
    #[default]
    FromZero,
    /// Sorted by arrival, which is by the trace's own clock, in nanoseconds from any zero.
    OwnClock,
    /// As in the file, by its own clock; nothing is sorted.
    OfTheFile,
}

/// A trace that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The operating system reported an error.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A line or record is damaged.
    #[error("{}:{position}: {message}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Line 7 is written `7`, a binary record `record 7`; optionally followed by the field, as in `7: sectors`.
        position: String,
        /// The problem, with the value, and a valid alternative.
        message: String,
    },
    /// The format is not recognised or does not exist.
    #[error("{}: {message}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The problem and a valid alternative.
        message: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ambiguous_format_must_be_named() {
        static GREEDY: Format =
            Format { name: "greedy", summary: "", source: "", detect: |_| true, open: |input, _| Err(input.not_of_format("")) };
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "0,1,512,R,0.5\n0,2,512,W,0.6\n").unwrap();
        let input = Input::open(file.path()).unwrap();
        assert_eq!(detect(&input, ALL).unwrap().name, "spc");
        let error = detect(&input, &[&GREEDY, &spc::FORMAT]).unwrap_err().to_string();
        assert!(error.ends_with("may be greedy, spc: say which with --format"), "{error}");
    }
}

#[cfg(test)]
#[path = "../../../tests/cases/mod.rs"]
mod cases;
