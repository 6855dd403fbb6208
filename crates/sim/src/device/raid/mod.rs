//! An array: one device over several of any kind, arrays included.
//!
//! ```text
//!            submit                                                        advance
//!  host ───────┬───────────────────────────────────────────────────────────────▲──────
//!              ▼                                                               │ when its last access is done
//!      [ operation ] ──▶ [ lock its sectors ] ──▶ [ plan: reads, then writes ] ┘
//!                         (redundant levels)            │ accesses, one for each stretch of a member
//!      [ rebuild ] ──────────▲                          ▼
//!                                   [ member: queue, first come first served ] ──▶ Device
//! ```
//!
//! Each level is a [`Level`] in a file of its own. Layouts and choices follow Linux's md driver ([`layout`], `rebuild`,
//! `Raid::choose`). Not modelled: md's stripe cache, which lets it gather small writes of several requests into one stripe; its
//! bitmap and journal; the merging of different requests on a member's queue (accesses of one request that touch become one here).
//!
//! `operation.rs` carries a request from stage to stage, `members.rs` queues its accesses, `failure.rs` loses a member and rebuilds it.
//!
//! A discard goes to the members like a write, but RAID 5 passes on only whole stripes, like md: discarded sectors read as zeros, and
//! the parity of zeros is zero.
//!
//! A flush goes to all members and completes when all have completed it, as in md (`submit_flushes` in `drivers/md/md.c`).
//!
//! Of two unequal members both count as the smaller one. One member may fail, at the start or at a given time. Its accesses in flight
//! are repeated on the others; from then on its data are reconstructed, until a spare is complete.
//!
//! A request's arm movements in [`Completion`] are those of the member access that ended last, on which it waited: their sum could
//! exceed the response time. It is a cache hit if all its accesses were. [`Device::busy`] is the time during which at least one member
//! had work, for the host, for the rebuild or to empty its write cache.

mod failure;
mod flush;
pub mod layout;
mod locks;
mod members;
mod operation;
mod raid0;
mod raid1;
mod raid10;
mod raid5;
mod rebuild;
pub mod spec;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use block::{Nanos, Op, Request, RequestId};
use slab::Slab;

pub use self::failure::{MemberFailure, REBUILD_STREAM};
use self::flush::ArrayFlush;
use self::layout::{ArrayLayout, Level};
use self::locks::Locks;
use self::members::{Access, Member};
use self::operation::Operation;
use self::rebuild::Rebuild;
pub use self::rebuild::RebuildRate;
use super::busy::BusyTime;
use super::{Completion, Device, FlashTally};

/// All levels, one file each.
pub static LEVELS: &[&dyn Level] = &[&raid0::Raid0, &raid1::Raid1, &raid5::Raid5, &raid10::Raid10];

const NEVER: u64 = u64::MAX;

/// Wake-up times of the members, [`NEVER`] for one that has none.
struct Wakes {
    /// In one vector, because all are checked each time.
    by_member: Vec<u64>,
    /// The earliest of them, and the earliest including the array's own events, as of the last [`settle`](Wakes::settle).
    next: u64,
    next_event: u64,
}

impl Wakes {
    fn new(members: usize) -> Wakes {
        Wakes { by_member: vec![NEVER; members], next: NEVER, next_event: NEVER }
    }

    fn set(&mut self, member: usize, at: Option<Nanos>) {
        self.by_member[member] = at.map_or(NEVER, |at| at.0);
    }

    /// Updates the earliest events; `own` is that of the array itself.
    fn settle(&mut self, own: u64) {
        self.next = self.by_member.iter().copied().min().unwrap_or(NEVER);
        self.next_event = self.next.min(own);
    }
}

/// The failure of a member, and the rebuild of its data.
struct Redundancy {
    /// The failure to come.
    failure: Option<MemberFailure>,
    failed: Option<usize>,
    spare: Option<Box<dyn Device>>,
    rebuild: Option<Rebuild>,
    rate: RebuildRate,
}

impl Redundancy {
    /// The time of the next event; [`NEVER`] if there is none.
    fn next_event(&self, is_busy: bool) -> u64 {
        let failure = self.failure.map_or(NEVER, |failure| failure.at.0);
        let rebuild = self.rebuild.as_ref().map_or(NEVER, |rebuild| rebuild.due(is_busy));
        failure.min(rebuild)
    }

    /// The sector up to which all members hold valid data, of `sectors`.
    fn whole(&self, sectors: u64) -> u64 {
        let whole = if self.failed.is_some() { 0 } else { sectors };
        self.rebuild.as_ref().map_or(whole, Rebuild::whole)
    }
}

/// The state of an array.
pub struct Raid {
    layout: ArrayLayout,
    depth: usize,
    members: Vec<Member>,
    wakes: Wakes,
    /// Whether reads go to the shortest queue; otherwise to the nearest arm.
    by_queue: bool,
    operations: Slab<Operation>,
    accesses: Slab<Access>,
    flushes: Slab<ArrayFlush>,
    locks: Locks,
    /// Operations that have received their lock.
    granted: VecDeque<u32>,
    /// Number of host requests that are not completed.
    outstanding: usize,
    /// Completions of members, and completions not yet reported to the host.
    arrived: Vec<Completion>,
    ready: Vec<Completion>,
    redundancy: Redundancy,
    busy: BusyTime,
}

impl Raid {
    /// An array at rest, complete unless `failure` removes a member from the start. `members` must match the layout; no member, nor the
    /// spare, may be smaller than it requires. A failure needs a level that survives it. `depth` is the maximum number of host requests
    /// at once; by default the sum of the members' depths.
    pub fn new(
        layout: ArrayLayout,
        members: Vec<Box<dyn Device>>,
        depth: Option<u32>,
        failure: Option<MemberFailure>,
        spare: Option<Box<dyn Device>>,
        rate: RebuildRate,
    ) -> Raid {
        debug_assert_eq!(members.len(), layout.members);
        let together = members.iter().fold(0usize, |sum, member| sum.saturating_add(member.queue_depth()));
        let mut raid = Raid {
            layout,
            depth: depth.map_or(together, |depth| depth.max(1) as usize),
            wakes: Wakes::new(members.len()),
            by_queue: members.iter().any(|member| member.flash().is_some()),
            members: members.into_iter().map(Member::new).collect(),
            operations: Slab::new(),
            accesses: Slab::new(),
            flushes: Slab::new(),
            locks: Locks::default(),
            granted: VecDeque::new(),
            outstanding: 0,
            arrived: Vec::new(),
            ready: Vec::new(),
            redundancy: Redundancy {
                failure: failure.filter(|failure| layout.level.survives_failure() && failure.member < layout.members),
                failed: None,
                spare,
                rebuild: None,
                rate,
            },
            busy: BusyTime::default(),
        };
        if raid.redundancy.failure.is_some_and(|failure| failure.at == Nanos::ZERO) {
            raid.fail(0);
        }
        raid.settle();
        raid
    }

    /// Busy time of each member; a spare takes the place of its failed member.
    pub fn member_busy(&self) -> impl Iterator<Item = Nanos> {
        self.members.iter().map(|member| member.device.busy())
    }

    /// The sector up to which all members hold valid data: the end, or the progress of the rebuild.
    pub fn whole(&self) -> u64 {
        self.redundancy.whole(self.layout.rows * self.layout.unit)
    }

    /// Counts the time since the last call as busy if there was work. Call it before processing the events of `now`.
    fn account(&mut self, now: u64) {
        self.busy.account(now, self.wakes.next != NEVER || self.outstanding > 0);
    }

    /// Updates the time of the next event.
    fn settle(&mut self) {
        self.wakes.settle(self.redundancy.next_event(self.outstanding > 0));
    }

    /// Processes all events up to `now`.
    fn catch_up(&mut self, now: u64) {
        while self.wakes.next_event <= now && self.wakes.next_event != NEVER {
            self.step(self.wakes.next_event);
        }
    }

    /// Processes the events of `now`.
    fn step(&mut self, now: u64) {
        self.account(now);
        let mut arrived = std::mem::take(&mut self.arrived);
        // All members reach this time before any of them gets further accesses.
        if self.wakes.next <= now {
            for (member, wake) in self.members.iter_mut().zip(&mut self.wakes.by_member).filter(|(_, wake)| **wake <= now) {
                member.device.advance(Nanos(now), &mut arrived);
                *wake = member.device.wake_at().map_or(NEVER, |at| at.0);
            }
        }
        for completion in arrived.drain(..) {
            self.access_done(now, &completion);
        }
        self.arrived = arrived;
        if self.redundancy.failure.is_some_and(|failure| failure.at.0 <= now) {
            self.fail(now);
        }
        self.begin_piece(now);
        self.settle();
    }

    /// Queues a completion for the host.
    fn report(&mut self, completion: Completion) {
        let now = completion.at.0;
        self.ready.push(completion);
        self.outstanding -= 1;
        if let Some(rebuild) = self.redundancy.rebuild.as_mut().filter(|_| self.outstanding == 0) {
            rebuild.host_idle(now);
        }
    }
}

impl Device for Raid {
    fn capacity_sectors(&self) -> u64 {
        self.layout.capacity()
    }

    fn queue_depth(&self) -> usize {
        self.depth
    }

    fn is_rotational(&self) -> bool {
        self.members.iter().any(|member| member.device.is_rotational())
    }

    fn has_write_cache(&self) -> bool {
        self.members.iter().any(|member| member.device.has_write_cache())
    }

    fn submit(&mut self, now: Nanos, request: &Request) {
        // A rebuild does not set the wake-up time while the array has no host request.
        self.catch_up(now.0);
        self.account(now.0);
        // Sectors beyond the end are a caller's error, and are cut off.
        let capacity = self.layout.capacity();
        let at = request.lba.min(capacity - 1);
        let end = request.end().clamp(at + 1, capacity);
        self.begin_request(now.0, request, at, end);
        self.settle();
    }

    /// Considers only the first stripe unit: the earliest of its copies for a read, the latest for a write. Data to be reconstructed
    /// count as zero, and so do requests waiting in the array.
    fn time_to_reach(&mut self, now: Nanos, request: &Request) -> Option<Nanos> {
        let (layout, failed) = (self.layout, self.redundancy.failed);
        let at = request.lba.min(layout.capacity() - 1);
        let (unit, offset) = (at / layout.unit, at % layout.unit);
        let (mut least, mut most) = (None::<Nanos>, Some(Nanos::ZERO));
        layout.level.places_of(&layout, unit, &mut |number, row| {
            if failed == Some(number) {
                return;
            }
            let lba = row * layout.unit + offset;
            let time = self.members[number].device.time_to_reach(now, &Request { lba, ..*request });
            least = least.map_or(time, |least| time.map(|time| least.min(time)));
            most = most.zip(time).map(|(most, time)| most.max(time));
        });
        if request.op == Op::Read { least.or(most) } else { most }
    }

    fn flush(&mut self, now: Nanos, id: RequestId) -> bool {
        self.catch_up(now.0);
        self.account(now.0);
        let waits = self.flush_members(now, id);
        self.settle();
        waits
    }

    fn wake_at(&self) -> Option<Nanos> {
        if let Some(completion) = self.ready.first() {
            return Some(completion.at);
        }
        let at = match (self.outstanding, &self.redundancy.rebuild) {
            // Members may still be emptying their write caches. A rebuild or a failure needs no wake-up: no request waits for it.
            (0, None) => self.wakes.next,
            (0, Some(_)) => NEVER,
            _ => self.wakes.next_event,
        };
        (at != NEVER).then_some(Nanos(at))
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        self.catch_up(now.0);
        self.account(now.0);
        done.append(&mut self.ready);
    }

    fn busy(&self) -> Nanos {
        Nanos(self.busy.total())
    }

    /// The sum over all members; `None` if their page sizes differ.
    fn flash(&self) -> Option<FlashTally> {
        FlashTally::sum(self.members.iter().filter_map(|member| member.device.flash()))
    }
}
