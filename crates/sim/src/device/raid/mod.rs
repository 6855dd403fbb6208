//! An array: one device over several, of whatever kind, arrays included.
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
//! Layouts and choices follow Linux's md driver ([`layout`], [`rebuild`], [`Raid::choose`]). What md has and this has not: a stripe
//! cache, which lets it gather small writes of several requests into one stripe; a bitmap or journal; the merging of different requests
//! on a member's queue (those of one request that touch are one access here).
//!
//! A discard goes to the members as a write does, but a RAID 5 passes on only whole stripes, as md does: discarded sectors read as
//! zeros, and the parity of zeros is zero.
//!
//! A flush goes to all members and is done when all have done it, as md does (`submit_flushes` in `drivers/md/md.c`).
//!
//! Two unequal members count as two of the smaller one. One member may fail, from the start or at a time. What it was doing is
//! repeated on the others; from then on it is reconstructed, until a spare holds everything.
//!
//! A request's arm movements in [`Completion`] are those of the member access that ended last, the one it waited for: summed up, they
//! would not fit into its response time. It is a cache hit if all its accesses were. [`Device::busy`] is the time during which at
//! least one member had work, for the host, for the rebuild or to empty its write cache.

pub mod layout;
mod locks;
pub mod profile;
mod rebuild;
pub mod spec;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use block::list::{Linked, Links, List};
use block::{Nanos, Op, Priority, Request, RequestId, StreamId};
use slab::Slab;

use self::layout::{Layout, Level, Stripe};
use self::locks::Locks;
pub use self::rebuild::Rate;
use self::rebuild::Rebuild;
use super::ssd::FlashTally;
use super::{Completion, Device};

const NEVER: u64 = u64::MAX;

/// Stripes that an operation works on at once; it bounds the memory that a huge request takes.
const STRIPES_AT_ONCE: u64 = 256;

/// The stream in whose name a rebuild reads and writes its members.
pub const REBUILD_STREAM: StreamId = StreamId::MAX;

/// What happens to an array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failure {
    /// The member that fails, from 0.
    pub member: usize,
    /// When; 0: before the first request.
    pub at: Nanos,
}

/// How far an operation has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It chooses the stripes that it works on next, and locks them.
    Admit,
    /// It may read.
    Read,
    /// It may write.
    Write,
    /// All accesses are done.
    End,
}

/// A request of the host, or a piece of the rebuild.
#[derive(Clone, Copy, Debug)]
struct Operation {
    id: RequestId,
    stream: StreamId,
    priority: Priority,
    sync: bool,
    op: Op,
    rebuild: bool,
    stage: Stage,
    /// It has its sectors to itself.
    locked: bool,
    /// Something that it was to read went with a member.
    lost: bool,
    /// Accesses that are not done.
    open: u32,
    /// What it works on now, from and to, and the end of all. In sectors of the array, of a rebuild in those of a member.
    at: u64,
    until: u64,
    end: u64,
    hit: bool,
    seek: Nanos,
    rotation: Nanos,
    seek_cylinders: u32,
}

/// An access to a member.
#[derive(Clone, Copy, Debug)]
struct Access {
    operation: u32,
    member: u32,
    /// Its neighbours in its member's queue.
    links: Links,
    sectors: u32,
    op: Op,
    lba: u64,
}

impl Linked for Access {
    fn links(&self) -> &Links {
        &self.links
    }

    fn links_mut(&mut self) -> &mut Links {
        &mut self.links
    }
}

/// A flush that members have not all done: a bit for each that has not.
#[derive(Clone, Copy, Debug)]
struct Flush {
    id: RequestId,
    members: u64,
}

/// Marks the ids of flushes at members; below it the flush's place and, in the last bits, the member.
const FLUSH: RequestId = 1 << 31;
const FLUSH_MEMBER_BITS: u32 = 6;

/// A device of the array and what waits for it.
struct Member {
    device: Box<dyn Device>,
    depth: u32,
    at_device: u32,
    /// At the device or waiting for it.
    pending: u32,
    waiting: List,
    /// Behind the last sector it was sent to, and behind the last it was to read.
    head: u64,
    read_end: u64,
    /// The stretch that is being put together, empty if its end is its beginning.
    stretch: (u64, u64),
}

impl Member {
    fn new(device: Box<dyn Device>) -> Member {
        let depth = u32::try_from(device.queue_depth()).unwrap_or(u32::MAX).max(1);
        let waiting = List::new();
        Member { device, depth, at_device: 0, pending: 0, waiting, head: 0, read_end: NEVER, stretch: (0, 0) }
    }
}

/// An array at work.
pub struct Raid {
    layout: Layout,
    depth: usize,
    members: Vec<Member>,
    /// When each member wants to be called, [`NEVER`] if not; together, because all are looked at each time.
    wakes: Vec<u64>,
    /// The earliest of them, and that or something of the array's own.
    next_wake: u64,
    next_event: u64,
    /// Reads go where the queue is shortest, not where the arm is nearest.
    by_queue: bool,
    operations: Slab<Operation>,
    accesses: Slab<Access>,
    flushes: Slab<Flush>,
    locks: Locks,
    /// Operations that got their lock.
    granted: VecDeque<u32>,
    /// Requests of the host that are not done.
    outstanding: usize,
    /// What members completed; what the host has not heard yet.
    arrived: Vec<Completion>,
    ready: Vec<Completion>,
    failure: Option<Failure>,
    failed: Option<usize>,
    spare: Option<Box<dyn Device>>,
    rebuild: Option<Rebuild>,
    rate: Rate,
    busy: u64,
    busy_until: u64,
}

impl Raid {
    /// An array at rest, whole unless `failure` says that a member is gone from the start. `members` must be as many as the layout
    /// says, and none smaller, nor the spare; a failure needs a level that survives it. `depth` is the number of requests the host may
    /// give it at once; if not said, what the members take together.
    pub fn new(
        layout: Layout,
        members: Vec<Box<dyn Device>>,
        depth: Option<u32>,
        failure: Option<Failure>,
        spare: Option<Box<dyn Device>>,
        rate: Rate,
    ) -> Raid {
        debug_assert_eq!(members.len(), layout.members);
        let together = members.iter().fold(0usize, |sum, member| sum.saturating_add(member.queue_depth()));
        let mut raid = Raid {
            layout,
            depth: depth.map_or(together, |depth| depth.max(1) as usize),
            wakes: vec![NEVER; members.len()],
            next_wake: NEVER,
            next_event: NEVER,
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
            failure: failure.filter(|failure| layout.level != Level::Raid0 && failure.member < layout.members),
            failed: None,
            spare,
            rebuild: None,
            rate,
            busy: 0,
            busy_until: 0,
        };
        if raid.failure.is_some_and(|failure| failure.at == Nanos::ZERO) {
            raid.fail(0);
        }
        raid.settle();
        raid
    }

    /// How long each member has been at work; a failed one's place is its spare's.
    pub fn member_busy(&self) -> impl Iterator<Item = Nanos> {
        self.members.iter().map(|member| member.device.busy())
    }

    /// Up to which sector all members hold everything: the end, or as far as the spare of a failed one is filled.
    pub fn whole(&self) -> u64 {
        let whole = if self.failed.is_some() { 0 } else { self.layout.rows * self.layout.unit };
        self.rebuild.as_ref().map_or(whole, Rebuild::whole)
    }

    /// The member that cannot be read up to sector `end`.
    fn unreadable(&self, end: u64) -> Option<usize> {
        self.failed.filter(|_| end > self.whole())
    }

    /// The member that need not be written from sector `first` on. Where a spare is filled in part, it takes all of a write: the rest is
    /// rebuilt later all the same.
    fn unwritten(&self, first: u64) -> Option<usize> {
        self.failed.filter(|_| first >= self.whole())
    }

    /// Counts the time since the last call as busy if there was something to do. Whatever happens at `now` comes after.
    fn account(&mut self, now: u64) {
        if now > self.busy_until {
            if self.next_wake != NEVER || self.outstanding > 0 {
                self.busy += now - self.busy_until;
            }
            self.busy_until = now;
        }
    }

    /// Finds out what happens next.
    fn settle(&mut self) {
        self.next_wake = self.wakes.iter().copied().min().unwrap_or(NEVER);
        let failure = self.failure.map_or(NEVER, |failure| failure.at.0);
        let rebuild = self.rebuild.as_ref().map_or(NEVER, |rebuild| rebuild.due(self.outstanding > 0));
        self.next_event = self.next_wake.min(failure).min(rebuild);
    }

    /// Lets everything happen up to `now`.
    fn catch_up(&mut self, now: u64) {
        while self.next_event <= now && self.next_event != NEVER {
            self.step(self.next_event);
        }
    }

    /// Lets happen what happens at `now`.
    fn step(&mut self, now: u64) {
        self.account(now);
        let mut arrived = std::mem::take(&mut self.arrived);
        // All members reach this instant before any of them is given more.
        if self.next_wake <= now {
            for (member, wake) in self.members.iter_mut().zip(&mut self.wakes).filter(|(_, wake)| **wake <= now) {
                member.device.advance(Nanos(now), &mut arrived);
                *wake = member.device.wake_at().map_or(NEVER, |at| at.0);
            }
        }
        for completion in arrived.drain(..) {
            self.access_done(now, &completion);
        }
        self.arrived = arrived;
        if self.failure.is_some_and(|failure| failure.at.0 <= now) {
            self.fail(now);
        }
        self.begin_piece(now);
        self.settle();
    }

    /// A member has done what it was asked.
    fn access_done(&mut self, now: u64, completion: &Completion) {
        if completion.id & FLUSH != 0 {
            let key = completion.id & !FLUSH;
            return self.member_flushed(now, key >> FLUSH_MEMBER_BITS, 1 << (key & ((1 << FLUSH_MEMBER_BITS) - 1)));
        }
        let access = self.accesses.remove(completion.id as usize);
        let member = &mut self.members[access.member as usize];
        member.at_device -= 1;
        member.pending -= 1;
        if let Some(next) = member.waiting.pop_front(&mut self.accesses) {
            self.start(now, next);
        }
        let operation = &mut self.operations[access.operation as usize];
        operation.open -= 1;
        operation.hit &= completion.cache_hit;
        (operation.seek, operation.rotation) = (completion.seek, completion.rotation);
        operation.seek_cylinders = completion.seek_cylinders;
        if operation.open == 0 {
            self.proceed(now, access.operation);
        }
    }

    /// A member, by its bit, has done a flush, or is gone.
    fn member_flushed(&mut self, now: u64, index: u32, member: u64) {
        let flush = &mut self.flushes[index as usize];
        if flush.members & member == 0 {
            return;
        }
        flush.members &= !member;
        if flush.members == 0 {
            let (id, none) = (flush.id, Nanos::ZERO);
            self.flushes.remove(index as usize);
            self.report(Completion { id, at: Nanos(now), seek: none, rotation: none, seek_cylinders: 0, cache_hit: true });
        }
    }

    /// The host will hear of what it asked for.
    fn report(&mut self, completion: Completion) {
        let now = completion.at.0;
        self.ready.push(completion);
        self.outstanding -= 1;
        if let Some(rebuild) = self.rebuild.as_mut().filter(|_| self.outstanding == 0) {
            rebuild.host_idle(now);
        }
    }

    /// Gives an access to its member's device, which has room for it.
    fn start(&mut self, now: u64, index: u32) {
        let access = self.accesses[index as usize];
        let Operation { stream, priority, sync, .. } = self.operations[access.operation as usize];
        let Access { op, lba, sectors, .. } = access;
        let member = &mut self.members[access.member as usize];
        member.at_device += 1;
        member.device.submit(Nanos(now), &Request { id: index, stream, op, sync, priority, sectors, lba, arrival: Nanos(now) });
        self.wakes[access.member as usize] = member.device.wake_at().map_or(NEVER, |at| at.0);
    }

    /// Gives an access of an operation to its member.
    fn enqueue(&mut self, now: u64, operation: u32, number: usize, op: Op, (lba, end): (u64, u64)) {
        let access = Access { operation, member: number as u32, links: Links::default(), sectors: (end - lba) as u32, op, lba };
        let index = self.accesses.insert(access) as u32;
        self.operations[operation as usize].open += 1;
        let member = &mut self.members[number];
        member.pending += 1;
        if member.at_device < member.depth {
            return self.start(now, index);
        }
        member.waiting.push_back(&mut self.accesses, index);
    }

    /// Carries an operation on that waits for no access, and those that get its lock.
    fn proceed(&mut self, now: u64, operation: u32) {
        self.carry_on(now, operation);
        while let Some(granted) = self.granted.pop_front() {
            self.operations[granted as usize].locked = true;
            self.carry_on(now, granted);
        }
    }

    /// Carries an operation on until it waits for something or is over.
    fn carry_on(&mut self, now: u64, index: u32) {
        loop {
            let operation = self.operations[index as usize];
            if operation.lost {
                // What it had read is of no use without what it lost; what it locked it keeps.
                let begin = if operation.locked { Stage::Read } else { Stage::Admit };
                (self.operations[index as usize].lost, self.operations[index as usize].stage) = (false, begin);
                continue;
            }
            let next = match operation.stage {
                Stage::Admit => Stage::Read,
                Stage::Read => Stage::Write,
                Stage::Write => Stage::End,
                Stage::End => Stage::Admit,
            };
            self.operations[index as usize].stage = next;
            match operation.stage {
                Stage::Admit => {
                    if !self.admit(index) {
                        return;
                    }
                }
                Stage::Read => self.read(now, index),
                Stage::Write => self.write(now, index),
                Stage::End => {
                    if self.end(now, index) {
                        return;
                    }
                }
            }
            if self.operations[index as usize].open > 0 {
                return;
            }
        }
    }

    /// Chooses what the operation works on next; says whether it may begin at once.
    fn admit(&mut self, index: u32) -> bool {
        let layout = self.layout;
        let operation = &mut self.operations[index as usize];
        operation.until = operation.end;
        if !operation.rebuild {
            let stripe = layout.stripe_sectors();
            let boundary = (operation.at / stripe + STRIPES_AT_ONCE).saturating_mul(stripe);
            operation.until = operation.end.min(boundary);
        }
        let alone = match operation.op {
            _ if layout.level == Level::Raid0 => false,
            Op::Read => layout.level == Level::Raid5 && self.failed.is_some(),
            Op::Write | Op::Discard => true,
        };
        if !alone {
            return true;
        }
        let (at, until) = (operation.at, operation.until);
        let span = if operation.rebuild { layout.span_of_members(at, until) } else { layout.span(at, until) };
        operation.locked = self.locks.acquire(span, index);
        operation.locked
    }

    /// The operation is through with what it worked on; says whether it is over.
    fn end(&mut self, now: u64, index: u32) -> bool {
        let operation = &mut self.operations[index as usize];
        if operation.rebuild {
            self.piece_done(now, index);
            return true;
        }
        if operation.locked {
            operation.locked = false;
            self.locks.release(index, &mut self.granted);
        }
        let operation = &mut self.operations[index as usize];
        operation.at = operation.until;
        if operation.at < operation.end {
            return false;
        }
        let Operation { id, seek, rotation, seek_cylinders, hit, .. } = *operation;
        self.operations.remove(index as usize);
        self.report(Completion { id, at: Nanos(now), seek, rotation, seek_cylinders, cache_hit: hit });
        true
    }

    /// Adds sectors of a member to what an operation is going to do there. What touches what was added last becomes one access.
    fn add(&mut self, now: u64, operation: u32, member: usize, op: Op, (first, end): (u64, u64)) {
        let stretch = &mut self.members[member].stretch;
        // A request on the wire says its length in 32 bits.
        if stretch.1 == first && stretch.0 < stretch.1 && end - stretch.0 <= u64::from(u32::MAX) {
            stretch.1 = end;
        } else {
            let before = std::mem::replace(stretch, (first, end));
            if before.0 < before.1 {
                self.enqueue(now, operation, member, op, before);
            }
        }
        let member = &mut self.members[member];
        member.head = end;
        if op == Op::Read {
            member.read_end = end;
        }
    }

    /// Sends off what was added last, by bits of members.
    fn send_off(&mut self, now: u64, operation: u32, mut members: u64, op: Op) {
        while members != 0 {
            let member = members.trailing_zeros() as usize;
            members &= members - 1;
            let stretch = std::mem::take(&mut self.members[member].stretch);
            if stretch.0 < stretch.1 {
                self.enqueue(now, operation, member, op, stretch);
            }
        }
    }

    /// Reads what a read asks for, or what must be known before a write.
    fn read(&mut self, now: u64, index: u32) {
        let Operation { op, rebuild, at, until, .. } = self.operations[index as usize];
        let used = match (op, self.layout.level) {
            _ if rebuild => self.read_for_rebuild(now, index, at, until),
            (Op::Discard, _) => return,
            (_, Level::Raid5) => self.access_stripes(now, index, Stage::Read),
            (Op::Write, _) => return,
            (Op::Read, Level::Raid0) => self.access_striped(now, index),
            (Op::Read, Level::Raid1) => {
                let Some((member, _)) = self.choose((0..self.layout.members).map(|member| (member, at)), until - at) else {
                    return;
                };
                self.add(now, index, member, Op::Read, (at, until));
                1 << member
            }
            (Op::Read, Level::Raid10) => self.access_mirrored(now, index),
        };
        self.send_off(now, index, used, Op::Read);
    }

    /// Writes what a write or a rebuild writes.
    fn write(&mut self, now: u64, index: u32) {
        let Operation { op, rebuild, at, until, .. } = self.operations[index as usize];
        let used = match (op, self.layout.level) {
            (Op::Read, _) => return,
            _ if rebuild => {
                let Some(spare) = self.failed else { return };
                self.add(now, index, spare, Op::Write, (at, until));
                1 << spare
            }
            (_, Level::Raid0) => self.access_striped(now, index),
            (_, Level::Raid1) => {
                let missing = self.unwritten(at);
                (0..self.layout.members).filter(|&member| Some(member) != missing).fold(0, |used, member| {
                    self.add(now, index, member, op, (at, until));
                    used | 1 << member
                })
            }
            (_, Level::Raid5) => self.access_stripes(now, index, Stage::Write),
            (_, Level::Raid10) => self.access_mirrored(now, index),
        };
        self.send_off(now, index, used, op);
    }

    /// RAID 0: goes through the operation's stripe units.
    fn access_striped(&mut self, now: u64, index: u32) -> u64 {
        let Operation { op, mut at, until, .. } = self.operations[index as usize];
        let unit = self.layout.unit;
        let (mut number, mut used) = (at / unit, 0);
        while at < until {
            let end = until.min((number + 1) * unit);
            let (member, row) = self.layout.striped(number);
            let base = row * unit;
            self.add(now, index, member, op, (base + (at - number * unit), base + (end - number * unit)));
            used |= 1 << member;
            (at, number) = (end, number + 1);
        }
        used
    }

    /// RAID 10: the same, with two copies of each.
    fn access_mirrored(&mut self, now: u64, index: u32) -> u64 {
        let Operation { op, mut at, until, .. } = self.operations[index as usize];
        let unit = self.layout.unit;
        let (mut number, mut used) = (at / unit, 0);
        while at < until {
            let end = until.min((number + 1) * unit);
            let (from, to) = (at - number * unit, end - number * unit);
            let copies = self.layout.copies(number);
            let chosen = match op {
                Op::Read => self
                    .choose(copies.into_iter().map(|(member, row)| (member, row * unit + from)), to - from)
                    .map(|chosen| chosen.0),
                Op::Write | Op::Discard => None,
            };
            for (member, row) in copies {
                let stretch = (row * unit + from, row * unit + to);
                if chosen.map_or(self.unwritten(stretch.0) != Some(member), |chosen| chosen == member) {
                    self.add(now, index, member, op, stretch);
                    used |= 1 << member;
                }
            }
            (at, number) = (end, number + 1);
        }
        used
    }

    /// RAID 5: goes through the operation's stripes, to read (for a read or before a write) or to write.
    fn access_stripes(&mut self, now: u64, index: u32, stage: Stage) -> u64 {
        let Operation { op, mut at, until, .. } = self.operations[index as usize];
        let (unit, sectors, whole) = (self.layout.unit, self.layout.stripe_sectors(), self.whole());
        let (mut row, mut used) = (at / sectors, 0);
        let kind = if stage == Stage::Write { op } else { Op::Read };
        let failed = self.failed.map_or(0, |member| 1 << member);
        while at < until {
            let end = until.min((row + 1) * sectors);
            let (all, parity) = (self.layout.all(), 1 << self.layout.parity(row));
            if op == Op::Discard && end - at < sectors {
                (at, row) = (end, row + 1);
                continue;
            }
            for band in self.layout.bands(at, end) {
                // A spare may be filled up to somewhere in the midst.
                let (first, last) = (row * unit + band.first, row * unit + band.end);
                let cut = whole.clamp(first, last);
                for (missing, first, end) in [(0, first, cut), (failed, cut, last)] {
                    if band.touched == 0 || first == end {
                        continue;
                    }
                    let stripe = Stripe { all, parity, missing };
                    let members = match (stage, op) {
                        (Stage::Write, _) => stripe.writes(band.touched),
                        (_, Op::Read) => stripe.reads_of_read(band.touched),
                        (_, Op::Write | Op::Discard) => stripe.reads_of_write(band.touched),
                    };
                    used |= members;
                    self.add_all(now, index, members, kind, (first, end));
                }
            }
            (at, row) = (end, row + 1);
        }
        used
    }

    /// Adds the same sectors of several members, by bits.
    fn add_all(&mut self, now: u64, operation: u32, mut members: u64, op: Op, stretch: (u64, u64)) {
        while members != 0 {
            self.add(now, operation, members.trailing_zeros() as usize, op, stretch);
            members &= members - 1;
        }
    }

    /// Reads from the other members what sectors of the failed one held.
    fn read_for_rebuild(&mut self, now: u64, index: u32, first: u64, end: u64) -> u64 {
        let Some(failed) = self.failed else { return 0 };
        let (unit, mut used) = (self.layout.unit, 0);
        match self.layout.level {
            Level::Raid0 => {}
            Level::Raid1 => {
                let mirrors = (0..self.layout.members).filter(|&member| member != failed);
                if let Some((member, _)) = self.choose(mirrors.map(|member| (member, first)), end - first) {
                    self.add(now, index, member, Op::Read, (first, end));
                    used = 1 << member;
                }
            }
            Level::Raid5 => {
                used = self.layout.all() & !(1 << failed);
                self.add_all(now, index, used, Op::Read, (first, end));
            }
            Level::Raid10 => {
                for row in first / unit..end.div_ceil(unit) {
                    let Some(number) = self.layout.mirrored_at(failed, row) else { continue };
                    let (from, to) = (first.max(row * unit) - row * unit, end.min((row + 1) * unit) - row * unit);
                    for (member, row) in self.layout.copies(number).into_iter().filter(|&(member, _)| member != failed) {
                        self.add(now, index, member, Op::Read, (row * unit + from, row * unit + to));
                        used |= 1 << member;
                    }
                }
            }
        }
        used
    }

    /// Which of several copies to read, as md does (`choose_best_rdev` in `drivers/md/raid1.c`; its RAID 10 does nearly so): a reader in
    /// sequence stays where it is; else one that is idle; else, on disks with arms, the nearest arm, with flash the shortest queue.
    /// Of several idle ones md takes the first, this the nearest. `sectors` are to be read; a
    /// copy that is not whole is passed over.
    fn choose(&self, copies: impl Iterator<Item = (usize, u64)> + Clone, sectors: u64) -> Option<(usize, u64)> {
        let there = copies.filter(|&(member, first)| self.unreadable(first + sectors) != Some(member));
        let in_sequence = |&(member, first): &(usize, u64)| {
            let member = &self.members[member];
            first == member.read_end || first == member.head
        };
        there.clone().find(in_sequence).or_else(|| {
            there.min_by_key(|&(member, first)| {
                let member = &self.members[member];
                let (pending, distance) = (u64::from(member.pending), member.head.abs_diff(first));
                if self.by_queue { (pending > 0, pending, distance) } else { (pending > 0, distance, pending) }
            })
        })
    }

    /// A member is gone, and with it what it was doing.
    fn fail(&mut self, now: u64) {
        let Some(Failure { member: failed, .. }) = self.failure.take() else { return };
        self.failed = Some(failed);
        self.wakes[failed] = NEVER;
        let member = &mut self.members[failed];
        (member.at_device, member.pending, member.waiting) = (0, 0, List::new());
        if let Some(spare) = self.spare.take() {
            *member = Member::new(spare);
            self.rebuild = Some(Rebuild::new(now, self.rate, self.layout.rows * self.layout.unit));
        }
        let mut over = Vec::new();
        self.accesses.retain(|_, access| {
            if access.member as usize != failed {
                return true;
            }
            let operation = &mut self.operations[access.operation as usize];
            operation.open -= 1;
            operation.lost |= access.op == Op::Read;
            if operation.open == 0 {
                over.push(access.operation);
            }
            false
        });
        for operation in over {
            self.proceed(now, operation);
        }
        let flushes: Vec<u32> = self.flushes.iter().map(|(index, _)| index as u32).collect();
        for index in flushes {
            self.member_flushed(now, index, 1 << failed);
        }
    }

    /// Rebuilds the next piece if it is time.
    fn begin_piece(&mut self, now: u64) {
        let Some(rebuild) = &mut self.rebuild else { return };
        if rebuild.due(self.outstanding > 0) > now {
            return;
        }
        let operation = Operation {
            id: RequestId::MAX,
            stream: REBUILD_STREAM,
            priority: Priority::DEFAULT,
            sync: false,
            op: Op::Write,
            rebuild: true,
            stage: Stage::Admit,
            locked: false,
            lost: false,
            open: 0,
            at: 0,
            until: 0,
            end: 0,
            hit: true,
            seek: Nanos::ZERO,
            rotation: Nanos::ZERO,
            seek_cylinders: 0,
        };
        let index = self.operations.insert(operation) as u32;
        let operation = &mut self.operations[index as usize];
        (operation.at, operation.end) = rebuild.begin(now, index);
        self.proceed(now, index);
    }

    /// A piece is on the spare; whatever became whole by that is unlocked.
    fn piece_done(&mut self, now: u64, index: u32) {
        let Some(rebuild) = &mut self.rebuild else { return };
        rebuild.finish(index);
        while let Some(piece) = rebuild.take_finished(now) {
            self.locks.release(piece, &mut self.granted);
            self.operations.remove(piece as usize);
        }
        if rebuild.ended() {
            (self.rebuild, self.failed) = (None, None);
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

    fn submit(&mut self, now: Nanos, request: &Request) {
        // A rebuild does not announce itself while the host has nothing in the array.
        self.catch_up(now.0);
        self.account(now.0);
        // What lies beyond the end is the caller's mistake, and is cut off.
        let capacity = self.layout.capacity();
        let at = request.lba.min(capacity - 1);
        let end = request.end().clamp(at + 1, capacity);
        let operation = Operation {
            id: request.id,
            stream: request.stream,
            priority: request.priority,
            sync: request.sync,
            op: request.op,
            rebuild: false,
            stage: Stage::Admit,
            locked: false,
            lost: false,
            open: 0,
            at,
            until: at,
            end,
            hit: true,
            seek: Nanos::ZERO,
            rotation: Nanos::ZERO,
            seek_cylinders: 0,
        };
        self.outstanding += 1;
        let index = self.operations.insert(operation) as u32;
        self.proceed(now.0, index);
        self.settle();
    }

    fn flush(&mut self, now: Nanos, id: RequestId) -> bool {
        self.catch_up(now.0);
        self.account(now.0);
        let index = self.flushes.insert(Flush { id, members: 0 }) as u32;
        let gone = self.failed.filter(|_| self.rebuild.is_none());
        for number in (0..self.members.len()).filter(|&number| Some(number) != gone) {
            let device = &mut self.members[number].device;
            if device.flush(now, FLUSH | index << FLUSH_MEMBER_BITS | number as u32) {
                self.flushes[index as usize].members |= 1 << number;
                self.wakes[number] = device.wake_at().map_or(NEVER, |at| at.0);
            }
        }
        let waits = self.flushes[index as usize].members != 0;
        if waits {
            self.outstanding += 1;
        } else {
            self.flushes.remove(index as usize);
        }
        self.settle();
        waits
    }

    fn wake_at(&self) -> Option<Nanos> {
        if let Some(completion) = self.ready.first() {
            return Some(completion.at);
        }
        let at = match (self.outstanding, &self.rebuild) {
            // What members still have in their write caches; but then, nobody waits for a rebuild or a failure.
            (0, None) => self.next_wake,
            (0, Some(_)) => NEVER,
            _ => self.next_event,
        };
        (at != NEVER).then_some(Nanos(at))
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        self.catch_up(now.0);
        self.account(now.0);
        done.append(&mut self.ready);
    }

    fn busy(&self) -> Nanos {
        Nanos(self.busy)
    }

    /// All members' together; none if pages of different sizes would be added up.
    fn flash(&self) -> Option<FlashTally> {
        let mut tallies = self.members.iter().filter_map(|member| member.device.flash());
        let first = tallies.next()?;
        tallies.try_fold(first, |mut sum, other| {
            sum.host_sectors_written += other.host_sectors_written;
            sum.data_reads += other.data_reads;
            sum.data_programs += other.data_programs;
            sum.map_reads += other.map_reads;
            sum.map_programs += other.map_programs;
            sum.pages_moved += other.pages_moved;
            sum.erases += other.erases;
            sum.collection += other.collection;
            sum.map_lookups += other.map_lookups;
            sum.map_hits += other.map_hits;
            sum.least_erases = sum.least_erases.min(other.least_erases);
            sum.most_erases = sum.most_erases.max(other.most_erases);
            (sum.page_sectors == other.page_sectors).then_some(sum)
        })
    }
}
