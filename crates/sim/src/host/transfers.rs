//! Pages in transfer to or from the device, and requests of calls that bypass the page cache.
//!
//! ```text
//! pages that follow each other --> transfer --> an issue for each piece of them on the device --> queue
//!            locked or written back   |<------------- the last issue is done -----------------------|
//! ```
//! The tokens of issues identify their transfer or call.

use std::sync::Arc;

use block::list::{Linked, Links, List};
use block::{Nanos, Op, Priority, StreamId};
use slab::Slab;

use super::page_cache::{PageCache, flag};
use super::plug::PluggedQueue;
use super::{FileId, Files, Queue};
use crate::run::{Finished, Issue, Server};

/// Maximum pages in a bio (`BIO_MAX_VECS`).
const BIO_PAGES: u64 = 256;
/// Sectors of a page.
const PAGE_SECTORS: u64 = 8;
/// Marks tokens of a call instead of a [`Transfer`]: pieces of direct calls, flushes.
const CALL_TOKEN: u64 = 1 << 63;

/// The stream and priority on whose behalf a request is issued.
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

/// Consecutive pages of a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageRun {
    pub file: FileId,
    pub first: u64,
    pub pages: u64,
}

/// Pages in transfer: a run of a file, or one page of the swap area.
struct Transfer {
    purpose: Purpose,
    run: PageRun,
    /// Number of issues that are not completed.
    open: u32,
    /// Calls that wait for it.
    waiters: List,
    /// Number of transfers started before it.
    sequence: u64,
    /// Links among the file's write-back transfers, if it is one.
    writes: Links,
}

impl Linked for Transfer {
    fn links(&self) -> &Links {
        &self.writes
    }

    fn links_mut(&mut self) -> &mut Links {
        &mut self.writes
    }
}

/// A call in the list of those that wait for the same transfer.
#[derive(Clone, Copy, Default)]
struct Waiter(Links);

impl Linked for Waiter {
    fn links(&self) -> &Links {
        &self.0
    }

    fn links_mut(&mut self) -> &mut Links {
        &mut self.0
    }
}

/// The effect of a completed issue.
pub(super) enum Ended {
    /// One of a call's own requests.
    OfCall(usize),
    /// A part of a transfer with other parts in progress.
    Part,
    /// A whole transfer. Its pages are no longer marked as locked or under write-back.
    Transfer(Purpose, PageRun, Waiters),
}

/// Calls that waited for a transfer, in order of arrival: for [`Transfers::waiters`].
pub(super) struct Waiters(List);

/// All transfers in progress.
pub(super) struct Transfers {
    plugged: PluggedQueue,
    files: Arc<Files>,
    under_way: Slab<Transfer>,
    started: u64,
    /// By file: its write-back in progress, in order of start.
    writes: Vec<List>,
    /// By call: links among those that wait for the same transfer.
    waiters: Vec<Waiter>,
}

impl Transfers {
    pub fn new(queue: Queue, files: Arc<Files>) -> Transfers {
        Transfers {
            plugged: PluggedQueue::new(queue),
            writes: vec![List::new(); files.len()],
            files,
            under_way: Slab::new(),
            started: 0,
            waiters: Vec::new(),
        }
    }

    pub fn queue(&self) -> &Queue {
        self.plugged.queue()
    }

    pub fn queue_mut(&mut self) -> &mut Queue {
        self.plugged.queue_mut()
    }

    pub fn files(&self) -> &Files {
        &self.files
    }

    /// Whether a further issue of this stream, synchronous or not, would have to wait to be admitted.
    pub fn is_full(&self, stream: StreamId, sync: bool) -> bool {
        self.queue().is_full(stream, sync)
    }

    /// Starts a new batch: another process issues from here on.
    pub fn begin_batch(&mut self) {
        self.plugged.begin_batch();
    }

    /// Number of transfers started so far.
    pub fn started(&self) -> u64 {
        self.started
    }

    /// Number of pages that fit in one transfer from `page` on: contiguous on the device, and at most a bio and a request.
    pub fn run_limit(&self, file: FileId, page: u64) -> u64 {
        let extents = &self.files[file as usize].extents;
        let sector = page * PAGE_SECTORS;
        let next = extents.partition_point(|extent| extent.offset <= sector);
        let end = match next.checked_sub(1).map(|at| extents[at].offset + extents[at].sectors) {
            // The file's last page may be partial.
            Some(end) if next == extents.len() => end.div_ceil(PAGE_SECTORS),
            Some(end) => end / PAGE_SECTORS,
            None => 0,
        };
        let largest = (u64::from(self.queue().settings().max_sectors) / PAGE_SECTORS).clamp(1, BIO_PAGES);
        end.saturating_sub(page).clamp(1, largest)
    }

    /// Starts the transfer of pages that are already marked. Returns `false` if they have no place on the device: then nothing is
    /// in progress, and the marks are cleared.
    pub fn start(&mut self, now: Nanos, cache: &mut PageCache, purpose: Purpose, run: PageRun, issuer: Issuer) -> bool {
        let key = self.begin(cache, purpose, run);
        if purpose == Purpose::WriteBack {
            self.writes[run.file as usize].push_back(&mut self.under_way, key);
        }
        let op = if purpose == Purpose::Read { Op::Read } else { Op::Write };
        let file = &self.files[run.file as usize];
        let mut open = 0;
        for (lba, sectors) in file.pieces(run.first * PAGE_SECTORS, run.pages * PAGE_SECTORS) {
            open += 1;
            self.plugged.submit(now, issue(now, op, (lba, sectors), issuer, u64::from(key)));
        }
        self.under_way[key as usize].open = open;
        if open == 0 {
            self.end(cache, key);
        }
        open > 0
    }

    /// Transfers an anonymous page, which is already marked, to or from its place in the swap area.
    pub fn start_swap(&mut self, now: Nanos, cache: &mut PageCache, purpose: Purpose, run: PageRun, lba: u64, issuer: Issuer) {
        let key = self.begin(cache, purpose, run);
        self.under_way[key as usize].open = 1;
        let op = if purpose == Purpose::SwapIn { Op::Read } else { Op::Write };
        self.plugged.submit(now, issue(now, op, (lba, PAGE_SECTORS), issuer, u64::from(key)));
    }

    fn begin(&mut self, cache: &mut PageCache, purpose: Purpose, run: PageRun) -> u32 {
        let (open, waiters, sequence, writes) = (0, List::new(), self.started, Links::default());
        self.started += 1;
        let key = self.under_way.insert(Transfer { purpose, run, open, waiters, sequence, writes }) as u32;
        for page in run.first..run.first + run.pages {
            if let Some(frame) = cache.find(run.file, page) {
                cache.set_transfer(frame, key);
            }
        }
        key
    }

    fn end(&mut self, cache: &mut PageCache, key: u32) -> Ended {
        let Transfer { purpose, run, waiters, writes, .. } = self.under_way.remove(key as usize);
        for page in run.first..run.first + run.pages {
            let Some(frame) = cache.find(run.file, page) else { continue };
            cache.clear(frame, flag::LOCKED | flag::WRITEBACK);
            if cache.has(frame, flag::RECLAIM) {
                if cache.has(frame, flag::DIRTY) {
                    cache.clear(frame, flag::RECLAIM);
                } else {
                    cache.rotate_reclaimable(frame);
                }
            }
        }
        if purpose == Purpose::WriteBack {
            self.writes[run.file as usize].unlink(&mut self.under_way, writes);
        }
        Ended::Transfer(purpose, run, Waiters(waiters))
    }

    /// The oldest write-back of a file that overlaps the pages from `first` to `last` and was among the first `before` transfers.
    pub fn write_under_way(&self, file: FileId, first: u64, last: u64, before: u64) -> Option<u32> {
        let touches = |run: &PageRun| run.first <= last && run.first + run.pages > first;
        let older =
            self.writes[file as usize].iter(&self.under_way).take_while(|&key| self.under_way[key as usize].sequence < before);
        older.into_iter().find(|&key| touches(&self.under_way[key as usize].run))
    }

    /// Makes a call wait for a transfer.
    pub fn wait(&mut self, key: u32, call: usize) {
        if self.waiters.len() <= call {
            self.waiters.resize(call + 1, Waiter::default());
        }
        self.under_way[key as usize].waiters.push_back(&mut self.waiters, call as u32);
    }

    pub fn waiters(&self, waiters: Waiters) -> impl Iterator<Item = usize> {
        waiters.0.iter(&self.waiters).map(|call| call as usize)
    }

    /// Issues a call's own request, one issue for each piece of the range. Returns their number.
    pub fn issue_for_call(&mut self, now: Nanos, call: usize, op: Op, range: SectorRange, issuer: Issuer) -> u32 {
        let SectorRange { file, first, sectors } = range;
        let mut pieces = 0;
        for piece in self.files[file as usize].pieces(first, sectors) {
            pieces += 1;
            self.plugged.submit(now, issue(now, op, piece, issuer, CALL_TOKEN | call as u64));
        }
        pieces
    }

    /// Flushes the device's write cache for a call. Returns `false` if it has none.
    pub fn flush_for_call(&mut self, now: Nanos, call: usize, stream: StreamId) -> bool {
        self.queue_mut().flush(now, stream, CALL_TOKEN | call as u64)
    }

    /// Advances the queue to `now` and appends completions, to be passed to [`Transfers::ended`] one by one.
    pub fn advance(&mut self, now: Nanos, done: &mut Vec<Finished>) {
        self.queue_mut().advance(now, done);
    }

    pub fn ended(&mut self, cache: &mut PageCache, done: &Finished) -> Ended {
        let token = done.token();
        if token & CALL_TOKEN != 0 {
            return Ended::OfCall((token & !CALL_TOKEN) as usize);
        }
        let transfer = &mut self.under_way[token as usize];
        transfer.open -= 1;
        if transfer.open > 0 { Ended::Part } else { self.end(cache, token as u32) }
    }
}

/// Consecutive sectors of a file.
pub(super) struct SectorRange {
    pub file: FileId,
    pub first: u64,
    pub sectors: u64,
}

fn issue(now: Nanos, op: Op, (lba, sectors): (u64, u64), issuer: Issuer, token: u64) -> Issue {
    let Issuer { stream, priority, sync } = issuer;
    Issue { arrival: now, lba, sectors: sectors as u32, op, sync, stream, priority, token }
}
