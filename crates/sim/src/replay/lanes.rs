//! Runs every stream alone on its own disk, to measure how much the other streams slow it down.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use block::{Nanos, StreamId};

use crate::host::Queue;
use crate::run::{Finished, Issue, Server};

/// Limit on requests in all lanes together, which bounds memory if a stream overloads even its own disk.
const ROOM: usize = 1 << 20;

/// One [`Queue`] per stream. Lanes are numbered in the order of their streams.
pub(super) struct Lanes<'a> {
    /// In ascending order.
    streams: Vec<StreamId>,
    lanes: Vec<Option<Lane>>,
    build: &'a dyn Fn() -> Queue,
    /// The lane of the last request: the next one is often of the same stream.
    last: usize,
    /// Time of each lane's next event; stale entries are dropped when they are due.
    calls: BinaryHeap<Reverse<(Nanos, u32)>>,
    touched: Vec<u32>,
    inside: usize,
}

/// A stream's own disk, built at its first request.
struct Lane {
    queue: Box<Queue>,
    /// Its valid entry in `calls`. There is at most one, or every call would schedule as many again.
    call: Option<Nanos>,
}

impl<'a> Lanes<'a> {
    /// Creates lanes for these streams, in ascending order.
    pub(super) fn new(streams: Vec<StreamId>, build: &'a dyn Fn() -> Queue) -> Lanes<'a> {
        let lanes = streams.iter().map(|_| None).collect();
        Lanes { streams, lanes, build, last: 0, calls: BinaryHeap::new(), touched: Vec::new(), inside: 0 }
    }

    /// Index of a stream's lane; `None` if it is not one of the given streams.
    fn find(&mut self, stream: StreamId) -> Option<usize> {
        if self.streams.get(self.last) != Some(&stream) {
            self.last = self.streams.binary_search(&stream).ok()?;
        }
        Some(self.last)
    }
}

impl Server for Lanes<'_> {
    type Work = Issue;

    fn has_room(&self) -> bool {
        self.inside < ROOM
    }

    fn admit(&mut self, now: Nanos, issue: Issue) {
        let found = self.find(issue.stream);
        debug_assert!(found.is_some(), "stream {} has no lane", issue.stream);
        let Some(number) = found else { return };
        let lane = self.lanes[number].get_or_insert_with(|| Lane { queue: Box::new((self.build)()), call: None });
        lane.queue.admit(now, issue);
        self.inside += 1;
        self.touched.push(number as u32);
    }

    fn next_event(&self) -> Option<Nanos> {
        self.calls.peek().map(|Reverse((at, _))| *at)
    }

    fn advance(&mut self, now: Nanos, finished: &mut Vec<Finished>) {
        while let Some(&Reverse((at, number))) = self.calls.peek()
            && at <= now
        {
            self.calls.pop();
            if let Some(lane) = self.lanes[number as usize].as_mut().filter(|lane| lane.call == Some(at)) {
                lane.call = None;
                let before = finished.len();
                lane.queue.advance(now, finished);
                self.inside -= finished.len() - before;
                self.touched.push(number);
            }
        }
    }

    fn dispatch(&mut self, now: Nanos) {
        while let Some(number) = self.touched.pop() {
            let Some(lane) = &mut self.lanes[number as usize] else { continue };
            lane.queue.dispatch(now);
            let next = lane.queue.next_event();
            if next == lane.call {
                continue;
            }
            lane.call = next;
            if let Some(at) = next {
                self.calls.push(Reverse((at, number)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use block::{Op, Priority};

    use super::*;
    use crate::host::QueueSettings;
    use crate::profile::{DeviceOptions, load};

    #[test]
    fn a_lane_is_called_once_for_an_instant_with_any_number_of_requests() {
        let profile = load("atlas10k").unwrap();
        let build = || {
            let spec = block::find("noop").unwrap();
            let scheduler = (spec.build)(&block::Limits::default(), &spec.defaults());
            Queue::new(scheduler, profile.build(DeviceOptions::default()), QueueSettings::default())
        };
        let mut lanes = Lanes::new(vec![1], &build);
        for token in 0..1000 {
            let (op, priority) = (Op::Read, Priority::DEFAULT);
            let issue = Issue { arrival: Nanos::ZERO, lba: token * 1000, sectors: 8, op, sync: true, stream: 1, priority, token };
            lanes.admit(Nanos::ZERO, issue);
        }
        lanes.dispatch(Nanos::ZERO);
        let mut finished = Vec::new();
        while let Some(at) = lanes.next_event() {
            assert_eq!(lanes.calls.len(), 1, "after {} requests", finished.len());
            lanes.advance(at, &mut finished);
            lanes.dispatch(at);
        }
        assert_eq!(finished.len(), 1000);
    }
}
