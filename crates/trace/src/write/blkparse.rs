//! blkparse's default output, a line per event, which many tools read.
//!
//! ```text
//!   8,0    0        1     0.000000000  4711  Q  RS 123456 + 8 [postgres]
//!   8,0    0        2     0.000810000     0  D  RS 123456 + 8 [0]
//!   8,0    0        3     0.004210000     0  C  RS 123456 + 8 [0]
//! ```
//! Device, processor, sequence, seconds, process, action, direction (`R`, `W`, `D` for a discard, then `S` for synchronous), first
//! sector + sectors, program or error (`blkparse_fmt.c`: `%D %2c %8s %5T.%9t %5p %2a %3d`). Queued (Q) is the arrival; sent to the
//! driver (D) and completed (C) follow where the trace has these times. Every request is on processor 0, and device n is called
//! `8,16n`, as disks are: sda, sdb, ...
//!
//! If requests in flight overlap, a completion line does not identify its request: a reader may confuse them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, Write};

use block::{Nanos, Op};

use super::super::{TraceReader, TraceRequest};
use super::{About, Field, Out, OutputFormat, TraceWriter};

pub(super) static FORMAT: OutputFormat = OutputFormat {
    name: "blkparse",
    extensions: &["blkparse"],
    summary: "blkparse's text: a line for each arrival, each dispatch and each completion",
    is_text: true,
    leaves_out: &[Field::SyncUnknown, Field::AsyncRead, Field::DeviceName, Field::Priority, Field::RecordedDevice],
    create,
};

/// Limit on requests in flight. Real queues hold a few thousand; a trace with more has no plausible completions.
const UNDER_WAY: usize = 1 << 20;

fn create(out: Out, _about: &About) -> io::Result<Box<dyn TraceWriter>> {
    Ok(Box::new(Blkparse { out, under_way: BinaryHeap::new(), lines: 0, written: 0, left_out: 0 }))
}

struct Blkparse {
    out: Out,
    under_way: BinaryHeap<Reverse<Later>>,
    lines: u64,
    written: u64,
    left_out: u64,
}

/// A line to come. The order is by time, then by arrival.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Later {
    at: Nanos,
    sequence: u64,
    /// The completion, which comes behind the dispatch.
    is_completion: bool,
    device: u32,
    lba: u64,
    sectors: u32,
    direction: &'static str,
}

impl TraceWriter for Blkparse {
    fn write(&mut self, request: &TraceRequest, names: &dyn TraceReader) -> io::Result<()> {
        self.complete_until(request.arrival)?;
        let direction = match (request.op, request.is_sync()) {
            (Op::Read, true) => "RS",
            (Op::Read, false) => "R",
            (Op::Write, true) => "WS",
            (Op::Write, false) => "W",
            (Op::Discard, true) => "DS",
            (Op::Discard, false) => "D",
        };
        self.head(request.device, request.arrival, request.stream, "Q", direction)?;
        let name = names.stream_name(request.stream).unwrap_or("?");
        writeln!(self.out, "{} + {} [{}]", request.lba, request.sectors, name.replace(['\n', '\r'], " "))?;
        self.written += 1;
        let Some(response) = request.response else { return Ok(()) };
        if self.under_way.len() >= UNDER_WAY {
            self.left_out += 1;
            return Ok(());
        }
        let TraceRequest { device, lba, sectors, .. } = *request;
        let done = request.arrival + response;
        let later =
            |at, is_completion| Reverse(Later { at, sequence: self.written, is_completion, device, lba, sectors, direction });
        let sent = request.service.map(|service| later((done - service).max(request.arrival), false));
        self.under_way.extend(sent);
        self.under_way.push(later(done, true));
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> io::Result<Option<String>> {
        self.complete_until(Nanos::MAX)?;
        self.out.flush()?;
        Ok((self.left_out > 0).then(|| {
            format!("{} response times are left out: more than {UNDER_WAY} requests were under way at once", self.left_out)
        }))
    }
}

impl Blkparse {
    /// Writes the events up to a time.
    fn complete_until(&mut self, now: Nanos) -> io::Result<()> {
        while self.under_way.peek().is_some_and(|Reverse(next)| next.at <= now) {
            let Some(Reverse(done)) = self.under_way.pop() else { break };
            let action = if done.is_completion { "C" } else { "D" };
            self.head(done.device, done.at, 0, action, done.direction)?;
            writeln!(self.out, "{} + {} [0]", done.lba, done.sectors)?;
        }
        Ok(())
    }

    /// The beginning of every line.
    fn head(&mut self, device: u32, time: Nanos, process: u32, action: &str, direction: &str) -> io::Result<()> {
        self.lines += 1;
        let (seconds, nanos) = (time.0 / 1_000_000_000, time.0 % 1_000_000_000);
        let minor = u64::from(device) * 16;
        write!(
            self.out,
            "{:>3},{minor:<3} {:>2} {:>8} {seconds:>5}.{nanos:09} {process:>5} {action:>2} {direction:>3} ",
            8, 0, self.lines
        )
    }
}
