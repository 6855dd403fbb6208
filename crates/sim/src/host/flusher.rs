//! The flusher thread: writes dirty pages back in the background.
//!
//! ```text
//! a file's first page gets dirty --> dirty --(old enough, or all)--> io --> a chunk of it is written --+--> clean
//!                                      ^                             ^ more_io <--(more is left)-------+
//!                                      +---------------(dirty again meanwhile)-------------------------+
//! ```
//! Follows `fs/fs-writeback.c` of Linux 6.x (`wb_writeback`, `writeback_sb_inodes`, `queue_io`, `requeue_inode`) and
//! `ext4_writepages` for the order within a file. Like it, the thread waits where the queue has no room. A file that gets dirty again
//! while it is written counts as dirty since that writing began, so that no page is older than the expiry time and one period.

use std::collections::VecDeque;

use block::Nanos;

use super::FileId;
use super::memory::flag;
use super::server::{FLUSHER_STREAM, Host, Issuer, Purpose};

/// On which list a file with dirty pages stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Queued {
    Nowhere,
    Dirty,
    Io,
    MoreIo,
    /// The flusher is at it.
    Writing,
}

/// Why the flusher writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    /// What has been dirty since then or longer: old pages, or all that there are when memory is short.
    Old { before: Nanos },
    /// Until the background share is reached.
    Background,
}

/// One chunk of one file.
#[derive(Clone, Copy, Debug)]
struct Pass {
    file: FileId,
    left: u64,
    began: Nanos,
    /// Pages before this one come second.
    started_at: u64,
    wrapped: bool,
}

#[derive(Default)]
pub(super) struct Flusher {
    /// Files by the time they got dirty. An entry whose time is not the file's own is void.
    dirty: VecDeque<(Nanos, FileId)>,
    io: VecDeque<FileId>,
    more_io: VecDeque<FileId>,
    work: Option<Work>,
    pass: Option<Pass>,
    /// Something was written since the lists were last filled.
    progress: bool,
    pub wake_at: Option<Nanos>,
    old_due: bool,
    all_due: bool,
    background_due: bool,
}

impl Host {
    /// Puts a file on the list of dirty ones, by its time, and sees to it that the flusher wakes.
    pub(super) fn queue_dirty(&mut self, now: Nanos, file: FileId) {
        let inode = &mut self.inodes[file as usize];
        inode.queued = Queued::Dirty;
        let entry = (inode.dirtied_when, file);
        let list = &mut self.flusher.dirty;
        let behind = list.iter().rev().take_while(|other| other.0 > entry.0).count();
        list.insert(list.len() - behind, entry);
        if list.len() > 2 * self.inodes.len() + 64 {
            let inodes = &self.inodes;
            self.flusher.dirty.retain(|&(when, file)| is_on_dirty_list(&inodes[file as usize], when));
        }
        if self.flusher.wake_at.is_none() && !self.flusher.old_due {
            self.reset_flusher_timer(now);
        }
    }

    /// `wb_wakeup_delayed`.
    pub(super) fn reset_flusher_timer(&mut self, now: Nanos) {
        let period = centiseconds(self.settings.dirty_writeback_centisecs);
        self.flusher.wake_at = (period > Nanos::ZERO && self.dirty.len() > 0).then_some(now + period);
    }

    /// `wb_start_background_writeback`.
    pub(super) fn start_background_flush(&mut self, now: Nanos) {
        if self.flusher.work.is_none() {
            self.flusher.background_due = true;
            self.flush(now);
        }
    }

    /// `wakeup_flusher_threads`, for reclaim.
    pub(super) fn flush_all_soon(&mut self) {
        self.flusher.all_due = true;
    }

    /// Writes until the queue is full or nothing is left to do.
    pub(super) fn flush(&mut self, now: Nanos) {
        if self.flusher.wake_at.is_some_and(|at| at <= now) {
            (self.flusher.wake_at, self.flusher.old_due) = (None, true);
        }
        while !self.queue.is_full(false) {
            let Some(pass) = self.flusher.pass.or_else(|| self.next_pass(now)) else { return };
            self.flusher.pass = self.write_next_run(now, pass);
        }
    }

    fn next_work(&mut self, now: Nanos) -> Option<Work> {
        let flusher = &mut self.flusher;
        if std::mem::take(&mut flusher.all_due) {
            return Some(Work::Old { before: now });
        }
        if std::mem::take(&mut flusher.old_due) {
            return Some(Work::Old { before: Nanos(now.0.saturating_sub(centiseconds(self.settings.dirty_expire_centisecs).0)) });
        }
        std::mem::take(&mut flusher.background_due).then_some(Work::Background)
    }

    fn next_pass(&mut self, now: Nanos) -> Option<Pass> {
        loop {
            let Some(work) = self.flusher.work else {
                self.flusher.work = Some(self.next_work(now)?);
                self.flusher.progress = true;
                continue;
            };
            let enough = work == Work::Background && self.dirty.len() <= self.dirty_limits().background;
            if enough || (self.flusher.io.is_empty() && !self.queue_io(work)) {
                self.end_work(now);
                continue;
            }
            while let Some(file) = self.flusher.io.pop_front() {
                let inode = &mut self.inodes[file as usize];
                if inode.dirty == 0 {
                    inode.queued = Queued::Nowhere;
                    continue;
                }
                inode.queued = Queued::Writing;
                let started_at = inode.write_from;
                let left = self.throttle.chunk(self.dirty_limits());
                return Some(Pass { file, left, began: now, started_at, wrapped: false });
            }
        }
    }

    fn end_work(&mut self, now: Nanos) {
        self.flusher.work = None;
        if self.flusher.wake_at.is_none() && !self.flusher.old_due {
            self.reset_flusher_timer(now);
        }
        let (limits, dirty) = (self.dirty_limits(), self.dirty_pages());
        self.throttle.update(now, limits, dirty, false);
    }

    /// Fills the list of files to write. False if there is none, or the last round wrote nothing.
    fn queue_io(&mut self, work: Work) -> bool {
        let flusher = &mut self.flusher;
        if !std::mem::take(&mut flusher.progress) {
            // Whatever is dirty is on its way at the same time. It waits for the next occasion.
            while let Some(file) = flusher.more_io.pop_front() {
                self.inodes[file as usize].queued = Queued::Io;
                flusher.io.push_back(file);
            }
            return false;
        }
        flusher.io.append(&mut flusher.more_io);
        while let Some(&(when, file)) = flusher.dirty.front() {
            if matches!(work, Work::Old { before } if when > before) {
                break;
            }
            flusher.dirty.pop_front();
            let inode = &mut self.inodes[file as usize];
            if is_on_dirty_list(inode, when) {
                inode.queued = Queued::Io;
                flusher.io.push_back(file);
            }
        }
        !flusher.io.is_empty()
    }

    /// Writes the next run of dirty pages of a file; `None` if the pass is over.
    fn write_next_run(&mut self, now: Nanos, mut pass: Pass) -> Option<Pass> {
        let from = self.inodes[pass.file as usize].write_from;
        let next = self.dirty.next(pass.file, from).filter(|&page| !pass.wrapped || page < pass.started_at);
        let Some(page) = next else {
            self.inodes[pass.file as usize].write_from = 0;
            if !pass.wrapped && pass.started_at > 0 {
                pass.wrapped = true;
                return Some(pass);
            }
            return self.end_pass(now, pass);
        };
        let on_its_way = self.memory.find(pass.file, page).is_some_and(|frame| self.memory.has(frame, flag::WRITEBACK));
        let pages = if on_its_way {
            1
        } else {
            self.flusher.progress = true;
            let pages = self.write_run(now, pass.file, page, pass.left, Issuer::kernel(FLUSHER_STREAM));
            pass.left -= pages;
            pages
        };
        self.inodes[pass.file as usize].write_from = page + pages;
        if pass.left == 0 { self.end_pass(now, pass) } else { Some(pass) }
    }

    fn end_pass(&mut self, now: Nanos, pass: Pass) -> Option<Pass> {
        let inode = &mut self.inodes[pass.file as usize];
        if inode.dirty == 0 {
            inode.queued = Queued::Nowhere;
        } else if pass.left == 0 {
            inode.queued = Queued::MoreIo;
            self.flusher.more_io.push_back(pass.file);
        } else {
            inode.dirtied_when = pass.began;
            self.queue_dirty(now, pass.file);
        }
        None
    }

    /// Sends a run of dirty pages that begins with `first` to the device, at most `most`, and says how many.
    pub(super) fn write_run(&mut self, now: Nanos, file: FileId, first: u64, most: u64, issuer: Issuer) -> u64 {
        let most = self.run_limit(file, first).min(most);
        let mut pages = 0;
        while pages < most {
            let page = first + pages;
            let Some(frame) = self.memory.find(file, page) else { break };
            if !self.memory.has(frame, flag::DIRTY) || self.memory.has(frame, flag::WRITEBACK) {
                break;
            }
            self.clean(file, page, frame);
            self.memory.set(frame, flag::WRITEBACK);
            pages += 1;
        }
        if pages > 0 {
            self.under_write_back += pages;
            self.start_transfer(now, Purpose::WriteBack, file, first, pages, issuer);
        }
        pages.max(1)
    }
}

fn is_on_dirty_list(inode: &super::server::Inode, when: Nanos) -> bool {
    inode.queued == Queued::Dirty && inode.dirtied_when == when
}

fn centiseconds(value: i64) -> Nanos {
    Nanos::from_millis(value.unsigned_abs() * 10)
}
