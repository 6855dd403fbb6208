//! Virtual clocks: each tenant has a rate, and requests are dispatched in the order in which servers of those rates would complete them.
//!
//! A request is stamped on arrival with `clock = max(now, clock) + 1 / rate`, and the lowest stamp goes first. It is the baseline of the
//! `YouChoose` paper (figure 6c): the same number of requests for each tenant, regardless of their disk time. The clock of a tenant that used
//! idle capacity runs ahead of time, so the tenant is served less when the others return, as in Zhang's original.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{Insertion, Pick, Room, Scheduler, SchedulerSpec, Tags, resort};
use crate::queue::{Limits, Merging, Placed, Queue};
use crate::sorted::SortedList;
use crate::tag_shares::TagShares;
use crate::tenants::{Register, Roster};
use crate::{Nanos, Request, Tunable, Unit};

pub(super) static SPEC: SchedulerSpec = SchedulerSpec {
    name: "virtual-clock",
    summary: "each tenant has a rate of requests, and the one furthest behind it goes first",
    source: "Zhang, VirtualClock: a new traffic control algorithm for packet-switched networks, TOCS 9(2), 1991",
    tunables: Tunables::TUNABLES,
    work_conserving: true,
    starvation_bound: None,
    knowledge: None,
    build: |limits, values| Box::new(VirtualClock::new(*limits, Tunables::of(values), &Roster::default())),
};

crate::tunables! {
    /// The tunables of `virtual-clock`.
    #[derive(Clone, Copy)]
    struct Tunables {
        /// The rate of tenants that have no reservation of their own.
        iops: u64 = Tunable::new(Unit::PerSecond, 1..=1_000_000, 100).logarithmic(),
    }
}

/// One second in nanoseconds.
const SECOND: u64 = 1_000_000_000;

#[derive(Clone, Copy, Default)]
struct Flow {
    /// Stamp of the last dispatched request.
    clock: u64,
    /// Key of the first queued request, by its stamp; `None` if the tenant has none queued.
    head: Option<u128>,
}

struct VirtualClock {
    tuning: Tunables,
    register: Register,
    /// A lane for each tenant.
    queue: Queue,
    flows: Vec<Flow>,
    tag_shares: TagShares,
    /// Tenants with queued requests, by the stamp of the first.
    heads: SortedList,
    now: Nanos,
}

impl VirtualClock {
    fn new(limits: Limits, tuning: Tunables, roster: &Roster) -> VirtualClock {
        VirtualClock {
            tuning,
            register: Register::new(roster),
            queue: Queue::new(limits, Merging { front: true, within_stream: false }),
            flows: Vec::new(),
            tag_shares: TagShares::default(),
            heads: SortedList::default(),
            now: Nanos::ZERO,
        }
    }

    /// Interval between requests of a tenant at its rate, in nanoseconds.
    fn tick(&self, number: usize) -> u64 {
        let reserved = self.register.tenant(number).and_then(|tenant| tenant.rates.reservation.iops);
        SECOND / reserved.map_or(self.tuning.iops, |iops| iops.get()).max(1)
    }

    /// Updates a tenant's key from the stamp of its first request. Later stamps follow from it, so only one is kept.
    fn update_head(&mut self, number: usize) {
        let oldest = self.queue.oldest(number).map(|slot| self.queue.request(slot).arrival);
        let tick = self.tick(number);
        let flow = &mut self.flows[number];
        let stamp = oldest.map(|arrival| arrival.0.max(flow.clock).saturating_add(tick));
        let head = stamp.map(|stamp| u128::from(stamp) << 64 | number as u128);
        if head != flow.head {
            flow.head.inspect(|&head| self.heads.remove(head));
            head.inspect(|&head| self.heads.insert(head, number as u32));
            flow.head = head;
        }
    }
}

impl Scheduler for VirtualClock {
    fn insert(&mut self, now: Nanos, request: Request) -> Insertion {
        self.now = now;
        let number = self.register.number(&request);
        if self.flows.len() <= number {
            self.flows.resize(number + 1, Flow::default());
        }
        let placed = self.queue.insert(number, Nanos::ZERO, request);
        self.tag_shares.inserted(number, &self.register, &placed);
        // A merge into a queued request changes no stamp, unless it absorbed the oldest request and inherited its age.
        if !matches!(placed, Placed::Merged { absorbed: None, .. }) {
            self.update_head(number);
        }
        placed.into()
    }

    fn pick(&mut self, now: Nanos) -> Pick {
        self.now = now;
        let Some((stamp, number)) = self.heads.first() else { return Pick::Empty };
        let number = number as usize;
        let Some(oldest) = self.queue.oldest(number) else { return Pick::Empty };
        let request = self.queue.take(oldest);
        self.flows[number].clock = (stamp >> 64) as u64;
        self.update_head(number);
        Pick::Go(request)
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

    fn retune(&mut self, values: &[i64]) {
        self.tuning = Tunables::of(values);
        (0..self.flows.len()).for_each(|number| self.update_head(number));
    }

    fn set_limits(&mut self, limits: &Limits) {
        self.queue.set_limits(limits);
    }

    fn set_roster(&mut self, roster: &Roster) {
        let (now, limits) = (self.now, self.queue.limits());
        let insert = |this: &mut VirtualClock, request| {
            this.insert(now, request);
        };
        resort(self, limits, |this| *this = VirtualClock::new(limits, this.tuning, roster), insert);
    }

    fn drain(&mut self, out: &mut Vec<Request>) {
        let first = out.len();
        self.queue.drain(out);
        self.tag_shares.drained(&mut self.register, &out[first..]);
        (0..self.flows.len()).for_each(|number| self.update_head(number));
    }
}
