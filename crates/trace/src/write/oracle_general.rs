//! oracleGeneral, libCacheSim's binary traces: second, object, bytes, and the number of the next record of that object.
//!
//! The first sector is the object, as the reader has it. A record refers to later ones, so all are held in memory until the end, in 24 bytes
//! each, and 40 for each object.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::super::{TraceReader, TraceRequest};
use super::{About, Field, Out, OutputFormat, TraceWriter};

pub(super) static FORMAT: OutputFormat = OutputFormat {
    name: "oraclegeneral",
    extensions: &["oraclegeneral"],
    summary: "oracleGeneral of libCacheSim: whole seconds, the first sector is the object, all are reads; held in memory until its end",
    is_text: false,
    leaves_out: &[
        Field::Seconds,
        Field::Direction,
        Field::Discards,
        Field::Sync,
        Field::Device,
        Field::Stream,
        Field::StreamName,
        Field::DeviceName,
        Field::Priority,
        Field::Response,
        Field::Service,
        Field::RecordedDevice,
    ],
    create: |out, _about: &About| Ok(Box::new(Oracle { out, records: Vec::new(), last: BTreeMap::new() })),
};

/// That no record follows for an object.
const NONE: i64 = -1;

struct Record {
    second: u32,
    object: u64,
    bytes: u32,
    next: i64,
}

struct Oracle {
    out: Out,
    records: Vec<Record>,
    /// By object, the index of its last record.
    last: BTreeMap<u64, usize>,
}

impl TraceWriter for Oracle {
    fn write(&mut self, request: &TraceRequest, _names: &dyn TraceReader) -> io::Result<()> {
        let seconds = request.arrival.0 / 1_000_000_000;
        let too_large = |what: &str, value: u64| {
            io::Error::new(io::ErrorKind::InvalidData, format!("a request's {what} is {value}, beyond oracleGeneral's 2^32 - 1"))
        };
        let second = u32::try_from(seconds).map_err(|_| too_large("second", seconds))?;
        let size = u64::from(request.sectors) * 512;
        let bytes = u32::try_from(size).map_err(|_| too_large("size in bytes", size))?;
        if let Some(before) = self.last.insert(request.lba, self.records.len()) {
            // Records are numbered from 1.
            self.records[before].next = self.records.len() as i64 + 1;
        }
        self.records.push(Record { second, object: request.lba, bytes, next: NONE });
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> io::Result<Option<String>> {
        for Record { second, object, bytes, next } in &self.records {
            self.out.write_all(&second.to_le_bytes())?;
            self.out.write_all(&object.to_le_bytes())?;
            self.out.write_all(&bytes.to_le_bytes())?;
            self.out.write_all(&next.to_le_bytes())?;
        }
        self.out.flush().map(|()| None)
    }
}
