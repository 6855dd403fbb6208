//! The queues, and references to them that outlive them.

use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

use super::io_queue::{IoQueue, QueueRef};
use crate::sorted::SortedList;

/// All queues by number.
#[derive(Default)]
pub(super) struct Queues {
    list: Vec<IoQueue>,
    /// Queues without processes, whose numbers are reused once they are empty.
    left: Vec<usize>,
    pub(super) last_created: Option<QueueRef>,
    pub(super) last_completed: Option<QueueRef>,
    /// Queues that may be merged, by the position of their next request.
    positions: SortedList,
}

impl Index<usize> for Queues {
    type Output = IoQueue;

    #[inline]
    fn index(&self, number: usize) -> &IoQueue {
        &self.list[number]
    }
}

impl IndexMut<usize> for Queues {
    #[inline]
    fn index_mut(&mut self, number: usize) -> &mut IoQueue {
        &mut self.list[number]
    }
}

impl Queues {
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = &IoQueue> {
        self.list.iter()
    }

    /// Number of queues without processes.
    #[cfg(test)]
    pub(super) fn left(&self) -> usize {
        self.left.len()
    }

    pub(super) fn reference(&self, number: usize) -> QueueRef {
        QueueRef { number, generation: self.list[number].generation }
    }

    pub(super) fn is_current(&self, reference: QueueRef) -> bool {
        self.list[reference.number].generation == reference.generation
    }

    /// Removes an unused number and returns it. Only the few queues without processes are searched.
    pub(super) fn take_unused(&mut self, in_service: Option<usize>) -> Option<usize> {
        let unused = |&number: &usize| {
            let queue = &self.list[number];
            queue.users.count == 0 && !queue.busy && queue.at_device == 0 && in_service != Some(number)
        };
        let index = self.left.iter().position(unused)?;
        Some(self.left.swap_remove(index))
    }

    /// Makes `queue` the one of this number: a [reused](Queues::take_unused) one, or the next.
    pub(super) fn set(&mut self, number: usize, queue: IoQueue) {
        if number == self.list.len() {
            self.list.push(queue);
        } else {
            let generation = self.list[number].generation + 1;
            self.list[number] = IoQueue { generation, ..queue };
        }
    }

    /// Keeps the number of a queue without processes for reuse.
    pub(super) fn leave(&mut self, number: usize) {
        if !self.left.contains(&number) {
            self.left.push(number);
        }
    }

    /// Removes a queue from the index by position.
    pub(super) fn unlist(&mut self, number: usize) {
        if let Some(key) = self.list[number].position.take() {
            self.positions.remove(key);
        }
    }

    /// Adds a queue to the index by the position of its next request, unless another one is there.
    pub(super) fn list_at(&mut self, number: usize, lba: u64) {
        let key = u128::from(lba);
        if self.positions.at_or_after(key).is_none_or(|(other, _)| other != key) {
            self.positions.insert(key, number as u32);
            self.list[number].position = Some(key);
        }
    }

    /// The listed queue with the nearest next request, if that is within `distance` (`bfqq_find_close`).
    pub(super) fn nearest(&self, lba: u64, within: u64) -> Option<usize> {
        let (before, after) = self.positions.around(u128::from(lba));
        let distance = |(key, number): (u128, u32)| ((key as u64).abs_diff(lba), number as usize);
        let nearest = [after, before].into_iter().flatten().map(distance).min_by_key(|&(distance, _)| distance);
        nearest.filter(|&(distance, _)| distance <= within).map(|(_, number)| number)
    }
}
