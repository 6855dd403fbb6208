//! A hard disk: zoned platters, an arm, a segmented cache, a controller and its queue.
//!
//! ```text
//!            submit                                    advance
//!  host ───────┬──────────────────────────────────────────▲──────
//!              ▼  hit: bus only                            │
//!        [ look-up ]──────────────────────────────▶ [ outbox, by time ]
//!              │ miss, write through                       ▲
//!              ▼                                           │ when sent or written
//!        [ pending ] ──policy──▶ [ the arm: one job ] ─────┘
//!              [ dirty segments ] ──▲        │
//!                                            └─▶ [ stream: read-ahead until stopped or full ]
//! ```
//!
//! Behaviour and parameters follow DiskSim 4 (Bucy, Schindler, Schlosser, Ganger: CMU-PDL-08-101), but sectors are not simulated as
//! events: a request costs one table look-up per track that it touches, and the progress of read-ahead is computed only when it is
//! needed.
//!
//! A read goes before the write of cached data to the media (destaging), unless the cache is full. Then the two
//! alternate: destaging for as long as the longest access of the arm, and the reads that wait by then. If they competed by the queue's
//! policy, a writer in order, whose next segment is always the nearest, would keep reads waiting for as long as it fills the cache.
//! Under FIFO both go in order of arrival.
//!
//! FLUSH CACHE is not a queued command: a SATA drive receives it when its queue is empty, and no other command until it completes
//! (`ata_std_qc_defer` in `drivers/ata/libata-core.c`). So requests that are in the drive go before a flush, and those that arrive
//! later are held until it is done.
//!
//! It differs from DiskSim where the drives of DiskSim's validation traces do:
//!
//! * an access on the current cylinder takes `reacquire_ms` of [`spec::MechanicsSpecification`] instead of zero;
//! * a drive with zero-latency reads that keeps the sectors it passes reads the whole track;
//! * with `read_ahead_over_requested`, read-ahead fills the segment and overwrites data already sent;
//! * a write does not invalidate the rest of a segment that it overlaps, if reads may hit written data;
//! * a disconnected drive has reselected by the time enough of a read is in memory, instead of starting to reselect then;
//! * the minimum delay of a write is counted from the arrival of its data.

mod cache;
pub mod layout;
mod link;
pub mod mechanics;
mod media;
pub mod model;
mod reading;
mod region;
mod shifts;
pub mod spec;
#[cfg(test)]
mod tests;
mod writing;
mod zone;

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;

use block::{Nanos, Op, Request, RequestId};

use self::cache::{Age, Cache, Lookup, Segment, State, Waiting};
use self::layout::SectorLocation;
use self::link::Link;
use self::mechanics::{Arm, Motion};
use self::model::HddModel;
use self::reading::Stream;
use self::spec::{QueuePolicy, WriteCache};
use super::deferred::Deferred;
use super::{Completion, Device};

/// A request that waits for the arm.
#[derive(Clone, Copy, Debug)]
struct Pending {
    id: RequestId,
    write: bool,
    lba: u64,
    end: u64,
    place: SectorLocation,
    age: Age,
    /// When the drive began to process it.
    arrived: u64,
    /// Whether the previous request was a read.
    after_read: bool,
    /// Whether the arm was idle on arrival, so that the drive is still connected to the bus.
    connected: bool,
    /// Whether the drive disconnects twice for this write, see [`spec::ExtraWriteDisconnect`].
    extra_disconnect: bool,
}

/// The current job of the arm.
#[derive(Clone, Copy, Debug)]
struct Active {
    /// End time.
    until: u64,
    /// The segment being written; `None` for a read.
    writing: Option<usize>,
}

/// A flush that waits for the requests before it and for cached writes.
#[derive(Clone, Copy, Debug)]
struct PendingFlush {
    id: RequestId,
    /// Time at which the drive has processed the command; `None` once its completion is queued.
    ready: Option<u64>,
}

/// A command that arrived during a flush.
#[derive(Clone, Copy, Debug)]
enum Held {
    Request(Request),
    Flush(RequestId),
}

/// How reads and a full write cache share the arm.
#[derive(Clone, Copy, Debug, Default)]
struct Sharing {
    /// Start of the current turn of destaging; `None` if it has none.
    since: Option<u64>,
    /// Arrival order of the last read that goes before any destaging.
    reads_first: u64,
}

/// The arm and its current job.
#[derive(Debug, Default)]
struct ArmState {
    at: Arm,
    job: Option<Active>,
    /// Start of the current or last job.
    turned: u64,
}

/// The requests in the drive, and the time for which there were any.
#[derive(Debug, Default)]
struct Load {
    outstanding: usize,
    busy: u64,
    busy_since: Option<u64>,
}

impl Load {
    /// Begins or ends busy time, in which requests are outstanding or data are `unwritten`.
    fn account(&mut self, at: u64, unwritten: bool) {
        match (self.outstanding > 0 || unwritten, self.busy_since) {
            (true, None) => self.busy_since = Some(at),
            (false, Some(since)) => {
                self.busy += at.saturating_sub(since);
                self.busy_since = None;
            }
            _ => {}
        }
    }

    /// Updates the busy time to `now`.
    fn catch_up(&mut self, now: u64) {
        if let Some(since) = self.busy_since {
            self.busy += now.saturating_sub(since);
            self.busy_since = Some(since.max(now));
        }
    }
}

/// A simulated hard disk.
#[derive(Debug)]
pub struct Hdd {
    model: Arc<HddModel>,
    depth: usize,
    policy: QueuePolicy,
    cache: Cache,
    arm: ArmState,
    /// Accounting of cached writes, and the running mean of their service time without the transfer.
    deferred: Deferred,
    write_positioning: u64,
    stream: Option<Stream>,
    pending: Vec<Pending>,
    orders: u64,
    sharing: Sharing,
    flush: Option<PendingFlush>,
    /// Commands that wait for the end of the flush, oldest first.
    held: VecDeque<Held>,
    link: Link,
    /// The LBA located last, and its location: read-ahead locates the next track twice, to plan and to move.
    located: Cell<(u64, SectorLocation)>,
    /// The LBA after the last write, and the time at which that write was on the media.
    last_write: (u64, u64),
    load: Load,
}

impl Hdd {
    /// An idle disk with an empty cache and the arm at cylinder 0. `depth` and `policy` override those of the profile.
    pub fn new(model: Arc<HddModel>, depth: Option<u32>, policy: Option<QueuePolicy>) -> Hdd {
        let depth = depth.unwrap_or(model.queue.depth).max(1) as usize;
        Hdd {
            depth,
            policy: policy.unwrap_or(model.queue.policy),
            cache: Cache::new(&model.cache, model.deviations.keeps_overlapped_segment),
            arm: ArmState::default(),
            deferred: Deferred::default(),
            // Initial estimate before any write: one revolution.
            write_positioning: model.mechanics.period,
            stream: None,
            pending: Vec::with_capacity(depth),
            orders: 0,
            sharing: Sharing::default(),
            flush: None,
            held: VecDeque::new(),
            link: Link::new(depth),
            located: Cell::new((0, model.layout.locate(0))),
            last_write: (u64::MAX, 0),
            load: Load::default(),
            model,
        }
    }

    /// The location of an LBA.
    fn locate(&self, lba: u64) -> SectorLocation {
        let (known, place) = self.located.get();
        if known == lba {
            return place;
        }
        let place = self.model.layout.locate(lba);
        self.located.set((lba, place));
        place
    }

    /// Queues the completion of a hit, or of another request that does not use the arm.
    fn send_hit(&mut self, id: RequestId, at: u64, work: Option<u64>, read: bool) {
        let (none, work) = (Nanos::ZERO, work.map(Nanos));
        self.link
            .send(Completion { id, at: Nanos(at), seek: none, rotation: none, seek_cylinders: 0, cache_hit: true, work }, read);
    }

    /// Starts the arm's next job at `at`, if the arm is idle and there is one.
    fn start_arm(&mut self, at: u64) {
        while self.arm.job.is_none() {
            self.share_arm(at);
            match self.choose(at) {
                Some(ArmTask::Pending(index)) => {
                    // The order of the vector does not matter: each request has its arrival order.
                    let request = self.pending.swap_remove(index);
                    if request.write { self.start_write(at, &request) } else { self.start_read(at, &request) }
                }
                Some(ArmTask::Destage(segment)) => self.start_destage(at, segment, None),
                None => return,
            }
        }
    }

    /// The arm's next job by the queue's policy; `None` if there is none.
    fn choose(&self, at: u64) -> Option<ArmTask> {
        let waiting = self.cache.dirty > 0;
        match (self.pending.len(), self.cache.dirty) {
            (0, 0) => return None,
            (1, 0) => return Some(ArmTask::Pending(0)),
            // No write is in progress when a job is chosen, so the dirty segment is waiting.
            (0, 1) => return self.cache.segments.iter().position(|segment| segment.state == State::Dirty).map(ArmTask::Destage),
            _ => {}
        }
        let full = waiting && self.cache.is_full_of_writes();
        let is_fifo = self.policy == QueuePolicy::Fifo;
        let reads_first = full && !is_fifo && self.sharing.since.is_none();
        if full && !is_fifo && !reads_first {
            return self.best_segment(at).map(|(_, index)| ArmTask::Destage(index));
        }
        let best = |without_collisions| self.best_request(at, full, reads_first, without_collisions);
        let request = best(false).and_then(|chosen| {
            // Collisions are rare, so they are checked only for the chosen request.
            let request = &self.pending[chosen.1];
            if self.cache.collides(request.lba, request.end) { best(true) } else { Some(chosen) }
        });
        let request = request.map(|(rank, index)| (rank, ArmTask::Pending(index)));
        if !waiting {
            return request.map(|(_, work)| work);
        }
        // Otherwise cached writes are written when there is nothing else to do; under FIFO in order of arrival.
        let segment = if request.is_none() || is_fifo { self.best_segment(at) } else { None };
        let segment = segment.map(|(rank, index)| (rank, ArmTask::Destage(index)));
        match (request, segment) {
            (Some(request), Some(segment)) => Some(if segment.0 < request.0 { segment.1 } else { request.1 }),
            (request, segment) => request.or(segment).map(|(_, work)| work),
        }
    }

    /// Begins a turn of destaging at `at`, or ends it if it has lasted for the longest access of the arm.
    fn share_arm(&mut self, at: u64) {
        let has_turn = self.cache.is_full_of_writes() && !self.pending.iter().any(|request| self.goes_first(request));
        let since = *self.sharing.since.get_or_insert(at);
        if !has_turn {
            self.sharing.since = None;
        } else if at.saturating_sub(since) >= self.model.longest_access {
            self.sharing = Sharing { since: None, reads_first: self.orders };
        }
    }

    /// Whether this is a read that goes before any destaging.
    fn goes_first(&self, request: &Pending) -> bool {
        !request.write && request.age.order <= self.sharing.reads_first
    }

    /// The pending request that the policy prefers, with its rank. `full`: writes cannot start; `reads_first`: only reads that go before
    /// destaging can; `without_collisions`: requests that overlap unwritten data cannot.
    fn best_request(&self, at: u64, full: bool, reads_first: bool, without_collisions: bool) -> Option<Ranked> {
        let no_room = self.cache.has_no_room_for_reads();
        let goes = |request: &Pending| {
            !(if request.write { full } else { no_room }
                || reads_first && !self.goes_first(request)
                || without_collisions && self.cache.collides(request.lba, request.end))
        };
        let mut best = None;
        for (index, request) in self.pending.iter().enumerate().filter(|(_, request)| goes(request)) {
            if let Some(rank) = self.rank_request(at, request, best) {
                best = Some((rank, index));
            }
        }
        best
    }

    /// The rank of a pending request; `None` if it is not better than `best`. A request that read-ahead covers needs no arm
    /// movement; ranked as a new access, it would cost a revolution.
    #[inline]
    fn rank_request(&self, at: u64, request: &Pending, best: Option<Ranked>) -> Option<Rank> {
        if self.policy == QueuePolicy::Sptf && !request.write && self.stream_covers(request.lba) {
            return better((request.age.handicap, request.age.order), best);
        }
        self.rank(at, request.age.order, request.age.handicap, &request.place, request.write, best)
    }

    /// The dirty segment that the policy prefers, with its rank.
    fn best_segment(&self, at: u64) -> Option<Ranked> {
        let mut best = None;
        let segments = self.cache.segments.iter().zip(&self.cache.waiting).enumerate();
        let is_dirty = |(_, (segment, _)): &(usize, (&Segment, &Waiting))| segment.state == State::Dirty;
        for (index, (segment, waiting)) in segments.filter(is_dirty) {
            // The head is at this sector now; writing it later would cost a revolution.
            let follows_on = self.policy == QueuePolicy::Sptf && self.last_write == (segment.start, at);
            let rank = if follows_on {
                better((waiting.age.handicap, waiting.age.order), best)
            } else {
                self.rank(at, waiting.age.order, waiting.age.handicap, &waiting.place, true, best)
            };
            if let Some(rank) = rank {
                best = Some((rank, index));
            }
        }
        best
    }

    /// The cost that the policy minimises, and the arrival order to break ties; `None` if it is not better than `best`.
    #[inline]
    fn rank(&self, at: u64, order: u64, handicap: u64, place: &SectorLocation, write: bool, best: Option<Ranked>) -> Option<Rank> {
        let mechanics = &self.model.mechanics;
        let cost = match self.policy {
            QueuePolicy::Fifo => 0,
            QueuePolicy::Sstf => u64::from(self.arm.at.cylinder.abs_diff(place.cylinder)),
            QueuePolicy::Sptf => {
                // The rotational wait is a lower bound for any seek time, so most requests need no look-up in the seek table,
                // which is larger than a processor's caches.
                if best.is_some_and(|((cost, _), _)| mechanics.wait_for(at, place.angle).saturating_add(handicap) > cost) {
                    return None;
                }
                mechanics.position(at, self.arm.at, place, Motion::Fresh, write).total().saturating_add(handicap)
            }
        };
        better((cost, order), best)
    }

    /// Accounts busy time, during which requests are outstanding or data are unwritten.
    fn account(&mut self, at: u64) {
        self.load.account(at, self.cache.dirty > 0);
    }

    /// Ends the arm's job at `at`.
    fn end_active(&mut self, at: u64) {
        if let Some(segment) = self.arm.job.take().and_then(|active| active.writing) {
            self.cache.end_write(segment);
            self.admit_writes(at);
        }
        self.start_arm(at);
        self.end_flush(at);
        self.account(at);
    }
}

/// The cost that a queue policy minimises, and the arrival order.
type Rank = (u64, u64);

/// The best rank so far, and its index.
type Ranked = (Rank, usize);

#[inline]
fn better(rank: Rank, best: Option<Ranked>) -> Option<Rank> {
    best.is_none_or(|(best, _)| rank < best).then_some(rank)
}

/// Work for the arm.
#[derive(Clone, Copy, Debug)]
enum ArmTask {
    /// Index of a pending request.
    Pending(usize),
    /// A segment to write.
    Destage(usize),
}

impl Device for Hdd {
    fn capacity_sectors(&self) -> u64 {
        self.model.layout.capacity_sectors
    }

    fn queue_depth(&self) -> usize {
        self.depth
    }

    fn is_rotational(&self) -> bool {
        true
    }

    fn has_write_cache(&self) -> bool {
        self.model.cache.write_cache != WriteCache::Off
    }

    fn submit(&mut self, now: Nanos, request: &Request) {
        self.load.outstanding += 1;
        self.account(now.0);
        if self.flush.is_some() {
            return self.held.push_back(Held::Request(*request));
        }
        self.accept(now, request);
    }
    fn time_to_reach(&mut self, now: Nanos, request: &Request) -> Option<Nanos> {
        let capacity = self.capacity_sectors();
        let lba = request.lba.min(capacity - 1);
        let end = request.lba.saturating_add(u64::from(request.sectors)).clamp(lba + 1, capacity);
        self.advance_stream(now.0);
        Some(Nanos(self.time_to_reach_sectors(now.0, request.op, lba, end)))
    }

    fn flush(&mut self, now: Nanos, id: RequestId) -> bool {
        if !self.has_write_cache() {
            return false;
        }
        self.load.outstanding += 1;
        self.account(now.0);
        match self.flush {
            Some(_) => self.held.push_back(Held::Flush(id)),
            None => self.begin_flush(now.0, id),
        }
        true
    }

    fn wake_at(&self) -> Option<Nanos> {
        let sent = self.link.next();
        let arm = self.arm.job.map(|active| Nanos(active.until));
        match (sent, arm) {
            (Some(sent), Some(arm)) => Some(sent.min(arm)),
            (sent, arm) => sent.or(arm),
        }
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        loop {
            let sent = self.link.next().map(|at| at.0);
            let arm = self.arm.job.map(|active| active.until).filter(|&until| until <= now.0);
            // Completions first: the overheads of the next request depend on the completed one.
            if let Some(until) = arm.filter(|&until| sent.is_none_or(|sent| until < sent)) {
                self.end_active(until);
            } else if sent.is_some_and(|sent| sent <= now.0)
                && let Some(completion) = self.link.take()
            {
                self.load.outstanding -= 1;
                self.account(completion.at.0);
                done.push(completion);
                if self.flush.take_if(|flush| flush.ready.is_none() && flush.id == completion.id).is_some() {
                    self.take_held(completion.at.0);
                }
            } else {
                return self.load.catch_up(now.0);
            }
        }
    }

    fn busy(&self) -> Nanos {
        Nanos(self.load.busy)
    }
}

impl Hdd {
    /// Processes a request that arrives at `now`.
    fn accept(&mut self, now: Nanos, request: &Request) {
        let arrived = now.0.saturating_add(self.model.delays.request);
        let capacity = self.capacity_sectors();
        let lba = request.lba.min(capacity - 1);
        let end = request.lba.saturating_add(u64::from(request.sectors)).clamp(lba + 1, capacity);
        self.orders += 1;
        // Without shingled recording there is no map that a discard could change: it costs only the command.
        if request.op == Op::Discard {
            let delays = &self.model.delays;
            let at = arrived.saturating_add(delays.write.after(self.link.last_was_read) + delays.write_completion);
            return self.send_hit(request.id, at, Some(at - now.0), self.link.last_was_read);
        }
        let write = request.op == Op::Write;
        self.advance_stream(now.0);
        let connected = self.arm.job.is_none() && self.pending.is_empty();
        let free = connected || self.model.cache.works_during_media_access;
        let found = if write || !free { Lookup::Miss } else { self.cache.look_up(lba, end) };
        let age = Age { order: self.orders, handicap: self.model.handicap(arrived) };
        let taken = if write {
            self.take_write(arrived, age, request.id, lba, end, free)
        } else {
            self.take_hit(arrived, request.id, lba, end, found)
        };
        if taken {
            self.start_arm(now.0);
            return;
        }
        let pending = Pending {
            id: request.id,
            write,
            lba,
            end,
            place: self.model.layout.locate(lba),
            age,
            arrived,
            after_read: self.link.last_was_read,
            connected,
            extra_disconnect: write && connected && !self.link.last_was_read && lba != self.last_write.0,
        };
        if connected && !write && self.cache.dirty == 0 {
            // Nothing else competes for the arm, so the request need not be chosen or looked up again.
            self.start_read_of(now.0, &pending, found);
        } else {
            self.pending.push(pending);
        }
        self.start_arm(now.0);
    }

    /// See [`Device::time_to_reach`]. Other requests in the drive's queue are not taken into account.
    fn time_to_reach_sectors(&self, now: u64, op: Op, lba: u64, end: u64) -> u64 {
        let from_memory = match op {
            Op::Discard => true,
            Op::Read => self.stream_covers(lba) || matches!(self.cache.look_up(lba, end), Lookup::Whole(_)),
            Op::Write => self.reports_early() && !self.cache.is_full_of_writes() && !self.cache.collides(lba, end),
        };
        if from_memory {
            return 0;
        }
        let (write, mechanics, delays) = (op == Op::Write, &self.model.mechanics, &self.model.delays);
        let command = if write { &delays.write } else { &delays.read_miss };
        let ready = now.saturating_add(delays.request + command.after(self.link.last_was_read));
        let mut at = self.arm.job.map_or(ready, |active| active.until.max(ready));
        let place = self.locate(lba);
        if write && self.last_write == (lba, at) {
            return at - now;
        }
        if write {
            let seek = mechanics.seek_time(self.arm.at, &place, Motion::Fresh, true);
            at = at.saturating_add(mechanics.minimum_write_seek.saturating_sub(seek));
        }
        (at - now).saturating_add(mechanics.position(at, self.arm.at, &place, Motion::Fresh, write).total())
    }

    /// Whether the write cache may report a write before it is on the media.
    fn reports_early(&self) -> bool {
        match self.model.cache.write_cache {
            WriteCache::Off => false,
            WriteCache::Sequential => self.load.outstanding <= 1,
            WriteCache::On => true,
        }
    }

    /// Serves a read from memory if it was found completely. Returns whether it was.
    fn take_hit(&mut self, arrived: u64, id: RequestId, lba: u64, end: u64, found: Lookup) -> bool {
        let Lookup::Whole(segment) = found else { return false };
        let delays = &self.model.delays;
        let start = arrived.saturating_add(delays.read_hit.after(self.link.last_was_read) + delays.data_preparation);
        self.serve_hit(start, id, segment, lba, end);
        true
    }
}
