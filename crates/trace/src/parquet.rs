//! Our own store: Parquet, one row per request, which any dataframe tool opens.
//!
//! | column | type | meaning |
//! |---|---|---|
//! | `arrival_ns` | int64 | when the request was issued, since the first one, ns |
//! | `device` | uint32 | the disk within the trace |
//! | `device_name` | string, null | its name in the trace |
//! | `lba` | int64 | first 512-byte sector |
//! | `sectors` | uint32 | number of 512-byte sectors |
//! | `is_read` | boolean | read, or write |
//! | `is_discard` | boolean, null | discard, which is not a read; null or no such column: no discard |
//! | `sync` | boolean, null | whether the issuer waits for it; null: unknown |
//! | `stream` | uint32 | the process, thread or volume that issued it |
//! | `stream_name` | string, null | its name in the trace |
//! | `priority_class` | string | `realtime`, `best-effort` or `idle` |
//! | `priority_level` | uint8 | 0 (first) to 7 |
//! | `response_ns` | int64, null | from arrival to completion, ns |
//! | `service_ns` | int64, null | the part of it at the device, ns; null or no such column: unknown |
//!
//! Only `arrival_ns`, `lba`, `sectors` and `is_read` are required, in any integer type and order, so traces made with a dataframe
//! library can be read; compression is zstd, Snappy or none. The file's key-value metadata has [`VERSION_KEY`], [`PROGRAM_KEY`],
//! [`SOURCE_KEY`] and [`CHECKSUMS_KEY`]; checksums are checked where there are any, ours or those of single pages. A recording of a device also describes the device:
//! [`CAPACITY_KEY`], [`SCHEDULER_KEY`] and [`READ_AHEAD_KEY`].

mod checksums;
mod columns;
mod group;
mod pages;
mod read;
mod row;

use ::parquet::file::metadata::ParquetMetaData;
use block::PriorityClass;

use super::Format;

pub(crate) use checksums::Summed;

/// The format.
pub static FORMAT: Format = Format {
    name: "parquet",
    summary: "Seekwise's store: Parquet with arrival_ns, lba, sectors, is_read and optional further columns; all fields used",
    source: "Apache Parquet format 2; the columns are listed in this module",
    detect: |head| head.bytes.starts_with(MAGIC),
    open: read::open,
};

/// The magic at both ends of a Parquet file.
const MAGIC: &[u8] = b"PAR1";
/// Metadata key of the column schema's version.
pub const VERSION_KEY: &str = "seekwise.trace.version";
/// The version written, and the only one read.
pub const VERSION: &str = "1";
/// Metadata key of the program that wrote the file.
pub const PROGRAM_KEY: &str = "seekwise.program";
/// Metadata key of the trace the file was made from.
pub const SOURCE_KEY: &str = "seekwise.trace.source";
/// Metadata key of the number of 512-byte sectors of the device that was recorded.
pub const CAPACITY_KEY: &str = "seekwise.device.capacity_sectors";
/// Metadata key of the I/O scheduler that it had when the recording began, as in `bfq:low_latency=0`.
pub const SCHEDULER_KEY: &str = "seekwise.device.scheduler";
/// Metadata key of how far its files were read ahead then, in KiB.
pub const READ_AHEAD_KEY: &str = "seekwise.device.read_ahead_kib";
/// Metadata key of the row groups' checksums: for each the byte behind it and the CRC-32 of its bytes in hexadecimal, `end:sum`, between
/// blanks.
pub const CHECKSUMS_KEY: &str = "seekwise.trace.crc32";

/// The value of a key in the file's metadata.
fn value<'a>(metadata: &'a ParquetMetaData, key: &str) -> Option<&'a str> {
    let mut pairs = metadata.file_metadata().key_value_metadata().into_iter().flatten();
    pairs.find(|pair| pair.key == key).map(|pair| pair.value.as_deref().unwrap_or_default())
}

pub(crate) const CLASSES: [(&str, PriorityClass); 3] =
    [("realtime", PriorityClass::RealTime), ("best-effort", PriorityClass::BestEffort), ("idle", PriorityClass::Idle)];
