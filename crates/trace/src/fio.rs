//! fio's I/O logs, versions 2 and 3, written by `write_iolog` and replayed by `read_iolog`.
//!
//! ```text
//!  fio version 2 iolog              fio version 3 iolog
//!  FILE add|open|close              TIME FILE add|open|close
//!  FILE read|write OFFSET LENGTH    TIME FILE read|write OFFSET LENGTH
//!  FILE wait MILLISECONDS 0
//! ```
//!
//! Offsets and lengths are in bytes. Version 3 has times in microseconds (fio 3.33 `log_io_u`). In version 2 only `wait` advances
//! time, as fio replays it: until that many milliseconds after its start (`read_iolog_get` in fio 3.33, and measured: two waits of 1500
//! take 1.5 s together, a shorter wait behind a longer one none). The manual says microseconds since the previous wait, which fio does
//! not do.
//! A file is a device and a stream; a `trim` is a discard; `sync`, `datasync` and `sync_file_range` are left out.

use block::{Nanos, Op, StreamId};

use super::extent::Extent;
use super::lines::{self, Parser};
use super::names::Names;
use super::order::Window;
use super::{Format, Head, TraceError};

/// The format.
pub static FORMAT: Format = Format {
    name: "fio",
    summary: "fio iolog version 2 and 3 (write_iolog): file, action, offset, length; a file is stream and device",
    source: "fio(1), section TRACE FILE FORMAT; iolog.c of fio 3.33",
    detect: |head| version(head).is_ok(),
    open: |input, options| match version(&input.head()) {
        Ok(version) => {
            let (clock, files, span) = (Nanos::ZERO, Names::default(), None);
            Ok(lines::open(input, options, Fio { version, started: false, clock, files, span, requests: 0 }))
        }
        Err(message) => Err(TraceError::Damaged { path: input.path, position: "1".into(), message }),
    },
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    Two,
    Three,
}

/// Parses the version from the content's first line.
fn version(head: &Head<'_>) -> Result<Version, String> {
    let line = head.lines().next().unwrap_or_default();
    match line.trim_ascii_end() {
        b"fio version 2 iolog" => Ok(Version::Two),
        b"fio version 3 iolog" => Ok(Version::Three),
        other => Err(format!("the first line is {}, not \"fio version 2 iolog\" or \"fio version 3 iolog\"", lines::show(other))),
    }
}

struct Fio {
    version: Version,
    /// The version line has been read.
    started: bool,
    /// The longest of version 2's waits so far.
    clock: Nanos,
    files: Names,
    /// The arrivals of the first and of the last request so far.
    span: Option<(Nanos, Nanos)>,
    requests: u64,
}

/// Minimum number of requests, and minimum mean pause between them, with which times of version 3 may be nanoseconds.
const REQUESTS_TO_DOUBT: u64 = 100;
const PAUSE_TO_DOUBT: Nanos = Nanos::from_millis(100);

impl Fio {
    fn action(&mut self, action: Action<'_>, out: &mut Window) -> Result<(), String> {
        let Action { arrival, file, verb, offset, length } = action;
        let op = match verb {
            b"read" => Op::Read,
            b"write" => Op::Write,
            b"trim" => Op::Discard,
            b"sync" | b"datasync" | b"sync_file_range" => {
                out.omit();
                return Ok(());
            }
            b"wait" if self.version == Version::Two => {
                let millis = lines::unsigned(offset, "the wait")?;
                let over = millis.checked_mul(1_000_000).ok_or_else(|| format!("the wait is {millis} ms, which exceed 2^64 ns"))?;
                self.clock = self.clock.max(Nanos(over));
                return Ok(());
            }
            b"wait" => return Err("version 3 has no wait: its lines carry their time".into()),
            b"add" | b"open" | b"close" | b"unlink" => return Ok(()),
            _ => return Err(format!("the action is {}, none that fio knows (read, write, sync, trim, ...)", lines::show(verb))),
        };
        let (offset, length) = (lines::unsigned(offset, "the offset")?, lines::unsigned(length, "the length")?);
        match Extent::of_bytes(offset, length)? {
            Some(extent) => {
                let file = self.files.number(file)?;
                self.span = Some((self.span.map_or(arrival, |(first, _)| first), arrival));
                self.requests += 1;
                out.push(extent.request(arrival, op, file, file));
            }
            None => out.omit_empty(),
        }
        Ok(())
    }
}

/// A line's fields; missing ones are empty.
struct Action<'a> {
    arrival: Nanos,
    file: &'a [u8],
    verb: &'a [u8],
    offset: &'a [u8],
    length: &'a [u8],
}

impl Parser for Fio {
    fn line(&mut self, line: &[u8], out: &mut Window) -> Result<(), String> {
        if !std::mem::replace(&mut self.started, true) {
            return Ok(());
        }
        let mut fields = line.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty());
        let arrival = match self.version {
            Version::Two => self.clock,
            Version::Three => match fields.next() {
                None => return Ok(()),
                Some(field) => lines::time(field, 3, "the timestamp")?,
            },
        };
        let Some(file) = fields.next() else { return Ok(()) };
        let verb = fields.next().ok_or("lacks its action: a line is a file, an action, an offset and a length")?;
        let (offset, length) = (fields.next().unwrap_or_default(), fields.next().unwrap_or_default());
        if fields.next().is_some() {
            return Err("has too many fields: a line is a file (without blanks), an action, an offset and a length".into());
        }
        self.action(Action { arrival, file, verb, offset, length }, out)
    }

    fn warnings(&self) -> Vec<String> {
        let is_doubtful = self.version == Version::Three && self.requests >= REQUESTS_TO_DOUBT;
        let Some((first, last)) = self.span.filter(|_| is_doubtful) else { return Vec::new() };
        let pause = Nanos(last.0.saturating_sub(first.0) / (self.requests - 1));
        let doubt = (pause >= PAUSE_TO_DOUBT).then(|| {
            format!(
                "its times may be nanoseconds: in fio's microseconds there is one request every {pause}; if so, divide them by 1000"
            )
        });
        doubt.into_iter().collect()
    }

    fn stream_name(&self, stream: StreamId) -> Option<&str> {
        self.files.name(stream)
    }

    fn device_name(&self, device: u32) -> Option<&str> {
        self.files.name(device)
    }
}
