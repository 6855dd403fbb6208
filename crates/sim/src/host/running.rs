//! A system call in progress: its stage and its wait.

use block::{Nanos, Op};

use super::page_cache::PAGE;
use super::transfers::{Issuer, PageRun};
use super::{Access, Action, Call, FileId};

/// Maximum size of a file, so that no arithmetic on its bytes can overflow.
const MAX_FILE_BYTES: u64 = 1 << 62;

/// The stage of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Copies pages out of the cache, reading missing ones.
    Read,
    /// Copies pages into the cache.
    Write,
    /// Sends the dirty pages of its range to the device.
    Flush,
    /// Waits for all write-back of its range that has begun.
    Settle,
    /// Requests that the device empties its write cache.
    Barrier,
    /// Waits for the flush.
    Drained,
    /// Drops the clean pages of its range from the cache.
    Forget,
    /// Drops the pages of its range from the cache.
    Drop,
    /// Issues its own pieces to the device.
    Issue,
    /// Waits for its pieces.
    Pieces,
}

/// The event that wakes a call.
pub(super) enum Wait {
    /// A transfer of pages.
    Transfer(u32),
    /// Room in the queue.
    Room,
    /// A free page.
    Memory,
    /// A point in time.
    Until(Nanos),
    /// Its own requests.
    Own,
}

/// The outcome of a stage.
pub(super) enum Step {
    Wait(Wait),
    /// Continue with this stage.
    Next(Stage),
    /// The call is done.
    Done,
}

/// A call in progress.
#[derive(Clone, Copy, Debug)]
pub(super) struct Running {
    pub call: Call,
    pub stage: Stage,
    pub file: FileId,
    pub op: Op,
    /// The range in bytes: start, and end (exclusive).
    pub from: u64,
    pub to: u64,
    /// The page that the stage has reached.
    pub page: u64,
    /// Index of the open file.
    pub open_file: u32,
    /// Whether it had to wait for the current page.
    pub missed: bool,
    /// Whether it has waited for room in the queue and may send one request even if the queue is
    /// full again.
    pub may_overfill: bool,
    pub copied: u64,
    /// Number of its own requests, or flushes, that are not completed.
    pub open: u32,
    /// It waits only for transfers with a lower sequence number than this.
    pub before: u64,
    pub dispatched: Nanos,
}

impl Running {
    /// A call on a file of `bytes` bytes; `cached`: whether some of its pages are in memory.
    pub fn new(now: Nanos, call: Call, bytes: u64, cached: bool) -> Running {
        let (op, file, from, length) = match call.action {
            Action::Access { op, file, offset, bytes, .. } => (op, file, offset, u64::from(bytes)),
            Action::Sync { file } => (Op::Write, file, 0, u64::MAX),
            Action::Invalidate { file, offset, bytes } => (Op::Write, file, offset, bytes),
        };
        let end = bytes.min(MAX_FILE_BYTES);
        let (mut from, mut to) = (from, from.saturating_add(length).min(end));
        if let Action::Invalidate { .. } = call.action {
            // Partial pages are kept, because their other part may be needed (`generic_fadvise` in
            // `mm/fadvise.c`).
            from = from.min(end).next_multiple_of(PAGE);
            to = if to == end { to } else { to / PAGE * PAGE };
        }
        let stage = match call.action {
            _ if from >= to => Stage::Pieces,
            Action::Invalidate { .. } => Stage::Forget,
            Action::Sync { .. } => Stage::Flush,
            Action::Access { op: Op::Discard, .. } => Stage::Drop,
            Action::Access { access: Access::Direct, .. } => {
                if cached {
                    Stage::Flush
                } else {
                    Stage::Issue
                }
            }
            Action::Access { op: Op::Read, .. } => Stage::Read,
            Action::Access { .. } => Stage::Write,
        };
        Running {
            call,
            stage,
            file,
            op,
            from,
            to,
            page: from / PAGE,
            open_file: 0,
            missed: false,
            may_overfill: false,
            copied: 0,
            open: 0,
            before: 0,
            dispatched: now,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.from >= self.to
    }

    pub fn first_page(&self) -> u64 {
        self.from / PAGE
    }

    /// The last page of the range, which must not be empty.
    pub fn last_page(&self) -> u64 {
        (self.to - 1) / PAGE
    }

    /// The pages of the file from the current one up to `end`.
    pub fn run_to(&self, end: u64) -> PageRun {
        PageRun { file: self.file, first: self.page, pages: end - self.page }
    }

    pub fn access(&self) -> Option<Access> {
        match self.call.action {
            Action::Access { access, .. } => Some(access),
            Action::Sync { .. } | Action::Invalidate { .. } => None,
        }
    }

    /// Whether its caller continues at once and no completion is reported.
    pub fn is_advice(&self) -> bool {
        matches!(self.call.action, Action::Invalidate { .. })
    }

    pub fn issuer(&self) -> Issuer {
        Issuer { stream: self.call.stream, priority: self.call.priority, sync: true }
    }
}
