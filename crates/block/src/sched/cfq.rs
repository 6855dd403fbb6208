//! Completely fair queueing: each process has its own queue, and queues are served in time slices, which are longer at better priority.
//!
//! ```text
//! class        kind of work       queues, by due time of their next slice (round robin)
//! real time    async              shared, one per priority level
//!              sync, seeky        one per process; no idling between their slices
//!              sync               one per process; after a request the disk idles for slice_idle
//! best effort  the same three
//! idle         one tree           served only if no other class has requests
//! ```
//!
//! The best class is served first, and in it the kind of work whose first queue is due first; service stays with that kind for its share of
//! `target_latency`. Left out of the kernel's CFQ: groups, merging the queues of close cooperators, the metadata and no-idle hints, and the
//! rules for non-rotational disks, as a [`Request`] has none of these. A process that uses several priorities has a queue for each.

mod process_queue;
mod tuning;

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{ASYNC, COMPLETION_BACKSTOP, Insertion, Pick, SYNC, Scheduler, SchedulerSpec};
use crate::directory::Directory;
use crate::queue::{Limits, Merging, Placed, Queue, Slot};
use crate::sorted::SortedList;
use crate::{Nanos, Priority, PriorityClass, Request};
use process_queue::{ENOUGH_SAMPLES, ProcessQueue, SEEK_THRESHOLD, Slice, SliceClock, ThinkTime, WORKS, WorkloadType};
use tuning::{Tunables, Tuning};

pub(super) static SPEC: SchedulerSpec = SchedulerSpec {
    name: "cfq",
    summary: "a queue for each process, time slices by priority, and a short idle at the end of a slice",
    source: "Linux 4.x block/cfq-iosched.c",
    tunables: Tunables::TUNABLES,
    work_conserving: false,
    starvation_bound: None,
    knowledge: None,
    build: |limits, values| Box::new(Cfq::new(limits, values)),
};

/// Priority levels in a class (`IOPRIO_BE_NR`).
const LEVELS: usize = 8;
/// Shared queues come first: eight of real time and eight of best effort, one per level, and one idle. The queues of processes follow.
const SHARED_QUEUES: usize = 2 * LEVELS + 1;
/// A request within this distance of the head, in sectors, may use the idle time of another queue (`CFQQ_CLOSE_THR`).
const CLOSE_THRESHOLD: u64 = 8 * 1024;
/// Minimum time for one kind of work (`CFQ_MIN_TT`, in jiffies of 1 ms).
const MIN_WORK_TIME: Nanos = Nanos::from_millis(2);
/// Interval between slices of idle-class queues (`CFQ_IDLE_DELAY`), and the lead of a preempting queue over the first one.
const IDLE_DELAY: i64 = 200_000_000;
const FRONT_LEAD: i64 = 1_000_000_000;

/// Index of a service tree: class and kind of work; the idle class has one tree for all kinds.
fn tree_of(class: PriorityClass, work: WorkloadType) -> usize {
    match class {
        PriorityClass::RealTime => work as usize,
        PriorityClass::BestEffort => 3 + work as usize,
        PriorityClass::Idle => 6,
    }
}

const TREES: usize = 7;

/// Due time of a queue's slice, and a counter that orders queues with equal times.
#[derive(Clone, Copy)]
struct Turn {
    due: i64,
    count: u64,
}

impl Turn {
    fn key(self) -> u128 {
        // Flipping the sign bit makes the unsigned order that of the signed numbers.
        u128::from(self.due as u64 ^ 1 << 63) << 64 | u128::from(self.count)
    }
}

/// Queues that wait for their slice, and the one in service.
#[derive(Default)]
struct ServiceTree {
    queues: SortedList,
    think: ThinkTime,
}

/// Due time of the slice with this key.
fn due(key: u128) -> i64 {
    ((key >> 64) as u64 ^ 1 << 63) as i64
}

/// Numbers of queues in the trees.
#[derive(Default)]
struct Busy {
    all: usize,
    sync: usize,
    /// Decaying averages by class: real time, best effort (`busy_queues_avg`).
    average: [u64; 2],
}

impl Busy {
    fn begin(&mut self, is_sync: bool) {
        self.all += 1;
        self.sync += usize::from(is_sync);
    }

    fn end(&mut self, is_sync: bool) {
        self.all -= 1;
        self.sync -= usize::from(is_sync);
    }

    fn average(&self, class: PriorityClass) -> u64 {
        self.average[usize::from(class == PriorityClass::BestEffort)]
    }

    /// Adds the present number of a class to its average, and returns that.
    fn learn(&mut self, class: PriorityClass, busy: u64) -> u64 {
        let average = &mut self.average[usize::from(class == PriorityClass::BestEffort)];
        *average = (3 * busy.max(*average) + busy.min(*average) + 2) / 4;
        *average
    }
}

struct Cfq {
    tuning: Tuning,
    /// One lane per queue, with the same number.
    requests: Queue,
    queues: Vec<ProcessQueue>,
    directory: Directory,
    trees: [ServiceTree; TREES],
    turns: u64,
    busy: Busy,
    active: Option<usize>,
    /// End of idling for the active queue; `None` if the disk is not kept idle.
    idle_until: Option<Nanos>,
    serving: (PriorityClass, WorkloadType),
    work_ends: Option<Nanos>,
    at_device: [u32; 2],
    /// End of the last dispatched request.
    head: u64,
    /// Completion time of the last synchronous request that had waited longer than `fifo_expire_sync`.
    last_delayed_sync: Option<Nanos>,
}

fn signed(time: Nanos) -> i64 {
    i64::try_from(time.0).unwrap_or(i64::MAX)
}

/// Whole microseconds, as products of spans in nanoseconds would overflow; tunables are whole milliseconds.
fn micros(span: Nanos) -> u64 {
    span.0 / 1_000
}

impl Cfq {
    fn new(limits: &Limits, values: &[i64]) -> Cfq {
        let shared = (0..SHARED_QUEUES).map(|number| match (number / LEVELS, (number % LEVELS) as u8) {
            (0, level) => ProcessQueue::new(Nanos::ZERO, ASYNC, PriorityClass::RealTime, level),
            (1, level) => ProcessQueue::new(Nanos::ZERO, ASYNC, PriorityClass::BestEffort, level),
            _ => ProcessQueue::new(Nanos::ZERO, ASYNC, PriorityClass::Idle, LEVELS as u8 - 1),
        });
        Cfq {
            tuning: Tuning::new(values),
            requests: Queue::new(*limits, Merging { front: true, within_stream: false }),
            queues: shared.collect(),
            directory: Directory::default(),
            trees: core::array::from_fn(|_| ServiceTree::default()),
            turns: 0,
            busy: Busy::default(),
            active: None,
            idle_until: None,
            serving: (PriorityClass::BestEffort, WorkloadType::Sync),
            work_ends: None,
            at_device: [0; 2],
            head: 0,
            last_delayed_sync: None,
        }
    }

    // Mapping requests to queues.

    /// The key of a process in the directory: stream and priority.
    fn key(request: &Request) -> u64 {
        let class = match request.priority.class {
            PriorityClass::RealTime => 0,
            PriorityClass::BestEffort => 1,
            PriorityClass::Idle => 2,
        };
        u64::from(request.stream) | (class * LEVELS as u64 + u64::from(level_of(request.priority))) << 32
    }

    fn shared_queue(priority: Priority) -> usize {
        match priority.class {
            PriorityClass::RealTime => usize::from(level_of(priority)),
            PriorityClass::BestEffort => LEVELS + usize::from(level_of(priority)),
            PriorityClass::Idle => 2 * LEVELS,
        }
    }

    /// Finds or creates the queue of an arriving request and holds it.
    fn admit(&mut self, now: Nanos, request: &Request) -> usize {
        if !request.is_sync() {
            return Cfq::shared_queue(request.priority);
        }
        let (index, fresh) = self.directory.hold(Cfq::key(request));
        let number = SHARED_QUEUES + index;
        let queue = || ProcessQueue::new(now, SYNC, request.priority.class, level_of(request.priority));
        if number == self.queues.len() {
            self.queues.push(queue());
        } else if fresh {
            self.queues[number] = queue();
        }
        number
    }

    /// The queue of a request that was admitted before.
    fn queue_of(&self, request: &Request) -> Option<usize> {
        if !request.is_sync() {
            return Some(Cfq::shared_queue(request.priority));
        }
        self.directory.find(Cfq::key(request)).map(|index| SHARED_QUEUES + index)
    }

    fn hold(&mut self, number: usize) {
        if let Some(index) = number.checked_sub(SHARED_QUEUES) {
            self.directory.hold_number(index);
        }
    }

    fn release(&mut self, number: usize) {
        if let Some(index) = number.checked_sub(SHARED_QUEUES) {
            self.directory.release(index);
        }
    }

    // The round robin.

    /// Due time of a queue's next slice in a tree (`cfq_service_tree_add`).
    fn next_turn(&self, now: Nanos, number: usize, tree: usize) -> i64 {
        let queue = &self.queues[number];
        if queue.class == PriorityClass::Idle {
            let last = self.trees[tree].queues.last().filter(|&(_, last)| last as usize != number);
            return last.map_or(signed(now), |(key, _)| due(key)).saturating_add(IDLE_DELAY);
        }
        let others = i64::try_from(self.busy.all.saturating_sub(1)).unwrap_or(i64::MAX);
        let handicap = signed(self.tuning.slice(SYNC, 0)) - signed(self.tuning.slice(queue.kind, queue.level));
        others.saturating_mul(handicap).saturating_add(signed(now)).saturating_sub(queue.residue)
    }

    fn wait_in_tree(&mut self, number: usize, tree: usize, due: i64) {
        self.leave_tree(number);
        let turn = Turn { due, count: self.turns };
        self.turns += 1;
        self.trees[tree].queues.insert(turn.key(), number as u32);
        self.queues[number].waiting = Some((tree, turn));
        self.busy.begin(self.queues[number].is_sync());
    }

    fn leave_tree(&mut self, number: usize) {
        if let Some((tree, turn)) = self.queues[number].waiting.take() {
            self.trees[tree].queues.remove(turn.key());
            self.busy.end(self.queues[number].is_sync());
        }
    }

    /// Inserts a queue into the round robin, or moves it to its new position.
    fn enqueue(&mut self, now: Nanos, number: usize) {
        let queue = &self.queues[number];
        let tree = tree_of(queue.class, queue.work());
        // The queue itself is not among the others, whether it is in the tree or new.
        self.busy.all += usize::from(queue.waiting.is_none());
        let due = self.next_turn(now, number, tree);
        self.busy.all -= usize::from(self.queues[number].waiting.is_none());
        self.queues[number].residue = 0;
        self.wait_in_tree(number, tree, due);
    }

    /// Inserts a queue ahead of all others in its tree.
    fn enqueue_first(&mut self, now: Nanos, number: usize) {
        let queue = &self.queues[number];
        let tree = tree_of(queue.class, queue.work());
        let first = self.trees[tree].queues.first().map_or(signed(now), |(key, _)| due(key));
        self.wait_in_tree(number, tree, first.saturating_sub(FRONT_LEAD));
    }

    fn has_requests(&self, number: usize) -> bool {
        self.requests.lane_len(number) > 0
    }

    fn busy_in_class(&self, class: PriorityClass) -> usize {
        WORKS.iter().map(|&work| self.trees[tree_of(class, work)].queues.len()).sum()
    }

    // Slices.

    /// The slice of a queue, shortened if many synchronous queues share the disk (`cfq_scaled_cfqq_slice`).
    fn scaled_slice(&mut self, number: usize) -> Nanos {
        let (kind, level, class) = (self.queues[number].kind, self.queues[number].level, self.queues[number].class);
        let slice = self.tuning.slice(kind, level);
        if !self.tuning.low_latency || class == PriorityClass::Idle {
            return slice;
        }
        let busy = self.busy_in_class(class) as u64;
        let average = self.busy.learn(class, busy);
        let expected = micros(self.tuning.slice[SYNC]).saturating_mul(average);
        let target = micros(self.tuning.target_latency);
        if expected <= target {
            return slice;
        }
        let low = (2 * micros(self.tuning.slice_idle) * micros(slice) / micros(self.tuning.slice[SYNC])).min(micros(slice));
        Nanos::from_micros((micros(slice) * target / expected).max(low))
    }

    /// Ends the slice of the active queue (`cfq_slice_expired`); with `keep_rest`, its remaining time counts for its next slice.
    fn end_turn(&mut self, now: Nanos, keep_rest: bool) {
        let Some(number) = self.active.take() else { return };
        self.idle_until = None;
        if keep_rest {
            self.queues[number].residue = match self.queues[number].slice.clock {
                None => signed(self.scaled_slice(number)),
                Some(clock) => signed(clock.end).saturating_sub(signed(now)),
            };
        }
        if self.has_requests(number) {
            self.enqueue(now, number);
        } else {
            self.leave_tree(number);
            if self.busy.all == 0 {
                self.work_ends = None;
            }
        }
        self.release(number);
    }

    fn begin_turn(&mut self, number: usize) {
        self.hold(number);
        self.queues[number].slice = Slice::default();
        self.idle_until = None;
        self.active = Some(number);
    }

    /// Selects the class and kind of work to serve (`choose_wl_class_and_type`). Keeps the current ones until their time is over or they
    /// have no queues.
    fn choose_work(&mut self, now: Nanos) {
        let classes = [PriorityClass::RealTime, PriorityClass::BestEffort];
        let Some(class) = classes.into_iter().find(|&class| self.busy_in_class(class) > 0) else {
            self.serving.0 = PriorityClass::Idle;
            return;
        };
        let continues = class == self.serving.0
            && self.work_ends.is_some_and(|end| now <= end)
            && !self.trees[tree_of(class, self.serving.1)].queues.is_empty();
        if continues {
            return;
        }
        let firsts = WORKS.into_iter().filter_map(|work| Some((due(self.trees[tree_of(class, work)].queues.first()?.0), work)));
        // At equal due times the first kind wins, as in the kernel's comparison.
        let next = firsts.min_by_key(|&(due, _)| due);
        self.serving = (class, next.map_or(WorkloadType::SyncSeeky, |(_, work)| work));
        self.work_ends = Some(now + self.work_time());
    }

    /// Time for the selected kind of work: its share of the target latency.
    fn work_time(&self) -> Nanos {
        let (class, work) = self.serving;
        let queues = self.trees[tree_of(class, work)].queues.len() as u64;
        let average = self.busy.average(class);
        let target = micros(self.tuning.target_latency);
        let share = target.saturating_mul(queues) / average.max(self.busy_in_class(class) as u64).max(1);
        let time = match work {
            WorkloadType::Async => {
                let share = share.min(target.saturating_mul(queues) / (self.busy.all as u64).max(1));
                share * micros(self.tuning.slice[ASYNC]) / micros(self.tuning.slice[SYNC])
            }
            WorkloadType::Sync | WorkloadType::SyncSeeky => share.max(2 * micros(self.tuning.slice_idle)),
        };
        Nanos::from_micros(time).max(MIN_WORK_TIME)
    }

    /// The queue whose request to dispatch; `None` if it is better to wait (`cfq_select_queue`).
    fn select_queue(&mut self, now: Nanos) -> Option<usize> {
        if let Some(number) = self.active {
            if !self.queues[number].slice_used(now) {
                if self.has_requests(number) {
                    return Some(number);
                }
                if self.idle_until.is_some() {
                    return None;
                }
                self.stop_idling_for_deep_seeker(now, number);
                if self.queues[number].at_device > 0 && self.should_idle(number) {
                    return None;
                }
            }
            self.end_turn(now, false);
        }
        self.choose_work(now);
        let (_, number) = self.trees[tree_of(self.serving.0, self.serving.1)].queues.first()?;
        let number = number as usize;
        self.begin_turn(number);
        Some(number)
    }

    /// Stops idling for a seeky queue that was exempt because it was deep, but ran empty with most of its slice left.
    fn stop_idling_for_deep_seeker(&mut self, now: Nanos, number: usize) {
        let queue = &mut self.queues[number];
        let fast = queue.slice.clock.is_none_or(|clock| clock.end - now > now - clock.start);
        if queue.is_seeky() && queue.idles && fast {
            queue.deep = false;
            queue.idles = false;
        }
    }

    /// Whether to idle for the next request of a queue (`cfq_should_idle`).
    fn should_idle(&self, number: usize) -> bool {
        let queue = &self.queues[number];
        if self.tuning.slice_idle == Nanos::ZERO || queue.class == PriorityClass::Idle {
            return false;
        }
        if queue.idles {
            return true;
        }
        let Some((tree, _)) = queue.waiting else { return false };
        // The last seeky queue of its tree stands for all of them.
        let tree = &self.trees[tree];
        queue.is_sync() && tree.queues.len() == 1 && !tree.think.exceeds(self.tuning.slice_idle)
    }

    /// Whether the active queue may dispatch one more request (`cfq_may_dispatch`). If not, requests are in flight.
    fn may_dispatch(&self, now: Nanos, number: usize) -> bool {
        let queue = &self.queues[number];
        if (self.at_device[ASYNC] > 0 && self.should_idle(number)) || (self.at_device[SYNC] > 0 && !queue.is_sync()) {
            return false;
        }
        let mut most = if queue.class == PriorityClass::Idle { 1 } else { (self.tuning.quantum / 2).max(1) };
        if queue.at_device >= most {
            let only_sync = queue.is_sync() && self.busy.sync == 1;
            if queue.class == PriorityClass::Idle || (self.busy.all > 1 && self.slice_used_soon(now, queue) && !only_sync) {
                return false;
            }
            most = if self.busy.all == 1 || only_sync { u32::MAX } else { self.tuning.quantum };
        }
        if !queue.is_sync() && self.tuning.low_latency {
            most = most.min(self.async_depth(now, queue));
        }
        queue.at_device < most
    }

    fn slice_used_soon(&self, now: Nanos, queue: &ProcessQueue) -> bool {
        let expected = Nanos(self.tuning.slice_idle.0.saturating_mul(u64::from(queue.at_device)));
        queue.slice.clock.is_none_or(|clock| now + expected > clock.end)
    }

    /// Limit of asynchronous requests in flight: one more for each `slice_sync` since a synchronous one was last delayed.
    fn async_depth(&self, now: Nanos, queue: &ProcessQueue) -> u32 {
        let Some(delayed) = self.last_delayed_sync else { return u32::MAX };
        let depth = (now - delayed).0 / self.tuning.slice[SYNC].0;
        let depth = if depth == 0 && queue.at_device == 0 { 1 } else { depth };
        u32::try_from(depth).unwrap_or(u32::MAX)
    }

    /// The next request of a queue: its oldest if that has expired, checked once per slice; otherwise the next in its sweep.
    fn select_request(&mut self, now: Nanos, number: usize) -> Option<Slot> {
        let queue = &mut self.queues[number];
        if !core::mem::replace(&mut queue.slice.oldest_checked, true) {
            let oldest = self.requests.oldest(number).filter(|&slot| self.requests.expires(slot) <= now);
            if oldest.is_some() {
                return oldest;
            }
        }
        let from = queue.last_served_end.unwrap_or(self.head);
        self.requests.nearest(number, from, self.tuning.back_seek_max_sectors, self.tuning.back_seek_penalty)
    }

    fn dispatch(&mut self, now: Nanos, number: usize, slot: Slot) -> Request {
        let request = self.requests.take(slot);
        self.head = request.end();
        let queue = &mut self.queues[number];
        queue.last_served_end = Some(self.head);
        queue.at_device += 1;
        queue.slice.dispatched += 1;
        self.at_device[queue.kind] += 1;
        let (class, level, sent, sync) = (queue.class, queue.level, queue.slice.dispatched, queue.is_sync());
        let spent = class == PriorityClass::Idle || (!sync && sent >= self.tuning.async_requests(level));
        if self.busy.all > 1 && spent {
            self.end_turn(now, false);
        }
        request
    }

    // Idling.

    /// Ends idling that is over, as the kernel's timer does (`cfq_idle_slice_timer`).
    fn end_overdue_idling(&mut self, now: Nanos) {
        let (Some(number), Some(end)) = (self.active, self.idle_until) else { return };
        if now < end {
            return;
        }
        self.idle_until = None;
        // No other queue has requests, so the queue keeps its slice.
        if self.requests.is_empty() && !self.queues[number].slice_used(now) {
            return;
        }
        self.queues[number].deep = false;
        self.end_turn(now, false);
    }

    /// Begins idling for the next request of the active queue, if worthwhile (`cfq_arm_slice_timer`).
    fn begin_idling(&mut self, now: Nanos, number: usize) {
        let queue = &self.queues[number];
        if !self.should_idle(number) || queue.at_device > 0 {
            return;
        }
        let left = queue.slice.clock.map_or(Nanos::ZERO, |clock| clock.end - now);
        if queue.think.exceeds(left) {
            return;
        }
        self.idle_until = Some(now + self.tuning.slice_idle);
    }

    // Arrivals.

    /// Updates the think time and seek history of a process from a request (`cfq_update_io_thinktime`, `cfq_update_io_seektime`).
    fn learn(&mut self, now: Nanos, number: usize, request: &Request) {
        let slice_idle = self.tuning.slice_idle;
        let queue = &mut self.queues[number];
        if queue.is_sync() {
            queue.think.request_arrived(now, slice_idle);
            if let Some((tree, _)) = queue.waiting {
                self.trees[tree].think.request_arrived(now, slice_idle);
            }
        }
        let distance = queue.last_arrived_end.map_or(0, |end| end.abs_diff(request.lba));
        queue.seek_history = queue.seek_history << 1 | u32::from(distance > SEEK_THRESHOLD);
        queue.last_arrived_end = Some(request.end());
        self.update_idling(number);
    }

    /// Decides whether to idle for the process: not if it thinks too long or seeks too much (`cfq_update_idle_window`).
    fn update_idling(&mut self, number: usize) {
        let waiting = self.requests.lane_len(number);
        let slice_idle = self.tuning.slice_idle;
        let queue = &mut self.queues[number];
        if !queue.is_sync() || queue.class == PriorityClass::Idle {
            return;
        }
        queue.deep |= waiting >= 4;
        if slice_idle == Nanos::ZERO || (!queue.deep && queue.is_seeky()) {
            queue.idles = false;
        } else if queue.think.pauses.samples() > ENOUGH_SAMPLES {
            queue.idles = !queue.think.exceeds(slice_idle);
        }
    }

    /// Whether a queue that received `request` preempts the active one (`cfq_should_preempt`).
    fn should_preempt(&self, now: Nanos, active: usize, newcomer: usize, request: &Request) -> bool {
        let (old, new) = (&self.queues[active], &self.queues[newcomer]);
        let real_time = |queue: &ProcessQueue| queue.class == PriorityClass::RealTime;
        if new.class == PriorityClass::Idle || old.class == PriorityClass::Idle {
            return new.class != PriorityClass::Idle;
        }
        if real_time(old) && !real_time(new) {
            return false;
        }
        if (new.is_sync() && !old.is_sync()) || old.slice_used(now) || (real_time(new) && !real_time(old)) {
            return true;
        }
        let dry = !self.has_requests(active);
        // The disk idles for a seeky queue on behalf of all of them, including this one.
        let two_seeky = new.waiting.is_some_and(|(tree, _)| self.trees[tree].queues.len() == 2);
        if self.serving.1 == WorkloadType::SyncSeeky && new.work() == WorkloadType::SyncSeeky && two_seeky && dry {
            return true;
        }
        if dry && !self.should_idle(active) {
            return true;
        }
        self.idle_until.is_some() && old.slice.dispatched > 0 && request.lba.abs_diff(self.head) <= CLOSE_THRESHOLD
    }

    /// Ends the slice of the active queue and puts another one first (`cfq_preempt_queue`).
    fn preempt(&mut self, now: Nanos, active: usize, newcomer: usize) {
        let other_work = self.queues[active].work() != self.queues[newcomer].work();
        self.end_turn(now, true);
        if other_work {
            self.work_ends = None;
        }
        self.enqueue_first(now, newcomer);
    }

    fn enqueued(&mut self, now: Nanos, number: usize, request: &Request) {
        if self.queues[number].waiting.is_none() {
            self.enqueue(now, number);
        }
        self.learn(now, number, request);
        match self.active {
            Some(active) if active == number => self.idle_until = None,
            Some(active) if self.should_preempt(now, active, number, request) => self.preempt(now, active, number),
            _ => {}
        }
    }

    /// Starts, continues or ends the slice of the active queue after a completion of its request.
    fn advance_turn(&mut self, now: Nanos, number: usize) {
        if self.queues[number].slice.clock.is_none() {
            let slice = self.scaled_slice(number);
            self.queues[number].slice.clock = Some(SliceClock { start: now, end: now + slice });
        }
        if self.queues[number].slice_used(now) || self.queues[number].class == PriorityClass::Idle {
            self.end_turn(now, true);
        } else if self.queues[number].is_sync() && !self.has_requests(number) {
            self.begin_idling(now, number);
        }
    }
}

fn level_of(priority: Priority) -> u8 {
    match priority.class {
        PriorityClass::Idle => LEVELS as u8 - 1,
        _ => priority.level.min(LEVELS as u8 - 1),
    }
}

impl Scheduler for Cfq {
    fn insert(&mut self, now: Nanos, request: Request) -> Insertion {
        self.end_overdue_idling(now);
        let number = self.admit(now, &request);
        let expires = request.arrival.min(now) + self.tuning.fifo_expire[self.queues[number].kind];
        let placed = self.requests.insert(number, expires, request);
        match placed {
            Placed::Queued(_) => self.enqueued(now, number, &request),
            Placed::Merged { absorbed, .. } => {
                self.release(number);
                if absorbed.is_some() {
                    self.release(number);
                }
            }
        }
        placed.into()
    }

    fn pick(&mut self, now: Nanos) -> Pick {
        if self.requests.is_empty() {
            return Pick::Empty;
        }
        self.end_overdue_idling(now);
        if let Some(number) = self.select_queue(now)
            && self.may_dispatch(now, number)
            && let Some(slot) = self.select_request(now, number)
        {
            return Pick::Go(self.dispatch(now, number, slot));
        }
        Pick::WaitUntil(self.idle_until.unwrap_or(now + COMPLETION_BACKSTOP))
    }

    fn completed(&mut self, now: Nanos, request: &Request, _service: Nanos) {
        let known = self.queue_of(request).filter(|&number| self.queues[number].at_device > 0);
        let Some(number) = known else { return };
        self.end_overdue_idling(now);
        let queue = &mut self.queues[number];
        queue.at_device -= 1;
        self.at_device[queue.kind] -= 1;
        if queue.is_sync() {
            queue.think.last_completion = now;
            let tree = queue.waiting.map_or(tree_of(queue.class, queue.work()), |(tree, _)| tree);
            self.trees[tree].think.last_completion = now;
            if request.arrival + self.tuning.fifo_expire[SYNC] <= now {
                self.last_delayed_sync = Some(now);
            }
        }
        if self.active == Some(number) {
            self.advance_turn(now, number);
        }
        self.release(number);
    }

    fn retune(&mut self, values: &[i64]) {
        self.tuning = Tuning::new(values);
    }

    fn set_limits(&mut self, limits: &Limits) {
        self.requests.set_limits(limits);
    }

    fn drain(&mut self, out: &mut Vec<Request>) {
        let first = out.len();
        self.requests.drain(out);
        if let Some(active) = self.active {
            self.leave_tree(active);
            self.active = None;
            self.idle_until = None;
            self.release(active);
        }
        for request in &out[first..] {
            if let Some(number) = self.queue_of(request) {
                self.leave_tree(number);
                self.release(number);
            }
        }
        self.work_ends = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Op;

    #[test]
    fn process_queues_stay_bounded_over_a_long_trace() {
        let mut scheduler = Cfq::new(&Limits::default(), &SPEC.defaults());
        let mut now = Nanos::ZERO;
        for stream in 0..20_000 {
            let (op, lba) = (Op::Read, u64::from(stream) * 1_000);
            let request = Request { id: 0, stream, op, sync: true, priority: Priority::DEFAULT, sectors: 8, lba, arrival: now };
            scheduler.insert(now, request);
            while let Pick::WaitUntil(time) = scheduler.pick(now) {
                now = time;
            }
            scheduler.completed(now, &request, Nanos::ZERO);
        }
        assert!(scheduler.queues.len() < 5_000, "{} are kept", scheduler.queues.len());
    }
}
