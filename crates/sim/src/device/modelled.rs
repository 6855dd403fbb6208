//! A device defined by a model of service times: it serves requests in order of arrival, each in its predicted time.

use std::collections::VecDeque;

use block::tenants::ServiceTime;
use block::{Nanos, Request};

use super::{Completion, Device};

/// A device defined by a model of service times.
pub struct Modelled {
    time: Box<dyn ServiceTime>,
    capacity_sectors: u64,
    queue_depth: usize,
    is_rotational: bool,
    /// Requests in the device, the one in service first.
    held: VecDeque<Completion>,
    busy: Nanos,
}

impl Modelled {
    /// An idle device of this many 512-byte sectors with a queue depth of 1.
    pub fn new(time: Box<dyn ServiceTime>, capacity_sectors: u64) -> Modelled {
        Modelled { time, capacity_sectors, queue_depth: 1, is_rotational: false, held: VecDeque::new(), busy: Nanos::ZERO }
    }

    /// Sets the queue depth; the model is passed the number of requests in the device.
    pub fn with_queue(self, queue_depth: usize) -> Modelled {
        let queue_depth = queue_depth.max(1);
        Modelled { queue_depth, held: VecDeque::with_capacity(queue_depth), ..self }
    }

    /// Sets whether it is rotational.
    pub fn rotational(self, is_rotational: bool) -> Modelled {
        Modelled { is_rotational, ..self }
    }
}

impl Device for Modelled {
    fn capacity_sectors(&self) -> u64 {
        self.capacity_sectors
    }

    fn queue_depth(&self) -> usize {
        self.queue_depth
    }

    fn is_rotational(&self) -> bool {
        self.is_rotational
    }

    fn submit(&mut self, now: Nanos, request: &Request) {
        let start = self.held.back().map_or(now, |last| last.at.max(now));
        let work = self.time.service_time(start, request, self.held.len() as u32);
        self.busy += work;
        let (seek, rotation, seek_cylinders, cache_hit) = (Nanos::ZERO, Nanos::ZERO, 0, false);
        let at = start + work;
        self.held.push_back(Completion { id: request.id, at, seek, rotation, seek_cylinders, cache_hit, work: Some(work) });
    }

    fn wake_at(&self) -> Option<Nanos> {
        self.held.front().map(|completion| completion.at)
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        let finished = self.held.partition_point(|completion| completion.at <= now);
        done.extend(self.held.drain(..finished));
    }

    fn busy(&self) -> Nanos {
        self.busy
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use block::tenants::{ConstantTime, ServiceModel};
    use block::{Op, Priority};

    const MODEL: ConstantTime = ConstantTime { request: Nanos::from_millis(2), sector: Nanos::from_micros(10) };

    fn request(id: u32, now: Nanos) -> Request {
        let (op, priority) = (Op::Read, Priority::DEFAULT);
        Request { id, stream: 0, op, sync: true, priority, sectors: 100, lba: 0, arrival: now }
    }

    #[test]
    fn it_takes_as_long_as_the_model_says() {
        let mut device = Modelled::new(MODEL.begin(), 1000);
        let now = Nanos::from_millis(5);
        device.submit(now, &request(7, now));
        let mut done = Vec::new();
        device.advance(Nanos::from_micros(7_999), &mut done);
        assert_eq!((done.len(), device.wake_at()), (0, Some(Nanos::from_millis(8))));
        device.advance(Nanos::from_millis(8), &mut done);
        assert_eq!((done[0].id, done[0].work, device.busy()), (7, Some(Nanos::from_millis(3)), Nanos::from_millis(3)));
    }

    #[test]
    fn several_are_served_one_after_the_other() {
        let mut device = Modelled::new(MODEL.begin(), 1000).with_queue(4);
        for (id, ms) in [(1, 0), (2, 1), (3, 20)] {
            device.submit(Nanos::from_millis(ms), &request(id, Nanos::from_millis(ms)));
        }
        let mut done = Vec::new();
        device.advance(Nanos::from_millis(30), &mut done);
        let done: Vec<(u32, Nanos)> = done.iter().map(|done| (done.id, done.at)).collect();
        assert_eq!(done, [(1, Nanos::from_millis(3)), (2, Nanos::from_millis(6)), (3, Nanos::from_millis(23))]);
    }
}
