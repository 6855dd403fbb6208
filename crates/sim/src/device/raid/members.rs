//! The members of an array and their queues.

use block::list::{Linked, Links, List};
use block::{Nanos, Op, Request};

use super::flush::FLUSH;
use super::operation::{Operation, OperationRange};
use super::{Completion, Device, NEVER, Raid};

/// An access to a member.
#[derive(Clone, Copy, Debug)]
pub(super) struct Access {
    pub(super) operation: u32,
    pub(super) member: u32,
    /// Links in its member's queue.
    links: Links,
    sectors: u32,
    pub(super) op: Op,
    lba: u64,
}

impl Linked for Access {
    fn links(&self) -> &Links {
        &self.links
    }

    fn links_mut(&mut self) -> &mut Links {
        &mut self.links
    }
}

/// A member and its queue.
pub(super) struct Member {
    pub(super) device: Box<dyn Device>,
    depth: u32,
    pub(super) at_device: u32,
    /// Number of accesses at the device or waiting for it.
    pub(super) pending: u32,
    pub(super) waiting: List,
    /// End of the last access sent to it, and of the last read.
    head: u64,
    read_end: u64,
    /// The extent being assembled; empty if its end equals its start.
    stretch: (u64, u64),
}

impl Member {
    pub(super) fn new(device: Box<dyn Device>) -> Member {
        let depth = u32::try_from(device.queue_depth()).unwrap_or(u32::MAX).max(1);
        let waiting = List::new();
        Member { device, depth, at_device: 0, pending: 0, waiting, head: 0, read_end: NEVER, stretch: (0, 0) }
    }
}

impl Raid {
    /// Handles a completed access of a member.
    pub(super) fn access_done(&mut self, now: u64, completion: &Completion) {
        if completion.id & FLUSH != 0 {
            return self.flush_done(now, completion.id);
        }
        let access = self.accesses.remove(completion.id as usize);
        let member = &mut self.members[access.member as usize];
        member.at_device -= 1;
        member.pending -= 1;
        if let Some(next) = member.waiting.pop_front(&mut self.accesses) {
            self.start(now, next);
        }
        let operation = &mut self.operations[access.operation as usize];
        operation.open -= 1;
        operation.served.add(completion);
        if operation.open == 0 {
            self.proceed(now, access.operation);
        }
    }

    /// Submits an access to its member's device, which has room for it.
    fn start(&mut self, now: u64, index: u32) {
        let access = self.accesses[index as usize];
        let Operation { stream, priority, sync, .. } = self.operations[access.operation as usize];
        let Access { op, lba, sectors, .. } = access;
        let member = &mut self.members[access.member as usize];
        member.at_device += 1;
        member.device.submit(Nanos(now), &Request { id: index, stream, op, sync, priority, sectors, lba, arrival: Nanos(now) });
        self.wakes.set(access.member as usize, member.device.wake_at());
    }

    /// Queues an access of an operation at its member.
    fn enqueue(&mut self, work: &OperationRange, number: usize, op: Op, (lba, end): (u64, u64)) {
        let OperationRange { now, operation, .. } = *work;
        let access = Access { operation, member: number as u32, links: Links::default(), sectors: (end - lba) as u32, op, lba };
        let index = self.accesses.insert(access) as u32;
        self.operations[operation as usize].open += 1;
        let member = &mut self.members[number];
        member.pending += 1;
        if member.at_device < member.depth {
            return self.start(now, index);
        }
        member.waiting.push_back(&mut self.accesses, index);
    }

    /// Adds sectors of a member to an operation. Adjacent sectors are merged into one access.
    pub(super) fn add(&mut self, work: &OperationRange, member: usize, op: Op, (first, end): (u64, u64)) {
        let stretch = &mut self.members[member].stretch;
        // A request's length has 32 bits.
        if stretch.1 == first && stretch.0 < stretch.1 && end - stretch.0 <= u64::from(u32::MAX) {
            stretch.1 = end;
        } else {
            let before = std::mem::replace(stretch, (first, end));
            if before.0 < before.1 {
                self.enqueue(work, member, op, before);
            }
        }
        let member = &mut self.members[member];
        member.head = end;
        if op == Op::Read {
            member.read_end = end;
        }
    }

    /// Submits the assembled accesses of the members given by bits.
    pub(super) fn submit_pending(&mut self, work: &OperationRange, mut members: u64, op: Op) {
        while members != 0 {
            let member = members.trailing_zeros() as usize;
            members &= members - 1;
            let stretch = std::mem::take(&mut self.members[member].stretch);
            if stretch.0 < stretch.1 {
                self.enqueue(work, member, op, stretch);
            }
        }
    }

    /// Adds the same sectors of several members, by bits.
    pub(super) fn add_all(&mut self, work: &OperationRange, mut members: u64, op: Op, stretch: (u64, u64)) {
        while members != 0 {
            self.add(work, members.trailing_zeros() as usize, op, stretch);
            members &= members - 1;
        }
    }

    /// Chooses one of several copies to read, like md (`choose_best_rdev` in `drivers/md/raid1.c`; its RAID 10 is similar): a sequential
    /// reader stays on its member; otherwise an idle member; otherwise, on disks with arms, the nearest arm, with flash the shortest
    /// queue. Of several idle members md takes the first, this the nearest. `sectors` are to be read; incomplete copies are skipped.
    pub(super) fn choose(&self, copies: impl Iterator<Item = (usize, u64)> + Clone, sectors: u64) -> Option<(usize, u64)> {
        let there = copies.filter(|&(member, first)| self.unreadable(first + sectors) != Some(member));
        let in_sequence = |&(member, first): &(usize, u64)| {
            let member = &self.members[member];
            first == member.read_end || first == member.head
        };
        there.clone().find(in_sequence).or_else(|| {
            there.min_by_key(|&(member, first)| {
                let member = &self.members[member];
                let (pending, distance) = (u64::from(member.pending), member.head.abs_diff(first));
                if self.by_queue { (pending > 0, pending, distance) } else { (pending > 0, distance, pending) }
            })
        })
    }
}
