//! mClock: each tenant has a reservation and a limit in requests or bytes per second, and a weight for the rest.
//!
//! ```text
//! tags of a tenant's first request
//!   reservation   max(previous + 1 / reservation, arrival)     ≤ now: due, lowest first
//!   limit         max(previous + 1 / limit, arrival)           > now: must wait
//!   proportion    previous + 1 / weight                        else: lowest first
//! ```
//! Requests served by weight do not count towards the reservation: its tag is set back by one request. A tenant that was idle begins at the
//! lowest proportional tag, so it has neither saved up a share nor pays for the idle time. This is the scheduler of each dmClock server;
//! with one server the counts of service elsewhere are zero, and tags are computed when a request becomes its tenant's first, as in Ceph
//! (`src/dmclock`). A large request counts as several ([`Rates::units`](crate::Rates::units)).
//!
//! * **The device queue is bounded while a tenant with a reservation has requests.** Tags determine when a request is dispatched, but a
//!   reservation is of completions, and a device whose queue is full of others' requests may complete too few. By Little's law (the paper's
//!   section 3.2, on reservations) n requests at a time complete at the rate r if each takes n / r; so others are dispatched by weight only
//!   while the device is expected to complete all requests in flight in that time, at its mean rate of the last completions. On a disk with
//!   64 requests in its queue, a tenant with a reservation of 60 a second and four random reads at a time got 46 without this bound.
//! * **Others are held back while a tenant is behind.** If its completions lag its reservation by more than 20 ms and one request, only
//!   requests within reservations and its own are dispatched until it has caught up.
//! * **A reservation that the disk cannot meet does not starve others.** The paper leaves it to admission control to ensure that
//!   reservations fit the disk; otherwise their tags are always due. If a tenant does not get closer to its reservation in the time of 16
//!   requests (at least 200 ms) in which others were held back and had nothing in flight, it is served by weight; but such tenants have at
//!   least half of the requests in flight, so that they get about half of the disk's throughput. After a second the reservation is tried
//!   again.
//! * **Tags of the queue are shared equally**, as no scheduler sees requests that wait for a tag.
//!
//! Without a roster each stream is a tenant with a weight of 1 and neither reservation nor limit.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{COMPLETION_BACKSTOP, Insertion, Pick, Room, Scheduler, SchedulerSpec, Tags, resort};
use crate::lanes::{lane_for, next_within_limits, queued};
use crate::queue::{Limits, Merging, Queue, Slot};
use crate::rates::{Limiter, Reservation};
use crate::sorted::{SortedList, key, value};
use crate::tag_shares::TagShares;
use crate::tenants::{Register, Roster};
use crate::{Nanos, Request, Tenant};

mod progress;

use progress::Progress;

pub(super) static SPEC: SchedulerSpec = SchedulerSpec {
    name: "mclock",
    summary: "each tenant has a reservation and limits of requests and bytes per second, and a weight for the rest",
    source: "Gulati, Merchant, Varman, mClock: handling throughput variability for hypervisor I/O scheduling, OSDI 2010, section 3",
    tunables: &[],
    work_conserving: false,
    starvation_bound: None,
    knowledge: None,
    build: |limits, _| Box::new(MClock::new(*limits, &Roster::default())),
};

/// Increment of the proportional tag per request, for a weight of 1.
const SHARE: u64 = 1 << 32;
/// Number of completions over which their mean interval is taken.
const SPACING_MEMORY: u64 = 32;

/// A tenant's keys in the lists; `None` if it is not in that list.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Places {
    reservation: Option<u128>,
    /// In the list of tenants that may be served by weight, or in that of tenants waiting for their limit.
    proportion: Option<u128>,
    limit: Option<u128>,
}

/// The keys of a tenant that has a reservation and requests.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Watches {
    /// In the list of tenants that are or were behind; or in that of the others, by the time at which they will be behind.
    watched: Option<u128>,
    behind: Option<u128>,
    /// By the maximum response time of its requests; `None` if the disk cannot meet its reservation.
    response: Option<u128>,
}

/// A tenant: its rates, and its tags.
struct Client {
    reservation: Option<Reservation>,
    limiter: Option<Limiter>,
    progress: Progress,
    at_device: u32,
    share: u64,
    /// Proportional tag of its last dispatched request.
    proportion: u64,
    is_waiting: bool,
    places: Places,
    watches: Watches,
}

impl Client {
    fn new(tenant: Option<&Tenant>, weight: u64) -> Client {
        Client {
            reservation: tenant.and_then(|tenant| Reservation::new(&tenant.rates)),
            limiter: tenant.and_then(|tenant| Limiter::new(&tenant.rates)),
            progress: Progress::new(),
            at_device: 0,
            share: SHARE / weight.max(1),
            proportion: 0,
            is_waiting: false,
            places: Places::default(),
            watches: Watches::default(),
        }
    }
}

/// Tenants whose reservations the disk cannot meet: their requests in flight, and the lowest proportional tag of the eligible ones.
#[derive(Default)]
struct Unmet {
    at_device: u32,
    first: Option<(u128, usize)>,
}

/// The mean time between completions of a busy device.
#[derive(Default)]
struct Spacing {
    /// In nanoseconds; 0 before the first.
    mean: u64,
    /// The last completion; `None` if the device was idle since.
    last: Option<Nanos>,
}

impl Spacing {
    /// Adds a completion, after which the device is idle unless `is_busy`.
    fn learn(&mut self, now: Nanos, is_busy: bool) {
        if let Some(before) = self.last {
            let spacing = (now - before).0;
            let old = if self.mean == 0 { spacing } else { self.mean };
            self.mean = old - old / SPACING_MEMORY + spacing / SPACING_MEMORY;
        }
        self.last = is_busy.then_some(now);
    }

    /// Number of requests that the device completes within `time`.
    fn completions_in(&self, time: u64) -> u64 {
        time / self.mean.max(1)
    }
}

/// Tenants with a reservation and requests.
#[derive(Default)]
struct Reserved {
    /// Those that are or were behind, by number.
    watched: SortedList,
    /// The others, by the time at which they will be behind.
    behind: SortedList,
    /// Those whose reservation the disk can meet, by the maximum response time of their requests.
    responses: SortedList,
}

impl Reserved {
    /// Updates the entries of a tenant.
    fn move_entries(&mut self, before: &Watches, after: &Watches, number: u32) {
        self.watched.move_entry(before.watched, after.watched, number);
        self.behind.move_entry(before.behind, after.behind, number);
        self.responses.move_entry(before.response, after.response, number);
    }

    /// Removes the next tenant that has fallen behind by `now` from the others, and watches it.
    fn watch_next(&mut self, now: Nanos) -> Option<usize> {
        let (behind, number) = self.behind.first().filter(|&(behind, _)| value(behind) <= now.0)?;
        self.behind.remove(behind);
        self.watched.insert(key(0, number as usize), number);
        Some(number as usize)
    }
}

struct MClock {
    register: Register,
    /// Two lanes for each tenant.
    queue: Queue,
    clients: Vec<Client>,
    tag_shares: TagShares,
    reservations: SortedList,
    /// Tenants within their limits, by proportional tag; and those at their limits, by the end of their wait.
    ready: SortedList,
    limited: SortedList,
    reserved: Reserved,
    at_device: u32,
    /// Requests in flight of tenants with a reservation.
    reserved_at_device: u32,
    spacing: Spacing,
    /// The highest proportional tag dispatched.
    served: u64,
    now: Nanos,
}

impl MClock {
    fn new(limits: Limits, roster: &Roster) -> MClock {
        MClock {
            register: Register::new(roster),
            queue: Queue::new(limits, Merging { front: true, within_stream: false }),
            clients: Vec::new(),
            tag_shares: TagShares::equal(),
            reservations: SortedList::default(),
            ready: SortedList::default(),
            limited: SortedList::default(),
            reserved: Reserved::default(),
            at_device: 0,
            reserved_at_device: 0,
            spacing: Spacing::default(),
            served: 0,
            now: Nanos::ZERO,
        }
    }

    fn open(&mut self, number: usize) {
        while self.clients.len() <= number {
            let next = self.clients.len();
            self.clients.push(Client::new(self.register.tenant(next), self.register.weight(next)));
        }
    }

    /// A tenant's next request, and the time at which its limits allow it; `None` if none is queued.
    fn next(&self, now: Nanos, number: usize) -> Option<(Slot, Nanos)> {
        let limiter = self.clients[number].limiter.as_ref();
        next_within_limits(&self.queue, number, limiter, now, |lane| self.queue.oldest(lane))
    }

    /// The keys of a tenant, from the tags of its next request.
    fn places(&self, now: Nanos, number: usize) -> Places {
        let Some((slot, ready_at)) = self.next(now, number) else { return Places::default() };
        let client = &self.clients[number];
        let reservation = client.reservation.as_ref().filter(|_| !client.progress.is_unmet());
        let due_at = reservation.map(|reservation| reservation.due_at(self.queue.request(slot)));
        let proportion = client.proportion.saturating_add(client.share);
        let must_wait = ready_at > now;
        Places {
            reservation: due_at.map(|due_at| key(if must_wait { due_at.max(ready_at) } else { due_at }.0, number)),
            proportion: (!must_wait).then(|| key(proportion, number)),
            limit: must_wait.then(|| key(ready_at.0, number)),
        }
    }

    /// Updates a tenant's entries in the lists.
    fn update_places(&mut self, now: Nanos, number: usize) {
        let places = self.places(now, number);
        let before = core::mem::replace(&mut self.clients[number].places, places);
        self.reservations.move_entry(before.reservation, places.reservation, number as u32);
        self.ready.move_entry(before.proportion, places.proportion, number as u32);
        self.limited.move_entry(before.limit, places.limit, number as u32);
        self.update_watches(number);
    }

    /// Updates the entries of a tenant with a reservation, after its progress or number of requests has changed.
    fn update_watches(&mut self, number: usize) {
        let client = &mut self.clients[number];
        if client.reservation.is_none() {
            return;
        }
        let count = client.at_device as usize + queued(&self.queue, number);
        let progress = &client.progress;
        let watches = if count > 0 {
            let behind = progress.behind_from().map(|time| key(time.0, number));
            let response = (!progress.is_unmet()).then(|| key(progress.longest_response(count).0, number));
            Watches { watched: behind.is_none().then_some(key(0, number)), behind, response }
        } else {
            Watches::default()
        };
        let before = core::mem::replace(&mut client.watches, watches);
        self.reserved.move_entries(&before, &watches, number as u32);
    }

    /// Moves tenants that have fallen behind to the watched list.
    fn watch(&mut self, now: Nanos) {
        while let Some(number) = self.reserved.watch_next(now) {
            let watches = &mut self.clients[number].watches;
            (watches.watched, watches.behind) = (Some(key(0, number)), None);
        }
    }

    /// Moves tenants whose limits have passed to the ready list.
    fn release(&mut self, now: Nanos) {
        while let Some((_, number)) = self.limited.first().filter(|&(limit, _)| value(limit) <= now.0) {
            self.update_places(now, number as usize);
        }
    }

    /// Dispatches a tenant's next request. Unless `is_reserved`, it does not use up the reservation.
    fn serve(&mut self, now: Nanos, number: usize, is_reserved: bool) -> Pick {
        let Some((slot, _)) = self.next(now, number) else { return Pick::Empty };
        let request = self.queue.take(slot);
        let client = &mut self.clients[number];
        if let Some(reservation) = client.reservation.as_mut().filter(|_| is_reserved) {
            reservation.charge(&request);
        }
        if let Some(limiter) = &mut client.limiter {
            limiter.charge(now, &request);
        }
        client.proportion = client.proportion.saturating_add(client.share);
        self.served = self.served.max(client.proportion);
        client.is_waiting = queued(&self.queue, number) > 0;
        client.at_device += 1;
        self.at_device += 1;
        self.reserved_at_device += u32::from(client.reservation.is_some());
        self.update_places(now, number);
        Pick::Go(request)
    }

    /// The time until which others' requests are held back for a tenant with a reservation; `None` if they are not.
    fn hold_until(&mut self, now: Nanos, number: usize) -> Option<Nanos> {
        let is_alone = self.at_device <= self.reserved_at_device;
        let progress = &mut self.clients[number].progress;
        let was_unmet = progress.is_unmet();
        let until = progress.hold_until(now, is_alone);
        if progress.is_unmet() != was_unmet {
            self.update_places(now, number);
        } else {
            self.update_watches(number);
        }
        until
    }

    /// The tenant with the lowest reservation tag, if its request is due; `None` if none is due.
    fn due(&mut self, now: Nanos) -> Option<usize> {
        while let Some((_, number)) = self.reservations.first().filter(|&(reservation, _)| value(reservation) <= now.0) {
            let number = number as usize;
            self.hold_until(now, number);
            if !self.clients[number].progress.is_unmet() {
                return Some(number);
            }
        }
        None
    }

    /// The tenant to dispatch for by weight although tenants with reservations have requests; or the time until which none may be.
    fn by_weight(&mut self, now: Nanos, first: usize) -> Result<usize, Nanos> {
        let mut held_until: Option<Nanos> = None;
        let mut unmet = Unmet::default();
        self.watch(now);
        let mut from = 0;
        while let Some((watched, number)) = self.reserved.watched.at_or_after(from) {
            from = watched + 1;
            let number = number as usize;
            let until = self.hold_until(now, number);
            let client = &self.clients[number];
            if let Some(until) = until {
                if client.places.proportion.is_some() {
                    return Ok(number);
                }
                held_until = Some(held_until.map_or(until, |held| held.min(until)));
            }
            if client.progress.is_unmet() {
                unmet.at_device += client.at_device;
                unmet.first = [unmet.first, client.places.proportion.map(|place| (place, number))].into_iter().flatten().min();
            }
        }
        if let Some(until) = held_until {
            return Err(until);
        }
        let others = self.at_device.saturating_sub(unmet.at_device);
        let mut chosen = first;
        if others >= unmet.at_device.max(1) {
            match unmet.first {
                Some((_, number)) => chosen = number,
                None if unmet.at_device > 0 => return Err(now + COMPLETION_BACKSTOP),
                None => {}
            }
        }
        // Its own requests need not leave room for themselves.
        let tightest = self.reserved.responses.first_but(first as u32);
        let room = tightest.map_or(u64::MAX, |(response, _)| self.spacing.completions_in(value(response)));
        if u64::from(self.at_device) >= room.max(1) { Err(now + COMPLETION_BACKSTOP) } else { Ok(chosen) }
    }

    /// Sets the proportional tag of a tenant that was idle to the current one.
    fn wake(&mut self, number: usize) {
        let lowest = self.ready.first().map_or(self.served, |(first, _)| value(first));
        let client = &mut self.clients[number];
        if !client.is_waiting {
            client.is_waiting = true;
            client.proportion = client.proportion.max(lowest.saturating_sub(client.share));
        }
    }
}

impl Scheduler for MClock {
    fn insert(&mut self, now: Nanos, request: Request) -> Insertion {
        self.now = now;
        let number = self.register.number(&request);
        self.open(number);
        self.wake(number);
        let lane = lane_for(number, self.clients[number].limiter.as_ref(), &request);
        let client = &mut self.clients[number];
        if let Some(reservation) = &client.reservation {
            client.progress.arrived(now, reservation.span(&request));
        }
        let placed = self.queue.insert(lane, Nanos::ZERO, request);
        self.tag_shares.inserted(number, &self.register, &placed);
        self.update_places(now, number);
        placed.into()
    }

    fn pick(&mut self, now: Nanos) -> Pick {
        self.now = now;
        self.release(now);
        if let Some(number) = self.due(now) {
            return self.serve(now, number, true);
        }
        let mut held_until = None;
        if let Some((_, number)) = self.ready.first() {
            match self.by_weight(now, number as usize) {
                Ok(number) => return self.serve(now, number, false),
                Err(until) => held_until = Some(until.0),
            }
        }
        // A tenant whose reservation turned out to be met is due again.
        if let Some(number) = self.due(now) {
            return self.serve(now, number, true);
        }
        let times = [self.reservations.first(), self.limited.first()];
        match times.into_iter().flatten().map(|(time, _)| value(time)).chain(held_until).min() {
            Some(time) => Pick::WaitUntil(Nanos(time).min(now + COMPLETION_BACKSTOP)),
            None => Pick::Empty,
        }
    }

    fn completed(&mut self, now: Nanos, request: &Request, _service: Nanos) {
        self.now = now;
        let number = self.register.number(request);
        self.tag_shares.removed(number, &self.register);
        self.at_device = self.at_device.saturating_sub(1);
        self.spacing.learn(now, self.at_device > 0);
        let is_last = queued(&self.queue, number) == 0;
        let Some(client) = self.clients.get_mut(number) else { return };
        let was_here = client.at_device > 0;
        client.at_device -= u32::from(was_here);
        if let Some(reservation) = &client.reservation {
            self.reserved_at_device -= u32::from(was_here);
            let span = reservation.span(request);
            client.progress.completed(now, span, is_last && client.at_device == 0);
            self.update_watches(number);
        }
    }

    fn tags(&self, room: &Room) -> Option<Tags> {
        Some(TagShares::tags(room, &self.register))
    }

    fn open_tags(&self, depth: u32, request: &Request) -> u32 {
        self.tag_shares.open_tags(depth, &self.register, request)
    }

    fn retune(&mut self, _values: &[i64]) {}

    fn set_limits(&mut self, limits: &Limits) {
        self.queue.set_limits(limits);
    }

    fn set_roster(&mut self, roster: &Roster) {
        let (now, limits) = (self.now, self.queue.limits());
        let insert = |this: &mut MClock, request| {
            this.insert(now, request);
        };
        resort(self, limits, |this| *this = MClock::new(limits, roster), insert);
    }

    fn drain(&mut self, out: &mut Vec<Request>) {
        let first = out.len();
        self.queue.drain(out);
        self.tag_shares.drained(&mut self.register, &out[first..]);
        (self.at_device, self.reserved_at_device, self.spacing.last) = (0, 0, None);
        for number in 0..self.clients.len() {
            let client = &mut self.clients[number];
            client.is_waiting = false;
            client.at_device = 0;
            client.progress.drained(self.now);
            self.update_places(self.now, number);
        }
    }
}
