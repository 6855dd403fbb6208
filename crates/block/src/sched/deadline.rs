//! A one-way elevator that serves batches of reads or of writes, and looks after the oldest request before each batch.
//!
//! ```text
//! batch of reads, at most fifo_batch     next batch: reads again, or writes if reads passed them over writes_starved times
//!   100 -> 108 -> 300 -> ...             it begins at the oldest request if that has expired or no request lies ahead,
//!                                        otherwise where the last batch of reads ended
//! ```

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{Insertion, Patience, Pick, Scheduler, Spec, count, span};
use crate::queue::{Limits, Merging, Placed, Queue, QueuePosition, Slot};
use crate::{Nanos, Request, Scale, Tunable, Unit};

pub(super) static SPEC: Spec = Spec {
    name: "deadline",
    summary: "sorted batches; no read waits long behind the elevator, and no write for ever behind the reads",
    source: "Linux 4.x block/deadline-iosched.c",
    tunables: TUNABLES,
    work_conserving: true,
    patience: Some(patience),
    build: |limits, values| Box::new(Deadline::new(limits, values)),
};

static TUNABLES: &[Tunable] = &[
    Tunable {
        name: "read_expire",
        unit: Unit::Milliseconds,
        min: 1,
        max: 60_000,
        default: 500,
        scale: Scale::Logarithmic,
        doc: "A read that has waited this long is where the next batch of reads begins.",
    },
    Tunable {
        name: "write_expire",
        unit: Unit::Milliseconds,
        min: 1,
        max: 300_000,
        default: 5_000,
        scale: Scale::Logarithmic,
        doc: "A write that has waited this long is where the next batch of writes begins.",
    },
    Tunable {
        name: "fifo_batch",
        unit: Unit::Count,
        min: 1,
        max: 1_024,
        default: 16,
        scale: Scale::Logarithmic,
        doc: "Requests in one batch. More means fewer seeks and longer waits.",
    },
    Tunable {
        name: "writes_starved",
        unit: Unit::Count,
        min: 1,
        max: 100,
        default: 2,
        scale: Scale::Logarithmic,
        doc: "Batches of reads that may go ahead of waiting writes.",
    },
    Tunable {
        name: "front_merges",
        unit: Unit::Flag,
        min: 0,
        max: 1,
        default: 1,
        scale: Scale::Linear,
        doc: "Whether a request may join the front of a waiting one. Rarely possible; turning it off saves a lookup.",
    },
];

/// Of two batches in a row of the favoured direction at most `writes_starved` go before the other's turn, each turn begins at
/// the oldest request if it has expired, and one batch may be under way.
fn patience(values: &[i64]) -> Patience {
    let tuning = Tuning::new(values);
    let expires = tuning.expire[READ].max(tuning.expire[WRITE]);
    Patience { expires, picks: tuning.fifo_batch.saturating_mul(tuning.writes_starved + 2) }
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
        Tuning {
            expire: [span(values[0]), span(values[1])],
            fifo_batch: count(values[2]),
            writes_starved: count(values[3]),
            merging: Merging { front: values[4] != 0, within_stream: false },
        }
    }
}

struct Deadline {
    tuning: Tuning,
    queue: Queue,
    /// Direction of the last batch and the place right behind its last request, unless the end of the disk was reached.
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

    /// The request the batch goes on with. It was chosen when the one before left: who has come in between waits.
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
            // The request the batch goes on with may have grown at its front: follow it to its new place.
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
