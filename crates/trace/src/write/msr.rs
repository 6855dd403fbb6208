//! MSR Cambridge: `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`, times in units of 100 ns.
//!
//! A device called `src1.2` is disk 2 of the host `src1`; others are disks of a host of their name. A response time that is unknown is 0.

use std::io::{self, Write};

use block::{Nanos, Op};

use super::super::{TraceReader, TraceRequest};
use super::{About, EachRequest, Field, Out, OutputFormat, rounded};

pub(super) static FORMAT: OutputFormat = OutputFormat {
    name: "msr",
    extensions: &["msr"],
    summary: "MSR Cambridge: times in 100 ns, an unknown response time is 0",
    is_text: true,
    leaves_out: &[
        Field::Ticks,
        Field::Discards,
        Field::Sync,
        Field::Stream,
        Field::StreamName,
        Field::Priority,
        Field::ResponseUnknown,
        Field::Service,
        Field::RecordedDevice,
    ],
    create: |out, _about: &About| Ok(Box::new(EachRequest { out, write })),
};

fn write(out: &mut Out, request: &TraceRequest, names: &dyn TraceReader) -> io::Result<()> {
    let kind = if request.op == Op::Read { "Read" } else { "Write" };
    let (host, disk) = disk(request.device, names.device_name(request.device));
    let ticks = |time: Nanos| rounded(time, 100);
    let (arrival, response) = (ticks(request.arrival), ticks(request.response.unwrap_or_default()));
    let (offset, size) = (u128::from(request.lba) * 512, u64::from(request.sectors) * 512);
    writeln!(out, "{arrival},{host},{disk},{kind},{offset},{size},{response}")
}

/// A device's host and its number there.
fn disk(device: u32, name: Option<&str>) -> (String, u32) {
    let name = name.unwrap_or("disk");
    let (host, number) = match name.rsplit_once('.').map(|(host, number)| (host, number.parse())) {
        Some((host, Ok(number))) if !host.is_empty() => (host, number),
        _ => (name, device),
    };
    (host.replace([',', '"', '\n', '\r'], "_").trim().to_owned(), number)
}
