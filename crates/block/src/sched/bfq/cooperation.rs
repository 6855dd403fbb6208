//! Merging the queues of processes that work in the same area, and splitting them again.

use super::io_queue::{IoQueue, Origin, Process, QueueRef, Raising, Saved, passed};
use super::raising::BURST_INTERVAL;
use super::{Bfq, SHARED_QUEUES};
use crate::{Nanos, Request};

/// A request within this distance, in sectors, is close (`BFQQ_CLOSE_THR`).
const CLOSE: u64 = 8 * 1024;
/// Time since the first service of a busy queue after which it is no longer merged for closeness, as cooperating processes start together
/// (`bfq_merge_time_limit`).
const MERGE_TIME_LIMIT: Nanos = Nanos::from_millis(100);
/// A queue created this long after the remembered one replaces it (`bfq_activation_stable_merging`), and a queue that performs better alone
/// has this long to show it (`bfq_late_stable_merging`).
const STABLE_MERGE_WINDOW: Nanos = Nanos::from_millis(600);

impl Bfq {
    // Creating and leaving queues.

    /// The number of a new queue: an unused one, or the next.
    fn free_number(&mut self) -> usize {
        let Some(number) = self.queues.take_unused(self.turn.queue) else { return self.queues.len() };
        self.schedule.forget(number);
        number
    }

    /// A new queue for a process (`bfq_get_queue`).
    pub(super) fn create_queue(&mut self, now: Nanos, process: usize, request: &Request, again: bool) -> usize {
        let number = self.free_number();
        let level = super::level_of(request.priority);
        let budget = 2 * self.budgets.max_now() / 3;
        let origin = Origin { kind: super::SYNC, class: request.priority.class, level };
        self.queues.set(number, IoQueue::new(now, origin, budget));
        self.schedule.set(number, super::entity_of(request.priority).in_group(self.groups.of(request)));
        self.processes[process].queue = Some(number);
        if again { number } else { self.consider_stable_merge(now, process, number) }
    }

    /// Removes one process from a queue (`bfq_release_process_ref`).
    fn leave_queue(&mut self, number: usize) {
        let queue = &mut self.queues[number];
        if !queue.users.leave() {
            return;
        }
        if queue.busy && queue.next.is_none() && self.turn.queue != Some(number) {
            self.end_busy(number);
        }
        if number >= SHARED_QUEUES {
            self.queues.leave(number);
        }
    }

    /// Forgets a process that has not issued requests for long, or whose slot is reused (`bfq_exit_icq`).
    pub(super) fn end_process(&mut self, now: Nanos, process: usize) {
        let Some(number) = self.processes[process].queue.take() else { return };
        if self.turn.queue == Some(number) && self.queues[number].users.count <= 1 {
            self.end_turn(now, false, super::turn::Reason::Timeout);
        }
        self.leave_chain(number);
        self.leave_queue(number);
    }

    /// Removes the process of a queue from the queues into which that was to be merged (`bfq_put_cooperator`).
    fn leave_chain(&mut self, number: usize) {
        let mut next = self.queues[number].users.merges_into;
        while let Some(reference) = next.filter(|&reference| self.queues.is_current(reference)) {
            next = self.queues[reference.number].users.merges_into;
            self.leave_queue(reference.number);
        }
    }

    // Merging.

    /// Whether the queue was served for so long that cooperating processes would have been recognised (`bfq_too_late_for_merging`).
    pub(super) fn is_too_late_to_merge(&self, now: Nanos, number: usize) -> bool {
        let queue = &self.queues[number];
        queue.activity.service > 0 && passed(Some(queue.activity.first_served), MERGE_TIME_LIMIT, now)
    }

    /// Updates a queue's entry in the index by position of the next request (`bfq_pos_tree_add_move`).
    pub(super) fn update_position(&mut self, now: Nanos, number: usize) {
        let queue = &self.queues[number];
        if !queue.is_sync() {
            return;
        }
        self.queues.unlist(number);
        let queue = &self.queues[number];
        let Some(next) = queue.next else { return };
        if queue.is_idle_class() || self.is_flash_with_queueing() || self.is_too_late_to_merge(now, number) {
            return;
        }
        self.queues.list_at(number, self.requests.request(next.slot).lba);
    }

    /// Whether merging two close queues may help (`bfq_may_be_close_cooperator`): merging seeky queues rarely makes access sequential, and
    /// only synchronous requests interleave.
    fn may_cooperate(&self, now: Nanos, number: usize, other: usize) -> bool {
        let (a, b) = (&self.queues[number], &self.queues[other]);
        !self.is_too_late_to_merge(now, other)
            && self.same_tenant(number, other)
            && !a.is_idle_class()
            && a.origin.class == b.origin.class
            && !a.is_seeky()
            && !b.is_seeky()
            && a.is_sync()
            && b.is_sync()
    }

    /// Whether two queues belong to the same tenant. Others are never merged, as with different groups in the kernel (`entity.parent`).
    fn same_tenant(&self, number: usize, other: usize) -> bool {
        self.schedule.entity(number).tenant() == self.schedule.entity(other).tenant()
    }

    fn end_of_chain(&self, mut number: usize) -> usize {
        while let Some(next) = self.queues[number].users.merges_into.filter(|&next| self.queues.is_current(next)) {
            number = next.number;
        }
        number
    }

    /// Plans a merge: processes of a queue move to another one at their next request (`bfq_setup_merge`). Returns that queue; `None` if
    /// there is nothing to merge.
    fn plan_merge(&mut self, number: usize, other: usize) -> Option<usize> {
        let other = self.end_of_chain(other);
        let moving = self.queues[number].users.count;
        if other == number || moving == 0 || self.queues[other].users.count == 0 {
            return None;
        }
        self.queues[number].users.merges_into = Some(self.queues.reference(other));
        self.queues[other].users.count += moving;
        Some(other)
    }

    /// The queue with which to merge the queue of a request; `None` if it should stay separate (`bfq_setup_cooperator`).
    fn find_cooperator(&mut self, now: Nanos, number: usize, process: usize, request: &Request) -> Option<usize> {
        if self.queues[number].users.merges_into.is_some() {
            return Some(self.end_of_chain(number));
        }
        if self.is_flash_with_queueing() {
            return None;
        }
        let queue = &self.queues[number];
        let late =
            passed(queue.users.split, STABLE_MERGE_WINDOW, now) && passed(Some(queue.users.created), STABLE_MERGE_WINDOW, now);
        if late
            && !queue.users.just_created
            && let Some(other) = self.processes[process].stable_merge.take()
        {
            return self.plan_stable_merge(number, process, other);
        }
        if self.busy.total() == 1 || self.is_too_late_to_merge(now, number) {
            return None;
        }
        if let Some(served) = self.turn.queue
            && served != number
            && request.lba.abs_diff(self.turn.head) <= CLOSE
            && self.may_cooperate(now, number, served)
            && let Some(merged) = self.plan_merge(number, served)
        {
            return Some(merged);
        }
        let other = self.queues.nearest(request.lba, CLOSE).filter(|&other| other != number)?;
        if self.may_cooperate(now, number, other) { self.plan_merge(number, other) } else { None }
    }

    /// The queue for a request, after a planned merge (`__bfq_insert_request`).
    pub(super) fn cooperate(&mut self, now: Nanos, mut number: usize, process: usize, request: &Request) -> usize {
        let Some(target) = self.find_cooperator(now, number, process, request) else { return number };
        while number != target {
            let Some(next) = self.queues[number].users.merges_into else { break };
            self.move_process(now, process, number, next.number);
            number = next.number;
        }
        number
    }

    /// Moves a process from its queue to the one that it is merged into (`bfq_merge_bfqqs`).
    fn move_process(&mut self, now: Nanos, process: usize, from: usize, to: usize) {
        self.save_state(now, from);
        self.save_state(now, to);
        self.queues[to].timing.intensity.io_bound |= self.queues[from].timing.intensity.io_bound;
        self.queues[from].timing.intensity.io_bound = false;
        let waker = self.queues[from].waking.waker;
        if self.queues[to].waking.waker.is_none() && waker.is_some_and(|waker| waker.number != to) {
            self.queues[to].waking.waker = waker;
            self.queues[to].waking.tentative = None;
        }
        let raising = self.queues[from].raising;
        if raising.coefficient > 1 {
            if !self.queues[to].is_raised() {
                self.queues[to].raising = Raising { service: self.queues[to].raising.service, coefficient: 1, ..raising };
                self.set_coefficient(to, raising.coefficient);
            }
            self.set_coefficient(from, 1);
        }
        self.processes[process].queue = Some(to);
        if self.processes[process].stable_merge == Some(self.queues.reference(to)) {
            self.processes[process].stable_merge = None;
        }
        self.queues[to].users.shared = true;
        self.queues[to].users.owner = None;
        self.queues[from].users.owner = None;
        self.queues[from].users.just_created = false;
        if self.queues.last_created == Some(self.queues.reference(from)) {
            self.queues.last_created = Some(self.queues.reference(to));
        }
        self.leave_queue(from);
    }

    // Queues created shortly after each other.

    /// Remembers the last created queue, or merges this one with it if both were created within a short time and so probably serve one task
    /// (`bfq_do_or_sched_stable_merge`). On flash they are merged at once; elsewhere the new one may yet turn out to be sequential.
    fn consider_stable_merge(&mut self, now: Nanos, process: usize, number: usize) -> usize {
        let same_priority = |a: &IoQueue, b: &IoQueue| (a.origin.class, a.origin.level) == (b.origin.class, b.origin.level);
        let last = self.queues.last_created.filter(|&last| {
            let queue = &self.queues[last.number];
            self.queues.is_current(last)
                && !passed(Some(queue.users.created), STABLE_MERGE_WINDOW, now)
                && same_priority(queue, &self.queues[number])
                && self.same_tenant(number, last.number)
        });
        let Some(last) = last else {
            self.queues.last_created = Some(self.queues.reference(number));
            return number;
        };
        if passed(Some(self.queues[last.number].users.created), BURST_INTERVAL, now) {
            return number;
        }
        if !self.is_flash_with_queueing() {
            self.processes[process].stable_merge = Some(last);
            return number;
        }
        let Some(merged) = self.plan_merge(number, last.number) else { return number };
        self.mark_stably_merged(process, merged);
        self.queues[number].users.owner = Some(process);
        self.move_process(now, process, number, merged);
        merged
    }

    fn mark_stably_merged(&mut self, process: usize, merged: usize) {
        self.processes[process].stably_merged = true;
        if let Some(owner) = self.queues[merged].users.owner {
            self.processes[owner].stably_merged = true;
        }
    }

    /// Plans the permanent merge of two queues created together (`bfq_setup_stable_merge`).
    fn plan_stable_merge(&mut self, number: usize, process: usize, other: QueueRef) -> Option<usize> {
        if !self.queues.is_current(other) || self.idling_boosts_throughput(number) {
            return None;
        }
        let merged = self.plan_merge(number, other.number)?;
        self.mark_stably_merged(process, merged);
        Some(merged)
    }

    // Splitting.

    /// The queue of a process for its next request: a separate one again if the shared one is to be split (`bfq_get_bfqq_handle_split`).
    pub(super) fn queue_after_split(&mut self, now: Nanos, process: usize, number: usize, request: &Request) -> usize {
        let queue = &self.queues[number];
        if !queue.users.shared || !queue.users.to_split || self.processes[process].stably_merged {
            return number;
        }
        if queue.burst.large
            && let Some(saved) = &mut self.processes[process].saved
        {
            saved.burst.large = true;
        }
        if queue.users.count == 1 && queue.users.merges_into.is_none() {
            self.queues[number].users.shared = false;
            self.queues[number].users.to_split = false;
            self.resume_state(now, process, number);
            return number;
        }
        let waker = queue.waking.waker.filter(|waker| waker.number != number);
        self.leave_chain(number);
        self.leave_queue(number);
        let own = self.create_queue(now, process, request, true);
        if let Some(saved) = self.processes[process].saved {
            self.queues[own].burst.large = (saved.burst.listed && self.burst.is_large) || saved.burst.large;
            if saved.burst.listed && !self.queues[own].burst.large {
                self.rejoin_burst(own);
            }
        }
        self.queues[own].users.split = Some(now);
        self.resume_state(now, process, own);
        self.queues[own].waking.waker = waker;
        own
    }

    /// Saves the state that a process restores after a split (`bfq_bfqq_save_state`).
    fn save_state(&mut self, now: Nanos, number: usize) {
        let queue = &self.queues[number];
        let Some(owner) = queue.users.owner else { return };
        // Merged before its first request was inserted, which would have raised it.
        let missed = queue.users.just_created && !queue.burst.large && self.tuning.low_latency;
        let raising = if missed {
            Raising {
                coefficient: super::raising::COEFFICIENT,
                started: now,
                duration: self.peak_rate.raising_time(),
                interactive_since: None,
                service: 0,
            }
        } else {
            queue.raising
        };
        let saved = Saved { injection: queue.injection, timing: queue.timing, burst: queue.burst, raising };
        let process: &mut Process = &mut self.processes[owner];
        process.saved = Some(saved);
    }

    /// Restores the state of a process after a split (`bfq_bfqq_resume_state`).
    fn resume_state(&mut self, now: Nanos, process: usize, number: usize) {
        let Some(saved) = self.processes[process].saved else { return };
        let queue = &mut self.queues[number];
        (queue.timing, queue.injection) = (saved.timing, saved.injection);
        let coefficient = if self.tuning.low_latency { saved.raising.coefficient } else { queue.raising.coefficient };
        queue.raising = Raising { coefficient: queue.raising.coefficient, ..saved.raising };
        self.set_coefficient(number, coefficient);
        let queue = &self.queues[number];
        if !queue.is_raised() {
            return;
        }
        if queue.burst.large {
            self.set_coefficient(number, 1);
        } else if passed(Some(queue.raising.started), queue.raising.duration, now) {
            self.end_or_resume_raising(now, number);
        }
    }
}
