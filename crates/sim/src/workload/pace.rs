//! The time at which a job may issue its next I/O: rate limits (fio's HOWTO, "I/O rate").

use block::Nanos;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::options::{DIRECTIONS, Options};

/// Rate limits of a job, one for each direction.
///
/// A limit is averaged since the start: after n bytes the next I/O is due n / rate after the start, so a delayed job catches up, as
/// in fio.
pub(super) struct Rate {
    limits: [Option<Limit>; DIRECTIONS],
    /// Start of the job, shifted by excluded think time.
    epoch: Nanos,
    ignores_think: bool,
    random: Xoshiro256PlusPlus,
}

#[derive(Clone, Copy, Debug)]
struct Limit {
    bytes_per_second: u64,
    /// Mean interval between I/Os in nanoseconds, for a Poisson process; otherwise `None`.
    mean: Option<f64>,
    issued: u64,
    /// Due time of the next I/O, since the start.
    due: Nanos,
}

impl Rate {
    pub(super) fn new(options: &Options, epoch: Nanos, seed: u64) -> Rate {
        let limit = |direction: usize| {
            let block = u64::from(options.blocks.bounds(direction).0);
            // HOWTO: for a range of block sizes, the smallest counts.
            let bytes_per_second = options.rate.bytes_per_second(direction, block);
            let mean = options.rate.poisson.then(|| 1e9 * block as f64 / bytes_per_second as f64);
            (bytes_per_second > 0).then_some(Limit { bytes_per_second, mean, issued: 0, due: Nanos::ZERO })
        };
        let ignores_think = options.rate.ignore_think;
        Rate {
            limits: std::array::from_fn(limit),
            epoch,
            ignores_think,
            random: Xoshiro256PlusPlus::seed_from_u64(seed ^ 0x70_15_50),
        }
    }

    /// Due time of the next I/O in `direction`; zero if there is no limit.
    pub(super) fn due(&self, direction: usize) -> Nanos {
        self.limits[direction].map_or(Nanos::ZERO, |limit| self.epoch + limit.due)
    }

    /// The direction to issue at `now` if `drawn` was drawn: the other one if `drawn` is not due yet and the other one is due
    /// earlier.
    pub(super) fn choose(&self, drawn: usize, now: Nanos) -> usize {
        let other = 1 - drawn;
        if self.due(drawn) <= now || self.due(drawn) <= self.due(other) { drawn } else { other }
    }

    /// Accounts for an issued I/O.
    pub(super) fn issued(&mut self, direction: usize, bytes: u32) {
        let Some(limit) = &mut self.limits[direction] else { return };
        limit.issued = limit.issued.saturating_add(u64::from(bytes));
        limit.due = match limit.mean {
            None => Nanos((u128::from(limit.issued) * 1_000_000_000 / u128::from(limit.bytes_per_second)) as u64),
            Some(mean) => limit.due + Nanos((-(1.0 - self.random.random::<f64>()).ln() * mean) as u64),
        };
    }

    /// Accounts for think time: with `rate_ignore_thinktime` it is excluded, so that nothing is due for it.
    pub(super) fn paused(&mut self, span: Nanos) {
        if self.ignores_think {
            self.epoch += span;
        }
    }
}

/// Minimum rates of a job, which fails if it is slower: `rate_min`, `rate_iops_min` (fio's `__check_min_rate` in backend.c).
#[derive(Clone, Copy, Debug)]
pub(super) struct Floor {
    bytes: [u64; DIRECTIONS],
    ios: [u64; DIRECTIONS],
    cycle: Nanos,
    /// Start of the first check interval.
    from: Nanos,
    /// Time and progress at the last check of each direction; `None` before it.
    last: [Option<(Nanos, Done)>; DIRECTIONS],
}

/// Progress in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Done {
    pub(super) ios: u64,
    pub(super) bytes: u64,
}

/// Time after the start of a job without checks, as in fio.
const SETTLING: Nanos = Nanos::from_millis(2000);

impl Floor {
    /// The minimum rates of a job that starts at `now`; `None` if it has none.
    pub(super) fn new(options: &Options, now: Nanos) -> Option<Floor> {
        let (bytes, ios) = (options.rate.min_bytes, options.rate.min_ios);
        let from = now + SETTLING.max(options.length.ramp);
        let floor = Floor { bytes, ios, cycle: options.rate.cycle, from, last: [None; DIRECTIONS] };
        bytes.iter().chain(&ios).any(|least| *least > 0).then_some(floor)
    }

    /// Whether any direction was too slow since its last check. Each is checked once per `rate_cycle`.
    pub(super) fn is_missed(&mut self, now: Nanos, done: &[Done; DIRECTIONS]) -> bool {
        if now < self.from {
            return false;
        }
        let mut missed = false;
        for (direction, done) in done.iter().enumerate().filter(|(_, done)| done.ios > 0) {
            if let Some((at, before)) = self.last[direction] {
                let spent = now - at;
                if spent < self.cycle {
                    continue;
                }
                let per_second = |count: u64| (u128::from(count) * 1_000_000_000 / u128::from(spent.0)) as u64;
                missed |= per_second(done.bytes - before.bytes) < self.bytes[direction]
                    || per_second(done.ios - before.ios) < self.ios[direction];
            }
            self.last[direction] = Some((now, *done));
        }
        missed
    }
}
