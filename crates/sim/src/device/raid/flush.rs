//! Flushes: all members empty their write caches; the slowest determines the time.

use block::{Nanos, RequestId};

use super::{Completion, Raid};

/// A flush in progress: a bit for each member that has not completed it.
#[derive(Clone, Copy, Debug)]
pub(super) struct ArrayFlush {
    id: RequestId,
    members: u64,
}

/// Marks the ids of flushes at members; the lower bits are the index of the flush and, last, the
/// member.
pub(super) const FLUSH: RequestId = 1 << 31;
const FLUSH_MEMBER_BITS: u32 = 6;

impl Raid {
    /// Requests that all members empty their write caches; returns `false` if none has one.
    pub(super) fn flush_members(&mut self, now: Nanos, id: RequestId) -> bool {
        let index = self.flushes.insert(ArrayFlush { id, members: 0 }) as u32;
        let gone = self.redundancy.failed.filter(|_| self.redundancy.rebuild.is_none());
        for number in (0..self.members.len()).filter(|&number| Some(number) != gone) {
            let device = &mut self.members[number].device;
            if device.flush(now, FLUSH | index << FLUSH_MEMBER_BITS | number as u32) {
                self.flushes[index as usize].members |= 1 << number;
                self.wakes.set(number, device.wake_at());
            }
        }
        let waits = self.flushes[index as usize].members != 0;
        if waits {
            self.outstanding += 1;
        } else {
            self.flushes.remove(index as usize);
        }
        waits
    }

    /// Handles the completion of a member's flush with this id.
    pub(super) fn flush_done(&mut self, now: u64, id: RequestId) {
        let key = id & !FLUSH;
        self.member_flushed(now, key >> FLUSH_MEMBER_BITS, 1 << (key & ((1 << FLUSH_MEMBER_BITS) - 1)));
    }

    /// Handles the flush of a member, given by its bit, that completed it or failed.
    pub(super) fn member_flushed(&mut self, now: u64, index: u32, member: u64) {
        let flush = &mut self.flushes[index as usize];
        if flush.members & member == 0 {
            return;
        }
        flush.members &= !member;
        if flush.members == 0 {
            let (id, none) = (flush.id, Nanos::ZERO);
            self.flushes.remove(index as usize);
            self.report(Completion {
                id,
                at: Nanos(now),
                seek: none,
                rotation: none,
                seek_cylinders: 0,
                cache_hit: true,
                work: None,
            });
        }
    }
}
