//! Converts observed requests to the accesses of a device.

use block::Op;

use crate::ObservedRequest;

/// Minimum number of accesses of a kind for an estimate from their times.
/// Choice: a median of ten is rarely an outlier; more would leave defaults for short recordings; not varied.
pub const MIN_COUNT: usize = 10;
/// Number of earlier accesses that count as recent: as many as the segments of a large cache (`disks/sata7200.toml`). Choice: hits in more
/// segments would be missed; each access searches all of them; not varied.
pub const RECENT: usize = 64;
/// A read may be a cache hit if it starts within this number of sectors of a recent access: read-ahead of 1 MiB. Choice: a smaller distance
/// takes hits for seeks, a larger one leaves fewer seeks to fit; not varied.
const NEAR: u64 = 2_048;

/// One command of the device. Merged requests are one access.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Access {
    /// First 512-byte sector.
    pub lba: u64,
    /// Length in sectors.
    pub sectors: u64,
    /// Whether it writes.
    pub write: bool,
    /// Arrival time in nanoseconds; the earliest for merged requests.
    pub arrival: u64,
    /// Dispatch time in nanoseconds.
    pub dispatched: u64,
    /// Completion time in nanoseconds.
    pub completed: u64,
    /// The last flush issued between the previous dispatch and this one; `None` if there is none.
    pub flush: Option<Flush>,
    /// Number of other accesses in flight when it was dispatched.
    pub others: u32,
    /// The access that completed just before it: end sector, completion time in nanoseconds, and whether it was a write; `None` for the
    /// first.
    pub before: Option<(u64, u64, bool)>,
    /// Distance back to the latest access of the same direction that ends where this one starts; 1 is the previous one. `None` if there is
    /// no recent one.
    pub follows: Option<usize>,
    /// Whether it may be a cache hit: a recent access was at or just before its position.
    pub may_hit: bool,
}

/// A flush of the write cache. Times are in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Flush {
    /// Issue time.
    pub asked: u64,
    /// Completion time.
    pub completed: u64,
}

impl Flush {
    /// Response time, in ms.
    pub fn response_ms(&self) -> f64 {
        (self.completed - self.asked) as f64 / 1e6
    }
}

impl Access {
    /// The first sector after it.
    pub fn end(&self) -> u64 {
        self.lba + self.sectors
    }

    /// Service time in ms of a device that serves one access at a time: from the previous completion or the dispatch, whichever is later.
    pub fn service_ms(&self) -> f64 {
        let from = self.before.map_or(self.dispatched, |(_, at, _)| at.max(self.dispatched));
        (self.completed - from.min(self.completed)) as f64 / 1e6
    }

    /// Response time from dispatch to completion, in ms.
    pub fn response_ms(&self) -> f64 {
        (self.completed - self.dispatched) as f64 / 1e6
    }
}

/// The accesses of these requests in order of completion, with their flushes. Discards are omitted.
pub fn accesses(seen: &[ObservedRequest]) -> Vec<Access> {
    let timed =
        |seen: &&ObservedRequest| seen.request.op != Op::Discard && seen.request.sectors > 0 && seen.completed >= seen.dispatched;
    let mut sorted: Vec<&ObservedRequest> = seen.iter().filter(timed).collect();
    sorted.sort_by_key(|seen| (seen.completed, seen.dispatched, seen.request.op.is_write(), seen.request.lba));
    let mut all: Vec<Access> = Vec::with_capacity(sorted.len());
    for seen in sorted {
        let request = &seen.request;
        if let Some(last) = all.last_mut()
            && (last.completed, last.dispatched, last.write) == (seen.completed.0, seen.dispatched.0, request.op.is_write())
            && last.end() == request.lba
        {
            last.sectors += u64::from(request.sectors);
            last.arrival = last.arrival.min(request.arrival.0);
            continue;
        }
        all.push(Access {
            lba: request.lba,
            sectors: u64::from(request.sectors),
            write: request.op.is_write(),
            arrival: request.arrival.0,
            dispatched: seen.dispatched.0,
            completed: seen.completed.0,
            flush: None,
            others: 0,
            before: None,
            follows: None,
            may_hit: false,
        });
    }
    set_context(&mut all);
    let flushes = seen.iter().filter(|seen| seen.is_flush() && seen.completed >= seen.dispatched);
    let flush = |seen: &ObservedRequest| Flush { asked: seen.dispatched.0, completed: seen.completed.0 };
    set_flushes(&mut all, flushes.map(flush).collect());
    all
}

/// Assigns each flush to the access that was dispatched next.
fn set_flushes(all: &mut [Access], mut flushes: Vec<Flush>) {
    flushes.sort_unstable();
    let mut flushes = flushes.into_iter().peekable();
    let mut by_dispatch: Vec<usize> = (0..all.len()).collect();
    by_dispatch.sort_by_key(|&index| (all[index].dispatched, index));
    for index in by_dispatch {
        while let Some(flush) = flushes.next_if(|flush| flush.asked <= all[index].dispatched) {
            all[index].flush = Some(flush);
        }
    }
}

/// Sorts accesses by completion, and sets the fields that depend on other accesses.
pub fn in_context(mut all: Vec<Access>) -> Vec<Access> {
    all.sort_by_key(|access| (access.completed, access.dispatched, access.write, access.lba));
    set_context(&mut all);
    all
}

fn set_context(all: &mut [Access]) {
    count_others(all);
    look_back(all);
}

/// Sets the number of other accesses in flight.
fn count_others(all: &mut [Access]) {
    let mut by_dispatch: Vec<usize> = (0..all.len()).collect();
    by_dispatch.sort_by_key(|&index| (all[index].dispatched, index));
    let mut done = 0;
    for (given, &index) in by_dispatch.iter().enumerate() {
        while done < all.len() && all[done].completed <= all[index].dispatched {
            done += 1;
        }
        all[index].others = given.saturating_sub(done) as u32;
    }
}

/// Sets the fields that depend on earlier accesses.
fn look_back(all: &mut [Access]) {
    if let Some(first) = all.first_mut() {
        (first.before, first.follows, first.may_hit) = (None, None, false);
    }
    for index in 1..all.len() {
        let (past, rest) = all.split_at_mut(index);
        let (this, last) = (&mut rest[0], &past[index - 1]);
        (this.before, this.follows, this.may_hit) = (Some((last.end(), last.completed, last.write)), None, false);
        for (back, other) in past.iter().rev().take(RECENT).enumerate() {
            if this.follows.is_none() && other.write == this.write && other.end() == this.lba {
                this.follows = Some(back + 1);
            }
            this.may_hit |= other.lba <= this.end() && this.lba < other.end() + NEAR;
        }
    }
}
