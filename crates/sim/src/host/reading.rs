//! Buffered reads: `filemap_read` and `filemap_get_pages` in `mm/filemap.c`, and `page_cache_ra_unbounded` in `mm/readahead.c`.

use block::Nanos;

use super::memory::{PAGE, flag};
use super::read_ahead::{Most, Window};
use super::server::{Host, Purpose, Running, Step};

impl Host {
    pub(super) fn read(&mut self, now: Nanos, id: usize) -> Step {
        let last = self.calls[id].last_page();
        while self.calls[id].page <= last {
            let Running { file, page, .. } = self.calls[id];
            let Some(frame) = self.memory.find(file, page) else {
                self.calls[id].missed = true;
                self.read_ahead_of(now, id, false);
                if self.memory.find(file, page).is_none() && !self.read_one(now, id) {
                    return self.wait_for_memory(now, id);
                }
                continue;
            };
            if self.memory.has(frame, flag::MARKER) {
                self.memory.clear(frame, flag::MARKER);
                if !self.memory.has(frame, flag::WRITEBACK) {
                    self.read_ahead_of(now, id, true);
                    // That may have cost this page its place.
                    continue;
                }
            }
            if self.memory.has(frame, flag::LOCKED) {
                self.calls[id].missed = true;
                return self.wait_for_page(frame, id);
            }
            self.copy_out(id, frame);
        }
        Step::Done
    }

    fn copy_out(&mut self, id: usize, frame: u32) {
        self.use_page(frame);
        let running = &mut self.calls[id];
        let state = &mut self.open_files[running.open_file as usize].read_ahead;
        // Small reads of one page one after the other are one use of it.
        if state.previous == u64::MAX || state.previous.wrapping_sub(1) / PAGE != running.page {
            self.memory.mark_accessed(frame);
        }
        if running.missed {
            self.tally.misses += 1;
        } else {
            self.tally.hits += 1;
        }
        running.missed = false;
        running.copied += 1;
        running.page += 1;
        state.previous = running.to.min(running.page * PAGE);
    }

    /// Asks how far to read ahead of the page that a call has come to, and does.
    fn read_ahead_of(&mut self, now: Nanos, id: usize, marked: bool) {
        let running = self.calls[id];
        let Running { file, page, .. } = running;
        let requested = running.last_page() + 1 - page;
        let most = Most { window: self.settings.read_ahead_kb as u64 / 4, transfer: self.settings.max_sectors_kb as u64 / 4 };
        let state = &mut self.open_files[running.open_file as usize].read_ahead;
        let window = if marked {
            state.marked(&self.memory, file, page, requested, most)
        } else {
            Some(state.missed(&self.memory, file, page, requested, most))
        };
        if let Some(window) = window {
            self.read_window(now, id, window);
        }
    }

    /// Reads what is missing of a window, up to the file's end or until memory runs out.
    fn read_window(&mut self, now: Nanos, id: usize, window: Window) {
        let running = self.calls[id];
        let file = running.file;
        let pages = self.file(file).bytes.div_ceil(PAGE);
        let end = (window.start + window.pages).min(pages);
        let marker = if window.ahead > 0 { end.checked_sub(window.ahead) } else { None };
        let mut run_start = window.start;
        for page in window.start..end {
            if self.memory.find(file, page).is_some() {
                self.start_reads(now, id, run_start, page);
                run_start = page + 1;
                continue;
            }
            if !self.make_room(now, running.issuer()) {
                return self.start_reads(now, id, run_start, page);
            }
            let mut flags = flag::LOCKED;
            if page > running.last_page() {
                flags |= flag::AHEAD;
                self.tally.read_ahead += 1;
            }
            if marker == Some(page) {
                flags |= flag::MARKER;
            }
            self.insert_page(file, page, flags);
        }
        if run_start < end {
            self.start_reads(now, id, run_start, end);
        }
    }

    /// Reads one page, without which a call cannot go on. False if there is no memory for it.
    pub(super) fn read_one(&mut self, now: Nanos, id: usize) -> bool {
        let running = self.calls[id];
        if !self.make_room(now, running.issuer()) {
            return false;
        }
        self.insert_page(running.file, running.page, flag::LOCKED);
        self.start_reads(now, id, running.page, running.page + 1);
        true
    }

    fn start_reads(&mut self, now: Nanos, id: usize, from: u64, to: u64) {
        let running = self.calls[id];
        let mut page = from;
        while page < to {
            let pages = self.run_limit(running.file, page).min(to - page);
            self.start_transfer(now, Purpose::Read, running.file, page, pages, running.issuer());
            page += pages;
        }
    }
}
