//! fio's I/O log, version 3, which `fio --read_iolog` replays on a real disk at the trace's own times.
//!
//! Version 2, which older versions of fio read, has no times but `wait` lines: until that many milliseconds after the start.
//!
//! Each line of version 3 is `microseconds file action [offset bytes]` (`log_io_u` and `read_iolog` in fio's `iolog.c`). A file is added and
//! opened before its first request. fio takes the names as they are: redirect them with `--replay_redirect=/dev/sdX`, or name
//! several with `--filename`.

use std::collections::BTreeMap;
use std::io::{self, Write};

use block::Op;

use super::super::{TraceReader, TraceRequest};
use super::{About, Field, Out, OutputFormat, TraceWriter, rounded};

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

pub(super) static FORMAT_2: OutputFormat = OutputFormat {
    name: "fio2",
    extensions: &["iolog2"],
    summary: "fio's I/O log, version 2, for older versions of fio: times in ms",
    leaves_out: &[
        Field::Milliseconds,
        Field::Sync,
        Field::Stream,
        Field::StreamName,
        Field::Priority,
        Field::Response,
        Field::Service,
        Field::RecordedDevice,
    ],
    create: |out, _about| Fio::begin(out, Version::Two),
    ..FORMAT
};

fn create(out: Out, _about: &About) -> io::Result<Box<dyn TraceWriter>> {
    Fio::begin(out, Version::Three)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    Two,
    Three,
}

struct Fio {
    out: Out,
    version: Version,
    /// Each device's file name.
    files: BTreeMap<u32, String>,
    /// The time of the last request, in us or ms.
    last: u64,
}

impl Fio {
    fn begin(mut out: Out, version: Version) -> io::Result<Box<dyn TraceWriter>> {
        let number = if version == Version::Two { 2 } else { 3 };
        writeln!(out, "fio version {number} iolog")?;
        Ok(Box::new(Fio { out, version, files: BTreeMap::new(), last: 0 }))
    }

    /// The beginning of a line.
    fn stamp(&self) -> String {
        if self.version == Version::Two { String::new() } else { format!("{} ", self.last) }
    }
}

impl TraceWriter for Fio {
    fn write(&mut self, request: &TraceRequest, names: &dyn TraceReader) -> io::Result<()> {
        let unit = if self.version == Version::Two { 1_000_000 } else { 1_000 };
        let (before, now) = (self.last, rounded(request.arrival, unit));
        self.last = now;
        let stamp = self.stamp();
        if !self.files.contains_key(&request.device) {
            let file = file_name(request.device, names.device_name(request.device), &self.files);
            writeln!(self.out, "{stamp}{file} add\n{stamp}{file} open")?;
            self.files.insert(request.device, file);
        }
        let file = self.files.get(&request.device).map_or("", String::as_str);
        if self.version == Version::Two && now > before {
            writeln!(self.out, "{file} wait {now} 0")?;
        }
        let action = match request.op {
            Op::Read => "read",
            Op::Write => "write",
            Op::Discard => "trim",
        };
        let offset = u128::from(request.lba) * 512;
        writeln!(self.out, "{stamp}{file} {action} {offset} {}", u64::from(request.sectors) * 512)
    }

    fn finish(mut self: Box<Self>) -> io::Result<Option<String>> {
        let stamp = self.stamp();
        for file in self.files.values() {
            writeln!(self.out, "{stamp}{file} close")?;
        }
        self.out.flush().map(|()| None)
    }
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
