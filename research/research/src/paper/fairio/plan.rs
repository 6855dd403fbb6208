//! Extent of the experiments, full or quick.

use block::Nanos;

use super::drawn;
use crate::stage::Actor;

/// Extent of the experiments.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Whether to run a quarter of the benchmarks' time and fewer repetitions.
    pub is_quick: bool,
    /// Seed of all random numbers.
    pub seed: u64,
}

impl Plan {
    /// Time at which traces are truncated.
    pub fn longest_trace(&self) -> Nanos {
        if self.is_quick { Nanos::from_millis(20_000) } else { Nanos::MAX }
    }

    /// Number of random workloads.
    pub fn drawn(&self) -> u32 {
        if self.is_quick { 5 } else { 20 }
    }

    /// The classes of a random workload.
    pub fn classes(&self, number: u32) -> Vec<Actor> {
        drawn::draw(self.seed, number)
    }

    /// Repetitions of an illustration at each cycle length.
    pub fn repetitions(&self) -> u32 {
        if self.is_quick { 2 } else { 5 }
    }

    /// A job file, with a quarter of its run time in a quick run.
    pub fn shortened(&self, text: &str) -> String {
        let line = |line: &str| match line.split_once('=') {
            Some(("runtime", value)) if self.is_quick => match value.parse::<u64>() {
                Ok(seconds) => format!("runtime={}ms\n", 250 * seconds),
                Err(_) => format!("{line}\n"),
            },
            _ => format!("{line}\n"),
        };
        text.lines().map(line).collect()
    }
}
