//! Builds requests from the Linux block layer's events: queued, sent to the driver, completed.
//!
//! A request is what a program or filesystem queued (a bio), before merging and splitting: those are the scheduler's work, which
//! a replay repeats. It arrives with its `Q` event and is complete when `C` events have covered all its sectors.
//!
//! ```text
//!  Q 0+8   Q 8+8   D 0+16   C 0+16       two queued, merged, one completion: both are answered then
//!  Q 0+16  D 0+8   D 8+8  C 0+8  C 8+8   one queued, split: answered with its last part
//! ```
//!
//! A `D` for sectors of no pending request is a request of its own that arrives then: the trace began between its `Q` and `D`, or
//! recorded no `Q`s. `G I M F P U T X S R A B` add nothing: a remapped (`A`) request is queued again on the device below. Flushes
//! and other requests without sectors are left out.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use block::{Nanos, Op};

use super::TraceRequest;
use super::extent::Extent;
use super::names::Names;
use super::order::Window;

/// How many requests may be pending before the oldest is released without a response time.
const UNANSWERED: usize = 16_384;
/// How long a request may be pending: Linux itself gives up on a command after 30 s and a few retries.
const PATIENCE: Nanos = Nanos::from_millis(300_000);
/// How many requests that begin before a completion are checked for overlap with it.
const LOOK_BACK: usize = 64;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
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
    pub(super) what: What,
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

/// A pending request, with the number of its sectors not yet completed.
#[derive(Clone, Copy)]
struct Pending {
    request: TraceRequest,
    remaining: u32,
    /// When the last of it so far was sent to the driver.
    issued: Option<Nanos>,
}

impl Pending {
    /// The first sector behind it.
    fn end(&self) -> u64 {
        self.request.lba + u64::from(self.request.sectors)
    }
}

/// Where a pending request stands in the index: device, direction, first sector, number in order of arrival.
type ExtentKey = (u32, Op, u64, u64);

/// Matches completions to requests.
#[derive(Default)]
pub(super) struct Matcher {
    /// In order of arrival, complete or not; requests leave from the front.
    pending: VecDeque<Pending>,
    /// The number of the front.
    front: u64,
    /// The pending ones.
    index: BTreeSet<ExtentKey>,
    devices: Devices,
}

impl Matcher {
    /// Takes the next event and pushes the requests that are complete.
    pub(super) fn event(&mut self, event: &Event, out: &mut Window) -> Result<(), String> {
        let extent = Extent::of_sectors(event.lba, event.sectors)?;
        if let (Some(op), Some(extent)) = (event.op, extent) {
            let device = self.devices.number(event.device)?;
            match event.what {
                What::Queued => self.arrive(event, op, device, extent),
                What::Issued => {
                    if self.next_within(device, op, extent.lba, extent.end()).is_none() {
                        self.arrive(event, op, device, extent);
                    }
                    self.each_within(
                        op,
                        device,
                        extent,
                        |pending| pending.issued.is_none(),
                        |matcher, place, _, _| {
                            matcher.sent(event.time, place);
                        },
                    );
                }
                What::Completed => {
                    self.each_within(
                        op,
                        device,
                        extent,
                        |_| true,
                        |matcher, place, from, end| matcher.credit(event.time, place, from, end),
                    );
                }
            }
        } else if event.what == What::Queued {
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
        let number = self.front + self.pending.len() as u64;
        let request = TraceRequest { sync: Some(event.sync), ..extent.request(event.time, op, device, event.pid) };
        self.pending.push_back(Pending { request, remaining: extent.sectors, issued: None });
        self.index.insert((device, op, extent.lba, number));
    }

    fn get(&self, number: u64) -> Option<&Pending> {
        self.pending.get(usize::try_from(number.checked_sub(self.front)?).ok()?)
    }

    /// Tells `of` the oldest request with exactly these sectors that is `meant`, else all requests that they overlap; and from where on to
    /// where.
    fn each_within(
        &mut self,
        op: Op,
        device: u32,
        extent: Extent,
        meant: impl Fn(&Pending) -> bool,
        mut of: impl FnMut(&mut Matcher, ExtentKey, u64, u64),
    ) {
        let (start, end) = (extent.lba, extent.end());
        let same_start = self.index.range((device, op, start, 0)..=(device, op, start, u64::MAX)).map(|&(.., number)| number);
        let fits =
            |&number: &u64| self.get(number).is_some_and(|pending| pending.request.sectors == extent.sectors && meant(pending));
        let exact = same_start.take(LOOK_BACK).find(fits);
        if let Some(number) = exact {
            return of(self, (device, op, start, number), start, end);
        }
        let mut from = start;
        while let Some(place) = self.next_within(device, op, from, end) {
            of(self, place, from, end);
            let beyond = self.get(place.3).map_or(end, Pending::end);
            from = beyond.max(from + 1).min(end);
        }
    }

    /// The pending request that contains `from`, or else the first that begins before `end`.
    fn next_within(&self, device: u32, op: Op, from: u64, end: u64) -> Option<ExtentKey> {
        if from >= end {
            return None;
        }
        let reaches = |&(.., number): &ExtentKey| self.get(number).is_some_and(|pending| pending.end() > from);
        let before = self.index.range((device, op, 0, 0)..(device, op, from, 0)).rev().take(LOOK_BACK).copied();
        let behind = || self.index.range((device, op, from, 0)..(device, op, end, 0)).next().copied();
        before.into_iter().find(reaches).or_else(behind)
    }

    fn get_mut(&mut self, number: u64) -> Option<&mut Pending> {
        self.pending.get_mut(usize::try_from(number.checked_sub(self.front)?).ok()?)
    }

    /// Some of the request at `place` went to the driver.
    fn sent(&mut self, now: Nanos, place: ExtentKey) {
        if let Some(pending) = self.get_mut(place.3) {
            pending.issued = Some(now);
        }
    }

    /// Sectors `from` to `end` are done, of which the request at `place` takes its own.
    fn credit(&mut self, now: Nanos, place: ExtentKey, from: u64, end: u64) {
        let Some(pending) = self.get_mut(place.3) else { return };
        let done = pending.end().min(end).saturating_sub(pending.request.lba.max(from));
        pending.remaining = pending.remaining.saturating_sub(u32::try_from(done).unwrap_or(u32::MAX));
        if pending.remaining == 0 {
            pending.request.response = Some(now - pending.request.arrival);
            pending.request.service = pending.issued.map(|issued| now - issued);
            self.index.remove(&place);
        }
    }

    /// Pushes requests that are complete or have been pending for too long, from the front.
    fn release(&mut self, now: Nanos, out: &mut Window) {
        while let Some(front) = self.pending.front() {
            let old = self.pending.len() > UNANSWERED || now - front.request.arrival > PATIENCE;
            if front.remaining > 0 && !old {
                break;
            }
            self.pop(out);
        }
    }

    fn pop(&mut self, out: &mut Window) -> bool {
        let Some(Pending { request, remaining, .. }) = self.pending.pop_front() else { return false };
        if remaining > 0 {
            self.index.remove(&(request.device, request.op, request.lba, self.front));
        }
        self.front += 1;
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
