//! blkparse's output in its default format.
//!
//! ```text
//!   8,0    3        1     0.000000000   697  Q  WS 223490 + 8 [kjournald]
//!  device  CPU  sequence  seconds       pid  action  RWBS  sector + sectors [program, or error of a C]
//! ```
//!
//! `events.rs` builds requests from the events. The summary at the end is skipped.

use block::{Op, StreamId};

use super::events::{Event, EventKind, Matcher};
use super::lines::{self, Parser};
use super::names::NamesByNumber;
use super::order::Window;
use super::{Format, Head};

/// The format.
pub static FORMAT: Format = Format {
    name: "blkparse",
    summary: "blkparse's text in its default format: Q is the arrival, C the completion, the process is the stream",
    source: "blkparse(1), DEFAULT OUTPUT; blkparse_fmt.c of blktrace 1.2",
    detect,
    open: |input, options| Ok(lines::open(input, options, Blkparse::default())),
};

fn detect(head: &Head<'_>) -> bool {
    let (mut events, mut others) = (0, 0);
    let lines = head.lines().take_while(|line| !begins_summary(line));
    for line in lines.filter(|line| !line.trim_ascii().is_empty() && !line.starts_with(ADDED)) {
        match Line::read(line) {
            Ok(_) => events += 1,
            Err(_) => others += 1,
        }
    }
    events > others
}

/// blkparse's notice of each file it reads.
const ADDED: &[u8] = b"Input file ";

/// The events are followed by "CPU0 (sda):" or "Total (sda):" and counts.
fn begins_summary(line: &[u8]) -> bool {
    line.starts_with(b"CPU") || line.starts_with(b"Total (")
}

#[derive(Default)]
struct Blkparse {
    matcher: Matcher,
    programs: NamesByNumber,
    /// The events are over.
    summary: bool,
}

/// The fields of every line.
struct Line<'a> {
    device: u32,
    time: block::Nanos,
    pid: u32,
    action: &'a [u8],
    rwbs: &'a [u8],
    rest: &'a [u8],
}

impl<'a> Line<'a> {
    fn read(line: &'a [u8]) -> Result<Line<'a>, String> {
        let mut rest = line;
        let (device, _cpu, _sequence) = (next_word(&mut rest), next_word(&mut rest), next_word(&mut rest));
        let ([major, minor], 2) = lines::split(device, b',') else {
            return Err(format!(
                "begins with {}, not with a device such as 8,0: is this blkparse's default format?",
                lines::show(device)
            ));
        };
        let (major, minor) = (lines::unsigned(major, "the major number")?, lines::unsigned(minor, "the minor number")?);
        if major > 0xfff || minor > 0xf_ffff {
            return Err(format!("the device is {}, beyond 4095,1048575", lines::show(device)));
        }
        let device = u32::try_from(major << 20 | minor).map_err(|_| "the device's number is too large".to_owned())?;
        let time = lines::time(next_word(&mut rest), 9, "the time")?;
        let pid = lines::unsigned_32(next_word(&mut rest), "the process id")?;
        let (action, rwbs) = (next_word(&mut rest), next_word(&mut rest));
        Ok(Line { device, time, pid, action, rwbs, rest: rest.trim_ascii() })
    }

    fn kind(&self) -> Option<EventKind> {
        match self.action {
            b"Q" => Some(EventKind::Queued),
            b"D" => Some(EventKind::Issued),
            b"C" => Some(EventKind::Completed),
            _ => None,
        }
    }

    /// The event, and the program's name if the line has it. `None`: not about a request.
    fn event(&self) -> Result<Option<(Event, &'a [u8])>, String> {
        let Some(kind) = self.kind() else { return Ok(None) };
        let rwbs = Rwbs::read(self.rwbs)?;
        let mut rest = self.rest;
        let sector = next_word(&mut rest);
        // A request with a payload (a SCSI command) shows that instead of sectors; so does a flush, which shows nothing.
        let plus = next_word(&mut rest);
        let (lba, sectors) = match plus {
            b"+" => (lines::unsigned(sector, "the sector")?, lines::unsigned(next_word(&mut rest), "the number of sectors")?),
            _ if rwbs.op.is_none()
                || sector.starts_with(b"(")
                || sector.starts_with(b"[")
                || plus.starts_with(b"(")
                || plus.starts_with(b"[") =>
            {
                (0, 0)
            }
            _ => return Err(format!("has {} instead of the sector, + and the number of sectors", lines::show(self.rest))),
        };
        let program = match (memchr::memchr(b'[', rest), memchr::memrchr(b']', rest)) {
            (Some(open), Some(close)) if open < close && kind != EventKind::Completed => &rest[open + 1..close],
            _ => &[],
        };
        let Line { device, time, pid, .. } = *self;
        let Rwbs { op, sync } = rwbs;
        Ok(Some((Event { kind, time, device, op, sync, lba, sectors, pid }, program)))
    }
}

/// Splits off the first word.
pub(super) fn next_word<'a>(rest: &mut &'a [u8]) -> &'a [u8] {
    let text = rest.trim_ascii_start();
    let end = text.iter().position(u8::is_ascii_whitespace).unwrap_or(text.len());
    let (word, after) = text.split_at(end);
    *rest = after;
    word
}

/// A request's operation and flags, as blkparse and the kernel's tracepoints print them (`blk_fill_rwbs` in `blktrace.c`).
pub(super) struct Rwbs {
    /// `None`: a flush, a secure erase, a zone command.
    pub(super) op: Option<Op>,
    /// As in `op_is_sync`: a read, or a write or discard with S (sync), trailing F (force unit access) or leading F (flush
    /// before).
    pub(super) sync: bool,
}

impl Rwbs {
    pub(super) fn read(field: &[u8]) -> Result<Rwbs, String> {
        if field.is_empty() || !field.iter().all(u8::is_ascii_uppercase) {
            return Err(format!("the RWBS field is {}, not letters such as R, WS or FWFS", lines::show(field)));
        }
        let flush = field[0] == b'F';
        let flags = if flush { &field[1..] } else { field };
        // Behind D (discard) an E makes a secure erase, behind W a Z the writing of zeroes.
        let op = match flags {
            [b'R', ..] => Some(Op::Read),
            [b'W', b'Z', ..] => None,
            [b'W', ..] => Some(Op::Write),
            [b'D', b'E', ..] => None,
            [b'D', ..] => Some(Op::Discard),
            _ => None,
        };
        let sync = op == Some(Op::Read) || flush || flags.iter().any(|flag| matches!(flag, b'S' | b'F'));
        Ok(Rwbs { op, sync })
    }
}

impl Parser for Blkparse {
    fn line(&mut self, line: &[u8], out: &mut Window) -> Result<(), String> {
        self.summary |= begins_summary(line);
        if self.summary || line.starts_with(ADDED) {
            return Ok(());
        }
        let line = Line::read(line)?;
        let Some((event, program)) = line.event()? else { return Ok(()) };
        // Printed by blkparse for a process of unknown name.
        if program != b"(null)" {
            self.programs.learn(event.pid, program);
        }
        self.matcher.event(&event, out)
    }

    fn end(&mut self, out: &mut Window) -> Result<(), String> {
        self.matcher.end(out);
        Ok(())
    }

    fn stream_name(&self, stream: StreamId) -> Option<&str> {
        self.programs.name(stream)
    }

    fn device_name(&self, device: u32) -> Option<&str> {
        self.matcher.device_name(device)
    }
}
