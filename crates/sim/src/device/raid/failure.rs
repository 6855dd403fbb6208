//! Failure of a member, and its replacement by a spare.

use block::list::List;
use block::{Nanos, Op, Priority, Request, RequestId, StreamId};

use super::Raid;
use super::members::Member;
use super::operation::Operation;
use super::rebuild::Rebuild;

/// The stream of a rebuild's reads and writes at members.
pub const REBUILD_STREAM: StreamId = crate::streams::REBUILD;

/// A failure of one member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemberFailure {
    /// The member that fails, from 0.
    pub member: usize,
    /// Time of the failure; 0: before the first request.
    pub at: Nanos,
}

impl Raid {
    /// The member that cannot be read up to sector `end`; `None` if all can.
    pub(super) fn unreadable(&self, end: u64) -> Option<usize> {
        self.redundancy.failed.filter(|_| end > self.whole())
    }

    /// The member that need not be written from sector `first` on; `None` if all must. A partly rebuilt spare receives the whole of a
    /// write: the rest will be rebuilt later anyway.
    pub(super) fn unwritten(&self, first: u64) -> Option<usize> {
        self.redundancy.failed.filter(|_| first >= self.whole())
    }

    /// Fails the member; its accesses in flight are lost.
    pub(super) fn fail(&mut self, now: u64) {
        let Some(MemberFailure { member: failed, .. }) = self.redundancy.failure.take() else { return };
        self.redundancy.failed = Some(failed);
        self.wakes.set(failed, None);
        let member = &mut self.members[failed];
        (member.at_device, member.pending, member.waiting) = (0, 0, List::new());
        if let Some(spare) = self.redundancy.spare.take() {
            *member = Member::new(spare);
            self.redundancy.rebuild = Some(Rebuild::new(now, self.redundancy.rate, self.layout.rows * self.layout.unit));
        }
        let mut over = Vec::new();
        self.accesses.retain(|_, access| {
            if access.member as usize != failed {
                return true;
            }
            let operation = &mut self.operations[access.operation as usize];
            operation.open -= 1;
            operation.lost |= access.op == Op::Read;
            if operation.open == 0 {
                over.push(access.operation);
            }
            false
        });
        for operation in over {
            self.proceed(now, operation);
        }
        let flushes: Vec<u32> = self.flushes.iter().map(|(index, _)| index as u32).collect();
        for index in flushes {
            self.member_flushed(now, index, 1 << failed);
        }
    }

    /// Starts rebuilding the next piece if it is due.
    pub(super) fn begin_piece(&mut self, now: u64) {
        let Some(rebuild) = &mut self.redundancy.rebuild else { return };
        if rebuild.due(self.outstanding > 0) > now {
            return;
        }
        let (id, stream, priority) = (RequestId::MAX, REBUILD_STREAM, Priority::DEFAULT);
        let request = Request { id, stream, op: Op::Write, sync: false, priority, sectors: 0, lba: 0, arrival: Nanos(now) };
        let index = self.operations.insert(Operation { rebuild: true, ..Operation::new(&request, 0, 0) }) as u32;
        let operation = &mut self.operations[index as usize];
        (operation.at, operation.end) = rebuild.begin(now, index);
        self.proceed(now, index);
    }

    /// Handles a piece that was written to the spare: unlocks it and the finished pieces that follow it.
    pub(super) fn piece_done(&mut self, now: u64, index: u32) {
        let Some(rebuild) = &mut self.redundancy.rebuild else { return };
        rebuild.finish(index);
        while let Some(piece) = rebuild.take_finished(now) {
            self.locks.release(piece, &mut self.granted);
            self.operations.remove(piece as usize);
        }
        if rebuild.ended() {
            (self.redundancy.rebuild, self.redundancy.failed) = (None, None);
        }
    }
}
