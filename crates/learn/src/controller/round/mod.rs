//! Phase 1 of the paper's first scheme ("Self-Learning Disk Scheduling", section 3.3.1): every candidate is in force for a quantum, in
//! alphabetical order, and what it achieves is written down.

use std::cmp::Ordering;

use crate::setting::Setting;
use crate::window::WindowOutcome;

/// A round over candidates.
#[derive(Clone, Debug)]
pub struct Round {
    /// Candidates by number, in the order of their turns.
    order: Vec<usize>,
    /// How many have had theirs.
    had: usize,
    results: Vec<(usize, Achieved)>,
}

/// What a candidate achieved in its quantum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Achieved {
    /// [`WindowOutcome::score`](crate::WindowOutcome::score).
    pub score: f64,
    /// Bytes a second.
    pub throughput: f64,
    /// Seconds that a request was waited for.
    pub waited_s: f64,
}

impl Achieved {
    /// What a window achieved that has this score.
    pub fn of(outcome: &WindowOutcome, score: f64) -> Achieved {
        Achieved { score, throughput: outcome.throughput(), waited_s: outcome.waited_s }
    }

    /// For a person: "9.6 MB/s at 20 ms".
    pub fn text(&self) -> String {
        format!("{:.1} MB/s at {:.1} ms", self.throughput / 1e6, self.waited_s * 1e3)
    }
}

impl Round {
    /// Over those that `is_wanted`, by their texts.
    pub fn new(candidates: &[Setting], is_wanted: impl Fn(usize) -> bool) -> Round {
        let mut order: Vec<usize> = (0..candidates.len()).filter(|&candidate| is_wanted(candidate)).collect();
        order.sort_by_cached_key(|&candidate| candidates[candidate].to_string());
        Round { order, had: 0, results: Vec::new() }
    }

    /// Whose turn it is; `None` if all have had theirs.
    pub fn turn(&self) -> Option<usize> {
        self.order.get(self.had).copied()
    }

    /// Which turn of how many, from 1.
    pub fn place(&self) -> (usize, usize) {
        (self.had + 1, self.order.len())
    }

    /// Its turn is over; `None` if nothing can be said of it.
    pub fn end_turn(&mut self, measured: Option<Achieved>) {
        if let Some((turn, measured)) = self.turn().zip(measured) {
            self.results.push((turn, measured));
        }
        self.had += 1;
    }

    /// What was measured, in the order of the turns.
    pub fn results(&self) -> &[(usize, Achieved)] {
        &self.results
    }

    /// The best, of equals the first; `None` if nothing was measured.
    pub fn best(&self) -> Option<(usize, Achieved)> {
        let better = |best: (usize, Achieved), other: &(usize, Achieved)| {
            if other.1.score.total_cmp(&best.1.score) == Ordering::Greater { *other } else { best }
        };
        self.results.split_first().map(|(first, others)| others.iter().fold(*first, better))
    }
}
