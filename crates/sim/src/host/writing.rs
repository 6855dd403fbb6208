//! Buffered writes: `generic_perform_write` in `mm/filemap.c`, `balance_dirty_pages` in `mm/page-writeback.c`.

use block::Nanos;

use super::flusher::Queued;
use super::memory::{PAGE, flag};
use super::server::{Host, Running, Stage, Step, Timer};
use super::{Access, Action, FileId};

impl Host {
    /// Copies into the cache page by page. A page that is not here is read first, unless all of it is written. Writing does not
    /// make a page active: only reading does.
    pub(super) fn write(&mut self, now: Nanos, id: usize) -> Step {
        let last = self.calls[id].last_page();
        while self.calls[id].page <= last {
            let Running { file, page, from, to, .. } = self.calls[id];
            if let Some(pause) = self.pause(now, id) {
                self.tally.throttled += pause;
                self.start_timer(now + pause, Timer::Resume(id));
                return Step::Waits;
            }
            let frame = match self.memory.find(file, page) {
                Some(frame) if self.memory.has(frame, flag::LOCKED) => return self.wait_for_page(frame, id),
                Some(frame) => frame,
                None if from <= page * PAGE && to >= (page + 1) * PAGE => {
                    if !self.make_room(now, self.calls[id].issuer()) {
                        return self.wait_for_memory(now, id);
                    }
                    self.insert_page(file, page, 0)
                }
                None if self.read_one(now, id) => continue,
                None => return self.wait_for_memory(now, id),
            };
            self.use_page(frame);
            if !self.memory.has(frame, flag::DIRTY) {
                self.make_dirty(now, frame);
                self.open_files[self.calls[id].open_file as usize].dirtied += 1;
            }
            let running = &mut self.calls[id];
            running.copied += 1;
            running.page += 1;
        }
        match self.calls[id].call.action {
            Action::Access { access: Access::Synchronous, .. } => Step::Next(Stage::Flush),
            _ => Step::Done,
        }
    }

    fn make_dirty(&mut self, now: Nanos, frame: u32) {
        let page = *self.memory.page(frame);
        self.memory.set(frame, flag::DIRTY);
        self.dirty.insert(page.file, page.index);
        self.throttle.dirtied += 1;
        self.tally.dirtied += 1;
        self.tally.dirty_peak = self.tally.dirty_peak.max(self.dirty_pages());
        let inode = &mut self.inodes[page.file as usize];
        inode.dirty += 1;
        if inode.dirty == 1 {
            inode.dirtied_when = now;
            if matches!(inode.queued, Queued::Nowhere | Queued::Dirty) {
                self.queue_dirty(now, page.file);
            }
        }
    }

    /// Marks a page as no longer dirty.
    pub(super) fn clean(&mut self, file: FileId, page: u64, frame: u32) {
        self.memory.clear(frame, flag::DIRTY);
        self.dirty.remove(file, page);
        self.inodes[file as usize].dirty -= 1;
    }

    /// How long the writer must sleep before it makes another page dirty. The limit itself is looked at before every page, so
    /// it holds exactly; Linux looks now and then, and may go over it a little.
    fn pause(&mut self, now: Nanos, id: usize) -> Option<Nanos> {
        let open_file = self.calls[id].open_file as usize;
        let (dirty, limits) = (self.dirty_pages(), self.dirty_limits());
        let writer = self.open_files[open_file];
        if dirty < limits.limit && writer.dirtied < writer.poll_after {
            return None;
        }
        if self.dirty.len() > limits.background {
            self.start_background_flush(now);
        }
        let writing = dirty > limits.free_run();
        self.throttle.update(now, limits, dirty, writing);
        if !writing {
            (self.open_files[open_file].dirtied, self.open_files[open_file].poll_after) = (0, limits.poll_interval(dirty));
            return None;
        }
        // Above the free run everybody's writes go down, even if the background share is not reached by dirty pages alone.
        self.start_background_flush(now);
        let pause = self.throttle.pause(limits, dirty, writer.dirtied);
        let writer = &mut self.open_files[open_file];
        (writer.dirtied, writer.poll_after) = (0, self.throttle.poll_interval(limits, dirty));
        Some(pause.max(Nanos(1)))
    }
}
