//! What can be asked of a store.

use std::io;
use std::sync::Arc;

use block::StreamId;
use smallvec::SmallVec;
use uring::{Buffer, Buffers};

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Reads into the buffers.
    Read,
    /// Writes the buffers.
    Write,
    /// Zeroes, and frees the space.
    Trim,
    /// Zeroes, and keeps the space.
    Zero,
    /// Makes durable what was completed before.
    Flush,
}

/// A range of the store, of at most [`StoreHost::most_sectors`](super::StoreHost::most_sectors) if data is moved.
#[derive(Debug)]
pub struct Piece {
    /// The first sector; `None`: nowhere, where reads are of zeros.
    pub lba: Option<u64>,
    /// How many.
    pub sectors: u32,
    /// The data of a read or write, as long as the range.
    pub buffer: Option<Buffer>,
}

/// Something to be done, answered once by [`Replies::done`].
pub struct Work {
    /// Who asks.
    pub stream: StreamId,
    /// What.
    pub kind: Kind,
    /// Where; nothing for a flush. Most have one.
    pub pieces: SmallVec<[Piece; 1]>,
    /// A write is durable before it is answered (FUA).
    pub is_durable: bool,
    /// Who is answered.
    pub replies: Arc<dyn Replies>,
    /// Their number for it.
    pub cookie: u64,
}

/// Who is answered, by any thread.
pub trait Replies: Send + Sync {
    /// The work is done, or has failed. The buffers are those of its pieces, in their order. The store is locked meanwhile: this must
    /// neither block nor ask the store for anything.
    fn done(&self, cookie: u64, result: io::Result<()>, buffers: Buffers);

    /// After one or several calls of [`done`](Replies::done): there are no more for now, and what was held back to be sent together goes.
    /// Must not block; may ask the store for more.
    fn flush(&self);
}
