//! Derives the accesses of an array's members from those of the array.
//!
//! The array is built from dummy disks: each records its requests, and completes them when the array's access completed.

use std::sync::{Arc, Mutex, PoisonError};

use block::{Nanos, Op, Request, RequestId};
use sim::device::raid::layout::ArrayLayout;
use sim::device::raid::{Raid, RebuildRate};
use sim::device::{Completion, Device};

use super::access::{Access, in_context};
use super::replay;

/// The accesses of all members, one after another, each in order of completion. As the completion time of a member's part is unknown, that
/// of the whole access is used.
pub fn accesses(layout: ArrayLayout, accesses: &[Access]) -> Vec<Access> {
    let shared = Arc::new(Mutex::new(Shared { done_at: Nanos::ZERO, of: 0, parts: vec![Vec::new(); layout.members] }));
    let member = |number: usize| -> Box<dyn Device> {
        let (capacity, shared) = (layout.rows * layout.unit, shared.clone());
        Box::new(Noting { number, capacity, shared, in_flight: Vec::new() })
    };
    let at_once = accesses.iter().map(|access| access.others + 1).max();
    let members = (0..layout.members).map(member).collect();
    let mut raid = Raid::new(layout, members, at_once, None, None, RebuildRate::default());
    let mut order: Vec<usize> = (0..accesses.len()).collect();
    order.sort_by_key(|&index| (accesses[index].dispatched, index));
    let mut done = Vec::new();
    for index in order {
        let access = &accesses[index];
        let at = Nanos(access.dispatched);
        while let Some(wake) = raid.wake_at().filter(|&wake| wake <= at) {
            raid.advance(wake, &mut done);
        }
        {
            let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
            (shared.done_at, shared.of) = (Nanos(access.completed.max(access.dispatched)), index);
        }
        raid.submit(at, &replay::request(access, index, at));
    }
    let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
    let parts = std::mem::take(&mut shared.parts);
    let of_member = |parts: Vec<Part>| {
        let access = |part: Part| Access { lba: part.lba, sectors: part.sectors, write: part.write, ..accesses[part.of] };
        in_context(parts.into_iter().map(access).collect())
    };
    parts.into_iter().flat_map(of_member).collect()
}

/// A member's part of an access.
#[derive(Clone, Copy)]
struct Part {
    of: usize,
    lba: u64,
    sectors: u64,
    write: bool,
}

struct Shared {
    /// Completion time and index of the access that is being submitted to the array.
    done_at: Nanos,
    of: usize,
    /// Parts by member.
    parts: Vec<Vec<Part>>,
}

struct Noting {
    number: usize,
    capacity: u64,
    shared: Arc<Mutex<Shared>>,
    in_flight: Vec<(Nanos, RequestId)>,
}

impl Device for Noting {
    fn capacity_sectors(&self) -> u64 {
        self.capacity
    }

    fn queue_depth(&self) -> usize {
        usize::MAX
    }

    fn submit(&mut self, now: Nanos, request: &Request) {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let part = Part { of: shared.of, lba: request.lba, sectors: u64::from(request.sectors), write: request.op == Op::Write };
        shared.parts[self.number].push(part);
        self.in_flight.push((shared.done_at.max(now), request.id));
    }

    fn wake_at(&self) -> Option<Nanos> {
        self.in_flight.iter().map(|(at, _)| *at).min()
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        self.in_flight.sort_unstable();
        let count = self.in_flight.partition_point(|(at, _)| *at <= now);
        let completion = |(at, id)| Completion {
            id,
            at,
            seek: Nanos::ZERO,
            rotation: Nanos::ZERO,
            seek_cylinders: 0,
            cache_hit: true,
            work: None,
        };
        done.extend(self.in_flight.drain(..count).map(completion));
    }

    fn busy(&self) -> Nanos {
        Nanos::ZERO
    }
}

#[cfg(test)]
mod tests {
    use sim::device::raid::layout::level;

    use super::*;

    #[test]
    fn stripe_units_go_to_the_disks_in_turn_with_the_times_of_their_access() {
        let Some(level) = level(0) else { panic!("there is RAID 0") };
        let Ok(layout) = ArrayLayout::new(level, 2, 128, 1 << 20) else { panic!("it is a layout") };
        let access = |lba: u64, sectors: u64, from: u64| Access {
            lba,
            sectors,
            write: false,
            arrival: from,
            dispatched: from,
            completed: from + 10,
            flush: None,
            others: 0,
            before: None,
            follows: None,
            may_hit: false,
        };
        // Accesses in units 0, 1 and 3, and one that spans two units.
        let all = [access(0, 8, 0), access(128, 8, 10), access(384, 8, 20), access(504, 16, 30)];
        let parts: Vec<(u64, u64, u64)> =
            accesses(layout, &all).iter().map(|part| (part.lba, part.sectors, part.dispatched)).collect();
        assert_eq!(parts, [(0, 8, 0), (256, 8, 30), (0, 8, 10), (128, 8, 20), (248, 8, 30)]);
    }
}
