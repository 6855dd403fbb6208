//! The kernel's text format of the block tracepoints, as printed by `trace` and `trace_pipe` in tracefs, by `trace-cmd report`
//! and by `perf script`. `traces/record-disk.sh` records it where debugfs, and so blktrace, is not available.
//!
//! ```text
//!     sqlite3-18176   [001] ...1.  1221.273380: block_bio_queue: 7,0 RA 3303912 + 8 [sqlite3]
//!  program-process [processor] flags  seconds:  event: device RWBS sector + sectors [program]
//!     sqlite3-18176   [001] ...1.  1221.273380: block_rq_issue: 7,0 RA 4096 () 3303912 + 8 be,0,4 [sqlite3]
//!                                         bytes (command) sector + sectors class,hint,level [program]
//!     sqlite3 18176   [001]        1221.273380: block:block_bio_queue: 7,0 RA 3303912 + 8 [sqlite3]
//!  perf script: a blank between program and thread, and the events' group in front of their names
//! ```
//!
//! `trace-cmd report` begins with `version = 6` and `cpus=4`, which are skipped.
//!
//! `block_bio_queue` is the arrival, `block_rq_complete` the completion, and `block_rq_issue` replaces an arrival that was not
//! recorded; `events.rs` builds requests from them. Times are to the microsecond. The stream is taken from the arrival, since
//! requests are often issued by a kernel worker. The priorities in the later events are ignored.

use super::blkparse::{Rwbs, next_word};
use super::events::{Event, EventKind, Matcher};
use super::lines::{self, Parser};
use super::names::NamesByNumber;
use super::order::Window;
use super::{Format, Head};

use block::{Nanos, Op, StreamId};

/// The format.
pub static FORMAT: Format = Format {
    name: "tracefs",
    summary: "the kernel's text of block_bio_queue, block_rq_issue and block_rq_complete, also of trace-cmd report and perf script; \
              the process is the stream",
    source: "Linux include/trace/events/block.h, kernel/trace/trace_output.c, perf-script(1), trace-cmd-report(1)",
    detect,
    open: |input, options| Ok(lines::open(input, options, Tracefs::default())),
};

fn detect(head: &Head<'_>) -> bool {
    let (mut events, mut others) = (0, 0);
    for line in head.lines().filter(|line| !is_remark(line)) {
        match Line::read(line) {
            Ok(_) => events += 1,
            Err(_) => others += 1,
        }
    }
    events > others
}

/// tracefs's and perf's heading, trace-cmd's, and empty lines.
fn is_remark(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    if matches!(line, [] | [b'#', ..]) {
        return true;
    }
    let number = line.strip_prefix(b"cpus=").or_else(|| line.strip_prefix(b"version = "));
    // trace-cmd names the processors that recorded nothing.
    let number = number.or_else(|| line.strip_prefix(b"CPU ").and_then(|line| line.strip_suffix(b" is empty")));
    number.is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit))
}

#[derive(Default)]
struct Tracefs {
    matcher: Matcher,
    programs: NamesByNumber,
}

/// The fields of every line.
struct Line<'a> {
    pid: u32,
    time: Nanos,
    event: &'a [u8],
    rest: &'a [u8],
}

impl<'a> Line<'a> {
    /// A program's name may contain spaces, dashes, colons and brackets; `[processor]` between it and the time is reliable.
    fn read(line: &'a [u8]) -> Result<Line<'a>, String> {
        let (open, close) = processor(line).ok_or_else(|| {
            format!("{} has no [processor]: is this the text of tracefs, trace-cmd report or perf script?", lines::show(line))
        })?;
        // The option record-tgid adds a thread group: `name-12  (   12) [000]`.
        let mut task = line[..open].trim_ascii_end();
        if let Some(group) = task.strip_suffix(b")").and_then(|task| memchr::memrchr(b'(', task)) {
            task = task[..group].trim_ascii_end();
        }
        // perf has a blank there, and with the field pid also the process, before a slash.
        let dash = task.iter().rposition(|byte| matches!(byte, b'-' | b' ' | b'/'));
        let dash = dash.ok_or_else(|| format!("the task is {}, not program-process", lines::show(task)))?;
        let pid = lines::unsigned_32(&task[dash + 1..], "the process id")?;
        let mut rest = &line[close + 1..];
        let mut time = next_word(&mut rest);
        // The flags (irqs off, preemption, ...) may have been switched off.
        if !time.ends_with(b":") {
            time = next_word(&mut rest);
        }
        let time = time.strip_suffix(b":").ok_or_else(|| format!("{} is not a time and a colon", lines::show(time)))?;
        let time = lines::time(time, 9, "the time")?;
        let event = next_word(&mut rest);
        let event = event.strip_suffix(b":").ok_or_else(|| format!("{} is not an event and a colon", lines::show(event)))?;
        let event = event.strip_prefix(b"block:").unwrap_or(event);
        Ok(Line { pid, time, event, rest })
    }

    /// The event, and the program if it issued the request. `None`: not about a request.
    fn event(&self) -> Result<Option<(Event, &'a [u8])>, String> {
        let kind = match self.event {
            b"block_bio_queue" => EventKind::Queued,
            b"block_rq_issue" => EventKind::Issued,
            b"block_rq_complete" => EventKind::Completed,
            _ => return Ok(None),
        };
        let mut rest = self.rest;
        let device = device(next_word(&mut rest))?;
        let Rwbs { op, sync } = Rwbs::read(next_word(&mut rest))?;
        // The command in the parentheses is empty except for passthrough requests.
        if kind != EventKind::Queued {
            rest = match memchr::memmem::find(rest, b") ") {
                Some(command) => &rest[command + 2..],
                None => return Err(format!("{} has no (command)", lines::show(self.rest))),
            };
        }
        let (lba, plus, sectors) = (next_word(&mut rest), next_word(&mut rest), next_word(&mut rest));
        if plus != b"+" {
            return Err(format!("has {} where sector + sectors belong", lines::show(self.rest)));
        }
        let sectors = lines::unsigned(sectors, "the number of sectors")?;
        // A flush is at sector 2^64 - 1.
        let (op, lba) = if sectors == 0 { (None::<Op>, 0) } else { (op, lines::unsigned(lba, "the sector")?) };
        let program = match (memchr::memchr(b'[', rest), memchr::memrchr(b']', rest)) {
            (Some(open), Some(close)) if open < close && kind != EventKind::Completed => &rest[open + 1..close],
            _ => &[],
        };
        Ok(Some((Event { kind, time: self.time, device, op, sync, lba, sectors, pid: self.pid }, program)))
    }
}

/// The position of the brackets of ` [001] `.
fn processor(line: &[u8]) -> Option<(usize, usize)> {
    memchr::memchr_iter(b'[', line).find_map(|open| {
        let digits = line[open + 1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let close = open + 1 + digits;
        let apart = open > 0 && line[open - 1] == b' ' && line.get(close + 1) == Some(&b' ');
        (digits > 0 && line.get(close) == Some(&b']') && apart).then_some((open, close))
    })
}

/// `8,0` as Linux's number.
fn device(field: &[u8]) -> Result<u32, String> {
    let ([major, minor], 2) = lines::split(field, b',') else {
        return Err(format!("the device is {}, not major,minor", lines::show(field)));
    };
    let (major, minor) = (lines::unsigned_32(major, "the major number")?, lines::unsigned_32(minor, "the minor number")?);
    if major > 0xfff || minor > 0xf_ffff {
        return Err(format!("the device is {}, beyond 4095,1048575", lines::show(field)));
    }
    Ok(major << 20 | minor)
}

impl Parser for Tracefs {
    fn line(&mut self, line: &[u8], out: &mut Window) -> Result<(), String> {
        if is_remark(line) {
            return Ok(());
        }
        // The report of lost events, `CPU:1 [LOST 42 EVENTS]`, or by trace-cmd `CPU:1 [42 EVENTS DROPPED]`.
        if line.starts_with(b"CPU:") && memchr::memmem::find(line, b"EVENTS").is_some() {
            return Err(format!("{}: the kernel's buffer was too small, the trace has a hole", lines::show(line)));
        }
        let Some((event, program)) = Line::read(line)?.event()? else { return Ok(()) };
        if event.kind == EventKind::Queued {
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
