//! Which units are slow, and because of which others: throughput, response times and waiting times of units that share a device.
//!
//! A unit is any entity that the host numbers: a service, a container, a tenant. A request waits from its arrival until its completion. While
//! it waits, the device completes its unit's and others' requests; the time between two successive completions is charged to the unit of the
//! later one, which the device is assumed to have served. Requests that complete at the same nanosecond share that time by their sizes.
//! So the waiting time of a unit is divided, to the nanosecond, among the units behind whose requests it waited, including itself:
//!
//! ```text
//! reader waits   ├───────────────────────┤        8 ms behind the writer, 2 ms behind itself
//! completions       W        W        W    R
//! charged to      writer   writer  writer  reader
//! ```
//! - On a device that serves one request at a time, such as a disk, this is the cause of each wait. A device that serves many at
//!   once may have served both without either delaying the other: there the share behind a neighbour is an upper bound of its effect.
//! - While the device idles in anticipation of a request, the time is charged to the next completion.
//! - A flush of the write cache counts like a request, with a wait and a completion. A write preceded by a flush waits for both.
//! - A call of fsync waits from its beginning to the last completion before its end, and includes the requests of its process in that time.
//!   Work by other threads on its behalf, such as a journal's, counts as theirs. If calls are observed they are `flushes`, and flushes are not.
//! - Everything counts in the interval in which it completes. Waiting that began before the record
//!   (16,384 changes from one unit to another, five minutes, 191 other units) is charged to no unit for the time before it.
//!
//! ```
//! use block::{Nanos, Op, Priority, Request};
//! use observe::Event;
//! use observe::units::Units;
//!
//! const MS: u64 = 1_000_000;
//! let (reader, writer) = (1, 2);
//! let mut units = Units::new();
//! for (unit, op, arrival, at) in [(writer, Op::Write, 0, 4), (writer, Op::Write, 0, 8), (reader, Op::Read, 2, 10)] {
//!     let arrival = Nanos(arrival * MS);
//!     let request = Request { id: 0, stream: unit, op, sync: true, priority: Priority::DEFAULT, sectors: 8, lba: 0, arrival };
//!     units.event(unit, &Event::Completed { request, dispatched: arrival, at: Nanos(at * MS) });
//! }
//! let report = units.close(Nanos(1_000 * MS));
//! let reader = report.rows.iter().find(|row| row.unit == Some(reader)).unwrap();
//! // It waited for 8 ms: 6 of them behind the writer.
//! assert_eq!(reader.behind, [(Some(writer), Nanos(6 * MS)), (Some(1), Nanos(2 * MS))]);
//! ```

mod report;
#[cfg(test)]
mod tests;
mod timeline;

use std::collections::BTreeMap;

use block::{Nanos, Op, Request, StreamId};

use self::report::Responses;
use self::timeline::Timeline;
use crate::event::Event;

pub use report::{Group, Report, Row};

/// Number of a unit, given by the host.
pub type UnitId = u32;

/// Maximum number of units at a time. Kubernetes allows 110 pods per machine, and not all of them use one disk in the same interval.
/// Choice: more cost memory and time at each snapshot; these pods and more services than pods; not varied.
pub const MOST_UNITS: usize = 255;
/// Maximum time of an outstanding request until the host gives up on it: the length of the record, and the maximum response time in
/// quantiles. Choice: above the 180 s after which the SCSI disk driver gives up (`SD_TIMEOUT` times one more than `SD_MAX_RETRIES`,
/// `drivers/scsi/sd.h`); not varied.
const MAX_OUTSTANDING: Nanos = Nanos::from_millis(300_000);

/// State of a unit.
#[derive(Clone, Debug, Default)]
struct Slot {
    /// The unit; `None` for the first slot, which stands for no unit and for units in excess of the maximum.
    unit: Option<UnitId>,
    is_used: bool,
    /// Number of its latest run in the timeline.
    last_run: u64,
    /// Whether anything completed in this interval.
    is_active: bool,
    /// Whether its calls of fsync are observed, so that flushes do not count separately.
    has_calls: bool,
    reads: Responses,
    writes: Responses,
    sync_writes: Responses,
    flushes: Responses,
    /// Requests without data.
    others: u64,
    waited: u64,
    behind: Vec<u64>,
}

/// Accounts for requests of units that share a device. Does not allocate per request once the units are known.
#[derive(Clone, Debug)]
pub struct Units {
    slots: Vec<Slot>,
    by_unit: BTreeMap<UnitId, u16>,
    timeline: Timeline,
    /// Completions at the latest time, as slot and weight; charged as soon as time advances.
    at: Nanos,
    served: Vec<(u16, u64)>,
    /// Waits that ended: slot, and when each began.
    waited: Vec<(u16, Nanos)>,
    /// Streams in a call, and when it began.
    calls: BTreeMap<StreamId, Nanos>,
    /// Whether events were lost since the last charge.
    is_gap: bool,
    from: Nanos,
}

impl Default for Units {
    fn default() -> Units {
        Units::new()
    }
}

impl Units {
    /// Without events; the first interval begins at 0 unless [`begin`](Units::begin) is called.
    pub fn new() -> Units {
        Units {
            slots: vec![Slot { is_used: true, ..Slot::default() }],
            by_unit: BTreeMap::new(),
            timeline: Timeline::new(),
            at: Nanos::ZERO,
            served: Vec::new(),
            waited: Vec::new(),
            calls: BTreeMap::new(),
            is_gap: false,
            from: Nanos::ZERO,
        }
    }

    /// Sets the beginning of the first interval.
    pub fn begin(&mut self, at: Nanos) {
        self.from = at;
    }

    /// Adds an event of a unit. Events must be in order of time.
    pub fn event(&mut self, unit: UnitId, event: &Event) {
        match event {
            Event::Completed { request, at, .. } => {
                let slot = self.completed(unit, request.stream, request.arrival, *at, weight(request));
                let slot = &mut self.slots[usize::from(slot)];
                let (bytes, response) = (u64::from(request.sectors) * 512, *at - request.arrival);
                match request.op {
                    Op::Read => slot.reads.add(bytes, response),
                    Op::Write => {
                        slot.writes.add(bytes, response);
                        if request.sync {
                            slot.sync_writes.add(bytes, response);
                        }
                    }
                    Op::Discard => slot.others += 1,
                }
            }
            Event::Flushed { stream, asked, at } => {
                let slot = self.completed(unit, *stream, *asked, *at, 1);
                let slot = &mut self.slots[usize::from(slot)];
                if !slot.has_calls {
                    slot.flushes.add(0, *at - *asked);
                }
            }
            Event::Called { stream, at } => {
                let slot = self.slot(unit);
                self.slots[usize::from(slot)].has_calls = true;
                self.calls.insert(*stream, *at);
            }
            Event::Returned { stream, op, bytes, called, at } => {
                self.calls.remove(stream);
                if op.is_write() && *bytes == 0 {
                    self.synced(unit, *called, *at);
                }
            }
            Event::Queued(_) => {}
        }
    }

    /// Records the return of an fsync call, which waited for the device's completions since it began.
    fn synced(&mut self, unit: UnitId, called: Nanos, at: Nanos) {
        let slot = self.slot(unit);
        let of = &mut self.slots[usize::from(slot)];
        of.is_active = true;
        of.flushes.add(0, at - called);
        if called < self.at {
            self.waited.push((slot, called));
        }
    }

    /// Records that events were lost: the time from the last completion to the next one is charged to no unit.
    pub fn gap(&mut self) {
        self.settle();
        self.is_gap = true;
        self.calls.clear();
    }

    fn completed(&mut self, unit: UnitId, stream: StreamId, arrival: Nanos, at: Nanos, weight: u64) -> u16 {
        if at > self.at {
            self.settle();
            self.at = at;
        }
        if self.timeline.end() == Nanos::ZERO {
            self.timeline.begin(arrival.min(at));
        }
        let slot = self.slot(unit);
        match self.served.iter_mut().find(|(other, _)| *other == slot) {
            Some((_, sum)) => *sum += weight,
            None => self.served.push((slot, weight)),
        }
        // A process in a call waits for the call, which includes its requests.
        if self.calls.get(&stream).is_none_or(|called| *called > arrival) {
            self.waited.push((slot, arrival));
        }
        slot
    }

    /// Charges the time up to the latest completions.
    fn settle(&mut self) {
        if self.waited.is_empty() && self.served.is_empty() {
            return;
        }
        let Units { slots, timeline, served, waited, at, is_gap, .. } = self;
        if std::mem::take(is_gap) {
            timeline.push(0, *at);
        }
        let (began, length) = (timeline.end(), u128::from((*at - timeline.end()).0));
        let all: u128 = served.iter().map(|(_, weight)| u128::from(*weight)).sum();
        let mut sum = 0;
        for (slot, weight) in served.drain(..) {
            sum += u128::from(weight);
            timeline.push(slot, began + Nanos((length * sum / all.max(1)) as u64));
            slots[usize::from(slot)].last_run = timeline.last();
        }
        let end = timeline.end();
        for (slot, arrival) in waited.drain(..) {
            let number = slots.len();
            let slot = &mut slots[usize::from(slot)];
            slot.is_active = true;
            slot.waited += (end - arrival).0;
            if slot.behind.len() < number {
                slot.behind.resize(number, 0);
            }
            timeline.add_since(arrival, &mut slot.behind);
        }
    }

    fn slot(&mut self, unit: UnitId) -> u16 {
        if let Some(slot) = self.by_unit.get(&unit) {
            return *slot;
        }
        let free = self.slots.iter().position(|slot| !slot.is_used);
        let place = match free {
            Some(place) => place,
            None if self.slots.len() <= MOST_UNITS => {
                self.slots.push(Slot::default());
                self.slots.len() - 1
            }
            None => return 0,
        };
        let slot = &mut self.slots[place];
        (slot.unit, slot.is_used, slot.has_calls) = (Some(unit), true, false);
        self.by_unit.insert(unit, place as u16);
        place as u16
    }

    /// Ends the interval, and begins the next one. The report has a row per unit with completions, those that waited longest first.
    pub fn close(&mut self, at: Nanos) -> Report {
        self.settle();
        let names: Vec<Option<UnitId>> = self.slots.iter().map(|slot| slot.unit).collect();
        let mut rows: Vec<Row> = Vec::new();
        for slot in self.slots.iter_mut().filter(|slot| slot.is_active) {
            slot.is_active = false;
            let behind = names.iter().zip(&slot.behind).filter(|(_, waited)| **waited > 0);
            let behind = behind.map(|(unit, waited)| (*unit, Nanos(*waited))).collect();
            slot.behind.fill(0);
            let [reads, writes, sync_writes, flushes] =
                [&mut slot.reads, &mut slot.writes, &mut slot.sync_writes, &mut slot.flushes].map(Responses::take);
            let (others, waited) = (std::mem::take(&mut slot.others), Nanos(std::mem::take(&mut slot.waited)));
            rows.push(Row { unit: slot.unit, reads, writes, sync_writes, flushes, others, waited, behind });
        }
        let mut report = Report { from: self.from, to: at, rows };
        report.sort();
        self.from = at;
        self.timeline.forget_before(Nanos(at.0.saturating_sub(MAX_OUTSTANDING.0)));
        self.release();
        report
    }

    /// If all slots are in use, frees a quarter of them: those of units without completions for the longest time. Truncates the record so
    /// that it does not refer to them; their earlier totals cancel out in differences.
    fn release(&mut self) {
        let Units { slots, by_unit, timeline, .. } = self;
        let mut used = slots.iter().filter(|slot| slot.is_used).count();
        if used <= MOST_UNITS {
            return;
        }
        while used > MOST_UNITS * 3 / 4 && timeline.forget_oldest() {
            for slot in slots.iter_mut().skip(1).filter(|slot| slot.last_run < timeline.first()) {
                if let Some(unit) = slot.unit.take() {
                    by_unit.remove(&unit);
                    slot.is_used = false;
                    used -= 1;
                }
            }
        }
    }
}

/// Weight of a request when several share the same time.
fn weight(request: &Request) -> u64 {
    u64::from(request.sectors).max(1)
}
