//! The machine's memory: page cache, write-back and swap, and page reclaim.
//!
//! ```text
//! free pages |<-- no process waits -->|<-- kswapd works -->|<-- so does a process that allocates -->|
//!                                    high                 low                                      min   0
//! ```
//! Follows `mm/vmscan.c` of Linux 6.x with the two-list LRU (not the multi-generational one): `shrink_lruvec`, `shrink_active_list`,
//! `shrink_folio_list`, and `mm/page_alloc.c` for the watermarks. Simplified: scanning takes no time, so kswapd finishes immediately
//! unless pages have to be written first; one node without zones; where Linux would invoke the OOM killer, the lists are scanned
//! completely regardless of swappiness.

use std::sync::Arc;

use block::Nanos;

use super::new_files::NewFiles;
use super::page_cache::{ACTIVE, ANON, FILE, INACTIVE, PageCache, flag};
use super::read_ahead::WindowLimits;
use super::scan::{Scan, inactive_is_low, scan_counts};
use super::swap::Swap;
use super::transfers::{Issuer, PageRun, Purpose, Transfers};
use super::watermarks::Watermarks;
use super::write_back::WriteBack;
use super::{Files, HostError, HostSettings, Queue};
use crate::streams;

/// `SWAP_CLUSTER_MAX`: pages scanned in one go.
const BATCH: u64 = 32;
/// `DEF_PRIORITY`: the first round scans a 4096th of each list, each further one twice as much.
const FIRST_PRIORITY: u32 = 12;

#[derive(Default)]
struct Round {
    scanned: u64,
    reclaimed: u64,
    /// Whether an active list was spared.
    spared: bool,
}

/// The decision on a page that reclaim scans.
enum Verdict {
    Free,
    Keep,
    Activate,
    /// A file page that the flusher must write first.
    Dirty,
    SwapOut,
}

/// The machine's memory, and its transfers to and from the device.
pub(super) struct Memory {
    pub cache: PageCache,
    pub write_back: WriteBack,
    pub swap: Swap,
    pub transfers: Transfers,
    pub new_files: NewFiles,
    swappiness: u64,
    read_ahead_pages: u64,
    /// Whether reclaim found nothing; only a completion can change that.
    is_stuck: bool,
    /// Refaulted pages at the end of the last reclaim.
    activations: [u64; 2],
    reclaimed: u64,
    /// The maximum number of pages in use so far.
    peak: u64,
}

impl Memory {
    pub fn new(queue: Queue, files: Arc<Files>, settings: &HostSettings) -> Result<Memory, HostError> {
        let mut cache = PageCache::new((settings.memory_mib as u32) << 8, files.len(), settings.swap_mib > 0);
        let swap = Swap::new(settings, &files, queue.capacity_sectors(), &mut cache)?;
        Ok(Memory {
            cache,
            write_back: WriteBack::new(&files, queue.cgroups(), settings),
            swap,
            transfers: Transfers::new(queue, files),
            new_files: NewFiles::default(),
            swappiness: settings.swappiness.unsigned_abs(),
            read_ahead_pages: settings.read_ahead_kb as u64 / 4,
            is_stuck: false,
            activations: [0; 2],
            reclaimed: 0,
            peak: 0,
        })
    }

    /// Applies new settings, except those of the queue.
    pub fn set(&mut self, now: Nanos, settings: &HostSettings) {
        self.swappiness = settings.swappiness.unsigned_abs();
        self.read_ahead_pages = settings.read_ahead_kb as u64 / 4;
        self.swap.set(settings);
        self.write_back.set(now, settings);
    }

    /// Limits on read-ahead windows.
    pub fn read_ahead_limits(&self) -> WindowLimits {
        let transfer = u64::from(self.transfers.queue().settings().max_sectors) / 8;
        WindowLimits { window: self.read_ahead_pages, transfer }
    }

    /// Number of reclaimed pages, and the maximum number in use.
    pub fn counts(&self) -> (u64, u64) {
        (self.reclaimed, self.peak)
    }

    /// Starts reading pages of a file that are already marked as locked.
    pub fn start_read(&mut self, now: Nanos, run: PageRun, issuer: Issuer) {
        self.transfers.start(now, &mut self.cache, Purpose::Read, run, issuer);
    }

    /// Allows reclaim to be retried, since a completion may have made pages reclaimable.
    pub fn retry_reclaim(&mut self) {
        self.is_stuck = false;
    }

    /// Ensures that there is a free page. Returns `false` if the process has to wait.
    pub fn make_room(&mut self, now: Nanos, issuer: Issuer) -> bool {
        let Watermarks { min, low, high } = self.cache.watermarks();
        self.peak = self.peak.max(u64::from(self.cache.total() - self.cache.free()) + 1);
        if self.cache.free() > low {
            return true;
        }
        if !self.is_stuck {
            let wanted = u64::from(high - self.cache.free().min(high));
            self.is_stuck = self.reclaim(now, wanted, None) == 0;
        }
        if self.cache.free() > min {
            return true;
        }
        if !self.is_stuck {
            self.reclaim(now, BATCH, Some(issuer));
        }
        self.cache.free() > min
    }

    /// Reclaims until `wanted` pages are free, for a process (`by`) or for kswapd. Returns the number of reclaimed pages.
    fn reclaim(&mut self, now: Nanos, wanted: u64, by: Option<Issuer>) -> u64 {
        let mut reclaimed = 0;
        for force in [false, true] {
            let mut priority = FIRST_PRIORITY;
            let mut spared = false;
            loop {
                let round = self.shrink(now, priority, wanted - reclaimed, force, by);
                reclaimed += round.reclaimed;
                spared |= round.spared;
                if reclaimed >= wanted {
                    break;
                }
                if round.reclaimed == 0 || round.scanned < wanted || by.is_some() {
                    match priority.checked_sub(1) {
                        Some(next) => priority = next,
                        None => break,
                    }
                }
            }
            if reclaimed > 0 || !spared {
                break;
            }
        }
        self.activations = self.cache.activations();
        self.reclaimed += reclaimed;
        reclaimed
    }

    /// `shrink_node`.
    fn shrink(&mut self, now: Nanos, priority: u32, wanted: u64, force: bool, by: Option<Issuer>) -> Round {
        let (seen, known) = (self.activations, self.cache.activations());
        let may_deactivate = [ANON, FILE].map(|kind| force || known[kind] != seen[kind] || inactive_is_low(&self.cache, kind));
        let targets = scan_counts(&self.cache, self.swappiness, priority, may_deactivate);
        let mut scan = Scan::new(targets, may_deactivate, by);
        let mut round = Round::default();
        let mut adjusted = false;
        while scan.goes_on() {
            for kind in [ANON, FILE] {
                self.shrink_inactive(now, kind, &mut scan, &mut round);
                self.shrink_active(kind, &mut scan, &mut round);
            }
            if round.reclaimed >= wanted && !adjusted {
                if !scan.adjust() {
                    break;
                }
                adjusted = true;
            }
        }
        if self.cache.can_swap() && inactive_is_low(&self.cache, ANON) {
            self.deactivate(ANON, BATCH);
        }
        round
    }

    fn shrink_active(&mut self, kind: usize, scan: &mut Scan, round: &mut Round) {
        let count = scan.left[ACTIVE[kind]].min(BATCH);
        scan.left[ACTIVE[kind]] -= count;
        if count == 0 {
            return;
        }
        if scan.may_deactivate[kind] {
            self.deactivate(kind, count);
        } else {
            round.spared = true;
        }
    }

    /// `shrink_active_list`: moves the oldest active pages to the inactive list.
    fn deactivate(&mut self, kind: usize, count: u64) {
        for _ in 0..count {
            let Some(frame) = self.cache.oldest(ACTIVE[kind]) else { return };
            self.cache.take_off(frame);
            self.cache.clear(frame, flag::ACTIVE | flag::YOUNG);
            self.cache.set(frame, flag::WORKINGSET);
            self.cache.put_newest(frame);
        }
    }

    /// `shrink_inactive_list`.
    fn shrink_inactive(&mut self, now: Nanos, kind: usize, scan: &mut Scan, round: &mut Round) {
        let list = INACTIVE[kind];
        let count = scan.left[list].min(BATCH);
        scan.left[list] -= count;
        let (mut taken, mut reclaimed, mut dirty, mut written) = (0, 0, 0, 0);
        for _ in 0..count {
            let Some(frame) = self.cache.oldest(list) else { break };
            taken += 1;
            match if kind == FILE { self.classify_file(frame) } else { self.classify_anonymous(frame) } {
                Verdict::Free => {
                    self.cache.remove(frame, true);
                    reclaimed += 1;
                }
                Verdict::Keep => self.move_to(frame, false),
                Verdict::Activate => self.move_to(frame, true),
                Verdict::Dirty => {
                    dirty += 1;
                    self.cache.set(frame, flag::RECLAIM);
                    self.move_to(frame, true);
                }
                Verdict::SwapOut => {
                    let issuer = scan.by.unwrap_or(Issuer::kernel(streams::KSWAPD));
                    let swapped = self.swap.write(now, frame, issuer, &mut self.cache, &mut self.transfers);
                    written += u64::from(swapped);
                    self.move_to(frame, false);
                }
            }
        }
        round.scanned += taken;
        round.reclaimed += reclaimed;
        if taken > 0 {
            self.cache.note_cost(kind, written, taken - reclaimed);
            if dirty == taken {
                self.write_back.flush_all_soon();
            }
        }
    }

    fn move_to(&mut self, frame: u32, active: bool) {
        self.cache.take_off(frame);
        if active {
            self.cache.set(frame, flag::ACTIVE);
        }
        self.cache.put_newest(frame);
    }

    fn classify_file(&mut self, frame: u32) -> Verdict {
        if let Some(verdict) = self.classify_under_way(frame) {
            return verdict;
        }
        self.cache.clear(frame, flag::REFERENCED);
        if self.cache.has(frame, flag::DIRTY) { Verdict::Dirty } else { Verdict::Free }
    }

    /// `folio_check_references`: a page touched once is kept, one touched twice is activated.
    fn classify_anonymous(&mut self, frame: u32) -> Verdict {
        if let Some(verdict) = self.classify_under_way(frame) {
            return verdict;
        }
        if self.cache.take(frame, flag::YOUNG) {
            let again = self.cache.has(frame, flag::REFERENCED);
            self.cache.set(frame, flag::REFERENCED);
            return if again { Verdict::Activate } else { Verdict::Keep };
        }
        self.cache.clear(frame, flag::REFERENCED);
        if self.cache.has(frame, flag::DIRTY) { Verdict::SwapOut } else { Verdict::Free }
    }

    fn classify_under_way(&mut self, frame: u32) -> Option<Verdict> {
        if self.cache.has(frame, flag::LOCKED) {
            return Some(Verdict::Keep);
        }
        if self.cache.has(frame, flag::WRITEBACK) {
            self.cache.set(frame, flag::RECLAIM);
            return Some(Verdict::Activate);
        }
        None
    }
}
