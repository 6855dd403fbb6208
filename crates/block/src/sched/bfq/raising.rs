//! Low latency: raises the weight of queues that look interactive or soft real-time for a while, except of queues created in bursts, which
//! need throughput.

use alloc::vec::Vec;

use super::Bfq;
use super::io_queue::{QueueRef, passed};
use crate::Nanos;

/// Factor on the weight of a raised queue (`bfq_wr_coeff`), and a further one for soft real-time (`BFQ_SOFTRT_WEIGHT_FACTOR`).
pub(super) const COEFFICIENT: u64 = 30;
const SOFT_REAL_TIME_FACTOR: u64 = 100;
/// Duration of raising a soft real-time queue, unless it is recognised as one again (`bfq_wr_rt_max_time`).
pub(super) const SOFT_REAL_TIME: Nanos = Nanos::from_millis(300);
/// A queue that becomes busy after this idle time looks interactive (`bfq_wr_min_idle_time`).
pub(super) const INTERACTIVE_IDLE: Nanos = Nanos::from_millis(2_000);
/// Pause after which an asynchronous queue is raised (`bfq_wr_min_inter_arr_async`).
pub(super) const ASYNC_PAUSE: Nanos = Nanos::from_millis(500);
/// Maximum rate of a soft real-time process, in sectors per second: compressed high-definition video (`bfq_wr_max_softrt_rate`).
const SOFT_REAL_TIME_RATE: u64 = 7_000;
/// Margin over `slice_idle` that distinguishes a soft real-time process from a greedy one despite the resolution of jiffies; four jiffies
/// at 250 Hz.
const SOFT_REAL_TIME_MARGIN: Nanos = Nanos::from_millis(16);
/// Starting the largest application tested takes 110,000 sectors; a queue with more service is not starting one (`max_service_from_wr`).
const SERVICE_MAX: u64 = 120_000;
/// The default weight. Queues of another priority are not raised, as that was set on purpose.
const DEFAULT_WEIGHT: u64 = 40;

/// Queues created within this time of each other form a burst (`bfq_burst_interval`), which is large from this number of queues on
/// (`bfq_large_burst_thresh`).
pub(super) const BURST_INTERVAL: Nanos = Nanos::from_millis(180);
pub(super) const LARGE_BURST: u32 = 8;
/// Idle time after which a queue no longer belongs to its burst.
const BURST_OVER: Nanos = Nanos::from_millis(10_000);
const JUST_SPLIT: Nanos = Nanos::from_millis(10);

/// A burst: queues created shortly after each other.
#[derive(Default)]
pub(super) struct Burst {
    list: Vec<QueueRef>,
    pub(super) size: u32,
    pub(super) is_large: bool,
    last: Option<Nanos>,
}

/// The classification of a queue that becomes busy.
pub(super) struct Arrival {
    pub(super) interactive: bool,
    in_burst: bool,
    soft_real_time: bool,
    raised: bool,
}

impl Bfq {
    /// Sets the weight factor of a queue from its next activation on.
    pub(super) fn set_coefficient(&mut self, number: usize, coefficient: u64) {
        let queue = &mut self.queues[number];
        let before = core::mem::replace(&mut queue.raising.coefficient, coefficient);
        self.schedule.set_coefficient(number, coefficient);
        if queue.busy {
            self.busy.change(before > 1, coefficient > 1);
        }
    }

    /// Raises a queue as interactive.
    pub(super) fn raise_interactive(&mut self, number: usize) {
        let duration = self.peak_rate.raising_time();
        self.queues[number].raising.duration = duration;
        self.set_coefficient(number, COEFFICIENT);
    }

    fn raise_soft_real_time(&mut self, number: usize) {
        self.queues[number].raising.duration = SOFT_REAL_TIME;
        self.set_coefficient(number, COEFFICIENT * SOFT_REAL_TIME_FACTOR);
    }

    pub(super) fn is_raised_interactive(&self, number: usize) -> bool {
        self.queues[number].raising.coefficient == COEFFICIENT
    }

    /// Ends raising of a queue (`bfq_bfqq_end_wr`).
    pub(super) fn end_raising(&mut self, now: Nanos, number: usize) {
        let queue = &mut self.queues[number];
        if queue.raising.duration != SOFT_REAL_TIME {
            // It may have loaded a soft real-time application, which can be recognised from now on.
            queue.activity.soft_real_time_from = now;
        }
        (queue.raising.duration, queue.raising.started) = (Nanos::ZERO, now);
        self.set_coefficient(number, 1);
    }

    /// Ends raising, or resumes the raising as interactive that soft real-time interrupted (`switch_back_to_interactive_wr`).
    pub(super) fn end_or_resume_raising(&mut self, now: Nanos, number: usize) {
        let raising = self.queues[number].raising;
        match raising.interactive_since {
            Some(since) if raising.duration == SOFT_REAL_TIME && now <= since + self.peak_rate.raising_time() => {
                self.queues[number].raising.started = since;
                self.raise_interactive(number);
            }
            _ => self.end_raising(now, number),
        }
    }

    /// Ends raising of all queues (`bfq_end_wr`), with two quirks whose effects last as long as the scheduler is active: queues in service,
    /// and those in no tree, are missed; and each other queue with requests is subtracted from the count of raised queues, raised or not.
    pub(super) fn end_all_raising(&mut self, now: Nanos) {
        for number in 0..self.queues.len() {
            if self.schedule.entity(number).is_listed() {
                let queue = &self.queues[number];
                if queue.busy && !queue.is_raised() {
                    self.busy.undercount();
                }
                self.end_raising(now, number);
            }
        }
    }

    /// Ends raising when its time or its service is used up (`bfq_update_wr_data`).
    pub(super) fn update_raising(&mut self, now: Nanos, number: usize) {
        let queue = &self.queues[number];
        if queue.is_raised() {
            if queue.burst.large {
                self.end_raising(now, number);
            } else if passed(Some(queue.raising.started), queue.raising.duration, now) {
                self.end_or_resume_raising(now, number);
            }
            let queue = &self.queues[number];
            if queue.is_raised() && queue.raising.duration != SOFT_REAL_TIME && queue.raising.service > SERVICE_MAX {
                self.end_raising(now, number);
            }
        }
        // At once, not at the next activation: timestamps are computed as if the queue had not been raised in this turn.
        let raised_in_schedule = self.schedule.entity(number).raised_by() > 1;
        if raised_in_schedule != self.queues[number].is_raised() {
            self.schedule.update_weight(number);
        }
    }

    /// Whether it has had no requests, queued or in flight, for long (`bfq_bfqq_idle_for_long_time`).
    fn was_idle_for_long(&self, now: Nanos, number: usize) -> bool {
        let queue = &self.queues[number];
        queue.at_device == 0 && passed(queue.turn.ends, INTERACTIVE_IDLE, now)
    }

    /// Whether a queue that becomes busy should be raised, and why (first half of `bfq_bfqq_handle_idle_busy_switch`).
    pub(super) fn classify_arrival(&self, now: Nanos, number: usize, stably_merged: bool) -> Arrival {
        let queue = &self.queues[number];
        let entity = self.schedule.entity(number);
        let default_weight = entity.own_weight() == DEFAULT_WEIGHT && entity.tenant().is_none();
        let in_burst = queue.burst.large;
        let soft_real_time =
            !queue.only_seeks() && !in_burst && queue.activity.soft_real_time_from < now && queue.at_device == 0 && default_weight;
        let interactive = !in_burst && self.was_idle_for_long(now, number) && default_weight;
        // A queue of several processes is not interactive, unless they started together.
        let of_one = queue.users.owner.is_some() || stably_merged;
        let raised = queue.is_raised() || (queue.is_sync() && of_one && (interactive || soft_real_time));
        Arrival { interactive, in_burst, soft_real_time, raised: self.tuning.low_latency && raised }
    }

    /// Raises or lowers a queue that becomes busy (`bfq_update_bfqq_wr_on_rq_arrival`).
    pub(super) fn raise_on_arrival(&mut self, now: Nanos, number: usize, arrival: &Arrival) {
        if self.was_idle_for_long(now, number)
            && !self.queues[number].users.just_created
            && passed(self.queues[number].turn.ends, BURST_OVER, now)
        {
            self.queues[number].burst.large = false;
            self.leave_burst(number);
        }
        self.queues[number].users.just_created = false;
        if !self.tuning.low_latency || !passed(self.queues[number].users.split, INTERACTIVE_IDLE, now) {
            return;
        }
        let was_raised = self.queues[number].is_raised();
        if !was_raised && arrival.raised {
            if arrival.interactive {
                self.queues[number].raising.service = 0;
                self.raise_interactive(number);
            } else {
                self.queues[number].raising.interactive_since = None;
                self.raise_soft_real_time(number);
            }
            // A large budget would put its finish time far away.
            let small = 2 * self.budgets.min();
            let entity = self.schedule.entity_mut(number);
            entity.budget = entity.budget.min(small);
        } else if was_raised {
            if arrival.interactive {
                self.raise_interactive(number);
            } else if arrival.in_burst {
                self.set_coefficient(number, 1);
            } else if arrival.soft_real_time {
                if self.queues[number].raising.duration != SOFT_REAL_TIME {
                    self.queues[number].raising.interactive_since = Some(self.queues[number].raising.started);
                    self.raise_soft_real_time(number);
                }
                self.queues[number].raising.started = now;
            }
        }
    }

    /// Sets the time from which a request indicates a process with a low, steady rate (`bfq_bfqq_softrt_next_start`).
    pub(super) fn find_soft_real_time_start(&mut self, now: Nanos, number: usize) {
        let queue = &mut self.queues[number];
        let needed = Nanos::from_millis(queue.activity.service.saturating_mul(1_000) / SOFT_REAL_TIME_RATE);
        let not_greedy = now + self.tuning.slice_idle + SOFT_REAL_TIME_MARGIN;
        queue.activity.soft_real_time_from = queue.activity.soft_real_time_from.max(queue.activity.since + needed).max(not_greedy);
    }

    // Bursts.

    fn leave_burst(&mut self, number: usize) {
        if core::mem::replace(&mut self.queues[number].burst.listed, false) {
            self.burst.list.retain(|member| member.number != number);
        }
    }

    fn end_burst_list(&mut self, large: bool) {
        while let Some(member) = self.burst.list.pop() {
            if self.queues.is_current(member) {
                self.queues[member.number].burst.listed = false;
                self.queues[member.number].burst.large |= large;
            }
        }
    }

    /// Puts a queue in the burst list, unless the list is full.
    pub(super) fn rejoin_burst(&mut self, number: usize) {
        if self.burst.list.len() < 2 * LARGE_BURST as usize {
            self.burst.list.push(self.queues.reference(number));
            self.queues[number].burst.listed = true;
        }
    }

    /// Adds a new queue to the burst, or begins a new burst with it (`bfq_handle_burst`).
    pub(super) fn handle_burst(&mut self, now: Nanos, number: usize) {
        let queue = &self.queues[number];
        if queue.burst.listed || queue.burst.large || !passed(queue.users.split, JUST_SPLIT, now) {
            return;
        }
        if passed(self.burst.last, BURST_INTERVAL, now) {
            self.burst.is_large = false;
            self.end_burst_list(false);
            // Queues that start next to busy ones need protection from those, so they begin no burst.
            self.burst.size = 0;
            if self.busy.total() == 0 {
                self.rejoin_burst(number);
                self.burst.size = 1;
            }
        } else if self.burst.is_large {
            self.queues[number].burst.large = true;
        } else {
            self.burst.size += 1;
            if self.burst.size == LARGE_BURST {
                self.burst.is_large = true;
                self.end_burst_list(true);
                self.queues[number].burst.large = true;
            } else {
                self.rejoin_burst(number);
            }
        }
        self.burst.last = Some(now);
    }

    #[cfg(test)]
    pub(super) fn burst_members(&self) -> usize {
        self.burst.list.len()
    }
}
