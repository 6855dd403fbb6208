//! A volume: the clock of its reference disk, its open slot, and its use of spare capacity.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::admission::{Deadline, Place};
use super::charges::Charge;
use super::guard::{Guard, MAX_SILENCE};
use super::tuning::Order;
use crate::bound::Bound;
use crate::cost::Cost;
use crate::promise::{self, promised};
use crate::queue::{Limits, Merges};
use crate::rates::Limiter;
use crate::tenants::ServiceTime;
use crate::{Nanos, Pick, Request, Scheduler, Standing, Tenant};

/// The scheduler of a slot merges nothing, as lanes already do.
const NO_MERGES: Limits = Limits { max_sectors: 0, merges: Merges::Never };

/// Requests are sorted over one part in this many of a volume's worst-case response; the rest is for waiting.
const SORTED_PART: u64 = 4;
/// Number of completions remembered. A volume with more in flight keeps its reference disk busy, so its issue times hardly matter.
const MAX_ANSWERS: usize = 64;
/// Tolerance of a guarantee: one part in this many of the time on the reference disk. Service times vary; if each early completion were a
/// gift and each late one a debt, all volumes would be owed more than their guarantees.
const TOLERANCE: u64 = 10;

/// A volume's keys in the lists; `None` if it is not in that list.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Places {
    pub(super) start: Option<u128>,
    pub(super) tag: Option<u128>,
    pub(super) expiry: Option<u128>,
    pub(super) deadline: Place,
    pub(super) bears: Option<u128>,
    pub(super) due: Option<u128>,
}

/// A slot: requests that are dispatched together.
#[derive(Default)]
struct Slot {
    /// Created on first use.
    scheduler: Option<Box<dyn Scheduler>>,
    len: u32,
    /// Reference time of its requests.
    held: Nanos,
    /// Reference time left in its turn.
    left: Nanos,
}

pub(super) struct Volume {
    /// State of the reference disk; `None`: no guarantee.
    reference: Option<Box<dyn ServiceTime>>,
    /// Its limits, and the time at which they allow its next request.
    limiter: Option<Limiter>,
    ready: Nanos,
    /// Whether the reference disk has reported response times; until then its service times are summed up.
    reports_responses: bool,
    weight: u64,
    /// The time at which the reference disk would have completed all requests so far.
    clock: Nanos,
    /// Reference time of the queued requests, and of those at the device.
    waiting_time: Nanos,
    device_work: Nanos,
    /// Requests queued in lane and slot; merged ones count once.
    pub(super) waiting: u32,
    /// Requests in flight; merged ones count each.
    open: u32,
    /// For recent completions that were not yet followed by another request: lateness compared to the reference disk.
    answers: VecDeque<Nanos>,
    /// How long it can wait for the device.
    pub(super) guard: Guard,
    /// Bound of the requests in flight that it tolerates, including one of its own; `None` before its first completion.
    pub(super) bears: Option<Bound>,
    /// Requests in flight in order of arrival, including completed ones after the oldest: number of earlier arrivals at all volumes, the
    /// time at which it counts as issued, and whether it is completed.
    arrivals: VecDeque<(u64, Nanos, bool)>,
    /// Size of the last dispatched request.
    sectors: u32,
    /// Number of its requests in flight, and their expected work.
    at_device: u32,
    work_at_device: Nanos,
    /// Busy time of the device for its requests so far.
    done: Nanos,
    slot: Slot,
    /// Increases as it uses spare capacity.
    pub(super) tag: u64,
    pub(super) places: Places,
    /// Time for which its requests keep the device busy, by size.
    pub(super) cost: Cost,
    /// Disk time of its requests, by size; longer if the device reports writes before they are done.
    pub(super) disk_time: Cost,
}

impl Volume {
    pub(super) fn new(tenant: Option<&Tenant>, weight: u64) -> Volume {
        let latency = tenant.and_then(|tenant| tenant.latency_p99);
        Volume {
            reference: tenant.and_then(promised),
            limiter: tenant.and_then(|tenant| Limiter::new(&tenant.rates)),
            ready: Nanos::ZERO,
            reports_responses: false,
            weight: weight.max(1),
            clock: Nanos::ZERO,
            waiting_time: Nanos::ZERO,
            device_work: Nanos::ZERO,
            waiting: 0,
            open: 0,
            answers: VecDeque::new(),
            guard: Guard::new(latency),
            bears: None,
            arrivals: VecDeque::new(),
            sectors: 0,
            at_device: 0,
            work_at_device: Nanos::ZERO,
            done: Nanos::ZERO,
            slot: Slot::default(),
            tag: 0,
            places: Places::default(),
            cost: Cost::default(),
            disk_time: Cost::default(),
        }
    }

    /// The volume with another guarantee. Unchanged parts (the same reference disk, limits) keep their state.
    pub(super) fn with_promise(self, now: Nanos, before: &Tenant, after: &Tenant) -> Volume {
        let weight = u64::from(after.weight).max(1);
        if promise::is_same(before, after) {
            return Volume { weight, ..self };
        }
        let limiter = if before.rates == after.rates { self.limiter } else { Limiter::new(&after.rates) };
        let fresh = Volume::new(Some(after), weight);
        // The new disk starts now, with the requests in flight still to be completed.
        let (reference, guard) = (fresh.reference, self.guard.with_bound(after.latency_p99));
        Volume { reference, limiter, weight, guard, reports_responses: false, clock: self.clock.max(now), ..self }
    }

    /// Takes over a request in flight whose tenant is no longer on the roster.
    pub(super) fn adopt(&mut self, charge: &Charge) {
        self.open += charge.parts;
        self.at_device += 1;
        self.work_at_device += charge.work;
        self.device_work += charge.service;
        self.arrivals.push_back((charge.sequence, charge.arrival, false));
        self.arrivals.make_contiguous().sort_unstable();
    }

    pub(super) fn is_guaranteed(&self) -> bool {
        self.reference.is_some()
    }

    // The clock.

    /// The time at which the reference disk would start the queued requests.
    pub(super) fn begin(&self) -> Nanos {
        self.clock - self.waiting_time
    }

    /// Reference time of all requests in flight.
    pub(super) fn open_time(&self) -> Nanos {
        self.waiting_time + self.device_work
    }

    /// The time at which the reference disk would have completed all requests so far.
    pub(super) fn clock(&self) -> Nanos {
        self.clock
    }

    /// The time at which the reference disk would complete the first queued request, by the mean of the queued ones; `None` without queued
    /// requests or guarantee.
    pub(super) fn due(&self) -> Option<Nanos> {
        self.reference.as_ref()?;
        let mean = self.waiting_time.0.checked_div(u64::from(self.waiting))?;
        Some(self.begin() + Nanos(mean))
    }

    /// The latest time to dispatch a queued request if no work of others is in flight; `None` without queued requests or guarantee.
    pub(super) fn latest_start(&self) -> Option<Nanos> {
        Some(self.due()? - self.guard.lead())
    }

    /// Registers an arrival; `reference_now` is the reference disks' time. Returns the request's time on the reference disk.
    ///
    /// An idle reference disk waits, so its clock catches up with the present; but not while requests are in flight, as these are late here
    /// and their successors would have arrived earlier. For the same reason a request that follows a late completion counts as issued
    /// earlier by that lateness.
    pub(super) fn arrived(&mut self, now: Nanos, reference_now: Nanos, request: &Request) -> Nanos {
        let lateness = self.answers.pop_front().unwrap_or(Nanos::ZERO);
        if self.open == 0 {
            self.guard.resumed(now);
            self.clock = self.clock.max(reference_now.min(now - lateness));
        }
        let Some(reference) = &mut self.reference else {
            self.open += 1;
            return Nanos::ZERO;
        };
        // At least 1 ns: a request without cost would be due at once.
        let service = reference.service_time(self.clock, request, self.open).max(Nanos(1));
        let (guard, reports) = (&mut self.guard, &mut self.reports_responses);
        reference.take_responses(&mut |response| {
            guard.add_reference_response(response);
            *reports = true;
        });
        if !*reports {
            guard.add_reference_response(self.waiting_time + self.device_work + service);
        }
        self.open += 1;
        self.clock += service;
        self.waiting_time += service;
        service
    }

    /// Forgives debt from before `floor`.
    pub(super) fn forgive(&mut self, floor: Nanos) {
        if self.waiting > 0 {
            self.clock += floor - self.begin();
        }
    }

    /// Records a dispatch with its expected work.
    pub(super) fn sent(&mut self, now: Nanos, service: Nanos, work: Nanos, request: &Request) {
        if let Some(limiter) = &mut self.limiter {
            limiter.charge(now, request);
            self.ready = limiter.ready_at(now, request);
        }
        self.sectors = request.sectors;
        self.waiting -= 1;
        self.at_device += 1;
        self.work_at_device += work;
        self.waiting_time = self.waiting_time - service;
        self.device_work += service;
    }

    /// Records a completion.
    ///
    /// If it was earlier than on the reference disk, the guarantee restarts here: open requests are due when the reference disk would
    /// complete them if it started now.
    pub(super) fn completed(&mut self, now: Nanos, charge: &Charge, max_lateness: Nanos) {
        self.device_work = self.device_work - charge.service;
        self.open = self.open.saturating_sub(charge.parts);
        self.at_device = self.at_device.saturating_sub(1);
        self.work_at_device = self.work_at_device - charge.work;
        let on_time = now + self.open_time();
        let tolerance = Nanos(charge.allowed.0 / TOLERANCE);
        self.clock = self.clock.min(on_time + tolerance);
        if self.answers.len() == MAX_ANSWERS {
            self.answers.pop_front();
        }
        self.answers.push_back((now - charge.reference_done).min(max_lateness));
    }

    // Limits.

    /// Its limits; `None` if it has none.
    pub(super) fn limiter(&self) -> Option<&Limiter> {
        self.limiter.as_ref()
    }

    /// Whether its reads and writes have separate limits.
    pub(super) fn is_limited_by_direction(&self) -> bool {
        self.limiter.as_ref().is_some_and(Limiter::is_by_direction)
    }

    /// Sets the time at which its limits allow the next request.
    pub(super) fn set_ready(&mut self, ready: Nanos) {
        self.ready = ready;
    }

    /// Whether its limits allow a request now.
    pub(super) fn is_ready(&self, now: Nanos) -> bool {
        self.waiting == 0 || self.ready <= now
    }

    /// The time at which its limits allow the next request.
    pub(super) fn ready(&self) -> Nanos {
        self.ready
    }

    // Delays by others.

    /// Registers a request that was not merged, with the number of earlier arrivals.
    ///
    /// If more requests are in flight than the worst-case response of the reference disk covers, that disk would have kept this one waiting
    /// as well: it counts as issued later by that time.
    pub(super) fn began(&mut self, sequence: u64, arrival: Nanos) {
        let issued = arrival + (self.open_time() - self.guard.tail());
        self.arrivals.push_back((sequence, issued, false));
    }

    /// Registers that a request is no longer in flight.
    pub(super) fn ended(&mut self, sequence: u64) {
        if let Ok(place) = self.arrivals.binary_search_by_key(&sequence, |arrival| arrival.0) {
            self.arrivals[place].2 = true;
        }
        while self.arrivals.front().is_some_and(|arrival| arrival.2) {
            self.arrivals.pop_front();
        }
    }

    /// The latest time at which its next request must have the device; `own_delay` is the delay that its own requests in flight cause.
    pub(super) fn deadline(&self, now: Nanos, own_delay: Nanos) -> Deadline {
        if self.reference.is_none() || self.guard.tail() == Nanos::ZERO {
            return Deadline::default();
        }
        let slack = self.guard.slack() + own_delay;
        if !self.is_ready(now) {
            // Its limit allows the next request at that time.
            return Deadline { at: Some(self.ready + slack), after: None };
        }
        let next = self.guard.next_at();
        if let Some(&(_, oldest, _)) = self.arrivals.front() {
            let after = (self.waiting == 0).then(|| self.guard.think() + slack);
            return Deadline { at: Some(oldest + slack), after };
        }
        match now {
            _ if now >= next + MAX_SILENCE => Deadline::default(),
            _ if now < next => Deadline { at: Some(next + slack), after: None },
            _ => Deadline { at: None, after: Some(slack) },
        }
    }

    /// Due time of the oldest of its requests in flight; `None` without one, or without a guarantee.
    pub(super) fn oldest_due(&self) -> Option<Nanos> {
        self.reference.as_ref()?;
        self.arrivals.front().map(|&(_, oldest, _)| oldest + self.guard.tail())
    }

    /// The state of its guarantee; `None` if it has none.
    pub(super) fn standing(&self, now: Nanos) -> Option<Standing> {
        self.reference.as_ref()?;
        let [completed, late, late_by_others] = self.guard.counts();
        let mean = Nanos(self.open_time().0.checked_div(u64::from(self.open)).unwrap_or(0));
        let behind = if self.is_silent() { Nanos::ZERO } else { now - (self.clock - self.open_time() + mean) };
        let reference_work = Nanos::ZERO;
        Some(Standing { completed, late, late_by_others, reference_work, behind, slack: self.guard.slack() })
    }

    /// Time until which the deadline is valid if nothing happens.
    pub(super) fn deadline_until(&self, now: Nanos) -> Nanos {
        let next = self.guard.next_at();
        if now < next { next } else { next + MAX_SILENCE }
    }

    /// Whether it has no requests in flight.
    pub(super) fn is_silent(&self) -> bool {
        self.open == 0
    }

    /// Whether requests that occupy the device beyond its deadline may be dispatched.
    pub(super) fn tolerates_preemption(&self, now: Nanos, preemptions: u32) -> bool {
        self.guard.tolerates_preemption(now, self.open, self.at_device > 0, preemptions)
    }

    /// Total busy time of the device for its requests.
    pub(super) fn done(&self) -> Nanos {
        self.done
    }

    /// Adds busy time.
    pub(super) fn add_done(&mut self, time: Nanos) {
        self.done += time;
    }

    /// Size of the last dispatched request.
    pub(super) fn sectors(&self) -> u32 {
        self.sectors
    }

    /// Expected work of its requests in flight.
    pub(super) fn work_at_device(&self) -> Nanos {
        self.work_at_device
    }

    // Spare capacity.

    /// Charges reference time beyond the guarantee to its tag.
    pub(super) fn spend(&mut self, time: Nanos) {
        self.tag = self.tag.saturating_add((time.0 / self.weight).max(1));
    }

    // The slot.

    /// Whether its slot continues: it has queued requests, and time left for one of them.
    pub(super) fn slot_continues(&self) -> bool {
        let usual = self.waiting_time.0.checked_div(u64::from(self.waiting));
        usual.is_some_and(|usual| self.slot.left > Nanos::ZERO && self.slot.left.0 >= usual)
    }

    /// Whether no request is in its slot.
    pub(super) fn slot_is_empty(&self) -> bool {
        self.slot.len == 0
    }

    /// Opens a slot unless one is open.
    pub(super) fn open_slot(&mut self, length: Nanos, order: Order) {
        if self.slot.scheduler.is_none() {
            let spec = order.spec();
            self.slot.scheduler = Some((spec.build)(&NO_MERGES, &spec.defaults()));
        }
        if !self.slot_continues() {
            self.slot.left = length;
        }
    }

    /// Whether another request fits into the slot; the first one always does. With a guarantee, requests are sorted over a fourth of the
    /// worst-case response, at least over `length` of reference time; without one, over at most `most` requests.
    pub(super) fn has_room_for(&self, service: Nanos, length: Nanos, most: u32) -> bool {
        let fits = match self.is_guaranteed() {
            true => self.slot.held + service <= length.max(Nanos(self.guard.tail().0 / SORTED_PART)),
            false => self.slot.len < most,
        };
        fits || self.slot.len == 0
    }

    pub(super) fn put_into_slot(&mut self, now: Nanos, request: Request, service: Nanos) {
        if let Some(scheduler) = &mut self.slot.scheduler {
            scheduler.insert(now, request);
            self.slot.len += 1;
            self.slot.held += service;
        }
    }

    /// The next request of the slot.
    pub(super) fn take_from_slot(&mut self, now: Nanos, cost: &mut dyn FnMut(&Request) -> Option<Nanos>) -> Option<Request> {
        let Pick::Go(request) = self.slot.scheduler.as_mut()?.pick_with_cost(now, cost) else { return None };
        self.slot.len -= 1;
        Some(request)
    }

    /// Subtracts the reference time of a dispatched request from the slot.
    pub(super) fn use_turn(&mut self, service: Nanos) {
        self.slot.held = if self.slot.len == 0 { Nanos::ZERO } else { self.slot.held - service };
        self.slot.left = self.slot.left - service;
    }

    /// Replaces the scheduler of the slot.
    pub(super) fn reorder(&mut self, now: Nanos, order: Order) {
        if let Some(before) = &mut self.slot.scheduler {
            let spec = order.spec();
            let mut after = (spec.build)(&NO_MERGES, &spec.defaults());
            crate::switch(&mut **before, &mut *after, now, |_, _| ());
            *before = after;
        }
    }

    pub(super) fn drain_slot(&mut self, out: &mut Vec<Request>) {
        if let Some(scheduler) = &mut self.slot.scheduler {
            scheduler.drain(out);
        }
        (self.slot.len, self.slot.held) = (0, Nanos::ZERO);
    }

    /// Reverts the arrival of a queued request, which was drained.
    pub(super) fn withdrawn(&mut self, charge: &Charge) {
        self.waiting -= 1;
        self.open = self.open.saturating_sub(charge.parts);
        self.clock = self.clock - charge.service;
        self.waiting_time = self.waiting_time - charge.service;
    }
}
