//! MSR Cambridge traces: `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime` a line, times in units of 100 ns.

use block::{Nanos, Op, StreamId};

use super::extent::Extent;
use super::lines::{self, Parser};
use super::names::Names;
use super::order::Window;
use super::{Format, TraceRequest};

/// The format.
pub static FORMAT: Format = Format {
    name: "msr",
    summary: "MSR Cambridge: 100 ns ticks,host,disk,Read|Write,offset bytes,size bytes,response ticks; host.disk is stream and device",
    source: "SNIA IOTTA 388, README (Narayanan et al., FAST 2008)",
    detect: |head| lines::detect(head, Msr::default()),
    open: |input, options| Ok(lines::open(input, options, Msr::default())),
};

#[derive(Default)]
struct Msr {
    /// `host.disk`, like the names of the trace files.
    disks: Names,
    name: Vec<u8>,
}

impl Parser for Msr {
    fn line(&mut self, line: &[u8], out: &mut Window) -> Result<(), String> {
        let ([timestamp, host, disk, kind, offset, size, response], count) = lines::split(line, b',');
        if lines::is_heading(line, b"timestamp,hostname,disknumber,type,offset,size,responsetime") {
            return Ok(());
        }
        if count != 7 {
            return Err(format!("has {count} fields; an MSR line is Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime"));
        }
        let arrival = ticks(timestamp, "the Timestamp")?;
        lines::unsigned_32(disk, "the DiskNumber")?;
        let op = match kind {
            _ if kind.eq_ignore_ascii_case(b"read") => Op::Read,
            _ if kind.eq_ignore_ascii_case(b"write") => Op::Write,
            _ => return Err(format!("the Type is {}, not Read or Write", lines::show(kind))),
        };
        let (offset, size) = (lines::unsigned(offset, "the Offset")?, lines::unsigned(size, "the Size")?);
        let response = ticks(response, "the ResponseTime")?;
        let Some(extent) = Extent::of_bytes(offset, size)? else {
            out.omit_empty();
            return Ok(());
        };
        self.name.clear();
        self.name.extend_from_slice(host);
        self.name.push(b'.');
        self.name.extend_from_slice(disk);
        let disk = self.disks.number(&self.name)?;
        out.push(TraceRequest { response: Some(response), ..extent.request(arrival, op, disk, disk) });
        Ok(())
    }

    fn stream_name(&self, stream: StreamId) -> Option<&str> {
        self.disks.name(stream)
    }

    fn device_name(&self, device: u32) -> Option<&str> {
        self.disks.name(device)
    }
}

/// Windows counts time in units of 100 ns since 1601; 2^64 ns reach until 2185.
fn ticks(field: &[u8], what: &str) -> Result<Nanos, String> {
    let ticks = lines::unsigned(field, what)?;
    let nanos = ticks.checked_mul(100).ok_or_else(|| format!("{what} is {ticks}, beyond the year 2185"))?;
    Ok(Nanos(nanos))
}
