//! The deadline scheduler of the multi-queue block layer: `deadline` for each I/O priority class, the most urgent class first.
//!
//! ```text
//! real-time     reads, writes    served first
//! best-effort   reads, writes    only while nothing of the class above is queued or at the device ...
//! idle          reads, writes    ... or for a request that has waited for prio_aging_expire
//! ```
//! A batch begins where the last one of its direction ended, even if another direction was served in between; the single-queue `deadline`
//! begins at the oldest request in that case.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{COMPLETION_BACKSTOP, Insertion, Pick, Room, Scheduler, SchedulerSpec, Tags};
use crate::queue::{Limits, Merging, Placed, Queue, Slot};
use crate::{Nanos, PriorityClass, Request, Tunable, Unit, tunables};

pub(super) static SPEC: SchedulerSpec = SchedulerSpec {
    name: "mq-deadline",
    summary: "sorted batches by class of priority; no read waits long behind the elevator, no write for ever behind the reads",
    source: "Linux 6.18 block/mq-deadline.c",
    tunables: Tunables::TUNABLES,
    // A class waits for requests of a more urgent class in flight.
    work_conserving: false,
    // Between classes there is only `prio_aging_expire`, which checks just the next request of a class.
    starvation_bound: None,
    knowledge: None,
    build: |limits, values| Box::new(MqDeadline::new(limits, values)),
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
        /// How many of the queue's nr_requests all writes and asynchronous reads may take. The default stands for nr_requests, to which
        /// Linux resets it whenever that changes.
        async_depth: u32 = Tunable::new(Unit::Count, 1..=2_048, ASYNC_DEPTH).logarithmic(),
        /// A request of a less urgent class that has waited this long goes before those of more urgent ones.
        prio_aging_expire: Nanos = Tunable::new(Unit::Milliseconds, 1..=300_000, 10_000).logarithmic(),
    }
}

/// Linux's default for a queue of 256 requests.
const ASYNC_DEPTH: i64 = 256;

const READ: usize = 0;
const WRITE: usize = 1;
const CLASSES: usize = 3;

/// Index of a priority class, the most urgent first.
fn class(request: &Request) -> usize {
    match request.priority.class {
        PriorityClass::RealTime => 0,
        PriorityClass::BestEffort => 1,
        PriorityClass::Idle => 2,
    }
}

fn direction(request: &Request) -> usize {
    if request.op.is_write() { WRITE } else { READ }
}

fn lane(class: usize, direction: usize) -> usize {
    2 * class + direction
}

struct Tuning {
    expire: [Nanos; 2],
    fifo_batch: u64,
    writes_starved: u64,
    async_depth: u32,
    prio_aging_expire: Nanos,
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
            async_depth: if i64::from(set.async_depth) == ASYNC_DEPTH { u32::MAX } else { set.async_depth },
            prio_aging_expire: set.prio_aging_expire,
            merging: Merging { front: set.front_merges, within_stream: false },
        }
    }
}

/// As in Linux, all classes share the direction and length of the batch, and the count of batches for which writes have starved.
struct MqDeadline {
    tuning: Tuning,
    queue: Queue,
    /// By class and direction: first sector of the last dispatched request.
    latest_lba: [[u64; 2]; CLASSES],
    /// By class: requests in flight.
    at_device: [u64; CLASSES],
    last_direction: usize,
    batched: u64,
    starved: u64,
}

impl MqDeadline {
    fn new(limits: &Limits, values: &[i64]) -> MqDeadline {
        let tuning = Tuning::new(values);
        let queue = Queue::new(*limits, tuning.merging);
        let (latest_lba, at_device) = ([[0; 2]; CLASSES], [0; CLASSES]);
        MqDeadline { tuning, queue, latest_lba, at_device, last_direction: WRITE, batched: 0, starved: 0 }
    }

    fn is_waiting(&self, class: usize) -> bool {
        self.queue.lane_len(lane(class, READ)) + self.queue.lane_len(lane(class, WRITE)) > 0
    }

    /// Whether the class has requests queued or in flight (`dd_queued`).
    fn is_busy(&self, class: usize) -> bool {
        self.at_device[class] > 0 || self.is_waiting(class)
    }

    fn next_by_place(&self, class: usize, direction: usize) -> Option<Slot> {
        self.queue.at_or_after(lane(class, direction), self.latest_lba[class][direction])
    }

    /// The direction of a new batch (`__dd_dispatch_request`).
    fn next_batch_direction(&mut self, class: usize) -> Option<usize> {
        let writes = self.queue.lane_len(lane(class, WRITE)) > 0;
        if self.queue.lane_len(lane(class, READ)) > 0 {
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

    /// The next request of a class. Begins a new batch if the current one is over, even if the caller does not take the request.
    fn select(&mut self, now: Nanos, class: usize) -> Option<(usize, Slot)> {
        if self.batched < self.tuning.fifo_batch
            && let Some(next) = self.next_by_place(class, self.last_direction)
        {
            return Some((self.last_direction, next));
        }
        let direction = self.next_batch_direction(class)?;
        let oldest = self.queue.oldest(lane(class, direction))?;
        let slot = match self.next_by_place(class, direction) {
            Some(next) if self.queue.expires(oldest) > now => next,
            _ => oldest,
        };
        (self.last_direction, self.batched) = (direction, 0);
        Some((direction, slot))
    }

    /// The next request of a less urgent class that has waited for `prio_aging_expire` (`dd_dispatch_prio_aged_requests`).
    fn aged(&mut self, now: Nanos) -> Option<(usize, usize, Slot)> {
        let busy = (0..CLASSES).filter(|&class| self.is_busy(class)).count();
        if busy < 2 {
            return None;
        }
        (1..CLASSES).find_map(|class| {
            let (direction, slot) = self.select(now, class)?;
            let arrived = self.queue.expires(slot).0.saturating_sub(self.tuning.expire[direction].0);
            let is_old = arrived.saturating_add(self.tuning.prio_aging_expire.0) <= now.0;
            is_old.then_some((class, direction, slot))
        })
    }

    fn take(&mut self, class: usize, direction: usize, slot: Slot) -> Pick {
        let request = self.queue.take(slot);
        self.batched += 1;
        self.latest_lba[class][direction] = request.lba;
        self.at_device[class] += 1;
        Pick::Go(request)
    }
}

impl Scheduler for MqDeadline {
    fn insert(&mut self, now: Nanos, request: Request) -> Insertion {
        let direction = direction(&request);
        let expires = request.arrival.min(now) + self.tuning.expire[direction];
        let placed: Placed = self.queue.insert(lane(class(&request), direction), expires, request);
        placed.into()
    }

    fn pick(&mut self, now: Nanos) -> Pick {
        if self.queue.is_empty() {
            return Pick::Empty;
        }
        if let Some((class, direction, slot)) = self.aged(now) {
            return self.take(class, direction, slot);
        }
        for class in 0..CLASSES {
            if let Some((direction, slot)) = self.select(now, class) {
                return self.take(class, direction, slot);
            }
            if self.is_busy(class) {
                // The queued requests are of a less urgent class.
                return Pick::WaitUntil(now + COMPLETION_BACKSTOP);
            }
        }
        Pick::Empty
    }

    fn completed(&mut self, _now: Nanos, request: &Request, _service: Nanos) {
        let at_device = &mut self.at_device[class(request)];
        *at_device = at_device.saturating_sub(1);
    }

    /// Wakes one waiter at a time, because limits may leave a kind of requests a single tag (`blk_mq_set_min_shallow_depth`).
    fn tags(&self, room: &Room) -> Option<Tags> {
        Some(Tags { depth: room.nr_requests, wake_batch: 1 })
    }

    fn open_tags(&self, depth: u32, request: &Request) -> u32 {
        if request.sync && !request.op.is_write() { depth } else { self.tuning.async_depth.min(depth) }
    }

    fn throttles_write_back(&self) -> bool {
        true
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
    }
}
