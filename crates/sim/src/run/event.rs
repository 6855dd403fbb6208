//! The types of the event loop, its measures and its pilots: requests as issued and as completed.

use block::{Nanos, Op, Priority, StreamId};

/// A request as issued, placed on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Issue {
    /// When it was issued. The response time counts from here, even if the queue was full.
    pub arrival: Nanos,
    /// The first sector.
    pub lba: u64,
    /// How many sectors.
    pub sectors: u32,
    /// Read, write or discard.
    pub op: Op,
    /// Whether it is synchronous: its issuer waits for it.
    pub sync: bool,
    /// The stream that issued it.
    pub stream: StreamId,
    /// I/O priority.
    pub priority: Priority,
    /// The source's own number for it, handed back in [`Finished`].
    pub token: u64,
}

impl Issue {
    /// As [`block::Request::is_sync`].
    pub fn is_sync(&self) -> bool {
        self.op == Op::Read || self.sync
    }

    /// The bytes of its sectors.
    pub fn bytes(&self) -> u64 {
        u64::from(self.sectors) * 512
    }
}

/// A read, write or discard that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transferred {
    /// The issue.
    pub issue: Issue,
    /// Bytes asked for: of a system call those of the call, which need not be whole sectors.
    pub bytes: u64,
    /// When its last part went to the device.
    pub dispatched: Nanos,
    /// When its last part was done.
    pub at: Nanos,
}

impl Transferred {
    /// Transferred bytes; zero for a discard.
    pub(super) fn moved(&self) -> u64 {
        if self.issue.op.transfers() { self.bytes } else { 0 }
    }
}

/// A flush of a write cache that is done, or an fsync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flushed {
    /// When it was issued.
    pub arrival: Nanos,
    /// The stream that issued it.
    pub stream: StreamId,
    /// The issuer's own number for it.
    pub token: u64,
    /// When it was done.
    pub at: Nanos,
}

/// Work that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finished {
    /// A read, write or discard.
    Transfer(Transferred),
    /// A flush, which names no sectors.
    Flush(Flushed),
}

impl Finished {
    /// When it was issued.
    pub fn arrival(&self) -> Nanos {
        match self {
            Finished::Transfer(done) => done.issue.arrival,
            Finished::Flush(done) => done.arrival,
        }
    }

    /// The stream that issued it.
    pub fn stream(&self) -> StreamId {
        match self {
            Finished::Transfer(done) => done.issue.stream,
            Finished::Flush(done) => done.stream,
        }
    }

    /// The issuer's own number for it.
    pub fn token(&self) -> u64 {
        match self {
            Finished::Transfer(done) => done.issue.token,
            Finished::Flush(done) => done.token,
        }
    }

    /// When it was done.
    pub fn at(&self) -> Nanos {
        match self {
            Finished::Transfer(done) => done.at,
            Finished::Flush(done) => done.at,
        }
    }

    /// The read, write or discard, if it is one.
    pub fn transfer(&self) -> Option<&Transferred> {
        match self {
            Finished::Transfer(done) => Some(done),
            Finished::Flush(_) => None,
        }
    }
}

/// An event at a server, for pilots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerEvent {
    /// A request was issued, before splitting and merging.
    Issued(Issue),
    /// A request is done.
    Finished(Transferred),
    /// A flush of the device's write cache is done.
    Flushed(Flushed),
    /// A system call of a stream began.
    Called {
        /// The stream.
        stream: StreamId,
        /// When.
        at: Nanos,
    },
    /// A system call is done.
    Returned(Finished),
}
