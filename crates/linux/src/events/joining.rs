//! Joins the kernel's events to requests with their times.
//!
//! ```text
//! FWFS 800+8 queued ─▶ FF issued ─▶ FF completed: flushed ─▶ W 800+8 issued, completed ─▶ FF issued ─▶ FF completed: flushed
//! ```
//! A write can request a flush of the write cache before it, and that it is on the media at completion, for which Linux flushes the cache
//! after it if the device does not support FUA (`block/blk-flush.c`). One flush serves all requests for it from before its start.

use std::collections::VecDeque;

use block::in_flight::InFlight;
use block::{Nanos, Request, StreamId};
use observe::Event;

use super::format::What;
use super::fsync::FsyncCalls;
use super::raw::Raw;

/// Maximum number of requests in flight; beyond it the oldest is dropped.
const MOST_UNDER_WAY: usize = 16_384;
/// Maximum age of one: Linux itself gives up on a command after 30 s and a few retries.
const PATIENCE: Nanos = Nanos::from_millis(300_000);
/// Maximum number of requests for a flush.
const MOST_FLUSHES: usize = 1024;

/// A request for a flush of the write cache.
#[derive(Clone, Copy)]
struct Ask {
    stream: StreamId,
    asked: Nanos,
}

/// The state of the join.
#[derive(Default)]
pub(super) struct Joining {
    under_way: InFlight,
    asks: VecDeque<Ask>,
    /// Issue times of the flushes at the device.
    flushes: VecDeque<Nanos>,
    /// Whether the device supports FUA: a write can be on the media at completion without a flush after it.
    writes_through: bool,
    fsync: FsyncCalls,
}

/// Id of a request with the flag FUA: it must be on the media at completion.
const FUA: u32 = 1;

impl Joining {
    /// A joiner for a device that supports FUA, or one that has to be flushed instead.
    pub(super) fn new(writes_through: bool) -> Joining {
        Joining { writes_through, ..Joining::default() }
    }

    /// Processes the next event, in order of time.
    pub(super) fn event(&mut self, raw: &Raw, out: &mut Vec<Event>) {
        match raw.what {
            What::Queued => self.queued(raw, out),
            What::Issued if raw.kind.is_flush => push(&mut self.flushes, raw.at),
            What::Issued => {
                if let Some(op) = raw.kind.op {
                    self.under_way.issued(op, raw.lba, raw.sectors, raw.at);
                }
            }
            What::Completed if raw.kind.is_flush => {
                let began = self.flushes.pop_front().unwrap_or(raw.at);
                self.flushed(began, raw.at, out);
            }
            What::Completed => self.completed(raw, out),
            What::Answered if raw.sectors == 0 && raw.kind.flush_before => {
                // Without a queue it was passed on at once, and is completed separately.
                if let Some(Ask { stream, asked }) = self.asks.pop_front() {
                    out.push(Event::Flushed { stream, asked, at: raw.at });
                }
            }
            What::Answered => self.completed(raw, out),
            What::SyncCalled => self.fsync.called(raw.process, raw.at, out),
            What::SyncReturned => self.fsync.returned(raw.process, raw.at, out),
        }
    }

    /// Notes that events before this time were lost. Requests in flight since then may have completed.
    pub(super) fn gap(&mut self, at: Nanos) {
        while self.under_way.oldest().is_some_and(|oldest| oldest.arrival < at) {
            self.under_way.forget_oldest();
        }
        self.asks.clear();
        self.flushes.clear();
    }

    fn queued(&mut self, raw: &Raw, out: &mut Vec<Event>) {
        let stream = raw.process;
        if raw.kind.flush_before {
            push(&mut self.asks, Ask { stream, asked: raw.at });
        }
        let (Some(op), 1..) = (raw.kind.op, raw.sectors) else { return };
        let is_old = |oldest: &Request| raw.at - oldest.arrival > PATIENCE;
        while self.under_way.len() >= MOST_UNDER_WAY || self.under_way.oldest().is_some_and(is_old) {
            self.under_way.forget_oldest();
        }
        let id = if raw.kind.fua { FUA } else { 0 };
        let (sync, priority, arrival) = (raw.kind.sync, raw.priority, raw.at);
        let request = Request { id, stream, op, sync, priority, sectors: raw.sectors, lba: raw.lba, arrival };
        self.under_way.queued(request);
        out.push(Event::Queued(Request { id: 0, ..request }));
    }

    fn completed(&mut self, raw: &Raw, out: &mut Vec<Event>) {
        let Some(op) = raw.kind.op else { return };
        let Joining { under_way, asks, writes_through, .. } = self;
        let must_flush = raw.what == What::Completed && !*writes_through;
        under_way.completed(op, raw.lba, raw.sectors, |request, issued| {
            if must_flush && request.id == FUA {
                push(asks, Ask { stream: request.stream, asked: raw.at });
            }
            let request = Request { id: 0, priority: raw.priority, ..request };
            out.push(Event::Completed { request, dispatched: issued.unwrap_or(request.arrival), at: raw.at });
        });
    }

    /// Handles a flush of the write cache from `began` to `at`.
    fn flushed(&mut self, began: Nanos, at: Nanos, out: &mut Vec<Event>) {
        while let Some(&Ask { stream, asked }) = self.asks.front().filter(|ask| ask.asked <= began) {
            self.asks.pop_front();
            // An older request must have been served in some other way.
            if at - asked <= PATIENCE {
                out.push(Event::Flushed { stream, asked, at });
            }
        }
    }
}

/// Appends an item; drops the oldest if the queue is full.
fn push<T>(queue: &mut VecDeque<T>, last: T) {
    if queue.len() >= MOST_FLUSHES {
        queue.pop_front();
    }
    queue.push_back(last);
}
