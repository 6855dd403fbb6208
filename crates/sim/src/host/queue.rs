//! The queue of a block device: admission, splitting, merging, dispatch.
//!
//! ```text
//! Issue --admit--> outside --> [split at max_sectors] --insert--> Scheduler --pick--> Device (queue_depth at once)
//!                  until the scheduler                                |                   |
//!                  admits it                                          |<--- completed ----|--> Finished
//! ```
//! How requests share the `nr_requests` is the scheduler's to say ([`Scheduler::tags`]). Write-back is held back as well where readers
//! suffer from it.
//!
//! Flushes of the device's write cache bypass all this (`block/blk-flush.c`): one is at the device at a time, and those that arrive
//! meanwhile share the next one. Their issuers have already waited for the writes that they cover.
//!
//! A merged request carries its parts as a chain through the slots, so that one completion ends them all. The chain is only ever
//! appended to and walked once, so two words in each slot suffice; a `block::list::List` in every slot would take five.
//!
//! The scheduler can be exchanged while requests are under way. As in Linux (`elevator_switch` in `block/elevator.c`, between
//! `blk_mq_freeze_queue` and `blk_mq_unfreeze_queue`), nothing reaches the device meanwhile. Linux first lets the old scheduler serve
//! the requests it holds, and new ones wait outside; here the successor takes over both. Whoever exchanges it has as many processes read
//! as the successor [needs](block::LiveSwitch); nobody is told of these reads.

use block::{Insertion, Limits, Merges, Nanos, Op, Pick, Priority, Request, RequestId, Room, Roster, Scheduler, StreamId};

use slab::Slab;

use super::ledger::Ledger;
use super::outside::{Entry, Outside};
use super::tags::{NONE as NO_TAG, Tags};
use super::write_back_throttle::{Class, WriteBackThrottle, class};
use crate::device::ssd::FlashTally;
use crate::device::{Completion, Device};
use crate::run::{Finished, Flushed, Issue, Server, ServerEvent, Steerable, Transferred};
use crate::streams::{TAKE_OVER, TAKE_OVER_READERS, is_of_take_over};

const NONE: u32 = u32::MAX;

/// The id of a flush at the device; slots never number as many.
const FLUSH: RequestId = RequestId::MAX;

/// What a discard is split at, which is not what transfers are (`max_discard_sectors` in `blk-settings.c`, at most 2^32 - 1 bytes).
const MAX_DISCARD_SECTORS: u32 = u32::MAX >> 9;

/// Issues that may wait outside the queue. With as many waiting, the source is not asked for more: its next requests come late, though
/// their response time counts from when they were due.
const WAITING: usize = 65_536;

/// What each reads that reads because a scheduler takes over, in sectors: a page.
const TAKE_OVER_SECTORS: u32 = 8;

/// The queue's own settings, under Linux's names (`/sys/block/*/queue`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueSettings {
    /// Requests that may be queued or at the device at once, as the scheduler counts them; further ones wait outside. At least 1.
    pub nr_requests: u32,
    /// Larger reads and writes are split, and merging stops, at this many sectors. At least 1.
    pub max_sectors: u32,
    /// Which requests the scheduler may merge.
    pub merges: Merges,
    /// What reads may take at the device before buffered writes are held back (`wbt_lat_usec`); zero: they never are; `None`: as Linux
    /// does for the device and the scheduler.
    pub write_back_latency: Option<Nanos>,
    /// The driver says whether it can take a request before one is taken from the scheduler, as SCSI disks do (`scsi_mq_get_budget` in
    /// `drivers/scsi/scsi_lib.c`). Without, one more than the device takes has left the scheduler and waits for a tag, where nothing
    /// sorts or passes it (`__blk_mq_do_dispatch_sched` in `block/blk-mq-sched.c`): loop devices, NVMe, virtio.
    pub has_budget: bool,
    /// How long at least nothing goes to the device when the scheduler is exchanged.
    pub switch_time: Nanos,
}

impl QueueSettings {
    /// The limits that the scheduler must keep to.
    pub fn limits(&self) -> Limits {
        Limits { max_sectors: self.max_sectors, merges: self.merges }
    }
}

impl Default for QueueSettings {
    /// What Linux gives a disk under a scheduler: 256 requests, 1,280 KiB; and the 35 ms that it takes to exchange that.
    fn default() -> QueueSettings {
        QueueSettings {
            nr_requests: 256,
            max_sectors: 2560,
            merges: Merges::All,
            write_back_latency: None,
            has_budget: true,
            switch_time: Nanos::from_millis(35),
        }
    }
}

/// What the device reported of its work, summed up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceTally {
    /// Requests completed by the device, after splitting and merging.
    pub requests: u64,
    /// Of these, the ones that needed the mechanics.
    pub mechanical: u64,
    /// Time the arm moved for them.
    pub seek: Nanos,
    /// Time they waited for the platter.
    pub rotation: Nanos,
    /// Cylinders the arm crossed for them.
    pub seek_cylinders: u64,
    /// Nanoseconds that each of them was in the queue and at the device, added up; a merged request counts from its first part.
    /// Divided by the run's length it is the mean queue size, `aqu-sz` of iostat(1).
    pub in_queue_ns: u128,
}

/// A request on its way, or, with parts elsewhere, the issue they belong to.
struct Slot {
    /// As inserted; of a request at the device as picked, merges included.
    request: Request,
    /// The next request merged into the same one.
    next_part: u32,
    /// Of the first in such a chain: the last.
    last_part: u32,
    dispatched: Nanos,
    /// The slot of the issue: its first part's.
    owner: u32,
    /// Of an owner: parts that are queued or at the device. Its slot is in use as long as there are any.
    open_parts: u32,
    /// Of an owner: what was issued.
    issue: Issue,
    /// The tag of a request of its own.
    tag: u32,
    /// It stands for a request of its own that write-back throttling counts.
    throttled: Option<Class>,
}

/// A wait for the device's write cache.
#[derive(Clone, Copy)]
struct Flush {
    arrival: Nanos,
    stream: StreamId,
    token: u64,
}

impl Flush {
    fn done(self, at: Nanos) -> Flushed {
        let Flush { arrival, stream, token } = self;
        Flushed { arrival, stream, token, at }
    }
}

/// One scheduler in front of one device.
pub struct Queue {
    scheduler: Box<dyn Scheduler>,
    device: Box<dyn Device>,
    settings: QueueSettings,
    /// Who shares the device, which every scheduler is told, and the account of it.
    ledger: Option<Box<Ledger>>,
    /// [`Device::queue_depth`], which never changes.
    depth: usize,
    slots: Slab<Slot>,
    outside: Outside,
    /// What tags there are; `None` under a scheduler that knows none.
    tags: Option<Tags>,
    /// As many as come free wake as many that sleep.
    wake_batch: u32,
    throttle: WriteBackThrottle,
    /// Asynchronous and synchronous: requests queued or at the device; a merged one counts once.
    active: [u32; 2],
    at_device: usize,
    /// Taken from the scheduler and not yet by the device.
    ahead: Option<Request>,
    /// Flushes that the one at the device ends, and those that wait for the next.
    flushing: Vec<Flush>,
    to_flush: Vec<Flush>,
    wait_until: Option<Nanos>,
    /// The scheduler was exchanged: nothing goes to the device before this time, nor while anything is there that the one before
    /// had picked.
    frozen_until: Option<Nanos>,
    /// What happened since it was last taken; `None` if it is not recorded.
    notes: Option<Vec<ServerEvent>>,
    completions: Vec<Completion>,
    busy_at_completion: Nanos,
    tally: DeviceTally,
}

impl Queue {
    /// Puts `scheduler` in front of `device`.
    pub fn new(scheduler: Box<dyn Scheduler>, device: Box<dyn Device>, settings: QueueSettings) -> Queue {
        let mut queue = Queue {
            depth: device.queue_depth(),
            scheduler,
            device,
            settings,
            ledger: None,
            slots: Slab::new(),
            outside: Outside::default(),
            tags: None,
            wake_batch: 1,
            throttle: WriteBackThrottle::default(),
            active: [0; 2],
            at_device: 0,
            ahead: None,
            flushing: Vec::new(),
            to_flush: Vec::new(),
            wait_until: None,
            frozen_until: None,
            notes: None,
            completions: Vec::new(),
            busy_at_completion: Nanos::ZERO,
            tally: DeviceTally::default(),
        };
        queue.set_throttle();
        queue.set_waiting();
        queue
    }

    /// Throttles write-back as the settings say or, if they do not, as Linux does for this device and scheduler
    /// (`wbt_default_latency_nsec`). SCSI disks tell how many requests they take; for others nr_requests counts (`blk_queue_depth`).
    fn set_throttle(&mut self) {
        let by_device = Nanos::from_millis(if self.device.is_rotational() { 75 } else { 2 });
        let by_default = if self.scheduler.throttles_write_back() { by_device } else { Nanos::ZERO };
        let depth = if self.settings.has_budget { self.depth as u32 } else { self.settings.nr_requests };
        self.throttle.set(self.settings.write_back_latency.unwrap_or(by_default), depth, self.device.has_write_cache());
    }

    /// What requests need to be let in has perhaps changed: all that wait outside try again, or line up. Requests in the queue keep their
    /// places, and their tags if there are as many as before.
    fn set_waiting(&mut self) {
        let room = Room { nr_requests: self.settings.nr_requests, device: self.depth as u32 };
        let tags = self.scheduler.tags(&room);
        if tags.map(|tags| tags.depth) != self.tags.as_ref().map(Tags::depth) {
            self.slots.iter_mut().for_each(|(_, slot)| slot.tag = NO_TAG);
            self.tags = tags.map(|tags| Tags::new(tags.depth));
        }
        match tags {
            Some(tags) => {
                self.wake_batch = tags.wake_batch;
                self.outside.wake_all();
            }
            None => self.outside.line_up(),
        }
    }

    /// A process was put to sleep because too many pages are dirty: write-back may use more of the device for a while.
    pub(super) fn writer_sleeps(&mut self, now: Nanos) {
        self.throttle.writer_sleeps(now);
    }

    /// Says who shares the device, to this scheduler and those that follow it.
    pub fn set_roster(&mut self, roster: &Roster) {
        self.scheduler.set_roster(roster);
        self.ledger = Some(Box::new(Ledger::new(roster)));
    }

    /// Who shares the device, if anybody was said to.
    pub fn roster(&self) -> Option<&Roster> {
        self.ledger.as_deref().map(Ledger::roster)
    }

    /// What the device did for each of those who share it, if anybody was said to.
    pub fn ledger(&self) -> Option<&Ledger> {
        self.ledger.as_deref()
    }

    /// 512-byte sectors of the device.
    pub fn capacity_sectors(&self) -> u64 {
        self.device.capacity_sectors()
    }

    /// The device's counts so far.
    pub fn tally(&self) -> DeviceTally {
        self.tally
    }

    /// How long the device had been busy when it last completed a request. The writes in its cache are still to be done then.
    pub fn busy_at_completion(&self) -> Nanos {
        self.busy_at_completion
    }

    /// The counts of the device's translation layer, if it is a flash device.
    pub fn flash(&self) -> Option<FlashTally> {
        self.device.flash()
    }

    /// How long the device has been busy so far.
    pub fn busy(&self) -> Nanos {
        self.device.busy()
    }

    /// Changes the settings, the scheduler's limits among them.
    pub fn set_settings(&mut self, now: Nanos, settings: QueueSettings) {
        self.settings = settings;
        self.scheduler.set_limits(&settings.limits());
        self.throttle.catch_up(now);
        self.set_throttle();
        self.set_waiting();
        self.fill(now);
    }

    /// The settings in force.
    pub fn settings(&self) -> QueueSettings {
        self.settings
    }

    /// Gives the tunables of the scheduler new values, in their order. Costs nothing: requests stay where they are.
    pub fn retune(&mut self, values: &[i64]) {
        self.scheduler.retune(values);
    }

    /// Replaces the scheduler; the old one hands over the requests it holds. Nothing goes to the device until all requests there are
    /// done and [`switch_time`](QueueSettings::switch_time) has passed; new requests wait in the successor meanwhile. A queue that
    /// never had a request has nothing to hold up.
    pub fn switch(&mut self, now: Nanos, mut successor: Box<dyn Scheduler>) {
        successor.set_limits(&self.settings.limits());
        if let Some(ledger) = &self.ledger {
            successor.set_roster(ledger.roster());
        }
        let mut merges = Vec::new();
        if let Some(ahead) = self.ahead.take() {
            // The first to come: nothing is there that it could merge with.
            successor.insert(now, ahead);
        }
        block::switch(&mut *self.scheduler, &mut *successor, now, |request, insertion| merges.push((*request, insertion)));
        self.scheduler = successor;
        for (request, insertion) in merges {
            if self.follow(now, request.id, insertion) {
                self.active[kind(&request)] -= 1;
                self.release(now, request.id);
            }
        }
        self.throttle.catch_up(now);
        self.set_throttle();
        self.set_waiting();
        self.wait_until = None;
        let ever_had_a_request = self.tally.requests > 0 || !self.slots.is_empty();
        if ever_had_a_request {
            self.frozen_until = Some(self.frozen_until.unwrap_or(now).max(now + self.settings.switch_time));
        }
        self.fill(now);
        if ever_had_a_request {
            self.read_at_take_over(now);
        }
    }

    /// As many begin to read at once as the scheduler needs to see.
    fn read_at_take_over(&mut self, now: Nanos) {
        let readers = self.scheduler.live_switch().min_readers.min(TAKE_OVER_READERS);
        let pages = self.capacity_sectors() / u64::from(TAKE_OVER_SECTORS);
        for reader in 0..readers.min(u32::try_from(pages).unwrap_or(u32::MAX)) {
            let (lba, sectors) = (u64::from(reader * TAKE_OVER_SECTORS), TAKE_OVER_SECTORS);
            let (stream, priority, token) = (TAKE_OVER - reader, Priority::DEFAULT, 0);
            self.take_in(now, Issue { arrival: now, lba, sectors, op: Op::Read, sync: true, stream, priority, token });
        }
    }

    /// Whether nothing may go to the device at `now`. Ends the freeze when its time has come.
    fn is_frozen(&mut self, now: Nanos) -> bool {
        let Some(until) = self.frozen_until else { return false };
        if now >= until && self.at_device == 0 && self.flushing.is_empty() {
            self.frozen_until = None;
        }
        self.frozen_until.is_some()
    }

    /// Whether nothing may go to the device at `now`, and until when. Kept out of [`dispatch`](Server::dispatch), which is called for
    /// every request, so that that stays short.
    #[cold]
    fn waits_for_thaw(&mut self, now: Nanos) -> bool {
        let is_frozen = self.is_frozen(now);
        self.wait_until = self.frozen_until.filter(|&until| until > now && self.has_work_to_send());
        is_frozen
    }

    /// Records an event above the queue, if events are recorded.
    pub(super) fn note_down(&mut self, noted: ServerEvent) {
        if let Some(notes) = &mut self.notes {
            notes.push(noted);
        }
    }

    /// Starts recording what happens to each issue, for [`take_events`](Queue::take_events).
    pub fn note(&mut self) {
        self.notes.get_or_insert_default();
    }

    /// Appends what was recorded since the last call, in the order in which it happened.
    pub fn take_events(&mut self, into: &mut Vec<ServerEvent>) {
        if let Some(notes) = &mut self.notes {
            into.append(notes);
        }
    }

    /// Whether a further issue of this stream, synchronous or not, would have to wait outside. Where there are tags one finds out by
    /// trying, and can ask nothing more then: full is what the stream waits for already.
    pub fn is_full(&self, stream: StreamId, sync: bool) -> bool {
        match self.tags {
            Some(_) => self.outside.has_stream(stream),
            None => self.outside.has(sync) || !self.has_place(sync),
        }
    }

    /// Where there are no tags: whether there is a place for one more.
    #[inline]
    fn has_place(&self, sync: bool) -> bool {
        self.active[usize::from(sync)] < self.settings.nr_requests
    }

    /// A tag for one more request, to which so many are open; `Some(NO_TAG)` if it may come without. `None` under a scheduler that knows no
    /// tags, too.
    #[inline]
    fn take_tag(&mut self, open: u32) -> Option<u32> {
        let active = self.active[0] + self.active[1];
        let tags = self.tags.as_mut()?;
        // Some of those that are in may have no tag.
        let tag = if active < tags.depth() { tags.take(open) } else { None };
        tag.or((active == 0).then_some(NO_TAG))
    }

    /// How many tags are open to the next part of an issue.
    #[inline]
    fn open_tags(&self, now: Nanos, issue: &Issue) -> u32 {
        let request = request(now, NO_TAG, issue, 0, issue.sectors);
        self.tags.as_ref().map_or(0, |tags| self.scheduler.open_tags(tags.depth(), &request))
    }

    /// Empties the device's volatile write cache on behalf of `stream` (`blkdev_issue_flush`): all that has completed by now is on
    /// the media when [`Finished::Flush`] hands back `token`. False if the device has no such cache: nothing is handed back then.
    pub fn flush(&mut self, now: Nanos, stream: StreamId, token: u64) -> bool {
        let flush = Flush { arrival: now, stream, token };
        if !self.flushing.is_empty() || self.is_frozen(now) {
            self.to_flush.push(flush);
        } else if self.device.flush(now, FLUSH) {
            self.flushing.push(flush);
        } else {
            return false;
        }
        true
    }

    /// The flush at the device is done, for all that waited for it.
    fn flushed(&mut self, at: Nanos, finished: &mut Vec<Finished>) {
        report(&mut self.flushing, at, &mut self.notes, finished);
        self.flush_next(at, finished);
    }

    /// Sends the next flush to the device, for all that wait, if none is there and it may go.
    fn flush_next(&mut self, at: Nanos, finished: &mut Vec<Finished>) {
        if self.to_flush.is_empty() || !self.flushing.is_empty() || self.is_frozen(at) {
            return;
        }
        if self.device.flush(at, FLUSH) {
            std::mem::swap(&mut self.flushing, &mut self.to_flush);
        }
        report(&mut self.to_flush, at, &mut self.notes, finished);
    }

    /// Whether a request waits for the device.
    fn has_work_to_send(&self) -> bool {
        (self.active[0] + self.active[1]) as usize > self.at_device || !self.to_flush.is_empty()
    }

    /// Lets in what there is room for.
    fn fill(&mut self, now: Nanos) {
        // Apart from the rest, which says what there is room for.
        let mut outside = std::mem::take(&mut self.outside);
        self.throttle.catch_up(now);
        if self.tags.is_some() {
            self.fill_awake(now, &mut outside);
            self.outside = outside;
            return;
        }
        while let Some(mut entry) = outside.take(|sync| self.has_place(sync), |issue| self.is_not_throttled(now, issue)) {
            entry.begun = self.insert_part(now, &entry.issue, entry.begun, NO_TAG);
            if entry.begun.is_some() {
                outside.put_back(entry);
            }
        }
        self.outside = outside;
    }

    /// Lets those that are awake try, one request each in turn, until they are through or asleep. Nobody sleeps while the queue is empty.
    fn fill_awake(&mut self, now: Nanos, outside: &mut Outside) {
        loop {
            let Some(stream) = outside.next_awake() else {
                let wakes = outside.wake_held(|issue| self.is_not_throttled(now, issue));
                if wakes || (self.active == [0; 2] && outside.wake_first()) {
                    continue;
                }
                return;
            };
            let Some(&Entry { issue, begun, open_tags }) = outside.first_of(stream) else { continue };
            if !self.is_not_throttled(now, &issue) {
                outside.is_held_back(stream);
                continue;
            }
            // Who sleeps for a tag is not asked again which it may take.
            let open = open_tags.unwrap_or_else(|| self.open_tags(now, &issue));
            if let Some(tag) = self.take_tag(open) {
                let begun = self.insert_part(now, &issue, begun, tag);
                outside.goes_on(stream, begun);
            } else {
                outside.sleeps(stream, open);
            }
        }
    }

    /// Lets an issue in, or has it wait outside.
    #[inline]
    fn take_in(&mut self, now: Nanos, issue: Issue) {
        if self.throttle.is_on() {
            self.throttle.catch_up(now);
            if issue.op == Op::Read {
                self.throttle.read_submitted(now);
            }
        }
        let has_tags = self.tags.is_some();
        let is_next =
            self.outside.is_empty() || (has_tags || !self.outside.has(issue.is_sync())) && !self.outside.has_stream(issue.stream);
        if is_next && issue.sectors <= self.settings.max_sectors && self.is_not_throttled(now, &issue) {
            let tag = if has_tags {
                self.take_tag(self.open_tags(now, &issue))
            } else {
                self.has_place(issue.is_sync()).then_some(NO_TAG)
            };
            if let Some(tag) = tag {
                self.insert_part(now, &issue, None, tag);
                return;
            }
        }
        if has_tags {
            self.outside.push_awake(issue)
        } else {
            self.outside.push(issue)
        }
        self.fill(now);
    }

    /// Inserts the next part of an issue, at most a request's size, and says what has begun then if there is a rest. The first part becomes
    /// the owner of all.
    fn insert_part(&mut self, now: Nanos, issue: &Issue, begun: Option<(RequestId, u32)>, tag: u32) -> Option<(RequestId, u32)> {
        let inserted = begun.map_or(0, |(_, inserted)| inserted);
        let most = if issue.op.transfers() { self.settings.max_sectors } else { MAX_DISCARD_SECTORS };
        let sectors = (issue.sectors - inserted).min(most);
        let id = self.slots.vacant_key() as RequestId;
        let request = request(now, id, issue, inserted, sectors);
        let owner = begun.map_or(id, |(owner, _)| owner);
        let (open_parts, dispatched) = (0, Nanos::ZERO);
        let throttled = None;
        let slot = Slot { request, next_part: NONE, last_part: id, dispatched, owner, open_parts, issue: *issue, tag, throttled };
        self.slots.insert(slot);
        self.slots[owner as usize].open_parts += 1;
        let rest = inserted + sectors;
        let insertion = self.scheduler.insert(now, request);
        if self.follow(now, id, insertion) {
            self.give_tag_back(id);
        } else {
            self.active[kind(&request)] += 1;
            if self.throttle.is_on()
                && let Some(class) = class(request.op, request.sync, request.stream)
            {
                self.slots[id as usize].throttled = Some(class);
                self.throttle.took(now, class);
            }
        }
        (rest < issue.sectors).then_some((owner, rest))
    }

    /// Sends to the device what may go there.
    #[inline]
    fn send(&mut self, now: Nanos) {
        self.wait_until = None;
        if self.frozen_until.is_some() && self.waits_for_thaw(now) {
            return;
        }
        while self.at_device < self.depth {
            let Some(request) = self.ahead.take().or_else(|| self.pick(now)) else { return };
            self.at_device += 1;
            self.device.submit(now, &request);
            if request.op == Op::Read && self.throttle.is_on() {
                self.throttle.read_dispatched(now, request.id);
            }
            let slot = &mut self.slots[request.id as usize];
            slot.request = request;
            slot.dispatched = now;
        }
        if !self.settings.has_budget && self.ahead.is_none() {
            self.ahead = self.pick(now);
        }
    }

    /// Takes a request from the scheduler, or notes until when it waits.
    #[inline]
    fn pick(&mut self, now: Nanos) -> Option<Request> {
        let device = &mut self.device;
        match self.scheduler.pick_with_cost(now, &mut |request| device.time_to_reach(now, request)) {
            Pick::Go(request) => Some(request),
            Pick::WaitUntil(until) => {
                debug_assert!(until > now, "a scheduler may wait only for the future");
                self.wait_until = Some(until.max(now + Nanos(1)));
                None
            }
            Pick::Empty => None,
        }
    }

    /// Keeps the chains of parts in step with a merge. True if `id` no longer stands for a request of its own.
    fn follow(&mut self, now: Nanos, id: RequestId, insertion: Insertion) -> bool {
        let Insertion::Merged { into, absorbed } = insertion else { return false };
        self.append(into, id);
        if let Some(absorbed) = absorbed {
            self.append(into, absorbed);
            self.active[kind(&self.slots[absorbed as usize].request)] -= 1;
            self.give_tag_back(absorbed);
            self.release(now, absorbed);
        }
        true
    }

    /// This slot no longer stands for a request of its own.
    #[inline]
    fn give_tag_back(&mut self, id: RequestId) {
        let tag = std::mem::replace(&mut self.slots[id as usize].tag, NO_TAG);
        if let Some(tags) = &mut self.tags
            && tag != NO_TAG
        {
            tags.give_back(tag);
        }
    }

    /// This slot no longer stands for a request that write-back throttling counts.
    fn release(&mut self, now: Nanos, id: RequestId) {
        if let Some(class) = self.slots[id as usize].throttled.take() {
            self.throttle.released(now, class);
        }
    }

    /// Whether write-back throttling lets it in now.
    #[inline]
    fn is_not_throttled(&self, now: Nanos, issue: &Issue) -> bool {
        let class = if self.throttle.is_on() { class(issue.op, issue.is_sync(), issue.stream) } else { None };
        class.is_none_or(|class| self.throttle.lets_in(now, class, issue.stream))
    }

    fn append(&mut self, into: RequestId, chain: RequestId) {
        let last = self.slots[into as usize].last_part;
        self.slots[last as usize].next_part = chain;
        self.slots[into as usize].last_part = self.slots[chain as usize].last_part;
    }

    fn finish(&mut self, completion: &Completion, finished: &mut Vec<Finished>) {
        let head = &self.slots[completion.id as usize];
        let dispatched = head.dispatched;
        if let (Some(ledger), Some(work)) = (&mut self.ledger, completion.work) {
            ledger.worked(completion.at, &head.request, work);
        }
        // During a freeze, the requests at the device were picked by the previous scheduler.
        if self.frozen_until.is_none() {
            if let Some(work) = completion.work {
                self.scheduler.record_disk_time(&head.request, work);
            }
            self.scheduler.completed(completion.at, &head.request, completion.at - dispatched);
        }
        self.active[kind(&head.request)] -= 1;
        if self.tags.is_some() {
            self.outside.tag_freed(self.wake_batch);
        }
        if self.throttle.is_on() {
            self.throttle.completed(completion.at, completion.id, head.request.op, completion.at - dispatched);
        }
        self.at_device -= 1;
        self.tally.requests += 1;
        self.tally.in_queue_ns += u128::from((completion.at - head.request.arrival).0);
        if !completion.cache_hit {
            self.tally.mechanical += 1;
            self.tally.seek += completion.seek;
            self.tally.rotation += completion.rotation;
            self.tally.seek_cylinders += u64::from(completion.seek_cylinders);
        }
        self.give_tag_back(completion.id);
        self.release(completion.at, completion.id);
        let mut part = completion.id;
        while part != NONE {
            let Slot { owner, next_part, .. } = self.slots[part as usize];
            if part != owner {
                self.slots.remove(part as usize);
            }
            let stream = self.slots[owner as usize].issue.stream;
            let whole = self.slots[owner as usize].open_parts == 1 && !self.outside.has_rest_of(stream, owner);
            self.slots[owner as usize].open_parts -= 1;
            if whole {
                let done = Transferred { issue: self.slots.remove(owner as usize).issue, dispatched, at: completion.at };
                if !is_of_take_over(stream) {
                    finished.push(Finished::Transfer(done));
                    if let Some(notes) = &mut self.notes {
                        notes.push(ServerEvent::Finished(done));
                    }
                }
            }
            part = next_part;
        }
    }
}

#[inline]
fn earliest(a: Option<Nanos>, b: Option<Nanos>) -> Option<Nanos> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// Flushes are done.
fn report(flushes: &mut Vec<Flush>, at: Nanos, notes: &mut Option<Vec<ServerEvent>>, finished: &mut Vec<Finished>) {
    for flush in flushes.drain(..) {
        let flushed = flush.done(at);
        if let Some(notes) = notes {
            notes.push(ServerEvent::Flushed(flushed));
        }
        finished.push(Finished::Flush(flushed));
    }
}

/// So many sectors of an issue as a request, after those that went in before.
fn request(now: Nanos, id: RequestId, issue: &Issue, inserted: u32, sectors: u32) -> Request {
    Request {
        id,
        stream: issue.stream,
        op: issue.op,
        sync: issue.is_sync(),
        priority: issue.priority,
        sectors,
        lba: issue.lba + u64::from(inserted),
        // Expiry times count from here, as in Linux, however long the issuer had to wait for room.
        arrival: now,
    }
}

/// Synchronous or not, as an index.
fn kind(request: &Request) -> usize {
    usize::from(request.sync)
}

impl Server for Queue {
    type Work = Issue;

    fn has_room(&self) -> bool {
        self.outside.len() < WAITING
    }

    #[inline]
    fn admit(&mut self, now: Nanos, issue: Issue) {
        if let Some(notes) = &mut self.notes {
            notes.push(ServerEvent::Issued(issue));
        }
        self.take_in(now, issue);
    }

    fn next_event(&self) -> Option<Nanos> {
        earliest(earliest(self.device.wake_at(), self.wait_until), self.throttle.next_event())
    }
    fn advance(&mut self, now: Nanos, finished: &mut Vec<Finished>) {
        let mut completions = std::mem::take(&mut self.completions);
        self.device.advance(now, &mut completions);
        if !completions.is_empty() {
            self.busy_at_completion = self.device.busy();
        }
        for completion in &completions {
            match completion.id {
                FLUSH => self.flushed(now, finished),
                _ => self.finish(completion, finished),
            }
        }
        completions.clear();
        self.completions = completions;
        self.flush_next(now, finished);
        if !self.outside.is_empty() {
            self.fill(now);
        }
    }

    fn steerable(&mut self) -> Option<&mut dyn Steerable> {
        Some(self)
    }

    #[inline]
    fn dispatch(&mut self, now: Nanos) {
        self.send(now);
        if let Some(ledger) = &mut self.ledger {
            let waits = (self.active[0] + self.active[1]) as usize > self.at_device || !self.outside.is_empty();
            ledger.stands(now, waits && self.at_device == 0 && self.flushing.is_empty());
        }
    }
}
