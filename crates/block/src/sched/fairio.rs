//! Shares of disk time by weight, in cycles.
//!
//! ```text
//! disk time by weight ──▶             now          end of the cycle
//!                          |-----------|-----------------|
//! a  ##########################                               ready: has share left; least served first
//! b  ##############                                           away: has share left, but no queued requests
//! c  ######################################################   upheld: used its share, waits for the next cycle
//! ```
//! Each tenant has an account of the disk time it received, divided by its weight. A cycle lets accounts grow up to a line; queued tenants
//! below it are served, in one of three orders. When all are at the line, the next cycle begins, and the line advances by the cycle's
//! service divided by the sum of the active weights.
//!
//! * **Accounts are in disk time.** A request is charged an estimate on dispatch, so that a deep device queue does not run ahead of the
//!   accounts, and the difference to its actual time on completion. A tenant with an excess begins the next cycle above the line: a cycle's
//!   end cuts nothing off.
//! * **Idle capacity is not charged.** If all queued tenants have used their shares and none is about to return, the line advances at once.
//!   A returning tenant begins at the average of the others: disk time that it did not request is lost. Time of requests in flight is not yet
//!   included in that average.
//! * **Tenants about to return are waited for.** While a tenant with share left has requests in flight or has just completed one, tenants
//!   at the line are served only up to a limit of requests in flight, and are charged for them. The limit starts at `storage_load_threshold`.
//!   If a tenant thereby gets a fourth of a share ahead, or the time that the device usually needs for two cycles passes, the limit is
//!   lowered, down to one; after a cycle in which that did not happen and more could have been sent, it is raised by one. So the device is
//!   kept as full as shares allow.
//! * **A tenant that cannot use its share is not waited for.** Such a tenant has, while all others are held back, less disk time than its
//!   share of the disk time that the device usually provides in that time (`rate.rs`): a stream of one request at a time keeps at most one
//!   disk of eight busy. It loses the share, and is not waited for in the following 1, 2, 4, … cycles, up to `window_cycles` of 100 ms:
//!   counted in long cycles, a share would be forgone for ten seconds. The number of disks is no criterion: no workload may keep all of them
//!   busy, and it is 1 for flash with many units.
//! * **A share is worth several batches.** At the end of a cycle, disks wait for the last tenants with share left. With cycles that are
//!   short compared to the device queue, that is always the case, and arms move between tenants after each request. So the automatic cycle
//!   has room for twice `storage_load_threshold` requests of each tenant: one batch for disks to choose from, and the one after it.
//! * **A tenant at its limit takes no part.** It is neither waited for nor counted in the shares until its limit allows its next request,
//!   and then returns like one that was idle. Reads and writes with separate limits do not wait for each other.
//! * **The device queue is bounded.** The next cycle begins only while less than two cycles' service is in flight, or fewer than
//!   `storage_load_threshold` requests for each disk: a longer queue is better kept here.
//!
//! The paper ends cycles by the clock and compensates deviations over a window of observation of r cycles. Here the accounts are that
//! history, exact and unlimited for a tenant that stays active; the window bounds how long a share is forgone because it was not used.
//! `cycle_ms` is the length of a cycle with all disks busy: its service is that length times their number. The default is fixed, as shares
//! were closer to weights with it than with the automatic cycle on drawn workloads, at 1% less throughput (`seekwise-lab paper run fairio
//! --only drawn`).

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{COMPLETION_BACKSTOP, Insertion, Pick, Room, Scheduler, SchedulerSpec, Tags, tags_open_to_tenant, wake_batch};
use crate::lanes::{lane_for, next_within_limits, queued};
use crate::queue::{Limits, Merging, Queue, Slot};
use crate::rates::Limiter;
use crate::sorted::SortedList;
use crate::tenants::Register;
use crate::{Nanos, Request, Roster, Tunable, Unit, tunables, words};

mod accounts;

mod cycle;
mod flights;
mod hold;
mod rate;
mod stability;

use crate::cost::Cost;
use accounts::Accounts;
pub use cycle::{CycleClass, Stable, cycle_length};
use flights::{Flight, Flights};
use hold::Hold;
use rate::Rate;

pub(super) static SPEC: SchedulerSpec = SchedulerSpec {
    name: "fairio",
    summary: "shares of disk time by weight, in cycles of a fixed length or one that follows service times; unused shares go to others",
    source: "Arunagiri and others, A heuristic for selecting the cycle length for FAIRIO, UTEP-CS-11-53, 2011; its future work besides",
    tunables: Tunables::TUNABLES,
    work_conserving: false,
    starvation_bound: None,
    knowledge: None,
    build: |limits, values| Box::new(Fairio::new(limits, values)),
};

tunables! {
    /// The tunables.
    #[derive(Clone, Copy)]
    struct Tunables {
        /// Length of a cycle with all disks busy. 0 computes it from the weights, the service times and their variation, as the paper does.
        cycle_ms: Option<Nanos> = Tunable::new(Unit::Milliseconds, 0..=60_000, 100),
        /// The most cycles in which a tenant that did not use its share is not waited for (r, the window of observation). Of cycles longer
        /// than 100 ms as many as fit into the time of that many of 100 ms, at least one.
        window_cycles: u32 = Tunable::new(Unit::Count, 1..=1_000, 20).logarithmic(),
        /// A tenant is served in a cycle while the rest of its share is worth at least this number of requests.
        class_threshold: u32 = Tunable::new(Unit::Count, 1..=1_000, 1).logarithmic(),
        /// While fewer requests than this are at the device, tenants that used their share are served as well, although others with share
        /// left may return. This is the initial limit, which is then adapted to the shares. An automatic cycle has room for twice
        /// this number of requests of each tenant.
        storage_load_threshold: u32 = Tunable::new(Unit::Count, 1..=1_024, 16).logarithmic(),
        /// The charge for a request: its disk time as the device reports it, known on completion, and inferred from completions where it
        /// does not; the prediction of the tenant's reference disk, if it has one; or always as inferred, as on most real devices.
        disk_time: Charge = Tunable::one_of(Charge::WORDS, "measured"),
        /// Which tenant with share left is served next: the one with the least disk time; the one with the oldest request, as in the paper;
        /// or the one with the next request upwards on the disk, which is the most efficient and the least fair over short windows.
        order: Order = Tunable::one_of(Order::WORDS, "share"),
    }
}

words! {
    /// Source of the disk time of a request.
    enum Charge {
        /// The device, or else inferred.
        Measured = "measured",
        /// A model of the device.
        Predicted = "predicted",
        /// The times of completions.
        Inferred = "inferred",
    }
}

words! {
    /// Order of service among tenants with share left.
    enum Order {
        /// "Unified arrival-ordered list" (section IV).
        Arrival = "arrival",
        /// The oldest request of the tenant that was given the least of its share.
        Share = "share",
        /// A one-way elevator.
        Clook = "clook",
    }
}

/// A share should be worth this many batches of `storage_load_threshold` requests.
const BATCHES: u32 = 2;

/// The limits of a tenant, and its key in the list of tenants that wait for their limits; `None` if it does not wait.
#[derive(Default)]
struct Limited {
    limiter: Option<Limiter>,
    key: Option<u128>,
}

/// The position of the elevator.
#[derive(Default)]
struct Sweep {
    /// End of the last request.
    head: u64,
    /// Number of completed sweeps.
    number: u32,
}

impl Sweep {
    /// Moves behind a dispatched request.
    fn serve(&mut self, request: &Request) {
        if request.lba < self.head {
            self.number = self.number.wrapping_add(1);
        }
        self.head = request.end();
    }

    /// Sorts requests by the time at which the elevator reaches them.
    fn key(&self, lba: u64) -> u128 {
        let number = self.number.wrapping_add(u32::from(lba < self.head));
        u128::from(number) << 96 | u128::from(lba) << 32
    }
}

struct Fairio {
    set: Tunables,
    /// Two lanes for each tenant.
    queue: Queue,
    register: Register,
    accounts: Accounts,
    /// Limits by tenant number; and the tenants that wait for their limits, by end of the wait.
    limits: Vec<Limited>,
    limited: SortedList,
    now: Nanos,
    flights: Flights,
    /// Cost model over the requests of all tenants.
    cost: Cost,
    /// Disk time reported for the next request to complete.
    reported_time: Option<Nanos>,
    last_completion: Nanos,
    sweep: Sweep,
    /// Requests in flight at which tenants without share left are refused, while tenants with share left are waited for.
    floor: u32,
    /// The device's rate while no tenant is held back.
    rate: Rate,
    /// The current hold; `None` if there was none in this cycle.
    hold: Option<Hold>,
}

impl Fairio {
    fn new(limits: &Limits, values: &[i64]) -> Fairio {
        let set = Tunables::of(values);
        Fairio {
            set,
            queue: Queue::new(*limits, Merging { front: true, within_stream: false }),
            register: Register::default(),
            accounts: Accounts::default(),
            limits: Vec::new(),
            limited: SortedList::default(),
            now: Nanos::ZERO,
            flights: Flights::default(),
            cost: Cost::default(),
            reported_time: None,
            last_completion: Nanos::ZERO,
            sweep: Sweep::default(),
            floor: set.storage_load_threshold,
            rate: Rate::new(1),
            hold: None,
        }
    }

    fn disks(&self) -> u32 {
        self.register.roster().disks()
    }

    /// Opens a tenant's account and its limits.
    fn open(&mut self, number: usize) {
        self.accounts.open(number);
        while self.limits.len() <= number {
            let limiter = self.register.tenant(self.limits.len()).and_then(|tenant| Limiter::new(&tenant.rates));
            self.limits.push(Limited { limiter, key: None });
        }
    }

    /// A tenant's limits; `None` if it has none.
    fn limiter(&self, number: usize) -> Option<&Limiter> {
        self.limits.get(number)?.limiter.as_ref()
    }

    /// Queues a request of a tenant.
    fn enqueue(&mut self, number: usize, request: Request) -> Insertion {
        self.open(number);
        let lane = lane_for(number, self.limiter(number), &request);
        let placed = self.queue.insert(lane, Nanos::ZERO, request);
        let weight = self.register.weight(number);
        if self.limits[number].key.is_none() {
            self.accounts.arrives(number, weight, self.flights.charged());
        }
        self.settle(number);
        placed.into()
    }

    /// The next request of a tenant, and the time at which its limits allow it; `None` if none is queued.
    fn next(&self, number: usize) -> Option<(Slot, Nanos)> {
        next_within_limits(&self.queue, number, self.limiter(number), self.now, |lane| match self.set.order {
            Order::Arrival | Order::Share => self.queue.oldest(lane),
            Order::Clook => self.queue.next_in_sweep(lane, self.sweep.head),
        })
    }

    /// The sort key of a tenant's next request among those of all tenants.
    fn key(&self, number: usize, slot: Slot) -> u128 {
        let number_bits = number as u128;
        match self.set.order {
            Order::Arrival => u128::from(self.queue.place(slot).sequence) << 32 | number_bits,
            Order::Share => self.accounts.key(number),
            Order::Clook => self.sweep.key(self.queue.request(slot).lba) | number_bits,
        }
    }

    /// Moves a tenant to its list, after its queue, account or limit has changed.
    fn settle(&mut self, number: usize) {
        let next = self.next(number);
        let ready_at = match next {
            Some((_, ready_at)) => ready_at,
            None => self.limiter(number).map_or(self.now, |limiter| limiter.any_ready_at(self.now)),
        };
        let is_limited = ready_at > self.now;
        let key = next.filter(|_| is_limited).map(|_| u128::from(ready_at.0) << 64 | number as u128);
        let before = core::mem::replace(&mut self.limits[number].key, key);
        self.limited.move_entry(before, key, number as u32);
        if is_limited {
            self.accounts.leave(number);
            return;
        }
        if before.is_some() {
            self.accounts.arrives(number, self.register.weight(number), self.flights.charged());
        }
        let key = next.map(|(slot, _)| self.key(number, slot));
        let least = self.set.class_threshold.saturating_sub(1);
        self.accounts.settle(number, key, least);
    }

    /// Releases tenants whose limits have passed.
    fn release(&mut self) {
        while let Some((_, number)) = self.limited.first().filter(|(key, _)| *key >> 64 <= u128::from(self.now.0)) {
            self.settle(number as usize);
        }
    }

    /// Waits until `until`, or until a limit releases a tenant.
    fn wait(&self, until: Nanos) -> Pick {
        let limited = self.limited.first().map_or(Nanos::MAX, |(key, _)| Nanos((key >> 64) as u64));
        Pick::WaitUntil(until.min(limited).min(self.now + COMPLETION_BACKSTOP))
    }

    /// Dispatches a tenant's next request.
    fn dispatch(&mut self, now: Nanos, number: usize) -> Option<Request> {
        let (slot, _) = self.next(number)?;
        let request = self.queue.take(slot);
        if let Some(limiter) = &mut self.limits[number].limiter {
            limiter.charge(now, &request);
        }
        self.sweep.serve(&request);
        let (charged, is_final) = self.charge_of(now, number, &request);
        self.flights.begin(request.id, Flight { number, charged, is_final, since: now });
        self.rate.begin(now);
        self.accounts.dispatched(number);
        let has_share = self.accounts.has_share(number);
        self.accounts.charge(number, charged.cast_signed());
        self.settle(number);
        self.count_while_held(number, has_share, charged);
        Some(request)
    }

    /// The cost of a request in nanoseconds of disk time, as known at dispatch, and whether that is final.
    fn charge_of(&mut self, now: Nanos, number: usize, request: &Request) -> (u64, bool) {
        let class = self.accounts.class_mut(number);
        if self.set.disk_time == Charge::Predicted
            && let Some(reference) = self.register.tenant(number).and_then(|tenant| tenant.reference.as_ref())
        {
            let model = class.model.get_or_insert_with(|| reference.begin());
            let lba = self.register.roster().tenant_lba_of(request);
            let waiting = u32::try_from(queued(&self.queue, number)).unwrap_or(u32::MAX);
            return (model.service_time(now, &Request { lba, ..*request }, waiting).0, true);
        }
        (class.cost.estimate(request.sectors, &self.cost), false)
    }

    /// Whether all disks have full queues and the work of two cycles is in flight. Requests sent now would only delay later arrivals of
    /// others.
    fn device_has_enough(&self) -> bool {
        let full = u64::from(self.set.storage_load_threshold) * u64::from(self.disks());
        self.flights.len() as u64 >= full && self.flights.charged() / 2 > self.accounts.service()
    }

    /// Begins the next cycle: all queued tenants have used their share, and none is waited for.
    fn begin_cycle(&mut self, now: Nanos) {
        self.rate.end_span(now, self.hold.is_some_and(|hold| hold.has_refused()));
        self.end_hold();
        let fixed = self.set.cycle_ms.map(|length| length.0.saturating_mul(u64::from(self.disks())));
        self.accounts.begin_cycle(fixed, self.disks());
        while let Some(number) = self.accounts.first_below_line() {
            self.settle(number);
        }
    }

    /// Inserts a request that was queued before.
    fn reinsert(&mut self, request: Request) {
        let number = self.register.number(&request);
        self.enqueue(number, request);
    }
}

impl Scheduler for Fairio {
    fn insert(&mut self, now: Nanos, request: Request) -> Insertion {
        self.now = now;
        let number = self.register.number(&request);
        self.enqueue(number, request)
    }

    fn pick(&mut self, now: Nanos) -> Pick {
        self.now = now;
        self.release();
        if self.queue.is_empty() {
            return Pick::Empty;
        }
        loop {
            if let Some(number) = self.accounts.first_ready() {
                if !self.accounts.has_share(number) {
                    self.settle(number);
                } else if let Some(request) = self.dispatch(now, number) {
                    return Pick::Go(request);
                }
                continue;
            }
            let Some(number) = self.accounts.first_upheld() else { return self.wait(Nanos::MAX) };
            let Some(until) = self.await_return(now) else {
                if self.device_has_enough() {
                    return self.wait(Nanos::MAX);
                }
                self.begin_cycle(now);
                continue;
            };
            if self.flights.len() >= self.floor as usize {
                self.refuse();
                return self.wait(until);
            }
            if let Some(request) = self.dispatch(now, number) {
                return Pick::Go(request);
            }
        }
    }

    fn record_disk_time(&mut self, _request: &Request, disk_time: Nanos) {
        self.reported_time = (self.set.disk_time != Charge::Inferred).then_some(disk_time);
    }

    fn completed(&mut self, now: Nanos, request: &Request, _service: Nanos) {
        self.now = now;
        let reported = self.reported_time.take();
        let before = core::mem::replace(&mut self.last_completion, now);
        let Some(Flight { number, charged, is_final, since }) = self.flights.end(request.id) else { return };
        // Unless the device reports the time, assume that all its disks have worked for this request since the previous completion.
        let spacing = (now - before.max(since)).0.saturating_mul(u64::from(self.disks()));
        let took = reported.map_or(spacing, |reported| reported.0);
        self.rate.add(took);
        if self.flights.len() == 0 {
            self.rate.end(now);
        }
        self.cost.learn(request.sectors, took);
        let batch = BATCHES.saturating_mul(self.set.storage_load_threshold);
        self.accounts.completed(number, now, request.sectors, took, batch);
        if !is_final {
            self.accounts.charge(number, took.cast_signed().saturating_sub(charged.cast_signed()));
        }
        self.settle(number);
    }

    fn tags(&self, room: &Room) -> Option<Tags> {
        Some(Tags { depth: room.nr_requests, wake_batch: wake_batch(room.nr_requests.div_ceil(2)) })
    }

    fn open_tags(&self, depth: u32, request: &Request) -> u32 {
        let Some(number) = self.register.find(request) else { return depth };
        let held = queued(&self.queue, number) as u64 + self.accounts.at_device(number);
        let weight = self.register.weight(number);
        tags_open_to_tenant(depth, held, weight, self.accounts.weight_with(number, weight))
    }

    fn retune(&mut self, values: &[i64]) {
        self.set = Tunables::of(values);
        self.floor = self.set.storage_load_threshold;
        for number in 0..self.accounts.len() {
            self.settle(number);
        }
    }

    fn set_limits(&mut self, limits: &Limits) {
        self.queue.set_limits(limits);
    }

    /// Tenants on both rosters keep their accounts and their requests in flight.
    fn set_roster(&mut self, roster: &Roster) {
        let limits = self.queue.limits();
        let mut waiting = Vec::new();
        self.queue.drain(&mut waiting);
        let before = core::mem::replace(&mut self.register, Register::new(roster));
        let number = |number| self.register.number_of_same(&before, number);
        self.flights.renumber(number);
        let numbers = (0..self.accounts.len()).filter_map(|from| number(from).map(|to| (from, to, self.register.weight(to))));
        self.accounts.renumber(numbers.collect());
        (self.limits, self.limited) = (Vec::new(), SortedList::default());
        (self.hold, self.rate) = (None, Rate::new(roster.disks()));
        // Requests are not merged again.
        self.queue.set_limits(&Limits { max_sectors: 0, ..limits });
        waiting.into_iter().for_each(|request| self.reinsert(request));
        self.queue.set_limits(&limits);
    }

    fn drain(&mut self, out: &mut Vec<Request>) {
        self.queue.drain(out);
        self.flights = Flights::default();
        (self.hold, self.rate) = (None, Rate::new(self.disks()));
        for number in 0..self.accounts.len() {
            if let Some(key) = self.limits[number].key.take() {
                self.limited.remove(key);
            }
            self.accounts.forget_requests(number);
        }
    }
}
