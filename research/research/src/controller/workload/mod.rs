//! Describes a workload: the distribution of its requests, the correlation of two distributions, and a one-line summary.
//!
//! The paper detects a change by "a small correlation of request distributions between the current and previous workloads"
//! ("Self-Learning Disk Scheduling", section 3.3.1) and does not define the distribution. Here it is two histograms over the
//! requests queued: of their kind (read, write or discard; size; sequential, near or far in their stream), and of the number of
//! streams that are mixed (among the last [`MIXED`] requests). Square roots of the shares are correlated, as in Bhattacharyya's
//! coefficient, so that small shares have some weight: a change of scheduler shifts shares between streams that wait for their
//! requests and must not look like another workload; nor must four or five random reads among thousands of sequential ones.

use block::{Op, Request};

use observe::event::Event;
use observe::window::Features;

/// Minimum number of requests for a comparison.
pub const FEWEST: u32 = 50;

/// Numbers of classes: of operations, sizes, places; and of concurrent streams.
const OPERATIONS: usize = 3;
/// Upper bound of each size class except the last, in sectors: 4, 16, 64, 128 and 512 KiB.
const SIZES: [u32; 5] = [8, 32, 128, 256, 1024];
const PLACES: usize = 3;
const KINDS: usize = OPERATIONS * (SIZES.len() + 1) * PLACES;
/// Upper bound of each class of numbers of streams except the last.
const CROWDS: [u8; 4] = [1, 2, 5, 12];
const CELLS: usize = KINDS + CROWDS.len() + 1;

/// Requests closer than this to the end of the stream's last request are near, in sectors (8 MiB).
const NEAR: u64 = 16_384;
/// Number of slots for streams; with more streams, two may share a slot.
const SLOTS: usize = 64;
/// Number of recent requests among which streams are counted.
const MIXED: usize = 64;

/// Collects a distribution from events.
#[derive(Clone, Debug)]
pub struct Mix {
    counts: [u32; CELLS],
    requests: u32,
    /// The end of the last request in each slot.
    ends: [Option<u64>; SLOTS],
    /// Slots of recent requests, and the number of occurrences of each slot among them.
    last: [u8; MIXED],
    filled: usize,
    next: usize,
    present: [u8; SLOTS],
    streams: u8,
}

impl Mix {
    /// An empty distribution.
    pub fn new() -> Mix {
        Mix {
            counts: [0; CELLS],
            requests: 0,
            ends: [None; SLOTS],
            last: [0; MIXED],
            filled: 0,
            next: 0,
            present: [0; SLOTS],
            streams: 0,
        }
    }

    /// Counts a queued request.
    pub fn event(&mut self, event: &Event) {
        if let Event::Queued(request) = event {
            self.queued(request);
        }
    }

    fn queued(&mut self, request: &Request) {
        let slot = request.stream as usize % SLOTS;
        let place = match self.ends[slot].replace(request.end()) {
            Some(end) if request.follows(end) => 0,
            Some(end) if request.lba.abs_diff(end) <= NEAR => 1,
            _ => 2,
        };
        let operation = match request.op {
            Op::Read => 0,
            Op::Write => 1,
            Op::Discard => 2,
        };
        let size = SIZES.iter().position(|&largest| request.sectors <= largest).unwrap_or(SIZES.len());
        let kind = (operation * (SIZES.len() + 1) + size) * PLACES + place;
        self.counts[kind] = self.counts[kind].saturating_add(1);
        self.remember(slot);
        let crowd = CROWDS.iter().position(|&largest| self.streams <= largest).unwrap_or(CROWDS.len());
        self.counts[KINDS + crowd] = self.counts[KINDS + crowd].saturating_add(1);
        self.requests = self.requests.saturating_add(1);
    }

    fn remember(&mut self, slot: usize) {
        if self.filled == MIXED {
            let gone = usize::from(self.last[self.next]);
            self.present[gone] -= 1;
            self.streams -= u8::from(self.present[gone] == 0);
        } else {
            self.filled += 1;
        }
        // Slots fit into a byte, as do counts of recent requests.
        self.last[self.next] = slot as u8;
        self.streams += u8::from(self.present[slot] == 0);
        self.present[slot] += 1;
        self.next = (self.next + 1) % MIXED;
    }

    /// The distribution since the last call; `None` with fewer than [`FEWEST`] requests.
    pub fn close(&mut self) -> Option<Distribution> {
        let requests = f64::from(self.requests);
        let cells = self.counts.map(|count| (f64::from(count) / requests).sqrt());
        let is_enough = self.requests >= FEWEST;
        (self.counts, self.requests) = ([0; CELLS], 0);
        is_enough.then_some(Distribution(cells))
    }
}

/// Distribution of a workload's requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Distribution([f64; CELLS]);

impl Distribution {
    /// Pearson's correlation coefficient: 1 for the same workload, about 0 for two with nothing in common.
    pub fn correlation(&self, other: &Distribution) -> f64 {
        let mean = |cells: &[f64; CELLS]| cells.iter().sum::<f64>() / CELLS as f64;
        let (mine, theirs) = (mean(&self.0), mean(&other.0));
        let [mut both, mut own, mut foreign] = [0.0; 3];
        for (a, b) in self.0.iter().zip(&other.0) {
            let (a, b) = (a - mine, b - theirs);
            both += a * b;
            own += a * a;
            foreign += b * b;
        }
        both / (own * foreign).sqrt()
    }

    /// Moves towards another by this share.
    pub fn approach(&mut self, other: &Distribution, share: f64) {
        self.0.iter_mut().zip(&other.0).for_each(|(mine, theirs)| *mine += share * (theirs - *mine));
    }
}

/// One-line summary of a window's workload: "95% reads, 10% sequential, 8 KiB, 4 streams".
pub fn looks(features: &Features) -> String {
    let value = |name: &str| features.get(name).filter(|value| value.is_finite());
    let percent = |name: &str, what: &str| value(name).map(|share| format!("{:.0}% {what}", 100.0 * share));
    let size = value("size_mean_bytes").map(|bytes| format!("{:.0} KiB", bytes / 1024.0));
    let streams = value("streams").map(|streams| format!("{streams:.0} stream{}", if streams == 1.0 { "" } else { "s" }));
    let known = [percent("read_share", "reads"), percent("sequential_share", "sequential"), size, streams];
    let known: Vec<String> = known.into_iter().flatten().collect();
    if known.is_empty() { "no requests".to_owned() } else { known.join(", ") }
}

#[cfg(test)]
mod tests {
    use block::{Nanos, Priority};

    use super::*;

    /// Requests of this many streams in turn: reads or writes, sequential or scattered.
    fn put(mix: &mut Mix, count: u64, streams: u64, op: Op, is_sequential: bool) {
        for number in 0..count {
            let stream = number % streams;
            let lba = if is_sequential { (stream << 32) + number / streams * 8 } else { number * 7_919_000_003 % (1 << 40) };
            let request = Request {
                id: 0,
                stream: u32::try_from(stream).unwrap(),
                op,
                sync: true,
                priority: Priority::DEFAULT,
                sectors: 8,
                lba,
                arrival: Nanos::ZERO,
            };
            mix.event(&Event::Queued(request));
        }
    }

    fn of(parts: &[(u64, u64, Op, bool)]) -> Distribution {
        let mut mix = Mix::new();
        parts.iter().for_each(|&(count, streams, op, is_sequential)| put(&mut mix, count, streams, op, is_sequential));
        mix.close().unwrap()
    }

    #[test]
    fn the_same_workload_correlates_fully_however_long_it_was_watched() {
        let short = of(&[(100, 1, Op::Read, false)]);
        let long = of(&[(10_000, 1, Op::Read, false)]);
        assert!(short.correlation(&long) > 0.999, "{}", short.correlation(&long));
    }

    #[test]
    fn a_few_random_reads_among_sequential_ones_are_no_change() {
        let without = of(&[(3000, 1, Op::Read, true)]);
        let with = of(&[(3000, 1, Op::Read, true), (5, 1, Op::Read, false)]);
        assert!(without.correlation(&with) > 0.95, "{}", without.correlation(&with));
    }

    #[test]
    fn other_operations_places_and_numbers_of_streams_are_changes() {
        let sequential = of(&[(3000, 1, Op::Read, true)]);
        for other in [(3000, 1, Op::Read, false), (3000, 1, Op::Write, true), (3000, 30, Op::Read, true)] {
            let correlation = sequential.correlation(&of(&[other]));
            assert!(correlation < 0.7, "{other:?}: {correlation}");
        }
    }

    #[test]
    fn shares_that_shift_between_the_same_streams_are_no_change() {
        let fair = of(&[(1500, 1, Op::Read, true), (1500, 1, Op::Write, true)]);
        let unfair = of(&[(2700, 1, Op::Read, true), (300, 1, Op::Write, true)]);
        assert!(fair.correlation(&unfair) > 0.8, "{}", fair.correlation(&unfair));
    }

    #[test]
    fn too_few_requests_have_no_distribution_and_each_window_starts_empty() {
        let mut mix = Mix::new();
        put(&mut mix, u64::from(FEWEST) - 1, 1, Op::Read, true);
        assert_eq!(mix.close(), None);
        put(&mut mix, u64::from(FEWEST), 1, Op::Write, true);
        let alone = of(&[(u64::from(FEWEST), 1, Op::Write, true)]);
        assert!(mix.close().unwrap().correlation(&alone) > 0.9);
    }
}
