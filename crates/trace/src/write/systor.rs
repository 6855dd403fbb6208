//! SYSTOR '17: `Timestamp,Response,IOType,LUN,Offset,Size`, times in seconds. A device is a LUN.

use std::io::{self, Write};

use block::Op;

use super::super::{TraceReader, TraceRequest};
use super::{About, EachRequest, Field, Out, OutputFormat, decimal};

pub(super) static FORMAT: OutputFormat = OutputFormat {
    name: "systor",
    extensions: &["systor"],
    summary: "SYSTOR '17: times in s, with response times, a device is a LUN",
    is_text: true,
    leaves_out: &[
        Field::Discards,
        Field::Sync,
        Field::Stream,
        Field::StreamName,
        Field::DeviceName,
        Field::Priority,
        Field::Service,
        Field::RecordedDevice,
    ],
    create: |mut out: Out, _about: &About| {
        out.write_all(b"Timestamp,Response,IOType,LUN,Offset,Size\n")?;
        Ok(Box::new(EachRequest { out, write }))
    },
};

fn write(out: &mut Out, request: &TraceRequest, _names: &dyn TraceReader) -> io::Result<()> {
    let kind = if request.op == Op::Read { 'R' } else { 'W' };
    let response = request.response.map(|response| decimal(response, 9)).unwrap_or_default();
    let (offset, size) = (u128::from(request.lba) * 512, u64::from(request.sectors) * 512);
    writeln!(out, "{},{response},{kind},{},{offset},{size}", decimal(request.arrival, 9), request.device)
}
