//! `guarantee`: a tenant with a guarantee is served when it is due, and tenants without one get the rest of the device's time.
//!
//! ```text
//! tenant   queued        due                           device
//! a        ─▶ lane ──┬─▶ ···│▶                  ┌─▶ in flight ─▶ write cache ─▶ media
//! b        ─▶ lane ──┼─▶ ······│▶   ─▶ choice ──┘   └──────── outstanding ────────┘
//! others   ─▶ lane ──┘   never
//! ```
//! Its rules, each with its reason:
//!
//! 1. *Due.* A request is due when the reference disk of its tenant would have completed it. The earliest due goes first, which meets all due
//!    times if any order can.
//! 2. *Slack.* As long as the device can work for others and still complete all promised requests in time, the spare capacity goes to tenants
//!    without a guarantee, then to those with one, by tags: device time in proportion to the weights. So a guarantee is served when it is
//!    due, and its owner never pays later for service beyond it. Service ahead of time, for lack of a request that fits, is credited up to
//!    the next request of a tenant without a guarantee; on a single disk there is none while such a request waits for room.
//! 3. *Room.* A request in flight cannot be recalled. None is sent unless the work outstanding, with it, leaves every other tenant with a
//!    guarantee the device in time for its next request, which may arrive at any moment. The usable part of that room is learned: it falls
//!    if a response exceeds the worst case of the reference disk because of others, or if the responses are later on average. A device
//!    with parallel units can keep a request for longer than the work in flight predicts, as flash does that collects garbage, so there the
//!    number in flight is bounded too: it falls with each request that was late at the device, and rises with the others.
//! 4. *Overtaking.* A disk that serves the nearest request first may keep a distant one for long. So no request is sent to a single disk that
//!    could make a promised request in flight late if it were served before it.
//! 5. *Write cache.* A write that the cache has acknowledged stays outstanding until its media time has passed ([`ledger`]).
//! 6. *Flushes.* A drive takes no other command during a flush, and then serves the waiting ones in its own order, so no request is sent to a
//!    single disk meanwhile. Writes of a tenant that syncs have earlier due times, by its usual flush.
//! 7. *Urgency.* A request at its latest start is sent although the room is used up, if at most one other is in flight: an idle device
//!    helps no tenant. If it is overdue, parallel units take it up to the bound of rule 3: a device with few of its units in use would
//!    make all later ones late as well.
//! 8. *Floor.* Tenants without a guarantee are served once every `best_effort_wait_ms` in any case; those with long requests more rarely, so
//!    that at most one in a hundred promised requests is late because of them.

mod client;
mod ledger;

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{COMPLETION_BACKSTOP, Insertion, Pick, Room, Scheduler, SchedulerSpec, Tags, resort};
use crate::by_request::ByRequest;
use crate::cost::Cost;
use crate::lanes::{lane_for, next_within_limits};
use crate::queue::{Limits, Merging, Placed, Queue, Slot};
use crate::sorted::{SortedList, key, value};
use crate::tag_shares::TagShares;
use crate::tenants::{Register, Roster};
use crate::{Nanos, Request, Standing, StreamId, Tunable, Unit};
use client::{Charge, Client, Places};
use ledger::{Completed, Ledger};

pub(super) static SPEC: SchedulerSpec = SchedulerSpec {
    name: "guarantee",
    summary: "each tenant is served when its guarantee is due; tenants without one get the rest",
    source: "Liu, Layland, Scheduling algorithms for multiprogramming in a hard-real-time environment, JACM 1973; Stanovich, Baker, Wang, \
             Throttling on-disk schedulers to meet soft-real-time requirements, RTAS 2008; Povzner et al., Fahrrad, EuroSys 2008",
    tunables: Tunables::TUNABLES,
    work_conserving: false,
    starvation_bound: None,
    knowledge: None,
    build: |limits, values| Box::new(Guarantee::new(*limits, Tunables::of(values), &Roster::default())),
};

crate::tunables! {
    /// The tunables of `guarantee`.
    #[derive(Clone, Copy)]
    struct Tunables {
        /// The longest time without service for tenants without a guarantee.
        best_effort_wait as "best_effort_wait_ms": Nanos = Tunable::new(Unit::Milliseconds, 1..=60_000, 1_000).logarithmic(),
        /// How far a tenant may lag behind its reference disk and still be owed the whole difference. Anything beyond is forgiven, so that
        /// a guarantee that no host can meet does not take the disk from others.
        debt as "debt_ms": Nanos = Tunable::new(Unit::Milliseconds, 0..=60_000, 500),
    }
}

/// Number of due times that count for the slack: a bound of the time per request. More are rarely within the reach of the first.
const LOOK_AHEAD: usize = 16;
/// Most requests in flight with which an urgent one is sent although the room is used up (rule 7).
const URGENT_IN_FLIGHT: u32 = 2;
/// Assumed media time of a sector until requests of two sizes have completed, in nanoseconds: 25 MB/s.
const SECTOR: f64 = 20e3;
/// Requests served by the floor (rule 8) take at most one part in this many of the device's time.
const RARELY: u64 = 128;
/// Indexes of the lists of tags.
const PROMISED: usize = 0;
const BEST_EFFORT: usize = 1;

/// Tenants, sorted.
#[derive(Default)]
struct Lists {
    /// Tenants with a guarantee and queued requests, by the due time of the next.
    dues: SortedList,
    /// Tenants with queued requests by tag: with a guarantee, and without.
    tags: [SortedList; 2],
    /// Tenants with a guarantee that have or expect requests, by the time for which others may keep the device.
    rooms: SortedList,
    /// Tenants with a guarantee and requests in flight on a single disk, by the due time of the first.
    flights: SortedList,
    /// Tenants at their limits, and those that are not expected any more, by the time of the change.
    wakes: SortedList,
}

impl Lists {
    fn move_entries(&mut self, number: u32, is_promised: bool, before: Places, after: Places) {
        let tags = &mut self.tags[if is_promised { PROMISED } else { BEST_EFFORT }];
        tags.move_entry(before.tag, after.tag, number);
        self.dues.move_entry(before.due, after.due, number);
        self.rooms.move_entry(before.room, after.room, number);
        self.flights.move_entry(before.flight, after.flight, number);
        self.wakes.move_entry(before.wake, after.wake, number);
    }
}

struct Guarantee {
    tuning: Tunables,
    register: Register,
    queue: Queue,
    clients: Vec<Client>,
    charges: ByRequest<Charge>,
    tag_shares: TagShares,
    ledger: Ledger,
    lists: Lists,
    /// Number of tenants with requests.
    active: usize,
    /// The highest tag served from spare capacity.
    spare: u64,
    /// Last dispatch of a tenant without a guarantee, or the last time at which none had requests.
    best_effort_served: Nanos,
    /// Time for which requests keep the device busy, by size: of reads, and of writes.
    costs: [Cost; 2],
    /// Disk time reported for the next request to complete, divided by the number of disks.
    reported: Option<Nanos>,
    /// Time of the last event, because a new roster is set without a time.
    now: Nanos,
}

impl Guarantee {
    fn new(limits: Limits, tuning: Tunables, roster: &Roster) -> Guarantee {
        Guarantee {
            tuning,
            register: Register::new(roster),
            queue: Queue::new(limits, Merging { front: true, within_stream: false }),
            clients: Vec::new(),
            charges: ByRequest::default(),
            tag_shares: TagShares::default(),
            ledger: Ledger::new(roster),
            lists: Lists::default(),
            active: 0,
            spare: 0,
            best_effort_served: Nanos::ZERO,
            costs: Default::default(),
            reported: None,
            now: Nanos::ZERO,
        }
    }

    /// The tenant with this number, created if it is new.
    fn open(&mut self, number: usize) -> &mut Client {
        while self.clients.len() <= number {
            let next = self.clients.len();
            self.clients.push(Client::new(self.register.tenant(next), self.register.weight(next)));
        }
        &mut self.clients[number]
    }

    /// Replaces the roster, with no requests queued. Tenants on both keep their clocks, costs and requests in flight.
    fn replace_roster(&mut self, roster: &Roster) {
        let fresh = Guarantee::new(self.queue.limits(), self.tuning, roster);
        let mut before = core::mem::replace(self, fresh);
        let others = roster.tenants().len();
        self.open(others);
        let known = before.clients.len();
        let numbers: Vec<Option<usize>> = (0..known).map(|number| self.register.number_of_same(&before.register, number)).collect();
        for (known, client) in before.clients.drain(..).enumerate() {
            let Some(number) = numbers[known] else { continue };
            self.clients[number] = match (before.register.tenant(known), self.register.tenant(number)) {
                (Some(earlier), Some(later)) => client.with_promise(before.now, earlier, later),
                _ => client,
            };
            self.clients[number].places = Places::default();
        }
        for charge in before.charges.values_mut() {
            charge.tenant = numbers[charge.tenant].unwrap_or_else(|| {
                self.clients[others].adopt(charge);
                others
            });
            self.tag_shares.add(charge.tenant, self.register.weight(charge.tenant));
        }
        (self.charges, self.costs, self.now) = (before.charges, before.costs, before.now);
        self.ledger = before.ledger.on(roster);
        (self.spare, self.best_effort_served) = (before.spare, before.best_effort_served);
        self.active = self.clients.iter().filter(|client| client.open > 0).count();
        (0..self.clients.len()).for_each(|number| self.update(number));
    }

    /// A tenant's next request, and the time at which its limits allow it.
    fn next(&self, number: usize) -> Option<(Slot, Nanos)> {
        next_within_limits(&self.queue, number, self.clients[number].limiter.as_ref(), self.now, |lane| self.queue.oldest(lane))
    }

    /// Updates a tenant's entries in the lists.
    fn update(&mut self, number: usize) {
        let next = self.next(number);
        let mut places = Places::default();
        let (mut next_cost, mut next_service, mut latest_start) = (Nanos::ZERO, Nanos::ZERO, Nanos::ZERO);
        let client = &self.clients[number];
        if let Some((slot, ready_at)) = next {
            let request = self.queue.request(slot);
            let kind = usize::from(request.op.is_write());
            next_cost = Nanos(client.costs[kind].estimate_or(request.sectors, &self.costs[kind], SECTOR));
            let charge = self.charges.get(request.id);
            next_service = charge.map_or(Nanos::ZERO, |charge| charge.service);
            if ready_at > self.now {
                places.wake = Some(key(ready_at.0, number));
            } else {
                places.tag = Some(key(client.tag, number));
                let promised = charge.filter(|_| client.is_promised());
                places.due = promised.map(|charge| key(client.due(charge).0, number));
                let has_one_arm = self.register.roster().has_one_arm();
                latest_start = promised.map_or(Nanos::ZERO, |charge| client.latest_start(charge, next_cost, has_one_arm));
            }
        }
        places.room = client.room(self.now).map(|room| key(room.0, number));
        if client.open == 0 && places.room.is_some() {
            places.wake = Some(key(client.silent_from().0, number));
        }
        places.flight = client.flights.iter().map(|(_, due)| key(due.0, number)).min();
        let client = &mut self.clients[number];
        (client.next_cost, client.next_service, client.latest_start) = (next_cost, next_service, latest_start);
        let before = core::mem::replace(&mut client.places, places);
        self.lists.move_entries(number as u32, client.is_promised(), before, places);
    }

    /// Updates tenants whose limits have passed, and those that are not expected any more.
    fn wake(&mut self) {
        while let Some((_, number)) = self.lists.wakes.first().filter(|&(at, _)| value(at) <= self.now.0) {
            self.update(number as usize);
        }
    }

    /// How long the device may work for others before the queued promises need it, served in order of their due times (rule 2); negative
    /// if one of them is late.
    fn slack(&self) -> i64 {
        let mut least = i64::MAX;
        // The time of the earlier ones is that in the mean: worst cases of several rarely coincide.
        let mut demand = self.ledger.outstanding(self.now).0.cast_signed();
        let mut from = 0;
        for _ in 0..LOOK_AHEAD {
            let Some((place, number)) = self.lists.dues.at_or_after(from) else { break };
            from = place + 1;
            let client = &self.clients[number as usize];
            least = least.min(client.latest_start.0.cast_signed() - self.now.0.cast_signed() - demand);
            demand += client.next_cost.0.cast_signed();
        }
        least
    }

    /// Whether a tenant's next request may join those in flight (rules 3 and 4).
    fn has_room(&self, number: usize) -> bool {
        let cost = self.clients[number].next_cost;
        let outstanding = self.ledger.outstanding(self.now);
        if let Some((due, _)) = self.lists.flights.first_but(number as u32)
            && Nanos(value(due)) < self.now + outstanding + cost
        {
            return false;
        }
        self.lists.rooms.first_but(number as u32).is_none_or(|(room, other)| {
            let others = outstanding - self.clients[other as usize].flying;
            others + cost <= Nanos(value(room)) && !self.ledger.is_full()
        })
    }

    /// Whether a tenant's next request may be sent to an idle single disk. Then a promised one is not sent ahead of its time, which would take
    /// the room again and again. Of parallel units some would be idle, so there it is.
    fn would_have_room(&self, number: usize) -> bool {
        let cost = self.clients[number].next_cost;
        let has = self.lists.rooms.first_but(number as u32).is_none_or(|(room, _)| cost <= Nanos(value(room)));
        has && self.register.roster().has_one_arm()
    }

    /// Whether a tenant's next request can hardly be in time any more.
    fn is_overdue(&self, number: usize) -> bool {
        let client = &self.clients[number];
        client.places.due.is_some_and(|due| Nanos(value(due)) <= self.now + client.next_cost)
    }

    /// When a tenant without a guarantee is served in any case (rule 8); never if none waits.
    fn floor(&self) -> Nanos {
        let first = self.lists.tags[BEST_EFFORT].first();
        first.map_or(Nanos::MAX, |(_, number)| {
            let rarely = Nanos(RARELY.saturating_mul(self.clients[number as usize].next_cost.0));
            self.best_effort_served + rarely.max(self.tuning.best_effort_wait)
        })
    }

    /// The next tenant to serve, and whether from spare capacity; or the time until which nothing may be sent.
    fn choose(&self) -> Result<(usize, bool), Nanos> {
        let later = self.now + COMPLETION_BACKSTOP;
        if self.ledger.is_flushing() {
            return Err(later);
        }
        let of_list = |list: &SortedList| list.first().map(|(_, number)| number as usize);
        let best_effort = of_list(&self.lists.tags[BEST_EFFORT]);
        if let Some(number) = best_effort.filter(|_| self.now >= self.floor()) {
            return Ok((number, true));
        }
        let (slack, first) = (self.slack(), of_list(&self.lists.dues));
        if let Some(number) = first.filter(|_| slack <= 0) {
            let helps = self.ledger.has_free_units() && self.is_overdue(number);
            let may_go = self.ledger.count() < URGENT_IN_FLIGHT || helps || self.has_room(number);
            return if may_go { Ok((number, false)) } else { Err(later) };
        }
        let until = later.min(self.now + Nanos(slack.cast_unsigned()));
        let is_short = |number: usize| self.clients[number].next_cost.0.cast_signed() <= slack;
        if let Some(number) = best_effort.filter(|&number| is_short(number)) {
            if self.has_room(number) {
                return Ok((number, true));
            }
            if self.would_have_room(number) {
                return Err(until);
            }
        }
        let candidates = [first, of_list(&self.lists.tags[PROMISED])].into_iter().flatten();
        let fits = |&number: &usize| (is_short(number) || Some(number) == first) && self.has_room(number);
        candidates.into_iter().find(fits).map(|number| (number, true)).ok_or(until)
    }

    /// Dispatches a tenant's next request.
    fn send(&mut self, number: usize, is_spare: bool) -> Option<Request> {
        let (slot, _) = self.next(number)?;
        let request = self.queue.take(slot);
        let client = &mut self.clients[number];
        let work = client.next_cost;
        if let Some(charge) = self.charges.get_mut(request.id) {
            (charge.dispatched, charge.work) = (Some(self.now), work);
            if client.is_promised() && self.register.roster().has_one_arm() {
                client.flights.push((request.id, client.due_in_flight(charge)));
            }
            client.sent(charge.service, work);
            charge.begin = self.ledger.sent(self.now, work);
            charge.in_flight = self.ledger.count();
            charge.others_done = self.ledger.done() - client.done;
        }
        if let Some(limiter) = &mut client.limiter {
            limiter.charge(self.now, &request);
        }

        if is_spare || !client.is_promised() {
            self.spare = self.spare.max(client.tag);
            client.tag = client.tag.saturating_add(
                client.disk_time.estimate(request.sectors, &self.costs[usize::from(request.op.is_write())]) / client.weight,
            );
        }
        if !client.is_promised() {
            self.best_effort_served = self.now;
        }
        self.update(number);
        Some(request)
    }

    /// Updates the charges after a request was queued or merged.
    fn record_placement(&mut self, number: usize, request: &Request, charge: Charge, placed: &Placed) {
        match placed {
            Placed::Queued(_) => {
                self.clients[number].waiting += 1;
                self.charges.insert(request.id, charge);
            }
            Placed::Merged { into, absorbed } => {
                let absorbed = absorbed.and_then(|absorbed| self.charges.remove(absorbed.id));
                self.clients[number].waiting -= u32::from(absorbed.is_some());
                if let Some(grown) = self.charges.get_mut(*into) {
                    grown.merge(&charge);
                    absorbed.inspect(|absorbed| grown.merge(absorbed));
                }
            }
        }
    }
}

impl Scheduler for Guarantee {
    fn insert(&mut self, now: Nanos, request: Request) -> Insertion {
        self.now = now;
        let number = self.register.number(&request);
        let lba = self.register.roster().tenant_lba_of(&request);
        let (spare, debt, others_wait) = (self.spare, self.tuning.debt, !self.lists.tags[BEST_EFFORT].is_empty());
        let client = self.open(number);
        let (was_silent, had_none, is_promised) = (client.open == 0, client.waiting == 0, client.is_promised());
        let service = client.arrived(now, &Request { lba, ..request });
        client.forgive(now, debt);
        if had_none {
            client.tag = client.tag.max(spare);
        }
        let charge = client.charge(number, request.op.is_write(), service, now);
        if had_none && !is_promised && !others_wait {
            self.best_effort_served = now;
        }
        self.active += usize::from(was_silent);
        // A tenant that has the device to itself is served as without a scheduler, so nothing is merged.
        let limits = self.queue.limits();
        if self.active == 1 {
            self.queue.set_limits(&Limits { max_sectors: 0, ..limits });
        }
        let lane = lane_for(number, self.clients[number].limiter.as_ref(), &request);
        let placed = self.queue.insert(lane, Nanos::ZERO, request);
        self.queue.set_limits(&limits);
        self.tag_shares.inserted(number, &self.register, &placed);
        self.record_placement(number, &request, charge, &placed);
        self.update(number);
        placed.into()
    }

    fn pick(&mut self, now: Nanos) -> Pick {
        self.now = now;
        if self.queue.is_empty() {
            return Pick::Empty;
        }
        self.wake();
        match self.choose() {
            Ok((number, is_spare)) => self.send(number, is_spare).map_or(Pick::Empty, Pick::Go),
            Err(until) => {
                let wake = self.lists.wakes.first().map_or(Nanos::MAX, |(at, _)| Nanos(value(at)));
                let floor = if self.ledger.is_flushing() { Nanos::MAX } else { self.floor() };
                Pick::WaitUntil(until.min(wake).min(floor).max(now + Nanos(1)))
            }
        }
    }

    fn record_disk_time(&mut self, _request: &Request, disk_time: Nanos) {
        self.reported = Some(Nanos(disk_time.0 / u64::from(self.register.roster().disks())));
    }

    fn completed(&mut self, now: Nanos, request: &Request, _service: Nanos) {
        self.now = now;
        let reported = self.reported.take();
        let Some(charge) = self.charges.remove(request.id) else { return };
        let Some(dispatched) = charge.dispatched else { return };
        let is_write = request.op.is_write();
        let took =
            self.ledger.completed(now, &Completed { dispatched, work: charge.work, begin: charge.begin, reported, is_write });
        self.costs[usize::from(is_write)].learn(request.sectors, took.0);
        let debt = self.tuning.debt;
        let credit = self.lists.tags[BEST_EFFORT].first().map_or(Nanos::ZERO, |(_, waits)| self.clients[waits as usize].next_cost);
        let client = &mut self.clients[charge.tenant];
        client.flying = client.flying - charge.work;
        client.flights.retain(|(id, _)| *id != request.id);
        client.done += took;
        client.costs[usize::from(is_write)].learn(request.sectors, took.0);
        client.disk_time.learn(request.sectors, reported.unwrap_or(took).0);
        if let Some(is_late) = client.completed(now, &charge, self.ledger.done() - client.done, debt, credit) {
            self.ledger.judge(now, dispatched, charge.in_flight, is_late);
        }
        self.active -= usize::from(client.open == 0);
        self.tag_shares.removed(charge.tenant, &self.register);
        self.update(charge.tenant);
    }

    fn flush_began(&mut self, now: Nanos, _stream: StreamId) {
        self.now = now;
        self.ledger.flush_began();
    }

    fn flush_ended(&mut self, now: Nanos, stream: StreamId, since: Nanos) {
        self.now = now;
        self.ledger.flush_ended(now);
        if let Some(number) = self.register.roster().owner_of_stream(stream) {
            let debt = self.tuning.debt;
            self.open(number).flushed(now, since, debt);
            self.update(number);
        }
    }

    fn tags(&self, room: &Room) -> Option<Tags> {
        Some(TagShares::tags(room, &self.register))
    }

    fn open_tags(&self, depth: u32, request: &Request) -> u32 {
        self.tag_shares.open_tags(depth, &self.register, request)
    }

    fn retune(&mut self, values: &[i64]) {
        self.tuning = Tunables::of(values);
    }

    fn set_limits(&mut self, limits: &Limits) {
        self.queue.set_limits(limits);
    }

    fn set_roster(&mut self, roster: &Roster) {
        let (now, limits) = (self.now, self.queue.limits());
        let insert = |this: &mut Guarantee, request| {
            this.insert(now, request);
        };
        resort(self, limits, |this| this.replace_roster(roster), insert);
    }

    fn standing(&self, now: Nanos, tenant: usize) -> Option<Standing> {
        self.clients.get(tenant)?.standing(now)
    }

    fn drain(&mut self, out: &mut Vec<Request>) {
        let first = out.len();
        self.queue.drain(out);
        for request in &out[first..] {
            if let Some(charge) = self.charges.remove(request.id) {
                let client = &mut self.clients[charge.tenant];
                client.withdrawn(&charge);
                self.active -= usize::from(client.open == 0);
                self.tag_shares.removed(charge.tenant, &self.register);
            }
        }
        (0..self.clients.len()).for_each(|number| self.update(number));
    }
}
