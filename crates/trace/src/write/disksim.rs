//! DiskSim's ASCII traces: arrival in ms, device, first sector, sectors, hexadecimal flags.

use std::io::{self, Write};

use block::Op;

use super::super::disksim::{ASYNC, READ, SYNC};
use super::super::{TraceReader, TraceRequest};
use super::{About, EachRequest, Field, Out, OutputFormat, decimal};

pub(super) static FORMAT: OutputFormat = OutputFormat {
    name: "disksim",
    extensions: &["disksim"],
    summary: "DiskSim ASCII: times in ms, flags for read, sync and async",
    is_text: true,
    leaves_out: &[
        Field::Discards,
        Field::Stream,
        Field::StreamName,
        Field::DeviceName,
        Field::Priority,
        Field::Response,
        Field::Service,
        Field::RecordedDevice,
    ],
    create: |out, _about: &About| Ok(Box::new(EachRequest { out, write })),
};

fn write(out: &mut Out, request: &TraceRequest, _names: &dyn TraceReader) -> io::Result<()> {
    let read = if request.op == Op::Read { READ } else { 0 };
    let sync = match request.sync {
        None => 0,
        Some(false) => ASYNC,
        Some(true) => SYNC,
    };
    // The decimal point tells it from MQSim's traces.
    let arrival = decimal(request.arrival, 6);
    writeln!(out, "{arrival} {} {} {} {:x}", request.device, request.lba, request.sectors, read | sync)
}
