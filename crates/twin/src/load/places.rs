//! Positions of a stream's requests: sequential runs, and their first sectors.

use std::collections::BTreeSet;

use block::{Op, Request, StreamId};

/// Maximum number of open runs of a stream: a process reads and writes a few files at the same time. Choice: each request searches all of
/// them; not varied.
const HEADS: usize = 16;
/// The run number of a flush.
pub(super) const NOWHERE: u32 = u32::MAX;
/// Minimum number of requests of a run that counts as spanning the recording: shorter ones may be a coincidence. Choice: three consecutive
/// random requests may adjoin by chance on a small device; not varied.
const LONG: u32 = 4;

/// The positions of a stream's requests.
#[derive(Clone, Debug)]
pub(super) struct Places {
    /// Run of each request, and its offset in sectors from the run's start.
    within: Vec<(u32, u64)>,
    runs: Vec<Run>,
    /// Starts of the runs that do not span the recording, ascending.
    starts: Vec<u64>,
    /// Starts that occur more than once.
    again: BTreeSet<u64>,
    /// Sectors between the first and the last start, if at least four in five starts are above their predecessor; otherwise `None`.
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
    /// Whether it spans the recording and so continues after it.
    goes_on: bool,
    /// Upper limit of the run: the lowest higher first sector of a stream, which belongs to another file.
    limit: u64,
}

impl Places {
    /// Finds the runs of a stream's requests. `begins`: the first sectors of all streams of the load, ascending.
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
                run.op == request.op && request.follows(run.end)
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

    /// The run of each request, and its offset in sectors from the run's start.
    pub fn within(&self) -> &[(u32, u64)] {
        &self.within
    }

    /// Whether a run spans the recording.
    pub fn goes_on(&self, run: u32) -> bool {
        self.runs[run as usize].goes_on
    }

    /// The same runs with their requests split or merged into these.
    pub fn asked_as(&self, within: Vec<(u32, u64)>) -> Places {
        Places { within, ..self.clone() }
    }

    /// The first sector of request `number` on the stream's `pass`th pass (from 0) through its requests, on a device of this capacity. A
    /// run that reaches another file or the end of the device wraps around.
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
        // A start drawn from the observed density: between one start and its k-th successor, with k the square root of their number
        // (Loftsgaarden and Quesenberry 1965). Direct neighbours would exaggerate the density where some are close by chance.
        let draw = mix(self.seed ^ mix(pass) ^ mix(number as u64).rotate_left(17));
        let apart = (self.starts.len() as f64).sqrt() as usize;
        let between = self.starts.len().saturating_sub(apart.max(1)) as u64;
        if between == 0 {
            return run.start + pass * (run.end - run.start);
        }
        let low = (draw % between) as usize;
        // Repeated starts are repeated again.
        if self.again.contains(&self.starts[low]) {
            return self.starts[low];
        }
        let (from, to) = (self.starts[low], self.starts[low + apart]);
        from + mix(draw) % (to - from).max(1) / 8 * 8
    }
}

/// A hash that does not map 0 to 0.
fn mix(number: u64) -> u64 {
    block::scramble::scramble(number.wrapping_add(0x9e37_79b9_7f4a_7c15))
}
