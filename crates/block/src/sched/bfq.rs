//! Budget fair queueing: each process has its own queue, and queues take turns. A turn has a budget of sectors, and throughput is divided
//! by weight.
//!
//! ```text
//! requests -> queue of their process -+ real time  \\
//!             (of their priority,     + best effort  B-WF2Q+: of the eligible queues the one that finishes first is in service,
//!              if asynchronous)       + idle       /  until its budget or timeout_sync is used up or it has no more requests
//!
//! in service  request, request, ... empty: wait slice_idle for its process, if that pays; meanwhile a few requests of other
//!             queues may be injected. At the end its next budget is adapted to the turn.
//! ```
//!
//! With `low_latency`, the weight of queues that look interactive or soft real-time is raised by a factor of 30 or 3,000 for a while,
//! unless many start together. Queues of processes that start together and read close to each other, or start together and seek, are
//! merged, and split again when they are no longer close.
//!
//! Differences from the kernel:
//!
//! * The device type is unknown. A disk is assumed until random reads complete less than 1 ms apart on average; from then on it decides as
//!   the kernel does for flash.
//! * A process that uses several priorities has a queue for each; the kernel's queue changes its priority.
//! * No groups but the root, no metadata hint, no second actuator, as a [`Request`] has none of these.
//! * Processes never exit; the least recently active ones are forgotten.
//! * While idling, it injects from the queue that is due first; the kernel from the one that became busy last.
//! * Time is exact, while the kernel counts in jiffies of 4 ms.

mod cooperation;
mod groups;
mod idling;
mod io_queue;
mod queues;
mod raising;
mod rate;
mod service;
mod state;
#[cfg(test)]
mod tests;
mod tuning;
mod turn;

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{ASYNC, COMPLETION_BACKSTOP, Insertion, LiveSwitch, Pick, Room, SYNC, Scheduler, SchedulerSpec, Tags};
use crate::queue::{Limits, Merging, Placed, Queue};
use crate::{Nanos, Op, Priority, PriorityClass, Request, Roster};
use groups::Groups;
use idling::InjectionTrial;
use io_queue::{IoQueue, Origin, passed};
use queues::Queues;
use raising::{ASYNC_PAUSE, Burst, LARGE_BURST, SOFT_REAL_TIME};
use rate::PeakRate;
use service::{Entity, Schedule};
use state::{Budgets, Busy, DEFAULT_BUDGET, Device, Processes, Turn};
use tuning::{Tunables, Tuning};

/// Time after a live switch until the peak rate of four sequential readers is known, on a disk of 7,200 rpm. Of 12 runs that wrote
/// `timeout_sync` at once, 2 stayed as slow as before for a second; of 12 that wrote it after this time, none.
const SETTLE_TIME: Nanos = Nanos::from_millis(500);

pub(super) static SPEC: SchedulerSpec = SchedulerSpec {
    name: "bfq",
    summary: "a queue for each process, budgets of sectors by weight, and low latency for processes that look interactive",
    source: "Linux 6.18 block/bfq-iosched.c",
    tunables: Tunables::TUNABLES,
    work_conserving: false,
    starvation_bound: None,
    knowledge: None,
    build: |limits, values| Box::new(Bfq::new(limits, Tuning::new(values))),
};

/// Priority levels in a class (`IOPRIO_NR_LEVELS`).
const LEVELS: usize = 8;
/// Shared queues come first: eight of real time and eight of best effort, one per level, and one idle. The queues of processes follow.
const SHARED_QUEUES: usize = 2 * LEVELS + 1;
/// Minimum distance of a seek from the previous request, in sectors (`BFQQ_SEEK_THR`).
const SEEK_THRESHOLD: u64 = 8 * 100;

struct Bfq {
    tuning: Tuning,
    /// One lane per queue, with the same number.
    requests: Queue,
    queues: Queues,
    schedule: Schedule,
    groups: Groups,
    processes: Processes,
    device: Device,
    busy: Busy,
    turn: Turn,
    /// Time of the last event, as new tunables are set without a time.
    now: Nanos,
    /// End of the last dispatched request; 0 if there is none.
    head: u64,
    budgets: Budgets,
    peak_rate: PeakRate,
    trial: InjectionTrial,
    burst: Burst,
}

fn level_of(priority: Priority) -> u8 {
    match priority.class {
        PriorityClass::Idle => LEVELS as u8 - 1,
        _ => priority.level.min(LEVELS as u8 - 1),
    }
}

/// The scheduling entity of a new queue; a level is worth a weight of ten (`bfq_ioprio_to_weight`).
fn entity_of(priority: Priority) -> Entity {
    Entity::new(priority.class, 10 * (LEVELS as u64 - u64::from(level_of(priority))))
}

/// The queue of the asynchronous requests of a priority.
fn shared_queue(class: PriorityClass, level: u8) -> usize {
    match class {
        PriorityClass::RealTime => usize::from(level),
        PriorityClass::BestEffort => LEVELS + usize::from(level),
        PriorityClass::Idle => 2 * LEVELS,
    }
}

/// The key of a process in the directory: stream and priority.
fn process_key(request: &Request) -> u64 {
    u64::from(request.stream) | (shared_queue(request.priority.class, level_of(request.priority)) as u64) << 32
}

impl Bfq {
    fn new(limits: &Limits, tuning: Tuning) -> Bfq {
        let mut bfq = Bfq {
            tuning,
            requests: Queue::new(*limits, Merging { front: true, within_stream: false }),
            queues: Queues::default(),
            schedule: Schedule::default(),
            groups: Groups::default(),
            processes: Processes::default(),
            device: Device::default(),
            busy: Busy::default(),
            turn: Turn::default(),
            now: Nanos::ZERO,
            head: 0,
            budgets: Budgets::new(if tuning.max_budget > 0 { tuning.max_budget } else { DEFAULT_BUDGET }),
            peak_rate: PeakRate::new(),
            trial: InjectionTrial::default(),
            burst: Burst::default(),
        };
        let budget = 2 * bfq.budgets.max_now() / 3;
        for number in 0..SHARED_QUEUES {
            let class = [PriorityClass::RealTime, PriorityClass::BestEffort, PriorityClass::Idle][number / LEVELS];
            let priority = Priority { class, level: (number % LEVELS) as u8 };
            bfq.queues.set(number, IoQueue::new(Nanos::ZERO, Origin { kind: ASYNC, class, level: level_of(priority) }, budget));
            bfq.schedule.set(number, entity_of(priority));
        }
        bfq
    }

    // Mapping requests to queues.

    /// Holds the process of an arriving synchronous request and returns its number.
    fn hold_process(&mut self, now: Nanos, request: &Request) -> usize {
        let (process, is_reused) = self.processes.hold(process_key(request), request.stream);
        if is_reused {
            self.end_process(now, process);
            self.processes.replace(process, request.stream);
        }
        self.processes[process].requests += 1;
        process
    }

    /// Releases the process of a request that completed or was merged.
    fn release_process(&mut self, request: &Request) {
        if request.is_sync() {
            self.processes.release(process_key(request));
        }
    }

    /// The queue of such requests; `None` if their process has none.
    fn queue_known(&self, request: &Request) -> Option<usize> {
        if !request.is_sync() {
            return Some(shared_queue(request.priority.class, level_of(request.priority)));
        }
        self.processes[self.processes.find(process_key(request))?].queue
    }

    /// The queue of an arriving request, and its process if it is synchronous (`bfq_init_rq`).
    fn queue_for(&mut self, now: Nanos, request: &Request) -> (usize, Option<usize>) {
        if !request.is_sync() {
            return (shared_queue(request.priority.class, level_of(request.priority)), None);
        }
        let process = self.hold_process(now, request);
        let number = match self.processes[process].queue {
            Some(number) => self.queue_after_split(now, process, number, request),
            None => self.create_queue(now, process, request, false),
        };
        let queue = &mut self.queues[number];
        if queue.users.merges_into.is_none() && queue.users.count == 1 {
            queue.users.owner = Some(process);
        }
        if queue.users.just_created && (self.burst.size > 0 || self.busy.total() == 0) {
            self.handle_burst(now, number);
        }
        (self.cooperate(now, number, process, request), Some(process))
    }

    // Arrivals.

    /// Records whether a request is far from the previous one (`bfq_update_io_seektime`).
    fn learn_seek(&mut self, now: Nanos, number: usize, request: &Request) {
        let seeks = self.seeks(self.queues[number].seeks.last_end, request);
        let queue = &mut self.queues[number];
        queue.seeks.learn(seeks);
        if queue.is_raised() && queue.raising.duration == SOFT_REAL_TIME && queue.only_seeks() {
            self.end_or_resume_raising(now, number);
        }
    }

    /// Handles a queue that has become busy; returns whether it looks interactive (`bfq_bfqq_handle_idle_busy_switch`).
    fn become_busy(&mut self, now: Nanos, number: usize, process: Option<usize>) -> bool {
        let stably_merged = process.is_some_and(|process| self.processes[process].stably_merged);
        let arrival = self.classify_arrival(now, number, stably_merged);
        let recovers = self.renew_budget(now, number);
        self.raise_on_arrival(now, number, &arrival);
        let queue = &mut self.queues[number];
        queue.activity.begin(now);
        self.begin_busy(number);
        if let Some(served) = self.turn.queue {
            let (new, old) = (&self.queues[number], &self.queues[served]);
            let (new_entity, old_entity) = (self.schedule.entity(number), self.schedule.entity(served));
            // The queue in service competes again at once, by its timestamps.
            if (recovers && new.raising.coefficient >= old.raising.coefficient)
                || new_entity.class() < old_entity.class()
                || new_entity.weight() > old_entity.weight()
                || !self.better_to_idle(served)
            {
                self.end_turn(now, false, turn::Reason::Preempted);
            }
        }
        arrival.interactive
    }

    /// Sets the budget of a queue that becomes busy: the rest of the last one, if the device was kept idle for its process and that issued
    /// a request in time. Returns whether that was so; then it may also preempt, to recover the service it missed
    /// (`bfq_bfqq_update_budg_for_activation`).
    fn renew_budget(&mut self, now: Nanos, number: usize) -> bool {
        let queue = &self.queues[number];
        let limit = Nanos(3 * self.tuning.slice_idle.0);
        let in_time = queue.timing.think.last_completion.is_none_or(|last| now <= last + limit);
        let max_budget = queue.turn.budget;
        let left = self.schedule.entity(number).budget_left();
        let recovers = queue.turn.was_waited_for && in_time && left > 0;
        let budget = match queue.next {
            _ if recovers => left.min(max_budget),
            Some(next) => max_budget.max(self.charge(number, next)),
            None => max_budget,
        };
        let entity = self.schedule.entity_mut(number);
        (entity.budget, entity.service) = (budget, 0);
        self.queues[number].turn.was_waited_for = recovers;
        recovers
    }

    /// Updates the state for a request that was put into the lane of its queue (`__bfq_insert_request`, `bfq_add_request`).
    fn enqueued(&mut self, now: Nanos, number: usize, process: Option<usize>, request: &Request) {
        self.learn_think_time(now, number);
        self.learn_seek(now, number, request);
        if let Some(process) = process {
            if self.processes[process].requests <= 1 {
                self.prepare_injection(now, number);
            }
            self.learn_intensity(now, number);
        }
        let was_raised = self.queues[number].is_raised();
        let changed = self.reconsider_next(now, number);
        let mut interactive = false;
        if !self.queues[number].busy {
            interactive = self.become_busy(now, number, process);
        } else {
            let started = self.queues[number].raising.started;
            if self.tuning.low_latency && !was_raised && process.is_none() && passed(Some(started), ASYNC_PAUSE, now) {
                self.raise_interactive(number);
            }
            if changed {
                self.fit_budget(number);
            }
        }
        let queue = &mut self.queues[number];
        if self.tuning.low_latency && (!was_raised || !queue.is_raised() || interactive) {
            queue.raising.started = now;
        }
        queue.seeks.last_end = request.end();
        self.end_idling_on_arrival(now, number, request);
    }

    /// Makes the request that was queued or grew last its queue's next one if it is the better one; returns whether the next one changed.
    fn reconsider_next(&mut self, now: Nanos, number: usize) -> bool {
        let Some(slot) = self.requests.last() else { return false };
        let before = self.queues[number].next.map(|next| next.slot);
        let next = before.map_or(slot, |before| if before == slot { slot } else { self.nearer(self.head, before, slot) });
        if before == Some(next) {
            return false;
        }
        self.set_next(number, Some(next));
        self.update_position(now, number);
        true
    }

    /// Updates the state after a merge: processes have fewer requests, and the next request may have been absorbed or have grown
    /// (`bfq_request_merged`, `bfq_requests_merged`).
    fn merged(&mut self, now: Nanos, number: usize, request: &Request, absorbed: Option<&Request>) {
        self.release_process(request);
        if let Some(absorbed) = absorbed {
            self.release_process(absorbed);
            if self.queues[number].next.is_some_and(|next| next.id == absorbed.id) {
                let grown = self.requests.last();
                self.set_next(number, grown);
            }
        }
        if self.reconsider_next(now, number) {
            self.fit_budget(number);
        }
    }
}

impl Scheduler for Bfq {
    fn insert(&mut self, now: Nanos, request: Request) -> Insertion {
        self.now = now;
        self.end_overdue_idling(now);
        let (number, process) = self.queue_for(now, &request);
        let expires = request.arrival.min(now) + self.tuning.fifo_expire[self.queues[number].origin.kind];
        let placed = self.requests.insert(number, expires, request);
        match &placed {
            Placed::Queued(_) => self.enqueued(now, number, process, &request),
            Placed::Merged { absorbed, .. } => self.merged(now, number, &request, absorbed.as_ref()),
        }
        placed.into()
    }

    fn pick(&mut self, now: Nanos) -> Pick {
        if self.requests.is_empty() {
            return Pick::Empty;
        }
        self.now = now;
        self.end_overdue_idling(now);
        if !(self.tuning.strict_guarantees && self.device.at_device > 0)
            && let Some(number) = self.select_queue(now)
            && let Some(next) = self.queues[number].next
        {
            return Pick::Go(self.dispatch(now, number, next));
        }
        Pick::WaitUntil(self.turn.idle_until.unwrap_or(now + COMPLETION_BACKSTOP))
    }

    fn completed(&mut self, now: Nanos, request: &Request, _service: Nanos) {
        let Some((key, flight)) = self.device.remove(request.id) else { return };
        self.end_overdue_idling(now);
        self.complete(now, key, flight);
        self.release_process(request);
    }

    /// Wakes one waiter at a time, because limits may leave a kind of requests a single tag (`blk_mq_set_min_shallow_depth`).
    fn tags(&self, room: &Room) -> Option<Tags> {
        Some(Tags { depth: room.nr_requests, wake_batch: 1 })
    }

    /// All tags for reads; fewer for write-back and synchronous writes, so that they cannot block readers (`bfq_limit_depth`).
    fn open_tags(&self, depth: u32, request: &Request) -> u32 {
        let limit = match request.op {
            Op::Read => depth,
            Op::Write | Op::Discard => self.depth(depth, request.sync),
        };
        if self.queue_known(request).is_some_and(|number| self.is_over_limit(number, limit)) { 1 } else { limit }
    }

    /// Requires a large burst of readers at the switch. Queues of a small one are raised, as they look interactive; while they are, idling
    /// for any of them counts as harmful to the others, and 600 ms later they are merged permanently as queues that gain nothing from
    /// idling (`idling_boosts_thr_without_issues`, `bfq_setup_cooperator`). Queues of a large burst are not raised, and sequential ones are
    /// recognised in time.
    ///
    /// Writing `timeout_sync` computes the maximum budget from the peak rate estimated so far (`bfq_timeout_sync_store`). Just after a
    /// switch that is a rate of seeks, and budgets are too small for more than one or two requests.
    ///
    /// Turning `low_latency` off decrements the count of raised queues for every waiting queue, raised or not (`bfq_end_wr`). If the count
    /// is not zero after that, bfq never idles, and four sequential readers stay as slow as before the switch (10 of 10 runs).
    fn live_switch(&self) -> LiveSwitch {
        LiveSwitch { min_readers: LARGE_BURST, settle_time: SETTLE_TIME, fixed_tunables: &["low_latency"] }
    }

    fn retune(&mut self, values: &[i64]) {
        let before = core::mem::replace(&mut self.tuning, Tuning::new(values));
        let (budget, timeout) = (self.tuning.max_budget, self.tuning.timeout);
        if budget > 0 {
            self.budgets.max = budget;
        } else if before.max_budget > 0 || before.timeout != timeout {
            self.budgets.max = self.peak_rate.sectors_in(timeout);
        }
        if before.low_latency && !self.tuning.low_latency {
            self.end_all_raising(self.now);
        }
    }

    fn set_limits(&mut self, limits: &Limits) {
        self.requests.set_limits(limits);
    }

    fn set_roster(&mut self, roster: &Roster) {
        self.groups = Groups::new(roster);
        for process in self.processes.iter() {
            if let (Some(number), Some(group)) = (process.queue, self.groups.of_stream(process.stream)) {
                self.schedule.join(number, group);
            }
        }
    }

    fn drain(&mut self, out: &mut Vec<Request>) {
        self.requests.drain(out);
        let roster = self.groups.roster().clone();
        *self = Bfq::new(&self.requests.limits(), self.tuning);
        self.set_roster(&roster);
    }
}
