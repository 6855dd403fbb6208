//! A device without service time: what remains is the cost of the way to it.

use block::{Nanos, Request};
use sim::device::{Completion, Device};

/// Completes every request when it is submitted.
#[derive(Debug)]
pub struct Immediate {
    capacity_sectors: u64,
    done: Vec<Completion>,
}

impl Immediate {
    /// Requests it takes at once; more than any queue of Linux holds.
    const DEPTH: usize = 1024;

    /// A device of this many 512-byte sectors.
    pub fn new(capacity_sectors: u64) -> Immediate {
        Immediate { capacity_sectors, done: Vec::new() }
    }
}

impl Device for Immediate {
    fn capacity_sectors(&self) -> u64 {
        self.capacity_sectors
    }

    fn queue_depth(&self) -> usize {
        Immediate::DEPTH
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
