//! Writes traces. One file per format, one line each in [`ALL`].

mod blkparse;
mod csv;
mod disksim;
mod fio;
mod mqsim;
mod msr;
mod oracle_general;
mod parquet;
mod spc;
mod systor;

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::Path;

use block::Nanos;

use super::{RecordedDevice, TraceReader, TraceRequest};

/// A trace's destination.
pub type Out = Box<dyn Write + Send>;

/// An output format. Its name is that of the input format that reads it back, but for `fio2`, which `fio` reads.
pub struct OutputFormat {
    /// Its name for `--to`.
    pub name: &'static str,
    /// File extensions that select it.
    pub extensions: &'static [&'static str],
    /// One line for the list of formats.
    pub summary: &'static str,
    /// Whether it is text, which may go to a terminal or a pipe.
    pub is_text: bool,
    /// The fields it cannot hold.
    pub leaves_out: &'static [Field],
    /// Begins a trace.
    pub create: fn(Out, &About) -> io::Result<Box<dyn TraceWriter>>,
}

impl std::fmt::Debug for OutputFormat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl OutputFormat {
    /// Whether it can hold a request of this operation.
    pub fn holds(&self, request: &TraceRequest) -> bool {
        request.op != block::Op::Discard || !self.leaves_out.contains(&Field::Discards)
    }
}

/// Every output format.
pub static ALL: &[&OutputFormat] = &[
    &parquet::FORMAT,
    &csv::FORMAT,
    &fio::FORMAT,
    &fio::FORMAT_2,
    &blkparse::FORMAT,
    &msr::FORMAT,
    &spc::FORMAT,
    &systor::FORMAT,
    &disksim::FORMAT,
    &mqsim::FORMAT,
    &oracle_general::FORMAT,
];

/// A trace's origin, for formats that record it.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// The program that writes it, with its version.
    pub program: String,
    /// The trace it is made from.
    pub source: String,
    /// The recorded device, if known.
    pub device: Option<RecordedDevice>,
}

/// A trace being written.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use trace::write::{About, by_extension};
/// use trace::{OpenOptions, open};
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("one.csv");
/// std::fs::write(&path, "time_ms,lba,sectors,op\n0,0,8,r\n")?;
/// let mut trace = open(&path, &OpenOptions::default())?;
///
/// let copy = folder.path().join("one.parquet");
/// let format = by_extension(&copy).ok_or("no such format")?;
/// let about = About { program: "example".into(), source: "one.csv".into(), device: None };
/// let mut writer = (format.create)(Box::new(std::fs::File::create(&copy)?), &about)?;
/// while let Some(request) = trace.reader.next_request().transpose()? {
///     writer.write(&request, &*trace.reader)?;
/// }
/// assert_eq!(writer.finish()?, None);
/// # Ok(())
/// # }
/// ```
pub trait TraceWriter: Send {
    /// Appends a request. `names` has the names of its stream and device.
    ///
    /// # Errors
    /// If the file cannot be written, or with [`io::ErrorKind::InvalidData`] if a number is too large for the format.
    fn write(&mut self, request: &TraceRequest, names: &dyn TraceReader) -> io::Result<()>;

    /// Writes the rest. Returns a note for the user, if any.
    ///
    /// # Errors
    /// If the file cannot be written.
    fn finish(self: Box<Self>) -> io::Result<Option<String>>;
}

/// Writes each request by itself.
struct EachRequest {
    out: Out,
    write: fn(&mut Out, &TraceRequest, &dyn TraceReader) -> io::Result<()>,
}

impl TraceWriter for EachRequest {
    fn write(&mut self, request: &TraceRequest, names: &dyn TraceReader) -> io::Result<()> {
        (self.write)(&mut self.out, request, names)
    }

    fn finish(mut self: Box<Self>) -> io::Result<Option<String>> {
        self.out.flush().map(|()| None)
    }
}

/// A time in units of this many nanoseconds, to the nearest.
fn rounded(time: Nanos, unit: u64) -> u64 {
    time.0 / unit + u64::from(time.0 % unit >= unit.div_ceil(2))
}

/// A time as a decimal number with this many digits behind the point: 9 for seconds, 6 for milliseconds.
fn decimal(time: Nanos, digits: usize) -> String {
    let unit =
        [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000].get(digits).copied().unwrap_or(1_000_000_000);
    format!("{}.{:0digits$}", time.0 / unit, time.0 % unit)
}

/// The format called `name`.
pub fn named(name: &str) -> Option<&'static OutputFormat> {
    ALL.iter().copied().find(|format| format.name == name)
}

/// The format for a file of this name.
pub fn by_extension(path: &Path) -> Option<&'static OutputFormat> {
    let extension = path.extension()?.to_str()?.to_ascii_lowercase();
    ALL.iter().copied().find(|format| format.extensions.contains(&&*extension))
}

/// Fields of a request other than arrival, address, size and operation, and fields of the whole trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Field {
    /// Nanoseconds of the arrival, beyond microseconds.
    Nanoseconds,
    /// Less than 100 ns of the arrival and the response time.
    Ticks,
    /// Less than a millisecond of the arrival.
    Milliseconds,
    /// Less than a second of the arrival.
    Seconds,
    /// Reads and writes as different things.
    Direction,
    /// Discards; they are left out altogether.
    Discards,
    /// Whether it is synchronous.
    Sync,
    /// Unknown synchrony.
    SyncUnknown,
    /// Asynchronous reads.
    AsyncRead,
    /// The device.
    Device,
    /// The stream's number.
    Stream,
    /// The stream's name.
    StreamName,
    /// The device's name.
    DeviceName,
    /// An I/O priority other than the default.
    Priority,
    /// From arrival to completion.
    Response,
    /// That the response time is unknown.
    ResponseUnknown,
    /// The part of that at the device.
    Service,
    /// The recorded device and its settings.
    RecordedDevice,
}

impl Field {
    /// Its name in a sentence.
    pub fn words(self) -> &'static str {
        match self {
            Field::Nanoseconds => "arrival times below 1 us",
            Field::Ticks => "times below 100 ns",
            Field::Milliseconds => "arrival times below 1 ms",
            Field::Seconds => "arrival times below 1 s",
            Field::Direction => "writes as such",
            Field::Device => "devices",
            Field::ResponseUnknown => "unknown response times",
            Field::Discards => "discards",
            Field::Sync => "sync flags",
            Field::SyncUnknown => "unknown sync flags",
            Field::AsyncRead => "asynchronous reads",
            Field::Stream => "streams",
            Field::StreamName => "streams' names",
            Field::DeviceName => "devices' names",
            Field::Priority => "I/O priorities",
            Field::Response => "response times",
            Field::Service => "times at the device",
            Field::RecordedDevice => "the device's size and settings",
        }
    }
}

/// Records which fields of a trace a format cannot hold.
#[derive(Debug)]
pub struct Losses {
    watched: &'static [Field],
    lost: BTreeSet<Field>,
}

impl Losses {
    /// For one output format.
    pub fn of(format: &OutputFormat) -> Losses {
        Losses { watched: format.leaves_out, lost: BTreeSet::new() }
    }

    /// Records the fields of a written request.
    pub fn see(&mut self, request: &TraceRequest, names: &dyn TraceReader) {
        for &field in self.watched {
            if !self.lost.contains(&field) && has_field(request, names, field) {
                self.lost.insert(field);
            }
        }
    }

    /// The fields that were lost.
    pub fn lost(&self) -> impl Iterator<Item = Field> {
        self.lost.iter().copied()
    }
}

/// Whether a request has this field.
fn has_field(request: &TraceRequest, names: &dyn TraceReader, field: Field) -> bool {
    match field {
        Field::Nanoseconds => !request.arrival.0.is_multiple_of(1000),
        Field::Ticks => [request.arrival, request.response.unwrap_or_default()].iter().any(|time| !time.0.is_multiple_of(100)),
        Field::Milliseconds => !request.arrival.0.is_multiple_of(1_000_000),
        Field::Seconds => !request.arrival.0.is_multiple_of(1_000_000_000),
        Field::Direction => request.op == block::Op::Write,
        Field::Device => request.device != 0,
        Field::ResponseUnknown => request.response.is_none(),
        Field::Discards => request.op == block::Op::Discard,
        Field::Sync => request.sync.is_some(),
        Field::SyncUnknown => request.sync.is_none(),
        Field::AsyncRead => request.op == block::Op::Read && request.sync == Some(false),
        Field::Stream => request.stream != 0,
        Field::StreamName => names.stream_name(request.stream).is_some(),
        Field::DeviceName => names.device_name(request.device).is_some(),
        Field::Priority => request.priority != block::Priority::DEFAULT,
        Field::Response => request.response.is_some(),
        Field::Service => request.service.is_some(),
        Field::RecordedDevice => names.recorded_device().is_some(),
    }
}
