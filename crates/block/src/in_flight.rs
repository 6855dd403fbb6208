//! Requests in flight, matched to the sectors in the block layer's events.
//!
//! A request is as queued by a program or filesystem, before merging and splitting. Later events refer to the merged or split requests:
//!
//! ```text
//!  queued 0+8, 8+8   issued 0+16        completed 0+16       two were merged: both complete
//!  queued 0+16       issued 0+8, 8+8    completed 0+8, 8+8   one was split: it completes with its last part
//! ```
//! Nothing is allocated once it has reached its largest number of requests.

use slab::Slab;

use crate::list::{Linked, Links, List};
use crate::sorted::SortedList;
use crate::{Nanos, Op, Request};

/// Maximum number of requests examined in a search for one that covers a sector.
const LOOK_BACK: usize = 64;

/// Number of key bits that distinguish requests with the same first sector.
const NUMBER_BITS: u32 = 56;

struct Slot {
    request: Request,
    /// Sectors that are not completed.
    remaining: u32,
    issued: Option<Nanos>,
    key: u128,
    links: Links,
}

impl Linked for Slot {
    fn links(&self) -> &Links {
        &self.links
    }

    fn links_mut(&mut self) -> &mut Links {
        &mut self.links
    }
}

/// Requests of one device that were queued and have not completed.
///
/// ```
/// use block::in_flight::InFlight;
/// use block::{Nanos, Op, Priority, Request};
///
/// let (mut in_flight, priority) = (InFlight::default(), Priority::DEFAULT);
/// let read = Request { id: 1, stream: 7, op: Op::Read, sync: true, priority, sectors: 8, lba: 100, arrival: Nanos(5) };
/// in_flight.queued(read);
/// in_flight.issued(Op::Read, 96, 16, Nanos(10)); // merged with others
/// let mut done = Vec::new();
/// in_flight.completed(Op::Read, 96, 16, |request, issued| done.push((request.id, issued)));
/// assert_eq!(done, [(1, Some(Nanos(10)))]);
/// ```
#[derive(Default)]
pub struct InFlight {
    slots: Slab<Slot>,
    /// In order of arrival.
    order: List,
    /// By operation, first sector and sequence number.
    index: SortedList,
    entered: u64,
    /// Size of the largest request since it was last empty; bounds the search for a request that covers a sector.
    longest: u32,
}

impl InFlight {
    /// Number of requests.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a request, which must not have arrived before earlier ones. Returns its number, which is valid until it completes or is
    /// forgotten.
    pub fn queued(&mut self, request: Request) -> u32 {
        self.entered += 1;
        let key = key(request.op, request.lba, self.entered);
        let slot = Slot { remaining: request.sectors, request, issued: None, key, links: Links::default() };
        let number = self.slots.insert(slot) as u32;
        self.order.push_back(&mut self.slots, number);
        self.index.insert(key, number);
        self.longest = if self.len() == 1 { request.sectors } else { self.longest.max(request.sectors) };
        number
    }

    /// Records that these sectors were issued to the device. Returns whether any of them belong to a request.
    pub fn issued(&mut self, op: Op, lba: u64, sectors: u32, at: Nanos) -> bool {
        let end = lba.saturating_add(sectors.into());
        if let Some(number) = self.exact(op, lba, sectors, |slot| slot.issued.is_none()) {
            self.slots[number as usize].issued = Some(at);
            return true;
        }
        let mut from = lba;
        while let Some(number) = self.within(op, from, end) {
            let slot = &mut self.slots[number as usize];
            slot.issued = Some(at);
            from = slot.request.end().max(from + 1);
        }
        from > lba
    }

    /// Records that these sectors completed. Calls `done` with each request that is thereby complete and the issue time of its last part.
    /// Returns whether any of the sectors belong to a request.
    pub fn completed(&mut self, op: Op, lba: u64, sectors: u32, mut done: impl FnMut(Request, Option<Nanos>)) -> bool {
        let end = lba.saturating_add(sectors.into());
        if let Some(number) = self.exact(op, lba, sectors, |_| true) {
            self.credit(number, lba, end, &mut done);
            return true;
        }
        let mut from = lba;
        while let Some(number) = self.within(op, from, end) {
            let beyond = self.slots[number as usize].request.end().max(from + 1);
            self.credit(number, from, end, &mut done);
            from = beyond;
        }
        from > lba
    }

    /// The request that arrived first; `None` if there is none.
    pub fn oldest(&self) -> Option<&Request> {
        let first = self.order.iter(&self.slots).next()?;
        Some(&self.slots[first as usize].request)
    }

    /// Removes the request that arrived first; `None` if there is none.
    pub fn forget_oldest(&mut self) -> Option<Request> {
        let first = self.order.iter(&self.slots).next()?;
        Some(self.forget(first))
    }

    /// Removes a request.
    pub fn forget(&mut self, number: u32) -> Request {
        self.order.remove(&mut self.slots, number);
        let slot = self.slots.remove(number as usize);
        self.index.remove(slot.key);
        slot.request
    }

    /// The oldest request with exactly these sectors that satisfies `matches`.
    fn exact(&self, op: Op, lba: u64, sectors: u32, matches: impl Fn(&Slot) -> bool) -> Option<u32> {
        let (mut from, last) = (key(op, lba, 0), key(op, lba, u64::MAX));
        for _ in 0..LOOK_BACK {
            let (found, number) = self.index.at_or_after(from).filter(|(found, _)| *found <= last)?;
            let slot = &self.slots[number as usize];
            if slot.request.sectors == sectors && matches(slot) {
                return Some(number);
            }
            from = found + 1;
        }
        None
    }

    /// The request that contains the sector `from`, or else the first that begins before `end`.
    fn within(&self, op: Op, from: u64, end: u64) -> Option<u32> {
        if from >= end {
            return None;
        }
        let first = key(op, from.saturating_sub(self.longest.into()), 0);
        let mut before = key(op, from, 0);
        for _ in 0..LOOK_BACK {
            let Some((found, number)) = self.index.around(before).0.filter(|(found, _)| *found >= first) else { break };
            if self.slots[number as usize].request.end() > from {
                return Some(number);
            }
            before = found;
        }
        let behind = self.index.at_or_after(key(op, from, 0));
        behind.filter(|(found, _)| *found < key(op, end, 0)).map(|(_, number)| number)
    }

    /// Subtracts the sectors `from` to `end` from the remaining ones of a request, and reports it if it is thereby complete.
    fn credit(&mut self, number: u32, from: u64, end: u64, done: &mut impl FnMut(Request, Option<Nanos>)) {
        let slot = &mut self.slots[number as usize];
        let own = slot.request.end().min(end).saturating_sub(slot.request.lba.max(from));
        slot.remaining = slot.remaining.saturating_sub(u32::try_from(own).unwrap_or(u32::MAX));
        if slot.remaining == 0 {
            let issued = slot.issued;
            done(self.forget(number), issued);
        }
    }
}

fn key(op: Op, lba: u64, number: u64) -> u128 {
    let number = number & ((1 << NUMBER_BITS) - 1);
    u128::from(op as u8) << (NUMBER_BITS + 64) | u128::from(lba) << NUMBER_BITS | u128::from(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use crate::Priority;

    /// Sizes of consecutive requests, and the first sectors of the pieces in which they complete, in random order.
    fn pieces() -> impl Strategy<Value = (Vec<u32>, Vec<u32>)> {
        proptest::collection::vec(1..100u32, 1..60).prop_flat_map(|sizes| {
            let total: u32 = sizes.iter().sum();
            let begins = proptest::collection::btree_set(0..total, 0..40);
            let begins = begins.prop_map(|begins| begins.into_iter().chain([0]).collect::<alloc::collections::BTreeSet<_>>());
            (Just(sizes), begins.prop_map(Vec::from_iter).prop_shuffle())
        })
    }

    proptest! {
        #[test]
        fn each_request_completes_with_its_last_sector_however_merged_or_split((sizes, begins) in pieces()) {
            const FIRST: u64 = 4_000;
            let total: u32 = sizes.iter().sum();
            let (mut in_flight, mut at) = (InFlight::default(), 0);
            let mut missing = vec![];
            for (id, &size) in sizes.iter().enumerate() {
                in_flight.queued(request(id as u32, Op::Write, FIRST + u64::from(at), size));
                missing.push((at..at + size).collect::<Vec<_>>());
                at += size;
            }
            for &begin in &begins {
                let end = begins.iter().copied().filter(|other| *other > begin).min().unwrap_or(total);
                let mut expected = vec![];
                for (id, sectors) in missing.iter_mut().enumerate().filter(|(_, sectors)| !sectors.is_empty()) {
                    sectors.retain(|sector| !(begin..end).contains(sector));
                    if sectors.is_empty() {
                        expected.push(id as u32);
                    }
                }
                let found = done(&mut in_flight, Op::Write, FIRST + u64::from(begin), end - begin);
                prop_assert_eq!(found.into_iter().map(|(id, _)| id).collect::<Vec<_>>(), expected);
            }
            prop_assert!(in_flight.is_empty());
        }
    }

    fn request(id: u32, op: Op, lba: u64, sectors: u32) -> Request {
        let (sync, priority, arrival) = (true, Priority::DEFAULT, Nanos(u64::from(id)));
        Request { id, stream: 7, op, sync, priority, sectors, lba, arrival }
    }

    /// Ids of the completed requests with their issue times.
    fn done(in_flight: &mut InFlight, op: Op, lba: u64, sectors: u32) -> Vec<(u32, Option<u64>)> {
        let mut found = vec![];
        in_flight.completed(op, lba, sectors, |request, issued| found.push((request.id, issued.map(|at| at.0))));
        found
    }

    #[test]
    fn merged_requests_complete_together_and_a_split_one_with_its_last_part() {
        let mut in_flight = InFlight::default();
        in_flight.queued(request(1, Op::Read, 0, 8));
        in_flight.queued(request(2, Op::Read, 8, 8));
        in_flight.queued(request(3, Op::Read, 100, 16));
        in_flight.queued(request(4, Op::Write, 100, 8));
        assert!(in_flight.issued(Op::Read, 0, 16, Nanos(50)));
        assert!(in_flight.issued(Op::Read, 100, 8, Nanos(51)));
        assert!(in_flight.issued(Op::Read, 108, 8, Nanos(52)));
        assert!(!in_flight.issued(Op::Write, 16, 64, Nanos(53)), "no such request");
        assert_eq!(done(&mut in_flight, Op::Read, 0, 16), [(1, Some(50)), (2, Some(50))]);
        assert_eq!(done(&mut in_flight, Op::Read, 108, 8), []);
        assert_eq!(done(&mut in_flight, Op::Read, 100, 8), [(3, Some(52))]);
        assert_eq!(done(&mut in_flight, Op::Read, 100, 8), [], "once");
        assert_eq!(in_flight.forget_oldest().map(|request| request.id), Some(4));
        assert!(in_flight.is_empty());
    }

    #[test]
    fn events_match_the_oldest_request_for_the_same_sectors() {
        let mut in_flight = InFlight::default();
        for id in 1..=3 {
            in_flight.queued(request(id, Op::Read, 64, 8));
        }
        in_flight.issued(Op::Read, 64, 8, Nanos(10));
        in_flight.issued(Op::Read, 64, 8, Nanos(11));
        assert_eq!(done(&mut in_flight, Op::Read, 64, 8), [(1, Some(10))]);
        assert_eq!(done(&mut in_flight, Op::Read, 64, 8), [(2, Some(11))]);
        assert_eq!(done(&mut in_flight, Op::Read, 64, 8), [(3, None)]);
    }

    #[test]
    fn the_last_issue_of_a_request_counts() {
        let mut in_flight = InFlight::default();
        in_flight.queued(request(1, Op::Write, 0, 8));
        in_flight.issued(Op::Write, 0, 8, Nanos(1));
        in_flight.issued(Op::Write, 0, 8, Nanos(5));
        assert_eq!(done(&mut in_flight, Op::Write, 0, 8), [(1, Some(5))]);
    }

    #[test]
    fn a_forgotten_request_is_not_found_and_the_others_are() {
        let mut in_flight = InFlight::default();
        let first = in_flight.queued(request(1, Op::Read, 0, 1024));
        in_flight.queued(request(2, Op::Read, 512, 8));
        assert_eq!(in_flight.oldest().map(|request| request.id), Some(1));
        assert_eq!(in_flight.forget(first).id, 1);
        assert_eq!(done(&mut in_flight, Op::Read, 0, 1024), [(2, None)]);
        assert!(in_flight.is_empty());
    }
}
