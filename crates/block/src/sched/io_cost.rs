//! Shares of a device by weight and a model of what requests cost, and limits: Linux's `io.cost` and `io.max`.
//!
//! ```text
//! device's clock  ────────────────────▶ runs at vrate: 100% if the model is right
//! a  ==========|cost|                     a request may go when its tenant's clock and its cost lie behind the device's
//! b  ================|    cost    |       cost: of the model, times all weights in use, divided by the tenant's
//! ```
//! Who uses less than its weight gives the rest away at the end of each period, and takes it back as soon as it needs it. The clock is
//! slowed down where requests miss their latency or wait for the device, and speeded up where nobody does but requests wait for the clock.
//! So the device is left alone at times though requests wait.
//!
//! Simpler than in Linux: cgroups stand side by side, without a hierarchy; a request costs what it does when it goes, not what it and its
//! merges did as they came; no request that nobody waits for goes on credit to be paid by a delay of its process, and so there are no debts
//! to be forgiven; waits for a tag are told by how long a request that may go has to wait for room at the device; requests that span
//! periods do not keep the clock from being speeded up; the model does not change with the kind of device that was found
//! (`ioc_refresh_params`), its defaults are those of hard disks. A request is not
//! held for longer than [`MOST`], whatever it costs.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{Insertion, Pick, Room, Scheduler, SchedulerSpec, Tags, sort_anew, tags_open_to_tenant, wake_batch};
use crate::limits::Throttle;
use crate::queue::{Limits, Merging, Queue};
use crate::sorted::SortedList;
use crate::tenants::Register;
use crate::{Nanos, Op, Request, Roster, Tunable, Unit, tunables};

mod clock;
mod donation;
mod model;

use clock::Clock;
use model::Model;

pub(super) static SPEC: SchedulerSpec = SchedulerSpec {
    name: "io-cost",
    summary: "shares by weight and a linear model of costs, throttled where latencies are missed; limits of operations and bytes",
    source: "Linux 6.18 block/blk-iocost.c, Documentation/admin-guide/cgroup-v2.rst (io.cost.model, io.cost.qos, io.max)",
    tunables: Tunables::TUNABLES,
    work_conserving: false,
    patience: None,
    knowledge: None,
    build: |limits, values| Box::new(IoCost::new(limits, values)),
};

const RATE: core::ops::RangeInclusive<i64> = 1..=10_000_000;

tunables! {
    /// What can be set.
    #[derive(Clone, Copy)]
    struct Tunables {
        /// Sequential read throughput of the device in bytes.
        rbps: u64 = Tunable::new(Unit::PerSecond, 1_000_000..=100_000_000_000, 174_019_176).logarithmic(),
        /// Sequential reads of 4 KiB.
        rseqiops: u64 = Tunable::new(Unit::PerSecond, RATE, 41_708).logarithmic(),
        /// Random reads of 4 KiB.
        rrandiops: u64 = Tunable::new(Unit::PerSecond, RATE, 370).logarithmic(),
        /// Sequential write throughput of the device in bytes.
        wbps: u64 = Tunable::new(Unit::PerSecond, 1_000_000..=100_000_000_000, 178_075_866).logarithmic(),
        /// Sequential writes of 4 KiB.
        wseqiops: u64 = Tunable::new(Unit::PerSecond, RATE, 42_705).logarithmic(),
        /// Random writes of 4 KiB.
        wrandiops: u64 = Tunable::new(Unit::PerSecond, RATE, 378).logarithmic(),
        /// Percentage of reads that should meet rlat. 0 ignores their latency.
        rpct: f64 = Tunable::new(Unit::Percent, 0..=100, 0),
        /// Latency target of reads at the device, without their transfer.
        rlat: Nanos = Tunable::new(Unit::Microseconds, 100..=10_000_000, 250_000).logarithmic(),
        /// Percentage of writes that should meet wlat. 0 ignores their latency.
        wpct: f64 = Tunable::new(Unit::Percent, 0..=100, 0),
        /// Latency target of writes at the device, without their transfer.
        wlat: Nanos = Tunable::new(Unit::Microseconds, 100..=10_000_000, 250_000).logarithmic(),
        /// The lowest rate of the clock.
        min: f64 = Tunable::new(Unit::Percent, 1..=10_000, 1).logarithmic(),
        /// The highest rate of the clock; at least min.
        max: f64 = Tunable::new(Unit::Percent, 1..=10_000, 10_000).logarithmic(),
    }
}

/// A request waits for its tenant's clock at most for so long after it is the next one.
const MOST: Nanos = Nanos::from_millis(10_000);

/// A host that sleeps asks again after so long at the latest.
const BACKSTOP: Nanos = Nanos::from_millis(30_000);

/// A tenant's clock, and what it uses of its weight.
struct Group {
    weight: u64,
    /// In 2^-16.
    in_use: u64,
    /// It counts among those who share the device.
    active: bool,
    at_device: u32,
    clock: u64,
    /// Where its last request ended.
    cursor: u64,
    /// What it used in this period, in nanoseconds of the model.
    used: u64,
    /// While something waits: what it stands under among those who wait.
    key: Option<u128>,
    /// The time by the device's clock from which its next request waits for nothing but the device.
    may_go_from: u64,
    /// Its next request waits for its limit, and not for its clock.
    limited: bool,
    /// Since when that is the next one.
    next_since: Nanos,
    throttle: Throttle,
}

struct IoCost {
    set: Tunables,
    model: Model,
    /// A lane for each tenant, under its number.
    queue: Queue,
    register: Register,
    groups: Vec<Group>,
    active: Vec<usize>,
    /// Of those who are active.
    in_use: u64,
    /// Those for whom something waits, by when it may go by the device's clock.
    due: SortedList,
    clock: Clock,
    /// When something last happened, for a new roster comes without a time, and the clock never runs backwards.
    now: Nanos,
}

impl IoCost {
    fn new(limits: &Limits, values: &[i64]) -> IoCost {
        let set = Tunables::of(values);
        IoCost {
            set,
            model: Model::new(&set),
            queue: Queue::new(*limits, Merging { front: true, within_stream: false }),
            register: Register::default(),
            groups: Vec::new(),
            active: Vec::new(),
            in_use: 0,
            due: SortedList::default(),
            clock: Clock::new(&set),
            now: Nanos::ZERO,
        }
    }

    /// A tenant has something to ask.
    fn activate(&mut self, now: Nanos, number: usize) {
        while self.groups.len() <= number {
            let newcomer = self.groups.len();
            self.groups.push(Group {
                weight: self.register.weight(newcomer),
                in_use: 0,
                active: false,
                at_device: 0,
                clock: 0,
                cursor: 0,
                used: 0,
                key: None,
                may_go_from: 0,
                limited: false,
                next_since: Nanos::ZERO,
                throttle: Throttle::of(self.register.tenant(newcomer)),
            });
        }
        let least = self.clock.at(now).saturating_sub(self.clock.margin());
        let group = &mut self.groups[number];
        if group.key.is_none() {
            // What it did not use in time is gone.
            group.clock = group.clock.max(least);
        }
        if !group.active {
            group.active = true;
            group.in_use = donation::whole(group.weight);
            self.in_use = self.in_use.saturating_add(group.in_use);
            self.active.push(number);
        }
    }

    /// What a request of a tenant costs it by the device's clock, and what it costs the device, in nanoseconds.
    fn cost(&self, number: usize, request: &Request) -> (u64, u64) {
        let group = &self.groups[number];
        let of_device = self.model.cost(request, group.cursor);
        let cost = u128::from(of_device) * u128::from(self.in_use) / u128::from(group.in_use.max(1));
        (u64::try_from(cost).unwrap_or(u64::MAX), of_device)
    }

    /// Sorts a tenant in by when its oldest request may go.
    fn settle(&mut self, now: Nanos, number: usize) {
        if let Some(key) = self.groups[number].key.take() {
            self.due.remove(key);
        }
        let Some(slot) = self.queue.oldest(number) else { return };
        let request = *self.queue.request(slot);
        let mut due = self.groups[number].clock.saturating_add(self.cost(number, &request).0);
        if due > self.clock.at(now) && self.groups[number].in_use < donation::whole(self.groups[number].weight) {
            // It needs what it gave away.
            self.take_back(number);
            due = self.groups[number].clock.saturating_add(self.cost(number, &request).0);
        }
        let passes_at = self.groups[number].throttle.passes_at();
        due = due.min(self.clock.at(self.groups[number].next_since + MOST));
        self.groups[number].limited = passes_at > now && due <= self.clock.at(passes_at);
        if passes_at > now {
            due = due.max(self.clock.at(passes_at));
        }
        let key = u128::from(due) << 32 | number as u128;
        self.groups[number].may_go_from = due.max(self.clock.at(now));
        self.groups[number].key = Some(key);
        self.due.insert(key, number as u32);
    }

    fn take_back(&mut self, number: usize) {
        let group = &mut self.groups[number];
        let whole = donation::whole(group.weight);
        self.in_use = self.in_use.saturating_sub(group.in_use).saturating_add(whole);
        group.in_use = whole;
    }

    fn go(&mut self, now: Nanos, number: usize) -> Option<Request> {
        let slot = self.queue.oldest(number)?;
        let request = self.queue.take(slot);
        let (cost, of_device) = self.cost(number, &request);
        let group = &mut self.groups[number];
        group.clock = group.clock.saturating_add(cost).min(self.clock.at(now + MOST));
        group.used = group.used.saturating_add(of_device);
        group.cursor = request.end();
        group.throttle.pass(now, &request);
        group.next_since = now;
        group.at_device += 1;
        self.clock.waited_for_device(now, group.may_go_from);
        self.settle(now, number);
        Some(request)
    }

    /// Ends a period if it is over: unused weight is given away, and the clock's speed set.
    fn end_period(&mut self, now: Nanos) {
        let Some(budget) = self.clock.end_period(now, &self.set) else { return };
        let groups = &mut self.groups;
        self.active.retain(|&number| {
            let group = &mut groups[number];
            group.active = group.used > 0 || group.key.is_some();
            group.active
        });
        self.in_use = donation::give_away(&mut self.groups, &self.active, budget);
        for index in 0..self.active.len() {
            let number = self.active[index];
            self.groups[number].used = 0;
            self.settle(now, number);
        }
    }
}

impl Scheduler for IoCost {
    fn insert(&mut self, now: Nanos, request: Request) -> Insertion {
        self.now = now;
        self.end_period(now);
        let number = self.register.number(&request);
        self.activate(now, number);
        let placed = self.queue.insert(number, Nanos::ZERO, request);
        if self.groups[number].key.is_none() {
            self.groups[number].next_since = now;
        }
        if self.groups[number].key.is_none() || self.queue.lane_len(number) == 1 {
            self.settle(now, number);
        }
        placed.into()
    }

    fn pick(&mut self, now: Nanos) -> Pick {
        self.now = now;
        if self.queue.is_empty() {
            return Pick::Empty;
        }
        self.end_period(now);
        while let Some((key, number)) = self.due.first() {
            let due = (key >> 32) as u64;
            let number = number as usize;
            if due <= self.clock.at(now) {
                match self.go(now, number) {
                    Some(request) => return Pick::Go(request),
                    None => continue,
                }
            }
            let limited = self.groups[number].throttle.passes_at();
            if limited <= now {
                self.clock.short_of_budget();
            }
            let until = self.clock.wake(now, due).max(limited);
            return Pick::WaitUntil(until.clamp(now + Nanos(1), now + BACKSTOP));
        }
        Pick::Empty
    }

    fn completed(&mut self, now: Nanos, request: &Request, service: Nanos) {
        self.now = now;
        let (target, index) = if request.op == Op::Read { (self.set.rlat, 0) } else { (self.set.wlat, 1) };
        let transfer = Nanos(self.model.transfer(request));
        self.clock.latency(index, service - transfer <= target);
        let number = self.register.number(request);
        if let Some(group) = self.groups.get_mut(number) {
            group.at_device = group.at_device.saturating_sub(1);
        }
    }

    fn tags(&self, room: &Room) -> Option<Tags> {
        Some(Tags { depth: room.nr_requests, wake_batch: wake_batch(room.nr_requests.div_ceil(2)) })
    }

    fn open_tags(&self, depth: u32, request: &Request) -> u32 {
        let Some(number) = self.register.find(request) else { return depth };
        let group = self.groups.get(number);
        let held = self.queue.lane_len(number) as u64 + group.map_or(0, |group| u64::from(group.at_device));
        let weight = self.register.weight(number);
        let others = if group.is_some_and(|group| group.active) { 0 } else { donation::whole(weight) };
        tags_open_to_tenant(depth, held, weight, donation::weights(self.in_use.saturating_add(others)))
    }

    fn retune(&mut self, values: &[i64]) {
        self.set = Tunables::of(values);
        self.model = Model::new(&self.set);
    }

    fn set_limits(&mut self, limits: &Limits) {
        self.queue.set_limits(limits);
    }

    fn set_roster(&mut self, roster: &Roster) {
        let reset = |this: &mut IoCost| {
            this.register = Register::new(roster);
            (this.groups, this.active, this.in_use) = (Vec::new(), Vec::new(), 0);
        };
        let now = self.now;
        let insert = |this: &mut IoCost, request| {
            this.insert(now, request);
        };
        sort_anew(self, self.queue.limits(), reset, insert);
    }

    fn drain(&mut self, out: &mut Vec<Request>) {
        self.queue.drain(out);
        for group in &mut self.groups {
            if let Some(key) = group.key.take() {
                self.due.remove(key);
            }
        }
    }
}
