//! Shares of disk time by weight, in cycles.
//!
//! ```text
//! disk time by weight ──▶             now          end of the cycle
//!                          |-----------|-----------------|
//! a  ##########################                               has share left: goes, who was given least first
//! b  ##############                                           has share left, but nothing waits: may come back
//! c  ######################################################   had its share: waits for the next cycle
//! ```
//! Every tenant has an account of the disk time it was given, divided by its weight. A cycle lets accounts grow up to a line; who waits and
//! is below it goes, in one of three orders. When all are at the line, the next cycle begins, and the line moves on by
//! the cycle's service divided by the weights of those who are there.
//!
//! * **Deviations are settled in disk time.** A request is charged an estimate when it goes to the device, so that a deep device queue does
//!   not run ahead of the accounts, and what it really took when it is done. Who had too much begins the next cycle above the line.
//!   Nothing is cut off when a cycle ends.
//! * **What cost nobody anything is not counted.** Where all who wait had their share and nobody is about to come back, the line just
//!   moves to whoever waits. Who comes anew begins at what the others have had by now: time that it did not ask for is gone. What of theirs is
//!   at the device it finds before it, so that it has not been had.
//! * **Who is about to come back is waited for, but the disks are not.** As long as a tenant with share left has requests at the device or
//!   has just had one, those who had their share go only while fewer than so many requests are at the device, and are charged for it. These
//!   are `storage_load_threshold` to begin with. If somebody gets a fourth of a share ahead so, they become fewer, down to one for each disk;
//!   after a cycle in which nobody did, though more could have gone, one more. So the device is kept as full as shares allow. If the tenant
//!   cannot come to its share all the same, it loses it and is not waited for in the following 1, 2, 4, … cycles, up to `window_cycles`.
//! * **A share is worth some batches.** At the end of a cycle disks wait for the last of those who have share left. Where a cycle is short
//!   beside what is at the device, that is all the time; and arms go to and fro between tenants for a request each. So a cycle that is
//!   chosen has room for twice `storage_load_threshold` requests of everybody: one batch that disks choose from, and one that follows.
//! * **A device that takes everything is not given everything.** The next cycle begins only when less than two cycles' service is at the
//!   device, or fewer than `storage_load_threshold` requests for each disk: a queue that is longer than what disks choose from is better
//!   kept here.
//!
//! The paper ends cycles by the clock and makes up for deviations over a window of observation of r cycles. Here the accounts are that
//! history, exact and without an end for who goes on asking; the window bounds for how long somebody's failure to use its share counts.
//! A `cycle_ms` is what a cycle lasts with all disks at work: its service is that length times their number.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{
    COMPLETION_BACKSTOP, Insertion, Pick, Room, Scheduler, SchedulerSpec, Tags, sort_anew, tags_open_to_tenant, wake_batch,
};
use crate::queue::{Limits, Merging, Queue, Slot};
use crate::tenants::Register;
use crate::{Nanos, Request, Roster, Tunable, Unit, tunables, words};

mod accounts;
mod cost;
mod cycle;
mod flights;
mod hold;
mod stability;

use accounts::Accounts;
use cost::Cost;
pub use cycle::{CycleClass, Stable, cycle_length};
use flights::{Flight, Flights};
use hold::Hold;

pub(super) static SPEC: SchedulerSpec = SchedulerSpec {
    name: "fairio",
    summary: "shares of disk time by weight, in cycles whose length follows the variation of service times; unused shares go to others",
    source: "Arunagiri and others, A heuristic for selecting the cycle length for FAIRIO, UTEP-CS-11-53, 2011; its future work besides",
    tunables: Tunables::TUNABLES,
    work_conserving: false,
    patience: None,
    knowledge: None,
    build: |limits, values| Box::new(Fairio::new(limits, values)),
};

tunables! {
    /// What can be set.
    #[derive(Clone, Copy)]
    struct Tunables {
        /// Length of a cycle with all disks busy. 0 computes it from the weights, the service times and their variation.
        cycle_ms: Option<Nanos> = Tunable::new(Unit::Milliseconds, 0..=60_000, 0),
        /// The most cycles in which a tenant that did not use its share is not waited for (r, the window of observation).
        window_cycles: u32 = Tunable::new(Unit::Count, 1..=1_000, 20).logarithmic(),
        /// A tenant is served in a cycle while the rest of its share is worth at least this number of requests.
        class_threshold: u32 = Tunable::new(Unit::Count, 1..=1_000, 1).logarithmic(),
        /// While fewer requests than this are at the device, those who had their share go too, though others with share left may come back:
        /// to begin with, for it becomes what shares allow. A cycle that is chosen has room for twice as many requests of each tenant.
        storage_load_threshold: u32 = Tunable::new(Unit::Count, 1..=1_024, 16).logarithmic(),
        /// What a request is charged: what the device worked for it, known when it is done; or what the model of the tenant's reference
        /// disk predicts, for who has one.
        disk_time: Charge = Tunable::one_of(Charge::WORDS, "measured"),
        /// Who goes next among those with share left: the tenant that was given least; the oldest request of all, as in the paper; or the
        /// next one upwards on the disk, which serves disks best and short windows worst.
        order: Order = Tunable::one_of(Order::WORDS, "share"),
    }
}

words! {
    /// Whence the disk time of a request is known.
    enum Charge {
        /// From the device, or else from the spacing of completions.
        Measured = "measured",
        /// From a model of the device.
        Predicted = "predicted",
    }
}

words! {
    /// Which request goes next.
    enum Order {
        /// "Unified arrival-ordered list" (section IV).
        Arrival = "arrival",
        /// The oldest request of the tenant that was given least of its share.
        Share = "share",
        /// A one-way elevator.
        Clook = "clook",
    }
}

/// Of as many requests as the device chooses from, so many are the least that a share should be worth.
const BATCHES: u32 = 2;

struct Fairio {
    set: Tunables,
    /// A lane for each tenant, under its number.
    queue: Queue,
    register: Register,
    accounts: Accounts,
    flights: Flights,
    /// Of requests of all tenants.
    cost: Cost,
    /// What the device said of the request whose completion is about to be reported.
    worked: Option<Nanos>,
    last_completion: Nanos,
    /// Where the last request ended, and how often the elevator was at the top.
    head: u64,
    sweep: u32,
    /// So many requests are kept at the device while others are waited for.
    floor: u32,
    /// Of this cycle, if it came to that.
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
            flights: Flights::default(),
            cost: Cost::default(),
            worked: None,
            last_completion: Nanos::ZERO,
            head: 0,
            sweep: 0,
            floor: set.storage_load_threshold,
            hold: None,
        }
    }

    fn disks(&self) -> u32 {
        self.register.roster().disks()
    }

    /// The request of a tenant that would go next, and what it is sorted by among those of others.
    fn candidate(&self, number: usize) -> Option<(Slot, u128)> {
        let number_bits = number as u128;
        match self.set.order {
            Order::Arrival => {
                let slot = self.queue.oldest(number)?;
                Some((slot, u128::from(self.queue.place(slot).sequence) << 32 | number_bits))
            }
            Order::Share => Some((self.queue.oldest(number)?, self.accounts.key(number))),
            Order::Clook => {
                let slot = self.queue.next_in_sweep(number, self.head)?;
                let lba = self.queue.request(slot).lba;
                let sweep = self.sweep.wrapping_add(u32::from(lba < self.head));
                Some((slot, u128::from(sweep) << 96 | u128::from(lba) << 32 | number_bits))
            }
        }
    }

    /// Puts a tenant where it belongs, after what waits or its account has changed.
    fn settle(&mut self, number: usize) {
        let key = self.candidate(number).map(|(_, key)| key);
        let least = self.set.class_threshold.saturating_sub(1);
        self.accounts.settle(number, key, least);
    }

    /// Sends a tenant's next request to the device.
    fn dispatch(&mut self, now: Nanos, number: usize) -> Option<Request> {
        let (slot, _) = self.candidate(number)?;
        let request = self.queue.take(slot);
        if request.lba < self.head {
            self.sweep = self.sweep.wrapping_add(1);
        }
        self.head = request.end();
        let (charged, is_final) = self.charge_of(now, number, &request);
        self.flights.begin(request.id, Flight { number, charged, is_final, since: now });
        self.accounts.dispatched(number);
        let has_share = self.accounts.has_share(number);
        self.accounts.charge(number, charged.cast_signed());
        self.settle(number);
        self.count_while_held(number, has_share, charged);
        Some(request)
    }

    /// What a request costs in nanoseconds, as far as one knows before; and whether that stands whatever it takes.
    fn charge_of(&mut self, now: Nanos, number: usize, request: &Request) -> (u64, bool) {
        let class = self.accounts.class_mut(number);
        if self.set.disk_time == Charge::Predicted
            && let Some(reference) = self.register.tenant(number).and_then(|tenant| tenant.reference.as_ref())
        {
            let model = class.model.get_or_insert_with(|| reference.begin());
            let lba = self.register.roster().lba_of_tenant(request);
            let waiting = u32::try_from(self.queue.lane_len(number)).unwrap_or(u32::MAX);
            return (model.of(now, &Request { lba, ..*request }, waiting).0, true);
        }
        (class.cost.estimate(request.sectors, &self.cost), false)
    }

    /// All disks have full queues, and the work of two cycles: what is sent now, others who come soon would find before them.
    fn device_has_enough(&self) -> bool {
        let full = u64::from(self.set.storage_load_threshold) * u64::from(self.disks());
        self.flights.len() as u64 >= full && self.flights.charged() / 2 > self.accounts.service()
    }

    /// All who wait had their share, and nobody is waited for.
    fn begin_cycle(&mut self) {
        self.end_hold();
        let fixed = self.set.cycle_ms.map(|length| length.0.saturating_mul(u64::from(self.disks())));
        self.accounts.begin_cycle(fixed, self.disks());
        while let Some(number) = self.accounts.first_below_line() {
            self.settle(number);
        }
    }

    /// Queues a request again that waited already.
    fn sort_in(&mut self, request: Request) {
        let number = self.register.number(&request);
        self.accounts.arrives(number, self.register.weight(number), self.flights.charged());
        self.queue.insert(number, Nanos::ZERO, request);
        self.settle(number);
    }
}

impl Scheduler for Fairio {
    fn insert(&mut self, _now: Nanos, request: Request) -> Insertion {
        let number = self.register.number(&request);
        self.accounts.arrives(number, self.register.weight(number), self.flights.charged());
        let placed = self.queue.insert(number, Nanos::ZERO, request);
        self.settle(number);
        placed.into()
    }

    fn pick(&mut self, now: Nanos) -> Pick {
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
            let Some(number) = self.accounts.first_upheld() else { return Pick::Empty };
            let Some(until) = self.is_about_to_come_back(now) else {
                if self.device_has_enough() {
                    return Pick::WaitUntil(now + COMPLETION_BACKSTOP);
                }
                self.begin_cycle();
                continue;
            };
            self.hold(now);
            if self.flights.len() >= self.floor as usize {
                self.refuse();
                return Pick::WaitUntil(until.min(now + COMPLETION_BACKSTOP));
            }
            if let Some(request) = self.dispatch(now, number) {
                return Pick::Go(request);
            }
        }
    }

    fn worked(&mut self, _request: &Request, disk_time: Nanos) {
        self.worked = Some(disk_time);
    }

    fn completed(&mut self, now: Nanos, request: &Request, _service: Nanos) {
        let worked = self.worked.take();
        let before = core::mem::replace(&mut self.last_completion, now);
        let Some(Flight { number, charged, is_final, since }) = self.flights.end(request.id) else { return };
        // Without the device's word, it worked for this one since the one before was done, with all its disks.
        let spacing = (now - before.max(since)).0.saturating_mul(u64::from(self.disks()));
        let took = worked.map_or(spacing, |worked| worked.0);
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
        let held = self.queue.lane_len(number) as u64 + self.accounts.at_device(number);
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

    fn set_roster(&mut self, roster: &Roster) {
        let reset = |this: &mut Fairio| {
            this.register = Register::new(roster);
            this.accounts = Accounts::default();
        };
        sort_anew(self, self.queue.limits(), reset, Fairio::sort_in);
    }

    fn drain(&mut self, out: &mut Vec<Request>) {
        self.queue.drain(out);
        self.flights = Flights::default();
        self.hold = None;
        for number in 0..self.accounts.len() {
            self.accounts.forget_requests(number);
        }
    }
}
