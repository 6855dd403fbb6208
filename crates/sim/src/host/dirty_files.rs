//! Files with dirty pages, and the order in which they are written back.
//!
//! ```text
//! a file's first page gets dirty --> dirty --(old enough, or all)--> io --> a chunk of it is written --+--> clean
//!                                      ^                             ^ more_io <--(more is left)-------+
//!                                      +---------------(dirty again meanwhile)-------------------------+
//! ```
//! Follows `fs/fs-writeback.c` of Linux 6.x (`queue_io`, `requeue_inode`). A file that is dirtied again while it is written counts as
//! dirty since the start of that writing, so that no page is older than the expiry time and one period.

use std::collections::VecDeque;

use block::Nanos;

use super::FileId;

/// The list that a file with dirty pages is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Queued {
    Nowhere,
    Dirty,
    Io,
    MoreIo,
    /// The flusher is writing it.
    Writing,
}

#[derive(Clone, Copy, Debug)]
struct DirtyFile {
    /// Number of its dirty pages.
    pages: u64,
    since: Nanos,
    queued: Queued,
    /// The page from which the flusher continues.
    write_from: u64,
}

impl DirtyFile {
    fn is_on_dirty_list(&self, since: Nanos) -> bool {
        self.queued == Queued::Dirty && self.since == since
    }
}

/// The lists of files.
pub(super) struct DirtyFiles {
    files: Vec<DirtyFile>,
    /// Files by the time at which they became dirty. An entry whose time differs from the file's is stale.
    dirty: VecDeque<(Nanos, FileId)>,
    io: VecDeque<FileId>,
    more_io: VecDeque<FileId>,
}

impl DirtyFiles {
    pub fn new(files: usize) -> DirtyFiles {
        let file = DirtyFile { pages: 0, since: Nanos::ZERO, queued: Queued::Nowhere, write_from: 0 };
        DirtyFiles { files: vec![file; files], dirty: VecDeque::new(), io: VecDeque::new(), more_io: VecDeque::new() }
    }

    /// Counts a newly dirty page of a file. Returns whether the file was thereby put on the dirty list.
    pub fn page_dirtied(&mut self, now: Nanos, number: FileId) -> bool {
        let file = &mut self.files[number as usize];
        file.pages += 1;
        if file.pages > 1 {
            return false;
        }
        file.since = now;
        let is_idle = matches!(file.queued, Queued::Nowhere | Queued::Dirty);
        if is_idle {
            self.queue(number);
        }
        is_idle
    }

    /// Counts a page of a file that is no longer dirty.
    pub fn page_cleaned(&mut self, number: FileId) {
        self.files[number as usize].pages -= 1;
    }

    pub fn write_from(&self, number: FileId) -> u64 {
        self.files[number as usize].write_from
    }

    pub fn set_write_from(&mut self, number: FileId, page: u64) {
        self.files[number as usize].write_from = page;
    }

    /// Puts a file on the dirty list, by its time.
    fn queue(&mut self, number: FileId) {
        let file = &mut self.files[number as usize];
        file.queued = Queued::Dirty;
        let entry = (file.since, number);
        let behind = self.dirty.iter().rev().take_while(|other| other.0 > entry.0).count();
        self.dirty.insert(self.dirty.len() - behind, entry);
        if self.dirty.len() > 2 * self.files.len() + 64 {
            let files = &self.files;
            self.dirty.retain(|&(since, number)| files[number as usize].is_on_dirty_list(since));
        }
    }

    /// Whether no file is waiting to be written in this round.
    pub fn is_round_over(&self) -> bool {
        self.io.is_empty()
    }

    /// Starts a round: files with more to write, and those dirty since `before` or longer, or all. Returns `false` if there are none.
    pub fn begin_round(&mut self, before: Option<Nanos>) -> bool {
        self.io.append(&mut self.more_io);
        while let Some(&(since, number)) = self.dirty.front() {
            if before.is_some_and(|before| since > before) {
                break;
            }
            self.dirty.pop_front();
            let file = &mut self.files[number as usize];
            if file.is_on_dirty_list(since) {
                file.queued = Queued::Io;
                self.io.push_back(number);
            }
        }
        !self.io.is_empty()
    }

    /// Leaves the files with more to write to the next round.
    pub fn postpone(&mut self) {
        while let Some(number) = self.more_io.pop_front() {
            self.files[number as usize].queued = Queued::Io;
            self.io.push_back(number);
        }
    }

    /// The next file of the round that has dirty pages.
    pub fn next(&mut self) -> Option<FileId> {
        while let Some(number) = self.io.pop_front() {
            let file = &mut self.files[number as usize];
            if file.pages > 0 {
                file.queued = Queued::Writing;
                return Some(number);
            }
            file.queued = Queued::Nowhere;
        }
        None
    }

    /// Records that the flusher has written a chunk of a file since `began`, up to the maximum chunk or all dirty pages. Returns
    /// whether the file is on the dirty list again.
    pub fn written(&mut self, number: FileId, began: Nanos, chunk_is_full: bool) -> bool {
        let file = &mut self.files[number as usize];
        if file.pages == 0 {
            file.queued = Queued::Nowhere;
        } else if chunk_is_full {
            file.queued = Queued::MoreIo;
            self.more_io.push_back(number);
        } else {
            file.since = began;
            self.queue(number);
            return true;
        }
        false
    }
}
