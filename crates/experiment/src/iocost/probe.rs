//! Closed-loop probes with a constant queue depth, on a real or a simulated device.

use block::{Nanos, Op};
use rand::Rng as _;
use rand_xoshiro::Xoshiro256PlusPlus;
use statistics::Rank;
use testbed::chance;

/// Sequential probes begin in another of this many parts in each round: a disk is faster at its outer edge.
const PARTS: u64 = super::ROUNDS as u64;

/// The order of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Each begins at the end of the previous one.
    Sequential,
    /// Each begins at a random place.
    Random,
}

/// The target of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Anywhere on the device; reads only.
    Device,
    /// The scratch file.
    File,
}

/// Sizes of the targets in 512-byte sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places {
    /// The device.
    pub device: u64,
    /// The file.
    pub file: u64,
}

/// A closed-loop load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Percentage of reads.
    pub read_percent: u32,
    /// Their order.
    pub order: Order,
    /// Size of each request.
    pub sectors: u32,
    /// Requests outstanding.
    pub depth: u32,
    /// Their target.
    pub place: Place,
}

/// A request of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Read or write.
    pub op: Op,
    /// First sector, relative to the start of the device or the file.
    pub sector: u64,
}

/// The result of a probe.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// From the first request to the last arrival, after which fewer are outstanding; with writes, to the end of the final flush.
    pub elapsed: Nanos,
    /// Number of requests completed in this time.
    pub done: u64,
    /// Latencies of the requests, in any order.
    pub latencies: Vec<Nanos>,
}

impl Sample {
    /// Sets `elapsed` and `done`. `last_arrival` and `flushed` are times since the first request.
    pub fn close(&mut self, probe: &Probe, requests: u64, last_arrival: Nanos, flushed: Nanos) {
        let outstanding = u64::from(probe.depth);
        (self.elapsed, self.done) = if probe.read_percent < 100 || requests <= 2 * outstanding {
            (flushed, requests)
        } else {
            (last_arrival, requests - outstanding)
        };
    }

    /// Requests per second.
    pub fn rate(&self) -> f64 {
        self.done as f64 / self.elapsed.as_secs_f64()
    }

    /// A quantile of latencies in microseconds; 0 without requests.
    pub fn latency_us(&self, share: f64) -> f64 {
        Rank::Above.of_ordered(&mut self.latencies.clone(), share).map_or(0.0, |latency| latency.0 as f64 / 1e3)
    }
}

/// A device that can be probed.
pub trait Prober {
    /// Runs a probe with this number of requests, as part of this round; writes are followed by a flush.
    ///
    /// # Errors
    /// A request failed, or the run was interrupted.
    fn run(&mut self, probe: &Probe, requests: u64, round: usize) -> anyhow::Result<Sample>;
}

/// The random requests of a probe.
#[derive(Debug)]
pub struct Requests {
    probe: Probe,
    /// Number of requests that fit into the target.
    slots: u64,
    random: Xoshiro256PlusPlus,
    left: u64,
    next: u64,
}

impl Probe {
    /// The requests of sample `number` with this seed.
    pub fn requests(&self, count: u64, places: Places, (seed, number): (u64, u32), round: usize) -> Requests {
        let sectors = if self.place == Place::Device { places.device } else { places.file };
        let slots = (sectors / u64::from(self.sectors)).max(1);
        let mut random = chance::source("iocost", seed, number);
        // A random start in the part, so that no cache has the data of the previous sample.
        let length = (slots / PARTS).max(1);
        let next = (round as u64 % PARTS * length + random.random_range(0..length)) % slots;
        Requests { probe: *self, slots, random, left: count, next }
    }
}

impl Iterator for Requests {
    type Item = Asked;

    fn next(&mut self) -> Option<Asked> {
        self.left = self.left.checked_sub(1)?;
        let op = if self.random.random_range(0..100) < self.probe.read_percent { Op::Read } else { Op::Write };
        let slot = match self.probe.order {
            Order::Random => self.random.random_range(0..self.slots),
            Order::Sequential => self.next,
        };
        self.next = (self.next + 1) % self.slots;
        Some(Asked { op, sector: slot * u64::from(self.probe.sectors) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACES: Places = Places { device: 1 << 20, file: 1 << 16 };

    fn asked(order: Order, place: Place, read_percent: u32) -> Vec<Asked> {
        Probe { read_percent, order, sectors: 8, depth: 1, place }.requests(1_000, PLACES, (1, 2), 3).collect()
    }

    #[test]
    fn random_requests_are_anywhere_in_their_place_and_as_many_reads_as_asked_for() {
        let all = asked(Order::Random, Place::File, 50);
        let reads = all.iter().filter(|asked| asked.op == Op::Read).count();
        assert!(all.len() == 1_000 && (400..600).contains(&reads), "{reads}");
        assert!(all.iter().all(|asked| asked.sector + 8 <= PLACES.file && asked.sector % 8 == 0));
        let far = asked(Order::Random, Place::Device, 100);
        assert!(far.iter().all(|asked| asked.op == Op::Read) && far.iter().any(|asked| asked.sector > PLACES.device / 2));
    }

    #[test]
    fn sequential_requests_follow_each_other_from_the_part_of_their_round() {
        let all = asked(Order::Sequential, Place::Device, 100);
        let part = PLACES.device / PARTS;
        assert!((3 * part - 40..4 * part).contains(&all[0].sector), "{:?}", all[0]);
        assert!(all.windows(2).all(|pair| pair[1].sector == (pair[0].sector + 8) % PLACES.device));
    }

    #[test]
    fn reads_count_as_long_as_all_are_outstanding_and_writes_until_they_are_on_the_medium() {
        let mut sample = Sample::default();
        let probe = |read_percent| Probe { read_percent, order: Order::Random, sectors: 8, depth: 64, place: Place::File };
        sample.close(&probe(100), 1_000, Nanos(7), Nanos(9));
        assert_eq!((sample.elapsed, sample.done), (Nanos(7), 936));
        sample.close(&probe(0), 1_000, Nanos(7), Nanos(9));
        assert_eq!((sample.elapsed, sample.done), (Nanos(9), 1_000));
    }
}
