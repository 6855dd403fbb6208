//! Direct I/O and discards, which bypass the page cache.

use block::{Nanos, Op};

use super::reclaim::Memory;
use super::running::{Running, Stage, Step, Wait};
use super::syncing::drop_clean;
use super::transfers::SectorRange;

/// Issues a call's own pieces to the device.
pub(super) fn issue(now: Nanos, id: usize, running: &mut Running, memory: &mut Memory) -> Step {
    let first = running.from / 512;
    let range = SectorRange { file: running.file, first, sectors: running.to.div_ceil(512) - first };
    running.open += memory.transfers.issue_for_call(now, id, running.op, range, running.issuer());
    Step::Next(Stage::Pieces)
}

/// Waits for the call's pieces.
pub(super) fn pieces(running: &Running, memory: &mut Memory) -> Step {
    if running.open > 0 {
        return Step::Wait(Wait::Own);
    }
    // Pages read into the cache meanwhile may be stale (`kiocb_invalidate_post_direct_write`).
    if running.op != Op::Read {
        drop_clean(running, memory);
    }
    Step::Done
}
