//! Whether to keep the device idle for the next request of the queue in service, and which requests of others may be injected meanwhile.

use super::io_queue::Next;
use super::rate::SHORT;
use super::{ASYNC, Bfq, SYNC};
use crate::{Nanos, Request};

/// More requests than this in flight show that the device has a queue (`BFQ_HW_QUEUE_THRESHOLD`); evaluated over this number of samples
/// (`BFQ_HW_QUEUE_SAMPLES`).
const DEVICE_QUEUE: u32 = 3;
const DEVICE_QUEUE_SAMPLES: u32 = 32;
/// Minimum idle time for a raised queue.
const RAISED_SLICE_IDLE: Nanos = Nanos::from_millis(20);
/// Maximum time from a completion of the waker to the arrival of the queue's request.
const WAKE_DELAY: Nanos = Nanos::from_millis(4);
/// Time after which the injection limit is measured again, and the shorter pauses after a decrease and a reset.
const LIMIT_LASTS: Nanos = Nanos::from_millis(1_000);
const LIMIT_PAUSE: Nanos = Nanos::from_millis(10);
const LIMIT_RESET_PAUSE: Nanos = Nanos::from_millis(100);
/// A large request on flash, in sectors (`BFQQ_SECT_THR_NONROT`).
pub(super) const LARGE_ON_FLASH: u64 = 64;
/// Decayed count above which a think time is valid (`bfq_sample_valid`).
const ENOUGH_SAMPLES: u64 = 80;

/// Whether the device holds several requests and reorders them (`hw_tag`).
#[derive(Default)]
pub(super) struct DeviceQueue {
    /// `None` until known; `true` is assumed then.
    queues: Option<bool>,
    most: u32,
    samples: u32,
}

/// A measurement of the cost of injection for the queue in service.
#[derive(Default)]
pub(super) struct InjectionTrial {
    /// The next dispatched request is measured; it arrived at `arrived`.
    pub(super) next: bool,
    pub(super) arrived: Nanos,
    /// Key of the measured request in flight.
    pub(super) measured: Option<u32>,
    pub(super) injected: bool,
}

impl Bfq {
    // The device.

    pub(super) fn queues_itself(&self) -> bool {
        self.device.queue.queues.unwrap_or(true)
    }

    pub(super) fn is_flash_with_queueing(&self) -> bool {
        self.peak_rate.is_flash() && self.queues_itself()
    }

    /// Updates the estimate of whether the device queues (`bfq_update_hw_tag`); called before a completed request is removed.
    pub(super) fn watch_device_queue(&mut self) {
        let waiting = self.requests.len() as u32;
        let in_service = self.turn.queue.map(|number| (&self.queues[number], self.requests.lane_len(number) as u32));
        let at_device = self.device.at_device;
        let device = &mut self.device.queue;
        device.most = device.most.max(at_device);
        if device.queues == Some(true) || at_device + waiting <= DEVICE_QUEUE {
            return;
        }
        // A queue with few requests does not exercise the device's own queue.
        if let Some((queue, own)) = in_service
            && queue.timing.short_think
            && queue.at_device + own < DEVICE_QUEUE
            && at_device < DEVICE_QUEUE
        {
            return;
        }
        device.samples += 1;
        if device.samples > DEVICE_QUEUE_SAMPLES {
            device.queues = Some(device.most > DEVICE_QUEUE);
            (device.most, device.samples) = (0, 0);
        }
    }

    // Waiting.

    /// Whether queues have different shares (`bfq_asymmetric_scenario`). Without idling, the device would equalise them.
    pub(super) fn is_asymmetric(&self, number: usize) -> bool {
        self.busy.classes() > 1 || self.schedule.weights_vary_against(number)
    }

    /// Whether idling raises throughput (`idling_boosts_thr_without_issues`).
    pub(super) fn idling_boosts_throughput(&self, number: usize) -> bool {
        let queue = &self.queues[number];
        if queue.users.count == 0 {
            return false;
        }
        let disk = !self.peak_rate.is_flash();
        let sequential = !queue.is_seeky() && queue.timing.intensity.io_bound && queue.timing.short_think;
        let boosts = (disk && !self.queues_itself()) || ((disk || !self.queues_itself()) && sequential);
        // While raised queues have requests, the others should have few in flight, in order not to delay them.
        boosts && self.busy.raised() == 0
    }

    /// Whether a queue would lose its share if others were served while it is empty (`idling_needed_for_service_guarantees`).
    pub(super) fn idling_keeps_guarantees(&self, number: usize) -> bool {
        let queue = &self.queues[number];
        if queue.users.count == 0 {
            return false;
        }
        let busy = self.busy.total();
        let raised = queue.is_raised() && (self.busy.raised() < busy as i64 || self.device.at_device >= queue.at_device + 4);
        raised || self.is_asymmetric(number) || busy == 1
    }

    /// Whether to idle for the next request of a queue (`bfq_better_to_idle`).
    pub(super) fn better_to_idle(&self, number: usize) -> bool {
        let queue = &self.queues[number];
        if queue.users.count == 0 {
            return false;
        }
        if self.tuning.strict_guarantees {
            return true;
        }
        if self.tuning.slice_idle == Nanos::ZERO || !queue.is_sync() || queue.is_idle_class() {
            return false;
        }
        self.idling_boosts_throughput(number) || self.idling_keeps_guarantees(number)
    }

    pub(super) fn must_idle(&self, number: usize) -> bool {
        self.queues[number].next.is_none() && self.better_to_idle(number)
    }

    /// Begins idling for the next request of a queue (`bfq_arm_slice_timer`).
    pub(super) fn begin_idling(&mut self, now: Nanos, number: usize) {
        let queue = &self.queues[number];
        let mut span = self.tuning.slice_idle;
        if queue.is_seeky() && !queue.is_raised() && !self.is_asymmetric(number) {
            // The next seek costs more than idling saves; but a process of consecutive seeks gets its fair share of time.
            span = span.min(SHORT);
        } else if queue.is_raised() {
            span = span.max(RAISED_SLICE_IDLE);
        }
        // `strict_guarantees` idles even if `slice_idle` is 0; a host needs a future time.
        self.turn.idle(now, span.max(Nanos(1)));
    }

    /// Updates the think time of a process, and whether it is short (`bfq_update_io_thinktime`, `bfq_update_has_short_ttime`).
    pub(super) fn learn_think_time(&mut self, now: Nanos, number: usize) {
        let slice_idle = self.tuning.slice_idle;
        let queue = &mut self.queues[number];
        if queue.at_device == 0 && !queue.busy {
            let most = Nanos(2 * slice_idle.0);
            queue.timing.paused(now, most);
        }
        if !queue.is_sync() || queue.is_idle_class() || slice_idle == Nanos::ZERO {
            return;
        }
        if !super::io_queue::passed(queue.users.split, super::raising::INTERACTIVE_IDLE, now) {
            return;
        }
        let pauses = &queue.timing.think.pauses;
        let short = pauses.samples() <= ENOUGH_SAMPLES || pauses.mean() <= slice_idle.0 / 2;
        let changed = short != core::mem::replace(&mut queue.timing.short_think, short);
        let long_since = now >= queue.injection.decreased + LIMIT_RESET_PAUSE;
        if changed && queue.injection.base_time == Nanos::ZERO && (long_since || !short) {
            self.reset_injection(now, number);
        }
    }

    /// Updates how busy a process keeps its queue, for a request just inserted (`bfq_update_io_intensity`).
    pub(super) fn learn_intensity(&mut self, now: Nanos, number: usize) {
        let alone = self.requests.lane_len(number) == 1;
        let queue = &mut self.queues[number];
        if alone && queue.at_device == 0 {
            queue.timing.waited(now);
        }
        if !queue.users.just_created {
            queue.timing.judge_intensity(now);
        }
    }

    // Injection.

    /// Resets the injection limit (`bfq_reset_inject_limit`). A process with short think times loses by an injected request; one with long
    /// think times tolerates one.
    fn reset_injection(&mut self, now: Nanos, number: usize) {
        self.trial.measured = None;
        let queue = &mut self.queues[number];
        queue.injection.base_time = Nanos::ZERO;
        queue.injection.limit = u32::from(!queue.timing.short_think);
        queue.injection.decreased = now;
    }

    /// Detects the waker of a queue and prepares to measure the cost of injection (first part of `bfq_add_request`).
    pub(super) fn prepare_injection(&mut self, now: Nanos, number: usize) {
        self.look_for_waker(now, number);
        if now >= self.queues[number].injection.decreased + LIMIT_LASTS {
            self.reset_injection(now, number);
        }
        let injection = self.queues[number].injection;
        let base_known = injection.base_time > Nanos::ZERO;
        if self.turn.queue == Some(number)
            && (self.device.at_device == 0 || (base_known && self.trial.injected))
            && now >= injection.decreased + LIMIT_PAUSE
        {
            self.trial.arrived = now;
            self.trial.next = true;
            if self.device.at_device == 0 {
                self.trial.injected = false;
            }
        }
    }

    /// Counts the queue of the last completion as the possible waker of this queue (`bfq_check_waker`).
    fn look_for_waker(&mut self, now: Nanos, number: usize) {
        let completed = self.queues.last_completed.filter(|&last| self.queues.is_current(last) && last.number != number);
        let Some(completed) = completed else { return };
        if self.queues[number].timing.short_think || now - self.peak_rate.last_completion >= WAKE_DELAY {
            return;
        }
        let lasts = Nanos(128 * self.tuning.slice_idle.0);
        let queue = &mut self.queues[number];
        if queue.waking.detect(now, completed, lasts) {
            self.queues[completed.number].waking.woken = Some(self.queues.reference(number));
        }
    }

    /// Adapts the injection limit to the time of a measured request (`bfq_update_inject_limit`).
    pub(super) fn judge_injection(&mut self, now: Nanos, number: usize) {
        let time = now - self.trial.arrived;
        let alone = self.device.at_device == 1;
        let most = self.device.queue.most;
        let injected = self.trial.injected;
        let injection = &mut self.queues[number].injection;
        if injection.base_time > Nanos::ZERO && injected {
            let tolerable = time < Nanos((injection.base_time.0 / 2).saturating_mul(3));
            if !tolerable && injection.limit > 0 {
                injection.limit -= 1;
                injection.decreased = now;
            } else if tolerable && injection.limit <= most {
                injection.limit += 1;
            }
        }
        if (injection.base_time == Nanos::ZERO && alone) || time < injection.base_time {
            if injection.base_time == Nanos::ZERO {
                injection.limit = injection.limit.max(1);
            }
            injection.base_time = time;
        } else if !injected && alone {
            injection.base_time = time;
        }
        self.trial.measured = None;
        self.trial.injected = false;
    }

    /// Whether a queue is busy and its next request is within its budget.
    fn has_affordable(&self, number: usize) -> bool {
        let queue = &self.queues[number];
        queue.busy && queue.next.is_some_and(|next| self.charge(number, next) <= self.schedule.entity(number).budget_left())
    }

    /// The queue to dispatch from while the one in service is empty; `None` to idle (last part of `bfq_select_queue`).
    pub(super) fn queue_to_inject(&mut self, served: usize) -> Option<usize> {
        let queue = &self.queues[served];
        if let Some(owner) = queue.users.owner {
            // First the process's own asynchronous requests.
            let own = super::shared_queue(queue.origin.class, queue.origin.level);
            let next = self.queues[own].next.map(|next| self.requests.request(next.slot).stream);
            if next == Some(self.processes[owner].stream) && self.has_affordable(own) {
                return Some(own);
            }
        }
        let usable = |number: &usize| self.has_affordable(*number);
        let waker = queue.waking.waker.filter(|&waker| self.queues.is_current(waker)).map(|waker| waker.number).filter(usable);
        let woken = queue.waking.woken.filter(|&woken| self.queues.is_current(woken)).map(|woken| woken.number).filter(usable);
        if let Some(partner) = waker.or(woken) {
            return Some(partner);
        }
        let tolerates = !queue.is_raised() || self.busy.raised() > 1 || !queue.timing.short_think;
        if self.idling_boosts_throughput(served) || !tolerates {
            return None;
        }
        self.any_to_inject(served)
    }

    /// Any queue to inject from (`bfq_choose_bfqq_for_injection`). The kernel tries the most recently activated queue first; here the one
    /// that is due first.
    fn any_to_inject(&mut self, served: usize) -> Option<usize> {
        let queue = &self.queues[served];
        let any = !queue.is_raised() || !queue.timing.short_think;
        // The kernel intends to inject late in a long idle period if the cost was never measured, but adds nanoseconds to jiffies there, so
        // it never does.
        if self.device.at_device >= queue.injection.limit {
            return None;
        }
        let large = |next: Next| u64::from(self.requests.request(next.slot).sectors) >= LARGE_ON_FLASH;
        let too_large = |next| self.peak_rate.is_flash() && self.device.at_device >= 1 && large(next);
        let chosen = self.schedule.active().find(|&number| {
            let other = &self.queues[number];
            (any || other.is_raised()) && self.has_affordable(number) && !other.next.is_some_and(too_large)
        });
        self.trial.injected |= chosen.is_some();
        chosen
    }

    // Seeks.

    /// Whether a request is a seek (`BFQ_RQ_SEEKY`): on flash, distance matters for small requests only.
    pub(super) fn seeks(&self, from: u64, request: &Request) -> bool {
        let far = from != 0 && request.lba.abs_diff(from) > super::SEEK_THRESHOLD;
        far && (!self.peak_rate.is_flash() || u64::from(request.sectors) < LARGE_ON_FLASH)
    }

    /// The cost of a request for its queue, in sectors (`bfq_serv_to_charge`): threefold for asynchronous ones, so that writes do not crowd
    /// out reads, unless weights must be kept exactly.
    pub(super) fn charge(&self, number: usize, next: Next) -> u64 {
        let sectors = u64::from(self.requests.request(next.slot).sectors);
        let queue = &self.queues[number];
        if queue.is_sync() || queue.is_raised() || self.is_asymmetric(number) { sectors } else { 3 * sectors }
    }

    /// The tags open to writes, of `nr_requests` (`bfq_depth_updated`): fewer while a raised queue has requests, and fewest for
    /// asynchronous ones.
    pub(super) fn depth(&self, nr_requests: u32, sync: bool) -> u32 {
        let kind = if sync { SYNC } else { ASYNC };
        let sixteenths = [[8, 12], [3, 6]][usize::from(self.busy.raised() != 0)][kind];
        (u64::from(nr_requests) * sixteenths / 16).max(1) as u32
    }

    /// Whether a queue holds at least its share by weight of `limit` tags, so that others would lack them (`bfqq_request_over_limit`, of
    /// kernels built with groups, as those of distributions are).
    pub(super) fn is_over_limit(&self, number: usize, limit: u32) -> bool {
        let held = self.requests.lane_len(number) as u64 + u64::from(self.queues[number].at_device);
        self.schedule.share_of(number, u64::from(limit)).is_some_and(|share| held >= share)
    }
}
