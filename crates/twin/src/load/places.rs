//! Where a stream's requests lie: sequential runs, and their first sectors.

use std::collections::BTreeSet;

use block::{Op, Request, SEQUENTIAL_GAP, StreamId};

/// Runs of a stream that a request may continue: a process reads and writes a few files at the same time.
const HEADS: usize = 16;
/// The run of a flush.
pub(super) const NOWHERE: u32 = u32::MAX;
/// A run of this number of requests is no coincidence.
const LONG: u32 = 4;

/// The places of a stream's requests.
#[derive(Clone, Debug)]
pub(super) struct Places {
    /// By request: its run, and the sectors from the run's begin.
    within: Vec<(u32, u64)>,
    runs: Vec<Run>,
    /// Where runs begin that do not go on, ascending.
    starts: Vec<u64>,
    /// Those of them that occur more than once.
    again: BTreeSet<u64>,
    /// Sectors between the first and the last of these, if they follow one another upwards.
    drift: Option<u64>,
    seed: u64,
}

#[derive(Clone, Copy, Debug)]
struct Run {
    start: u64,
    end: u64,
    op: Op,
    requests: u32,
    first: usize,
    last: usize,
    /// It spans the recording, so it goes on after it.
    goes_on: bool,
    /// Where the next stream's first sector is, which belongs to another file.
    limit: u64,
}

impl Places {
    /// The places of a stream's requests. `begins`: the first sectors of all streams of the load, ascending.
    pub fn new<'a>(requests: impl Iterator<Item = &'a Request>, stream: StreamId, begins: &[u64]) -> Places {
        let mut runs: Vec<Run> = Vec::new();
        let mut heads: Vec<usize> = Vec::new();
        let mut within = Vec::new();
        for (number, request) in requests.enumerate() {
            if request.sectors == 0 {
                within.push((NOWHERE, 0));
                continue;
            }
            let continues = |&run: &usize| {
                let run: &Run = &runs[run];
                run.op == request.op && request.lba >= run.end && request.lba - run.end <= SEQUENTIAL_GAP
            };
            let head = heads.iter().rposition(continues);
            let run = match head {
                Some(head) => heads.remove(head),
                None => {
                    runs.push(Run {
                        start: request.lba,
                        end: request.lba,
                        op: request.op,
                        requests: 0,
                        first: number,
                        last: number,
                        goes_on: false,
                        limit: u64::MAX,
                    });
                    runs.len() - 1
                }
            };
            heads.push(run);
            if heads.len() > HEADS {
                heads.remove(0);
            }
            within.push((run as u32, request.lba - runs[run].start));
            let run = &mut runs[run];
            (run.end, run.last) = (request.end(), number);
            run.requests += 1;
        }
        let count = within.len();
        for run in &mut runs {
            run.limit = begins.get(begins.partition_point(|&begin| begin < run.end)).copied().unwrap_or(u64::MAX);
            run.goes_on = run.requests >= LONG && run.first <= count / 4 && run.last >= count - 1 - count / 4;
        }
        let starts: Vec<u64> = runs.iter().filter(|run| !run.goes_on).map(|run| run.start).collect();
        let upwards = starts.windows(2).filter(|pair| pair[1] > pair[0]).count();
        let drift = match (starts.first(), starts.last()) {
            (Some(first), Some(last)) if starts.len() > 2 && last > first && upwards * 5 >= (starts.len() - 1) * 4 => {
                Some(last - first)
            }
            _ => None,
        };
        let mut starts = starts;
        starts.sort_unstable();
        let again = starts.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
        Places { within, runs, starts, again, drift, seed: u64::from(stream) }
    }

    /// The runs of the requests, and the sectors from their begins.
    pub fn within(&self) -> &[(u32, u64)] {
        &self.within
    }

    /// Whether a run spans the recording.
    pub fn goes_on(&self, run: u32) -> bool {
        self.runs[run as usize].goes_on
    }

    /// The same runs, split into other requests.
    pub fn asked_as(&self, within: Vec<(u32, u64)>) -> Places {
        Places { within, ..self.clone() }
    }

    /// The first sector of request `number` when the stream goes through its requests for the `pass`th time, from 0, on a device of
    /// this capacity. A run that comes to another file or to the device's end begins again.
    pub fn lba(&self, number: usize, sectors: u32, pass: u64, capacity_sectors: u64) -> u64 {
        let (run, offset) = self.within[number];
        if run == NOWHERE {
            return 0;
        }
        let lba = self.begin(run as usize, pass) + offset;
        let run = &self.runs[run as usize];
        let limit = if run.goes_on { run.limit.min(capacity_sectors) } else { capacity_sectors };
        let last = limit.saturating_sub(u64::from(sectors));
        if lba <= last {
            return lba;
        }
        let start = run.start.min(last);
        start + (lba - start) % (last - start).max(1) / 8 * 8
    }

    fn begin(&self, number: usize, pass: u64) -> u64 {
        let run = &self.runs[number];
        if pass == 0 {
            return run.start;
        }
        if run.goes_on {
            return run.start + pass * (run.end - run.start);
        }
        if let Some(drift) = self.drift {
            return run.start + pass * drift;
        }
        // Somewhere where it was seen, as dense as it was: from one place to the k-th from there, with k the square root of their
        // number (Loftsgaarden and Quesenberry 1965). Neighbours alone would be denser here and there than they are: by chance some
        // are close.
        let draw = mix(self.seed ^ mix(pass) ^ mix(number as u64).rotate_left(17));
        let apart = (self.starts.len() as f64).sqrt() as usize;
        let between = self.starts.len().saturating_sub(apart.max(1)) as u64;
        if between == 0 {
            return run.start + pass * (run.end - run.start);
        }
        let low = (draw % between) as usize;
        // What was asked for again will be.
        if self.again.contains(&self.starts[low]) {
            return self.starts[low];
        }
        let (from, to) = (self.starts[low], self.starts[low + apart]);
        from + mix(draw) % (to - from).max(1) / 8 * 8
    }
}

/// A number without a rhythm of its own; 0 gives none either.
fn mix(number: u64) -> u64 {
    block::scramble::scramble(number.wrapping_add(0x9e37_79b9_7f4a_7c15))
}
