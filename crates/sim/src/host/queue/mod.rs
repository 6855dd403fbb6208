//! The queue of a block device: admission, splitting, merging, dispatch.
//!
//! ```text
//! Issue --io.max--> TagWaiters --> [split into parts] --insert--> Scheduler --dispatch--> Device (queue_depth at once)
//!                  until there                                       |                     |
//!                  is room                                           |<---- complete ------|--> Finished
//! ```
//! * An *issue* is a request by an issuer; a *waiter* is an issue that is not completely admitted.
//! * A *part* of an issue fits into a request; most issues have one. The number of its slot is the id of its request.
//! * A *request* is sorted by the scheduler and served by the device; a merged one contains several parts.
//!
//! The parts of a merged request form a chain through their slots, so that one completion ends them all. The chain is only ever
//! appended to and walked once, so two words in each slot suffice; a `block::list::List` in every slot would take five.

mod admit;
mod dispatch;
mod flush;
mod io_max;
mod port;
mod switch;
mod tag_waiters;
mod tags;
mod write_back_throttle;

use block::throttle::Throttle;
use block::{Limits, Merges, Nanos, Request, Roster, Scheduler, Standing};

use slab::Slab;

use self::flush::{FLUSH, Flushes};
use self::port::Port;
use self::tag_waiters::TagWaiters;
use self::tags::Tags;
use self::write_back_throttle::{Class, WriteBackThrottle};
use super::ledger::Ledger;
use crate::device::Device;
use crate::device::FlashTally;
use crate::run::{Finished, Issue, Server, ServerEvent, Steerable};

pub use self::port::DeviceTally;

/// Represents no part.
const NO_PART: u32 = u32::MAX;

/// Number of waiting issues above which the source is throttled: its next requests are issued late, though their response time counts
/// from when they were due.
const MAX_WAITERS: usize = 65_536;

/// The queue's own settings, under Linux's names (`/sys/block/*/queue`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueSettings {
    /// Number of requests that may be queued or at the device at once, as the scheduler counts them; further ones wait. At least 1.
    pub nr_requests: u32,
    /// Size in sectors above which reads and writes are split and merging stops. At least 1.
    pub max_sectors: u32,
    /// Merges that the scheduler may make.
    pub merges: Merges,
    /// Target latency of reads at the device above which buffered writes are throttled (`wbt_lat_usec`); zero: no throttling; `None`:
    /// Linux's default for the device and the scheduler.
    pub write_back_latency: Option<Nanos>,
    /// Whether the driver checks that the device has room before a request is picked from the scheduler, as for SCSI disks
    /// (`scsi_mq_get_budget` in `drivers/scsi/scsi_lib.c`). Otherwise one more request than the device accepts is picked and waits for a
    /// driver tag, where it is neither sorted nor overtaken (`__blk_mq_do_dispatch_sched` in `block/blk-mq-sched.c`): loop devices,
    /// NVMe, virtio.
    pub has_budget: bool,
    /// Tags of the driver if there are more than the device accepts at once: those of a SCSI host are shared by all its drives
    /// (`can_queue`; 32 for AHCI, even if a drive without NCQ takes one request at a time).
    pub driver_tags: u32,
    /// Minimum time without dispatch when the scheduler is replaced.
    pub switch_time: Nanos,
}

impl QueueSettings {
    /// The limits for the scheduler.
    pub fn limits(&self) -> Limits {
        Limits { max_sectors: self.max_sectors, merges: self.merges }
    }
}

impl Default for QueueSettings {
    /// Linux's defaults for a disk with a scheduler: 256 requests, 1,280 KiB; replacing the scheduler takes 35 ms.
    fn default() -> QueueSettings {
        QueueSettings {
            nr_requests: 256,
            max_sectors: 2560,
            merges: Merges::All,
            write_back_latency: None,
            has_budget: true,
            driver_tags: 0,
            switch_time: Nanos::from_millis(35),
        }
    }
}

/// A part of an issue: a separate request, or merged into another part's.
struct Part {
    /// As inserted; once at the device, as picked, including merged parts.
    request: Request,
    /// The next part in the same request.
    next_part: u32,
    /// In the first part of a request: its last part.
    last_part: u32,
    dispatched: Nanos,
    /// The first part of the same issue, which represents the issue.
    first_part: u32,
    /// In the first part of an issue: number of parts that are queued or at the device. The slot is in use while there are any.
    open_parts: u32,
    /// In the first part of an issue: the issue.
    issue: Issue,
    /// The tag; valid while it is a separate request.
    tag: u32,
    /// Its class for write-back throttling; `None` if it is not counted, or not a separate request.
    throttled: Option<Class>,
}

/// One scheduler in front of one device.
pub struct Queue {
    scheduler: Box<dyn Scheduler>,
    port: Port,
    settings: QueueSettings,
    /// Tenants of the device, passed to every scheduler, and their accounts.
    ledger: Option<Box<Ledger>>,
    /// The tenants' limits, and the issues that wait for them; `None` until a limit is set.
    io_max: Option<Box<Throttle<Issue>>>,
    parts: Slab<Part>,
    waiters: TagWaiters,
    /// `None` if the scheduler has no tags.
    tags: Option<Tags>,
    throttle: WriteBackThrottle,
    /// Requests queued or at the device: asynchronous, synchronous. A merged one counts once.
    admitted: [u32; 2],
    flushes: Flushes,
    wait_until: Option<Nanos>,
    /// End of the freeze after the scheduler was replaced: nothing is dispatched before this time, nor while the device has a request
    /// picked by the previous scheduler.
    frozen_until: Option<Nanos>,
    /// Events recorded since they were last taken; `None` if they are not recorded.
    notes: Option<Vec<ServerEvent>>,
}

impl Queue {
    /// Puts `scheduler` in front of `device`.
    pub fn new(scheduler: Box<dyn Scheduler>, device: Box<dyn Device>, settings: QueueSettings) -> Queue {
        let mut queue = Queue {
            scheduler,
            port: Port::new(device),
            settings,
            ledger: None,
            io_max: None,
            parts: Slab::new(),
            waiters: TagWaiters::default(),
            tags: None,
            throttle: WriteBackThrottle::default(),
            admitted: [0; 2],
            flushes: Flushes::default(),
            wait_until: None,
            frozen_until: None,
            notes: None,
        };
        queue.set_throttle();
        queue.reset_tags();
        queue
    }

    /// Reports that a process was put to sleep because of too many dirty pages: write-back may use more of the device for a while.
    pub(super) fn writer_sleeps(&mut self, now: Nanos) {
        self.throttle.writer_sleeps(now);
    }

    /// Sets the tenants of the device, without limits, for this scheduler and its successors. Call it before anything is issued.
    pub fn set_roster(&mut self, roster: &Roster) {
        let roster = roster.clone().with_rotational(self.port.device.is_rotational());
        self.scheduler.set_roster(&roster);
        self.ledger = Some(Box::new(Ledger::new(&roster)));
        self.io_max = None;
        self.reset_tags();
    }

    /// The tenants of the device; `None` if none were set.
    pub fn roster(&self) -> Option<&Roster> {
        self.ledger.as_deref().map(Ledger::roster)
    }

    /// The device time of each tenant; `None` if none were set.
    pub fn ledger(&self) -> Option<&Ledger> {
        self.ledger.as_deref()
    }

    /// The state of a tenant's guarantee, by its number on the roster.
    pub fn standing(&self, now: Nanos, tenant: usize) -> Option<Standing> {
        self.scheduler.standing(now, tenant)
    }

    /// 512-byte sectors of the device.
    pub fn capacity_sectors(&self) -> u64 {
        self.port.device.capacity_sectors()
    }

    /// The device's counts so far.
    pub fn tally(&self) -> DeviceTally {
        self.port.tally
    }

    /// Busy time of the device up to its last completion, without writes that are still in its cache.
    pub fn busy_at_completion(&self) -> Nanos {
        self.port.busy_at_completion
    }

    /// Counts of the flash translation layer; `None` if it is not a flash device.
    pub fn flash(&self) -> Option<FlashTally> {
        self.port.device.flash()
    }

    /// Busy time of the device so far.
    pub fn busy(&self) -> Nanos {
        self.port.device.busy()
    }

    /// Changes the settings, including the scheduler's limits.
    pub fn set_settings(&mut self, now: Nanos, settings: QueueSettings) {
        self.settings = settings;
        self.scheduler.set_limits(&settings.limits());
        self.throttle.catch_up(now);
        self.set_throttle();
        self.reset_tags();
        self.admit_waiters(now);
    }

    /// Sets the number of requests at the device at once, at most its [`Device::queue_depth`] (`/sys/block/*/device/queue_depth`).
    pub fn set_depth(&mut self, depth: usize) {
        self.port.set_depth(depth);
        self.set_throttle();
        self.reset_tags();
    }

    /// The active settings.
    pub fn settings(&self) -> QueueSettings {
        self.settings
    }

    /// Sets the tunables of the scheduler, in their order. Takes no simulated time: requests stay queued.
    pub fn retune(&mut self, values: &[i64]) {
        self.scheduler.retune(values);
    }

    /// Records an event above the queue, if events are recorded.
    pub(super) fn record_event(&mut self, noted: ServerEvent) {
        if let Some(notes) = &mut self.notes {
            notes.push(noted);
        }
    }

    /// Starts recording events, for [`take_events`](Queue::take_events).
    pub fn record_events(&mut self) {
        self.notes.get_or_insert_default();
    }

    /// Appends the events recorded since the last call, in the order in which they happened.
    pub fn take_events(&mut self, into: &mut Vec<ServerEvent>) {
        if let Some(notes) = &mut self.notes {
            into.append(notes);
        }
    }
}

impl Queue {
    /// Handles an issue that passed the limits.
    #[inline]
    fn enter(&mut self, now: Nanos, issue: Issue) {
        if let Some(notes) = &mut self.notes {
            notes.push(ServerEvent::Issued(issue));
        }
        self.admit_issue(now, issue);
    }
}

#[inline]
fn earliest(a: Option<Nanos>, b: Option<Nanos>) -> Option<Nanos> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// The index of a request in the counts of admitted ones.
fn sync_index(request: &Request) -> usize {
    usize::from(request.sync)
}

impl Server for Queue {
    type Work = Issue;

    fn has_room(&self) -> bool {
        self.waiters.len() + self.held_back() < MAX_WAITERS
    }

    #[inline]
    fn admit(&mut self, now: Nanos, issue: Issue) {
        if self.io_max.is_none() {
            self.enter(now, issue);
        } else {
            self.admit_within_limits(now, issue);
        }
    }

    fn next_event(&self) -> Option<Nanos> {
        let of_limits = self.io_max.as_ref().and_then(|io_max| io_max.next_at());
        earliest(earliest(earliest(self.port.device.wake_at(), self.wait_until), self.throttle.next_event()), of_limits)
    }

    fn advance(&mut self, now: Nanos, finished: &mut Vec<Finished>) {
        let mut completions = self.port.advance(now);
        for completion in &completions {
            match completion.id {
                FLUSH => self.complete_flush(now, finished),
                _ => self.complete(completion, finished),
            }
        }
        completions.clear();
        self.port.return_buffer(completions);
        self.dispatch_flush(now, finished);
        if self.io_max.is_some() {
            self.release_held_back(now);
        }
        if !self.waiters.is_empty() {
            self.admit_waiters(now);
        }
    }

    fn steerable(&mut self) -> Option<&mut dyn Steerable> {
        Some(self)
    }

    #[inline]
    fn dispatch(&mut self, now: Nanos) {
        self.dispatch_requests(now);
        if let Some(ledger) = &mut self.ledger {
            let waits = (self.admitted[0] + self.admitted[1]) as usize > self.port.at_device() || !self.waiters.is_empty();
            ledger.set_idle(now, waits && self.port.at_device() == 0 && !self.flushes.is_active());
        }
    }
}
