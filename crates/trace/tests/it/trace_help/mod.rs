//! Helpers of the trace tests: traces in temporary files, read to the end.

#![allow(dead_code, reason = "each test program uses a part")]

use std::io::Write;
use std::path::Path;

use tempfile::NamedTempFile;
use trace::{self, OpenOptions, TraceError, TraceReader, TraceRequest};

/// A trace that was read to its end.
pub struct Read {
    pub format: &'static str,
    pub requests: Vec<TraceRequest>,
    pub reader: Box<dyn TraceReader>,
}

pub fn file(content: impl AsRef<[u8]>) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(content.as_ref()).unwrap();
    file
}

pub fn read_path(path: &Path, options: &OpenOptions) -> Result<Read, TraceError> {
    let mut opened = trace::open(path, options)?;
    let mut requests = Vec::new();
    while let Some(request) = opened.reader.next_request() {
        requests.push(request?);
    }
    assert!(opened.reader.next_request().is_none(), "the end stays the end");
    Ok(Read { format: opened.format.name, requests, reader: opened.reader })
}

pub fn read(content: impl AsRef<[u8]>) -> Result<Read, TraceError> {
    read_path(file(content).path(), &OpenOptions::default())
}

pub fn read_as(format: &str, content: impl AsRef<[u8]>) -> Result<Read, TraceError> {
    read_path(file(content).path(), &OpenOptions { format: Some(format.into()), ..OpenOptions::default() })
}

pub fn read_skipping(content: impl AsRef<[u8]>) -> Result<Read, TraceError> {
    read_path(file(content).path(), &OpenOptions { skip_bad: true, ..OpenOptions::default() })
}

/// The message of a trace that cannot be read, without the path in front.
pub fn error(result: Result<Read, TraceError>) -> String {
    match result {
        Ok(read) => panic!("read as {} with {} requests", read.format, read.requests.len()),
        Err(TraceError::Io { source, .. }) => source.to_string(),
        Err(TraceError::Damaged { position, message, .. }) => format!("{position}: {message}"),
        Err(TraceError::Format { message, .. }) => message,
    }
}

/// `arrival_ns device stream op lba+sectors`, and `sync`, `response_ns` and `service_ns` where known.
pub fn show(request: &TraceRequest) -> String {
    let TraceRequest { arrival, device, lba, sectors, op, sync, stream, response, service, .. } = request;
    let sync = sync.map_or(String::new(), |sync| format!(" sync={sync}"));
    let response = response.map_or(String::new(), |response| format!(" response={}", response.0));
    let service = service.map_or(String::new(), |service| format!(" service={}", service.0));
    format!("{} {device} {stream} {op:?} {lba}+{sectors}{sync}{response}{service}", arrival.0)
}

pub fn shown(read: &Read) -> Vec<String> {
    read.requests.iter().map(show).collect()
}

pub fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

pub fn zstandard(content: &[u8]) -> Vec<u8> {
    zstd::stream::encode_all(content, 1).unwrap()
}

pub fn xz(content: &[u8]) -> Vec<u8> {
    let options = lzma_rust2::XzOptions::with_preset(1);
    let mut writer = lzma_rust2::XzWriter::new(Vec::new(), options).unwrap();
    writer.write_all(content).unwrap();
    writer.finish().unwrap()
}

pub fn bzip2(content: &[u8]) -> Vec<u8> {
    let mut encoder = ::bzip2::write::BzEncoder::new(Vec::new(), ::bzip2::Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

/// The compressor of a file.
pub type Pack = fn(&[u8]) -> Vec<u8>;

/// Each by its name.
pub const PACKERS: [(&str, Pack); 4] = [("gzip", gzip), ("zstd", zstandard), ("xz", xz), ("bzip2", bzip2)];

/// One record of a blktrace file.
#[derive(Clone, Debug)]
pub struct Blk {
    pub sequence: u32,
    pub time: u64,
    pub sector: u64,
    pub bytes: u32,
    pub action: u32,
    pub pid: u32,
    pub device: u32,
    pub cpu: u32,
    pub error: u16,
    pub payload: Vec<u8>,
}

/// Categories and actions of `blktrace_api.h`.
pub const READ: u32 = 1 << 16;
pub const WRITE: u32 = 1 << 17;
pub const FLUSH: u32 = 1 << 18;
pub const SYNC: u32 = 1 << 19;
pub const NOTIFY: u32 = 1 << 26;
pub const AHEAD: u32 = 1 << 27;
pub const DISCARD: u32 = 1 << 29;
pub const FUA: u32 = 1 << 31;
pub const Q: u32 = 1 | 1 << 20;
pub const M: u32 = 2 | 1 << 20;
pub const G: u32 = 4 | 1 << 20;
pub const D: u32 = 7 | 1 << 22;
pub const C: u32 = 8 | 1 << 23;
pub const I: u32 = 12 | 1 << 20;
pub const A: u32 = 15 | 1 << 20;
pub const SDA: u32 = 8 << 20;

impl Blk {
    pub fn new(time: u64, action: u32, sector: u64, sectors: u32, pid: u32) -> Blk {
        Blk { sequence: 0, time, sector, bytes: sectors * 512, action, pid, device: SDA, cpu: 0, error: 0, payload: Vec::new() }
    }

    pub fn name(pid: u32, name: &str) -> Blk {
        let mut payload = name.as_bytes().to_vec();
        payload.resize(16, 0);
        Blk { payload, ..Blk::new(0, NOTIFY, 0, 0, pid) }
    }

    pub fn bytes(&self, big_endian: bool) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut put = |little: &[u8]| if big_endian { bytes.extend(little.iter().rev()) } else { bytes.extend(little) };
        put(&0x6561_7407_u32.to_le_bytes());
        put(&self.sequence.to_le_bytes());
        put(&self.time.to_le_bytes());
        put(&self.sector.to_le_bytes());
        put(&self.bytes.to_le_bytes());
        put(&self.action.to_le_bytes());
        put(&self.pid.to_le_bytes());
        put(&self.device.to_le_bytes());
        put(&self.cpu.to_le_bytes());
        put(&self.error.to_le_bytes());
        put(&u16::try_from(self.payload.len()).unwrap().to_le_bytes());
        bytes.extend(&self.payload);
        bytes
    }
}

pub fn blktrace(records: &[Blk]) -> Vec<u8> {
    records.iter().flat_map(|record| record.bytes(false)).collect()
}
