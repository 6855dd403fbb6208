//! Requests to a disk.

use crate::Nanos;

/// The host's id of a request in flight. The host may reuse the number after the completion.
pub type RequestId = u32;

/// The process, thread, volume or tenant to which a request belongs.
pub type StreamId = u32;

/// The largest gap, in sectors (32 KiB), between the end of a request and the start of the next that still counts as sequential: a disk
/// reads over it rather than seek.
pub const SEQUENTIAL_GAP: u64 = 64;

/// Linux's default read-ahead in sectors: 128 KiB (`VM_READAHEAD_PAGES` in `include/linux/mm.h`).
pub const READ_AHEAD_SECTORS: u32 = 256;

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Op {
    /// Transfers sectors from the disk to the host.
    Read,
    /// Transfers sectors from the host to the disk.
    Write,
    /// Tells the disk that the content of the sectors is no longer needed (ATA TRIM, SCSI UNMAP, NVMe Deallocate); transfers nothing. A
    /// scheduler treats it as a write, as in Linux (`op_is_write` in `blk_types.h`), and it is asynchronous unless `sync` is set.
    Discard,
}

impl Op {
    /// Whether Linux treats it as a write: everything but reads (`op_is_write` in `blk_types.h`).
    pub fn is_write(self) -> bool {
        self != Op::Read
    }

    /// Whether it transfers data.
    pub fn transfers(self) -> bool {
        self != Op::Discard
    }
}

/// Linux's three I/O priority classes (`ioprio.h`), most urgent first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PriorityClass {
    /// Served before all others.
    RealTime,
    /// The default of a process.
    #[default]
    BestEffort,
    /// Served only while no other class has requests.
    Idle,
}

/// An I/O priority: a class, and a level within it from 0 (first) to 7 (last).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority {
    /// The class, compared before the level.
    pub class: PriorityClass,
    /// 0 to 7; the default is 4, as in Linux. The idle class has no levels.
    pub level: u8,
}

impl Priority {
    /// Best effort, level 4.
    pub const DEFAULT: Priority = Priority { class: PriorityClass::BestEffort, level: 4 };
}

impl Default for Priority {
    fn default() -> Priority {
        Priority::DEFAULT
    }
}

/// A request to a disk. Small and `Copy`: queues move it without touching the heap.
///
/// ```
/// use block::{Nanos, Op, Priority, Request};
///
/// let priority = Priority::DEFAULT;
/// let read = Request { id: 1, stream: 7, op: Op::Read, sync: true, priority, sectors: 8, lba: 100, arrival: Nanos::ZERO };
/// assert!(read.is_sync() && !read.is_read_ahead());
/// assert_eq!(read.end(), 108);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The host's id.
    pub id: RequestId,
    /// The issuing stream.
    pub stream: StreamId,
    /// Read, write or discard.
    pub op: Op,
    /// Whether a process waits for it. True for reads and synchronous writes (O_DIRECT, O_SYNC, fsync); false for write-back of the page
    /// cache and for [read-ahead](Request::is_read_ahead).
    pub sync: bool,
    /// The stream's I/O priority.
    pub priority: Priority,
    /// Length in 512-byte sectors; at least 1.
    pub sectors: u32,
    /// The first 512-byte sector.
    pub lba: u64,
    /// Time at which it reached the queue; for merged requests the earliest.
    pub arrival: Nanos,
}

impl Request {
    /// The sector after its last one; saturates at the maximum.
    pub fn end(&self) -> u64 {
        self.lba.saturating_add(u64::from(self.sectors))
    }

    /// Whether it begins at this sector, where an earlier one ended, or up to [`SEQUENTIAL_GAP`] after it.
    pub fn follows(&self, end: u64) -> bool {
        self.lba.checked_sub(end).is_some_and(|gap| gap <= SEQUENTIAL_GAP)
    }

    /// Whether it is synchronous: every read, and writes and discards with the flag `sync` (Linux `rq_is_sync`).
    pub fn is_sync(&self) -> bool {
        self.op == Op::Read || self.sync
    }

    /// Whether it is read-ahead: a read that the page cache issues speculatively (Linux `REQ_RAHEAD`). A scheduler treats it like any read.
    pub fn is_read_ahead(&self) -> bool {
        self.op == Op::Read && !self.sync
    }

    /// Its weight in response-time statistics: read-ahead counts once for each [`READ_AHEAD_SECTORS`], any other request once. Otherwise a
    /// larger read-ahead would lower the count by turning the same calls into fewer, longer requests.
    pub fn response_weight(&self) -> u32 {
        if self.is_read_ahead() { read_ahead_response_weight(self.sectors) } else { 1 }
    }
}

/// The [weight](Request::response_weight) of `sectors` that are read ahead in one request; at least 1.
pub fn read_ahead_response_weight(sectors: u32) -> u32 {
    sectors.div_ceil(READ_AHEAD_SECTORS).max(1)
}
