//! What is asked of a disk.

use crate::Nanos;

/// Names a request for as long as its host keeps it in flight. A host may reuse the number after the completion.
pub type RequestId = u32;

/// The process, thread, volume or tenant a request belongs to.
pub type StreamId = u32;

/// The largest gap, in sectors (32 KiB), between the end of a request and the begin of the next at which the next one still counts as
/// sequential: a disk reads over so little rather than seek.
pub const SEQUENTIAL_GAP: u64 = 64;

/// Linux's read-ahead if nobody says otherwise, in sectors: 128 KiB (`VM_READAHEAD_PAGES` in `include/linux/mm.h`).
pub const READ_AHEAD_SECTORS: u32 = 256;

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Op {
    /// Sectors go from the disk to the host.
    Read,
    /// Sectors go from the host to the disk.
    Write,
    /// The host has no more use for what is in the sectors (ATA's TRIM, SCSI's UNMAP, NVMe's Deallocate): nothing is transferred.
    /// To a scheduler it is a write, as in Linux (`op_is_write` in `blk_types.h`), and nobody waits for it unless it says so.
    Discard,
}

impl Op {
    /// Whether Linux takes it for a write: all that is no read (`op_is_write` in `blk_types.h`).
    pub fn is_write(self) -> bool {
        self != Op::Read
    }

    /// Whether sectors go one way or the other.
    pub fn transfers(self) -> bool {
        self != Op::Discard
    }
}

/// Linux's three I/O priority classes (`ioprio.h`), most urgent first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PriorityClass {
    /// Served before all others.
    RealTime,
    /// What a process gets that asks for nothing.
    #[default]
    BestEffort,
    /// Served only when nobody else wants the disk.
    Idle,
}

/// An I/O priority: a class, and a level within it from 0 (first) to 7 (last).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority {
    /// The class, which counts before the level.
    pub class: PriorityClass,
    /// 0 to 7; [`Priority::DEFAULT`] says 4, as Linux does. The idle class knows no levels.
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

/// One request to a disk. Small and `Copy`: queues move it around without touching the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The host's name for it.
    pub id: RequestId,
    /// The stream that asked.
    pub stream: StreamId,
    /// Read, write or discard.
    pub op: Op,
    /// Somebody waits for it. Reads and synchronous writes (O_DIRECT, O_SYNC, fsync) are; write-back of the page cache is not, nor what
    /// is [read ahead](Request::is_read_ahead).
    pub sync: bool,
    /// The stream's I/O priority.
    pub priority: Priority,
    /// How many 512-byte sectors; never 0.
    pub sectors: u32,
    /// The first 512-byte sector.
    pub lba: u64,
    /// When it reached the queue; of merged requests the earliest.
    pub arrival: Nanos,
}

impl Request {
    /// The first sector behind the request; the last number there is if that lies beyond it.
    pub fn end(&self) -> u64 {
        self.lba.saturating_add(u64::from(self.sectors))
    }

    /// Somebody waits for it: true of every read, and of writes and discards that say so (Linux `rq_is_sync`).
    pub fn is_sync(&self) -> bool {
        self.op == Op::Read || self.sync
    }

    /// A read that the page cache makes for somebody who is likely to want it (Linux `REQ_RAHEAD`): nobody waits for it yet. To a scheduler
    /// it is a read like any other.
    pub fn is_read_ahead(&self) -> bool {
        self.op == Op::Read && !self.sync
    }

    /// As how many requests it counts where response times are compared: of what is read ahead, each [`READ_AHEAD_SECTORS`] are one. A
    /// larger read-ahead makes fewer and longer requests of the same calls.
    pub fn counts_as(&self) -> u32 {
        if self.is_read_ahead() { read_ahead_response_weight(self.sectors) } else { 1 }
    }
}

/// As how many requests so many sectors count that are [read ahead](Request::counts_as) at once.
pub fn read_ahead_response_weight(sectors: u32) -> u32 {
    sectors.div_ceil(READ_AHEAD_SECTORS).max(1)
}
