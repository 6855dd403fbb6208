//! The output of `biosnoop`, of bcc (with or without `-Q`) and of libbpf-tools.
//!
//! ```text
//! TIME(s)     COMM           PID    DISK    T SECTOR     BYTES  QUE(ms) LAT(ms)
//! 0.006229    jbd2/sda1-8    301    sda     W 93670200   65536     0.04    7.82
//! completion  program        process        R, W or RWBS             issue to completion
//!                                                              only with -Q: from the queue to the issue
//! ```
//! TIME is when the request completed, since the first completion. The arrival is the time before that by LAT and, where it is
//! given, QUE; without QUE it is when the request was sent to the driver. Times are to the microsecond, latencies to 10 us. A
//! program's name may contain blanks: the fields behind it are counted from the end of the line.

use block::{Nanos, StreamId};

use super::blkparse::Rwbs;
use super::extent::Extent;
use super::lines::{self, Parser};
use super::names::{Names, NamesByNumber};
use super::order::Window;
use super::{Format, TraceRequest};

/// The format.
pub static FORMAT: Format = Format {
    name: "biosnoop",
    summary: "biosnoop (bcc, libbpf-tools): completion s, program, pid, disk, R|W, sector, bytes, queue ms (-Q), latency ms",
    source: "iovisor/bcc, tools/biosnoop.py and tools/biosnoop_example.txt, libbpf-tools/biosnoop.c",
    detect: |head| lines::detect(head, Biosnoop::default()),
    open: |input, options| Ok(lines::open(input, options, Biosnoop::default())),
};

/// Added to every time: the first requests arrived before the first completion, which is at zero. A day is longer than any latency.
const BEFORE_THE_FIRST: Nanos = Nanos::from_millis(86_400_000);

#[derive(Default)]
struct Biosnoop {
    programs: NamesByNumber,
    disks: Names,
}

/// The fields of a line, as text.
struct Line<'a> {
    time: &'a [u8],
    program: &'a [u8],
    pid: &'a [u8],
    /// Empty: bcc did not see the request being issued and knows neither its disk nor its sector.
    disk: &'a [u8],
    kind: &'a [u8],
    sector: &'a [u8],
    bytes: &'a [u8],
    queued: Option<&'a [u8]>,
    latency: &'a [u8],
}

impl<'a> Line<'a> {
    /// `None`: too few fields.
    fn read(line: &'a [u8]) -> Option<Line<'a>> {
        let mut rest = line;
        let ([fourth, third, second, latency], 4) = lines::last_words(&mut rest) else { return None };
        // The fourth field from the end is the kind of the request, or with -Q the sector.
        let (kind, sector, bytes, queued) = if fourth.first()?.is_ascii_digit() {
            let ([kind], 1) = lines::last_words(&mut rest) else { return None };
            (kind, fourth, third, Some(second))
        } else {
            (fourth, third, second, None)
        };
        let ([time, program, pid], count) = lines::words(rest);
        if count == 3 && program == b"?" {
            return Some(Line { time, program: b"", pid, disk: b"", kind, sector, bytes, queued, latency });
        }
        let ([pid, disk], 2) = lines::last_words(&mut rest) else { return None };
        let program = lines::after_words(rest, 1);
        (count >= 4).then_some(Line { time, program, pid, disk, kind, sector, bytes, queued, latency })
    }

    /// When the request arrived, by a clock that is a day ahead; and its response and service time.
    fn times(&self) -> Result<(Nanos, Nanos, Nanos), String> {
        let completion = lines::time(self.time, 9, "the TIME(s)")?;
        let service = lines::time(self.latency, 6, "the LAT(ms)")?;
        let queued = match self.queued {
            // libbpf-tools: the request was not seen in the queue.
            None | Some(b"-1.000") => Nanos::ZERO,
            Some(queued) => lines::time(queued, 6, "the QUE(ms)")?,
        };
        let response = queued.0.checked_add(service.0).filter(|&response| response <= BEFORE_THE_FIRST.0);
        let response = response.ok_or_else(|| {
            let queue = self.queued.map_or(String::new(), |queued| format!(", the QUE(ms) {}", lines::show(queued)));
            format!("the LAT(ms) is {}{queue}: more than a day", lines::show(self.latency))
        })?;
        let arrival = completion.0.checked_add(BEFORE_THE_FIRST.0 - response);
        let arrival = arrival.ok_or_else(|| format!("the TIME(s) is {}, beyond 2^64 ns", lines::show(self.time)))?;
        Ok((Nanos(arrival), Nanos(response), service))
    }
}

/// The heading, with QUE(ms) or without.
fn is_heading(line: &[u8]) -> bool {
    matches!(lines::words(line), ([b"TIME(s)", b"COMM", b"PID", b"DISK"], _))
}

impl Parser for Biosnoop {
    fn line(&mut self, line: &[u8], out: &mut Window) -> Result<(), String> {
        if is_heading(line) {
            return Ok(());
        }
        let fields = Line::read(line).ok_or_else(|| wrong_count(line))?;
        let pid = lines::unsigned_32(fields.pid, "the PID")?;
        let Ok(Rwbs { op, sync }) = Rwbs::read(fields.kind) else {
            return Err(format!("the kind T is {}, not R, W or letters such as WS", lines::show(fields.kind)));
        };
        let (sector, bytes) = (lines::unsigned(fields.sector, "the SECTOR")?, lines::unsigned(fields.bytes, "the BYTES")?);
        let (arrival, response, service) = fields.times()?;
        let (Some(op), Some(extent), false) = (op, Extent::of_sectors(sector, bytes.div_ceil(512))?, fields.disk.is_empty()) else {
            out.omit();
            return Ok(());
        };
        let disk = self.disks.number(fields.disk)?;
        self.programs.learn(pid, fields.program);
        // bcc prints one letter of any request.
        let sync = (fields.kind.len() > 1).then_some(sync);
        let (response, service) = (Some(response), Some(service));
        out.push(TraceRequest { sync, response, service, ..extent.request(arrival, op, disk, pid) });
        Ok(())
    }

    fn stream_name(&self, stream: StreamId) -> Option<&str> {
        self.programs.name(stream)
    }

    fn device_name(&self, device: u32) -> Option<&str> {
        self.disks.name(device)
    }
}

#[cold]
fn wrong_count(line: &[u8]) -> String {
    let count = lines::words::<0>(line).1;
    format!("has {count} fields; a line of biosnoop is TIME(s) COMM PID DISK T SECTOR BYTES [QUE(ms)] LAT(ms)")
}
