//! A device at a fraction of its speed: all of its times are longer, including service, waiting and background work. A workload
//! that is served at 0.7 of the speed leaves three tenths of the device spare.

use block::{Nanos, Request, RequestId};

use super::{Completion, Device, FlashTally};

/// A fraction of a device's speed, in thousandths: 1 to 1,000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Speed(u64);

impl Speed {
    /// Full speed.
    pub const FULL: Speed = Speed(1_000);

    /// The speed nearest to this fraction of the full speed, from 0.001 to 1.
    pub fn of(part: f64) -> Speed {
        Speed((1e3 * part).round().clamp(1.0, 1e3) as u64)
    }

    /// As a fraction of the full speed.
    pub fn part(self) -> f64 {
        self.0 as f64 / 1e3
    }

    /// Converts a time of the host to the device's own time.
    fn inside(self, outside: Nanos) -> Nanos {
        Nanos((u128::from(outside.0) * u128::from(self.0) / 1_000) as u64)
    }

    /// The first time of the host at which the device's own time is `inside`; also converts durations.
    fn outside(self, inside: Nanos) -> Nanos {
        Nanos(u64::try_from((u128::from(inside.0) * 1_000).div_ceil(u128::from(self.0))).unwrap_or(u64::MAX))
    }
}

/// A device at a fraction of its speed.
pub struct Slowed {
    inner: Box<dyn Device>,
    speed: Speed,
}

impl Slowed {
    /// Wraps a device.
    pub fn new(inner: Box<dyn Device>, speed: Speed) -> Slowed {
        Slowed { inner, speed }
    }
}

impl Device for Slowed {
    fn capacity_sectors(&self) -> u64 {
        self.inner.capacity_sectors()
    }

    fn queue_depth(&self) -> usize {
        self.inner.queue_depth()
    }

    fn is_rotational(&self) -> bool {
        self.inner.is_rotational()
    }

    fn has_write_cache(&self) -> bool {
        self.inner.has_write_cache()
    }

    fn submit(&mut self, now: Nanos, request: &Request) {
        self.inner.submit(self.speed.inside(now), request);
    }

    fn flush(&mut self, now: Nanos, id: RequestId) -> bool {
        self.inner.flush(self.speed.inside(now), id)
    }

    fn time_to_reach(&mut self, now: Nanos, request: &Request) -> Option<Nanos> {
        self.inner.time_to_reach(self.speed.inside(now), request).map(|time| self.speed.outside(time))
    }

    fn wake_at(&self) -> Option<Nanos> {
        self.inner.wake_at().map(|at| self.speed.outside(at))
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        let begin = done.len();
        self.inner.advance(self.speed.inside(now), done);
        for completion in &mut done[begin..] {
            let Completion { at, seek, rotation, work, .. } = completion;
            for time in [Some(at), Some(seek), Some(rotation), work.as_mut()].into_iter().flatten() {
                *time = self.speed.outside(*time);
            }
        }
    }

    fn busy(&self) -> Nanos {
        self.speed.outside(self.inner.busy())
    }

    fn flash(&self) -> Option<FlashTally> {
        self.inner.flash()
    }
}

#[cfg(test)]
mod tests {
    use block::{Op, Priority};

    use super::*;
    use crate::profile::{DeviceOptions, load};

    /// Completion times of random reads and writes with four in flight, and the total work of the device.
    fn completions(mut device: Box<dyn Device>) -> (Vec<(RequestId, Nanos)>, Nanos) {
        let (mut now, mut done, mut all, mut work) = (Nanos::ZERO, Vec::new(), Vec::new(), Nanos::ZERO);
        for id in 0..200 {
            let lba = u64::from(id) * 7_654_321 % (device.capacity_sectors() - 8);
            let op = if id % 3 == 0 { Op::Write } else { Op::Read };
            device.submit(
                now,
                &Request { id, stream: 0, op, sync: true, priority: Priority::DEFAULT, sectors: 8, lba, arrival: now },
            );
            while id as usize + 1 >= all.len() + 4 {
                now = device.wake_at().unwrap();
                device.advance(now, &mut done);
                work += done.iter().filter_map(|done| done.work).fold(Nanos::ZERO, |sum, work| sum + work);
                all.extend(done.drain(..).map(|done| (done.id, done.at)));
            }
        }
        (all, work)
    }

    #[test]
    fn half_the_speed_takes_twice_the_time_of_a_disk_an_array_and_flash() {
        for name in ["barracuda", "raid5:disk=atlas10k,disks=4", "nvme-tlc"] {
            let build = || load(name).unwrap().build(DeviceOptions::default());
            let (full, work) = completions(build());
            let (half, work_of_half) = completions(Box::new(Slowed::new(build(), Speed::of(0.5))));
            let doubled: Vec<_> = full.iter().map(|(id, at)| (*id, Nanos(2 * at.0))).collect();
            assert_eq!(half, doubled, "{name}");
            assert_eq!(work_of_half, Nanos(2 * work.0), "{name}");
            assert_eq!(completions(Box::new(Slowed::new(build(), Speed::FULL))).0, full, "{name}");
        }
    }

    #[test]
    fn the_time_at_which_it_wakes_is_the_time_at_which_something_happens() {
        for thousandths in [1, 333, 700, 701, 999, 1_000] {
            let speed = Speed(thousandths);
            for inside in [0, 1, 2, 3, 999_999_999, 1 << 40] {
                assert_eq!(speed.inside(speed.outside(Nanos(inside))), Nanos(inside), "{thousandths}");
            }
        }
    }
}
