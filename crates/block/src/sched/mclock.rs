//! mClock: each tenant has a reservation and a limit in requests per second, and a weight for the rest.
//!
//! ```text
//! tags of a tenant's first request
//!   reservation   max(previous + 1 / reservation, arrival)     ≤ now: due, the lowest first
//!   limit         max(previous + 1 / limit, arrival)           > now: must wait
//!   proportion    previous + 1 / weight                        else: the lowest first
//! ```
//! Requests served by weight do not count towards the reservation: the reservation tag goes back by one request. A tenant that was idle
//! begins at the lowest proportional tag, so it has neither saved up a share nor pays for the idle time. This is the scheduler of each
//! dmClock server; with one server the counts of service elsewhere are zero, and tags are computed when a request becomes its tenant's
//! first, as in Ceph (`src/dmclock`). Without a roster each stream is a tenant with a weight of 1 and no other terms.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{COMPLETION_BACKSTOP, Insertion, Pick, Room, Scheduler, SchedulerSpec, Tags, resort};
use crate::queue::{Limits, Merging, Queue};
use crate::sorted::SortedList;
use crate::tag_shares::TagShares;
use crate::tenants::{Register, Roster};
use crate::{Nanos, Request, Tenant};

pub(super) static SPEC: SchedulerSpec = SchedulerSpec {
    name: "mclock",
    summary: "each tenant has a reservation and a limit of requests per second, and a weight for the rest",
    source: "Gulati, Merchant, Varman, mClock: handling throughput variability for hypervisor I/O scheduling, OSDI 2010, section 3",
    tunables: &[],
    work_conserving: false,
    starvation_bound: None,
    knowledge: None,
    build: |limits, _| Box::new(MClock::new(*limits, &Roster::default())),
};

const SECOND: u64 = 1_000_000_000;
/// Increment of the proportional tag per request, for a weight of 1.
const SHARE: u64 = 1 << 32;
/// A sector in bytes.
const SECTOR: u64 = 512;

/// A tenant's keys in the lists.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Places {
    reservation: Option<u128>,
    /// In the list of tenants that may go by weight, or of those that must wait for their limit.
    proportion: Option<u128>,
    limit: Option<u128>,
}

/// A tenant: its rates, and the tags of its last request.
struct Client {
    /// Interval between requests at its rates; 0: none.
    reservation_tick: u64,
    limit_tick: u64,
    limit_bytes_per_s: u64,
    share: u64,
    reservation: u64,
    limit: u64,
    proportion: u64,
    is_waiting: bool,
    places: Places,
}

impl Client {
    fn new(tenant: Option<&Tenant>, weight: u64) -> Client {
        let tick = |iops: Option<core::num::NonZeroU64>| iops.map_or(0, |iops| SECOND / iops);
        Client {
            reservation_tick: tick(tenant.and_then(|tenant| tenant.reservation_iops)),
            limit_tick: tick(tenant.and_then(|tenant| tenant.limit_iops)),
            limit_bytes_per_s: tenant.and_then(|tenant| tenant.limit_bytes_per_s).map_or(0, |rate| rate.get()),
            share: SHARE / weight.max(1),
            reservation: 0,
            limit: 0,
            proportion: 0,
            is_waiting: false,
            places: Places::default(),
        }
    }

    /// The time by which a request delays the next, according to the limit.
    fn limit_cost(&self, request: &Request) -> u64 {
        let bytes = if request.op.transfers() { u64::from(request.sectors) * SECTOR } else { 0 };
        let time = u128::from(bytes) * u128::from(SECOND) / u128::from(self.limit_bytes_per_s.max(1));
        let by_bytes = if self.limit_bytes_per_s == 0 { 0 } else { u64::try_from(time).unwrap_or(u64::MAX) };
        by_bytes.max(self.limit_tick)
    }
}

fn key(tag: u64, number: usize) -> u128 {
    u128::from(tag) << 64 | number as u128
}

fn tag(key: u128) -> u64 {
    (key >> 64) as u64
}

struct MClock {
    register: Register,
    /// A lane for each tenant.
    queue: Queue,
    clients: Vec<Client>,
    tag_shares: TagShares,
    reservations: SortedList,
    /// Tenants within their limits by proportional tag; and those beyond, by the end of their wait.
    ready: SortedList,
    limited: SortedList,
    /// The highest proportional tag served.
    served: u64,
    now: Nanos,
}

impl MClock {
    fn new(limits: Limits, roster: &Roster) -> MClock {
        MClock {
            register: Register::new(roster),
            queue: Queue::new(limits, Merging { front: true, within_stream: false }),
            clients: Vec::new(),
            tag_shares: TagShares::default(),
            reservations: SortedList::default(),
            ready: SortedList::default(),
            limited: SortedList::default(),
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

    /// The keys of a tenant, from the tags of its first request.
    fn places(&self, now: Nanos, number: usize) -> Places {
        let Some(oldest) = self.queue.oldest(number) else { return Places::default() };
        let client = &self.clients[number];
        let arrival = self.queue.request(oldest).arrival.0;
        let reservation = client.reservation.saturating_add(client.reservation_tick).max(arrival);
        let has_limit = client.limit_tick > 0 || client.limit_bytes_per_s > 0;
        // The previous tag includes the cost of its request, which by bytes depends on its size.
        let limit = client.limit.max(arrival);
        let proportion = client.proportion.saturating_add(client.share);
        let must_wait = has_limit && limit > now.0;
        Places {
            reservation: (client.reservation_tick > 0).then(|| key(reservation, number)),
            proportion: (!must_wait).then(|| key(proportion, number)),
            limit: must_wait.then(|| key(limit, number)),
        }
    }

    /// Updates a tenant's entries in the lists.
    fn update_places(&mut self, now: Nanos, number: usize) {
        let places = self.places(now, number);
        let before = core::mem::replace(&mut self.clients[number].places, places);
        let lists = [
            (&mut self.reservations, before.reservation, places.reservation),
            (&mut self.ready, before.proportion, places.proportion),
            (&mut self.limited, before.limit, places.limit),
        ];
        for (list, before, after) in lists {
            if before != after {
                before.inspect(|&before| list.remove(before));
                after.inspect(|&after| list.insert(after, number as u32));
            }
        }
    }

    /// Moves tenants whose limits have passed to the ready list.
    fn release(&mut self, now: Nanos) {
        while let Some((_, number)) = self.limited.first().filter(|&(limit, _)| tag(limit) <= now.0) {
            self.update_places(now, number as usize);
        }
    }

    /// Dispatches a tenant's first request. By weight, that does not use up its reservation.
    fn serve(&mut self, now: Nanos, number: usize, is_reserved: bool) -> Pick {
        let Some(oldest) = self.queue.oldest(number) else { return Pick::Empty };
        let request = self.queue.take(oldest);
        let client = &mut self.clients[number];
        if is_reserved {
            client.reservation = client.places.reservation.map_or(client.reservation, tag);
        }
        client.proportion = client.proportion.saturating_add(client.share);
        self.served = self.served.max(client.proportion);
        client.limit = client.limit.max(request.arrival.0).saturating_add(client.limit_cost(&request));
        client.is_waiting = self.queue.lane_len(number) > 0;
        self.update_places(now, number);
        Pick::Go(request)
    }

    /// Starts the share of a tenant that was idle at the present.
    fn wake(&mut self, number: usize) {
        let lowest = self.ready.first().map_or(self.served, |(first, _)| tag(first));
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
        let placed = self.queue.insert(number, Nanos::ZERO, request);
        self.tag_shares.inserted(number, &self.register, &placed);
        self.update_places(now, number);
        placed.into()
    }

    fn pick(&mut self, now: Nanos) -> Pick {
        self.now = now;
        self.release(now);
        let owed = self.reservations.first();
        if let Some((_, number)) = owed.filter(|&(reservation, _)| tag(reservation) <= now.0) {
            return self.serve(now, number as usize, true);
        }
        if let Some((_, number)) = self.ready.first() {
            return self.serve(now, number as usize, false);
        }
        let times = [owed, self.limited.first()];
        match times.into_iter().flatten().map(|(time, _)| tag(time)).min() {
            Some(time) => Pick::WaitUntil(Nanos(time).min(now + COMPLETION_BACKSTOP)),
            None => Pick::Empty,
        }
    }

    fn completed(&mut self, _now: Nanos, request: &Request, _service: Nanos) {
        let number = self.register.number(request);
        self.tag_shares.removed(number, &self.register);
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
        for number in 0..self.clients.len() {
            self.clients[number].is_waiting = false;
            self.update_places(self.now, number);
        }
    }
}
