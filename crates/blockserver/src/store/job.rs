//! Jobs: transfers, zeroing and flushes at the medium.

use std::io::{self, IoSlice, IoSliceMut};

use block::RequestId;
use smallvec::SmallVec;
use uring::Buffer;

use super::work::Kind;
use backing::Backing;

/// Buffers of a request with the tokens of their pieces; most requests have one.
pub(super) type Pieces = SmallVec<[(usize, Buffer); 1]>;

/// Slices for one call that are kept on the stack.
const SLICES: usize = 8;

/// The operation at the medium for one request.
pub(super) struct Job {
    pub id: RequestId,
    pub what: Moves,
}

/// An operation at the medium.
pub(super) enum Moves {
    /// Reads or writes contiguous pieces in order of position; the buffers are returned.
    Data {
        kind: Kind,
        offset: u64,
        pieces: Pieces,
    },
    /// Zeroes ranges: offset and length in bytes, and whether the space is kept.
    Zeros(Vec<(u64, u64, bool)>),
    Flush,
}

/// A completed or failed job.
pub(super) struct Done {
    pub id: RequestId,
    pub result: io::Result<()>,
    pub pieces: Pieces,
}

impl Job {
    /// Runs the job, and returns when it is done.
    pub(super) fn run(self, backing: &dyn Backing) -> Done {
        let (result, pieces) = match self.what {
            Moves::Data { kind: Kind::Read, offset, mut pieces } => {
                let result = backing.read_parts(offset, &mut slices_mut(&mut pieces));
                (result, pieces)
            }
            Moves::Data { offset, pieces, .. } => {
                let mut parts: SmallVec<[IoSlice<'_>; SLICES]> = pieces.iter().map(|(_, buffer)| IoSlice::new(buffer)).collect();
                let result = backing.write_parts(offset, &mut parts);
                drop(parts);
                (result, pieces)
            }
            Moves::Zeros(ranges) => {
                let zero = |(offset, length, keeps): (u64, u64, bool)| {
                    if keeps { backing.zero(offset, length) } else { backing.discard(offset, length) }
                };
                (ranges.into_iter().try_for_each(zero), Pieces::new())
            }
            Moves::Flush => (backing.flush(), Pieces::new()),
        };
        Done { id: self.id, result, pieces }
    }

    /// Runs a read from the page cache. Returns the job as an error if it would have to wait, or is not a read.
    pub(super) fn run_now(self, backing: &dyn Backing) -> Result<Done, Job> {
        match self.what {
            Moves::Data { kind: Kind::Read, offset, mut pieces } => {
                let is_there = backing.read_now(offset, &mut slices_mut(&mut pieces));
                if is_there {
                    Ok(Done { id: self.id, result: Ok(()), pieces })
                } else {
                    Err(Job { id: self.id, what: Moves::Data { kind: Kind::Read, offset, pieces } })
                }
            }
            what => Err(Job { what, ..self }),
        }
    }
}

fn slices_mut(pieces: &mut Pieces) -> SmallVec<[IoSliceMut<'_>; SLICES]> {
    pieces.iter_mut().map(|(_, buffer)| IoSliceMut::new(buffer)).collect()
}
