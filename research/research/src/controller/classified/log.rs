//! Local measurements: the workloads so far, and the performance of the candidates that were active in each.

use std::collections::VecDeque;

use crate::controller::workload::Distribution;
use crate::model::Dataset;

/// Maximum number of workloads that are remembered, and of rows in each.
const SEGMENTS: usize = 64;
const ROWS: usize = 48;
/// Weight of a new window in a workload's distribution.
const SHARE: f64 = 0.3;

/// A stretch of one workload.
#[derive(Clone, Debug)]
pub struct Segment {
    number: u64,
    distribution: Option<Distribution>,
    rows: VecDeque<Vec<f64>>,
    /// Per arm: number of windows, and the sum of their scores.
    measured: Vec<(f64, f64)>,
    /// Whether a choice was reverted.
    pub is_corrected: bool,
}

impl Segment {
    fn new(number: u64, arms: usize) -> Segment {
        Segment { number, distribution: None, rows: VecDeque::new(), measured: vec![(0.0, 0.0); arms], is_corrected: false }
    }

    /// Correlation of a distribution with this workload's; `None` if unknown.
    pub fn correlation(&self, distribution: &Distribution) -> Option<f64> {
        self.distribution.map(|own| own.correlation(distribution))
    }

    /// Adds the distribution of a window.
    pub fn look(&mut self, distribution: Option<&Distribution>) {
        match (&mut self.distribution, distribution) {
            (Some(own), Some(other)) => own.approach(other, SHARE),
            (own @ None, Some(other)) => *own = Some(*other),
            (_, None) => {}
        }
    }

    /// Logs a window under an arm.
    pub fn add(&mut self, arm: usize, row: Vec<f64>, score: f64) {
        if self.rows.len() == ROWS {
            self.rows.pop_front();
        }
        self.rows.push_back(row);
        self.measured[arm].0 += 1.0;
        self.measured[arm].1 += score;
    }

    /// The mean score of an arm; `None` if it was never active.
    pub fn mean(&self, arm: usize) -> Option<f64> {
        let (windows, sum) = self.measured[arm];
        (windows > 0.0).then(|| sum / windows)
    }

    /// The best measured arm, if two or more were measured: a label needs a comparison.
    pub fn label(&self) -> Option<usize> {
        let known = || (0..self.measured.len()).filter_map(|arm| Some((arm, self.mean(arm)?)));
        (known().count() > 1).then(|| known().max_by(|a, b| a.1.total_cmp(&b.1)).map(|(arm, _)| arm))?
    }
}

/// The current workload, and earlier ones with measurements.
#[derive(Clone, Debug)]
pub struct Log {
    arms: usize,
    /// The current workload.
    pub segment: Segment,
    past: VecDeque<Segment>,
}

impl Log {
    /// Creates a log for this many arms.
    pub fn new(arms: usize) -> Log {
        Log { arms, segment: Segment::new(0, arms), past: VecDeque::new() }
    }

    /// Starts another workload.
    pub fn change(&mut self) {
        let next = Segment::new(self.segment.number + 1, self.arms);
        let ended = std::mem::replace(&mut self.segment, next);
        if ended.label().is_some() {
            if self.past.len() == SEGMENTS {
                self.past.pop_front();
            }
            self.past.push_back(ended);
        }
    }

    /// The label of the earlier workload most similar to this one, and whether it corrected an error, if similar enough.
    pub fn alike(&self, distribution: &Distribution, least_correlation: f64) -> Option<(usize, bool)> {
        let like = |segment: &Segment| Some((segment.correlation(distribution)?, segment.label()?, segment.is_corrected));
        let likest = self.past.iter().filter_map(like).max_by(|a, b| a.0.total_cmp(&b.0))?;
        (likest.0 >= least_correlation).then_some((likest.1, likest.2))
    }

    /// Adds all rows with a known label; returns their number.
    pub fn teach(&self, lessons: &mut Dataset) -> usize {
        let before = lessons.rows.len();
        let first_group = lessons.groups.iter().max().map_or(0, |last| last + 1);
        for segment in self.past.iter().chain([&self.segment]) {
            let Some(label) = segment.label() else { continue };
            for row in &segment.rows {
                lessons.rows.push(row.clone());
                lessons.labels.push(label);
                lessons.groups.push(first_group + segment.number);
                // Local measurements have full weight: that of a case in which the wrong choice loses everything.
                lessons.weights.push(1.0);
            }
        }
        lessons.rows.len() - before
    }
}
