//! Synchronises cache and device for a range of a file: for fsync, O_SYNC, and before direct I/O.
//!
//! Follows `mm/filemap.c` (`filemap_write_and_wait_range`, `kiocb_invalidate_pages`) and `mm/truncate.c`, for the final flush
//! `block/fops.c` and `fs/ext4/fsync.c`. Simplified: Linux tags the pages that are dirty at the start and writes these; here one
//! pass through the range writes the pages that are dirty when it reaches them. Metadata and journals are not modelled.

use block::{Nanos, Op};

use super::page_cache::{PAGE, flag};
use super::reclaim::Memory;
use super::running::{Running, Stage, Step, Wait};
use super::{Access, Action, FileId};

/// Starts write-back of the range's dirty pages, on behalf of the caller.
pub(super) fn flush_range(now: Nanos, running: &mut Running, memory: &mut Memory) -> Step {
    loop {
        let last = running.last_page();
        let Some(dirty) = memory.write_back.next_dirty(running.file, running.page).filter(|&dirty| dirty <= last) else {
            if running.is_advice() {
                return Step::Done;
            }
            running.before = memory.transfers.started();
            return Step::Next(Stage::Settle);
        };
        running.page = dirty;
        if let Some(frame) = memory.cache.find(running.file, dirty)
            && memory.cache.has(frame, flag::WRITEBACK)
        {
            return Step::Wait(Wait::Transfer(memory.cache.page(frame).transfer));
        }
        if memory.transfers.is_full(running.call.stream, true) && !std::mem::take(&mut running.may_overfill) {
            return Step::Wait(Wait::Room);
        }
        let (run, issuer) = (running.run_to(last + 1), running.issuer());
        running.page += memory.write_back.write_run(now, run, issuer, &mut memory.cache, &mut memory.transfers);
    }
}

/// Waits for write-back in progress in the range.
pub(super) fn settle(running: &Running, memory: &Memory) -> Step {
    let (first, last) = (running.first_page(), running.last_page());
    if let Some(transfer) = memory.transfers.write_under_way(running.file, first, last, running.before) {
        return Step::Wait(Wait::Transfer(transfer));
    }
    match running.call.action {
        Action::Access { access: Access::Direct, op: Op::Read, .. } => Step::Next(Stage::Issue),
        Action::Access { access: Access::Direct, .. } => Step::Next(Stage::Drop),
        _ => Step::Next(Stage::Barrier),
    }
}

/// Flushes the device's write cache. Linux does so even if there was nothing to write (`ext4_sync_file`, `blkdev_fsync`): the drive
/// may still have another process's write-back in its cache.
pub(super) fn barrier(now: Nanos, id: usize, running: &mut Running, memory: &mut Memory) -> Step {
    if !memory.transfers.flush_for_call(now, id, running.call.stream) {
        return Step::Done;
    }
    running.open = 1;
    Step::Next(Stage::Drained)
}

/// Drops the range's pages from the cache, before direct I/O changes the device. A page that was dirtied meanwhile stays, unless
/// the whole page is discarded.
pub(super) fn drop_range(running: &mut Running, memory: &mut Memory) -> Step {
    let last = running.last_page();
    while running.page <= last && memory.cache.cached(running.file) > 0 {
        let Running { file, page, from, to, op, .. } = *running;
        if let Some(frame) = memory.cache.find(file, page) {
            if memory.cache.has(frame, flag::LOCKED | flag::WRITEBACK) {
                return Step::Wait(Wait::Transfer(memory.cache.page(frame).transfer));
            }
            let whole = from <= page * PAGE && to >= (page + 1) * PAGE;
            if memory.cache.has(frame, flag::DIRTY) && op == Op::Discard && whole {
                memory.write_back.clean(&mut memory.cache, file, page, frame);
            }
            if !memory.cache.has(frame, flag::DIRTY) {
                memory.cache.remove(frame, false);
            }
        }
        running.page += 1;
    }
    Step::Next(Stage::Issue)
}

/// Drops the range's pages that are neither dirty nor in transfer from the cache.
pub(super) fn drop_clean(running: &Running, memory: &mut Memory) {
    if memory.cache.cached(running.file) == 0 {
        return;
    }
    let (first, last) = (running.first_page(), running.last_page());
    if last - first < u64::from(memory.cache.frames()) {
        return (first..=last).for_each(|page| drop_page_if_clean(running.file, page, memory));
    }
    // The file is much larger than memory, so iterate over frames.
    for frame in 0..memory.cache.frames() {
        let page = *memory.cache.page(frame);
        if page.file == running.file && (first..=last).contains(&page.index) {
            drop_page_if_clean(page.file, page.index, memory);
        }
    }
}

fn drop_page_if_clean(file: FileId, page: u64, memory: &mut Memory) {
    if let Some(frame) = memory.cache.find(file, page)
        && !memory.cache.has(frame, flag::LOCKED | flag::WRITEBACK | flag::DIRTY)
    {
        memory.cache.remove(frame, false);
    }
}
