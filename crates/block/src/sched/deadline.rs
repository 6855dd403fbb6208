//! A one-way elevator that serves batches of reads or writes, and checks the oldest request before each batch for expiry.
//!
//! ```text
//! batch of reads, at most fifo_batch     next batch: reads again, or writes if reads passed them over writes_starved times
//!   100 -> 108 -> 300 -> ...             it begins at the oldest request if that has expired or no request lies ahead,
//!                                        otherwise where the last batch of reads ended
//! ```

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{Insertion, Pick, Scheduler, SchedulerSpec, StarvationBound};
use crate::queue::{Limits, Merging, Placed, Queue, QueuePosition, Slot};
use crate::{Nanos, Request, Tunable, Unit, tunables};

pub(super) static SPEC: SchedulerSpec = SchedulerSpec {
    name: "deadline",
    summary: "sorted batches; no read waits long behind the elevator, and no write for ever behind the reads",
    source: "Linux 4.x block/deadline-iosched.c",
    tunables: Tunables::TUNABLES,
    work_conserving: true,
    starvation_bound: Some(starvation_bound),
    knowledge: None,
    build: |limits, values| Box::new(Deadline::new(limits, values)),
};

tunables! {
    /// The tunables.
    struct Tunables {
        /// A read that has waited this long is where the next batch of reads begins.
        read_expire: Nanos = Tunable::new(Unit::Milliseconds, 1..=60_000, 500).logarithmic(),
        /// A write that has waited this long is where the next batch of writes begins.
        write_expire: Nanos = Tunable::new(Unit::Milliseconds, 1..=300_000, 5_000).logarithmic(),
        /// Requests in one batch. More means fewer seeks and longer waits.
        fifo_batch: u64 = Tunable::new(Unit::Count, 1..=1_024, 16).logarithmic(),
        /// Batches of reads that may go ahead of waiting writes.
        writes_starved: u64 = Tunable::new(Unit::Count, 1..=100, 2).logarithmic(),
        /// Whether a request may join the front of a waiting one. Rarely possible; turning it off saves a lookup.
        front_merges: bool = Tunable::flag(true),
    }
}

/// At most `writes_starved` batches of the favoured direction precede a batch of the other direction, each batch begins at the oldest
/// request if that has expired, and one batch may be in progress.
fn starvation_bound(values: &[i64]) -> StarvationBound {
    let tuning = Tuning::new(values);
    let expires = tuning.expire[READ].max(tuning.expire[WRITE]);
    StarvationBound { expires, picks: tuning.fifo_batch.saturating_mul(tuning.writes_starved + 2) }
}

const READ: usize = 0;
const WRITE: usize = 1;

struct Tuning {
    expire: [Nanos; 2],
    fifo_batch: u64,
    writes_starved: u64,
    merging: Merging,
}

impl Tuning {
    fn new(values: &[i64]) -> Tuning {
        let set = Tunables::of(values);
        let mut expire = [Nanos::ZERO; 2];
        (expire[READ], expire[WRITE]) = (set.read_expire, set.write_expire);
        Tuning {
            expire,
            fifo_batch: set.fifo_batch,
            writes_starved: set.writes_starved,
            merging: Merging { front: set.front_merges, within_stream: false },
        }
    }
}

struct Deadline {
    tuning: Tuning,
    queue: Queue,
    /// Direction of the current batch and position of its next request; `None` if none follows in this sweep.
    next: Option<(usize, QueuePosition)>,
    batched: u64,
    starved: u64,
}

impl Deadline {
    fn new(limits: &Limits, values: &[i64]) -> Deadline {
        let tuning = Tuning::new(values);
        let queue = Queue::new(*limits, tuning.merging);
        Deadline { tuning, queue, next: None, batched: 0, starved: 0 }
    }

    /// The next request of the batch. It was chosen at the previous dispatch, so later arrivals ahead of it wait.
    fn next_in_batch(&self) -> Option<(usize, Slot)> {
        let (direction, place) = self.next?;
        Some((direction, self.queue.from(direction, place)?))
    }

    fn next_batch_direction(&mut self) -> Option<usize> {
        let (reads, writes) = (self.queue.lane_len(READ) > 0, self.queue.lane_len(WRITE) > 0);
        if reads {
            let starved = self.starved;
            self.starved += u64::from(writes);
            if !writes || starved < self.tuning.writes_starved {
                return Some(READ);
            }
        }
        writes.then(|| {
            self.starved = 0;
            WRITE
        })
    }

    fn first_of_batch(&self, now: Nanos, direction: usize) -> Option<Slot> {
        let oldest = self.queue.oldest(direction)?;
        match self.next_in_batch() {
            Some((same, next)) if same == direction && self.queue.expires(oldest) > now => Some(next),
            _ => Some(oldest),
        }
    }

    fn select(&mut self, now: Nanos) -> Option<(usize, Slot)> {
        if self.batched < self.tuning.fifo_batch
            && let Some(next) = self.next_in_batch()
        {
            return Some(next);
        }
        let direction = self.next_batch_direction()?;
        let slot = self.first_of_batch(now, direction)?;
        self.batched = 0;
        Some((direction, slot))
    }
}

impl Scheduler for Deadline {
    fn insert(&mut self, now: Nanos, request: Request) -> Insertion {
        let direction = if request.op.is_write() { WRITE } else { READ };
        let expires = request.arrival.min(now) + self.tuning.expire[direction];
        let placed = self.queue.insert(direction, expires, request);
        if let (Placed::Merged { .. }, Some((next_direction, place))) = (placed, &mut self.next)
            && *next_direction == direction
            && place.lba == request.end()
        {
            // The next request of the batch may have grown by a front merge: follow it to its new position.
            place.lba = request.lba;
        }
        placed.into()
    }

    fn pick(&mut self, now: Nanos) -> Pick {
        let Some((direction, slot)) = self.select(now) else { return Pick::Empty };
        let place = self.queue.place(slot);
        let behind = QueuePosition { sequence: place.sequence + 1, ..place };
        let successor = self.queue.from(direction, behind).map(|next| self.queue.place(next));
        self.next = successor.map(|place| (direction, place));
        self.batched += 1;
        Pick::Go(self.queue.take(slot))
    }

    fn retune(&mut self, values: &[i64]) {
        self.tuning = Tuning::new(values);
        self.queue.set_merging(self.tuning.merging);
    }

    fn set_limits(&mut self, limits: &Limits) {
        self.queue.set_limits(limits);
    }

    fn drain(&mut self, out: &mut Vec<Request>) {
        self.queue.drain(out);
        self.next = None;
    }
}
