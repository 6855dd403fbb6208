//! A volume: the clock of its reference disk, its open slot, and its use of spare capacity.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::charges::Charge;
use super::guard::{Guard, MAX_SILENCE};
use super::tuning::Order;
use crate::decay::DecayingMean;
use crate::queue::{Limits, Merges};
use crate::tenants::ServiceTime;
use crate::{Nanos, Pick, Request, Scheduler};

/// The scheduler of a slot merges nothing, as lanes already do.
const NO_MERGES: Limits = Limits { max_sectors: 0, merges: Merges::Never };

/// A volume without requests counts as behind for at most this time.
pub(super) const MAX_PAUSE: Nanos = Nanos::from_millis(1_000);
/// A request dwarfs another from this ratio of size and device time on.
const DWARFS: u32 = 2;
/// Number of completions remembered. A volume with more in flight keeps its reference disk busy, so its issue times hardly matter.
const MAX_ANSWERS: usize = 64;
/// The tolerance of a guarantee is this fraction of the time on the reference disk. Service times vary; if each early completion were a
/// gift and each late one a debt, all volumes would be owed more than their guarantees.
const TOLERANCE: u64 = 10;

/// Its keys in the lists.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Places {
    pub(super) due: Option<u128>,
    pub(super) tag: Option<u128>,
    pub(super) behind: bool,
    pub(super) pause: Option<u128>,
}

/// Requests that are dispatched together.
#[derive(Default)]
struct Slot {
    /// Created on first use.
    scheduler: Option<Box<dyn Scheduler>>,
    len: u32,
    /// Reference time that is left in it.
    left: Nanos,
}

pub(super) struct Volume {
    /// State of the reference disk; `None`: no guarantee.
    reference: Option<Box<dyn ServiceTime>>,
    weight: u64,
    /// When the reference disk would have completed all requests so far.
    clock: Nanos,
    /// Reference time of the queued requests, and of those at the device.
    waiting_time: Nanos,
    device_work: Nanos,
    /// Requests queued in lane and slot; merged ones count once.
    pub(super) waiting: u32,
    /// Requests in flight; merged ones count each.
    open: u32,
    /// Lateness compared to the reference disk of the last completions that were not yet followed by another request.
    answers: VecDeque<Nanos>,
    /// Its requests complete later than on its reference disk.
    pub(super) is_behind: bool,
    /// Until when that counts without further requests.
    behind_until: Nanos,
    /// How long it can do without the device.
    pub(super) guard: Guard,
    /// Arrival of the oldest queued request, assuming dispatch in order of arrival.
    waits_since: Nanos,
    /// Size of the last request that was dispatched.
    sectors: u32,
    /// Number of its requests at the device.
    at_device: u32,
    slot: Slot,
    /// Increases with its use of spare capacity.
    pub(super) tag: u64,
    pub(super) places: Places,
    device_time: DecayingMean,
    work: DecayingMean,
}

impl Volume {
    pub(super) fn new(reference: Option<Box<dyn ServiceTime>>, weight: u64) -> Volume {
        Volume {
            reference,
            weight: weight.max(1),
            clock: Nanos::ZERO,
            waiting_time: Nanos::ZERO,
            device_work: Nanos::ZERO,
            waiting: 0,
            open: 0,
            answers: VecDeque::new(),
            is_behind: false,
            behind_until: Nanos::ZERO,
            guard: Guard::default(),
            waits_since: Nanos::ZERO,
            sectors: 0,
            at_device: 0,
            slot: Slot::default(),
            tag: 0,
            places: Places::default(),
            device_time: DecayingMean::default(),
            work: DecayingMean::default(),
        }
    }

    pub(super) fn is_guaranteed(&self) -> bool {
        self.reference.is_some()
    }

    // The clock.

    /// When the reference disk would begin with the queued requests.
    pub(super) fn begin(&self) -> Nanos {
        self.clock - self.waiting_time
    }

    /// Reference time of all requests in flight.
    pub(super) fn open_time(&self) -> Nanos {
        self.waiting_time + self.device_work
    }

    /// When the reference disk would have completed all requests so far.
    pub(super) fn clock(&self) -> Nanos {
        self.clock
    }

    /// When the reference disk would complete one of the queued requests, taking their mean; `None` without queued requests or guarantee.
    pub(super) fn due(&self) -> Option<Nanos> {
        self.reference.as_ref()?;
        let mean = self.waiting_time.0.checked_div(u64::from(self.waiting))?;
        Some(self.begin() + Nanos(mean))
    }

    /// Registers an arrival; `reference_now` is the reference disks' time. Returns the request's time on the reference disk.
    ///
    /// An idle reference disk waits, so its clock catches up with the present; not while requests are in flight, as these are late here and
    /// their successors would have arrived sooner. For the same reason a request that follows a late completion counts as issued earlier by
    /// that lateness.
    pub(super) fn arrived(&mut self, now: Nanos, reference_now: Nanos, request: &Request) -> Nanos {
        if self.waiting == 0 {
            self.waits_since = now;
        }
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

    /// Records a dispatch.
    pub(super) fn sent(&mut self, service: Nanos, arrival: Nanos, sectors: u32) {
        self.sectors = sectors;
        self.waiting -= 1;
        self.at_device += 1;
        self.waits_since = self.waits_since.max(arrival);
        self.waiting_time = self.waiting_time - service;
        self.device_work += service;
    }

    /// Records a completion; the device was busy for `device_time`, with `work` of disk time.
    ///
    /// If it was earlier than on the reference disk, the guarantee restarts here: open requests are due when the reference disk would
    /// complete them if it began now.
    pub(super) fn completed(&mut self, now: Nanos, charge: &Charge, (device_time, work): (Nanos, Nanos), max_lateness: Nanos) {
        self.device_work = self.device_work - charge.service;
        self.open = self.open.saturating_sub(charge.parts);
        self.at_device = self.at_device.saturating_sub(1);
        let on_time = now + self.open_time();
        let tolerance = Nanos(charge.allowed.0 / TOLERANCE);
        self.is_behind = self.is_guaranteed() && self.clock + tolerance < on_time;
        self.behind_until = now + max_lateness.min(MAX_PAUSE);
        self.clock = self.clock.min(on_time + tolerance);
        if self.answers.len() == MAX_ANSWERS {
            self.answers.pop_front();
        }
        self.answers.push_back((now - charge.reference_done).min(max_lateness));
        self.device_time.add(device_time.0);
        self.work.add(work.0);
    }

    /// Until when it counts as behind without requests in flight; `None` unless it does.
    pub(super) fn pauses_behind(&self) -> Option<Nanos> {
        (self.is_behind && self.open == 0).then_some(self.behind_until)
    }

    // Delays caused by others.

    /// Until when its next request is awaited; `None` while it has requests in flight.
    pub(super) fn expected_until(&self) -> Option<Nanos> {
        (self.open == 0).then(|| self.guard.next_at() + MAX_SILENCE)
    }

    /// Latest dispatch of its next request.
    pub(super) fn can_wait_until(&self, now: Nanos) -> Nanos {
        let guard = &self.guard;
        match (self.waiting, self.open) {
            (0, 0) => guard.can_wait_until(now.max(guard.next_at()), false),
            (0, _) => guard.can_wait_until(now, true),
            _ => guard.can_wait_until(self.waits_since, false),
        }
    }

    /// Whether requests that occupy the device for longer than that may be dispatched.
    pub(super) fn tolerates_preemption(&self, now: Nanos, preemptions: u32) -> bool {
        self.guard.tolerates_preemption(now, self.open, self.at_device > 0, preemptions)
    }

    /// Whether its requests, which occupy the device for `occupancy`, are much longer and larger than those of another volume. A long seek
    /// alone does not count, as both volumes cause it.
    pub(super) fn dwarfs_service_time(&self, occupancy: Nanos, other: &Volume) -> bool {
        let is_long = other.guard.alone().is_none_or(|others| occupancy.0 / u64::from(DWARFS) > others.0);
        is_long && self.sectors / DWARFS > other.sectors
    }

    /// Number of its requests at the device.
    pub(super) fn at_device(&self) -> u32 {
        self.at_device
    }

    // Spare capacity.

    /// Mean time for which a request keeps the device busy.
    pub(super) fn device_time(&self) -> Nanos {
        Nanos(self.device_time.mean())
    }

    /// Mean disk time of a request.
    pub(super) fn work(&self) -> Nanos {
        Nanos(self.work.mean())
    }

    /// Charges reference time beyond the guarantee.
    pub(super) fn spend(&mut self, time: Nanos) {
        self.tag = self.tag.saturating_add((time.0 / self.weight).max(1));
    }

    // The slot.

    /// Whether its slot has requests, or room for queued ones.
    pub(super) fn slot_continues(&self) -> bool {
        self.slot.len > 0 || self.waiting > 0 && self.slot.left > Nanos::ZERO
    }

    /// Opens a slot unless one is open.
    pub(super) fn open_slot(&mut self, length: Nanos, order: Order) {
        if self.slot.scheduler.is_none() {
            let spec = order.spec();
            self.slot.scheduler = Some((spec.build)(&NO_MERGES, &spec.defaults()));
        }
        if self.slot.len == 0 && self.slot.left == Nanos::ZERO {
            self.slot.left = length;
        }
    }

    /// Whether a request with this reference time fits into the slot; the first one always does. Closes the slot if not.
    pub(super) fn has_room_for(&mut self, service: Nanos) -> bool {
        let fits = self.slot.len == 0 || service <= self.slot.left;
        if !fits {
            self.slot.left = Nanos::ZERO;
        }
        fits
    }

    pub(super) fn put_into_slot(&mut self, now: Nanos, request: Request, service: Nanos) {
        if let Some(scheduler) = &mut self.slot.scheduler {
            scheduler.insert(now, request);
            self.slot.len += 1;
            self.slot.left = self.slot.left - service;
        }
    }

    pub(super) fn take_from_slot(&mut self, now: Nanos, cost: &mut dyn FnMut(&Request) -> Option<Nanos>) -> Option<Request> {
        let Pick::Go(request) = self.slot.scheduler.as_mut()?.pick_with_cost(now, cost) else { return None };
        self.slot.len -= 1;
        Some(request)
    }

    /// Switches the scheduler of the slot.
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
        self.slot.len = 0;
    }

    /// Reverts the arrival of a queued request, which was drained.
    pub(super) fn withdrawn(&mut self, charge: &Charge) {
        self.waiting -= 1;
        self.open = self.open.saturating_sub(charge.parts);
        self.clock = self.clock - charge.service;
        self.waiting_time = self.waiting_time - charge.service;
    }
}
