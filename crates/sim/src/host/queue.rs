//! The queue of a block device: admission, splitting, merging, dispatch.
//!
//! ```text
//! Issue --admit--> waiting --> [split at max_sectors] --insert--> Scheduler --pick--> Device (queue_depth at once)
//!                  while nr_requests of its                           |                   |
//!                  kind are further right                             |<--- completed ----|--> Finished
//! ```
//! Synchronous and asynchronous requests have `nr_requests` each, so that write-back cannot lock readers out (the two counts of
//! `struct request_list` in Linux's single-queue block layer, to which the schedulers here belong).
//!
//! A merged request carries its parts as a chain through the slots, so that one completion ends them all.

use std::collections::VecDeque;

use block::{Insertion, Limits, Merges, Nanos, Op, Pick, Priority, Request, RequestId, Scheduler, StreamId};

use crate::device::{Completion, Device};
use crate::run::Server;

const NONE: u32 = u32::MAX;

/// What a discard is split at, which is not what transfers are (`max_discard_sectors` in `blk-settings.c`, at most 2^32 - 1 bytes).
const MAX_DISCARD_SECTORS: u32 = u32::MAX >> 9;

/// Issues that may wait outside the queue. When they do, time stands still for the source: its next requests come late, though
/// their response time counts from when they should have come.
const WAITING: usize = 65_536;

/// A request of the workload, placed on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Issue {
    /// When it was issued; the response time counts from here even if the host's queue was full.
    pub arrival: Nanos,
    /// The first sector.
    pub lba: u64,
    /// How many sectors; never 0.
    pub sectors: u32,
    /// Read, write or discard.
    pub op: Op,
    /// Whether somebody waits for it.
    pub sync: bool,
    /// Whose.
    pub stream: StreamId,
    /// How urgent.
    pub priority: Priority,
    /// The source's own number for it, handed back in [`Finished`].
    pub token: u64,
}

/// An [`Issue`] that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// What was issued.
    pub issue: Issue,
    /// When its last part went to the device.
    pub dispatched: Nanos,
    /// When its last part was done.
    pub at: Nanos,
}

/// The queue's own settings, under Linux's names (`/sys/block/*/queue`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueSettings {
    /// Requests that may be queued or at the device at once, synchronous and asynchronous ones each; whoever issues more waits.
    /// At least 1.
    pub nr_requests: u32,
    /// Larger reads and writes are split, and merging stops, at this many sectors. At least 1.
    pub max_sectors: u32,
    /// Which requests the scheduler may merge.
    pub merges: Merges,
}

impl QueueSettings {
    /// What the scheduler must keep to.
    pub fn limits(&self) -> Limits {
        Limits { max_sectors: self.max_sectors, merges: self.merges }
    }
}

impl Default for QueueSettings {
    /// What Linux gives a disk under a scheduler: 256 requests, 1,280 KiB.
    fn default() -> QueueSettings {
        QueueSettings { nr_requests: 256, max_sectors: 2560, merges: Merges::All }
    }
}

/// What the device told about its work, summed up.
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
}

#[derive(Clone, Copy)]
struct Slot {
    /// As inserted; of a request at the device as picked, merges included.
    request: Request,
    operation: u32,
    next_part: u32,
    last_part: u32,
    dispatched: Nanos,
}

#[derive(Clone, Copy)]
struct Operation {
    issue: Issue,
    open_parts: u32,
}

/// One scheduler in front of one device.
pub struct Queue {
    scheduler: Box<dyn Scheduler>,
    device: Box<dyn Device>,
    settings: QueueSettings,
    slots: Vec<Slot>,
    free_slots: Vec<u32>,
    operations: Vec<Operation>,
    free_operations: Vec<u32>,
    /// By kind, asynchronous and synchronous: issues for which the queue has no room.
    waiting: [VecDeque<Issue>; 2],
    /// By kind: the operation that is not yet split up and inserted wholly, and the sectors of it that are.
    pending: [Option<(u32, u32)>; 2],
    /// By kind: requests queued or at the device; a merged one counts once.
    active: [u32; 2],
    at_device: usize,
    wait_until: Option<Nanos>,
    completions: Vec<Completion>,
    busy_at_completion: Nanos,
    tally: DeviceTally,
}

impl Queue {
    /// Puts `scheduler` in front of `device`.
    pub fn new(scheduler: Box<dyn Scheduler>, device: Box<dyn Device>, settings: QueueSettings) -> Queue {
        Queue {
            scheduler,
            device,
            settings,
            slots: Vec::new(),
            free_slots: Vec::new(),
            operations: Vec::new(),
            free_operations: Vec::new(),
            waiting: [VecDeque::new(), VecDeque::new()],
            pending: [None; 2],
            active: [0; 2],
            at_device: 0,
            wait_until: None,
            completions: Vec::new(),
            busy_at_completion: Nanos::ZERO,
            tally: DeviceTally::default(),
        }
    }

    /// 512-byte sectors of the device.
    pub fn capacity_sectors(&self) -> u64 {
        self.device.capacity_sectors()
    }

    /// What the device has done so far.
    pub fn tally(&self) -> DeviceTally {
        self.tally
    }

    /// How long the device had been at work when it last completed a request. What its write cache holds then is still to be done.
    pub fn busy_at_completion(&self) -> Nanos {
        self.busy_at_completion
    }

    /// How long the device has been at work so far.
    pub fn busy(&self) -> Nanos {
        self.device.busy()
    }

    /// Changes the settings, the scheduler's limits among them.
    pub fn set_settings(&mut self, now: Nanos, settings: QueueSettings) {
        self.settings = settings;
        self.scheduler.set_limits(&settings.limits());
        self.fill(now);
    }

    /// Whether a further issue, synchronous or not, would have to wait outside.
    pub fn is_full(&self, sync: bool) -> bool {
        let kind = usize::from(sync);
        self.pending[kind].is_some() || !self.waiting[kind].is_empty() || self.active[kind] >= self.settings.nr_requests
    }

    /// Lets in what there is room for.
    fn fill(&mut self, now: Nanos) {
        for kind in 0..2 {
            while self.active[kind] < self.settings.nr_requests {
                let next = self.pending[kind].or_else(|| {
                    let issue = self.waiting[kind].pop_front()?;
                    Some((self.new_operation(issue), 0))
                });
                let Some((operation, inserted)) = next else { break };
                self.insert_part(now, kind, operation, inserted);
            }
        }
    }

    fn insert_part(&mut self, now: Nanos, kind: usize, operation: u32, inserted: u32) {
        let issue = self.operations[operation as usize].issue;
        let most = if issue.op.transfers() { self.settings.max_sectors } else { MAX_DISCARD_SECTORS };
        let sectors = (issue.sectors - inserted).min(most);
        self.operations[operation as usize].open_parts += 1;
        let rest = inserted + sectors;
        self.pending[kind] = (rest < issue.sectors).then_some((operation, rest));
        let request = Request {
            id: 0,
            stream: issue.stream,
            op: issue.op,
            sync: issue.sync,
            priority: issue.priority,
            sectors,
            lba: issue.lba + u64::from(inserted),
            // Expiry times count from here, as in Linux, however long the issuer had to wait for room.
            arrival: now,
        };
        let id = self.new_slot(request, operation);
        let insertion = self.scheduler.insert(now, Request { id, ..request });
        if !self.follow(id, insertion) {
            self.active[kind] += 1;
        }
    }

    fn new_operation(&mut self, issue: Issue) -> u32 {
        let operation = self.free_operations.pop().unwrap_or(self.operations.len() as u32);
        let entry = Operation { issue, open_parts: 0 };
        match self.operations.get_mut(operation as usize) {
            Some(place) => *place = entry,
            None => self.operations.push(entry),
        }
        operation
    }

    /// Keeps the chains of parts in step with a merge. True if `id` no longer stands for a request of its own.
    fn follow(&mut self, id: RequestId, insertion: Insertion) -> bool {
        let Insertion::Merged { into, absorbed } = insertion else { return false };
        self.append(into, id);
        if let Some(absorbed) = absorbed {
            self.append(into, absorbed);
            self.active[kind(&self.slots[absorbed as usize].request)] -= 1;
        }
        true
    }

    fn append(&mut self, into: RequestId, chain: RequestId) {
        let last = self.slots[into as usize].last_part;
        self.slots[last as usize].next_part = chain;
        self.slots[into as usize].last_part = self.slots[chain as usize].last_part;
    }

    fn new_slot(&mut self, request: Request, operation: u32) -> RequestId {
        let id = self.free_slots.pop().unwrap_or(self.slots.len() as u32);
        let slot = Slot { request: Request { id, ..request }, operation, next_part: NONE, last_part: id, dispatched: Nanos::ZERO };
        match self.slots.get_mut(id as usize) {
            Some(place) => *place = slot,
            None => self.slots.push(slot),
        }
        id
    }

    fn finish(&mut self, completion: &Completion, finished: &mut Vec<Finished>) {
        let head = self.slots[completion.id as usize];
        self.scheduler.completed(completion.at, &head.request, completion.at - head.dispatched);
        self.active[kind(&head.request)] -= 1;
        self.at_device -= 1;
        self.tally.requests += 1;
        if !completion.cache_hit {
            self.tally.mechanical += 1;
            self.tally.seek += completion.seek;
            self.tally.rotation += completion.rotation;
            self.tally.seek_cylinders += u64::from(completion.seek_cylinders);
        }
        let mut part = completion.id;
        while part != NONE {
            let slot = self.slots[part as usize];
            self.free_slots.push(part);
            let operation = &mut self.operations[slot.operation as usize];
            operation.open_parts -= 1;
            let whole = !self.pending.iter().flatten().any(|&(pending, _)| pending == slot.operation);
            if operation.open_parts == 0 && whole {
                finished.push(Finished { issue: operation.issue, dispatched: head.dispatched, at: completion.at });
                self.free_operations.push(slot.operation);
            }
            part = slot.next_part;
        }
    }
}

/// Synchronous or not, as an index.
fn kind(request: &Request) -> usize {
    usize::from(request.sync)
}

impl Server for Queue {
    type Work = Issue;

    fn has_room(&self) -> bool {
        self.waiting[0].len() + self.waiting[1].len() < WAITING
    }

    fn admit(&mut self, now: Nanos, issue: Issue) {
        self.waiting[usize::from(issue.sync)].push_back(issue);
        self.fill(now);
    }

    fn next_event(&self) -> Option<Nanos> {
        match (self.device.wake_at(), self.wait_until) {
            (Some(device), Some(scheduler)) => Some(device.min(scheduler)),
            (device, scheduler) => device.or(scheduler),
        }
    }

    fn advance(&mut self, now: Nanos, finished: &mut Vec<Finished>) {
        let mut completions = std::mem::take(&mut self.completions);
        self.device.advance(now, &mut completions);
        if !completions.is_empty() {
            self.busy_at_completion = self.device.busy();
        }
        for completion in completions.drain(..) {
            self.finish(&completion, finished);
        }
        self.completions = completions;
        self.fill(now);
    }

    fn dispatch(&mut self, now: Nanos) {
        self.wait_until = None;
        while self.at_device < self.device.queue_depth() {
            match self.scheduler.pick(now) {
                Pick::Go(request) => {
                    let slot = &mut self.slots[request.id as usize];
                    slot.request = request;
                    slot.dispatched = now;
                    self.at_device += 1;
                    self.device.submit(now, &request);
                }
                Pick::WaitUntil(until) => {
                    debug_assert!(until > now, "a scheduler may wait only for the future");
                    self.wait_until = Some(until.max(now + Nanos(1)));
                    break;
                }
                Pick::Empty => break,
            }
        }
    }
}
