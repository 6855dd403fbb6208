//! Block traces: what was asked of a disk, when and by whom. One file per format, one line each in [`ALL`].

use std::path::PathBuf;

use block::{Nanos, Op, Priority, StreamId};

/// One request of a trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TraceRequest {
    /// When it was issued, from the trace's first request on.
    pub arrival: Nanos,
    /// The disk, volume or unit within the trace; 0 where there is one only.
    pub device: u32,
    /// The first 512-byte sector on that device.
    pub lba: u64,
    /// How many 512-byte sectors; never 0.
    pub sectors: u32,
    /// Read or write.
    pub op: Op,
    /// Whether somebody waits for it; `None` where the format does not say.
    pub sync: Option<bool>,
    /// The process, thread, volume or application unit that asked.
    pub stream: StreamId,
    /// I/O priority, where the format knows one.
    pub priority: Priority,
    /// From arrival to completion, where the format says.
    pub response: Option<Nanos>,
}

impl TraceRequest {
    /// Whether somebody waits for it. Where the format does not say, a read is waited for and a write is not, as Linux takes it
    /// (`op_is_sync` in `blk_types.h`).
    pub fn is_sync(&self) -> bool {
        self.sync.unwrap_or(self.op == Op::Read)
    }
}

/// A trace as the rest of the program sees it: requests in the order of their arrival, the first one at time zero.
pub trait TraceReader: Send {
    /// The next request, or `None` at the end. After an error the reader is at its end.
    fn next_request(&mut self) -> Option<Result<TraceRequest, TraceError>>;

    /// What the trace calls a stream (a program's name, a volume's), as far as has been read.
    fn stream_name(&self, _stream: StreamId) -> Option<&str> {
        None
    }

    /// Damaged lines or records passed over so far because [`OpenOptions::skip_bad`] said so.
    fn skipped(&self) -> u64 {
        0
    }
}

/// How to open a trace.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// The format's name; `None`: find out from the content.
    pub format: Option<String>,
    /// Pass over damaged lines and count them, instead of stopping at the first.
    pub skip_bad: bool,
}

/// A trace that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The operating system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A line or record makes no sense.
    #[error("{}:{position}: {message}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// `line 7` is written `7`; a binary record `record 7` or `byte 4096`.
        position: String,
        /// What is wrong, with the value, and what would be right.
        message: String,
    },
    /// The format is not recognised or does not exist.
    #[error("{}: {message}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong and what would be right.
        message: String,
    },
}
