//! Grows a tree: repeatedly applies the split with the smallest remaining squared error.

use std::ops::ControlFlow;

use super::examples::{Examples, MOST_SCALES, SMALLEST};
use super::{IS_LEAF, MAX_DEPTH, Node, Tree, leaf, prune, stored};
use crate::grow::{self, Bins, Boundary, Criterion, Draft, Split};

/// Bins of a feature's values in large nodes; small ones consider every value.
const BINS: usize = 255;
/// Maximum number of rows for which every value is considered.
const EXACT_ROWS: usize = 400;
/// Minimum reduction of the squared error by a split, as a share of the node's.
const LEAST_GAIN: f64 = 1e-4;

/// Options for growing a tree.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Growth {
    /// Minimum rows on either side of a split.
    pub min_rows: usize,
    /// One in this many blocks of successive rows is held out for pruning; 0 disables pruning.
    pub held_out: usize,
    /// Rows per block: neighbouring rows are similar, and must not be in both sets.
    pub block: usize,
    /// A predetermined first split: feature and threshold. For two kinds of rows, so that neither affects the pruning of the
    /// other.
    pub first: Option<(usize, f64)>,
}

impl Default for Growth {
    fn default() -> Growth {
        Growth { min_rows: 8, held_out: 4, block: 1000, first: None }
    }
}

impl Growth {
    /// Grows a tree from these rows. `scales` are positive features to which predictions may be proportional.
    ///
    /// # Errors
    /// There are no rows, or the numbers of columns, names and rows disagree.
    pub fn grow(&self, examples: &Examples, features: &[&str], scales: &[usize]) -> Result<Tree, stored::TreeError> {
        stored::check_examples(examples, features, scales)?;
        let is_held_out = |row: u32| self.held_out > 0 && (row as usize / self.block.max(1)) % self.held_out == self.held_out - 1;
        let all: Vec<u32> = (0..examples.len() as u32).collect();
        let (mut held_out, mut grown): (Vec<u32>, Vec<u32>) = all.iter().partition(|&&row| is_held_out(row));
        if grown.is_empty() {
            std::mem::swap(&mut held_out, &mut grown);
        }
        let mut criterion = RelativeError {
            logarithms: logarithms(examples, scales),
            bins: examples.columns.iter().map(|column| Bins::new(column, BINS)).collect(),
            examples,
            min_rows: self.min_rows.max(1),
            gains: vec![0.0; features.len()],
        };
        let first = self.first.map(|(feature, threshold)| Split { feature, threshold });
        let mut draft = match first.filter(|&split| criterion.divide(&grown, split).iter().all(|rows| !rows.is_empty())) {
            Some(split) => grow::grow_by(&mut criterion, &grown, split, 0),
            None => grow::grow(&mut criterion, &grown, 0),
        };
        if !held_out.is_empty() {
            arrange(&draft, examples, &mut grown);
            prune::prune(&mut draft, examples, scales, &grown, &held_out);
        }
        let whole: f64 = criterion.gains.iter().sum();
        let influence = criterion.gains.iter().map(|gain| if whole > 0.0 { gain / whole } else { 0.0 }).collect();
        let mut tree = Tree {
            features: features.iter().map(|&name| name.to_owned()).collect(),
            scales: scales.to_vec(),
            nodes: Vec::new(),
            leaves: Vec::new(),
            influence,
        };
        let mut rows = all;
        lay_out(&mut tree, &draft, examples, &mut rows);
        Ok(tree)
    }
}

/// Sorts rows by the leaves of a tree, preserving the order within a leaf.
fn arrange(draft: &Draft, examples: &Examples, rows: &mut [u32]) {
    if let Draft::Split(split, branches) = draft {
        let at = examples.partition(rows, split.feature, split.threshold);
        let (below, above) = rows.split_at_mut(at);
        arrange(&branches[0], examples, below);
        arrange(&branches[1], examples, above);
    }
}

/// Writes a draft into the arrays of a tree; leaves are fitted to all rows, including held-out ones.
fn lay_out(tree: &mut Tree, draft: &Draft, examples: &Examples, rows: &mut [u32]) -> u32 {
    let Draft::Split(Split { feature, threshold }, branches) = draft else {
        let number = tree.leaves.len() as u32;
        tree.leaves.push(leaf::fit(examples, &tree.scales, rows));
        return number | IS_LEAF;
    };
    let number = tree.nodes.len();
    tree.nodes.push(Node { threshold: *threshold, feature: *feature as u32, branches: [0; 2] });
    let at = examples.partition(rows, *feature, *threshold);
    let (below, above) = rows.split_at_mut(at);
    let branches = [lay_out(tree, &branches[0], examples, below), lay_out(tree, &branches[1], examples, above)];
    tree.nodes[number].branches = branches;
    number as u32
}

/// For each row, the logarithm of the target, and of its ratio to each scale.
fn logarithms(examples: &Examples, scales: &[usize]) -> Vec<Vec<f64>> {
    let of_targets: Vec<f64> = examples.targets.iter().map(|target| target.ln()).collect();
    let by_scale = |&scale: &usize| {
        let values = examples.columns[scale].iter().zip(&of_targets);
        values.map(|(value, target)| target - if *value > SMALLEST { value.ln() } else { SMALLEST.ln() }).collect()
    };
    let scaled: Vec<Vec<f64>> = scales.iter().map(by_scale).collect();
    std::iter::once(of_targets).chain(scaled).collect()
}

/// Number of rows, and for each logarithm the sum and the sum of squares.
#[derive(Clone, Copy, Debug, Default)]
struct Moments {
    rows: f64,
    sums: [(f64, f64); MOST_SCALES + 1],
}

impl Moments {
    #[inline]
    fn add(&mut self, logarithms: &[Vec<f64>], row: usize) {
        self.rows += 1.0;
        for (sums, of_all) in self.sums.iter_mut().zip(logarithms) {
            let value = of_all[row];
            sums.0 += value;
            sums.1 += value * value;
        }
    }

    #[inline]
    fn join(&mut self, other: &Moments) {
        self.rows += other.rows;
        for (sums, others) in self.sums.iter_mut().zip(&other.sums) {
            sums.0 += others.0;
            sums.1 += others.1;
        }
    }

    fn less(&self, other: &Moments) -> Moments {
        let mut left = *self;
        left.rows -= other.rows;
        for (sums, others) in left.sums.iter_mut().zip(&other.sums) {
            sums.0 -= others.0;
            sums.1 -= others.1;
        }
        left
    }

    /// Squared error of the best prediction: a constant, or a factor to a scale.
    #[inline]
    fn squares(&self, answers: usize) -> f64 {
        let by_answer = self.sums[..answers].iter().map(|(sum, squares)| squares - sum * sum / self.rows);
        by_answer.fold(f64::INFINITY, f64::min).max(0.0)
    }
}

/// The squared error of logarithms, with leaves that may be factors to a scale.
struct RelativeError<'a> {
    examples: &'a Examples,
    logarithms: Vec<Vec<f64>>,
    bins: Vec<Bins>,
    min_rows: usize,
    /// The reduction of the squared error by splits, by feature.
    gains: Vec<f64>,
}

/// The rows of a node.
struct Whole {
    moments: Moments,
    squares: f64,
    is_large: bool,
}

/// A split and its reduction of the squared error.
struct Candidate {
    split: Split,
    gain: f64,
}

impl RelativeError<'_> {
    fn gain(&self, whole: &Whole, below: &Moments) -> Option<f64> {
        let above = whole.moments.less(below);
        let least = self.min_rows as f64;
        let answers = self.logarithms.len();
        let has_rows = below.rows >= least && above.rows >= least;
        has_rows.then(|| whole.squares - below.squares(answers) - above.squares(answers))
    }
}

impl Criterion for RelativeError<'_> {
    type Row = u32;
    type Node = Whole;
    type Sums = Moments;
    type Candidate = Candidate;

    // As in predictions.
    const MISSING_IS_LARGEST: bool = true;

    fn node(&mut self, rows: &[u32], depth: usize) -> Option<Whole> {
        if rows.len() < 2 * self.min_rows || depth >= MAX_DEPTH {
            return None;
        }
        let mut moments = Moments::default();
        rows.iter().for_each(|&row| moments.add(&self.logarithms, row as usize));
        Some(Whole { moments, squares: moments.squares(self.logarithms.len()), is_large: rows.len() > EXACT_ROWS })
    }

    fn features(&mut self) -> Vec<usize> {
        (0..self.examples.columns.len()).collect()
    }

    #[inline]
    fn value(&self, row: u32, feature: usize) -> f64 {
        self.examples.columns[feature][row as usize]
    }

    fn bins(&self, node: &Whole, feature: usize) -> Option<&Bins> {
        node.is_large.then(|| &self.bins[feature])
    }

    #[inline]
    fn index(&self, row: u32) -> usize {
        row as usize
    }

    fn begin(&self, _node: &Whole, _sorted: &[(f64, u32)]) -> Option<Moments> {
        Some(Moments::default())
    }

    #[inline]
    fn add(&self, sums: &mut Moments, row: u32) {
        sums.add(&self.logarithms, row as usize);
    }

    #[inline]
    fn join(&self, sums: &mut Moments, others: &Moments) {
        sums.join(others);
    }

    #[inline]
    fn judge(&self, node: &Whole, at: Boundary, below: &mut Moments, best: &mut Option<Candidate>) -> ControlFlow<()> {
        let is_better = |gain: &f64| best.as_ref().is_none_or(|best| *gain > best.gain);
        if let Some(gain) = self.gain(node, below).filter(is_better) {
            let threshold = at.above.map_or(at.below, |above| {
                let middle = at.below + (above - at.below) / 2.0;
                // The lower value is the threshold if the middle is not below the next, as for adjacent numbers or a missing value.
                if middle < above { middle } else { at.below }
            });
            *best = Some(Candidate { split: Split { feature: at.feature, threshold }, gain });
        }
        ControlFlow::Continue(())
    }

    fn choose(&mut self, node: &Whole, candidates: Vec<Candidate>) -> Option<Split> {
        let mut best: Option<Candidate> = None;
        for candidate in candidates {
            if best.as_ref().is_none_or(|best| candidate.gain > best.gain) {
                best = Some(candidate);
            }
        }
        let Candidate { split, gain } = best.filter(|best| best.gain > LEAST_GAIN * node.squares && node.squares > 1e-12)?;
        self.gains[split.feature] += gain;
        Some(split)
    }
}
