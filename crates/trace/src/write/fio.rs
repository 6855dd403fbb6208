//! fio's I/O log, version 3, which `fio --read_iolog` replays on a real disk at the trace's own times.
//!
//! Each line is `microseconds file action [offset bytes]` (`log_io_u` and `read_iolog` in fio's `iolog.c`). A file is added and
//! opened before its first request. fio takes the names as they are: redirect them with `--replay_redirect=/dev/sdX`, or name
//! several with `--filename`.

use std::collections::BTreeMap;
use std::io::{self, Write};

use block::{Nanos, Op};

use super::super::{TraceReader, TraceRequest};
use super::{About, Field, Out, OutputFormat, TraceWriter};

pub(super) static FORMAT: OutputFormat = OutputFormat {
    name: "fio",
    extensions: &["iolog"],
    summary: "fio's I/O log, version 3: replayed by fio --read_iolog; times in us",
    is_text: true,
    leaves_out: &[
        Field::Nanoseconds,
        Field::Sync,
        Field::Stream,
        Field::StreamName,
        Field::Priority,
        Field::Response,
        Field::Service,
        Field::RecordedDevice,
    ],
    create,
};

fn create(mut out: Out, _about: &About) -> io::Result<Box<dyn TraceWriter>> {
    out.write_all(b"fio version 3 iolog\n")?;
    Ok(Box::new(Fio { out, files: BTreeMap::new(), last: 0 }))
}

struct Fio {
    out: Out,
    /// Each device's file name.
    files: BTreeMap<u32, String>,
    last: u64,
}

impl TraceWriter for Fio {
    fn write(&mut self, request: &TraceRequest, names: &dyn TraceReader) -> io::Result<()> {
        let time = micros(request.arrival);
        self.last = time;
        if !self.files.contains_key(&request.device) {
            let file = file_name(request.device, names.device_name(request.device), &self.files);
            writeln!(self.out, "{time} {file} add\n{time} {file} open")?;
            self.files.insert(request.device, file);
        }
        let file = self.files.get(&request.device).map_or("", String::as_str);
        let action = match request.op {
            Op::Read => "read",
            Op::Write => "write",
            Op::Discard => "trim",
        };
        let offset = u128::from(request.lba) * 512;
        writeln!(self.out, "{time} {file} {action} {offset} {}", u64::from(request.sectors) * 512)
    }

    fn finish(mut self: Box<Self>) -> io::Result<Option<String>> {
        for file in self.files.values() {
            writeln!(self.out, "{} {file} close", self.last)?;
        }
        self.out.flush().map(|()| None)
    }
}

/// Rounded to the nearest.
fn micros(time: Nanos) -> u64 {
    time.0 / 1000 + u64::from(time.0 % 1000 >= 500)
}

/// A device's name for fio: without spaces, which separate fields, and unique.
fn file_name(device: u32, name: Option<&str>, taken: &BTreeMap<u32, String>) -> String {
    let usable = |name: &&str| !name.is_empty() && !name.contains(|sign: char| sign.is_whitespace() || sign.is_control());
    let mut file = name.filter(usable).map_or_else(|| format!("disk{device}"), str::to_owned);
    while taken.values().any(|other| *other == file) {
        file.push('_');
    }
    file
}
