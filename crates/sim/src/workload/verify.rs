//! Data that a job with `verify` has written and still has to read back (fio: `log_io_piece` in iolog.c, `get_next_verify` in
//! verify.c, `check_get_verify` in io_u.c).

use std::collections::{BTreeMap, VecDeque};

use super::options::Options;

/// A written piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// Index among the job's files.
    pub(super) file: usize,
    /// Offset from the start of the job's part of the file.
    pub(super) start: u64,
    /// Length.
    pub(super) bytes: u32,
}

/// The log of writes to read back.
pub(super) struct Written {
    log: Log,
    /// `verify_backlog`: length of the log at which reads begin; 0 for the end of the pass.
    backlog: usize,
    /// `verify_backlog_batch`: number of reads in a batch.
    batch: usize,
    /// Remaining reads of the current batch.
    left: usize,
    /// Number of latest writes that may still be in flight, and are not read yet.
    unsettled: u64,
    /// Number of writes so far.
    writes: u64,
}

/// Pieces with the sequence numbers of their writes, from 0.
enum Log {
    /// In order of writing: with `experimental_verify`, or if no block is written twice.
    Ordered(VecDeque<(Piece, u64)>),
    /// By file and start: length and sequence number. A later write removes those that it overlaps.
    Sorted(BTreeMap<(usize, u64), (u32, u64)>),
}

impl Written {
    /// The log of a job that keeps `depth` I/Os in flight; `None` if it does not read back its writes.
    pub(super) fn new(options: &Options, depth: u32) -> Option<Written> {
        let verify = &options.verify;
        let ordered = verify.experimental || options.random_map() && !options.order.linear_feedback;
        let log = if ordered { Log::Ordered(VecDeque::new()) } else { Log::Sorted(BTreeMap::new()) };
        let backlog = verify.backlog as usize;
        let batch = if verify.batch == 0 { backlog } else { verify.batch as usize };
        let unsettled = u64::from(depth) - 1;
        (verify.on && verify.reads).then_some(Written { log, backlog, batch, left: 0, unsettled, writes: 0 })
    }

    fn len(&self) -> usize {
        match &self.log {
            Log::Ordered(pieces) => pieces.len(),
            Log::Sorted(pieces) => pieces.len(),
        }
    }

    /// Adds a written piece.
    pub(super) fn push(&mut self, piece: Piece) {
        let number = self.writes;
        self.writes += 1;
        let Piece { file, start, bytes } = piece;
        match &mut self.log {
            Log::Ordered(pieces) => pieces.push_back((piece, number)),
            Log::Sorted(pieces) => {
                let end = start + u64::from(bytes);
                // No two pieces in the log overlap, so those that overlap this one are directly before its end.
                while let Some((&(other_file, other), &(length, _))) = pieces.range(..(file, end)).next_back()
                    && other_file == file
                    && other + u64::from(length) > start
                {
                    pieces.remove(&(other_file, other));
                }
                pieces.insert((file, start), (bytes, number));
            }
        }
    }

    /// Whether a piece should be read back before the next write. `after_read`: whether the last I/O was a read.
    pub(super) fn is_due(&self, after_read: bool) -> bool {
        let length = self.len();
        if self.backlog == 0 || length == 0 {
            return false;
        }
        let begins = !after_read && length.is_multiple_of(self.backlog);
        (self.left > 0 || begins) && self.first_number().is_some_and(|number| number + self.unsettled < self.writes)
    }

    /// Takes the piece that [`is_due`](Written::is_due).
    pub(super) fn take_due(&mut self) -> Option<Piece> {
        let left = if self.left == 0 { self.batch } else { self.left };
        self.left = left - 1;
        self.next()
    }

    /// The next piece to read back after the writes; `None` if there is none.
    pub(super) fn next(&mut self) -> Option<Piece> {
        match &mut self.log {
            Log::Ordered(pieces) => pieces.pop_front().map(|(piece, _)| piece),
            Log::Sorted(pieces) => {
                let ((file, start), (bytes, _)) = pieces.pop_first()?;
                Some(Piece { file, start, bytes })
            }
        }
    }

    /// Puts back a piece that [`next`](Written::next) returned.
    pub(super) fn put_back(&mut self, piece: Piece) {
        match &mut self.log {
            Log::Ordered(pieces) => pieces.push_front((piece, 0)),
            Log::Sorted(pieces) => {
                pieces.insert((piece.file, piece.start), (piece.bytes, 0));
            }
        }
    }

    fn first_number(&self) -> Option<u64> {
        match &self.log {
            Log::Ordered(pieces) => pieces.front().map(|(_, number)| *number),
            Log::Sorted(pieces) => pieces.first_key_value().map(|(_, (_, number))| *number),
        }
    }

    /// Clears the log for a new pass.
    pub(super) fn clear(&mut self) {
        self.left = 0;
        match &mut self.log {
            Log::Ordered(pieces) => pieces.clear(),
            Log::Sorted(pieces) => pieces.clear(),
        }
    }
}
