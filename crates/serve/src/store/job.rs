//! What is done with a medium, and by whom it can be done.

use std::io::{self, IoSlice, IoSliceMut};

use block::RequestId;
use smallvec::SmallVec;
use uring::Buffer;

use super::work::Kind;
use crate::backing::Backing;

/// The buffers of a request with the pieces that they belong to; most have one.
pub(super) type Pieces = SmallVec<[(usize, Buffer); 1]>;

/// Slices of these buffers that are made for one call.
const SLICES: usize = 8;

/// A request's data to be moved.
pub(super) struct Job {
    pub id: RequestId,
    pub what: Moves,
}

/// What is done with the medium.
pub(super) enum Moves {
    /// Pieces in order of position, without gaps; their buffers come back.
    Data {
        kind: Kind,
        offset: u64,
        pieces: Pieces,
    },
    /// Ranges that are zeroed: offset, length, and whether their space is kept.
    Zeros(Vec<(u64, u64, bool)>),
    Flush,
}

/// A job that was done, or failed.
pub(super) struct Done {
    pub id: RequestId,
    pub result: io::Result<()>,
    pub pieces: Pieces,
}

impl Job {
    /// Moves the data.
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

    /// Reads what is in the page cache; the job comes back if that takes a wait.
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
