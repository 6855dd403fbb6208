//! Think times of streams, and how long to wait for their next request.

use block::Nanos;

use super::mean::LATEST;

/// Bins of think times: below 32 microseconds, which is less than any device takes, below 64, and so on; the last bin is everything
/// longer than 16 milliseconds, which is more than switching to another stream and back takes.
const STEPS: usize = 11;
const FIRST_STEP_NS: u64 = 32_000;

/// Share of long think times above which a stream mostly thinks for long. At a half, writes of a real trace wait 7% longer.
const MOSTLY: f64 = 0.6;

/// Distribution of a stream's think times, weighted towards the latest.
#[derive(Clone, Copy, Default)]
pub(super) struct Thinking {
    steps: [f64; STEPS],
    seen: f64,
}

impl Thinking {
    pub fn add(&mut self, thought: Nanos) {
        let step = (thought.0 / FIRST_STEP_NS).checked_ilog2().map_or(0, |octave| octave as usize + 1).min(STEPS - 1);
        self.seen += LATEST * (1.0 - self.seen);
        for (number, share) in self.steps.iter_mut().enumerate() {
            *share += LATEST * (f64::from(u8::from(number == step)) - *share);
        }
    }

    /// Whether it mostly thinks for longer than waiting is worthwhile.
    pub fn is_long(&self) -> bool {
        self.steps[STEPS - 1] > MOSTLY
    }

    /// Time to wait in nanoseconds if the next request saves `saved_ns`; zero not to wait. The distribution over all streams
    /// counts as one sample.
    pub fn wait_ns(&self, of_all: &Thinking, saved_ns: f64) -> f64 {
        let share = |step: usize| {
            let of_all = if of_all.seen > 0.0 { of_all.steps[step] / of_all.seen } else { 0.0 };
            (self.steps[step] + LATEST * of_all) / (self.seen + LATEST)
        };
        let (mut best, mut best_gain) = (0.0, 0.0);
        let (mut comes, mut thinks, mut longest) = (0.0, 0.0, FIRST_STEP_NS as f64);
        for step in 0..STEPS - 1 {
            let share = share(step);
            comes += share;
            // Assume the middle of the bin.
            thinks += share * 0.75 * longest;
            let gain = comes * saved_ns - thinks - (1.0 - comes) * longest;
            if gain > best_gain {
                (best, best_gain) = (longest, gain);
            }
            longest *= 2.0;
        }
        best
    }
}
