//! Events that a target reports while it runs.

use block::{Nanos, Op, Request, StreamId};

/// Bytes per sector. Source: `SECTOR_SIZE` in `include/linux/blk_types.h`.
pub(crate) const SECTOR_BYTES: u32 = 512;

/// An event of a request in the block layer. Events are in order of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A request entered the queue at its [`arrival`](Request::arrival), before any merge or split.
    Queued(Request),
    /// A queued request completed.
    Completed {
        /// The request as queued; its id has no meaning.
        request: Request,
        /// When its last part was dispatched to the device.
        dispatched: Nanos,
        /// When its last part completed.
        at: Nanos,
    },
    /// The device's write cache was emptied on behalf of a stream. A device that has none reports nothing.
    Flushed {
        /// The stream.
        stream: StreamId,
        /// When it issued the flush.
        asked: Nanos,
        /// When everything that had been reported as written was on the media.
        at: Nanos,
    },
    /// A process issued a read, write or fsync call, above the block layer. A target that cannot observe calls reports neither
    /// this nor [`Event::Returned`]; windows are then scored by requests.
    Called {
        /// The process.
        stream: StreamId,
        /// When it was issued.
        at: Nanos,
    },
    /// The call returned.
    Returned {
        /// The process.
        stream: StreamId,
        /// Whether it read or wrote; an fsync counts as a write of nothing.
        op: Op,
        /// The data read or written for it.
        bytes: u64,
        /// When it was issued.
        called: Nanos,
        /// When it returned.
        at: Nanos,
    },
}

impl Event {
    /// The process or other stream that it is about.
    pub fn stream(&self) -> StreamId {
        match self {
            Event::Queued(request) | Event::Completed { request, .. } => request.stream,
            Event::Flushed { stream, .. } | Event::Called { stream, .. } | Event::Returned { stream, .. } => *stream,
        }
    }

    /// Whether it is about a call of a process, not about a request or flush of the device.
    pub fn is_call(&self) -> bool {
        matches!(self, Event::Called { .. } | Event::Returned { .. })
    }

    /// The time of the event.
    pub fn at(&self) -> Nanos {
        match self {
            Event::Queued(request) => request.arrival,
            Event::Completed { at, .. } | Event::Flushed { at, .. } | Event::Called { at, .. } | Event::Returned { at, .. } => *at,
        }
    }
}
