//! A store of several arrays, with volumes that can be migrated between them while in use.
//!
//! ```text
//!             VolumeIssue (volume, sectors of the volume)
//!  Source ──────────▶ Store ─── location ───▶ Queue of array A ─▶ Device
//!                       │                 └─▶ Queue of array B ─▶ Device
//!                       └── Copier: reads a chunk, then writes it, at a limited rate
//! ```
//! While a volume is copied, requests follow the data: below the copier's position to the new place, above it to the old one; a
//! request that spans the position is split. Copied sectors are valid only in the new place; the old place is not updated.
//!
//! A write to the chunk being copied goes to the old place, and the chunk is copied again. So is a chunk to which a write is still
//! in flight when its copy starts. Continuous writes could keep the copier from finishing: after `copier::ATTEMPTS` failed copies
//! of a chunk, writes to it wait until its next copy is complete, as in Linux for a region that dm-raid1 recovers (`rh_state` in
//! `drivers/md/dm-raid1.c`).
//!
//! Requests of the copier have the stream [`COPY`]; schedulers with tenants attribute them by
//! [`Roster::with_roaming`](block::Roster::with_roaming).

mod copier;
#[cfg(test)]
mod tests;

use block::{Nanos, Op, StreamId};
use slab::Slab;

pub use copier::{Copy, CopyPace};

use crate::host::Queue;
use crate::run::{Attributed, Finished, Flushed, Issue, Server, Transferred};
use crate::streams::COPY;
use copier::{Chunk, Copier, Passage};

/// The token of the copier's requests; the token of a part of a request is its index in the slab.
const OF_COPIER: u64 = 1 << 63;

/// A request to a volume. Sectors are relative to the volume's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeIssue {
    /// The volume's number.
    pub volume: usize,
    /// The request.
    pub issue: Issue,
}

impl Attributed for VolumeIssue {
    /// Sectors of a volume do not identify a tenant.
    fn issuer(&self) -> Option<(StreamId, Option<u64>)> {
        Some((self.issue.stream, None))
    }
}

/// The place of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The array's number.
    pub array: usize,
    /// Its first sector there.
    pub start: u64,
}

struct Array {
    queue: Queue,
    is_touched: bool,
}

/// A request to a volume in progress, in one or more parts.
struct PendingRequest {
    issue: Issue,
    open_parts: u32,
    dispatched: Nanos,
}

/// A part of a request, at an array.
struct Part {
    asked: usize,
    /// For a write to the old place of a volume being copied: the volume and its sectors; otherwise `None`.
    written: Option<(usize, u64, u64)>,
}

/// A part of a write that waits until a chunk is copied.
struct Held {
    volume: usize,
    asked: usize,
    begin: u64,
    end: u64,
}

/// Arrays, each behind its own queue, and volumes on them.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use block::{Limits, Nanos};
/// use sim::host::{Queue, QueueSettings};
/// use sim::profile::{DeviceOptions, load};
/// use sim::store::{Copy, CopyPace, Place, Store};
///
/// let queue = || -> Result<Queue, Box<dyn std::error::Error>> {
///     let (scheduler, values) = block::parse("noop")?;
///     let device = load("atlas10k")?.build(DeviceOptions::default());
///     Ok(Queue::new((scheduler.build)(&Limits::default(), &values), device, QueueSettings::default()))
/// };
/// let old = Place { array: 0, start: 0 };
/// let mut store = Store::new(vec![queue()?, queue()?], vec![old]);
/// let copy = Copy { volume: 0, sectors: 2_048, to: Place { array: 1, start: 0 } };
/// store.copy(Nanos::ZERO, vec![vec![copy]], CopyPace::default());
/// assert_eq!(store.place(0), old, "nothing has been copied yet");
/// # Ok(())
/// # }
/// ```
pub struct Store {
    arrays: Vec<Array>,
    places: Vec<Place>,
    asked: Slab<PendingRequest>,
    parts: Slab<Part>,
    held: Vec<Held>,
    copier: Option<Copier>,
    finished: Vec<Finished>,
}

impl Store {
    /// A store of these arrays, and the place of each volume. Volumes must not overlap or reach beyond the end of their array.
    pub fn new(queues: Vec<Queue>, places: Vec<Place>) -> Store {
        let arrays = queues.into_iter().map(|queue| Array { queue, is_touched: false });
        Store {
            arrays: arrays.collect(),
            places,
            asked: Slab::new(),
            parts: Slab::new(),
            held: Vec::new(),
            copier: None,
            finished: Vec::new(),
        }
    }

    /// Copies volumes to new places from `begin` on, step by step; the copies of a step progress evenly. When a step is complete, a
    /// [`Finished::Flush`] of the stream [`COPY`] is reported with the step's number as its token.
    pub fn copy(&mut self, begin: Nanos, steps: Vec<Vec<Copy>>, pace: CopyPace) {
        self.copier = Some(Copier::new(begin, steps, pace));
    }

    /// The place of a volume; while it is being copied, its old place.
    pub fn place(&self, volume: usize) -> Place {
        self.places[volume]
    }

    /// The queue of an array.
    pub fn queue(&self, array: usize) -> &Queue {
        &self.arrays[array].queue
    }

    /// The queue of an array, for setting a roster or recording events.
    pub fn queue_mut(&mut self, array: usize) -> &mut Queue {
        &mut self.arrays[array].queue
    }

    /// Number of bytes copied so far, including repeated copies.
    pub fn copied_bytes(&self) -> u64 {
        self.copier.as_ref().map_or(0, Copier::copied_bytes)
    }

    /// Issues sectors of a volume to their current place.
    fn send(&mut self, now: Nanos, volume: usize, asked: usize, begin: u64, end: u64) {
        let issue = self.asked[asked].issue;
        let passage = self.copier.as_ref().map_or(Passage::Direct, |copier| copier.passage(volume, begin, end));
        match passage {
            Passage::Direct => self.send_part(now, self.places[volume], None, asked, begin, end),
            Passage::Copied(place) => self.send_part(now, place, None, asked, begin, end),
            Passage::Across(at) => {
                self.asked[asked].open_parts += 1;
                self.send(now, volume, asked, begin, at);
                self.send(now, volume, asked, at, end);
            }
            Passage::Old if issue.op == Op::Read => self.send_part(now, self.places[volume], None, asked, begin, end),
            Passage::Old => {
                let holds = self.copier.as_mut().is_some_and(|copier| copier.writes(volume, begin, end));
                if holds {
                    self.held.push(Held { volume, asked, begin, end });
                } else {
                    self.send_part(now, self.places[volume], Some((volume, begin, end)), asked, begin, end);
                }
            }
        }
    }

    fn send_part(&mut self, now: Nanos, place: Place, written: Option<(usize, u64, u64)>, asked: usize, begin: u64, end: u64) {
        let token = self.parts.insert(Part { asked, written }) as u64;
        let sectors = (end - begin) as u32;
        let issue = Issue { lba: place.start + begin, sectors, token, ..self.asked[asked].issue };
        self.admit_at(now, place.array, issue);
    }

    fn admit_at(&mut self, now: Nanos, array: usize, issue: Issue) {
        let array = &mut self.arrays[array];
        array.queue.admit(now, issue);
        array.is_touched = true;
    }

    /// Starts the copier's next chunk if it is due.
    fn drive(&mut self, now: Nanos) {
        let Some(mut copier) = self.copier.take() else { return };
        if copier.is_due(now) {
            let parts = &self.parts;
            let is_written = |volume, begin, end| {
                let written = parts.iter().filter_map(|(_, part)| part.written);
                written.into_iter().any(|(of, from, to)| of == volume && from < end && begin < to)
            };
            if let Some(chunk) = copier.next_chunk(now, is_written) {
                self.copy_chunk(now, &chunk, Op::Read, self.places[chunk.volume]);
            }
        }
        self.copier = Some(copier);
    }

    fn copy_chunk(&mut self, now: Nanos, chunk: &Chunk, op: Op, place: Place) {
        let issue = Issue {
            arrival: now,
            lba: place.start + chunk.begin,
            sectors: (chunk.end - chunk.begin) as u32,
            op,
            sync: op == Op::Read,
            stream: COPY,
            priority: block::Priority::DEFAULT,
            token: OF_COPIER,
        };
        self.admit_at(now, place.array, issue);
    }

    /// Handles the completion of a request of the copier.
    fn copied(&mut self, done: &Transferred, finished: &mut Vec<Finished>) {
        let Some(mut copier) = self.copier.take() else { return };
        if let Some(chunk) = copier.chunk() {
            if done.issue.op == Op::Read {
                self.copy_chunk(done.at, &chunk, Op::Write, copier.destination(&chunk));
            } else {
                copier.copied();
                if let Some((step, arrival)) = copier.take_done(done.at, &mut self.places) {
                    finished.push(Finished::Flush(Flushed { arrival, stream: COPY, token: step, at: done.at }));
                }
            }
        }
        self.copier = Some(copier);
        if done.issue.op == Op::Write {
            for Held { volume, asked, begin, end } in std::mem::take(&mut self.held) {
                self.send(done.at, volume, asked, begin, end);
            }
        }
    }

    /// Handles the completion of a part of a request.
    fn part_done(&mut self, done: &Transferred, finished: &mut Vec<Finished>) {
        let part = self.parts.remove(done.issue.token as usize);
        let asked = &mut self.asked[part.asked];
        asked.open_parts -= 1;
        asked.dispatched = asked.dispatched.max(done.dispatched);
        if asked.open_parts == 0 {
            let PendingRequest { issue, dispatched, .. } = self.asked.remove(part.asked);
            finished.push(Finished::Transfer(Transferred { issue, bytes: issue.bytes(), dispatched, at: done.at }));
        }
    }
}

impl Server for Store {
    type Work = VolumeIssue;

    fn has_room(&self) -> bool {
        self.arrays.iter().all(|array| array.queue.has_room())
    }

    fn admit(&mut self, now: Nanos, work: VolumeIssue) {
        let VolumeIssue { volume, issue } = work;
        let asked = self.asked.insert(PendingRequest { issue, open_parts: 1, dispatched: Nanos::ZERO });
        self.send(now, volume, asked, issue.lba, issue.lba + u64::from(issue.sectors));
    }

    fn next_event(&self) -> Option<Nanos> {
        let arrays = self.arrays.iter().filter_map(|array| array.queue.next_event());
        arrays.chain(self.copier.as_ref().and_then(Copier::next_event)).min()
    }

    fn advance(&mut self, now: Nanos, finished: &mut Vec<Finished>) {
        let mut inner = std::mem::take(&mut self.finished);
        for array in &mut self.arrays {
            if array.queue.next_event().is_some_and(|at| at <= now) {
                array.queue.advance(now, &mut inner);
                array.is_touched = true;
            }
        }
        // Each array reports in order of time; so must the merged completions.
        inner.sort_by_key(Finished::at);
        for done in inner.drain(..) {
            match done.transfer() {
                Some(done) if done.issue.token == OF_COPIER => self.copied(done, finished),
                Some(done) => self.part_done(done, finished),
                None => {}
            }
        }
        self.finished = inner;
        self.drive(now);
    }

    fn dispatch(&mut self, now: Nanos) {
        for array in self.arrays.iter_mut().filter(|array| array.is_touched) {
            array.is_touched = false;
            array.queue.dispatch(now);
        }
    }
}
