//! Phase 1 of the paper's first scheme ("Self-Learning Disk Scheduling", section 3.3.1): each candidate is active for a
//! quantum, in alphabetical order, and its performance is recorded.

use std::cmp::Ordering;

use control::setting::Setting;
use observe::window::WindowOutcome;

/// A round over candidates.
#[derive(Clone, Debug)]
pub struct Round {
    /// Candidates by index, in the order of their turns.
    order: Vec<usize>,
    /// Number of turns finished.
    had: usize,
    results: Vec<(usize, Achieved)>,
}

/// Performance of a candidate in its quantum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Achieved {
    /// [`WindowOutcome::score`](observe::WindowOutcome::score).
    pub score: f64,
    /// Bytes per second.
    pub throughput: f64,
    /// Mean time that a request was waited for, in seconds.
    pub waited_s: f64,
}

impl Achieved {
    /// The performance of a window with this score.
    pub fn of(outcome: &WindowOutcome, score: f64) -> Achieved {
        Achieved { score, throughput: outcome.throughput(), waited_s: outcome.waited_s }
    }

    /// Formats it: "9.6 MB/s at 20 ms".
    pub fn text(&self) -> String {
        format!("{:.1} MB/s at {:.1} ms", self.throughput / 1e6, self.waited_s * 1e3)
    }
}

impl Round {
    /// A round over the candidates for which `is_wanted` is true, sorted by name.
    pub fn new(candidates: &[Setting], is_wanted: impl Fn(usize) -> bool) -> Round {
        let mut order: Vec<usize> = (0..candidates.len()).filter(|&candidate| is_wanted(candidate)).collect();
        order.sort_by_cached_key(|&candidate| candidates[candidate].to_string());
        Round { order, had: 0, results: Vec::new() }
    }

    /// The candidate whose turn it is; `None` after the last.
    pub fn turn(&self) -> Option<usize> {
        self.order.get(self.had).copied()
    }

    /// The turn and the number of turns, from 1.
    pub fn place(&self) -> (usize, usize) {
        (self.had + 1, self.order.len())
    }

    /// Ends the turn; `None` if nothing was measured.
    pub fn end_turn(&mut self, measured: Option<Achieved>) {
        if let Some((turn, measured)) = self.turn().zip(measured) {
            self.results.push((turn, measured));
        }
        self.had += 1;
    }

    /// The measurements, in the order of the turns.
    pub fn results(&self) -> &[(usize, Achieved)] {
        &self.results
    }

    /// The best, the first of equals; `None` if nothing was measured.
    pub fn best(&self) -> Option<(usize, Achieved)> {
        let better = |best: (usize, Achieved), other: &(usize, Achieved)| {
            if other.1.score.total_cmp(&best.1.score) == Ordering::Greater { *other } else { best }
        };
        self.results.split_first().map(|(first, others)| others.iter().fold(*first, better))
    }
}
