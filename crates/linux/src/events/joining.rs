//! Joins the kernel's events to requests with their times.
//!
//! ```text
//! FWFS 800+8 queued ─▶ FF issued ─▶ FF completed: flushed ─▶ W 800+8 issued, completed ─▶ FF issued ─▶ FF completed: flushed
//! ```
//! A write can ask for the write cache to be emptied before it, and to be on the media when it is done, for which Linux has the cache
//! emptied after it where the device has no better way (`block/blk-flush.c`). One flush serves all who asked before it began.

use std::collections::{BTreeMap, VecDeque};

use block::in_flight::InFlight;
use block::{Nanos, Op, Request, StreamId};
use observe::Event;

use super::format::What;
use super::raw::Raw;

/// How many requests may be under way before the oldest is forgotten.
const MOST_UNDER_WAY: usize = 16_384;
/// How long one may be under way: Linux itself gives up on a command after 30 s and a few retries.
const PATIENCE: Nanos = Nanos::from_millis(300_000);
/// How many processes may be in a call.
const MOST_CALLS: usize = 16_384;
/// How many may wait for a flush.
const MOST_FLUSHES: usize = 1024;

/// A process that waits for a flush of the write cache.
#[derive(Clone, Copy)]
struct Ask {
    stream: StreamId,
    asked: Nanos,
}

/// What is known so far.
#[derive(Default)]
pub(super) struct Joining {
    under_way: InFlight,
    asks: VecDeque<Ask>,
    /// When the flushes that are at the device were issued.
    flushes: VecDeque<Nanos>,
    /// Whether a write is on the media without a flush after it, if it asks for that.
    writes_through: bool,
    /// Processes that are in a call of fsync, and since when.
    calls: BTreeMap<StreamId, Nanos>,
}

/// What a request's number says: it is to be on the media when it is done.
const ON_MEDIA: u32 = 1;

impl Joining {
    /// For a device that writes through to the media if it is asked to, or one that has to be flushed for that.
    pub(super) fn new(writes_through: bool) -> Joining {
        Joining { writes_through, ..Joining::default() }
    }

    /// Takes the next event, in order of time.
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
                // Without a queue it was passed on when it was asked, and is answered by itself.
                if let Some(Ask { stream, asked }) = self.asks.pop_front() {
                    out.push(Event::Flushed { stream, asked, at: raw.at });
                }
            }
            What::Answered => self.completed(raw, out),
            What::SyncCalled => self.called(raw.process, raw.at, out),
            What::SyncReturned => {
                if let Some(called) = self.calls.remove(&raw.process) {
                    out.push(Event::Returned { stream: raw.process, op: Op::Write, bytes: 0, called, at: raw.at });
                }
            }
        }
    }

    fn called(&mut self, stream: StreamId, at: Nanos, out: &mut Vec<Event>) {
        // That an earlier call returned was lost: it is over, and no call of fsync whose time is known.
        let over = |stream, called| Event::Returned { stream, op: Op::Read, bytes: 0, called, at };
        if self.calls.len() >= MOST_CALLS {
            out.extend(std::mem::take(&mut self.calls).into_iter().map(|(stream, called)| over(stream, called)));
        }
        out.extend(self.calls.insert(stream, at).map(|called| over(stream, called)));
        out.push(Event::Called { stream, at });
    }

    /// Events before this time were lost. What is under way since then may be done.
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
        let id = if raw.kind.on_media { ON_MEDIA } else { 0 };
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
            if must_flush && request.id == ON_MEDIA {
                push(asks, Ask { stream: request.stream, asked: raw.at });
            }
            let request = Request { id: 0, priority: raw.priority, ..request };
            out.push(Event::Completed { request, dispatched: issued.unwrap_or(request.arrival), at: raw.at });
        });
    }

    /// The write cache was emptied from `began` to `at`.
    fn flushed(&mut self, began: Nanos, at: Nanos, out: &mut Vec<Event>) {
        while let Some(&Ask { stream, asked }) = self.asks.front().filter(|ask| ask.asked <= began) {
            self.asks.pop_front();
            // What waited for that long was answered by other means.
            if at - asked <= PATIENCE {
                out.push(Event::Flushed { stream, asked, at });
            }
        }
    }
}

/// Without ever growing beyond its bound.
fn push<T>(queue: &mut VecDeque<T>, last: T) {
    if queue.len() >= MOST_FLUSHES {
        queue.pop_front();
    }
    queue.push_back(last);
}
