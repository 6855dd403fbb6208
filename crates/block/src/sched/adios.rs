//! ADIOS, the adaptive deadline scheduler of CachyOS's kernels: deadlines from a learned model of the device, and batches that the device
//! should complete within a time window.
//!
//! ```text
//!            deadline                                   sorted by deadline        batches, two pages
//! reads      arrival + lat_target_read  + prediction    reads    ─┐ by the bias   filled  reads │ writes │ discards
//! writes     arrival + lat_target_write + prediction    others   ─┴─────────────▶ served  reads │ writes │ discards ─▶ device
//!   sync.    arrival                                              while the predictions of all sent requests fit the window
//! ```
//! The next batch is filled when the one in service is empty, or when the predicted latency of the requests in batches and in flight falls
//! below a percentage of the window. Within a batch, reads go first, then writes.
//!
//! If both reads and others wait, reads go first until they have preceded others with earlier deadlines for long enough: the *bias* sums
//! the predicted latencies of such reads, weighted by the priority of reads, and reverses the order when it is used up.
//!
//! Until a read and a write of at most 4 KiB have completed, requests are dispatched in order of arrival; on a device that is only read,
//! always.
//!
//! A latency is the time between two completions, or from dispatch to completion if nothing else was in flight: the time for which a
//! request occupied the device, which shrinks as the device serves several at once.
//!
//! Differences from the source: it weights latencies of rotational devices by their seek distance and gives those a window of 22 ms, but
//! here a scheduler does not know the type of the device. A merged request counts with its whole size, while Linux keeps that of its first
//! part (most merging there precedes the scheduler). Each operation has its own latency buckets here. Flushes, which it treats as barriers,
//! do not arrive here.

use alloc::boxed::Box;
use alloc::vec::Vec;

use slab::Slab;

use super::{Insertion, Pick, Room, Scheduler, SchedulerSpec, Tags};
use crate::hash_index::HashIndex;
use crate::list::{Linked, Links, List};
use crate::queue::{Limits, Merging, Placed, Queue, Slot};
use crate::sorted::SortedList;
use crate::{Nanos, Op, Request, RequestId, Tunable, Unit, tunables};
use model::{Model, Shrinking};

mod model;

pub(super) static SPEC: SchedulerSpec = SchedulerSpec {
    name: "adios",
    summary: "deadlines by learned latencies, and batches that the device should complete within a window",
    source: "ADIOS 3.1.9, block/adios.c of its patch for Linux 6.18 (github.com/firelzrd/adios); not in mainline Linux",
    tunables: Tunables::TUNABLES,
    work_conserving: true,
    // Only the bias decides between reads and others, so neither has a bound.
    starvation_bound: None,
    knowledge: None,
    build: |limits, values| Box::new(Adios::new(limits, Tunables::of(values))),
};

tunables! {
    /// The tunables. Linux's ranges are wider where an upper limit has no meaning.
    #[derive(Clone, Copy)]
    struct Tunables {
        /// The predicted time of all requests in batches and at the device together. More means longer batches and longer waits.
        /// Linux's default is 22000000 for rotational devices.
        global_latency_window: u64 = Tunable::new(Unit::Nanoseconds, 0..=10_000_000_000, 16_000_000),
        /// A batch is also filled while the last one is served, when less than this share of the window is predicted for the requests sent.
        bq_refill_below_ratio: u64 = Tunable::new(Unit::Percent, 0..=100, 20),
        /// Longer latencies teach nothing.
        lat_model_latency_limit: Nanos = Tunable::new(Unit::Nanoseconds, 0..=2_000_000_000, 500_000_000),
        /// Order within a batch: 0 by operation, 1 synchronous writes first and the others by position. Linux takes 1 only for
        /// rotational devices.
        batch_order: bool = Tunable::flag(false),
        /// Whether deadlines leave out the predicted latency, so that requests of an operation leave in order of arrival.
        compliance_flags: bool = Tunable::flag(false),
        /// The most reads in a batch.
        batch_limit_read: u32 = Tunable::new(Unit::Count, 1..=1_024, 36).logarithmic(),
        /// The most writes in a batch.
        batch_limit_write: u32 = Tunable::new(Unit::Count, 1..=1_024, 72).logarithmic(),
        /// The most discards in a batch.
        batch_limit_discard: u32 = Tunable::new(Unit::Count, 1..=1_024, 1).logarithmic(),
        /// Time that a read may take beyond its prediction. A new value makes it forget reads and learn them again.
        lat_target_read: Nanos = Tunable::new(Unit::Nanoseconds, 0..=60_000_000_000, 2_000_000),
        /// Time that an asynchronous write may take beyond its prediction. A new value makes it forget writes and learn them again.
        lat_target_write: Nanos = Tunable::new(Unit::Nanoseconds, 0..=60_000_000_000, 2_000_000_000),
        /// Time that a discard may take beyond its prediction. A new value makes it forget discards and learn them again.
        lat_target_discard: Nanos = Tunable::new(Unit::Nanoseconds, 0..=60_000_000_000, 8_000_000_000),
        /// After this many thousand small requests the model forgets a part of its data.
        shrink_at_kreqs: u64 = Tunable::new(Unit::Count, 1..=100_000, 5_000).logarithmic(),
        /// The same after this many GiB of larger ones.
        shrink_at_gbytes: u64 = Tunable::new(Unit::Count, 1..=1_000, 50).logarithmic(),
        /// The part that it forgets: a half for 1, a quarter for 2, an eighth for 3.
        shrink_resist: u32 = Tunable::new(Unit::Count, 1..=3, 2),
        /// How long reads go before others with earlier deadlines, as a nice level from -20 to 19: a fifth less by each step down.
        read_priority: i64 = Tunable::new(Unit::Count, -20..=19, 8),
    }
}

/// Delay from a completion to the update of the models (`adios_completed_request`).
const UPDATE: Nanos = Nanos::from_millis(100);
/// Mask of a quantum of 2^20 ns, within which deadlines are equal (`ADIOS_QUANTUM_SHIFT`).
const QUANTUM: u64 = (1 << 20) - 1;

const OPS: usize = 3;
/// Lanes of the queue, and orders by deadline.
const READS: usize = 0;
const OTHERS: usize = 1;
/// With `batch_order`: the list of a batch that is sorted by position; list 0 is for synchronous writes.
const SORTED: usize = 1;

fn op_index(op: Op) -> usize {
    match op {
        Op::Read => 0,
        Op::Write => 1,
        Op::Discard => 2,
    }
}

fn lane(op: Op) -> usize {
    if op == Op::Read { READS } else { OTHERS }
}

/// The weight of a nice level in 1,024ths: each step up a fifth less than the previous one (`sched_prio_to_weight`, to a thousandth).
fn weight(nice: i64) -> u64 {
    let steps = nice.unsigned_abs() as u32;
    if nice < 0 { 1_024 * 5_u64.pow(steps) / 4_u64.pow(steps) } else { 1_024 * 4_u64.pow(steps) / 5_u64.pow(steps) }
}

impl Tunables {
    fn batch_limit(&self, op: Op) -> u32 {
        [self.batch_limit_read, self.batch_limit_write, self.batch_limit_discard][op_index(op)]
    }

    fn targets(&self) -> [Nanos; OPS] {
        [self.lat_target_read, self.lat_target_write, self.lat_target_discard]
    }

    fn shrinking(&self) -> Shrinking {
        Shrinking { at_kreqs: self.shrink_at_kreqs, at_gbytes: self.shrink_at_gbytes, resist: self.shrink_resist }
    }
}

/// A request from arrival to completion. Outside the queue it is in a list: in order of arrival, or in a batch.
struct Entry {
    /// As queued; once taken from the queue, including merged requests.
    request: Request,
    /// Its slot in the queue; `None` once it was taken from it.
    slot: Option<Slot>,
    deadline: u64,
    key: u128,
    /// Predicted latency in nanoseconds, set when it is taken from the queue.
    predicted: u64,
    links: Links,
}

impl Linked for Entry {
    fn links(&self) -> &Links {
        &self.links
    }

    fn links_mut(&mut self) -> &mut Links {
        &mut self.links
    }
}

/// A batch: a list for each operation, or with `batch_order` one in deadline order and one sorted by position.
#[derive(Clone, Copy, Default)]
struct Batch {
    lists: [List; OPS],
    is_sorted: bool,
    /// Whether the list sorted by position is served from its end.
    downwards: bool,
}

impl Batch {
    fn is_empty(&self) -> bool {
        self.lists.iter().all(List::is_empty)
    }
}

/// The latency models of the operations.
#[derive(Default)]
struct Models {
    by_op: [Model; OPS],
    /// Whether both the read and the write model have a base; from then on deadlines decide (`models_stable`).
    is_stable: bool,
    /// Time of the next update; `None` if no request has completed since the last.
    update_at: Option<Nanos>,
}

impl Models {
    fn of(&self, op: Op) -> &Model {
        &self.by_op[op_index(op)]
    }

    /// Updates the models if Linux's timer would have fired. Their inputs do not change before the next call.
    fn update(&mut self, now: Nanos, tuning: &Tunables) {
        let Some(at) = self.update_at.take_if(|at| *at <= now) else { return };
        let shrinking = tuning.shrinking();
        self.by_op.iter_mut().for_each(|model| model.update(at, &shrinking));
    }

    /// Adds the latency of a completed request and its prediction.
    fn add(&mut self, now: Nanos, request: &Request, latency: Nanos, predicted: u64, tuning: &Tunables) {
        self.by_op[op_index(request.op)].add(now, request.sectors, latency, predicted, &tuning.shrinking());
        self.update_at.get_or_insert(now + UPDATE);
    }

    /// Notices when both models have a base.
    fn judge_stability(&mut self) {
        self.is_stable = self.of(Op::Read).has_base() && self.of(Op::Write).has_base();
    }

    /// Starts again for operations whose latency target has changed.
    fn retune(&mut self, old: &Tunables, new: &Tunables) {
        for ((model, old), new) in self.by_op.iter_mut().zip(old.targets()).zip(new.targets()) {
            if old != new {
                *model = Model::default();
            }
        }
    }
}

/// All requests: queued, in lists, and in flight.
#[derive(Default)]
struct Entries {
    list: Slab<Entry>,
    by_id: HashIndex,
    number: u64,
    /// Number of requests in lists or in flight, and the sum of their predictions in nanoseconds.
    sent: u64,
    sent_predicted: u64,
}

impl Entries {
    fn add(&mut self, request: Request, slot: Option<Slot>, deadline: u64) -> u32 {
        // A host that reuses an id did not report the first request's completion.
        self.remove(request.id);
        let key = u128::from(deadline & !QUANTUM) << 64 | u128::from(self.number);
        self.number += 1;
        let entry = self.list.insert(Entry { request, slot, deadline, key, predicted: 0, links: Links::default() }) as u32;
        self.by_id.insert(u64::from(request.id), entry);
        entry
    }

    fn get(&self, number: u32) -> &Entry {
        &self.list[number as usize]
    }

    /// Removes a request that completed or was absorbed; `None` if the id is unknown.
    fn remove(&mut self, id: RequestId) -> Option<Entry> {
        let number = self.by_id.get(u64::from(id)).next()?;
        self.by_id.remove(u64::from(id), number);
        let entry = self.list.remove(number as usize);
        if entry.slot.is_none() {
            self.sent -= 1;
            self.sent_predicted -= entry.predicted;
        }
        Some(entry)
    }

    /// Counts a request as taken from the queue, with its prediction.
    fn send(&mut self, number: u32, predicted: u64) {
        let entry = &mut self.list[number as usize];
        (entry.slot, entry.predicted) = (None, predicted);
        self.sent += 1;
        self.sent_predicted += predicted;
    }

    /// Forgets all requests.
    fn clear(&mut self) {
        *self = Entries { number: self.number, ..Entries::default() };
    }
}

struct Adios {
    tuning: Tunables,
    models: Models,
    queue: Queue,
    entries: Entries,
    /// Queued requests by deadline and number: reads, and others.
    deadlines: [SortedList; 2],
    /// Negative if others go first; in nanoseconds of weighted predictions.
    bias: i64,
    /// Requests in order of arrival, which are served first; filled until the models are stable.
    first_come: List,
    batches: [Batch; 2],
    /// The batch in service.
    serving: usize,
    /// Time of the last completion; `None` if no request was in a list or in flight after it.
    last_completed: Option<Nanos>,
    /// End of the last dispatched request.
    head: u64,
    /// Buffer for sorting a batch: first sector, previous index, number.
    places: Vec<(u64, usize, u32)>,
}

impl Adios {
    fn new(limits: &Limits, tuning: Tunables) -> Adios {
        Adios {
            tuning,
            models: Models::default(),
            queue: Queue::new(*limits, Merging { front: true, within_stream: false }),
            entries: Entries::default(),
            deadlines: Default::default(),
            bias: 0,
            first_come: List::new(),
            batches: Default::default(),
            serving: 0,
            last_completed: None,
            head: 0,
            places: Vec::new(),
        }
    }

    /// The deadline in nanoseconds (`add_to_dl_tree`). Linux checks `REQ_SYNC`, which is set on synchronous writes but not on reads.
    fn deadline(&self, request: &Request) -> u64 {
        if request.op != Op::Read && request.sync {
            return request.arrival.0;
        }
        let predicted = if self.tuning.compliance_flags { 0 } else { self.models.of(request.op).predict(request.sectors) };
        request.arrival.0.saturating_add(self.tuning.targets()[op_index(request.op)].0).saturating_add(predicted)
    }

    fn add_entry(&mut self, request: Request, slot: Option<Slot>) -> u32 {
        let deadline = self.deadline(&request);
        self.entries.add(request, slot, deadline)
    }

    /// The request that enters the batch next: its lane, its number, and whether it shifts the bias, because it precedes an earlier
    /// deadline of the other lane, or because it is of the favoured lane and the other one is empty.
    fn next(&self) -> Option<(usize, u32, bool)> {
        let first = |lane: usize| self.deadlines[lane].first().map(|(_, number)| number);
        let favoured = if self.bias < 0 { OTHERS } else { READS };
        match (first(favoured), first(1 - favoured)) {
            (Some(number), Some(other)) => {
                let deadline = |number: u32| self.entries.get(number).deadline;
                Some((favoured, number, deadline(number) > deadline(other)))
            }
            (Some(number), None) => Some((favoured, number, true)),
            (None, other) => other.map(|number| (1 - favoured, number, false)),
        }
    }

    /// Shifts the bias away from a lane by the weighted prediction of a request.
    fn turn_bias(&mut self, lane: usize, predicted: u64) {
        let (sign, nice) = if lane == READS { (-1, self.tuning.read_priority) } else { (1, 0) };
        if predicted == 0 {
            self.bias = sign;
        } else {
            let step = (u128::from(predicted) * u128::from(weight(nice))) >> 10;
            self.bias = self.bias.saturating_add(sign * i64::try_from(step).unwrap_or(i64::MAX));
        }
    }

    /// Fills the batch that is not in service as long as the predictions fit the window, with at least one request (`fill_batch_queues`).
    fn fill(&mut self) {
        let page = 1 - self.serving;
        let is_sorted = self.tuning.batch_order;
        self.batches[page] = Batch { is_sorted, ..Batch::default() };
        let mut counts = [0_u32; OPS];
        while let Some((lane, number, is_early)) = self.next() {
            let entry = self.entries.get(number);
            let Some(slot) = entry.slot else { return };
            let (op, key, is_late) = (entry.request.op, entry.key, entry.deadline != entry.request.arrival.0);
            let predicted = self.models.of(op).predict(self.queue.request(slot).sectors);
            let exceeds = self.entries.sent_predicted.saturating_add(predicted) > self.tuning.global_latency_window;
            let is_full = !self.models.of(op).has_base() || counts[op_index(op)] >= self.tuning.batch_limit(op) || exceeds;
            if is_full && counts != [0; OPS] {
                break;
            }
            if is_early {
                self.turn_bias(lane, predicted);
            }
            self.deadlines[lane].remove(key);
            self.entries.list[number as usize].request = self.queue.take(slot);
            self.entries.send(number, predicted);
            let list = if is_sorted { usize::from(is_late) } else { op_index(op) };
            self.batches[page].lists[list].push_back(&mut self.entries.list, number);
            counts[op_index(op)] += 1;
        }
        // As in Linux, a batch with at most one write is not sorted.
        if is_sorted && counts[op_index(Op::Write)] > 1 {
            self.sort(page);
        }
    }

    /// Sorts the part of a batch that is ordered by position.
    fn sort(&mut self, page: usize) {
        let list = &mut self.batches[page].lists[SORTED];
        self.places.clear();
        while let Some(number) = list.pop_front(&mut self.entries.list) {
            self.places.push((self.entries.get(number).request.lba, self.places.len(), number));
        }
        self.places.sort_unstable();
        for &(_, _, number) in &self.places {
            list.push_back(&mut self.entries.list, number);
        }
    }

    /// Switches service to the other batch; one sorted by position is served from the end nearer to the head (`update_elv_direction`).
    fn flip(&mut self) {
        self.serving = 1 - self.serving;
        let batch = &mut self.batches[self.serving];
        let list = &batch.lists[SORTED];
        if batch.is_sorted
            && let (Some(first), Some(last)) = (list.first(), list.last())
        {
            let lba = |number: u32| self.entries.get(number).request.lba;
            batch.downwards = self.head > lba(first) / 2 + lba(last) / 2;
        }
    }

    /// The next request of the batch in service.
    fn pop(&mut self) -> Option<u32> {
        let batch = &mut self.batches[self.serving];
        let index = batch.lists.iter().position(|list| !list.is_empty())?;
        let list = &mut batch.lists[index];
        if batch.is_sorted && batch.downwards && index == SORTED {
            let last = list.last()?;
            list.remove(&mut self.entries.list, last);
            return Some(last);
        }
        list.pop_front(&mut self.entries.list)
    }

    /// The next request to dispatch, after filling and switching batches as needed (`dispatch_from_bq`).
    fn next_of_batches(&mut self) -> Option<u32> {
        let is_served = self.batches[self.serving].is_empty();
        let refill_below = self.tuning.global_latency_window.saturating_mul(self.tuning.bq_refill_below_ratio) / 100;
        let is_low = self.entries.sent_predicted == 0 || self.entries.sent_predicted < refill_below;
        if self.batches[1 - self.serving].is_empty() && (is_served || is_low) {
            self.fill();
        }
        if is_served {
            self.flip();
        }
        self.pop()
    }
}

impl Scheduler for Adios {
    fn insert(&mut self, now: Nanos, request: Request) -> Insertion {
        self.models.update(now, &self.tuning);
        if !self.models.is_stable {
            let number = self.add_entry(request, None);
            let predicted = self.models.of(request.op).predict(request.sectors);
            self.entries.send(number, predicted);
            self.first_come.push_back(&mut self.entries.list, number);
            self.models.judge_stability();
            return Insertion::Queued;
        }
        let lane = lane(request.op);
        let placed = self.queue.insert(lane, Nanos::ZERO, request);
        match placed {
            Placed::Queued(slot) => {
                let number = self.add_entry(request, Some(slot));
                self.deadlines[lane].insert(self.entries.get(number).key, number);
            }
            Placed::Merged { absorbed: Some(absorbed), .. } => {
                if let Some(entry) = self.entries.remove(absorbed.id) {
                    self.deadlines[lane].remove(entry.key);
                }
            }
            Placed::Merged { absorbed: None, .. } => {}
        }
        placed.into()
    }

    fn pick(&mut self, now: Nanos) -> Pick {
        self.models.update(now, &self.tuning);
        let next = self.first_come.pop_front(&mut self.entries.list).or_else(|| self.next_of_batches());
        let Some(number) = next else { return Pick::Empty };
        let request = self.entries.get(number).request;
        self.head = request.end();
        Pick::Go(request)
    }

    fn completed(&mut self, now: Nanos, request: &Request, service: Nanos) {
        self.models.update(now, &self.tuning);
        let Some(entry) = self.entries.remove(request.id) else { return };
        let since = self.last_completed.unwrap_or(now - service);
        self.last_completed = (self.entries.sent > 0).then_some(now);
        let latency = now - since;
        if latency > self.tuning.lat_model_latency_limit {
            return;
        }
        self.models.add(now, request, latency, entry.predicted, &self.tuning);
    }

    /// Wakes one waiter at a time (`adios_depth_updated`).
    fn tags(&self, room: &Room) -> Option<Tags> {
        Some(Tags { depth: room.nr_requests, wake_batch: 1 })
    }

    fn throttles_write_back(&self) -> bool {
        true
    }

    fn retune(&mut self, values: &[i64]) {
        let (old, new) = (self.tuning, Tunables::of(values));
        self.models.retune(&old, &new);
        if old.read_priority != new.read_priority {
            self.bias = 0;
        }
        self.tuning = new;
    }

    fn set_limits(&mut self, limits: &Limits) {
        self.queue.set_limits(limits);
    }

    fn drain(&mut self, out: &mut Vec<Request>) {
        let begin = out.len();
        let batched = self.batches.iter_mut().flat_map(|batch| &mut batch.lists);
        for list in core::iter::once(&mut self.first_come).chain(batched) {
            while let Some(number) = list.pop_front(&mut self.entries.list) {
                out.push(self.entries.get(number).request);
            }
        }
        self.queue.drain(out);
        out[begin..].sort_by_key(|request| request.arrival);
        // The models are kept. Completions of requests in flight are no longer reported.
        self.entries.clear();
        (self.deadlines, self.last_completed) = Default::default();
    }
}
