//! The merging queue under the schedulers.
//!
//! A scheduler sorts its requests into *lanes*: reads and writes, synchronous and asynchronous requests, or one lane per process. Each lane
//! is kept in two orders, by position on the disk and by age:
//!
//! ```text
//! lane 0   by position 100 -> 108 -> 300 -> 4096        (sorted list of LBA and sequence number)
//!          by age      300 -> 100 -> 4096 -> 108        (linked list through the slots)
//! lane 1   ...
//! ends     108: slot 2   116: slot 0   ...              (hash index by end: finds back merges)
//! ```
//!
//! **Merging.** A request joins a queued one of its lane if together they cover one range without gap or overlap, and operation,
//! synchronous flag and I/O priority are equal (Linux `block/blk-merge.c`, `blk_rq_merge_ok`). A back merge may close the gap to the next
//! request, which is then absorbed. A front merge never does: a request that ends where the new one begins would have taken it as a back
//! merge. A merge never drops a sector or covers it twice.
//!
//! **Order.** As in Linux, requests that wait at the same time may be dispatched in any order, even if they overlap: an issuer whose later
//! request must see a write waits for the write's completion. A sweep towards higher LBAs visits requests with the same first sector in
//! order of arrival.

use alloc::vec::Vec;

use slab::Slab;

use crate::hash_index::HashIndex;
use crate::list::{Linked, Links, List};
use crate::sorted::{SortedList, Spot};
use crate::{Nanos, Request, RequestId};

/// The adjacent requests that may be merged (`nomerges` in Linux's `/sys/block/*/queue`, 0 to 2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Merges {
    /// All.
    #[default]
    All,
    /// Only with the request that was queued or grew last. Linux tries the one that grew last, and the last ones of the submitter's plug;
    /// here both are the same.
    WithLast,
    /// None.
    Never,
}

/// Limits of the host on merges by a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum size of a merged request, in 512-byte sectors; 0 forbids merging. A larger request that arrives is kept as it is.
    pub max_sectors: u32,
    /// Which merges are tried.
    pub merges: Merges,
}

impl Default for Limits {
    /// 1,280 KiB, Linux's `max_sectors_kb` (`BLK_DEF_MAX_SECTORS`, `include/linux/blkdev.h`).
    fn default() -> Limits {
        Limits { max_sectors: 2560, merges: Merges::All }
    }
}

/// The result of inserting a request. After a merge, one completion completes several requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Insertion {
    /// It is queued under its own id.
    Queued,
    /// It became part of the queued request `into`, and completes with it.
    Merged {
        /// The request that grew.
        into: RequestId,
        /// A queued request adjacent to the grown `into` that was merged into it as well, with all its parts.
        absorbed: Option<RequestId>,
    },
}

/// A handle of a queued request, valid until the request is taken or absorbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(u32);

/// A position in the order by LBA. Requests with the same LBA are ordered by sequence number, which grows with arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueuePosition {
    /// The first sector.
    pub lba: u64,
    /// The number of requests queued before it.
    pub sequence: u64,
}

impl QueuePosition {
    const fn first_at(lba: u64) -> QueuePosition {
        QueuePosition { lba, sequence: 0 }
    }

    const fn key(self) -> u128 {
        (self.lba as u128) << 64 | self.sequence as u128
    }
}

/// The result of inserting a request into the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placed {
    /// It has a slot of its own.
    Queued(Slot),
    /// It was merged into `into`, and so was `absorbed`, whose slot is now free.
    Merged {
        /// The request that grew.
        into: RequestId,
        /// A queued request that `into` absorbed as well, as it was before the merge.
        absorbed: Option<Request>,
    },
}

impl From<Placed> for Insertion {
    fn from(placed: Placed) -> Insertion {
        match placed {
            Placed::Queued(_) => Insertion::Queued,
            Placed::Merged { into, absorbed } => Insertion::Merged { into, absorbed: absorbed.map(|request| request.id) },
        }
    }
}

/// Merging rules beyond the common ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Merging {
    /// Whether a new request may join the front of a queued one.
    pub front: bool,
    /// Whether synchronous requests merge only with requests of their own stream.
    pub within_stream: bool,
}

struct Entry {
    request: Request,
    expires: Nanos,
    lane: u32,
    /// Part of the key in the order by position; never changes.
    sequence: u64,
    /// The lowest sequence number among its parts.
    age: u64,
    /// Its neighbours in the order by age.
    links: Links,
}

impl Linked for Entry {
    fn links(&self) -> &Links {
        &self.links
    }

    fn links_mut(&mut self) -> &mut Links {
        &mut self.links
    }
}

#[derive(Default)]
struct Lane {
    places: SortedList,
    /// In order of age, oldest first.
    ages: List,
}

/// Requests in lanes, sorted by position and by age, and merged on arrival.
///
/// Methods that take a [`Slot`] panic if the slot is vacant; methods that take a lane treat an unknown one as empty.
pub struct Queue {
    limits: Limits,
    merging: Merging,
    entries: Slab<Entry>,
    ends: HashIndex,
    lanes: Vec<Lane>,
    sequence: u64,
    /// The slot that was filled or grew last; `None` if its request was taken.
    last: Option<u32>,
}

impl Queue {
    /// An empty queue.
    pub fn new(limits: Limits, merging: Merging) -> Queue {
        let (entries, lanes) = (Slab::new(), Vec::new());
        Queue { limits, merging, entries, ends: HashIndex::default(), lanes, sequence: 0, last: None }
    }

    /// Sets the merging rules from now on.
    pub fn set_merging(&mut self, merging: Merging) {
        self.merging = merging;
    }

    /// The current limits.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Sets the limits from now on.
    pub fn set_limits(&mut self, limits: &Limits) {
        self.limits = *limits;
    }

    /// Number of queued requests, merged ones counted once.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no lane has a request.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of requests in `lane`.
    pub fn lane_len(&self, lane: usize) -> usize {
        self.lanes.get(lane).map_or(0, |lane| lane.places.len())
    }

    /// Inserts `request` into `lane`, merged if possible. `expires` is returned by [`Queue::expires`]. A merge keeps the age and expiry of
    /// the request that grows, unless that absorbs an older one and takes over its age and expiry (Linux `deadline_merged_requests`).
    pub fn insert(&mut self, lane: usize, expires: Nanos, request: Request) -> Placed {
        while self.lanes.len() <= lane {
            self.lanes.push(Lane::default());
        }
        if self.is_empty() {
            let spot = self.lanes[lane].places.spot(0);
            return Placed::Queued(self.push(lane, spot, expires, request));
        }
        let partner = match self.limits.merges {
            Merges::All => self.back_merge_partner(lane, &request),
            Merges::WithLast => self.merge_with_last(lane, &request, |last| last.end() == request.lba),
            Merges::Never => None,
        };
        if let Some(slot) = partner {
            return self.merge_back(slot, &request);
        }
        let place = QueuePosition { lba: request.lba, sequence: self.sequence };
        let spot = self.lanes[lane].places.spot(place.key());
        let partner = match self.limits.merges {
            _ if !self.merging.front => None,
            Merges::All => self.front_merge_partner(lane, spot, &request),
            Merges::WithLast => self.merge_with_last(lane, &request, |last| request.end() == last.lba),
            Merges::Never => None,
        };
        if let Some(slot) = partner {
            return self.merge_front(slot, &request);
        }
        Placed::Queued(self.push(lane, spot, expires, request))
    }

    /// The request in a slot.
    pub fn request(&self, slot: Slot) -> &Request {
        &self.entries[slot.0 as usize].request
    }

    /// The request that was queued or grew last; `None` if it was taken.
    pub fn last(&self) -> Option<Slot> {
        self.last.map(Slot)
    }

    /// The expiry time given on insertion.
    pub fn expires(&self, slot: Slot) -> Nanos {
        self.entries[slot.0 as usize].expires
    }

    /// The position of a request in its lane.
    pub fn place(&self, slot: Slot) -> QueuePosition {
        let entry = &self.entries[slot.0 as usize];
        QueuePosition { lba: entry.request.lba, sequence: entry.sequence }
    }

    /// Removes and returns a request.
    pub fn take(&mut self, slot: Slot) -> Request {
        let Entry { request, lane, sequence, links, .. } = self.entries.remove(slot.0 as usize);
        let lane = &mut self.lanes[lane as usize];
        lane.places.remove(QueuePosition { lba: request.lba, sequence }.key());
        lane.ages.unlink(&mut self.entries, links);
        if let Some(end) = request.lba.checked_add(u64::from(request.sectors)) {
            self.ends.remove(end, slot.0);
        }
        if self.last == Some(slot.0) {
            self.last = None;
        }
        request
    }

    /// The oldest request of `lane`.
    pub fn oldest(&self, lane: usize) -> Option<Slot> {
        self.lanes.get(lane)?.ages.first().map(Slot)
    }

    /// The next younger request of the same lane.
    pub fn newer(&self, slot: Slot) -> Option<Slot> {
        self.entries[slot.0 as usize].links.next().map(Slot)
    }

    /// The request of `lane` with the lowest LBA.
    pub fn first(&self, lane: usize) -> Option<Slot> {
        self.lanes.get(lane)?.places.first().map(|(_, slot)| Slot(slot))
    }

    /// The first request of `lane` that begins at or after `lba`.
    pub fn at_or_after(&self, lane: usize, lba: u64) -> Option<Slot> {
        self.from(lane, QueuePosition::first_at(lba))
    }

    /// The next request of `lane` for a one-way elevator at `head`: the first from there on, or the lowest if there is none.
    pub fn next_in_sweep(&self, lane: usize, head: u64) -> Option<Slot> {
        match self.only(lane) {
            None => self.at_or_after(lane, head).or_else(|| self.first(lane)),
            only => only,
        }
    }

    /// The only request of `lane`; `None` if there are none or several. A fast path, as queues are often this short.
    fn only(&self, lane: usize) -> Option<Slot> {
        let ages = &self.lanes.get(lane)?.ages;
        if ages.len() == 1 { ages.first().map(Slot) } else { None }
    }

    /// The request of `lane` at `place` or, if it was taken, the next one.
    pub fn from(&self, lane: usize, place: QueuePosition) -> Option<Slot> {
        let places = &self.lanes.get(lane)?.places;
        if places.is_empty() {
            return None;
        }
        places.at_or_after(place.key()).map(|(_, slot)| Slot(slot))
    }

    /// The last request of `lane` before `place`, and the first from `place` on.
    pub fn around(&self, lane: usize, place: QueuePosition) -> (Option<Slot>, Option<Slot>) {
        let Some(lane) = self.lanes.get(lane) else { return (None, None) };
        let (behind, ahead) = lane.places.around(place.key());
        (behind.map(|(_, slot)| Slot(slot)), ahead.map(|(_, slot)| Slot(slot)))
    }

    /// The next request of `lane` for a one-way elevator at `head` that may seek back a short distance: at most `back_max` sectors, each
    /// counted `back_penalty` times. Linux `cfq_choose_req` and `as_choose_req`.
    pub fn nearest(&self, lane: usize, head: u64, back_max: u64, back_penalty: u64) -> Option<Slot> {
        if let Some(only) = self.only(lane) {
            return Some(only);
        }
        let (behind, ahead) = self.lanes.get(lane)?.places.around(QueuePosition::first_at(head).key());
        let distance = |(key, slot): (u128, u32)| (Slot(slot), head.abs_diff((key >> 64) as u64));
        let (behind, ahead) = (behind.map(distance), ahead.map(distance));
        match (ahead, behind.filter(|&(_, distance)| distance <= back_max)) {
            (Some((ahead, forth)), Some((_, back))) if forth <= back.saturating_mul(back_penalty) => Some(ahead),
            (_, Some((behind, _))) => Some(behind),
            (Some((ahead, _)), None) => Some(ahead),
            (None, None) => self.first(lane),
        }
    }

    /// Removes all requests, oldest first.
    pub fn drain(&mut self, out: &mut Vec<Request>) {
        let mut slots = Vec::with_capacity(self.len());
        slots.extend(self.lanes.iter().flat_map(|lane| lane.places.numbers()));
        slots.sort_unstable_by_key(|&slot| self.entries[slot as usize].age);
        out.extend(slots.into_iter().map(|slot| self.take(Slot(slot))));
    }

    fn push(&mut self, lane: usize, spot: Spot, expires: Nanos, request: Request) -> Slot {
        let sequence = self.sequence;
        self.sequence += 1;
        let entry = Entry { request, expires, lane: lane as u32, sequence, age: sequence, links: Links::default() };
        let slot = self.entries.insert(entry) as u32;
        let lane = &mut self.lanes[lane];
        lane.places.insert_at(spot, QueuePosition { lba: request.lba, sequence }.key(), slot);
        lane.ages.push_back(&mut self.entries, slot);
        if let Some(end) = request.lba.checked_add(u64::from(request.sectors)) {
            self.ends.insert(end, slot);
        }
        self.last = Some(slot);
        Slot(slot)
    }

    fn back_merge_partner(&self, lane: usize, request: &Request) -> Option<u32> {
        self.ends.get(request.lba).find(|&slot| self.may_merge(lane, slot, request))
    }

    /// The request that was queued or grew last, if it `touches` the new one and the two may merge.
    fn merge_with_last(&self, lane: usize, request: &Request, touches: impl Fn(&Request) -> bool) -> Option<u32> {
        self.last.filter(|&last| touches(&self.entries[last as usize].request) && self.may_merge(lane, last, request))
    }

    /// A request that begins where `request` ends, if the two may merge. `spot` is the insertion point of `request`. Fast path: usually the
    /// request there begins beyond that end.
    fn front_merge_partner(&self, lane: usize, spot: Spot, request: &Request) -> Option<u32> {
        let end = request.lba.checked_add(u64::from(request.sectors))?;
        let (next, _) = self.lanes[lane].places.from(spot)?;
        if next >> 64 > u128::from(end) {
            return None;
        }
        self.starting_at(lane, end).find(|&slot| self.may_merge(lane, slot, request))
    }

    /// The requests of `lane` that begin at `lba`, in order of arrival.
    fn starting_at(&self, lane: usize, lba: u64) -> impl Iterator<Item = u32> + '_ {
        let places = &self.lanes[lane].places;
        let mut from = QueuePosition::first_at(lba).key();
        core::iter::from_fn(move || {
            let (key, slot) = places.at_or_after(from)?;
            from = key + 1;
            (key >> 64 == u128::from(lba)).then_some(slot)
        })
    }

    fn may_merge(&self, lane: usize, slot: u32, request: &Request) -> bool {
        let entry = &self.entries[slot as usize];
        let queued = &entry.request;
        entry.lane as usize == lane
            && queued.op == request.op
            && queued.sync == request.sync
            && queued.priority == request.priority
            && (queued.stream == request.stream || !(self.merging.within_stream && request.is_sync()))
            && u64::from(queued.sectors) + u64::from(request.sectors) <= u64::from(self.limits.max_sectors)
            && request.lba.checked_add(u64::from(request.sectors)).is_some()
    }

    fn merge_back(&mut self, slot: u32, request: &Request) -> Placed {
        self.grow_back(slot, request);
        self.last = Some(slot);
        let grown = self.entries[slot as usize].request;
        let lane = self.entries[slot as usize].lane as usize;
        let next = self.starting_at(lane, grown.end()).find(|&next| next != slot && self.may_merge(lane, next, &grown));
        let absorbed = next.map(|next| self.absorb(slot, next));
        Placed::Merged { into: grown.id, absorbed }
    }

    fn grow_back(&mut self, slot: u32, request: &Request) {
        let grown = &mut self.entries[slot as usize].request;
        let old_end = grown.end();
        grown.sectors += request.sectors;
        grown.arrival = grown.arrival.min(request.arrival);
        let end = grown.end();
        self.ends.remove(old_end, slot);
        self.ends.insert(end, slot);
    }

    fn merge_front(&mut self, slot: u32, request: &Request) -> Placed {
        let old_place = self.place(Slot(slot));
        self.last = Some(slot);
        let entry = &mut self.entries[slot as usize];
        let lane = &mut self.lanes[entry.lane as usize];
        lane.places.remove(old_place.key());
        lane.places.insert(QueuePosition { lba: request.lba, ..old_place }.key(), slot);
        entry.request.lba = request.lba;
        entry.request.sectors += request.sectors;
        entry.request.arrival = entry.request.arrival.min(request.arrival);
        Placed::Merged { into: entry.request.id, absorbed: None }
    }

    fn absorb(&mut self, slot: u32, next: u32) -> Request {
        let (age, expires) = (self.entries[next as usize].age, self.entries[next as usize].expires);
        if age < self.entries[slot as usize].age {
            let lane = &mut self.lanes[self.entries[slot as usize].lane as usize];
            lane.ages.remove(&mut self.entries, slot);
            lane.ages.insert_after(&mut self.entries, next, slot);
            (self.entries[slot as usize].age, self.entries[slot as usize].expires) = (age, expires);
        }
        let absorbed = self.take(Slot(next));
        self.grow_back(slot, &absorbed);
        absorbed
    }
}
