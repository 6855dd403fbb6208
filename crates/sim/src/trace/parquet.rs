//! Our own store: Parquet, one row per request, which any dataframe tool opens.
//!
//! | column | type | meaning |
//! |---|---|---|
//! | `arrival_ns` | int64 | when the request was issued, from the first one on, ns |
//! | `device` | uint32 | the disk within the trace |
//! | `device_name` | string, null | what the trace calls it |
//! | `lba` | int64 | first 512-byte sector |
//! | `sectors` | uint32 | how many sectors of 512 bytes |
//! | `is_read` | boolean | read, or write |
//! | `is_discard` | boolean, null | discard, which is no read; null, or no such column: none |
//! | `sync` | boolean, null | whether somebody waits for it; null: the trace does not say |
//! | `stream` | uint32 | the process, thread or volume that asked |
//! | `stream_name` | string, null | what the trace calls it |
//! | `priority_class` | string | `realtime`, `best-effort` or `idle` |
//! | `priority_level` | uint8 | 0 (first) to 7 |
//! | `response_ns` | int64, null | from arrival to completion, ns |
//!
//! Only `arrival_ns`, `lba`, `sectors` and `is_read` must be there, in any integer type and order, compressed with zstd or not
//! at all: a trace made with a dataframe library is read as well. The file's key-value metadata says [`VERSION_KEY`],
//! [`PROGRAM_KEY`] and [`SOURCE_KEY`].

mod pages;
mod read;
mod write;

use block::PriorityClass;

use super::Format;

pub(super) use write::create;

/// The format.
pub static FORMAT: Format = Format {
    name: "parquet",
    summary: "Seekwise's store: Parquet with arrival_ns, lba, sectors, is_read and, where known, more; all fields used",
    source: "Apache Parquet format 2; the columns are listed in this module",
    detect: |head| head.bytes.starts_with(MAGIC),
    open: read::open,
};

/// What a Parquet file begins and ends with.
const MAGIC: &[u8] = b"PAR1";
/// Key of the metadata that says which version of the columns the file has.
pub const VERSION_KEY: &str = "seekwise.trace.version";
/// The version written, and the only one understood.
pub const VERSION: &str = "1";
/// Key of the metadata that says which program wrote the file.
pub const PROGRAM_KEY: &str = "seekwise.program";
/// Key of the metadata that says which trace the file was made from.
pub const SOURCE_KEY: &str = "seekwise.trace.source";

const CLASSES: [(&str, PriorityClass); 3] =
    [("realtime", PriorityClass::RealTime), ("best-effort", PriorityClass::BestEffort), ("idle", PriorityClass::Idle)];
