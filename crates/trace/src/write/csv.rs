//! CSV with a heading; the columns are those of the CSV reader, which reads all of them back.

use std::io::{self, Write};

use block::{Op, PriorityClass};

use super::super::{TraceReader, TraceRequest};
use super::{About, Field, Out, OutputFormat, TraceWriter};

pub(super) static FORMAT: OutputFormat = OutputFormat {
    name: "csv",
    extensions: &["csv"],
    summary: "CSV with a heading: all fields, for spreadsheets and scripts",
    is_text: true,
    leaves_out: &[Field::RecordedDevice],
    create,
};

const HEADING: &[u8] =
    b"arrival_ns,device,device_name,lba,sectors,op,sync,stream,stream_name,priority_class,priority_level,response_ns,service_ns\n";

fn create(mut out: Out, _about: &About) -> io::Result<Box<dyn TraceWriter>> {
    out.write_all(HEADING)?;
    Ok(Box::new(Csv { out }))
}

struct Csv {
    out: Out,
}

impl TraceWriter for Csv {
    fn write(&mut self, request: &TraceRequest, names: &dyn TraceReader) -> io::Result<()> {
        let out = &mut self.out;
        write!(out, "{},{},", request.arrival.0, request.device)?;
        quoted(out, names.device_name(request.device).unwrap_or_default())?;
        let op = match request.op {
            Op::Read => "read",
            Op::Write => "write",
            Op::Discard => "discard",
        };
        let sync = match request.sync {
            Some(true) => "1",
            Some(false) => "0",
            None => "",
        };
        write!(out, ",{},{},{op},{sync},{},", request.lba, request.sectors, request.stream)?;
        quoted(out, names.stream_name(request.stream).unwrap_or_default())?;
        let class = match request.priority.class {
            PriorityClass::RealTime => "realtime",
            PriorityClass::BestEffort => "best-effort",
            PriorityClass::Idle => "idle",
        };
        write!(out, ",{class},{},", request.priority.level)?;
        if let Some(response) = request.response {
            write!(out, "{}", response.0)?;
        }
        match request.service {
            Some(service) => writeln!(out, ",{}", service.0),
            None => writeln!(out, ","),
        }
    }

    fn finish(mut self: Box<Self>) -> io::Result<Option<String>> {
        self.out.flush().map(|()| None)
    }
}

/// A text field (RFC 4180). A line break becomes a space: not every reader accepts one within quotation marks.
fn quoted(out: &mut dyn Write, text: &str) -> io::Result<()> {
    if !text.contains([',', '"', '\n', '\r', ';', '\t']) {
        return out.write_all(text.as_bytes());
    }
    write!(out, "\"{}\"", text.replace('"', "\"\"").replace(['\n', '\r'], " "))
}
