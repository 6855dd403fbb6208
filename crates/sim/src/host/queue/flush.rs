//! Flushes of the device's write cache.
//!
//! They bypass admission and scheduler (`block/blk-flush.c`): one flush is at the device at a time, and those that arrive meanwhile share
//! the next one. Their issuers have already waited for the writes that they cover.

use block::{Nanos, RequestId, StreamId};

use super::Queue;
use crate::run::{Finished, Flushed, ServerEvent};

/// The id of a flush at the device, which no part's slot has.
pub(super) const FLUSH: RequestId = RequestId::MAX;

/// A flush that was requested and is not completed.
#[derive(Clone, Copy)]
pub(super) struct Flush {
    arrival: Nanos,
    stream: StreamId,
    token: u64,
}

impl Flush {
    fn done(self, at: Nanos) -> Flushed {
        let Flush { arrival, stream, token } = self;
        Flushed { arrival, stream, token, at }
    }
}

impl Queue {
    /// Empties the device's volatile write cache on behalf of `stream` (`blkdev_issue_flush`): all that has completed by now is on the
    /// media when [`Finished::Flush`] returns `token`. Returns `false` if the device has no such cache; nothing is reported then.
    pub fn flush(&mut self, now: Nanos, stream: StreamId, token: u64) -> bool {
        let flush = Flush { arrival: now, stream, token };
        if !self.active_flushes.is_empty() || self.is_frozen(now) {
            self.pending_flushes.push(flush);
        } else if self.device.flush(now, FLUSH) {
            self.active_flushes.push(flush);
        } else {
            return false;
        }
        true
    }

    /// Handles the device's completion of a flush, which completes all that share it.
    pub(super) fn complete_flush(&mut self, at: Nanos, finished: &mut Vec<Finished>) {
        report(&mut self.active_flushes, at, &mut self.notes, finished);
        self.dispatch_flush(at, finished);
    }

    /// Dispatches one flush for all that are pending, unless one is at the device or the queue is frozen.
    pub(super) fn dispatch_flush(&mut self, at: Nanos, finished: &mut Vec<Finished>) {
        if self.pending_flushes.is_empty() || !self.active_flushes.is_empty() || self.is_frozen(at) {
            return;
        }
        if self.device.flush(at, FLUSH) {
            std::mem::swap(&mut self.active_flushes, &mut self.pending_flushes);
        }
        report(&mut self.pending_flushes, at, &mut self.notes, finished);
    }
}

/// Reports these flushes as done, and empties the list.
fn report(flushes: &mut Vec<Flush>, at: Nanos, notes: &mut Option<Vec<ServerEvent>>, finished: &mut Vec<Finished>) {
    for flush in flushes.drain(..) {
        let flushed = flush.done(at);
        if let Some(notes) = notes {
            notes.push(ServerEvent::Flushed(flushed));
        }
        finished.push(Finished::Flush(flushed));
    }
}
