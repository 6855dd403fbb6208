//! Grows a tree: the criterion of its splits.

use std::ops::ControlFlow;

use device_model::grow::{self, Boundary, Criterion, Draft};

use super::super::Examples;
use super::leaf_error::entropy;
use super::{MAX_DEPTH, Node, Split};

/// Training rows, each with the fraction that reaches this node.
pub type Weighted = Vec<(usize, f64)>;

/// Values that differ by less than this fraction count as equal. (Weka uses 0.00001, whatever the feature's unit.)
const DISTINCT: f64 = 1e-9;

/// A gain this much below the average is still average (Weka's margin for rounding).
const MARGIN: f64 = 1e-3;

/// Grows a tree without pruning it.
pub fn grow(examples: &Examples, min_rows: f64, rows: &[(usize, f64)]) -> Node {
    let draft = grow::grow(&mut GainRatio::new(examples, min_rows), rows, 0);
    lay_out(examples, &draft, rows)
}

/// The node of a draft, with the weights of the rows that reach it.
fn lay_out(examples: &Examples, draft: &Draft, rows: &[(usize, f64)]) -> Node {
    let counts = counts(examples, rows);
    let Draft::Split(asked, branches) = draft else { return Node::leaf(counts) };
    let question = question(examples, rows, *asked);
    let [first, second] = split(examples, rows, &question);
    let branches = [lay_out(examples, &branches[0], &first), lay_out(examples, &branches[1], &second)];
    Node { counts, question: Some(Box::new(Split { branches, ..question })) }
}

/// A split of these rows, without its subtrees.
fn question(examples: &Examples, rows: &[(usize, f64)], grow::Split { feature, threshold }: grow::Split) -> Split {
    let share = share(examples, rows, feature, threshold);
    Split { feature, threshold, share, branches: [Node::leaf(Vec::new()), Node::leaf(Vec::new())] }
}

/// Quinlan's gain ratio.
struct GainRatio<'a> {
    examples: &'a Examples,
    min_rows: f64,
    /// Every known value of each feature, ascending.
    sorted: Vec<Vec<f64>>,
}

/// Weights of the rows with a value on both sides of a threshold, by class.
#[derive(Clone)]
struct Sides {
    left: Vec<f64>,
    right: Vec<f64>,
    left_weight: f64,
    known_weight: f64,
    /// Minimum weight on either side.
    least: f64,
    /// Entropy of all of them.
    before: f64,
    /// Number of thresholds judged.
    tried: u32,
}

struct Candidate {
    feature: usize,
    /// The values around the threshold.
    around: (f64, f64),
    left_weight: f64,
    /// Information gain in bits per row; after [`complete`](Criterion::complete) less the penalty.
    gain: f64,
    ratio: f64,
}

impl<'a> GainRatio<'a> {
    fn new(examples: &'a Examples, min_rows: f64) -> GainRatio<'a> {
        let sorted = (0..examples.features()).map(|feature| {
            let mut values: Vec<f64> = examples.rows.iter().map(|row| row[feature]).filter(|value| !value.is_nan()).collect();
            values.sort_by(f64::total_cmp);
            values
        });
        GainRatio { examples, min_rows, sorted: sorted.collect() }
    }

    /// The largest training value not above the middle of two: an actual value is more readable as a threshold.
    fn value_at_most(&self, feature: usize, below: f64, above: f64) -> f64 {
        // Halved before the addition, as the sum of two huge values could overflow.
        let middle = 0.5 * below + 0.5 * above;
        let values = &self.sorted[feature];
        let found = values.partition_point(|value| *value <= middle);
        found.checked_sub(1).map_or(below, |index| values[index].max(below))
    }
}

impl Criterion for GainRatio<'_> {
    /// A row, and the fraction of it that reaches the node.
    type Row = (usize, f64);
    /// Weight of the rows.
    type Node = f64;
    type Sums = Sides;
    type Candidate = Candidate;

    const MISSING_IS_LARGEST: bool = false;

    fn node(&mut self, rows: &[(usize, f64)], depth: usize) -> Option<f64> {
        if depth >= MAX_DEPTH {
            return None;
        }
        let counts = counts(self.examples, rows);
        let total: f64 = counts.iter().sum();
        let purest = counts.iter().copied().fold(0.0, f64::max);
        (total >= 2.0 * self.min_rows && total - purest > 1e-9).then_some(total)
    }

    fn features(&mut self) -> Vec<usize> {
        (0..self.examples.features()).collect()
    }

    fn value(&self, (row, _): (usize, f64), feature: usize) -> f64 {
        self.examples.rows[row][feature]
    }

    fn begin(&self, _total: &f64, sorted: &[(f64, (usize, f64))]) -> Option<Sides> {
        let known_weight: f64 = sorted.iter().map(|(_, (_, weight))| weight).sum();
        let least = (0.1 * known_weight / self.examples.classes as f64).min(25.0).max(self.min_rows);
        if known_weight < 2.0 * least {
            return None;
        }
        let left = vec![0.0; self.examples.classes];
        let mut right = left.clone();
        sorted.iter().for_each(|&(_, (row, weight))| right[self.examples.labels[row]] += weight);
        let before = entropy(&right);
        Some(Sides { left, right, left_weight: 0.0, known_weight, least, before, tried: 0 })
    }

    fn add(&self, sides: &mut Sides, (row, weight): (usize, f64)) {
        let label = self.examples.labels[row];
        sides.left[label] += weight;
        sides.right[label] -= weight;
        sides.left_weight += weight;
    }

    fn differ(&self, below: f64, above: f64) -> bool {
        above - below > DISTINCT * below.abs()
    }

    fn judge(&self, total: &f64, at: Boundary, sides: &mut Sides, best: &mut Option<Candidate>) -> ControlFlow<()> {
        if sides.left_weight < sides.least - 1e-9 {
            return ControlFlow::Continue(());
        }
        if sides.known_weight - sides.left_weight < sides.least - 1e-9 {
            return ControlFlow::Break(());
        }
        sides.tried += 1;
        // Rows without a value gain nothing: (1 - unknown) (before - after) / known = (before - after) / total.
        let gain = (sides.before - entropy(&sides.left) - entropy(&sides.right)) / total;
        if best.as_ref().is_none_or(|best| gain > best.gain + 1e-6) {
            let around = (at.below, at.above.unwrap_or(at.below));
            *best = Some(Candidate { feature: at.feature, around, left_weight: sides.left_weight, gain, ratio: 0.0 });
        }
        ControlFlow::Continue(())
    }

    /// Reduces the gain by log2(thresholds tried)/rows, as more of them find more by chance (release 8's minimum description length).
    fn complete(&self, total: &f64, sides: &Sides, found: Candidate) -> Option<Candidate> {
        let gain = found.gain - f64::from(sides.tried).log2() / total;
        if gain <= 0.0 {
            return None;
        }
        let (left, known) = (found.left_weight, sides.known_weight);
        let information = entropy(&[left, known - left, total - known]) / total;
        Some(Candidate { gain, ratio: if information > 0.0 { gain / information } else { 0.0 }, ..found })
    }

    /// The split with the best gain ratio among those of at least average gain, as the ratio alone would favour unbalanced splits.
    fn choose(&mut self, _total: &f64, candidates: Vec<Candidate>) -> Option<grow::Split> {
        let average = candidates.iter().map(|candidate| candidate.gain).sum::<f64>() / candidates.len() as f64;
        let mut best: Option<Candidate> = None;
        for candidate in candidates {
            let is_better = candidate.ratio > best.as_ref().map_or(0.0, |best| best.ratio);
            if candidate.gain >= average - MARGIN && is_better {
                best = Some(candidate);
            }
        }
        let Candidate { feature, around: (below, above), .. } = best?;
        Some(grow::Split { feature, threshold: self.value_at_most(feature, below, above) })
    }

    fn divide(&self, rows: &[(usize, f64)], asked: grow::Split) -> [Weighted; 2] {
        split(self.examples, rows, &question(self.examples, rows, asked))
    }
}

/// Weight of each class among these rows.
pub fn counts(examples: &Examples, rows: &[(usize, f64)]) -> Vec<f64> {
    let mut counts = vec![0.0; examples.classes];
    rows.iter().for_each(|&(row, weight)| counts[examples.labels[row]] += weight);
    counts
}

/// The share of the first branch among rows with a value; a half without any.
pub fn share(examples: &Examples, rows: &[(usize, f64)], feature: usize, threshold: f64) -> f64 {
    let (mut first, mut all) = (0.0, 0.0);
    for &(row, weight) in rows {
        let value = examples.rows[row][feature];
        if !value.is_nan() {
            all += weight;
            first += if value <= threshold { weight } else { 0.0 };
        }
    }
    if all > 0.0 { first / all } else { 0.5 }
}

/// Distributes rows, or fractions of them, to the branches.
pub fn split(examples: &Examples, rows: &[(usize, f64)], question: &Split) -> [Weighted; 2] {
    let mut branches = [Vec::new(), Vec::new()];
    for &(row, weight) in rows {
        for (branch, share) in branches.iter_mut().zip(question.shares(examples.rows[row][question.feature])) {
            if share > 0.0 {
                branch.push((row, weight * share));
            }
        }
    }
    branches
}
