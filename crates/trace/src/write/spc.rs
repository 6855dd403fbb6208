//! SPC: `ASU,LBA,size,opcode,timestamp`, the size in bytes, the time in seconds. A device is an application storage unit.

use std::io::{self, Write};

use block::Op;

use super::super::{TraceReader, TraceRequest};
use super::{About, EachRequest, Field, Out, OutputFormat, decimal};

pub(super) static FORMAT: OutputFormat = OutputFormat {
    name: "spc",
    extensions: &["spc"],
    summary: "SPC, as UMass's Financial and WebSearch: times in s, a device is a storage unit",
    is_text: true,
    leaves_out: &[
        Field::Discards,
        Field::Sync,
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
    let opcode = if request.op == Op::Read { 'R' } else { 'W' };
    let (bytes, arrival) = (u64::from(request.sectors) * 512, decimal(request.arrival, 9));
    writeln!(out, "{},{},{bytes},{opcode},{arrival}", request.device, request.lba)
}
