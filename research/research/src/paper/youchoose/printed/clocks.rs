//! The scheduler of section III.B as printed: N + 1 clocks, and slots of equal reference time.
//!
//! ```text
//!         requests                slots of the same reference time          reference clock
//! VSD 1   ─▶ CART: service time ─▶ │ 1 │ 2 │ 3 │            ref_clock += service time on arrival (1)
//! VSD 2   ─▶ CART: service time ─▶ │ 1 │   │ 3 │            ref_clock = wall_clock at its turn without requests (2)
//!                                                           the slowest clock is served next
//! ```
//! Details that the paper leaves open, and the choices made here:
//!
//! * If no clock is slower than the wall clock there is spare capacity. The slowest clock is served then, too, so that it is shared "in
//!   proportion to their RSS capability" (IV.C).
//! * A request belongs to the slot in which its VSD's clock stood before it, or to a later one if that is full, so that the slots of all VSDs
//!   have the same numbers (III.C). One that is longer than a slot has a slot of its own.
//! * "Too few requests in a slot": fewer than fit. Requests of the following slots are moved into a slot when it is served, in their order,
//!   until the next one does not fit.
//! * "Pending" requests are those that are not completed, so a VSD whose requests are all at the disks is not idle.
//! * A best-effort VSD (V) has no clock and is served when no VSD with requests is slower than the wall clock.

use std::collections::VecDeque;

use block::sched::COMPLETION_BACKSTOP;
use block::tenants::{Register, ServiceTime};
use block::{Insertion, Nanos, Pick, Request, Roster, Scheduler, SchedulerSpec, Tunable, Unit, tunables};

/// The scheduler, for the paper's experiments only.
pub static SPEC: SchedulerSpec = SchedulerSpec {
    name: "youchoose-printed",
    summary: "reference clocks and slots of equal reference time, as the YouChoose paper prints them",
    source: "Zhang, Xu, Jiang, YouChoose, MSST 2011, section III.B",
    tunables: Tunables::TUNABLES,
    work_conserving: false,
    starvation_bound: None,
    knowledge: None,
    build: |_, values| Box::new(Clocks::new(Tunables::of(values), &Roster::default())),
};

tunables! {
    /// Variants, where the paper leaves the choice open.
    #[derive(Clone, Copy)]
    pub struct Tunables {
        /// The capacity of a slot in reference time: the longer of the two windows of section IV.A.
        pub slot: Nanos = Tunable::new(Unit::Milliseconds, 1..=10_000, 80).logarithmic(),
        /// A slot is sent when the one before is done, and not as soon as the disks have room.
        pub serial: bool = Tunable::new(Unit::Flag, 0..=1, 0),
        /// The clock advances when a request is sent to the disks, and not when it arrives: "tracks received service" (figure 4).
        pub at_dispatch: bool = Tunable::new(Unit::Flag, 0..=1, 0),
    }
}

/// A waiting request.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    request: Request,
    /// Its service time on the reference system.
    service: Nanos,
    /// Order of arrival over all VSDs.
    sequence: u64,
}

/// A slot of a VSD.
#[derive(Debug)]
struct Slot {
    number: u64,
    used: Nanos,
    waiting: VecDeque<Waiting>,
}

/// A virtual storage device.
#[derive(Default)]
struct Vsd {
    /// The model of its reference system; `None` for best effort.
    reference: Option<Box<dyn ServiceTime>>,
    clock: Nanos,
    slots: VecDeque<Slot>,
    /// The lowest number allowed for a new slot.
    next_slot: u64,
    at_device: usize,
}

impl Vsd {
    /// Puts a request into the slot in which the clock stood `before` it, or into a later one.
    fn put(&mut self, waiting: Waiting, before: Nanos, capacity: Nanos) {
        let due = before.0 / capacity.0.max(1);
        match self.slots.back_mut() {
            // Best effort has no reference time: one request per slot.
            Some(last) if last.number >= due && last.used + waiting.service <= capacity && self.reference.is_some() => {
                last.used += waiting.service;
                last.waiting.push_back(waiting);
            }
            _ => {
                let number = due.max(self.next_slot);
                self.next_slot = number + 1;
                self.slots.push_back(Slot { number, used: waiting.service, waiting: VecDeque::from([waiting]) });
            }
        }
    }

    /// Removes the next slot, filled up from the following ones.
    fn take_slot(&mut self, capacity: Nanos) -> Option<Slot> {
        let mut slot = self.slots.pop_front()?;
        if self.reference.is_none() {
            return Some(slot);
        }
        while let Some(next) = self.slots.front_mut() {
            while let Some(first) = next.waiting.front().copied().filter(|first| slot.used + first.service <= capacity) {
                next.waiting.pop_front();
                next.used = next.used - first.service;
                slot.used += first.service;
                slot.waiting.push_back(first);
            }
            if !next.waiting.is_empty() {
                break;
            }
            self.slots.pop_front();
        }
        Some(slot)
    }

    fn is_pending(&self) -> bool {
        self.at_device > 0 || !self.slots.is_empty()
    }
}

struct Clocks {
    tuning: Tunables,
    register: Register,
    vsds: Vec<Vsd>,
    /// The slot being sent, and the index of its VSD.
    open: Option<(usize, Slot)>,
    sequence: u64,
    at_device: usize,
}

impl Clocks {
    fn new(tuning: Tunables, roster: &Roster) -> Clocks {
        let reference = |tenant: &block::Tenant| tenant.reference.as_ref().map(|model| model.begin());
        let vsds = roster.tenants().iter().map(|tenant| Vsd { reference: reference(tenant), ..Vsd::default() });
        Clocks { tuning, register: Register::new(roster), vsds: vsds.collect(), open: None, sequence: 0, at_device: 0 }
    }

    fn vsd(&mut self, request: &Request) -> usize {
        let number = self.register.number(request);
        if self.vsds.len() <= number {
            self.vsds.resize_with(number + 1, Vsd::default);
        }
        number
    }

    /// Whether nothing is queued or in flight.
    fn is_idle(&self) -> bool {
        self.at_device == 0 && self.open.is_none() && self.vsds.iter().all(|vsd| vsd.slots.is_empty())
    }

    /// The index of the VSD to serve next. Sets the clocks of VSDs whose turn comes without pending requests.
    fn next(&mut self, now: Nanos) -> Option<usize> {
        let open = self.open.as_ref().map(|(vsd, _)| *vsd);
        let mut turns: Vec<usize> = (0..self.vsds.len()).filter(|vsd| self.vsds[*vsd].reference.is_some()).collect();
        turns.sort_by_key(|vsd| self.vsds[*vsd].clock);
        let mut slowest = None;
        for number in turns {
            let vsd = &mut self.vsds[number];
            if !vsd.slots.is_empty() {
                slowest = Some(number);
                break;
            }
            if !vsd.is_pending() && open != Some(number) {
                vsd.clock = now;
            }
        }
        let is_late = slowest.is_some_and(|number| self.vsds[number].clock < now);
        let best_effort =
            || (0..self.vsds.len()).find(|vsd| self.vsds[*vsd].reference.is_none() && !self.vsds[*vsd].slots.is_empty());
        if is_late { slowest } else { best_effort().or(slowest) }
    }

    /// Sends the next request of the open slot.
    fn send(&mut self) -> Option<Request> {
        let (number, slot) = self.open.as_mut()?;
        let waiting = slot.waiting.pop_front()?;
        let vsd = &mut self.vsds[*number];
        vsd.at_device += 1;
        self.at_device += 1;
        if self.tuning.at_dispatch && vsd.reference.is_some() {
            vsd.clock += waiting.service;
        }
        if slot.waiting.is_empty() {
            self.open = None;
        }
        Some(waiting.request)
    }
}

impl Scheduler for Clocks {
    fn insert(&mut self, now: Nanos, request: Request) -> Insertion {
        let number = self.vsd(&request);
        if self.is_idle() {
            // Each has had its turn in the meantime.
            self.vsds.iter_mut().for_each(|vsd| vsd.clock = vsd.clock.max(now));
        }
        let lba = self.register.roster().tenant_lba_of(&request);
        let (tuning, sequence) = (self.tuning, self.sequence);
        self.sequence += 1;
        let vsd = &mut self.vsds[number];
        let before = vsd.clock;
        let service =
            vsd.reference.as_mut().map_or(Nanos::ZERO, |model| model.service_time(before, &Request { lba, ..request }, 0));
        if !tuning.at_dispatch && vsd.reference.is_some() {
            vsd.clock += service;
        }
        vsd.put(Waiting { request, service, sequence }, before, tuning.slot);
        Insertion::Queued
    }

    fn pick(&mut self, now: Nanos) -> Pick {
        if self.open.is_none() {
            let Some(next) = self.next(now) else { return Pick::Empty };
            if self.tuning.serial && self.at_device > 0 {
                return Pick::WaitUntil(now + COMPLETION_BACKSTOP);
            }
            self.open = self.vsds[next].take_slot(self.tuning.slot).map(|slot| (next, slot));
        }
        self.send().map_or(Pick::Empty, Pick::Go)
    }

    fn completed(&mut self, _now: Nanos, request: &Request, _service: Nanos) {
        let number = self.vsd(request);
        // Requests in flight from before this scheduler was activated are not counted.
        self.vsds[number].at_device = self.vsds[number].at_device.saturating_sub(1);
        self.at_device = self.at_device.saturating_sub(1);
    }

    fn retune(&mut self, values: &[i64]) {
        self.tuning = Tunables::of(values);
    }

    fn set_roster(&mut self, roster: &Roster) {
        let mut waiting = Vec::new();
        self.drain(&mut waiting);
        *self = Clocks::new(self.tuning, roster);
        for request in waiting {
            self.insert(request.arrival, request);
        }
    }

    fn drain(&mut self, out: &mut Vec<Request>) {
        let open = self.open.take().into_iter().map(|(_, slot)| slot);
        let slots = open.chain(self.vsds.iter_mut().flat_map(|vsd| vsd.slots.drain(..)));
        let mut waiting: Vec<Waiting> = slots.flat_map(|slot| slot.waiting).collect();
        waiting.sort_by_key(|waiting| waiting.sequence);
        out.extend(waiting.into_iter().map(|waiting| waiting.request));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use std::sync::Arc;

    use block::tenants::ConstantTime;
    use block::{Op, Priority, Tenant};

    use super::*;

    const MS: u64 = 1_000_000;

    /// Two VSDs whose reference systems take 4 and 5 ms for a request, and one of best effort; slots of 10 ms.
    fn clocks(serial: bool) -> Clocks {
        let tenant = |ms: u64| {
            Tenant::new(format!("{ms} ms")).with_reference(Arc::new(ConstantTime { request: Nanos(ms * MS), sector: Nanos::ZERO }))
        };
        let tenants = vec![tenant(4), tenant(5), Tenant::new("best effort")];
        let roster = Roster::new(tenants, Vec::new(), &[(0, 0), (1, 1), (2, 2)], 1).unwrap();
        Clocks::new(Tunables { slot: Nanos(10 * MS), serial, at_dispatch: false }, &roster)
    }

    fn request(id: u32, stream: u32) -> Request {
        Request {
            id,
            stream,
            op: Op::Read,
            sync: true,
            priority: Priority::DEFAULT,
            sectors: 8,
            lba: u64::from(8 * id),
            arrival: Nanos::ZERO,
        }
    }

    fn at(ms: u64) -> Nanos {
        Nanos(ms * MS)
    }

    /// The id of the next request sent, if any.
    fn sent(clocks: &mut Clocks, ms: u64) -> Option<u32> {
        match clocks.pick(at(ms)) {
            Pick::Go(request) => Some(request.id),
            _ => None,
        }
    }

    #[test]
    fn clocks_advance_on_arrival_and_the_slowest_is_served_slot_by_slot() {
        let mut clocks = clocks(false);
        // Three of each at 0 ms. Clock 1: 4, 8, 12 ms; slots of VSD 1: 4 + 4 = 8 ms, then 4 ms, as 12 ms exceed 10 ms.
        // Clock 2: 5, 10, 15 ms; slots of VSD 2: 5 + 5 = 10 ms, then 5 ms.
        for id in 0..3 {
            clocks.insert(at(0), request(id, 0));
            clocks.insert(at(0), request(10 + id, 1));
        }
        assert_eq!([clocks.vsds[0].clock, clocks.vsds[1].clock], [at(12), at(15)]);
        let numbers = |vsd: &Vsd| vsd.slots.iter().map(|slot| (slot.number, slot.used.0 / MS)).collect::<Vec<_>>();
        assert_eq!((numbers(&clocks.vsds[0]), numbers(&clocks.vsds[1])), (vec![(0, 8), (1, 4)], vec![(0, 10), (1, 5)]));
        // 12 < 15: VSD 1 first, and again, as clocks do not depend on dispatched requests; its slots, one after the other. Then VSD 2's.
        let order: Vec<u32> = std::iter::from_fn(|| sent(&mut clocks, 20)).collect();
        assert_eq!(order, [0, 1, 2, 10, 11, 12]);
    }

    #[test]
    fn a_turn_without_pending_requests_sets_the_clock_to_the_wall_clock() {
        let mut clocks = clocks(false);
        clocks.insert(at(0), request(0, 0));
        clocks.insert(at(0), request(1, 1));
        assert_eq!((sent(&mut clocks, 0), sent(&mut clocks, 0)), (Some(0), Some(1)));
        clocks.completed(at(6), &request(0, 0), at(6));
        // At 30 ms clock 1 is at 4 ms and idle, clock 2 at 5 ms and still has a request at the disk: with its second one it is at 10 ms. It
        // is VSD 1's turn (4 < 10), and its clock is set to 30 ms; then VSD 2 is served.
        clocks.insert(at(30), request(2, 1));
        assert_eq!(sent(&mut clocks, 30), Some(2));
        assert_eq!([clocks.vsds[0].clock, clocks.vsds[1].clock], [at(30), at(10)]);
        // With nothing pending at all, every VSD has its turn: at 100 ms both are there, and the arrival advances clock 1 to 104 ms.
        clocks.completed(at(40), &request(1, 1), at(10));
        clocks.completed(at(40), &request(2, 1), at(10));
        clocks.insert(at(100), request(3, 0));
        assert_eq!([clocks.vsds[0].clock, clocks.vsds[1].clock], [at(104), at(100)]);
        // A clock that ran ahead by spare capacity is set back as well when it is the slowest and idle: 104 > 101, but 120 is slower yet.
        assert_eq!(sent(&mut clocks, 101), Some(3));
        clocks.completed(at(101), &request(3, 0), at(1));
        for id in 20..24 {
            clocks.insert(at(101), request(id, 1));
        }
        assert_eq!(clocks.vsds[1].clock, at(101 + 20));
        assert_eq!(sent(&mut clocks, 101), Some(20));
        assert_eq!(clocks.vsds[0].clock, at(101));
    }

    #[test]
    fn a_slot_that_is_not_full_takes_requests_of_the_following_ones_as_long_as_they_fit() {
        let mut clocks = clocks(false);
        // VSD 1 alone. At 0 ms one request: slot 0 with 4 ms. At 12 ms the first is not done, and two more come; as its clock was moved on to
        // 21 ms by a turn at that time, they are in slot 2 (21 / 10), with 8 ms.
        clocks.insert(at(0), request(0, 0));
        clocks.vsds[0].clock = at(21);
        clocks.insert(at(12), request(1, 0));
        clocks.insert(at(12), request(2, 0));
        let numbers: Vec<_> = clocks.vsds[0].slots.iter().map(|slot| (slot.number, slot.used.0 / MS)).collect();
        assert_eq!(numbers, [(0, 4), (2, 8)]);
        // Slot 0 takes one of them: 4 + 4 = 8 ms; another would make 12 ms.
        assert_eq!(sent(&mut clocks, 12), Some(0));
        assert_eq!(clocks.open.as_ref().unwrap().1.waiting.len(), 1);
        let numbers: Vec<_> = clocks.vsds[0].slots.iter().map(|slot| (slot.number, slot.used.0 / MS)).collect();
        assert_eq!(numbers, [(2, 4)]);
    }

    #[test]
    fn best_effort_has_what_is_spare_and_nothing_while_a_clock_is_slower_than_the_wall_clock() {
        let mut clocks = clocks(false);
        clocks.insert(at(0), request(0, 0));
        clocks.insert(at(0), request(30, 2));
        clocks.insert(at(0), request(31, 2));
        // At 5 ms clock 1 (4 ms) is slower than the wall clock; at 3 ms it is not.
        assert_eq!(sent(&mut clocks, 3), Some(30));
        assert_eq!(sent(&mut clocks, 5), Some(0));
        assert_eq!(sent(&mut clocks, 5), Some(31), "nothing else has requests");
    }

    #[test]
    fn serial_slots_wait_for_the_one_before() {
        let mut clocks = clocks(true);
        clocks.insert(at(0), request(0, 0));
        clocks.insert(at(0), request(10, 1));
        assert_eq!(sent(&mut clocks, 1), Some(0));
        assert!(matches!(clocks.pick(at(1)), Pick::WaitUntil(_)));
        clocks.completed(at(7), &request(0, 0), at(6));
        assert_eq!(sent(&mut clocks, 7), Some(10));
    }

    #[test]
    fn it_conforms() {
        block::conformance::assert_conforms(&SPEC, 32);
    }
}
