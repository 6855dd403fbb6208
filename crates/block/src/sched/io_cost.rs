//! Shares of a device by weight and a cost model, and limits: Linux's `io.cost` and `io.max`.
//!
//! ```text
//! a  ==========|cost|                     a request may be dispatched when its tenant's clock plus its cost is behind the device's clock
//! b  ================|    cost    |       cost: by the model, times all weights in use, divided by the tenant's
//! ```
//! A tenant that uses less than its weight donates the rest at the end of each period, and takes it back when it needs it. The clock is
//! slowed down when requests miss their latency target or wait for the device, and sped up when neither happens but requests wait for the
//! clock. So the device is sometimes idle although requests wait.
//!
//! Simplifications: a flat hierarchy of cgroups; a request is charged on dispatch, not each bio on arrival; no asynchronous request is
//! dispatched on credit and charged to its process as a delay, so there is no debt to forgive; waits for a tag are measured as the time
//! that an eligible request waits for room at the device; requests that span periods do not prevent a speed-up; the model does not depend
//! on the device type (`ioc_refresh_params`), its defaults are those of hard disks. A request is held for at most [`MAX_WAIT`], whatever
//! its cost. Limits are those of the tenant's [`Rates`](crate::Rates): a large request counts as several operations, and waits only for its
//! predecessors, while `block/blk-throttle.c` grants an allowance for a slice of 100 ms; a read behind a write waits for it.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{Insertion, Pick, Room, Scheduler, SchedulerSpec, Tags, resort, tags_open_to_tenant, wake_batch};
use crate::queue::{Limits, Merging, Queue};
use crate::rates::Limiter;
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
    starvation_bound: None,
    knowledge: None,
    build: |limits, values| Box::new(IoCost::new(limits, values)),
};

const RATE: core::ops::RangeInclusive<i64> = 1..=10_000_000;

tunables! {
    /// The tunables.
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
        rpct: f64 = Tunable::new(Unit::PercentHundredths, 0..=10_000, 0),
        /// Latency target of reads at the device, without their transfer.
        rlat: Nanos = Tunable::new(Unit::Microseconds, 100..=10_000_000, 250_000).logarithmic(),
        /// Percentage of writes that should meet wlat. 0 ignores their latency.
        wpct: f64 = Tunable::new(Unit::PercentHundredths, 0..=10_000, 0),
        /// Latency target of writes at the device, without their transfer.
        wlat: Nanos = Tunable::new(Unit::Microseconds, 100..=10_000_000, 250_000).logarithmic(),
        /// The lowest rate of the clock.
        min: f64 = Tunable::new(Unit::PercentHundredths, 100..=1_000_000, 100).logarithmic(),
        /// The highest rate of the clock; at least min.
        max: f64 = Tunable::new(Unit::PercentHundredths, 100..=1_000_000, 1_000_000).logarithmic(),
    }
}

/// Maximum time for which a tenant's next request waits for its clock.
const MAX_WAIT: Nanos = Nanos::from_millis(10_000);

/// Maximum sleep time requested from a host.
const BACKSTOP: Nanos = Nanos::from_millis(30_000);

/// A tenant: its clock, and the part of its weight in use.
struct Group {
    weight: u64,
    /// Weight in use, with 16 fraction bits.
    in_use: u64,
    /// Whether it counts among the tenants that share the device.
    active: bool,
    at_device: u32,
    clock: u64,
    /// End of its last request.
    cursor: u64,
    /// Use in this period, in nanoseconds by the model.
    used: u64,
    /// Its key in `due`; `None` if none of its requests are queued.
    key: Option<u128>,
    /// Reading of the device's clock from which its next request waits only for room at the device.
    may_go_from: u64,
    /// Whether its next request waits for its limit, not for its clock.
    limited: bool,
    /// Time since which that request has been the next one.
    next_since: Nanos,
    limiter: Option<Limiter>,
}

impl Group {
    /// Time at which its limits allow this request; `now` if they already do.
    fn allowed_at(&self, now: Nanos, request: &Request) -> Nanos {
        self.limiter.as_ref().map_or(now, |limiter| limiter.ready_at(now, request))
    }
}

struct IoCost {
    set: Tunables,
    model: Model,
    /// A lane for each tenant, with its number.
    queue: Queue,
    register: Register,
    groups: Vec<Group>,
    active: Vec<usize>,
    /// Sum of the weights in use of the active tenants.
    in_use: u64,
    /// Tenants with queued requests, by the reading of the device's clock at which their first may be dispatched.
    due: SortedList,
    clock: Clock,
    /// Time of the last event, as a new roster is set without a time, and the clock never runs backwards.
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

    /// Registers that a tenant has a request, which makes it active.
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
                limiter: self.register.tenant(newcomer).and_then(|tenant| Limiter::new(&tenant.rates)),
            });
        }
        let least = self.clock.at(now).saturating_sub(self.clock.margin());
        let group = &mut self.groups[number];
        if group.key.is_none() {
            // Budget that it did not use in time is lost.
            group.clock = group.clock.max(least);
        }
        if !group.active {
            group.active = true;
            group.in_use = donation::whole(group.weight);
            self.in_use = self.in_use.saturating_add(group.in_use);
            self.active.push(number);
        }
    }

    /// The cost of a tenant's request on its own clock, and its cost for the device, both in nanoseconds.
    fn cost(&self, number: usize, request: &Request) -> (u64, u64) {
        let group = &self.groups[number];
        let of_device = self.model.cost(request, group.cursor);
        let cost = u128::from(of_device) * u128::from(self.in_use) / u128::from(group.in_use.max(1));
        (u64::try_from(cost).unwrap_or(u64::MAX), of_device)
    }

    /// Sorts a tenant by the time at which its oldest request may be dispatched.
    fn settle(&mut self, now: Nanos, number: usize) {
        if let Some(key) = self.groups[number].key.take() {
            self.due.remove(key);
        }
        let Some(slot) = self.queue.oldest(number) else { return };
        let request = *self.queue.request(slot);
        let mut due = self.groups[number].clock.saturating_add(self.cost(number, &request).0);
        if due > self.clock.at(now) && self.groups[number].in_use < donation::whole(self.groups[number].weight) {
            // It needs back the weight it donated.
            self.take_back(number);
            due = self.groups[number].clock.saturating_add(self.cost(number, &request).0);
        }
        let allowed_at = self.groups[number].allowed_at(now, &request);
        due = due.min(self.clock.at(self.groups[number].next_since + MAX_WAIT));
        self.groups[number].limited = allowed_at > now && due <= self.clock.at(allowed_at);
        if allowed_at > now {
            due = due.max(self.clock.at(allowed_at));
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
        group.clock = group.clock.saturating_add(cost).min(self.clock.at(now + MAX_WAIT));
        group.used = group.used.saturating_add(of_device);
        group.cursor = request.end();
        if let Some(limiter) = &mut group.limiter {
            limiter.charge(now, &request);
        }
        group.next_since = now;
        group.at_device += 1;
        self.clock.waited_for_device(now, group.may_go_from);
        self.settle(now, number);
        Some(request)
    }

    /// Ends a period if it is over: donates unused weight, and sets the clock's speed.
    fn end_period(&mut self, now: Nanos) {
        let Some(budget) = self.clock.end_period(now, &self.set) else { return };
        let groups = &mut self.groups;
        self.active.retain(|&number| {
            let group = &mut groups[number];
            group.active = group.used > 0 || group.key.is_some();
            group.active
        });
        self.in_use = donation::donate(&mut self.groups, &self.active, budget);
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
            let Some(slot) = self.queue.oldest(number) else { return Pick::Empty };
            let limited = self.groups[number].allowed_at(now, self.queue.request(slot));
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
        resort(self, self.queue.limits(), reset, insert);
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
