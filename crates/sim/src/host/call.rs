//! System calls.

use block::{Nanos, Op, Priority, StreamId};

use super::FileId;
use crate::run::Attributed;

/// A system call that leads, or may lead, to I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Time of the call; the response time counts from here.
    pub arrival: Nanos,
    /// The process.
    pub stream: StreamId,
    /// I/O priority.
    pub priority: Priority,
    /// The source's number for it, returned in [`Finished`](crate::run::Finished).
    pub token: u64,
    /// The process's advice on its use of the file.
    pub advice: Advice,
    /// The requested action.
    pub action: Action,
}

impl Attributed for Call {
    /// The sectors are known only later.
    fn issuer(&self) -> Option<(StreamId, Option<u64>)> {
        (!matches!(self.action, Action::Invalidate { .. })).then_some((self.stream, None))
    }
}

/// A process's advice on how it will read a file (posix_fadvise(2); Linux `mm/fadvise.c`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Advice {
    /// No advice.
    #[default]
    Normal,
    /// POSIX_FADV_SEQUENTIAL: read-ahead goes twice as far.
    Sequential,
    /// POSIX_FADV_RANDOM: nothing is read ahead.
    Random,
}

/// The action of a [`Call`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Read, write or discard a piece of a file.
    Access {
        /// The operation.
        op: Op,
        /// The file.
        file: FileId,
        /// The first byte. A multiple of 512 unless it is buffered.
        offset: u64,
        /// Number of bytes; never 0, and not beyond the file's end. A multiple of 512 unless it is buffered.
        bytes: u32,
        /// Access mode.
        access: Access,
    },
    /// fsync(2): everything written to the file is on the media before it returns.
    Sync {
        /// The file.
        file: FileId,
    },
    /// posix_fadvise(2) with POSIX_FADV_DONTNEED: the whole pages of a piece of a file are dropped from the page cache if they are
    /// clean; dirty ones are written to the device and kept. The caller continues meanwhile: no [`Finished`](crate::run::Finished)
    /// is reported.
    Invalidate {
        /// The file.
        file: FileId,
        /// The first byte.
        offset: u64,
        /// Number of bytes.
        bytes: u64,
    },
}

impl Action {
    /// The file.
    pub fn file(&self) -> FileId {
        match *self {
            Action::Access { file, .. } | Action::Sync { file } | Action::Invalidate { file, .. } => file,
        }
    }
}

/// How a file is accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// O_DIRECT: bypasses the page cache.
    Direct,
    /// Through the page cache.
    Buffered,
    /// Through the page cache with O_SYNC: a write returns when it is on the media.
    Synchronous,
}
