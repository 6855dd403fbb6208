//! The training load: covers the whole range of sizes and locality, reads and writes.
//!
//! As in the paper (IV.A) a trace has 10,000 requests, locality is the probability that a request begins at the end of the previous one,
//! and two of three requests are reads. A trace consists of episodes, each with its own share of reads, sizes, locality, part of the disk
//! and pauses, so that a model also sees the device's response to changes.

use block::{Nanos, Op};
use rand::Rng as _;
use rand_xoshiro::Xoshiro256PlusPlus;
use testbed::chance::{happens, one_of, scaled, source};

/// Requests per episode; with several outstanding there are no pauses, and shorter episodes suffice.
const EPISODE: usize = 250;
const QUEUED_EPISODE: usize = 125;
/// Maximum size of a request in sectors: the most that Linux sends to a disk, 1,280 KiB.
const LARGEST: f64 = 2560.0;
/// Maximum number of concurrent sequential runs.
const MOST_RUNS: usize = 4;

/// A request to issue: the think time after the one before, and the queue depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planned {
    /// Operation.
    pub op: Op,
    /// First sector.
    pub lba: u64,
    /// Number of sectors.
    pub sectors: u32,
    /// Pause before it.
    pub after: Nanos,
    /// Requests at the device, including this one.
    pub depth: u32,
}

struct Episode {
    reads: f64,
    locality: f64,
    /// Sectors of each request; 0: random sizes.
    sectors: u32,
    region: (u64, u64),
    pause_ms: f64,
    again: f64,
    runs: usize,
    depth: u32,
}

/// Generates trace number `number` for a device of this many sectors. `queued`: with several requests outstanding.
pub fn draw(seed: u64, number: u32, requests: usize, capacity: u64, queued: bool) -> Vec<Planned> {
    let random = &mut source(if queued { "device model, queued" } else { "device model" }, seed, number);
    let mut all = Vec::with_capacity(requests);
    while all.len() < requests {
        let episode = Episode::draw(random, capacity, queued);
        let length = if queued { QUEUED_EPISODE } else { EPISODE };
        episode.ask(random, length.min(requests - all.len()), &mut all);
    }
    all
}

impl Episode {
    fn draw(random: &mut Xoshiro256PlusPlus, capacity: u64, queued: bool) -> Episode {
        let share = one_of(random, &[1.0, 1.0, 0.1, 0.01]);
        let length = ((capacity as f64 * share) as u64).max(4096).min(capacity);
        let first = random.random_range(0..=capacity - length);
        Episode {
            reads: one_of(random, &[2.0 / 3.0, 2.0 / 3.0, 1.0, 0.3, 0.0]),
            locality: one_of(random, &[0.0, 0.0, 0.25, 0.5, 0.75, 1.0]),
            sectors: one_of(random, &[8, 8, 0, 0, 16, 128]),
            region: (first / 8 * 8, length / 8 * 8),
            pause_ms: if queued { 0.0 } else { one_of(random, &[0.0, 0.0, 0.0, 1.0, 10.0, 50.0]) },
            again: one_of(random, &[0.0, 0.0, 0.1]),
            runs: random.random_range(1..=MOST_RUNS),
            depth: if queued { one_of(random, &[2, 4, 8, 16, 32]) } else { 1 },
        }
    }

    fn ask(&self, random: &mut Xoshiro256PlusPlus, count: usize, all: &mut Vec<Planned>) {
        let (first, length) = self.region;
        let mut ends = [first; MOST_RUNS];
        let mut run = 0;
        for _ in 0..count {
            let sectors = match self.sectors {
                0 => (scaled(random, 1.0, LARGEST / 8.0) as u32).max(1) * 8,
                sectors => sectors,
            };
            let goes_on = happens(random, self.locality);
            // A request that is not sequential switches to a random run.
            if !goes_on {
                run = random.random_range(0..self.runs);
            }
            let before = all.len().checked_sub(1 + random.random_range(0..64)).and_then(|index| all.get(index)).copied();
            let lba = match before.filter(|before| happens(random, self.again) && before.sectors >= sectors) {
                Some(before) => before.lba,
                None if goes_on => ends[run],
                None => first + random.random_range(0..length / 8) * 8,
            };
            let lba = if lba + u64::from(sectors) > first + length { first } else { lba };
            let op = if happens(random, self.reads) { Op::Read } else { Op::Write };
            let pause_ms = -self.pause_ms * (1.0 - random.random::<f64>()).ln();
            all.push(Planned { op, lba, sectors, after: Nanos::from_millis_f64(pause_ms), depth: self.depth });
            ends[run] = lba + u64::from(sectors);
        }
    }
}
