//! Requests to a store.

use std::io;
use std::sync::Arc;

use block::StreamId;
use smallvec::SmallVec;
use uring::{Buffer, Buffers};

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Reads into the buffers.
    Read,
    /// Writes the buffers.
    Write,
    /// Zeroes the range and frees its space.
    Trim,
    /// Zeroes the range and keeps its space.
    Zero,
    /// Makes all completed changes durable.
    Flush,
}

/// A range of the store; at most [`StoreHost::most_sectors`](super::StoreHost::most_sectors) long in a read or write.
#[derive(Debug)]
pub struct Piece {
    /// First sector. `None`: unmapped; reads return zeros, and writes fail.
    pub lba: Option<u64>,
    /// Number of sectors.
    pub sectors: u32,
    /// Buffer of a read or write, as long as the range.
    pub buffer: Option<Buffer>,
}

/// A request to a store, answered once by [`Replies::done`].
pub struct Work {
    /// Stream that it is scheduled and accounted under.
    pub stream: StreamId,
    /// The operation.
    pub kind: Kind,
    /// Its ranges, usually one; none for a flush.
    pub pieces: SmallVec<[Piece; 1]>,
    /// The change is made durable before the reply (FUA).
    pub is_durable: bool,
    /// Receiver of the reply.
    pub replies: Arc<dyn Replies>,
    /// Passed to the receiver.
    pub cookie: u64,
}

/// Receives replies, from any thread.
pub trait Replies: Send + Sync {
    /// Called when the work has completed or failed, with the buffers of its pieces in their order. The store is locked during the call: it
    /// must neither block nor call the store.
    fn done(&self, cookie: u64, result: io::Result<()>, buffers: Buffers);

    /// Called after one or more calls of [`done`](Replies::done): sends the replies that were held back to be sent together. Must not
    /// block; may submit more work.
    fn flush(&self);
}
