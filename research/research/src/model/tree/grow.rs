//! Grows a tree: chooses the next split.

use super::super::Examples;
use super::statistics::entropy;
use super::{MAX_DEPTH, Node, Split};

/// Training rows, each with the fraction that reaches this node.
pub type Weighted = Vec<(usize, f64)>;

/// Values that differ by less than this fraction count as equal. (Weka uses 0.00001 for every unit.)
const DISTINCT: f64 = 1e-9;

/// A gain this much below the average is still average (Weka's margin for rounding).
const MARGIN: f64 = 1e-3;

/// Grows a tree without pruning it.
pub struct Grower<'a> {
    examples: &'a Examples,
    min_rows: f64,
    /// Every known value of each feature, ascending.
    sorted: Vec<Vec<f64>>,
}

struct Candidate {
    feature: usize,
    threshold: f64,
    /// Information gain in bits per row, after the penalty.
    gain: f64,
    ratio: f64,
}

impl<'a> Grower<'a> {
    pub fn new(examples: &'a Examples, min_rows: f64) -> Grower<'a> {
        let sorted = (0..examples.features()).map(|feature| {
            let mut values: Vec<f64> = examples.rows.iter().map(|row| row[feature]).filter(|value| !value.is_nan()).collect();
            values.sort_by(f64::total_cmp);
            values
        });
        Grower { examples, min_rows, sorted: sorted.collect() }
    }

    pub fn grow(&self, rows: &[(usize, f64)], depth: usize) -> Node {
        let counts = counts(self.examples, rows);
        match if depth < MAX_DEPTH { self.best_question(rows, &counts) } else { None } {
            None => Node::leaf(counts),
            Some(candidate) => {
                let mut question = Split {
                    feature: candidate.feature,
                    threshold: candidate.threshold,
                    share: share(self.examples, rows, candidate.feature, candidate.threshold),
                    branches: [Node::leaf(Vec::new()), Node::leaf(Vec::new())],
                };
                let [first, second] = split(self.examples, rows, &question);
                question.branches = [self.grow(&first, depth + 1), self.grow(&second, depth + 1)];
                Node { counts, question: Some(Box::new(question)) }
            }
        }
    }

    /// The split with the best gain ratio among those of at least average gain, as the ratio alone would favour unbalanced splits.
    fn best_question(&self, rows: &[(usize, f64)], counts: &[f64]) -> Option<Candidate> {
        let total: f64 = counts.iter().sum();
        let purest = counts.iter().copied().fold(0.0, f64::max);
        if total < 2.0 * self.min_rows || total - purest <= 1e-9 {
            return None;
        }
        let candidates: Vec<Candidate> =
            (0..self.examples.features()).filter_map(|feature| self.best_threshold(rows, total, feature)).collect();
        let average = candidates.iter().map(|candidate| candidate.gain).sum::<f64>() / candidates.len() as f64;
        let mut best: Option<Candidate> = None;
        for candidate in candidates {
            let is_better = candidate.ratio > best.as_ref().map_or(0.0, |best| best.ratio);
            if candidate.gain >= average - MARGIN && is_better {
                best = Some(candidate);
            }
        }
        best
    }

    /// The threshold of a feature with the largest gain. The gain is reduced by log2(thresholds tried)/rows, as more of them find more by
    /// chance (release 8's minimum description length).
    fn best_threshold(&self, rows: &[(usize, f64)], total: f64, feature: usize) -> Option<Candidate> {
        let mut known: Vec<(f64, usize, f64)> = rows
            .iter()
            .map(|&(row, weight)| (self.examples.rows[row][feature], self.examples.labels[row], weight))
            .filter(|(value, ..)| !value.is_nan())
            .collect();
        known.sort_by(|a, b| a.0.total_cmp(&b.0));
        let known_weight: f64 = known.iter().map(|(.., weight)| weight).sum();
        let least = (0.1 * known_weight / self.examples.classes as f64).min(25.0).max(self.min_rows);
        if known_weight < 2.0 * least {
            return None;
        }
        let mut left = vec![0.0; self.examples.classes];
        let mut right = vec![0.0; self.examples.classes];
        known.iter().for_each(|&(_, label, weight)| right[label] += weight);
        let before = entropy(&right);
        let (mut left_weight, mut tried, mut best) = (0.0, 0u32, None::<(f64, usize, f64)>);
        for next in 1..known.len() {
            let (value, label, weight) = known[next - 1];
            left[label] += weight;
            right[label] -= weight;
            left_weight += weight;
            if known[next].0 - value <= DISTINCT * value.abs() || left_weight < least - 1e-9 {
                continue;
            }
            if known_weight - left_weight < least - 1e-9 {
                break;
            }
            tried += 1;
            // Rows without a value gain nothing: (1 - unknown) (before - after) / known = (before - after) / total.
            let gain = (before - entropy(&left) - entropy(&right)) / total;
            if best.is_none_or(|(most, ..)| gain > most + 1e-6) {
                best = Some((gain, next, left_weight));
            }
        }
        let (gain, next, left_weight) = best?;
        let gain = gain - f64::from(tried).log2() / total;
        if gain <= 0.0 {
            return None;
        }
        let information = entropy(&[left_weight, known_weight - left_weight, total - known_weight]) / total;
        let threshold = self.value_at_most(feature, known[next - 1].0, known[next].0);
        Some(Candidate { feature, threshold, gain, ratio: if information > 0.0 { gain / information } else { 0.0 } })
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
