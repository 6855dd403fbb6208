//! Turns: which queue is served, for how long, and its charge.

use super::io_queue::Next;
use super::state::Flight;
use super::{Bfq, SEEK_THRESHOLD};
use crate::queue::Slot;
use crate::{Nanos, Op, Request};

/// A turn shorter than this is no sample of a queue's speed; one longer than the second constant is.
const TURN_TOO_SHORT: Nanos = Nanos::from_millis(1);
const TURN_LONG_ENOUGH: Nanos = Nanos::from_millis(20);
/// Charge of a very short turn of a slow queue, in milliseconds: the time of a seek.
const SEEK_TIME: u64 = 8;
const SEEK_TIME_ON_FLASH: u64 = 2;
/// Duration of a full turn in milliseconds, by which time is charged (`bfq_timeout`); independent of the tunable.
const FULL_TURN: u64 = 124;
/// Size in sectors from which a request need not wait for others to merge with it.
const LARGE: u32 = 32;

/// Why a turn ends (`enum bfqq_expiration`).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    TooIdle,
    Timeout,
    BudgetUsed,
    NoMoreRequests,
    Preempted,
}

impl Bfq {
    // Budgets.

    fn adopt_peak_rate(&mut self, changed: bool) {
        if changed && self.tuning.max_budget == 0 {
            self.budgets.max = self.peak_rate.sectors_in(self.tuning.timeout);
        }
    }

    /// Adapts the budget of a queue to the reason for which its turn ends (`__bfq_bfqq_recalc_budget`).
    fn adapt_budget(&mut self, number: usize, reason: Reason) {
        let least = self.budgets.min();
        let service = self.schedule.entity(number).service;
        let queue = &self.queues[number];
        let budget = queue.turn.budget;
        let budget = match reason {
            _ if !queue.is_sync() => self.budgets.max,
            // Raised queues get short turns, but often.
            _ if queue.is_raised() => 2 * least,
            // The process may be waiting for a request in flight.
            Reason::TooIdle if queue.at_device > 0 => (2 * budget).min(self.budgets.max),
            Reason::TooIdle if budget > 5 * least => budget - 4 * least,
            Reason::TooIdle => least,
            Reason::Timeout => (2 * budget).min(self.budgets.max),
            Reason::BudgetUsed => (4 * budget).min(self.budgets.max),
            Reason::NoMoreRequests => service.max(least),
            Reason::Preempted => return,
        };
        let estimated = self.budgets.is_estimated() && self.tuning.max_budget == 0;
        let budget = if estimated { budget.min(self.budgets.max) } else { budget };
        self.queues[number].turn.budget = budget;
        if let Some(next) = self.queues[number].next {
            self.schedule.entity_mut(number).budget = budget.max(self.charge(number, next));
        }
    }

    /// Sets a budget of a waiting queue that covers its next request (`bfq_updated_next_req`). The budget of the queue in service stays, as
    /// its finish time was computed from it.
    pub(super) fn fit_budget(&mut self, number: usize) {
        let Some(next) = self.queues[number].next else { return };
        if self.turn.queue == Some(number) {
            return;
        }
        let charge = self.charge(number, next);
        let entity = self.schedule.entity_mut(number);
        let budget = self.queues[number].turn.budget.max(charge).max(entity.service);
        if entity.budget != budget {
            entity.budget = budget;
            self.schedule.requeue(number);
        }
    }

    /// Adds service to a queue (`bfq_bfqq_served`).
    fn serve(&mut self, now: Nanos, number: usize, service: u64) {
        let queue = &mut self.queues[number];
        if queue.is_raised() {
            queue.raising.service = queue.raising.service.saturating_add(service);
        }
        queue.activity.serve(now, service);
        self.schedule.serve(number, service);
    }

    // Busy queues.

    /// Activates a queue that has become busy (`bfq_add_bfqq_busy`).
    pub(super) fn begin_busy(&mut self, number: usize) {
        let in_time = core::mem::replace(&mut self.queues[number].turn.was_waited_for, false);
        self.schedule.activate(number, in_time);
        let class = self.schedule.entity(number).class();
        let queue = &mut self.queues[number];
        queue.busy = true;
        self.busy.begin(class, queue.is_raised());
        if queue.at_device == 0 && !queue.is_raised() {
            self.schedule.count_weight(number);
        }
        if let Some(waker) = self.queues[number].waking.waker.filter(|&waker| self.queues.is_current(waker)) {
            self.queues[waker.number].waking.woken = Some(self.queues.reference(number));
        }
    }

    /// Deactivates a queue that is no longer busy (`bfq_del_bfqq_busy`).
    pub(super) fn end_busy(&mut self, number: usize) {
        let class = self.schedule.entity(number).class();
        let queue = &mut self.queues[number];
        queue.busy = false;
        self.busy.end(class, queue.is_raised());
        if queue.at_device == 0 {
            self.schedule.uncount_weight(number);
        }
        self.schedule.deactivate(number);
    }

    // Begin and end of a turn.

    /// Puts the next queue in service, if there is one (`__bfq_set_in_service_queue`).
    fn begin_turn(&mut self, now: Nanos) -> Option<usize> {
        let number = self.schedule.next(now)?;
        self.turn.begin(now, number);
        self.budgets.assign();
        let timeout = self.tuning.timeout;
        let raised_by = self.schedule.entity(number).raised_by();
        let queue = &mut self.queues[number];
        queue.turn.oldest_checked = false;
        let soft_real_time = queue.raising.duration == super::raising::SOFT_REAL_TIME;
        if queue.is_raised()
            && soft_real_time
            && queue.raising.started < now
            && let Some(since) = queue.turn.ends.filter(|&since| since < now)
        {
            // Time without service does not count against the short period of raising.
            let started = queue.raising.started;
            queue.raising.started = if since > started { started + (now - since) } else { now };
        }
        // A raised queue has a longer turn, in proportion to its weight, unless it is soft real-time.
        let turns = if soft_real_time { 1 } else { raised_by };
        queue.turn.ends = Some(now + Nanos(timeout.0.saturating_mul(turns)));
        Some(number)
    }

    /// Whether a process is slow, and its charge in that case, in milliseconds (`bfq_bfqq_is_slow`).
    fn is_slow(&self, now: Nanos, number: usize, compensate: bool) -> (bool, u64) {
        let queue = &self.queues[number];
        if !queue.is_sync() {
            return (false, 0);
        }
        // Idle time for it is not charged.
        let span = self.turn.span(now, compensate);
        if span < TURN_TOO_SHORT {
            return (queue.is_seeky(), if self.peak_rate.is_flash() { SEEK_TIME_ON_FLASH } else { SEEK_TIME });
        }
        // Transfer rates of outer and inner tracks differ by a factor of two.
        let served_little = self.schedule.entity(number).service < self.budgets.max / 2;
        let slow = if span > TURN_LONG_ENOUGH { served_little } else { queue.is_seeky() };
        (slow, span.0 / 1_000_000)
    }

    /// Charges a slow queue for its time as if it had been served at full speed: fairness in sectors would cost the others throughput
    /// (`bfq_bfqq_charge_time`).
    fn charge_time(&mut self, now: Nanos, number: usize, millis: u64) {
        let entity = self.schedule.entity_mut(number);
        let timed = self.budgets.max * millis.min(FULL_TURN) / FULL_TURN;
        let total = timed.max(entity.service);
        entity.budget = entity.budget.max(total);
        let missing = total - entity.service;
        self.serve(now, number, missing);
    }

    /// Ends the turn of the queue in service (`bfq_bfqq_expire`).
    pub(super) fn end_turn(&mut self, now: Nanos, compensate: bool, reason: Reason) {
        let Some(number) = self.turn.queue else { return };
        let (slow, millis) = self.is_slow(now, number, compensate);
        let entity = self.schedule.entity(number);
        let little_used = entity.budget_left() >= entity.budget / 3;
        if !self.queues[number].is_raised() && (slow || (reason == Reason::Timeout && little_used)) {
            self.charge_time(now, number, millis);
        }
        let low_latency = self.tuning.low_latency;
        let queue = &mut self.queues[number];
        if low_latency && !queue.is_raised() {
            queue.raising.started = now;
        }
        if low_latency && queue.next.is_none() {
            if queue.at_device == 0 {
                self.find_soft_real_time_start(now, number);
            } else {
                queue.activity.soft_real_time_due = true;
            }
        }
        self.trial.next = false;
        self.trial.measured = None;
        self.trial.injected = false;
        self.adapt_budget(number, reason);
        self.leave_service(now, number, reason);
        let used_up = reason == Reason::Timeout || reason == Reason::BudgetUsed;
        if self.queues[number].busy || used_up {
            self.schedule.entity_mut(number).service = 0;
        } else {
            // If its process issues a request soon, the queue continues with the rest of its budget.
            self.queues[number].turn.was_waited_for = true;
        }
    }

    /// Removes a queue from service (`__bfq_bfqq_expire`).
    fn leave_service(&mut self, now: Nanos, number: usize, reason: Reason) {
        let queue = &mut self.queues[number];
        if queue.users.shared && queue.is_seeky() {
            queue.users.to_split = true;
        }
        let empty = queue.next.is_none();
        // An empty queue that needs the device kept idle for it stays in the tree on preemption.
        if empty && !(reason == Reason::Preempted && self.idling_keeps_guarantees(number)) {
            if self.queues[number].at_device == 0 {
                self.queues[number].turn.ends = Some(now);
            }
            self.end_busy(number);
        } else {
            self.schedule.requeue(number);
            if !empty {
                self.update_position(now, number);
            }
        }
        self.turn.end();
    }

    /// Whether the turn of a queue has timed out (`bfq_bfqq_budget_timeout`).
    fn is_timed_out(&self, now: Nanos, number: usize) -> bool {
        self.queues[number].turn.ends.is_none_or(|end| end <= now)
    }

    /// Whether the turn of a queue ends by timeout (`bfq_may_expire_for_budg_timeout`). One being waited for that has used most of its
    /// budget may finish it.
    fn may_end_for_timeout(&self, now: Nanos, number: usize) -> bool {
        let entity = self.schedule.entity(number);
        self.is_timed_out(now, number) && (self.turn.idle_until.is_none() || entity.budget_left() >= entity.budget / 3)
    }

    /// Ends idling that is over, as the kernel's timer does (`bfq_idle_slice_timer_body`).
    pub(super) fn end_overdue_idling(&mut self, now: Nanos) {
        let Some(end) = self.turn.take_overdue(now) else { return };
        let Some(number) = self.turn.queue else { return };
        if self.is_timed_out(end, number) {
            self.end_turn(end, true, Reason::Timeout);
        } else if self.queues[number].next.is_none() {
            self.end_turn(end, true, Reason::TooIdle);
        }
    }

    /// The queue whose request to dispatch; `None` if it is better to wait (`bfq_select_queue`).
    pub(super) fn select_queue(&mut self, now: Nanos) -> Option<usize> {
        if let Some(number) = self.turn.queue
            && self.may_end_for_timeout(now, number)
            && !self.must_idle(number)
        {
            self.end_turn(now, false, Reason::Timeout);
        }
        loop {
            let number = match self.turn.queue {
                Some(number) => number,
                None => self.begin_turn(now)?,
            };
            if let Some(next) = self.queues[number].next {
                if self.charge(number, next) <= self.schedule.entity(number).budget_left() {
                    self.turn.idle_until = None;
                    return Some(number);
                }
                self.end_turn(now, false, Reason::BudgetUsed);
            } else if self.turn.idle_until.is_some() || (self.queues[number].at_device > 0 && self.better_to_idle(number)) {
                return self.queue_to_inject(number);
            } else {
                self.end_turn(now, false, Reason::NoMoreRequests);
            }
        }
    }

    // Requests.

    /// The better of two requests for the head to serve next (`bfq_choose_req`).
    pub(super) fn nearer(&self, head: u64, a: Slot, b: Slot) -> Slot {
        // Whether it is too far back for a short backward seek, and the distance.
        let cost = |slot| {
            let lba = self.requests.request(slot).lba;
            let back = head.saturating_sub(lba);
            match lba >= head {
                true => (false, lba - head),
                false if back <= self.tuning.back_seek_max_sectors => (false, back.saturating_mul(self.tuning.back_seek_penalty)),
                false => (true, lba),
            }
        };
        let place = |slot| self.requests.request(slot).lba;
        let (first, second) = (cost(a), cost(b));
        if first == second {
            // At equal cost the one ahead.
            return if place(a) >= place(b) { a } else { b };
        }
        if first < second { a } else { b }
    }

    pub(super) fn set_next(&mut self, number: usize, slot: Option<Slot>) {
        self.queues[number].next = slot.map(|slot| Next { slot, id: self.requests.request(slot).id });
    }

    /// The request to follow the one just taken: the oldest if it has expired, checked once per turn; otherwise the next in the direction
    /// of the head (`bfq_find_next_rq`).
    fn next_after(&mut self, now: Nanos, number: usize, taken: &Request, was_oldest: bool) -> Option<Slot> {
        let checked = core::mem::replace(&mut self.queues[number].turn.oldest_checked, true);
        if !checked
            && !was_oldest
            && let Some(oldest) = self.requests.oldest(number).filter(|&slot| self.requests.expires(slot) <= now)
        {
            return Some(oldest);
        }
        self.requests.nearest(number, taken.lba, self.tuning.back_seek_max_sectors, self.tuning.back_seek_penalty)
    }

    /// Takes a request from its queue (`bfq_remove_request`).
    fn remove(&mut self, now: Nanos, number: usize, slot: Slot) -> Request {
        let was_oldest = self.requests.oldest(number) == Some(slot);
        let request = self.requests.take(slot);
        let next = self.next_after(now, number, &request, was_oldest);
        self.set_next(number, next);
        if next.is_some() {
            self.fit_budget(number);
        } else if self.queues[number].busy && self.turn.queue != Some(number) {
            self.end_busy(number);
            let entity = self.schedule.entity_mut(number);
            (entity.budget, entity.service) = (0, 0);
        }
        self.update_position(now, number);
        request
    }

    /// Dispatches the next request of a queue (`bfq_dispatch_rq_from_bfqq`).
    pub(super) fn dispatch(&mut self, now: Nanos, number: usize, next: Next) -> Request {
        let in_service = self.turn.queue == Some(number);
        let charge = self.charge(number, next);
        self.serve(now, number, charge);
        let request = *self.requests.request(next.slot);
        let far = request.lba.abs_diff(self.head) > SEEK_THRESHOLD;
        let random_read = far && request.op == Op::Read && self.queues[number].is_seeky();
        let key = self.device.insert(Flight { id: request.id, queue: number, began: now, random_read });
        if in_service && core::mem::replace(&mut self.trial.next, false) {
            self.trial.measured = Some(key);
        }
        self.queues[number].at_device += 1;
        let seeks = self.seeks(self.head, &request);
        let changed = self.peak_rate.dispatched(now, u64::from(request.sectors), seeks, self.device.at_device);
        self.adopt_peak_rate(changed);
        self.head = request.end();
        if in_service {
            self.turn.head = self.head;
        }
        self.remove(now, number, next.slot);
        self.device.arrive();
        if in_service {
            self.update_raising(now, number);
            // The idle class dispatches one request per turn.
            if self.queues[number].is_idle_class() && self.busy.total() > 1 {
                self.end_turn(now, false, Reason::BudgetUsed);
            }
        }
        request
    }

    /// Handles an arrival in the queue being idled for (`bfq_rq_enqueued`). A single small request does not end idling if that raises
    /// throughput, so that others may merge with it.
    pub(super) fn end_idling_on_arrival(&mut self, now: Nanos, number: usize, request: &Request) {
        if self.turn.queue != Some(number) || self.turn.idle_until.is_none() {
            return;
        }
        let small = self.requests.lane_len(number) == 1 && request.sectors < LARGE;
        let timed_out = self.is_timed_out(now, number);
        if small && self.idling_boosts_throughput(number) && !timed_out {
            return;
        }
        self.turn.idle_until = None;
        if timed_out {
            self.end_turn(now, false, Reason::Timeout);
        }
    }

    /// Handles a completion (`bfq_completed_request`).
    pub(super) fn complete(&mut self, now: Nanos, key: u32, flight: Flight) {
        let number = flight.queue;
        if self.trial.measured == Some(key) {
            self.judge_injection(now, number);
        }
        self.watch_device_queue();
        self.device.leave();
        let queue = &mut self.queues[number];
        queue.at_device -= 1;
        if queue.at_device == 0 && !queue.busy {
            queue.turn.ends = Some(now);
            self.schedule.uncount_weight(number);
        }
        let queue = &mut self.queues[number];
        queue.timing.think.last_completion = Some(now);
        let shared = queue.users.shared;
        if flight.random_read {
            self.peak_rate.random_read_completed(now, flight.began);
        }
        let changed = self.peak_rate.completed(now);
        self.adopt_peak_rate(changed);
        // The many completions of a shared queue would make it every queue's waker.
        self.queues.last_completed = if shared { None } else { Some(self.queues.reference(number)) };
        let queue = &self.queues[number];
        if queue.activity.soft_real_time_due && queue.at_device == 0 && queue.next.is_none() && !self.is_raised_interactive(number)
        {
            self.find_soft_real_time_start(now, number);
        }
        if self.turn.queue == Some(number) {
            self.continue_turn(now, number);
        }
    }

    fn continue_turn(&mut self, now: Nanos, number: usize) {
        let done = self.queues[number].at_device == 0;
        let empty = self.queues[number].next.is_none();
        if self.must_idle(number) {
            if done {
                self.begin_idling(now, number);
            }
        } else if self.may_end_for_timeout(now, number) {
            self.end_turn(now, false, Reason::Timeout);
        } else if empty && (done || !self.better_to_idle(number)) {
            self.end_turn(now, false, Reason::NoMoreRequests);
        }
    }
}
