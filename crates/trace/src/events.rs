//! Builds requests from the Linux block layer's events: queued, sent to the driver, completed.
//!
//! A request is one queued by a program or filesystem (a bio), before merging and splitting: those are the scheduler's work, which
//! a replay repeats. It arrives with its `Q` event and is complete when `C` events have covered all its sectors.
//!
//! ```text
//!  Q 0+8   Q 8+8   D 0+16   C 0+16       two queued, merged, one completion: both are complete then
//!  Q 0+16  D 0+8   D 8+8  C 0+8  C 8+8   one queued, split: complete with its last part
//! ```
//!
//! A `D` for sectors of no pending request is a request of its own that arrives then: the trace began between its `Q` and `D`, or
//! recorded no `Q`s. `G I M F P U T X S R A B` add nothing: a remapped (`A`) request is queued again on the device below. Flushes
//! and other requests without sectors are left out.

use std::collections::{BTreeMap, VecDeque};

use block::in_flight::InFlight;
use block::{Nanos, Op, Request};

use super::TraceRequest;
use super::extent::Extent;
use super::names::Names;
use super::order::Window;

/// Pending requests above which the oldest is released without a response time.
const MAX_PENDING: usize = 16_384;
/// Maximum pending time: Linux itself gives up on a command after 30 s and a few retries.
const MAX_PENDING_TIME: Nanos = Nanos::from_millis(300_000);

/// For how long after the recording's beginning completions are of requests that were under way then.
const UNDER_WAY_BEFORE: Nanos = Nanos::from_millis(1_000);

/// The kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EventKind {
    /// `Q`: a request reached the queue.
    Queued,
    /// `D`: a request was sent to the driver.
    Issued,
    /// `C`: the driver completed a request.
    Completed,
}

/// An event about a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    pub(super) kind: EventKind,
    pub(super) time: Nanos,
    /// Linux's device number: major << 20 | minor.
    pub(super) device: u32,
    /// `None`: none of ours (a flush, a message).
    pub(super) op: Option<Op>,
    pub(super) sync: bool,
    pub(super) lba: u64,
    pub(super) sectors: u64,
    /// The process, which is the stream.
    pub(super) pid: u32,
}

/// A pending request.
#[derive(Clone, Copy)]
struct Pending {
    request: TraceRequest,
    /// Its number among those under way on its device; `None` once it is complete.
    under_way: Option<u32>,
}

/// Matches completions to requests.
#[derive(Default)]
pub(super) struct Matcher {
    /// In order of arrival, complete or not; requests leave from the front.
    pending: VecDeque<Pending>,
    /// The number of the front, which wraps around.
    front: u32,
    /// By the device's number.
    under_way: Vec<InFlight>,
    devices: Devices,
    /// The time of the first event.
    began: Option<Nanos>,
}

impl Matcher {
    /// Takes the next event and pushes the requests that are complete.
    pub(super) fn event(&mut self, event: &Event, out: &mut Window) -> Result<(), String> {
        let extent = Extent::of_sectors(event.lba, event.sectors)?;
        self.began.get_or_insert(event.time);
        if let (Some(op), Some(extent)) = (event.op, extent) {
            let device = self.devices.number(event.device)?;
            while self.under_way.len() <= device as usize {
                self.under_way.push(InFlight::default());
            }
            match event.kind {
                EventKind::Queued => self.arrive(event, op, device, extent),
                EventKind::Issued => self.issue(event, op, device, extent),
                EventKind::Completed => self.complete(event, op, device, extent, out),
            }
        } else if event.kind == EventKind::Queued {
            out.omit();
        }
        self.release(event.time, out);
        Ok(())
    }

    /// The trace has ended: pushes the rest.
    pub(super) fn end(&mut self, out: &mut Window) {
        while self.pop(out) {}
    }

    /// The trace's name for a device.
    pub(super) fn device_name(&self, device: u32) -> Option<&str> {
        self.devices.names.name(device)
    }

    fn arrive(&mut self, event: &Event, op: Op, device: u32, extent: Extent) {
        let id = self.front.wrapping_add(self.pending.len() as u32);
        let request = TraceRequest { sync: Some(event.sync), ..extent.request(event.time, op, device, event.pid) };
        let TraceRequest { arrival, lba, sectors, stream, priority, .. } = request;
        let queued = Request { id, stream, op, sync: event.sync, priority, sectors, lba, arrival };
        let under_way = Some(self.under_way[device as usize].queued(queued));
        self.pending.push_back(Pending { request, under_way });
    }

    fn issue(&mut self, event: &Event, op: Op, device: u32, extent: Extent) {
        let issued = |matcher: &mut Matcher| matcher.under_way[device as usize].issued(op, extent.lba, extent.sectors, event.time);
        if !issued(self) {
            self.arrive(event, op, device, extent);
            issued(self);
        }
    }

    fn complete(&mut self, event: &Event, op: Op, device: u32, extent: Extent, out: &mut Window) {
        let Matcher { pending, front, under_way, .. } = self;
        let is_known = under_way[device as usize].completed(op, extent.lba, extent.sectors, |done, issued| {
            if let Some(pending) = pending.get_mut(done.id.wrapping_sub(*front) as usize) {
                pending.under_way = None;
                pending.request.response = Some(event.time - done.arrival);
                pending.request.service = issued.map(|issued| event.time - issued);
            }
        });
        let is_new = self.began.is_some_and(|began| event.time - began > UNDER_WAY_BEFORE);
        if !is_known && is_new {
            out.unmatched();
        }
    }

    /// Pushes requests that are complete or have been pending for too long, from the front.
    fn release(&mut self, now: Nanos, out: &mut Window) {
        while let Some(front) = self.pending.front() {
            let old = self.pending.len() > MAX_PENDING || now - front.request.arrival > MAX_PENDING_TIME;
            if front.under_way.is_some() && !old {
                break;
            }
            self.pop(out);
        }
    }

    fn pop(&mut self, out: &mut Window) -> bool {
        let Some(Pending { request, under_way }) = self.pending.pop_front() else { return false };
        if let Some(number) = under_way {
            self.under_way[request.device as usize].forget(number);
        }
        self.front = self.front.wrapping_add(1);
        out.push(request);
        true
    }
}

/// Numbers Linux's devices in order of first appearance, named as blkparse prints them: `8,0`.
#[derive(Default)]
struct Devices {
    numbers: BTreeMap<u32, u32>,
    names: Names,
    last: Option<(u32, u32)>,
}

impl Devices {
    fn number(&mut self, device: u32) -> Result<u32, String> {
        if let Some((_, number)) = self.last.filter(|&(last, _)| last == device) {
            return Ok(number);
        }
        let number = match self.numbers.get(&device) {
            Some(&number) => number,
            None => self.names.number(format!("{},{}", device >> 20, device & 0xf_ffff).as_bytes())?,
        };
        self.numbers.insert(device, number);
        self.last = Some((device, number));
        Ok(number)
    }
}
