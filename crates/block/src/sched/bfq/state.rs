//! State of the scheduler as a whole: processes, requests at the device, counts of busy queues, the turn, and budgets.

use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

use slab::Slab;

use super::idling::DeviceQueue;
use super::io_queue::Process;
use super::service::CLASSES;
use crate::directory::Directory;
use crate::hash_index::HashIndex;
use crate::{Nanos, RequestId, StreamId};

/// Number of turns, as a decaying count times 256, from which on the estimated budget is used (`bfq_stats_min_budgets`), and the budget
/// before (`bfq_default_max_budget`).
const ENOUGH_BUDGETS: u64 = 194;
pub(super) const DEFAULT_BUDGET: u64 = 16 * 1024;

/// All processes by number.
#[derive(Default)]
pub(super) struct Processes {
    directory: Directory,
    list: Vec<Process>,
}

impl Index<usize> for Processes {
    type Output = Process;

    #[inline]
    fn index(&self, number: usize) -> &Process {
        &self.list[number]
    }
}

impl IndexMut<usize> for Processes {
    #[inline]
    fn index_mut(&mut self, number: usize) -> &mut Process {
        &mut self.list[number]
    }
}

impl Processes {
    pub(super) fn iter(&self) -> impl Iterator<Item = &Process> {
        self.list.iter()
    }

    /// The number of a process; `None` if it is unknown or forgotten.
    pub(super) fn find(&self, key: u64) -> Option<usize> {
        self.directory.find(key)
    }

    /// Holds a process and returns its number, and whether that belonged to another process until now. That process is then still in
    /// the list, and must be ended and [replaced](Processes::replace).
    pub(super) fn hold(&mut self, key: u64, stream: StreamId) -> (usize, bool) {
        let (number, is_reused) = self.directory.hold(key);
        if number == self.list.len() {
            self.list.push(Process::new(stream));
            return (number, false);
        }
        (number, is_reused)
    }

    pub(super) fn replace(&mut self, number: usize, stream: StreamId) {
        self.list[number] = Process::new(stream);
    }

    /// Ends a request of a process.
    pub(super) fn release(&mut self, key: u64) {
        if let Some(number) = self.directory.find(key) {
            self.list[number].requests -= 1;
            self.directory.release(number);
        }
    }
}

/// A request in flight.
#[derive(Clone, Copy)]
pub(super) struct Flight {
    pub(super) id: RequestId,
    pub(super) queue: usize,
    pub(super) began: Nanos,
    pub(super) random_read: bool,
}

/// The requests at the device, and its own queue.
#[derive(Default)]
pub(super) struct Device {
    flights: Slab<Flight>,
    by_id: HashIndex,
    pub(super) at_device: u32,
    pub(super) queue: DeviceQueue,
}

impl Device {
    /// Adds a request; returns its key. It counts as [at the device](Device::at_device) from [`arrive`](Device::arrive) on.
    pub(super) fn insert(&mut self, flight: Flight) -> u32 {
        let key = self.flights.insert(flight) as u32;
        self.by_id.insert(u64::from(flight.id), key);
        key
    }

    pub(super) fn arrive(&mut self) {
        self.at_device += 1;
    }

    /// Removes a completed request, which still counts as at the device until [`leave`](Device::leave).
    pub(super) fn remove(&mut self, id: RequestId) -> Option<(u32, Flight)> {
        let key = self.by_id.get(u64::from(id)).next()?;
        let flight = self.flights.remove(key as usize);
        self.by_id.remove(u64::from(flight.id), key);
        Some((key, flight))
    }

    pub(super) fn leave(&mut self) {
        self.at_device -= 1;
    }

    #[cfg(test)]
    pub(super) fn flights(&self) -> usize {
        self.flights.len()
    }
}

/// Numbers of queues with requests.
#[derive(Default)]
pub(super) struct Busy {
    by_class: [usize; CLASSES],
    raised: i64,
    /// Number of queues that were subtracted from that count without being raised; see [`end_all_raising`](super::Bfq::end_all_raising).
    raised_undercount: i64,
}

impl Busy {
    pub(super) fn begin(&mut self, class: usize, is_raised: bool) {
        self.by_class[class] += 1;
        self.raised += i64::from(is_raised);
    }

    pub(super) fn end(&mut self, class: usize, is_raised: bool) {
        self.by_class[class] -= 1;
        self.raised -= i64::from(is_raised);
    }

    /// Accounts for a busy queue whose raising begins or ends.
    pub(super) fn change(&mut self, was_raised: bool, is_raised: bool) {
        self.raised += i64::from(is_raised) - i64::from(was_raised);
    }

    /// Subtracts a queue from the count of raised ones although it is not raised.
    pub(super) fn undercount(&mut self) {
        self.raised_undercount += 1;
    }

    pub(super) fn total(&self) -> usize {
        self.by_class.iter().sum()
    }

    /// Number of classes with busy queues.
    pub(super) fn classes(&self) -> usize {
        self.by_class.iter().filter(|&&busy| busy > 0).count()
    }

    /// Number of raised queues with requests, as the kernel counts them (`wr_busy_queues`).
    pub(super) fn raised(&self) -> i64 {
        self.raised - self.raised_undercount
    }

    /// Numbers by class, and of raised ones without the kernel's miscount.
    #[cfg(test)]
    pub(super) fn exact(&self) -> ([usize; CLASSES], i64) {
        (self.by_class, self.raised)
    }
}

/// The turn of the queue in service.
#[derive(Default)]
pub(super) struct Turn {
    /// The queue in service.
    pub(super) queue: Option<usize>,
    began: Nanos,
    /// End of idling for the queue in service, and its start; `None` if the device is not kept idle.
    pub(super) idle_until: Option<Nanos>,
    idling_since: Nanos,
    /// End of the last request dispatched in this turn; 0 if there is none.
    pub(super) head: u64,
}

impl Turn {
    pub(super) fn begin(&mut self, now: Nanos, queue: usize) {
        self.queue = Some(queue);
        self.head = 0;
        self.began = now;
    }

    pub(super) fn end(&mut self) {
        self.queue = None;
        self.idle_until = None;
    }

    pub(super) fn idle(&mut self, now: Nanos, span: Nanos) {
        self.idling_since = now;
        self.idle_until = Some(now + span);
    }

    /// The duration of the turn until now; if `compensate`, until idling began.
    pub(super) fn span(&self, now: Nanos, compensate: bool) -> Nanos {
        let end = if compensate { self.idling_since } else { now };
        end - self.began
    }

    /// Ends idling that is over at `now`; returns the time at which it was.
    pub(super) fn take_overdue(&mut self, now: Nanos) -> Option<Nanos> {
        self.idle_until.take_if(|end| *end <= now)
    }
}

/// The largest budget of a turn, in sectors.
pub(super) struct Budgets {
    pub(super) max: u64,
    assigned: u64,
}

impl Budgets {
    pub(super) fn new(max: u64) -> Budgets {
        Budgets { max, assigned: 0 }
    }

    /// Counts a turn.
    pub(super) fn assign(&mut self) {
        self.assigned = (7 * self.assigned + 256) / 8;
    }

    /// Whether there were enough turns to use the estimate.
    pub(super) fn is_estimated(&self) -> bool {
        self.assigned >= ENOUGH_BUDGETS
    }

    /// Maximum budget at present (`bfq_max_budget`).
    pub(super) fn max_now(&self) -> u64 {
        if self.is_estimated() { self.max } else { DEFAULT_BUDGET }
    }

    /// Minimum budget (`bfq_min_budget`).
    pub(super) fn min(&self) -> u64 {
        self.max_now() / 32
    }
}
