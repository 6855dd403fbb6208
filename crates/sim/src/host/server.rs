//! The host: takes calls, leads each through its stages, and ends it when all it needs is done.
//!
//! ```text
//! Call --+-- buffered read ------ Read ----------------------------------------------+--> Finished
//!        +-- buffered write ----- Write --(O_SYNC)--> Flush -> Settle -> Barrier ----+
//!        +-- fsync -------------- Flush -> Settle -> Barrier ------------------------+
//!        +-- fadvise(DONTNEED) -- Forget -> Flush
//!        +-- direct read -------- Flush -> Settle ---------> Issue -> Pieces --------+
//!        +-- direct write ------- Flush -> Settle -> Drop -> Issue -> Pieces --------+
//!        +-- discard ----------------------------- > Drop -> Issue -> Pieces --------+
//! ```
//! A stage goes on until it has to wait: for a page under way (a [`Transfer`]), for room in the queue, for memory, or for the
//! time it is made to sleep. Whatever it waits for wakes it.
//!
//! Simplified: each process has a processor of its own; a call's processor time is spent at its end; no locks on files, so two
//! calls on the same file never wait for each other as such; blocks are as large as pages.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::sync::Arc;

use block::{Nanos, Op, Priority, SettingError, StreamId};
use slab::Slab;

use super::background::Background;
use super::dirty::DirtyPages;
use super::flusher::{Flusher, Queued};
use super::memory::{ANON, FILE, Memory, NONE, PAGE, flag};
use super::read_ahead::ReadAhead;
use super::reclaim::Watermarks;
use super::settings::settable;
use super::throttle::{Limits, Throttle};
use super::{Access, Action, Call, File, FileId, Files, HostSettings, HostTally, Queue, TUNABLES};
use crate::run::{Finished, Flushed, Issue, Noted, RunError, Server, Steerable, Transferred};

/// Calls that may be under way at once.
const CALLS: usize = 65_536;
/// Processor time of a call through the page cache, and of each page it copies: assumed, as on processors of 3 GHz that copy
/// 10 GB a second. Direct calls cost none.
const CALL_TIME: Nanos = Nanos(500);
const PAGE_TIME: Nanos = Nanos(400);
/// How long a process waits for memory before it looks again, if nothing wakes it (`VMSCAN_THROTTLE_WRITEBACK`).
const MEMORY_WAIT: Nanos = Nanos::from_millis(100);
/// Requests a process collects before they go to the device, and the size from which on the next one sends them off
/// (`BLK_MAX_REQUEST_COUNT`, `BLK_PLUG_FLUSH_SIZE` in `block/blk-mq.h` and `block/blk-mq.c`).
const PLUG_REQUESTS: u32 = 32;
const PLUG_SECTORS: u32 = 256;
/// Pages a bio holds (`BIO_MAX_VECS`).
const BIO_PAGES: u64 = 256;
/// No file is longer, so that no arithmetic on its bytes can overflow.
const LONGEST_FILE: u64 = 1 << 62;
/// Marks the tokens of what belongs to a call and not to a [`Transfer`]: direct calls' pieces, flushes.
pub(super) const OF_CALL: u64 = 1 << 63;

/// The stream of the kernel's flusher thread.
pub const FLUSHER_STREAM: StreamId = StreamId::MAX;
/// The stream of kswapd, which swaps out in the background.
pub const KSWAPD_STREAM: StreamId = StreamId::MAX - 1;
/// The stream of the first of the [`BACKGROUND_PROCESSES`](super::BACKGROUND_PROCESSES); the others count down from here.
pub const BACKGROUND_STREAM: StreamId = StreamId::MAX - 2;

/// Why there can be no such host.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// A setting is out of range.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The device cannot hold the swap area.
    #[error("host: swap_mib={swap_mib} is more than the device, which has {device_mib} MiB")]
    SwapTooLarge {
        /// What was set.
        swap_mib: i64,
        /// What there is.
        device_mib: u64,
    },
    /// A file reaches into the swap area.
    #[error(
        "host: file '{file}' reaches into the swap area, the last {swap_mib} MiB of the device; end it before, or set a smaller swap_mib"
    )]
    FileInSwap {
        /// The file.
        file: String,
        /// Size of the swap area.
        swap_mib: i64,
    },
    /// The anonymous pages fit neither into memory nor into the swap area.
    #[error(
        "host: anonymous_mib={anonymous_mib} should be at most {most_mib}: what memory_mib and swap_mib hold, less what files and the kernel need"
    )]
    AnonymousTooLarge {
        /// What was set.
        anonymous_mib: i64,
        /// What would fit.
        most_mib: i64,
    },
}

impl From<HostError> for RunError {
    fn from(error: HostError) -> RunError {
        RunError::failed(error)
    }
}

/// Where a call stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Copies pages out of the cache, reading what is missing.
    Read,
    /// Copies pages into the cache.
    Write,
    /// Sends the dirty pages of its range to the device.
    Flush,
    /// Waits for all write-back of its range that has begun.
    Settle,
    /// Has the device empty its write cache.
    Barrier,
    /// Waits for that.
    Drained,
    /// Takes those pages of its range out of the cache that are clean.
    Forget,
    /// Takes the pages of its range out of the cache.
    Drop,
    /// Sends its own pieces to the device.
    Issue,
    /// Waits for them.
    Pieces,
}

/// What became of a stage.
pub(super) enum Step {
    /// It waits; whatever it waits for wakes it.
    Waits,
    /// On with this one.
    Next(Stage),
    /// The call is done.
    Done,
}

/// A call under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Running {
    pub call: Call,
    pub stage: Stage,
    pub file: FileId,
    pub op: Op,
    /// The range in bytes: first, and behind the last.
    pub from: u64,
    pub to: u64,
    /// The page that the stage has come to.
    pub page: u64,
    /// Which of the [`OpenFile`]s.
    pub open_file: u32,
    /// It had to wait for the page that it has come to.
    pub missed: bool,
    /// It has waited for room in the queue, and may send one more now even if others have filled it meanwhile.
    pub may_overfill: bool,
    pub copied: u64,
    /// Pieces of its own, or flushes, that are not done.
    pub open: u32,
    /// It waits for transfers that began before the one of this number.
    pub before: u64,
    pub dispatched: Nanos,
    pub next_waiter: u32,
}

impl Running {
    fn is_empty(&self) -> bool {
        self.from >= self.to
    }

    pub fn first_page(&self) -> u64 {
        self.from / PAGE
    }

    /// The last page; only of a range that is not empty.
    pub fn last_page(&self) -> u64 {
        (self.to - 1) / PAGE
    }

    fn access(&self) -> Option<Access> {
        match self.call.action {
            Action::Access { access, .. } => Some(access),
            Action::Sync { .. } | Action::Invalidate { .. } => None,
        }
    }

    pub fn issuer(&self) -> Issuer {
        Issuer { stream: self.call.stream, priority: self.call.priority, sync: true }
    }
}

/// What a process has of a file that it reads or writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenFile {
    pub read_ahead: ReadAhead,
    /// Pages it made dirty since it last looked whether it must sleep, and how many it may before it looks again.
    pub dirtied: u64,
    pub poll_after: u64,
}

/// What the kernel knows of a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inode {
    /// Pages in memory, and the dirty ones of them.
    pub cached: u64,
    pub dirty: u64,
    pub dirtied_when: Nanos,
    pub queued: Queued,
    /// Where the flusher goes on.
    pub write_from: u64,
    /// Write-back under way, in the order in which it began: transfers linked to each other.
    first_write: u32,
    last_write: u32,
}

/// In whose name something goes to the queue.
#[derive(Clone, Copy)]
pub(super) struct Issuer {
    pub stream: StreamId,
    pub priority: Priority,
    pub sync: bool,
}

impl Issuer {
    pub fn kernel(stream: StreamId) -> Issuer {
        Issuer { stream, priority: Priority::DEFAULT, sync: false }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Read,
    WriteBack,
    SwapIn,
    SwapOut,
}

/// Pages of a file in one run, on their way; or one page of the swap area.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transfer {
    purpose: Purpose,
    file: FileId,
    first: u64,
    pages: u64,
    /// Issues that are not done.
    open: u32,
    /// Calls that wait for it, the last one first.
    waiters: u32,
    sequence: u64,
    newer_write: u32,
    older_write: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// A call's processor time is over.
    End(usize),
    /// A call has slept enough.
    Resume(usize),
    /// A background process touches its next page.
    Touch(usize),
}

/// What a process has collected for the device and not sent off.
#[derive(Clone, Copy, Default)]
struct Plug {
    requests: u32,
    sectors: u32,
    end: u64,
    op: Option<Op>,
}

/// A machine with one block device: page cache, read-ahead, write-back and swap above its queue.
pub struct Host {
    pub(super) queue: Queue,
    pub(super) files: Arc<Files>,
    pub(super) settings: HostSettings,
    pub(super) memory: Memory,
    pub(super) watermarks: Watermarks,
    pub(super) inodes: Vec<Inode>,
    pub(super) dirty: DirtyPages,
    pub(super) under_write_back: u64,
    pub(super) throttle: Throttle,
    pub(super) flusher: Flusher,
    pub(super) background: Background,
    pub(super) calls: Slab<Running>,
    pub(super) open_files: Vec<OpenFile>,
    open_file_numbers: BTreeMap<(StreamId, FileId), u32>,
    transfers: Slab<Transfer>,
    started_transfers: u64,
    timers: BinaryHeap<Reverse<(Nanos, u64, Timer)>>,
    started_timers: u64,
    ready: VecDeque<usize>,
    room_waiters: VecDeque<usize>,
    memory_waiters: Vec<usize>,
    plug: Plug,
    done: Vec<Finished>,
    pub(super) tally: HostTally,
}

impl Host {
    /// A host whose device sits behind `queue`, and on it `files`. The queue takes its settings from `settings`.
    ///
    /// # Errors
    /// A setting is out of its range, the swap area is larger than the device, a file reaches into it, or anonymous memory is
    /// more than memory and swap hold.
    pub fn new(mut queue: Queue, files: Arc<Files>, settings: HostSettings) -> Result<Host, HostError> {
        settings.check()?;
        let mut memory = Memory::new((settings.memory_mib as u32) << 8);
        let watermarks = Watermarks::new(memory.total());
        let background = Background::new(&settings, &files, queue.capacity_sectors(), &mut memory, watermarks)?;
        queue.set_settings(Nanos::ZERO, settings.queue());
        let inode = Inode {
            cached: 0,
            dirty: 0,
            dirtied_when: Nanos::ZERO,
            queued: Queued::Nowhere,
            write_from: 0,
            first_write: NONE,
            last_write: NONE,
        };
        let mut host = Host {
            queue,
            inodes: vec![inode; files.len()],
            files,
            settings,
            memory,
            watermarks,
            dirty: DirtyPages::default(),
            under_write_back: 0,
            throttle: Throttle::new(),
            flusher: Flusher::default(),
            background,
            calls: Slab::new(),
            open_files: Vec::new(),
            open_file_numbers: BTreeMap::new(),
            transfers: Slab::new(),
            started_transfers: 0,
            timers: BinaryHeap::new(),
            started_timers: 0,
            ready: VecDeque::new(),
            room_waiters: VecDeque::new(),
            memory_waiters: Vec::new(),
            plug: Plug::default(),
            done: Vec::new(),
            tally: HostTally::default(),
        };
        host.start_touching();
        Ok(host)
    }

    /// The queue of the device.
    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    /// What is set.
    pub fn settings(&self) -> &HostSettings {
        &self.settings
    }

    /// What the host did so far.
    pub fn tally(&self) -> HostTally {
        HostTally { dirty: self.dirty_pages(), ..self.tally }
    }

    /// Sets the tunable at `index` of [`TUNABLES`] at `now`, as writing to its file under `/sys` or `/proc/sys` would.
    ///
    /// # Errors
    /// There is no such tunable, or the value is out of its range; nothing changes then.
    pub fn set(&mut self, now: Nanos, index: usize, value: i64) -> Result<(), SettingError> {
        settable(TUNABLES, index, value)?;
        let before = self.settings;
        *self.settings.fields_mut()[index] = value;
        if self.settings.queue() != before.queue() {
            self.queue.set_settings(now, self.settings.queue());
        }
        if self.settings.dirty_writeback_centisecs != before.dirty_writeback_centisecs {
            self.reset_flusher_timer(now);
        }
        Ok(())
    }

    /// Pages that are dirty or on their way to the device.
    pub(super) fn dirty_pages(&self) -> u64 {
        self.dirty.len() + self.under_write_back
    }

    /// `domain_dirty_limits`, from `global_dirtyable_memory`.
    pub(super) fn dirty_limits(&self) -> Limits {
        let free = self.memory.free().saturating_sub(self.watermarks.high);
        let available = u64::from(free) + u64::from(self.memory.pages_of(FILE));
        Limits::new(available, self.settings.dirty_ratio, self.settings.dirty_background_ratio)
    }

    pub(super) fn file(&self, file: FileId) -> &File {
        &self.files[file as usize]
    }

    pub(super) fn has_swap(&self) -> bool {
        self.memory.has_swap && (self.memory.pages_of(ANON) > 0)
    }

    pub(super) fn start_timer(&mut self, at: Nanos, timer: Timer) {
        self.started_timers += 1;
        self.timers.push(Reverse((at, self.started_timers, timer)));
    }

    /// Takes a page that is not here into the free frame that there must be.
    pub(super) fn insert_page(&mut self, file: FileId, page: u64, flags: u16) -> u32 {
        self.inodes[file as usize].cached += 1;
        self.memory.insert(file, page, flags)
    }

    /// Gives up a page that is neither dirty nor under way.
    pub(super) fn remove_page(&mut self, frame: u32, evicted: bool) {
        let page = *self.memory.page(frame);
        if let Some(inode) = self.inodes.get_mut(page.file as usize) {
            inode.cached -= 1;
            self.tally.read_ahead_wasted += u64::from(page.flags & flag::AHEAD != 0);
        }
        self.memory.remove(frame, evicted);
    }

    /// A page that was read ahead is used.
    pub(super) fn use_page(&mut self, frame: u32) {
        if self.memory.has(frame, flag::AHEAD) {
            self.memory.clear(frame, flag::AHEAD);
            self.tally.read_ahead_used += 1;
        }
    }

    // Calls.

    fn running(&mut self, now: Nanos, call: Call) -> Running {
        let (op, file, from, bytes) = match call.action {
            Action::Access { op, file, offset, bytes, .. } => (op, file, offset, u64::from(bytes)),
            Action::Sync { file } => (Op::Write, file, 0, u64::MAX),
            Action::Invalidate { file, offset, bytes } => (Op::Write, file, offset, bytes),
        };
        let end = self.files.get(file as usize).map_or(0, |file| file.bytes).min(LONGEST_FILE);
        let (mut from, mut to) = (from, from.saturating_add(bytes).min(end));
        if let Action::Invalidate { .. } = call.action {
            // Of a page in part the rest may be needed (`generic_fadvise` in `mm/fadvise.c`).
            from = from.min(end).next_multiple_of(PAGE);
            to = if to == end { to } else { to / PAGE * PAGE };
        }
        let open_file = if from < to { self.open_file(call.stream, file) } else { 0 };
        let mut running = Running {
            call,
            stage: Stage::Flush,
            file,
            op,
            from,
            to,
            page: from / PAGE,
            open_file,
            missed: false,
            may_overfill: false,
            copied: 0,
            open: 0,
            before: 0,
            dispatched: now,
            next_waiter: NONE,
        };
        running.stage = match (running.access(), op) {
            _ if running.is_empty() => Stage::Pieces,
            _ if matches!(call.action, Action::Invalidate { .. }) => Stage::Forget,
            (None, _) => Stage::Flush,
            (_, Op::Discard) => Stage::Drop,
            (Some(Access::Direct), _) if self.inodes[file as usize].cached == 0 => Stage::Issue,
            (Some(Access::Direct), _) => Stage::Flush,
            (_, Op::Read) => Stage::Read,
            _ => Stage::Write,
        };
        running
    }

    fn open_file(&mut self, stream: StreamId, file: FileId) -> u32 {
        if let Some(&number) = self.open_file_numbers.get(&(stream, file)) {
            return number;
        }
        let number = self.open_files.len() as u32;
        self.open_files.push(OpenFile { read_ahead: ReadAhead::new(), dirtied: 0, poll_after: 32 });
        self.open_file_numbers.insert((stream, file), number);
        number
    }

    fn step(&mut self, now: Nanos, id: usize) {
        self.plug = Plug::default();
        loop {
            let step = match self.calls[id].stage {
                Stage::Read => self.read(now, id),
                Stage::Write => self.write(now, id),
                Stage::Flush => self.flush_range(now, id),
                Stage::Settle => self.settle(id),
                Stage::Barrier => self.barrier(now, id),
                Stage::Drained if self.calls[id].open > 0 => Step::Waits,
                Stage::Drained => Step::Done,
                Stage::Forget => {
                    self.drop_clean(id);
                    Step::Next(Stage::Flush)
                }
                Stage::Drop => self.drop_range(id),
                Stage::Issue => self.issue(now, id),
                Stage::Pieces => self.pieces(id),
            };
            match step {
                Step::Waits => return,
                Step::Next(stage) => {
                    let running = &mut self.calls[id];
                    (running.stage, running.page) = (stage, running.first_page());
                }
                Step::Done if matches!(self.calls[id].call.action, Action::Invalidate { .. }) => {
                    self.calls.remove(id);
                    return;
                }
                Step::Done => {
                    let running = &self.calls[id];
                    let cost = match running.access() {
                        None | Some(Access::Direct) => Nanos::ZERO,
                        _ => Nanos(CALL_TIME.0 + PAGE_TIME.0 * running.copied),
                    };
                    return self.start_timer(now + cost, Timer::End(id));
                }
            }
        }
    }

    /// A call that is done at `at`: of one that moved something its first sector on the device, and how many it moved.
    fn finished(&self, running: &Running, at: Nanos) -> Finished {
        let Running { call, from, to, .. } = *running;
        let (arrival, stream, priority, token) = (call.arrival, call.stream, call.priority, call.token);
        if running.access().is_none() {
            return Finished::Flush(Flushed { arrival, stream, token, at });
        }
        let file = self.files.get(running.file as usize);
        let lba = file.and_then(|file| file.pieces(from / 512, 1).next()).map_or(0, |(lba, _)| lba);
        let sectors = if running.is_empty() { 0 } else { (to.div_ceil(512) - from / 512) as u32 };
        let sync = running.op == Op::Read || running.access() != Some(Access::Buffered);
        let issue = Issue { arrival, lba, sectors, op: running.op, sync, stream, priority, token };
        Finished::Transfer(Transferred { issue, dispatched: running.dispatched, at })
    }

    // Direct input and output.

    fn issue(&mut self, now: Nanos, id: usize) -> Step {
        let Running { from, to, file, op, .. } = self.calls[id];
        let Issuer { stream, priority, sync } = self.calls[id].issuer();
        let files = Arc::clone(&self.files);
        for (lba, sectors) in files[file as usize].pieces(from / 512, to.div_ceil(512) - from / 512) {
            self.calls[id].open += 1;
            let token = OF_CALL | id as u64;
            self.submit(now, Issue { arrival: now, lba, sectors: sectors as u32, op, sync, stream, priority, token });
        }
        Step::Next(Stage::Pieces)
    }

    fn pieces(&mut self, id: usize) -> Step {
        if self.calls[id].open > 0 {
            return Step::Waits;
        }
        // What was read into the cache meanwhile may be old (`kiocb_invalidate_post_direct_write`).
        if self.calls[id].op != Op::Read {
            self.drop_clean(id);
        }
        Step::Done
    }

    // Transfers.

    /// Pages that may go in one transfer, from `page` on: in one piece on the device, and no more than a bio or a request holds.
    pub(super) fn run_limit(&self, file: FileId, page: u64) -> u64 {
        let extents = &self.file(file).extents;
        let sector = page * 8;
        let next = extents.partition_point(|extent| extent.offset <= sector);
        let end = match next.checked_sub(1).map(|at| extents[at].offset + extents[at].sectors) {
            // The file's last page need not be whole.
            Some(end) if next == extents.len() => end.div_ceil(8),
            Some(end) => end / 8,
            None => 0,
        };
        let largest = (self.settings.max_sectors_kb as u64 / 4).clamp(1, BIO_PAGES);
        end.saturating_sub(page).clamp(1, largest)
    }

    /// Sends pages that lie in one run on their way. They are marked already.
    pub(super) fn start_transfer(&mut self, now: Nanos, purpose: Purpose, file: FileId, first: u64, pages: u64, issuer: Issuer) {
        let sequence = self.started_transfers;
        self.started_transfers += 1;
        let (open, waiters, newer_write, older_write) = (0, NONE, NONE, NONE);
        let transfer = Transfer { purpose, file, first, pages, open, waiters, sequence, newer_write, older_write };
        let key = self.transfers.insert(transfer);
        for page in first..first + pages {
            if let Some(frame) = self.memory.find(file, page) {
                self.memory.set_transfer(frame, key as u32);
            }
        }
        let Issuer { stream, priority, sync } = issuer;
        let op = if matches!(purpose, Purpose::Read | Purpose::SwapIn) { Op::Read } else { Op::Write };
        let issue =
            |lba, sectors: u64| Issue { arrival: now, lba, sectors: sectors as u32, op, sync, stream, priority, token: key as u64 };
        if matches!(purpose, Purpose::SwapIn | Purpose::SwapOut) {
            self.transfers[key].open = 1;
            let lba = self.background.lba(first);
            self.submit(now, issue(lba, 8));
            return;
        }
        if purpose == Purpose::WriteBack {
            self.link_write(key);
        }
        let files = Arc::clone(&self.files);
        for (lba, sectors) in files[file as usize].pieces(first * 8, pages * 8) {
            self.transfers[key].open += 1;
            self.submit(now, issue(lba, sectors));
        }
        // A file whose extents do not cover it has pages that are nowhere.
        if self.transfers[key].open == 0 {
            self.complete(now, key);
        }
    }

    fn link_write(&mut self, key: usize) {
        let inode = &mut self.inodes[self.transfers[key].file as usize];
        let older = std::mem::replace(&mut inode.last_write, key as u32);
        match older {
            NONE => inode.first_write = key as u32,
            _ => self.transfers[older as usize].newer_write = key as u32,
        }
        self.transfers[key].older_write = older;
    }

    fn unlink_write(&mut self, transfer: &Transfer) {
        let Transfer { file, newer_write: newer, older_write: older, .. } = *transfer;
        let inode = &mut self.inodes[file as usize];
        match newer {
            NONE => inode.last_write = older,
            _ => self.transfers[newer as usize].older_write = older,
        }
        match older {
            NONE => inode.first_write = newer,
            _ => self.transfers[older as usize].newer_write = newer,
        }
    }

    /// The oldest write-back of a file that touches the pages from `first` to `last` and began before the transfer `before`.
    pub(super) fn write_under_way(&self, file: FileId, first: u64, last: u64, before: u64) -> Option<u32> {
        let mut key = self.inodes[file as usize].first_write;
        while key != NONE {
            let transfer = &self.transfers[key as usize];
            if transfer.sequence >= before {
                return None;
            }
            if transfer.first <= last && transfer.first + transfer.pages > first {
                return Some(key);
            }
            key = transfer.newer_write;
        }
        None
    }

    /// The number of the next transfer to begin.
    pub(super) fn next_transfer(&self) -> u64 {
        self.started_transfers
    }

    fn complete(&mut self, now: Nanos, key: usize) {
        let transfer = self.transfers.remove(key);
        let Transfer { purpose, file, first, pages, .. } = transfer;
        for page in first..first + pages {
            let Some(frame) = self.memory.find(file, page) else { continue };
            self.memory.clear(frame, flag::LOCKED | flag::WRITEBACK);
            if self.memory.has(frame, flag::RECLAIM) {
                if self.memory.has(frame, flag::DIRTY) {
                    self.memory.clear(frame, flag::RECLAIM);
                } else {
                    self.memory.rotate_reclaimable(frame);
                }
            }
        }
        match purpose {
            Purpose::Read => {}
            Purpose::WriteBack => {
                self.unlink_write(&transfer);
                self.under_write_back -= pages;
                self.throttle.written += pages;
                self.tally.written_back += pages;
            }
            Purpose::SwapIn => {
                self.tally.swapped_in += 1;
                self.background.wake(first, |process| self.timers.push(Reverse((now, 0, Timer::Touch(process)))));
            }
            Purpose::SwapOut => self.tally.swapped_out += 1,
        }
        let woken = self.ready.len();
        let mut waiter = transfer.waiters;
        while waiter != NONE {
            self.ready.push_back(waiter as usize);
            waiter = self.calls[waiter as usize].next_waiter;
        }
        self.ready.make_contiguous()[woken..].reverse();
        self.memory_may_be_free();
    }

    /// Makes a call wait for the transfer of a page.
    pub(super) fn wait_for_page(&mut self, frame: u32, id: usize) -> Step {
        self.wait_for_transfer(self.memory.page(frame).transfer, id)
    }

    pub(super) fn wait_for_transfer(&mut self, key: u32, id: usize) -> Step {
        self.calls[id].next_waiter = std::mem::replace(&mut self.transfers[key as usize].waiters, id as u32);
        Step::Waits
    }

    pub(super) fn wait_for_room(&mut self, id: usize) -> Step {
        self.room_waiters.push_back(id);
        Step::Waits
    }

    pub(super) fn wait_for_memory(&mut self, now: Nanos, id: usize) -> Step {
        self.tally.memory_waits += 1;
        self.memory_waiters.push(id);
        self.background.memory_retry.get_or_insert(now + MEMORY_WAIT);
        Step::Waits
    }

    fn memory_may_be_free(&mut self) {
        self.background.is_stuck = false;
        self.background.memory_retry = None;
        self.ready.extend(self.memory_waiters.drain(..));
    }

    /// Puts something into the queue. What a process asks for in one go reaches the device together, in parts of some size
    /// (`blk_add_rq_to_plug`); the scheduler merges it meanwhile.
    fn submit(&mut self, now: Nanos, issue: Issue) {
        let plug = &mut self.plug;
        let sectors = plug.sectors.saturating_add(issue.sectors);
        let joins = plug.end == issue.lba
            && plug.op == Some(issue.op)
            && i64::from(sectors) <= self.settings.max_sectors_kb * 2
            && self.settings.nomerges < 2;
        if joins {
            plug.sectors = sectors;
        } else {
            if plug.requests >= PLUG_REQUESTS || plug.sectors >= PLUG_SECTORS {
                self.queue.dispatch(now);
                plug.requests = 0;
            }
            (plug.requests, plug.sectors, plug.op) = (plug.requests + 1, issue.sectors, Some(issue.op));
        }
        plug.end = issue.lba.saturating_add(u64::from(issue.sectors));
        self.queue.admit(now, issue);
    }

    fn take_completions(&mut self, now: Nanos) {
        let mut done = std::mem::take(&mut self.done);
        self.queue.advance(now, &mut done);
        for piece in done.drain(..) {
            let token = piece.token();
            if token & OF_CALL == 0 {
                let transfer = &mut self.transfers[token as usize];
                transfer.open -= 1;
                if transfer.open == 0 {
                    self.complete(now, token as usize);
                }
                continue;
            }
            let id = (token & !OF_CALL) as usize;
            let running = &mut self.calls[id];
            running.open -= 1;
            if let Some(done) = piece.transfer() {
                running.dispatched = done.dispatched;
            }
            if running.open == 0 {
                self.ready.push_back(id);
            }
        }
        self.done = done;
    }

    fn run_ready(&mut self, now: Nanos) {
        while let Some(id) = self.ready.pop_front() {
            self.step(now, id);
        }
    }

    fn run_timers(&mut self, now: Nanos, finished: &mut Vec<Finished>) {
        while let Some(&Reverse((at, _, timer))) = self.timers.peek()
            && at <= now
        {
            self.timers.pop();
            match timer {
                Timer::End(id) => {
                    let running = self.calls.remove(id);
                    let done = self.finished(&running, at);
                    self.queue.note_down(Noted::Returned(done));
                    finished.push(done);
                }
                Timer::Resume(id) => self.ready.push_back(id),
                Timer::Touch(process) => {
                    self.plug = Plug::default();
                    self.touch(now, process);
                }
            }
        }
    }
}

impl Server for Host {
    type Work = Call;

    fn has_room(&self) -> bool {
        self.calls.len() < CALLS && self.queue.has_room()
    }

    fn admit(&mut self, now: Nanos, call: Call) {
        let running = self.running(now, call);
        let is_empty = running.is_empty();
        if is_empty && matches!(call.action, Action::Invalidate { .. }) {
            return;
        }
        let id = self.calls.insert(running);
        self.queue.note_down(Noted::Called(now));
        // Of nothing, or of what is not there: over at once.
        if is_empty { self.start_timer(now, Timer::End(id)) } else { self.step(now, id) }
    }

    fn next_event(&self) -> Option<Nanos> {
        let timer = self.timers.peek().map(|Reverse((at, ..))| *at);
        [self.queue.next_event(), timer, self.flusher.wake_at, self.background.memory_retry].into_iter().flatten().min()
    }

    fn advance(&mut self, now: Nanos, finished: &mut Vec<Finished>) {
        self.take_completions(now);
        if self.background.memory_retry.is_some_and(|at| at <= now) {
            self.memory_may_be_free();
        }
        self.run_timers(now, finished);
        self.run_ready(now);
        if let Some(id) = self.room_waiters.pop_front() {
            self.calls[id].may_overfill = true;
            self.step(now, id);
        }
        while !self.queue.is_full(true)
            && let Some(id) = self.room_waiters.pop_front()
        {
            self.step(now, id);
        }
        self.run_ready(now);
        self.plug = Plug::default();
        self.flush(now);
        self.run_timers(now, finished);
    }

    fn dispatch(&mut self, now: Nanos) {
        self.queue.dispatch(now);
    }

    fn is_at_leisure(&self) -> bool {
        self.calls.is_empty()
    }

    fn steerable(&mut self) -> Option<&mut dyn Steerable> {
        Some(self)
    }
}
