//! Block traces: what was asked of a disk, when and by whom.

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
