//! Buffered reads: `filemap_read` and `filemap_get_pages` in `mm/filemap.c`, and `page_cache_ra_unbounded` in `mm/readahead.c`.

use block::Nanos;

use super::call::Advice;
use super::page_cache::{PAGE, flag};
use super::read_ahead::{ReadAhead, ReadWindow};
use super::reclaim::Memory;
use super::running::{Running, Step, Wait};
use super::transfers::PageRun;

/// Copies pages out of the cache. Missing pages are read, with read-ahead.
pub(super) fn read(now: Nanos, running: &mut Running, read_ahead: &mut ReadAhead, memory: &mut Memory) -> Step {
    let last = running.last_page();
    while running.page <= last {
        let Running { file, page, .. } = *running;
        let Some(frame) = memory.cache.find(file, page) else {
            running.missed = true;
            read_ahead_of(now, running, read_ahead, memory, false);
            if memory.cache.find(file, page).is_none() && !read_one(now, running, memory) {
                return Step::Wait(Wait::Memory);
            }
            continue;
        };
        if memory.cache.take(frame, flag::MARKER) && !memory.cache.has(frame, flag::WRITEBACK) {
            read_ahead_of(now, running, read_ahead, memory, true);
            // That may have evicted this page.
            continue;
        }
        if memory.cache.has(frame, flag::LOCKED) {
            running.missed = true;
            return Step::Wait(Wait::Transfer(memory.cache.page(frame).transfer));
        }
        copy_out(running, read_ahead, memory, frame);
    }
    Step::Done
}

fn copy_out(running: &mut Running, read_ahead: &mut ReadAhead, memory: &mut Memory, frame: u32) {
    memory.cache.mark_used(frame);
    // Consecutive small reads of one page count as one use.
    if read_ahead.previous == u64::MAX || read_ahead.previous.wrapping_sub(1) / PAGE != running.page {
        memory.cache.mark_accessed(frame);
    }
    memory.cache.count_read(std::mem::take(&mut running.missed));
    running.copied += 1;
    running.page += 1;
    read_ahead.previous = running.to.min(running.page * PAGE);
}

/// Reads ahead from the page that a call has reached.
fn read_ahead_of(now: Nanos, running: &Running, read_ahead: &mut ReadAhead, memory: &mut Memory, marked: bool) {
    let Running { file, page, .. } = *running;
    let requested = running.last_page() + 1 - page;
    let mut most = memory.read_ahead_limits();
    match running.call.advice {
        Advice::Normal => {}
        Advice::Sequential => most.window *= 2,
        // No read-ahead, but a call gets all its pages at once (`force_page_cache_ra`).
        Advice::Random => {
            let window = (!marked).then_some(ReadWindow { start: page, pages: requested, ahead: 0 });
            return window.map_or((), |window| read_window(now, running, memory, window));
        }
    }
    let window = if marked {
        read_ahead.marked(&memory.cache, file, page, requested, most)
    } else {
        Some(read_ahead.missed(&memory.cache, file, page, requested, most))
    };
    if let Some(window) = window {
        read_window(now, running, memory, window);
    }
}

/// Reads the missing pages of a window, up to the file's end or until memory runs out.
fn read_window(now: Nanos, running: &Running, memory: &mut Memory, window: ReadWindow) {
    let file = running.file;
    let pages = memory.transfers.files()[file as usize].bytes.div_ceil(PAGE);
    let end = (window.start + window.pages).min(pages);
    let marker = if window.ahead > 0 { end.checked_sub(window.ahead) } else { None };
    let mut run_start = window.start;
    for page in window.start..end {
        if memory.cache.find(file, page).is_some() {
            start_reads(now, running, memory, run_start, page);
            run_start = page + 1;
            continue;
        }
        if !memory.make_room(now, running.issuer()) {
            return start_reads(now, running, memory, run_start, page);
        }
        let mut flags = flag::LOCKED;
        if page > running.last_page() {
            flags |= flag::AHEAD;
            memory.cache.count_ahead();
        }
        if marker == Some(page) {
            flags |= flag::MARKER;
        }
        memory.cache.insert(file, page, flags);
    }
    start_reads(now, running, memory, run_start, end);
}

/// Reads the page that a call needs to continue. Returns `false` if there is no memory for it.
pub(super) fn read_one(now: Nanos, running: &Running, memory: &mut Memory) -> bool {
    if !memory.make_room(now, running.issuer()) {
        return false;
    }
    memory.cache.insert(running.file, running.page, flag::LOCKED);
    start_reads(now, running, memory, running.page, running.page + 1);
    true
}

/// Starts reading the pages from `from` to `to` (exclusive), in as few transfers as possible.
fn start_reads(now: Nanos, running: &Running, memory: &mut Memory, from: u64, to: u64) {
    let file = running.file;
    let mut first = from;
    while first < to {
        let pages = memory.transfers.run_limit(file, first).min(to - first);
        memory.start_read(now, PageRun { file, first, pages }, running.issuer());
        first += pages;
    }
}
