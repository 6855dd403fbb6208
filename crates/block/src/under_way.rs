//! Requests under way, found again by the sectors that the block layer's events name.
//!
//! A request is what a program or filesystem queued, before merging and splitting. The events behind that are about what became of it:
//!
//! ```text
//!  queued 0+8, 8+8   issued 0+16        completed 0+16       two were merged: both are done then
//!  queued 0+16       issued 0+8, 8+8    completed 0+8, 8+8   one was split: it is done with its last part
//! ```
//! Nothing is allocated once it has grown to the largest number of requests in it.

use slab::Slab;

use crate::list::{Linked, Links, List};
use crate::sorted::SortedList;
use crate::{Nanos, Op, Request};

/// How many requests that begin before a sector are looked at for one that reaches it.
const LOOK_BACK: usize = 64;

/// Bits of a key that number requests with the same first sector.
const NUMBER_BITS: u32 = 56;

struct Slot {
    request: Request,
    /// Sectors that are not done.
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

/// Requests of one device that were queued and are not done.
#[derive(Default)]
pub struct InFlight {
    slots: Slab<Slot>,
    /// In order of arrival.
    order: List,
    /// By operation, first sector and number.
    index: SortedList,
    entered: u64,
    /// The size of the largest request since there was none: how far back one may begin that reaches a sector.
    longest: u32,
}

impl InFlight {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A request was queued. It is known by the number that is returned until it is done or forgotten. None has arrived later than it.
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

    /// These sectors were sent to the device. Whether they are of any request.
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

    /// The device has done these sectors. Tells `done` of each request that is done with them, and when the last of it was issued.
    pub fn completed(&mut self, op: Op, lba: u64, sectors: u32, mut done: impl FnMut(Request, Option<Nanos>)) {
        let end = lba.saturating_add(sectors.into());
        if let Some(number) = self.exact(op, lba, sectors, |_| true) {
            return self.credit(number, lba, end, &mut done);
        }
        let mut from = lba;
        while let Some(number) = self.within(op, from, end) {
            let beyond = self.slots[number as usize].request.end().max(from + 1);
            self.credit(number, from, end, &mut done);
            from = beyond;
        }
    }

    /// The one that arrived first.
    pub fn oldest(&self) -> Option<&Request> {
        let first = self.order.iter(&self.slots).next()?;
        Some(&self.slots[first as usize].request)
    }

    /// Takes out the one that arrived first.
    pub fn forget_oldest(&mut self) -> Option<Request> {
        let first = self.order.iter(&self.slots).next()?;
        Some(self.forget(first))
    }

    /// Takes out a request that is under way.
    pub fn forget(&mut self, number: u32) -> Request {
        self.order.remove(&mut self.slots, number);
        let slot = self.slots.remove(number as usize);
        self.index.remove(slot.key);
        slot.request
    }

    /// The oldest with just these sectors that is meant.
    fn exact(&self, op: Op, lba: u64, sectors: u32, is_meant: impl Fn(&Slot) -> bool) -> Option<u32> {
        let (mut from, last) = (key(op, lba, 0), key(op, lba, u64::MAX));
        for _ in 0..LOOK_BACK {
            let (found, number) = self.index.at_or_after(from).filter(|(found, _)| *found <= last)?;
            let slot = &self.slots[number as usize];
            if slot.request.sectors == sectors && is_meant(slot) {
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

    /// Sectors `from` to `end` are done, of which this request takes its own.
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

    /// Sizes of requests that follow on each other, and the places where pieces of all that begin, in the order in which they are done.
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
        fn however_they_are_merged_and_split_each_is_done_with_its_last_sector((sizes, begins) in pieces()) {
            const FIRST: u64 = 4_000;
            let total: u32 = sizes.iter().sum();
            let (mut under_way, mut at) = (InFlight::default(), 0);
            let mut missing = vec![];
            for (id, &size) in sizes.iter().enumerate() {
                under_way.queued(request(id as u32, Op::Write, FIRST + u64::from(at), size));
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
                let found = done(&mut under_way, Op::Write, FIRST + u64::from(begin), end - begin);
                prop_assert_eq!(found.into_iter().map(|(id, _)| id).collect::<Vec<_>>(), expected);
            }
            prop_assert!(under_way.is_empty());
        }
    }

    fn request(id: u32, op: Op, lba: u64, sectors: u32) -> Request {
        let (sync, priority, arrival) = (true, Priority::DEFAULT, Nanos(u64::from(id)));
        Request { id, stream: 7, op, sync, priority, sectors, lba, arrival }
    }

    /// Ids of those that are done, and when they were issued.
    fn done(under_way: &mut InFlight, op: Op, lba: u64, sectors: u32) -> Vec<(u32, Option<u64>)> {
        let mut found = vec![];
        under_way.completed(op, lba, sectors, |request, issued| found.push((request.id, issued.map(|at| at.0))));
        found
    }

    #[test]
    fn merged_requests_are_done_together_and_a_split_one_with_its_last_part() {
        let mut under_way = InFlight::default();
        under_way.queued(request(1, Op::Read, 0, 8));
        under_way.queued(request(2, Op::Read, 8, 8));
        under_way.queued(request(3, Op::Read, 100, 16));
        under_way.queued(request(4, Op::Write, 100, 8));
        assert!(under_way.issued(Op::Read, 0, 16, Nanos(50)));
        assert!(under_way.issued(Op::Read, 100, 8, Nanos(51)));
        assert!(under_way.issued(Op::Read, 108, 8, Nanos(52)));
        assert!(!under_way.issued(Op::Write, 16, 64, Nanos(53)), "nobody asked for that");
        assert_eq!(done(&mut under_way, Op::Read, 0, 16), [(1, Some(50)), (2, Some(50))]);
        assert_eq!(done(&mut under_way, Op::Read, 108, 8), []);
        assert_eq!(done(&mut under_way, Op::Read, 100, 8), [(3, Some(52))]);
        assert_eq!(done(&mut under_way, Op::Read, 100, 8), [], "once");
        assert_eq!(under_way.forget_oldest().map(|request| request.id), Some(4));
        assert!(under_way.is_empty());
    }

    #[test]
    fn of_requests_for_the_same_sectors_the_oldest_is_meant() {
        let mut under_way = InFlight::default();
        for id in 1..=3 {
            under_way.queued(request(id, Op::Read, 64, 8));
        }
        under_way.issued(Op::Read, 64, 8, Nanos(10));
        under_way.issued(Op::Read, 64, 8, Nanos(11));
        assert_eq!(done(&mut under_way, Op::Read, 64, 8), [(1, Some(10))]);
        assert_eq!(done(&mut under_way, Op::Read, 64, 8), [(2, Some(11))]);
        assert_eq!(done(&mut under_way, Op::Read, 64, 8), [(3, None)]);
    }

    #[test]
    fn one_that_was_sent_again_counts_from_the_last_time() {
        let mut under_way = InFlight::default();
        under_way.queued(request(1, Op::Write, 0, 8));
        under_way.issued(Op::Write, 0, 8, Nanos(1));
        under_way.issued(Op::Write, 0, 8, Nanos(5));
        assert_eq!(done(&mut under_way, Op::Write, 0, 8), [(1, Some(5))]);
    }

    #[test]
    fn one_that_is_forgotten_is_not_found_and_the_others_are() {
        let mut under_way = InFlight::default();
        let first = under_way.queued(request(1, Op::Read, 0, 1024));
        under_way.queued(request(2, Op::Read, 512, 8));
        assert_eq!(under_way.oldest().map(|request| request.id), Some(1));
        assert_eq!(under_way.forget(first).id, 1);
        assert_eq!(done(&mut under_way, Op::Read, 0, 1024), [(2, None)]);
        assert!(under_way.is_empty());
    }
}
