//! Virtual clocks: each tenant has a rate, and requests leave in the order in which a line of that rate would have carried them.
//!
//! Arrivals stamp themselves: `clock = max(now, clock) + 1 / rate`, and the lowest stamp goes first. It is the baseline of the
//! `YouChoose` paper (figure 6c): as many requests for each tenant, whatever they cost the disk. Who used what others left has a
//! clock ahead of the time and pays for it when they come back, as in Zhang's original.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{Insertion, Pick, Room, Scheduler, SchedulerSpec, Tags, sort_anew};
use crate::holders::Holders;
use crate::queue::{Limits, Merging, Placed, Queue};
use crate::sorted::SortedList;
use crate::tenants::{Register, Roster};
use crate::{Nanos, Request, Tunable, Unit};

pub(super) static SPEC: SchedulerSpec = SchedulerSpec {
    name: "virtual-clock",
    summary: "each tenant has a rate of requests, and whoever is furthest behind it goes first",
    source: "Zhang, VirtualClock: a new traffic control algorithm for packet-switched networks, TOCS 9(2), 1991",
    tunables: Tunables::TUNABLES,
    work_conserving: true,
    patience: None,
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

/// A second.
const SECOND: u64 = 1_000_000_000;

#[derive(Clone, Copy, Default)]
struct Flow {
    /// The stamp of the last request that left.
    clock: u64,
    /// Of the first that waits, and the key under which it waits for its turn.
    head: Option<u128>,
}

struct VirtualClock {
    tuning: Tunables,
    register: Register,
    /// A lane for each tenant.
    queue: Queue,
    flows: Vec<Flow>,
    holders: Holders,
    /// Tenants with requests, by the stamp of the first.
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
            holders: Holders::default(),
            heads: SortedList::default(),
            now: Nanos::ZERO,
        }
    }

    /// Time between two requests of a tenant at its rate.
    fn tick(&self, number: usize) -> u64 {
        let reserved = self.register.tenant(number).and_then(|tenant| tenant.reservation_iops);
        SECOND / reserved.map_or(self.tuning.iops, |iops| iops.get()).max(1)
    }

    /// Takes a tenant to its place by the stamp of its first request. Stamps of those behind follow from it, so that no other is kept.
    fn line_up(&mut self, number: usize) {
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
        self.holders.comes(number, &self.register, &placed);
        // What joined a waiting request changes no stamp, unless the oldest was swallowed and left its age to another.
        if !matches!(placed, Placed::Merged { absorbed: None, .. }) {
            self.line_up(number);
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
        self.line_up(number);
        Pick::Go(request)
    }

    fn completed(&mut self, _now: Nanos, request: &Request, _service: Nanos) {
        let number = self.register.number(request);
        self.holders.leaves(number, &self.register);
    }

    fn tags(&self, room: &Room) -> Option<Tags> {
        Some(Holders::tags(room))
    }

    fn open_tags(&self, depth: u32, request: &Request) -> u32 {
        self.holders.open_tags(depth, &self.register, request)
    }

    fn retune(&mut self, values: &[i64]) {
        self.tuning = Tunables::of(values);
        (0..self.flows.len()).for_each(|number| self.line_up(number));
    }

    fn set_limits(&mut self, limits: &Limits) {
        self.queue.set_limits(limits);
    }

    fn set_roster(&mut self, roster: &Roster) {
        let (now, limits) = (self.now, self.queue.limits());
        let insert = |this: &mut VirtualClock, request| {
            this.insert(now, request);
        };
        sort_anew(self, limits, |this| *this = VirtualClock::new(limits, this.tuning, roster), insert);
    }

    fn drain(&mut self, out: &mut Vec<Request>) {
        let first = out.len();
        self.queue.drain(out);
        self.holders.drained(&mut self.register, &out[first..]);
        (0..self.flows.len()).for_each(|number| self.line_up(number));
    }
}
