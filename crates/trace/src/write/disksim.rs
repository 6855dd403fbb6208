//! DiskSim's ASCII traces: arrival in ms, device, first sector, sectors, hexadecimal flags.

use std::io::{self, Write};

use block::Op;

use super::super::disksim::{ASYNC, READ, SYNC};
use super::super::{TraceReader, TraceRequest};
use super::{About, Field, Out, OutputFormat, TraceWriter, decimal};

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
    create: |out, _about: &About| Ok(Box::new(DiskSim { out })),
};

struct DiskSim {
    out: Out,
}

impl TraceWriter for DiskSim {
    fn write(&mut self, request: &TraceRequest, _names: &dyn TraceReader) -> io::Result<()> {
        let read = if request.op == Op::Read { READ } else { 0 };
        let sync = match request.sync {
            None => 0,
            Some(false) => ASYNC,
            Some(true) => SYNC,
        };
        // The decimal point tells it from MQSim's traces.
        let arrival = decimal(request.arrival, 6);
        writeln!(self.out, "{arrival} {} {} {} {:x}", request.device, request.lba, request.sectors, read | sync)
    }

    fn finish(mut self: Box<Self>) -> io::Result<Option<String>> {
        self.out.flush().map(|()| None)
    }
}
