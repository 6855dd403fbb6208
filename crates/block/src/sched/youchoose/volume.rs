//! A volume: the clock of its reference disk, its open slot, and what it got of the capacity to spare.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::charges::Charge;
use super::guard::{Guard, LONGEST_SILENCE};
use super::tuning::Order;
use crate::decay::DecayingMean;
use crate::queue::{Limits, Merges};
use crate::tenants::ServiceTime;
use crate::{Nanos, Pick, Request, Scheduler};

/// A slot's scheduler merges nothing: that is done in the lanes.
const APART: Limits = Limits { max_sectors: 0, merges: Merges::Never };

/// No longer than this does it count that somebody was behind who asks for nothing.
pub(super) const LONGEST_PAUSE: Nanos = Nanos::from_millis(1_000);
/// A request is long beside another that is less than so many times as large, and takes the device less than so many times as long.
const LONG: u32 = 2;
/// So many answers are remembered. Who has more under way keeps its reference disk busy, so that it hardly matters when it asks.
const MOST_ANSWERS: usize = 64;
/// A promise is neither made anew nor broken by the last part, one in so many, of the time that the reference disk would take: how long
/// requests take here varies, and where each early one was a present and each late one a debt, all would be owed more than they were
/// promised.
const CREDIT: u64 = 10;

/// Under which keys it stands in the lists.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Places {
    pub(super) due: Option<u128>,
    pub(super) tag: Option<u128>,
    pub(super) behind: bool,
    pub(super) pause: Option<u128>,
}

/// The requests that are sent together.
#[derive(Default)]
struct Slot {
    /// Made when it is first needed.
    scheduler: Option<Box<dyn Scheduler>>,
    len: u32,
    /// The reference time that may still join.
    left: Nanos,
}

pub(super) struct Volume {
    /// The reference disk at work; `None`: nothing was promised.
    reference: Option<Box<dyn ServiceTime>>,
    weight: u64,
    /// When the reference disk would be done with all that came.
    clock: Nanos,
    /// Its time for what waits, and for what is at the device.
    waiting_time: Nanos,
    device_work: Nanos,
    /// Requests that wait in lane and slot; merged ones count once.
    pub(super) waiting: u32,
    /// Requests that are not done; each counts that came.
    open: u32,
    /// By how much the last answers came later than from the reference disk, that were not followed by another request yet.
    answers: VecDeque<Nanos>,
    /// Its requests are done later than on its reference disk.
    pub(super) is_behind: bool,
    /// Until when that counts if it asks for nothing more.
    behind_until: Nanos,
    /// How long it can do without the device.
    pub(super) guard: Guard,
    /// Since when the oldest request waits that did not go to the device yet, as requests mostly go in the order in which they came.
    waits_since: Nanos,
    /// How large the last of its requests was that went to the device.
    sectors: u32,
    /// Of its requests, those at the device.
    at_device: u32,
    slot: Slot,
    /// Advances with what it gets of the capacity to spare.
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

    pub(super) fn is_promised(&self) -> bool {
        self.reference.is_some()
    }

    // The clock.

    /// When the reference disk would begin with what waits.
    pub(super) fn begin(&self) -> Nanos {
        self.clock - self.waiting_time
    }

    /// How long it would take for all that is not done.
    pub(super) fn open_time(&self) -> Nanos {
        self.waiting_time + self.device_work
    }

    /// When it is done with all that came.
    pub(super) fn clock(&self) -> Nanos {
        self.clock
    }

    /// When it would be done with one of the waiting requests, as they are on average; `None` if none waits or nothing was promised.
    pub(super) fn due(&self) -> Option<Nanos> {
        self.reference.as_ref()?;
        let mean = self.waiting_time.0.checked_div(u64::from(self.waiting))?;
        Some(self.begin() + Nanos(mean))
    }

    /// A request came. `reference_now` is how far the time of the reference disks has come. Says how long this one would be busy with it.
    ///
    /// A reference disk that has nothing to do waits, and its clock catches up with the time. It does not while requests are under way:
    /// then they are late here, and what came of them would have come sooner. For the same reason who asks again after he was answered too
    /// late would have asked by as much earlier.
    pub(super) fn arrived(&mut self, now: Nanos, reference_now: Nanos, request: &Request) -> Nanos {
        if self.waiting == 0 {
            self.waits_since = now;
        }
        let lateness = self.answers.pop_front().unwrap_or(Nanos::ZERO);
        if self.open == 0 {
            self.guard.asks_again(now);
            self.clock = self.clock.max(reference_now.min(now - lateness));
        }
        let Some(reference) = &mut self.reference else {
            self.open += 1;
            return Nanos::ZERO;
        };
        // No disk takes no time; and one that seems to would be owed everything at once.
        let service = reference.of(self.clock, request, self.open).max(Nanos(1));
        self.open += 1;
        self.clock += service;
        self.waiting_time += service;
        service
    }

    /// Gives up what is owed from before `floor`.
    pub(super) fn forgive(&mut self, floor: Nanos) {
        if self.waiting > 0 {
            self.clock += floor - self.begin();
        }
    }

    /// A request of so much reference time went to the device, which came at `arrival`.
    pub(super) fn sent(&mut self, service: Nanos, arrival: Nanos, sectors: u32) {
        self.sectors = sectors;
        self.waiting -= 1;
        self.at_device += 1;
        self.waits_since = self.waits_since.max(arrival);
        self.waiting_time = self.waiting_time - service;
        self.device_work += service;
    }

    /// A request is done, after the device was busy with it for so long, and had so much work with it.
    ///
    /// If that was earlier than the reference disk would have been, the promise begins anew from here: what is still open is due when the
    /// reference disk would be done with it if it began now.
    pub(super) fn completed(&mut self, now: Nanos, charge: &Charge, (device_time, work): (Nanos, Nanos), most_late: Nanos) {
        self.device_work = self.device_work - charge.service;
        self.open = self.open.saturating_sub(charge.parts);
        self.at_device = self.at_device.saturating_sub(1);
        let on_time = now + self.open_time();
        let tolerance = Nanos(charge.allowed.0 / CREDIT);
        self.is_behind = self.is_promised() && self.clock + tolerance < on_time;
        self.behind_until = now + most_late.min(LONGEST_PAUSE);
        self.clock = self.clock.min(on_time + tolerance);
        if self.answers.len() == MOST_ANSWERS {
            self.answers.pop_front();
        }
        self.answers.push_back((now - charge.reference_done).min(most_late));
        self.device_time.add(device_time.0);
        self.work.add(work.0);
    }

    /// Until when it counts as behind though it asks for nothing.
    pub(super) fn pauses_behind(&self) -> Option<Nanos> {
        (self.is_behind && self.open == 0).then_some(self.behind_until)
    }

    // What others may take of the device.

    /// It will ask until then, or nobody knows when; `None` if it has asked.
    pub(super) fn expected_until(&self) -> Option<Nanos> {
        (self.open == 0).then(|| self.guard.next_at() + LONGEST_SILENCE)
    }

    /// By when its next request must go to the device.
    pub(super) fn can_wait_until(&self, now: Nanos) -> Nanos {
        let guard = &self.guard;
        match (self.waiting, self.open) {
            (0, 0) => guard.can_wait_until(now.max(guard.next_at()), false),
            (0, _) => guard.can_wait_until(now, true),
            _ => guard.can_wait_until(self.waits_since, false),
        }
    }

    /// Whether others may go who keep the device for longer than that.
    pub(super) fn bears_intrusion(&self, now: Nanos, intrusions: u32) -> bool {
        self.guard.bears_intrusion(now, self.open, self.at_device > 0, intrusions)
    }

    /// Whether its requests, which keep the device for so long, are long beside those of another volume. A seek does not make them so: they
    /// both cause it.
    pub(super) fn is_long_beside(&self, keeps: Nanos, other: &Volume) -> bool {
        let takes_long = other.guard.alone().is_none_or(|others| keeps.0 / u64::from(LONG) > others.0);
        takes_long && self.sectors / LONG > other.sectors
    }

    /// Requests at the device.
    pub(super) fn at_device(&self) -> u32 {
        self.at_device
    }

    // The capacity to spare.

    /// How long the device is busy with a request of it.
    pub(super) fn device_time(&self) -> Nanos {
        Nanos(self.device_time.mean())
    }

    /// How much work the device has with a request of it.
    pub(super) fn work(&self) -> Nanos {
        Nanos(self.work.mean())
    }

    /// It got so much reference time beyond what it was owed.
    pub(super) fn spend(&mut self, time: Nanos) {
        self.tag = self.tag.saturating_add((time.0 / self.weight).max(1));
    }

    // The slot.

    /// Whether its slot has something, or may get something that waits.
    pub(super) fn goes_on(&self) -> bool {
        self.slot.len > 0 || self.waiting > 0 && self.slot.left > Nanos::ZERO
    }

    /// Makes sure that there is a slot that requests can join.
    pub(super) fn open_slot(&mut self, length: Nanos, order: Order) {
        if self.slot.scheduler.is_none() {
            let spec = order.spec();
            self.slot.scheduler = Some((spec.build)(&APART, &spec.defaults()));
        }
        if self.slot.len == 0 && self.slot.left == Nanos::ZERO {
            self.slot.left = length;
        }
    }

    /// Whether a request of so much reference time fits in; a first one always does.
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

    /// Another scheduler takes the slot over.
    pub(super) fn reorder(&mut self, now: Nanos, order: Order) {
        if let Some(before) = &mut self.slot.scheduler {
            let spec = order.spec();
            let mut after = (spec.build)(&APART, &spec.defaults());
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

    /// A waiting request was taken away.
    pub(super) fn taken_away(&mut self, charge: &Charge) {
        self.waiting -= 1;
        self.open = self.open.saturating_sub(charge.parts);
        self.clock = self.clock - charge.service;
        self.waiting_time = self.waiting_time - charge.service;
    }
}
