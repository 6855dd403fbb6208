//! Rebuild: a spare takes the place of a failed member, piece by piece, from its first sector to its last.
//!
//! The rate follows `md_do_sync` in `drivers/md/md.c` with its `speed_limit_min` and `speed_limit_max`: never faster than the latter,
//! and while host requests are in the array no faster than the former.

use std::collections::VecDeque;

/// Sectors of a member rebuilt in one piece: large enough to stream, small enough that requests do not wait long behind it.
const PIECE: u64 = 512;

/// Maximum number of pieces in progress: one is read while the previous one is written.
const PIECES_AT_ONCE: usize = 2;

/// Limits of the rebuild rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RebuildRate {
    /// KiB of the spare per second while the host is idle; at least 1.
    pub idle_kib_s: u64,
    /// KiB of the spare per second while the host is active; at least 1.
    pub busy_kib_s: u64,
}

impl Default for RebuildRate {
    /// md's defaults: 200,000 and 1,000.
    fn default() -> RebuildRate {
        RebuildRate { idle_kib_s: 200_000, busy_kib_s: 1_000 }
    }
}

/// A range of the spare that is being rebuilt.
#[derive(Clone, Copy, Debug)]
struct RebuildPiece {
    owner: u32,
    end: u64,
    done: bool,
}

/// A rebuild in progress.
#[derive(Debug)]
pub struct Rebuild {
    rate: RebuildRate,
    /// Sectors of the spare that the array uses.
    sectors: u64,
    /// The sector up to which the spare is complete.
    whole: u64,
    /// Start of the next piece.
    next: u64,
    pieces: VecDeque<RebuildPiece>,
    /// Start time of the last piece, and its sectors.
    began: (u64, u64),
    /// Time since which only the rate delays the next piece.
    ready: u64,
}

impl Rebuild {
    /// A rebuild that may start at `now`.
    pub fn new(now: u64, rate: RebuildRate, sectors: u64) -> Rebuild {
        let pieces = VecDeque::with_capacity(PIECES_AT_ONCE);
        Rebuild { rate, sectors, whole: 0, next: 0, pieces, began: (now, 0), ready: now }
    }

    /// The sector up to which the spare is complete.
    pub fn whole(&self) -> u64 {
        self.whole
    }

    /// Whether the rebuild is complete.
    pub fn ended(&self) -> bool {
        self.whole == self.sectors
    }

    /// Time at which the next piece may start; `u64::MAX` if there is none or it has to wait for another.
    pub fn due(&self, busy: bool) -> u64 {
        if self.next == self.sectors || self.pieces.len() == PIECES_AT_ONCE {
            return u64::MAX;
        }
        let rate = if busy { self.rate.busy_kib_s.min(self.rate.idle_kib_s) } else { self.rate.idle_kib_s };
        let (began, sectors) = self.began;
        // A sector is half a KiB.
        let takes = u128::from(sectors) * 500_000_000 / u128::from(rate.max(1));
        self.ready.max(began.saturating_add(u64::try_from(takes).unwrap_or(u64::MAX)))
    }

    /// Notes that the host has no request left in the array.
    pub fn host_idle(&mut self, now: u64) {
        self.ready = now;
    }

    /// Starts the next piece for `owner`. Returns its sectors: first, and end.
    pub fn begin(&mut self, now: u64, owner: u32) -> (u64, u64) {
        let (first, end) = (self.next, self.sectors.min(self.next + PIECE));
        self.next = end;
        self.began = (now, end - first);
        self.pieces.push_back(RebuildPiece { owner, end, done: false });
        (first, end)
    }

    /// Marks `owner`'s piece as written to the spare. A piece counts only when all previous ones are written.
    pub fn finish(&mut self, owner: u32) {
        if let Some(piece) = self.pieces.iter_mut().find(|piece| piece.owner == owner) {
            piece.done = true;
        }
    }

    /// The owner of the next piece that now counts; `None` if there is none.
    pub fn take_finished(&mut self, now: u64) -> Option<u32> {
        let piece = *self.pieces.front().filter(|piece| piece.done)?;
        self.pieces.pop_front();
        self.whole = piece.end;
        self.ready = now;
        Some(piece.owner)
    }
}
