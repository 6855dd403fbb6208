//! A device without service time, which leaves only the transport overhead.

use block::{Nanos, Request};
use sim::device::{Completion, Device};

/// Completes every request on submission.
#[derive(Debug)]
pub struct NullDevice {
    capacity_sectors: u64,
    done: Vec<Completion>,
}

impl NullDevice {
    /// Queue depth; more than any queue of Linux.
    const DEPTH: usize = 1024;

    /// A device of this number of 512-byte sectors.
    pub fn new(capacity_sectors: u64) -> NullDevice {
        NullDevice { capacity_sectors, done: Vec::new() }
    }
}

impl Device for NullDevice {
    fn capacity_sectors(&self) -> u64 {
        self.capacity_sectors
    }

    fn queue_depth(&self) -> usize {
        NullDevice::DEPTH
    }

    fn submit(&mut self, now: Nanos, request: &Request) {
        let (seek, rotation) = (Nanos::ZERO, Nanos::ZERO);
        self.done.push(Completion { id: request.id, at: now, seek, rotation, seek_cylinders: 0, cache_hit: true, work: None });
    }

    fn wake_at(&self) -> Option<Nanos> {
        self.done.first().map(|completion| completion.at)
    }

    fn advance(&mut self, _now: Nanos, done: &mut Vec<Completion>) {
        done.append(&mut self.done);
    }

    fn busy(&self) -> Nanos {
        Nanos::ZERO
    }
}
