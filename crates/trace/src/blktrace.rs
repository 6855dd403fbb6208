//! blktrace's binary recordings, one file per processor, merged in time order.
//!
//! ```text
//!  magic u32 (0x656174 << 8 | version 7), sequence u32 | time u64 ns | sector u64 | bytes u32, action u32 |
//!  pid u32, device u32 | cpu u32, error u16, payload length u16 | payload
//! ```
//!
//! Byte order is that of the recording machine, which the magic reveals. `events.rs` builds requests from the events.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use block::{Nanos, Op, StreamId};

use super::events::{Event, EventKind, Matcher};
use super::input::{read_up_to, stream_error};
use super::names::NamesByNumber;
use super::order::{Records, Sorted, Window};
use super::{Format, Input, OpenOptions, TraceError};

/// The format.
pub static FORMAT: Format = Format {
    name: "blktrace",
    summary: "blktrace binary: X.blktrace.0, X.blktrace.1, ... are read together; Q is the arrival, C the completion, the process is the stream",
    source: "include/uapi/linux/blktrace_api.h and kernel/trace/blktrace.c of Linux 6.18",
    detect: |head| head.bytes.get(..4).and_then(Order::of).is_some(),
    open,
};

// Names and values of `blktrace_api.h`.
const MAGIC: u32 = 0x65_6174;
const VERSION: u8 = 7;
const HEADER_BYTES: usize = 48;
const TC_READ: u32 = 1 << 16;
const TC_WRITE: u32 = 1 << 17;
const TC_FLUSH: u32 = 1 << 18;
const TC_SYNC: u32 = 1 << 19;
const TC_PC: u32 = 1 << 25;
const TC_NOTIFY: u32 = 1 << 26;
const TC_DISCARD: u32 = 1 << 29;
const TC_FUA: u32 = 1 << 31;
const TA_QUEUE: u32 = 1;
const TA_ISSUE: u32 = 7;
const TA_COMPLETE: u32 = 8;
/// The payload begins with a control group's id.
const TA_CGROUP: u32 = 1 << 8;
const CGROUP_BYTES: usize = 8;
const TN_PROCESS: u32 = 0;
/// A program's name has at most 15 characters.
const NAME_BYTES: usize = 64;

fn open(input: Input, options: &OpenOptions) -> Result<Box<dyn super::TraceReader>, TraceError> {
    let mut processors = Vec::new();
    let files = siblings(&input.path);
    let mut first = Some(input);
    for path in files {
        let input = match first.take_if(|input| input.path == path) {
            Some(input) => input,
            // A processor that saw no request leaves an empty file.
            None if is_empty(&path) => continue,
            None => Input::open(&path)?,
        };
        processors.push(Processor::open(input)?);
    }
    if let Some(input) = first {
        processors.push(Processor::open(input)?);
    }
    let mut trace = Blktrace {
        processors,
        next: BinaryHeap::new(),
        current: 0,
        matcher: Matcher::default(),
        programs: NamesByNumber::default(),
        skip_bad: options.skip_bad,
        skipped: 0,
    };
    for processor in 0..trace.processors.len() {
        trace.read_ahead(processor)?;
    }
    Ok(Box::new(Sorted::new(trace, options)))
}

fn is_empty(path: &Path) -> bool {
    path.metadata().is_ok_and(|data| data.is_file() && data.len() == 0)
}

/// `sda` of `sda.blktrace.3`, perhaps compressed.
fn recording(name: &str) -> Option<(&str, u32)> {
    let plain = [".gz", ".zst"].iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name);
    let (device, processor) = plain.rsplit_once(".blktrace.")?;
    Some((device, processor.parse().ok()?))
}

/// The files of the recording this file belongs to, by processor; none if its name does not fit the pattern.
pub(super) fn siblings(path: &Path) -> Vec<PathBuf> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    recording(name).map(|(device, _)| files_of(path, device)).unwrap_or_default()
}

/// The files in `path`'s folder that were recorded for `device`, by processor.
fn files_of(path: &Path, device: &str) -> Vec<PathBuf> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut found = Vec::new();
    for entry in folder.read_dir().into_iter().flatten().flatten() {
        let name = entry.file_name();
        if let Some((_, processor)) = name.to_str().and_then(recording).filter(|&(of, _)| of == device) {
            found.push((processor, path.with_file_name(name)));
        }
    }
    found.sort();
    found.into_iter().map(|(_, path)| path).collect()
}

/// The file to begin with: `path` itself, or, if `path` names the recording (`sda`) or an empty file, the first non-empty one.
pub(super) fn first_of(path: &Path) -> PathBuf {
    let files = match path.file_name().and_then(|name| name.to_str()) {
        Some(name) if recording(name).is_some() && is_empty(path) => siblings(path),
        Some(name) if !path.exists() => files_of(path, name),
        _ => Vec::new(),
    };
    files.into_iter().find(|file| !is_empty(file)).unwrap_or_else(|| path.to_owned())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Little,
    Big,
}

impl Order {
    /// The byte order in which these four bytes are the magic, of any version.
    fn of(magic: &[u8]) -> Option<Order> {
        [Order::Little, Order::Big].into_iter().find(|order| order.u32(magic, 0) >> 8 == MAGIC)
    }

    fn bytes<const N: usize>(self, record: &[u8], at: usize) -> [u8; N] {
        let mut bytes = [0; N];
        if let Some(found) = record.get(at..at + N) {
            bytes.copy_from_slice(found);
        }
        if self == Order::Big {
            bytes.reverse();
        }
        bytes
    }

    fn u16(self, record: &[u8], at: usize) -> u16 {
        u16::from_le_bytes(self.bytes(record, at))
    }

    fn u32(self, record: &[u8], at: usize) -> u32 {
        u32::from_le_bytes(self.bytes(record, at))
    }

    fn u64(self, record: &[u8], at: usize) -> u64 {
        u64::from_le_bytes(self.bytes(record, at))
    }
}

/// The fields of a record that we use.
#[derive(Clone, Copy)]
struct Record {
    time: u64,
    sector: u64,
    bytes: u32,
    action: u32,
    pid: u32,
    device: u32,
}

impl Record {
    fn event(&self) -> Option<Event> {
        let kind = match self.action & 0xffff & !TA_CGROUP {
            TA_QUEUE => EventKind::Queued,
            TA_ISSUE => EventKind::Issued,
            TA_COMPLETE => EventKind::Completed,
            _ => return None,
        };
        let has = |category| self.action & category != 0;
        // A command that bypasses the block layer (PC) shows its bytes, but has no sector.
        let op = match () {
            () if has(TC_PC) => None,
            // Set besides the direction; a secure erase looks the same.
            () if has(TC_DISCARD) => Some(Op::Discard),
            () if has(TC_WRITE) => Some(Op::Write),
            () if has(TC_READ) => Some(Op::Read),
            () => None,
        };
        let sync = op == Some(Op::Read) || has(TC_SYNC | TC_FUA | TC_FLUSH);
        let sectors = u64::from(self.bytes.div_ceil(512));
        // Without an operation the sector means nothing, and may be any number.
        let lba = if op.is_some() && sectors > 0 { self.sector } else { 0 };
        Some(Event { kind, time: Nanos(self.time), device: self.device, op, sync, lba, sectors, pid: self.pid })
    }

    fn names_a_process(&self) -> bool {
        self.action & TC_NOTIFY != 0 && self.action & 0xffff & !TA_CGROUP == TN_PROCESS
    }
}

/// One processor's file.
struct Processor {
    path: PathBuf,
    stream: BufReader<Box<dyn Read + Send>>,
    order: Order,
    /// The number of the record in `head`, from 1.
    record: u64,
    head: [u8; HEADER_BYTES],
    payload: Vec<u8>,
    /// The event in `head`, until its turn comes.
    ahead: Option<Record>,
}

impl Processor {
    fn open(input: Input) -> Result<Processor, TraceError> {
        let magic = input.head().bytes.get(..4).map(<[u8]>::to_vec).unwrap_or_default();
        let order = Order::of(&magic).ok_or_else(|| {
            input.not_of_format(format!("is not a blktrace file: it begins with \"{}\", not with its magic", magic.escape_ascii()))
        })?;
        let version = order.u32(&magic, 0).to_le_bytes()[0];
        if version != VERSION {
            return Err(input.not_of_format(format!("is of blktrace version {version}; only version {VERSION} can be read")));
        }
        let stream = BufReader::with_capacity(256 * 1024, input.stream);
        Ok(Processor { path: input.path, stream, order, record: 0, head: [0; HEADER_BYTES], payload: Vec::new(), ahead: None })
    }

    /// Reads the next record and its payload; `None` at the end.
    fn read(&mut self) -> Result<Option<Record>, Trouble> {
        self.record += 1;
        match read_up_to(&mut self.stream, &mut self.head)? {
            0 => return Ok(None),
            HEADER_BYTES => {}
            count => return Err(Trouble::Damage(format!("the file ends after {count} of the record's {HEADER_BYTES} bytes"))),
        }
        self.parse().map(Some)
    }

    /// Reads the record whose head has been read.
    fn parse(&mut self) -> Result<Record, Trouble> {
        let (order, head) = (self.order, &self.head);
        let magic = order.u32(head, 0);
        if magic != MAGIC << 8 | u32::from(VERSION) {
            return Err(Trouble::Damage(format!(
                "begins with {magic:#010x}, not with the magic {MAGIC:#x} and version {VERSION:02x}"
            )));
        }
        self.payload.resize(usize::from(order.u16(head, 46)), 0);
        let record = Record {
            time: order.u64(head, 8),
            sector: order.u64(head, 16),
            bytes: order.u32(head, 24),
            action: order.u32(head, 28),
            pid: order.u32(head, 32),
            device: order.u32(head, 36),
        };
        let count = read_up_to(&mut self.stream, &mut self.payload)?;
        if count < self.payload.len() {
            return Err(Trouble::Damage(format!("the file ends after {count} of the payload's {} bytes", self.payload.len())));
        }
        Ok(record)
    }

    /// After damage: searches byte by byte for the next record's magic and reads that record.
    fn resume(&mut self) -> Result<Option<Record>, Trouble> {
        loop {
            self.head.copy_within(1.., 0);
            let mut byte = [0];
            if read_up_to(&mut self.stream, &mut byte)? == 0 {
                return Ok(None);
            }
            self.head[HEADER_BYTES - 1] = byte[0];
            if self.order.u32(&self.head, 0) == MAGIC << 8 | u32::from(VERSION) {
                return self.parse().map(Some);
            }
        }
    }

    fn damaged(&self, message: String) -> TraceError {
        TraceError::Damaged { path: self.path.clone(), position: self.position(), message }
    }

    fn position(&self) -> String {
        format!("record {}", self.record)
    }
}

/// Why a record cannot be read.
enum Trouble {
    Stream(io::Error),
    Damage(String),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Trouble {
        Trouble::Stream(error)
    }
}

/// All processors' files.
struct Blktrace {
    processors: Vec<Processor>,
    /// The time of each processor's next record.
    next: BinaryHeap<Reverse<(u64, usize)>>,
    /// The processor whose record was last taken.
    current: usize,
    matcher: Matcher,
    programs: NamesByNumber,
    skip_bad: bool,
    skipped: u64,
}

impl Blktrace {
    /// Reads a processor's next record and queues it by time. Process names take effect at once, which is harmless.
    fn read_ahead(&mut self, at: usize) -> Result<(), TraceError> {
        let processor = &mut self.processors[at];
        let mut outcome = processor.read();
        while let Err(Trouble::Damage(message)) = outcome {
            if !self.skip_bad {
                return Err(processor.damaged(message));
            }
            self.skipped += 1;
            outcome = processor.resume();
        }
        let record = outcome.map_err(|trouble| match trouble {
            Trouble::Stream(error) => stream_error(&processor.path, error, format!("record {}", processor.record)),
            Trouble::Damage(message) => processor.damaged(message),
        })?;
        processor.ahead = record;
        let Some(record) = record else { return Ok(()) };
        if record.names_a_process() {
            let text = if record.action & TA_CGROUP != 0 { CGROUP_BYTES } else { 0 };
            let name = processor.payload.get(text..).unwrap_or_default();
            let end = memchr::memchr(0, name).unwrap_or(name.len()).min(NAME_BYTES);
            self.programs.learn(record.pid, &name[..end]);
        }
        self.next.push(Reverse((record.time, at)));
        Ok(())
    }
}

impl Records for Blktrace {
    fn advance(&mut self, out: &mut Window) -> Result<bool, TraceError> {
        let Some(Reverse((_, at))) = self.next.pop() else {
            self.matcher.end(out);
            return Ok(false);
        };
        self.current = at;
        let event = self.processors[at].ahead.take().and_then(|record| record.event());
        let outcome = event.map_or(Ok(()), |event| self.matcher.event(&event, out));
        match outcome {
            Ok(()) => {}
            Err(_) if self.skip_bad => self.skipped += 1,
            Err(message) => return Err(self.damaged(message)),
        }
        self.read_ahead(at)?;
        Ok(true)
    }

    fn damaged(&self, message: String) -> TraceError {
        self.processors[self.current].damaged(message)
    }

    fn position(&self) -> String {
        self.processors[self.current].position()
    }

    fn skipped(&self) -> u64 {
        self.skipped
    }

    fn stream_name(&self, stream: StreamId) -> Option<&str> {
        self.programs.name(stream)
    }

    fn device_name(&self, device: u32) -> Option<&str> {
        self.matcher.device_name(device)
    }
}
