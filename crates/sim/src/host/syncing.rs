//! Making the device and the cache agree on a range of a file: for fsync, O_SYNC, and before direct input and output.
//!
//! Follows `mm/filemap.c` (`filemap_write_and_wait_range`, `kiocb_invalidate_pages`) and `mm/truncate.c`, for the flush at the end
//! `block/fops.c` and `fs/ext4/fsync.c`. Simplified: Linux tags the pages that are dirty when it begins and writes these; here one
//! pass through the range writes what is dirty as it comes by.
//! Metadata and journals are left out.

use block::{Nanos, Op};

use super::memory::{PAGE, flag};
use super::server::{Host, OF_CALL, Running, Stage, Step};
use super::{Access, Action, FileId};

impl Host {
    /// Starts write-back of the range's dirty pages, in the caller's name.
    pub(super) fn flush_range(&mut self, now: Nanos, id: usize) -> Step {
        loop {
            let running = self.calls[id];
            let Running { file, page, .. } = running;
            let last = running.last_page();
            let Some(dirty) = self.dirty.next(file, page).filter(|&dirty| dirty <= last) else {
                if let Action::Invalidate { .. } = running.call.action {
                    return Step::Done;
                }
                self.calls[id].before = self.next_transfer();
                return Step::Next(Stage::Settle);
            };
            self.calls[id].page = dirty;
            if let Some(frame) = self.memory.find(file, dirty)
                && self.memory.has(frame, flag::WRITEBACK)
            {
                return self.wait_for_page(frame, id);
            }
            if self.queue.is_full(true) && !std::mem::take(&mut self.calls[id].may_overfill) {
                return self.wait_for_room(id);
            }
            self.calls[id].page += self.write_run(now, file, dirty, last + 1 - dirty, running.issuer());
        }
    }

    /// Waits for write-back of the range that is under way.
    pub(super) fn settle(&mut self, id: usize) -> Step {
        let running = self.calls[id];
        if let Some(transfer) = self.write_under_way(running.file, running.first_page(), running.last_page(), running.before) {
            return self.wait_for_transfer(transfer, id);
        }
        match running.call.action {
            Action::Access { access: Access::Direct, op: Op::Read, .. } => Step::Next(Stage::Issue),
            Action::Access { access: Access::Direct, .. } => Step::Next(Stage::Drop),
            _ => Step::Next(Stage::Barrier),
        }
    }

    /// What is at the device must also be on its media. Linux asks for it even if there was nothing to write (`ext4_sync_file`,
    /// `blkdev_fsync`): it may be somebody else's write-back that the drive still has in memory.
    pub(super) fn barrier(&mut self, now: Nanos, id: usize) -> Step {
        if !self.queue.flush(now, self.calls[id].call.stream, OF_CALL | id as u64) {
            return Step::Done;
        }
        self.calls[id].open = 1;
        Step::Next(Stage::Drained)
    }

    /// Takes the range's pages out of the cache, before the device holds something else there. A page that was made dirty
    /// meanwhile stays, unless nobody wants to know what is in it.
    pub(super) fn drop_range(&mut self, id: usize) -> Step {
        let running = self.calls[id];
        while self.calls[id].page <= running.last_page() && self.inodes[running.file as usize].cached > 0 {
            let page = self.calls[id].page;
            if let Some(frame) = self.memory.find(running.file, page) {
                if self.memory.has(frame, flag::LOCKED | flag::WRITEBACK) {
                    return self.wait_for_page(frame, id);
                }
                let whole = running.from <= page * PAGE && running.to >= (page + 1) * PAGE;
                if self.memory.has(frame, flag::DIRTY) && running.op == Op::Discard && whole {
                    self.clean(running.file, page, frame);
                }
                if !self.memory.has(frame, flag::DIRTY) {
                    self.remove_page(frame, false);
                }
            }
            self.calls[id].page += 1;
        }
        Step::Next(Stage::Issue)
    }

    /// Takes those of the range's pages out of the cache that are neither dirty nor under way.
    pub(super) fn drop_clean(&mut self, id: usize) {
        let running = self.calls[id];
        if self.inodes[running.file as usize].cached == 0 {
            return;
        }
        let (first, last) = (running.first_page(), running.last_page());
        if last - first < u64::from(self.memory.frames()) {
            return (first..=last).for_each(|page| self.drop_page_if_clean(running.file, page));
        }
        // A file much larger than memory.
        for frame in 0..self.memory.frames() {
            let page = *self.memory.page(frame);
            if page.file == running.file && (first..=last).contains(&page.index) {
                self.drop_page_if_clean(page.file, page.index);
            }
        }
    }

    fn drop_page_if_clean(&mut self, file: FileId, page: u64) {
        if let Some(frame) = self.memory.find(file, page)
            && !self.memory.has(frame, flag::LOCKED | flag::WRITEBACK | flag::DIRTY)
        {
            self.remove_page(frame, false);
        }
    }
}
