//! Write-back: dirty pages, the flusher thread, and the throttling of writers.
//!
//! Follows `fs/fs-writeback.c` of Linux 6.x (`wb_writeback`, `writeback_sb_inodes`), `ext4_writepages` for the order within a file, and
//! `balance_dirty_pages` in `mm/page-writeback.c`. As in Linux, the flusher waits if the queue has no room.

use block::{Nanos, Roster};

use super::dirty::DirtyPages;
use super::dirty_files::DirtyFiles;
use super::files::{File, Files};
use super::page_cache::{PageCache, flag};
use super::throttle::{DirtyLimits, DirtyShare, Throttle, Writer};
use super::transfers::{Issuer, PageRun, Purpose, Transfers};
use super::{FileId, HostSettings};
use crate::streams;

/// The reason for writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WriteReason {
    /// Pages dirty since this time or longer: expired ones, or all when memory is short.
    Old { before: Nanos },
    /// Until the background share is reached.
    Background,
}

/// The writing of one chunk of one file.
#[derive(Clone, Copy, Debug)]
struct Pass {
    file: FileId,
    left: u64,
    began: Nanos,
    /// Pages before this one are written in a second pass.
    started_at: u64,
    wrapped: bool,
}

/// State of the flusher thread.
#[derive(Default)]
struct Flusher {
    work: Option<WriteReason>,
    pass: Option<Pass>,
    /// Whether something was written since the start of the round.
    progress: bool,
    wake_at: Option<Nanos>,
    old_due: bool,
    all_due: bool,
    background_due: bool,
}

/// The settings of write-back, in its own units.
struct Policy {
    limit: DirtyShare,
    background: DirtyShare,
    expire: Nanos,
    /// Zero: never.
    period: Nanos,
}

impl Policy {
    fn new(settings: &HostSettings) -> Policy {
        Policy {
            limit: DirtyShare::new(settings.dirty_ratio, settings.dirty_bytes),
            background: DirtyShare::new(settings.dirty_background_ratio, settings.dirty_background_bytes),
            expire: centiseconds(settings.dirty_expire_centisecs),
            period: centiseconds(settings.dirty_writeback_centisecs),
        }
    }
}

/// Counters of write-back.
#[derive(Clone, Copy, Default)]
pub(super) struct Counts {
    pub dirtied: u64,
    pub written_back: u64,
    pub dirty_peak: u64,
    pub throttled: Nanos,
}

/// A cgroup's share of write-back (`struct bdi_writeback`).
struct Group {
    throttle: Throttle,
    /// Number of its pages that are dirty or being written.
    pages: u64,
}

/// Number of pages by which a cgroup's counters may be wrong (`wb_stat_error`), on a machine with four processors: a writer whose
/// cgroup has no more is not throttled for the pages of others.
const FEW_PAGES: u64 = 96;

/// Dirty pages and their writers.
pub(super) struct WriteBack {
    dirty: DirtyPages,
    files: DirtyFiles,
    /// Number of pages being written to the device.
    under_way: u64,
    /// One group, or if tenants are cgroups, one for each and one for all other files.
    groups: Vec<Group>,
    /// By file: its group; empty if there is only one group.
    group_of: Vec<usize>,
    flusher: Flusher,
    policy: Policy,
    counts: Counts,
}

impl WriteBack {
    /// `cgroups`: the tenants whose files are counted separately; `None`: all files together.
    pub fn new(files: &Files, cgroups: Option<&Roster>, settings: &HostSettings) -> WriteBack {
        let throttle = || Throttle::new((settings.write_bandwidth_kib / 4).max(1) as f64);
        let groups = 1 + cgroups.map_or(0, |roster| roster.tenants().len());
        let group_of = |roster: &Roster, file: &File| {
            let owner = file.extents.first().and_then(|extent| roster.owner_of_sector(extent.lba));
            owner.unwrap_or(groups - 1)
        };
        WriteBack {
            dirty: DirtyPages::default(),
            files: DirtyFiles::new(files.len()),
            under_way: 0,
            groups: (0..groups).map(|_| Group { throttle: throttle(), pages: 0 }).collect(),
            group_of: cgroups.map_or_else(Vec::new, |roster| files.iter().map(|file| group_of(roster, file)).collect()),
            flusher: Flusher::default(),
            policy: Policy::new(settings),
            counts: Counts::default(),
        }
    }

    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Number of pages that are dirty or being written.
    pub fn dirty_pages(&self) -> u64 {
        self.dirty.len() + self.under_way
    }

    /// The first dirty page of a file from `page` on.
    pub fn next_dirty(&self, file: FileId, page: u64) -> Option<u64> {
        self.dirty.next(file, page)
    }

    /// Time at which the flusher wakes by itself; `None` if it does not.
    pub fn wake_at(&self) -> Option<Nanos> {
        self.flusher.wake_at
    }

    /// Applies new settings.
    pub fn set(&mut self, now: Nanos, settings: &HostSettings) {
        let period = self.policy.period;
        self.policy = Policy::new(settings);
        if self.policy.period != period {
            self.reset_timer(now);
        }
    }

    /// Marks a clean page as dirty.
    pub fn make_dirty(&mut self, now: Nanos, cache: &mut PageCache, frame: u32, writer: &mut Writer) {
        let page = *cache.page(frame);
        cache.set(frame, flag::DIRTY);
        self.dirty.insert(page.file, page.index);
        let group = self.group(page.file);
        self.groups[group].throttle.dirtied += 1;
        self.groups[group].pages += 1;
        self.counts.dirtied += 1;
        self.counts.dirty_peak = self.counts.dirty_peak.max(self.dirty_pages());
        writer.dirtied += 1;
        if self.files.page_dirtied(now, page.file) {
            self.wake_later(now);
        }
    }

    /// Marks a dirty page as clean.
    pub fn clean(&mut self, cache: &mut PageCache, file: FileId, page: u64, frame: u32) {
        cache.clear(frame, flag::DIRTY);
        self.dirty.remove(file, page);
        self.files.page_cleaned(file);
    }

    fn group(&self, file: FileId) -> usize {
        self.group_of.get(file as usize).copied().unwrap_or(0)
    }

    /// Counts pages of a file that were written to the device.
    pub fn written(&mut self, file: FileId, pages: u64) {
        let group = self.group(file);
        self.groups[group].throttle.written += pages;
        self.groups[group].pages -= pages;
        self.under_way -= pages;
        self.counts.written_back += pages;
    }

    /// `domain_dirty_limits`.
    fn limits(&self, cache: &PageCache) -> DirtyLimits {
        DirtyLimits::of(cache.available_to_files(), self.policy.limit, self.policy.background)
    }

    /// How long a writer must sleep before it dirties another page of a file. The limit itself is checked before every page, so it
    /// holds exactly, except for cgroups with few pages; Linux checks only occasionally, and may exceed it a little.
    pub fn pause(
        &mut self,
        now: Nanos,
        file: FileId,
        writer: &mut Writer,
        cache: &mut PageCache,
        transfers: &mut Transfers,
    ) -> Option<Nanos> {
        let (dirty, limits) = (self.dirty_pages(), self.limits(cache));
        let group = self.group(file);
        let has_few = !self.group_of.is_empty() && self.groups[group].pages <= FEW_PAGES;
        if (dirty < limits.limit || has_few) && writer.dirtied < writer.check_after {
            return None;
        }
        if self.dirty.len() > limits.background {
            self.start_in_background(now, cache, transfers);
        }
        let writing = dirty > limits.free_run();
        self.groups[group].throttle.update(now, limits, dirty, writing);
        if !writing {
            *writer = Writer { dirtied: 0, check_after: limits.poll_interval(dirty), slept_until: Some(now) };
            return None;
        }
        // Above the free run all dirty pages are written, even if dirty pages alone do not reach the background share.
        self.start_in_background(now, cache, transfers);
        let group = &self.groups[group];
        let pages = if self.group_of.is_empty() { dirty } else { group.pages };
        let pause = group.throttle.pause(now, limits, (dirty, pages), writer)?;
        self.counts.throttled += pause;
        transfers.queue_mut().writer_sleeps(now);
        Some(pause)
    }

    // The flusher.

    /// `wb_wakeup_delayed`.
    fn reset_timer(&mut self, now: Nanos) {
        let period = self.policy.period;
        self.flusher.wake_at = (period > Nanos::ZERO && self.dirty.len() > 0).then_some(now + period);
    }

    fn wake_later(&mut self, now: Nanos) {
        if self.flusher.wake_at.is_none() && !self.flusher.old_due {
            self.reset_timer(now);
        }
    }

    /// `wb_start_background_writeback`.
    fn start_in_background(&mut self, now: Nanos, cache: &mut PageCache, transfers: &mut Transfers) {
        if self.flusher.work.is_none() {
            self.flusher.background_due = true;
            self.flush(now, cache, transfers);
        }
    }

    /// Makes the flusher write all dirty pages on its next run (`wakeup_flusher_threads`), for reclaim.
    pub fn flush_all_soon(&mut self) {
        self.flusher.all_due = true;
    }

    /// Writes until the queue is full or there is nothing to write.
    pub fn flush(&mut self, now: Nanos, cache: &mut PageCache, transfers: &mut Transfers) {
        if self.flusher.wake_at.is_some_and(|at| at <= now) {
            (self.flusher.wake_at, self.flusher.old_due) = (None, true);
        }
        while !transfers.is_full(streams::FLUSHER, false) {
            let Some(pass) = self.flusher.pass.or_else(|| self.next_pass(now, cache)) else { return };
            self.flusher.pass = self.write_next_run(now, pass, cache, transfers);
        }
    }

    fn next_work(&mut self, now: Nanos) -> Option<WriteReason> {
        let flusher = &mut self.flusher;
        if std::mem::take(&mut flusher.all_due) {
            return Some(WriteReason::Old { before: now });
        }
        if std::mem::take(&mut flusher.old_due) {
            return Some(WriteReason::Old { before: Nanos(now.0.saturating_sub(self.policy.expire.0)) });
        }
        std::mem::take(&mut flusher.background_due).then_some(WriteReason::Background)
    }

    fn next_pass(&mut self, now: Nanos, cache: &PageCache) -> Option<Pass> {
        loop {
            let Some(work) = self.flusher.work else {
                self.flusher.work = Some(self.next_work(now)?);
                self.flusher.progress = true;
                continue;
            };
            let enough = work == WriteReason::Background && self.dirty.len() <= self.limits(cache).background;
            if enough || (self.files.is_round_over() && !self.begin_round(work)) {
                self.end_work(now, cache);
                continue;
            }
            if let Some(file) = self.files.next() {
                let left = self.groups[self.group(file)].throttle.chunk(self.limits(cache));
                return Some(Pass { file, left, began: now, started_at: self.files.write_from(file), wrapped: false });
            }
        }
    }

    fn end_work(&mut self, now: Nanos, cache: &PageCache) {
        self.flusher.work = None;
        self.wake_later(now);
        let (limits, dirty) = (self.limits(cache), self.dirty_pages());
        self.groups.iter_mut().for_each(|group| group.throttle.update(now, limits, dirty, false));
    }

    /// Fills the list of files to write. Returns `false` if there are none, or if the last round wrote nothing.
    fn begin_round(&mut self, work: WriteReason) -> bool {
        if !std::mem::take(&mut self.flusher.progress) {
            // All dirty pages are under write-back. Wait for the next trigger.
            self.files.postpone();
            return false;
        }
        self.files.begin_round(match work {
            WriteReason::Old { before } => Some(before),
            WriteReason::Background => None,
        })
    }

    /// Writes the next run of dirty pages of a file; `None` if the pass is over.
    fn write_next_run(&mut self, now: Nanos, mut pass: Pass, cache: &mut PageCache, transfers: &mut Transfers) -> Option<Pass> {
        let from = self.files.write_from(pass.file);
        let next = self.dirty.next(pass.file, from).filter(|&page| !pass.wrapped || page < pass.started_at);
        let Some(page) = next else {
            self.files.set_write_from(pass.file, 0);
            if !pass.wrapped && pass.started_at > 0 {
                pass.wrapped = true;
                return Some(pass);
            }
            return self.end_pass(now, pass);
        };
        let on_its_way = cache.find(pass.file, page).is_some_and(|frame| cache.has(frame, flag::WRITEBACK));
        let pages = if on_its_way {
            1
        } else {
            self.flusher.progress = true;
            let run = PageRun { file: pass.file, first: page, pages: pass.left };
            let pages = self.write_run(now, run, Issuer::kernel(streams::FLUSHER), cache, transfers);
            pass.left -= pages;
            pages
        };
        self.files.set_write_from(pass.file, page + pages);
        if pass.left == 0 { self.end_pass(now, pass) } else { Some(pass) }
    }

    fn end_pass(&mut self, now: Nanos, pass: Pass) -> Option<Pass> {
        if self.files.written(pass.file, pass.began, pass.left == 0) {
            self.wake_later(now);
        }
        None
    }

    /// Starts write-back of the dirty pages at the start of a run, as many as fit in one transfer. Returns the number of pages covered,
    /// at least one.
    pub fn write_run(&mut self, now: Nanos, run: PageRun, issuer: Issuer, cache: &mut PageCache, transfers: &mut Transfers) -> u64 {
        let PageRun { file, first, pages: most } = run;
        let most = transfers.run_limit(file, first).min(most);
        let mut pages = 0;
        while pages < most {
            let page = first + pages;
            let Some(frame) = cache.find(file, page) else { break };
            if !cache.has(frame, flag::DIRTY) || cache.has(frame, flag::WRITEBACK) {
                break;
            }
            self.clean(cache, file, page, frame);
            cache.set(frame, flag::WRITEBACK);
            pages += 1;
        }
        if pages > 0 {
            self.under_way += pages;
            if !transfers.start(now, cache, Purpose::WriteBack, PageRun { file, first, pages }, issuer) {
                self.written(file, pages);
            }
        }
        pages.max(1)
    }
}

fn centiseconds(value: i64) -> Nanos {
    Nanos::from_millis(value.unsigned_abs() * 10)
}
