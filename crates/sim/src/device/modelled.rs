//! A device that is nothing but a prediction: it serves one request after the other, each for as long as a model says.

use block::tenants::ServiceTime;
use block::{Nanos, Request};

use super::{Completion, Device};

/// Such a device.
pub struct Modelled {
    time: Box<dyn ServiceTime>,
    capacity_sectors: u64,
    /// The request that it is at.
    at_work: Option<Completion>,
    busy: Nanos,
}

impl Modelled {
    /// A device of that many 512-byte sectors, at rest.
    pub fn new(time: Box<dyn ServiceTime>, capacity_sectors: u64) -> Modelled {
        Modelled { time, capacity_sectors, at_work: None, busy: Nanos::ZERO }
    }
}

impl Device for Modelled {
    fn capacity_sectors(&self) -> u64 {
        self.capacity_sectors
    }

    fn queue_depth(&self) -> usize {
        1
    }

    fn submit(&mut self, now: Nanos, request: &Request) {
        let work = self.time.of(now, request, 0);
        self.busy += work;
        let (seek, rotation, seek_cylinders, cache_hit) = (Nanos::ZERO, Nanos::ZERO, 0, false);
        self.at_work =
            Some(Completion { id: request.id, at: now + work, seek, rotation, seek_cylinders, cache_hit, work: Some(work) });
    }

    fn wake_at(&self) -> Option<Nanos> {
        self.at_work.map(|completion| completion.at)
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        done.extend(self.at_work.take_if(|completion| completion.at <= now));
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

    #[test]
    fn it_takes_as_long_as_the_model_says() {
        let model = ConstantTime { request: Nanos::from_millis(2), sector: Nanos::from_micros(10) };
        let mut device = Modelled::new(model.begin(), 1000);
        let (op, priority, now) = (Op::Read, Priority::DEFAULT, Nanos::from_millis(5));
        device.submit(now, &Request { id: 7, stream: 0, op, sync: true, priority, sectors: 100, lba: 0, arrival: now });
        let mut done = Vec::new();
        device.advance(Nanos::from_micros(7_999), &mut done);
        assert_eq!((done.len(), device.wake_at()), (0, Some(Nanos::from_millis(8))));
        device.advance(Nanos::from_millis(8), &mut done);
        assert_eq!((done[0].id, done[0].work, device.busy()), (7, Some(Nanos::from_millis(3)), Nanos::from_millis(3)));
    }
}
