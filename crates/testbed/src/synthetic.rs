//! Random request generation: arrival times, places and sizes.

use std::ops::Range;
use std::sync::Arc;

use block::{Nanos, Op};
use rand::Rng as _;
use rand_xoshiro::Xoshiro256PlusPlus;

/// A period with one kind of load.
#[derive(Clone, Debug)]
pub struct Phase {
    /// Its end; it begins at the end of the previous phase.
    pub until: Nanos,
    /// Arrival process.
    pub arrival: Arrival,
    /// Places, sizes and operations of requests.
    pub pattern: Pattern,
}

/// An arrival process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrival {
    /// Closed loop with this many requests outstanding: each completion is followed by the next request.
    Outstanding(u32),
    /// Open loop, one request per interval.
    Every(Nanos),
    /// Open loop, a Poisson process with this mean interval.
    AtRandom(Nanos),
}

/// Places, sizes and operations of requests.
#[derive(Clone, Debug)]
pub enum Pattern {
    /// Like the synthetic traces of `YouChoose`, section IV: with probability `locality` a request begins at the end of the previous one,
    /// otherwise at a random place.
    Local {
        /// Probability of a sequential request, from 0 to 1.
        locality: f64,
        /// Percentage of reads.
        reads: u32,
        /// Sizes in sectors, each with the same probability.
        sizes: &'static [u32],
        /// Distribution of the places of requests that are not sequential.
        places: Places,
    },
    /// Sequential reads of this many sectors through the volume.
    InOrder(u32),
    /// The reads of the FAIRIO report's Illustration 2, equations (i) and (ii): after every hundred, requests become 10 sectors larger, and
    /// the gaps between them 10 sectors wider.
    Growing,
    /// The requests of a trace, repeated in a cycle. Requests beyond the volume are wrapped into it.
    Recorded(Arc<[Drawn]>),
}

/// The distribution of places of requests that are not sequential.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Places {
    /// Uniform over the volume.
    Uniform,
    /// In one of 1,024 parts of the volume, by Zipf's law: the part of rank n with 1/n of the probability of the first. Ranks are scattered
    /// over the volume.
    Zipf,
}

/// Number of parts of a volume for Zipf's law.
const PARTS: u64 = 1024;

/// Generates the requests of one tenant.
#[derive(Debug)]
pub struct Draw {
    volume: Range<u64>,
    random: Xoshiro256PlusPlus,
    /// End of the last request, relative to the start of the volume.
    end: u64,
    /// Requests generated so far.
    count: u64,
    /// Partial sums of 1/n, for Zipf's law; empty until first used.
    sums: Vec<f64>,
}

/// A generated request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drawn {
    /// The first sector.
    pub lba: u64,
    /// Number of sectors.
    pub sectors: u32,
    /// Read or write.
    pub op: Op,
}

impl Draw {
    /// Generates requests within `volume`, in sectors.
    pub fn new(volume: Range<u64>, random: Xoshiro256PlusPlus) -> Draw {
        Draw { volume, random, end: 0, count: 0, sums: Vec::new() }
    }

    /// A random interval of a Poisson process with this mean.
    pub fn gap(&mut self, mean: Nanos) -> Nanos {
        Nanos((-(1.0 - self.random.random::<f64>()).ln() * mean.0 as f64).round() as u64)
    }

    /// Generates the next request of this pattern.
    pub fn next(&mut self, pattern: &Pattern) -> Drawn {
        let length = self.volume.end - self.volume.start;
        let (begin, sectors, op) = match *pattern {
            Pattern::InOrder(sectors) => (self.end, sectors, Op::Read),
            Pattern::Recorded(ref drawn) => {
                let Drawn { lba, sectors, op } = drawn[(self.count % drawn.len() as u64) as usize];
                let sectors = sectors.min(length as u32);
                (lba % (length - u64::from(sectors) + 1), sectors, op)
            }
            Pattern::Growing => {
                let hundreds = self.count / 100;
                let gap = if self.count == 0 { 0 } else { 10 * (1 + (self.count - 1) / 100) };
                (self.end + gap, 16 + 10 * hundreds as u32, Op::Read)
            }
            Pattern::Local { locality, reads, sizes, places } => {
                let sectors = sizes[self.random.random_range(0..sizes.len())];
                let follows = self.random.random::<f64>() < locality;
                let begin = if follows { self.end } else { self.somewhere(length, u64::from(sectors), places) };
                let is_read = self.random.random_range(0..100) < reads;
                (begin, sectors, if is_read { Op::Read } else { Op::Write })
            }
        };
        // At the end of the volume, wrap around.
        let begin = if begin + u64::from(sectors) > length { 0 } else { begin };
        self.end = begin + u64::from(sectors);
        self.count += 1;
        Drawn { lba: self.volume.start + begin, sectors, op }
    }

    /// A random place, aligned to the size of the request.
    fn somewhere(&mut self, length: u64, sectors: u64, places: Places) -> u64 {
        let blocks = (length / sectors).max(1);
        let block = match places {
            Places::Uniform => self.random.random_range(0..blocks),
            Places::Zipf => {
                let part = self.part();
                let (from, to) = (blocks * part / PARTS, (blocks * (part + 1) / PARTS).max(blocks * part / PARTS + 1));
                self.random.random_range(from..to).min(blocks - 1)
            }
        };
        block * sectors
    }

    /// A random part of the volume, by Zipf's law.
    fn part(&mut self) -> u64 {
        if self.sums.is_empty() {
            let sum = |sum: &mut f64, rank: u64| {
                *sum += 1.0 / rank as f64;
                Some(*sum)
            };
            self.sums = (1..=PARTS).scan(0.0, sum).collect();
        }
        let total = self.sums.last().copied().unwrap_or(1.0);
        let drawn = self.random.random::<f64>() * total;
        let rank = self.sums.partition_point(|sum| *sum <= drawn) as u64;
        // An odd factor permutes the parts.
        rank.min(PARTS - 1).wrapping_mul(389) % PARTS
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;

    use super::*;

    fn draw(sectors: u64) -> Draw {
        Draw::new(1000..1000 + sectors, Xoshiro256PlusPlus::seed_from_u64(1))
    }

    #[test]
    fn as_many_requests_follow_the_one_before_as_the_locality_says_and_two_of_three_read() {
        let mut draw = draw(8 << 20);
        let pattern = Pattern::Local { locality: 0.75, reads: 67, sizes: &[8], places: Places::Uniform };
        let drawn: Vec<Drawn> = (0..10_000).map(|_| draw.next(&pattern)).collect();
        let follow = drawn.array_windows().filter(|[one, next]| one.lba + 8 == next.lba).count();
        let reads = drawn.iter().filter(|drawn| drawn.op == Op::Read).count();
        assert!(follow.abs_diff(7_500) < 150 && reads.abs_diff(6_700) < 150, "{follow} {reads}");
        assert!(drawn.iter().all(|drawn| (1000..1000 + (8 << 20)).contains(&drawn.lba) && drawn.sectors == 8));
    }

    #[test]
    fn a_recorded_pattern_repeats_its_requests_within_the_volume() {
        let recorded = [(0, 8), (2_000, 16)].map(|(lba, sectors)| Drawn { lba, sectors, op: Op::Write });
        let (mut draw, pattern) = (draw(1_000), Pattern::Recorded(recorded.into()));
        let places: Vec<(u64, u32)> = (0..3).map(|_| draw.next(&pattern)).map(|drawn| (drawn.lba, drawn.sectors)).collect();
        // 2,000 is 1,015 beyond the last place for 16 sectors, 984.
        assert_eq!(places, [(1_000, 8), (1_000 + 2_000 % 985, 16), (1_000, 8)]);
    }

    #[test]
    fn sizes_and_gaps_grow_as_in_the_reports_equations() {
        let mut draw = draw(8 << 30);
        let drawn: Vec<Drawn> = (0..202).map(|_| draw.next(&Pattern::Growing)).collect();
        assert_eq!((drawn[0].lba, drawn[0].sectors, drawn[1].lba), (1000, 16, 1026), "26 sectors to the second");
        assert_eq!((drawn[100].sectors, drawn[101].lba - drawn[100].lba), (26, 46));
        assert_eq!(drawn[200].sectors, 36);
    }

    #[test]
    fn the_parts_of_a_volume_are_asked_for_by_zipfs_law() {
        let mut draw = draw(PARTS * 64);
        let pattern = Pattern::Local { locality: 0.0, reads: 100, sizes: &[16], places: Places::Zipf };
        let mut counts = vec![0_u32; PARTS as usize];
        for _ in 0..50_000 {
            counts[((draw.next(&pattern).lba - 1000) / 64) as usize] += 1;
        }
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let of_tenth = f64::from(counts[0]) / f64::from(counts[9]);
        assert!((7.0..14.0).contains(&of_tenth), "{of_tenth}");
    }
}
