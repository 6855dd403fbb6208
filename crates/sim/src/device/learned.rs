//! A device that behaves as a model says: whoever fitted the model to a real device gets that device in virtual time.
//!
//! The model is a [`ServiceTime`]: a constant here, a formula in the tests; the regression tree that is fitted to a device's requests
//! comes from the crate that learns, which this one does not know.
//!
//! Requests are served one after the other in the order in which they came, however many are in the device: a service time is what
//! one request takes behind another, so it already holds what a real device gains from the order that its queue had when it was
//! measured.

use std::collections::VecDeque;

use block::{Nanos, Request, ServiceTime};

use super::{Completion, Device};

/// A device at work that follows a model.
pub struct Learned {
    model: Box<dyn ServiceTime>,
    capacity_sectors: u64,
    depth: usize,
    /// In the device, and when each is done. The first is being served.
    queue: VecDeque<(Nanos, Request)>,
    last: Option<Request>,
    busy: Nanos,
    busy_until: Nanos,
}

impl Learned {
    /// A device at rest that holds `queue_depth` requests (at least 1).
    pub fn new(model: Box<dyn ServiceTime>, capacity_sectors: u64, queue_depth: usize) -> Learned {
        let depth = queue_depth.max(1);
        Learned { model, capacity_sectors, depth, queue: VecDeque::new(), last: None, busy: Nanos::ZERO, busy_until: Nanos::ZERO }
    }

    fn account(&mut self, now: Nanos) {
        if !self.queue.is_empty() {
            self.busy += now - self.busy_until;
        }
        self.busy_until = self.busy_until.max(now);
    }
}

impl Device for Learned {
    fn capacity_sectors(&self) -> u64 {
        self.capacity_sectors
    }

    fn queue_depth(&self) -> usize {
        self.depth
    }

    fn submit(&mut self, now: Nanos, request: &Request) {
        self.account(now);
        let begins = self.queue.back().map_or(now, |(done, _)| (*done).max(now));
        let takes = self.model.expected(self.last.as_ref(), request);
        self.last = Some(*request);
        self.queue.push_back((begins + takes, *request));
    }

    fn wake_at(&self) -> Option<Nanos> {
        self.queue.front().map(|(done, _)| *done)
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        while let Some((at, request)) = self.queue.front().copied().filter(|(at, _)| *at <= now) {
            self.account(at);
            self.queue.pop_front();
            let none = Nanos::ZERO;
            done.push(Completion { id: request.id, at, seek: none, rotation: none, seek_cylinders: 0, cache_hit: false });
        }
        self.account(now);
    }

    fn busy(&self) -> Nanos {
        self.busy
    }
}

#[cfg(test)]
mod tests {
    use block::{Op, Priority};

    use super::*;

    /// 1 ms, and 1 µs for each sector between the end of the last request and this one.
    struct Linear;

    impl ServiceTime for Linear {
        fn expected(&self, previous: Option<&Request>, request: &Request) -> Nanos {
            let from = previous.map_or(0, Request::end);
            Nanos::from_millis(1) + Nanos::from_micros(request.lba.abs_diff(from))
        }
    }

    fn request(id: u32, lba: u64) -> Request {
        let (op, priority) = (Op::Read, Priority::DEFAULT);
        Request { id, stream: 0, op, sync: true, priority, sectors: 8, lba, arrival: Nanos::ZERO }
    }

    fn finish(device: &mut Learned) -> Vec<(u32, Nanos)> {
        let mut done = Vec::new();
        while let Some(at) = device.wake_at() {
            device.advance(at, &mut done);
        }
        done.iter().map(|completion| (completion.id, completion.at)).collect()
    }

    #[test]
    fn requests_are_served_one_by_one_and_each_takes_what_the_model_says_behind_the_one_before() {
        let mut device = Learned::new(Box::new(Linear), 1000, 4);
        for (id, lba) in [(0, 100), (1, 508), (2, 516)] {
            device.submit(Nanos::ZERO, &request(id, lba));
        }
        let expected = [(0, 1_100), (1, 1_100 + 1_400), (2, 2_500 + 1_000)];
        assert_eq!(finish(&mut device), expected.map(|(id, micros)| (id, Nanos::from_micros(micros))));
        assert_eq!(device.busy(), Nanos::from_micros(3_500));
    }

    #[test]
    fn a_pause_is_not_busy_time_and_the_next_request_begins_when_it_comes() {
        let mut device = Learned::new(Box::new(Nanos::from_millis(2)), 1000, 1);
        let mut done = Vec::new();
        for start in [0, 10] {
            let now = Nanos::from_millis(start);
            device.advance(now, &mut done);
            device.submit(now, &request(0, 0));
            assert_eq!(finish(&mut device), [(0, Nanos::from_millis(start + 2))]);
        }
        assert_eq!(device.busy(), Nanos::from_millis(4));
    }

    #[test]
    fn times_at_the_end_of_the_clock_saturate() {
        let mut device = Learned::new(Box::new(Nanos::MAX), 1000, 2);
        device.submit(Nanos(1), &request(0, 0));
        device.submit(Nanos(1), &request(1, 0));
        assert_eq!(finish(&mut device), [(0, Nanos::MAX), (1, Nanos::MAX)]);
    }
}
