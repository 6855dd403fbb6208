//! MQSim's traces: arrival in ns, device, first sector, sectors, 0 for a write or 1 for a read.

use std::io::{self, Write};

use block::Op;

use super::super::{TraceReader, TraceRequest};
use super::{About, EachRequest, Field, Out, OutputFormat};

pub(super) static FORMAT: OutputFormat = OutputFormat {
    name: "mqsim",
    extensions: &["mqsim"],
    summary: "MQSim: times in ns; read it back with --format mqsim",
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
    let read = u8::from(request.op == Op::Read);
    writeln!(out, "{} {} {} {} {read}", request.arrival.0, request.device, request.lba, request.sectors)
}
