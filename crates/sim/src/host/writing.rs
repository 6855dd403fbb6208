//! Buffered writes: `generic_perform_write` in `mm/filemap.c`.

use block::Nanos;

use super::page_cache::{PAGE, flag};
use super::reading::read_one;
use super::reclaim::Memory;
use super::running::{Running, Stage, Step, Wait};
use super::throttle::Writer;
use super::{Access, Action};

/// Copies into the cache page by page. A page that is not cached is read first, unless all of it is written or it is a hole.
/// Writing does not activate a page: only reading does.
pub(super) fn write(now: Nanos, running: &mut Running, writer: &mut Writer, memory: &mut Memory) -> Step {
    let last = running.last_page();
    while running.page <= last {
        let Running { file, page, from, to, .. } = *running;
        if let Some(pause) = memory.write_back.pause(now, file, writer, &mut memory.cache, &mut memory.transfers) {
            return Step::Wait(Wait::Until(now + pause));
        }
        let frame = match memory.cache.find(file, page) {
            Some(frame) if memory.cache.has(frame, flag::LOCKED) => {
                return Step::Wait(Wait::Transfer(memory.cache.page(frame).transfer));
            }
            Some(frame) => frame,
            None if from <= page * PAGE && to >= (page + 1) * PAGE
                || memory.new_files.is_hole(memory.transfers.files(), file, page) =>
            {
                if !memory.make_room(now, running.issuer()) {
                    return Step::Wait(Wait::Memory);
                }
                memory.cache.insert(file, page, 0)
            }
            None if read_one(now, running, memory) => continue,
            None => return Step::Wait(Wait::Memory),
        };
        memory.cache.mark_used(frame);
        if !memory.cache.has(frame, flag::DIRTY) {
            memory.write_back.make_dirty(now, &mut memory.cache, frame, writer);
            memory.new_files.write(memory.transfers.files(), file, page);
        }
        running.copied += 1;
        running.page += 1;
    }
    match running.call.action {
        Action::Access { access: Access::Synchronous, .. } => Step::Next(Stage::Flush),
        _ => Step::Done,
    }
}
