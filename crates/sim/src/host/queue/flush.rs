//! Flushes of the device's write cache.
//!
//! They bypass admission and scheduler (`block/blk-flush.c`): one flush is at the device at a time, and those that arrive meanwhile share
//! the next one. It goes before all requests that wait to be dispatched, but needs a driver tag as they do: while the device has as many
//! requests as it takes, the next that completes makes room for it. Its issuer takes any free tag of the queue, since no scheduler limits
//! the tags of a flush (`__blk_mq_alloc_requests`), and waits for one after the streams that are in line if none is free: under `none`
//! these are the driver's tags. Issuers have already waited for the writes that they cover.

use block::{Nanos, RequestId, StreamId};

use super::Queue;
use crate::run::{Finished, Flushed, ServerEvent};

/// The id of a flush at the device, which no part's slot has.
pub(super) const FLUSH: RequestId = RequestId::MAX;

/// A flush that was requested and is not completed.
#[derive(Clone, Copy)]
struct Flush {
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

/// The flushes of a queue.
#[derive(Default)]
pub(super) struct Flushes {
    /// Those that share the one at the device.
    active: Vec<Flush>,
    /// Those that wait for the next one.
    pending: Vec<Flush>,
    /// Number of completions until the first of these has a tag of the queue.
    completions_to_tag: usize,
}

impl Flushes {
    /// Whether one is at the device.
    pub(super) fn is_active(&self) -> bool {
        !self.active.is_empty()
    }

    /// Whether one waits.
    pub(super) fn is_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Counts a completed request, whose tag the next in line takes.
    #[inline]
    pub(super) fn request_completed(&mut self) {
        self.completions_to_tag = self.completions_to_tag.saturating_sub(1);
    }

    /// Adds one that waits, after as many streams in line for a tag.
    fn wait(&mut self, flush: Flush, in_line: usize) {
        if self.pending.is_empty() {
            // One more than there are in line: the tag after theirs.
            self.completions_to_tag = if in_line > 0 { in_line + 1 } else { 0 };
        }
        self.pending.push(flush);
    }

    /// Lets the waiting ones share the one that has begun.
    fn activate(&mut self) {
        std::mem::swap(&mut self.active, &mut self.pending);
    }
}

impl Queue {
    /// Empties the device's volatile write cache on behalf of `stream` (`blkdev_issue_flush`): all that has completed by now is on the
    /// media when [`Finished::Flush`] returns `token`. Returns `false` if the device has no such cache; nothing is reported then.
    pub fn flush(&mut self, now: Nanos, stream: StreamId, token: u64) -> bool {
        let flush = Flush { arrival: now, stream, token };
        let in_line = if self.has_free_tag() { 0 } else { self.waiters.streams_in_line() };
        let must_wait = in_line > 0 || !self.port.has_room_for_flush();
        if self.flushes.is_active() || self.is_frozen(now) || must_wait && self.port.queues_flushes() {
            self.flushes.wait(flush, in_line);
        } else if self.port.flush(now, FLUSH) {
            self.flushes.active.push(flush);
            self.scheduler.flush_began(now, stream);
        } else {
            return false;
        }
        true
    }

    /// Handles the device's completion of a flush, which completes all that share it.
    pub(super) fn complete_flush(&mut self, at: Nanos, finished: &mut Vec<Finished>) {
        self.port.flush_completed();
        for flush in &self.flushes.active {
            self.scheduler.flush_ended(at, flush.stream, flush.arrival);
        }
        report(&mut self.flushes.active, at, &mut self.notes, finished);
        self.dispatch_flush(at, finished);
    }

    /// Dispatches one flush for all that are pending, unless one is at the device, the first has no tag or the queue is frozen.
    pub(super) fn dispatch_flush(&mut self, at: Nanos, finished: &mut Vec<Finished>) {
        if !self.flushes.is_pending() || self.flushes.is_active() || !self.port.has_room_for_flush() || self.is_frozen(at) {
            return;
        }
        if self.port.queues_flushes()
            && self.flushes.completions_to_tag > 0
            && (self.port.at_device() > 0 || !self.waiters.is_empty())
        {
            return;
        }
        if self.port.flush(at, FLUSH) {
            self.flushes.activate();
            for flush in &self.flushes.active {
                self.scheduler.flush_began(at, flush.stream);
            }
        }
        report(&mut self.flushes.pending, at, &mut self.notes, finished);
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
