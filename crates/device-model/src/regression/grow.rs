//! Grows a tree: repeatedly applies the split with the smallest remaining squared error.

use super::prune::{self, Draft};
use super::{IS_LEAF, Leaf, MAX_DEPTH, Node, Tree, leaf, stored};

/// Bins of a feature's values in large nodes; small ones consider every value.
const BINS: usize = 255;
/// Maximum number of rows for which every value is considered.
const EXACT_ROWS: usize = 400;
/// Minimum target, so that its logarithm is finite.
const SMALLEST: f64 = 1e-9;
/// Minimum reduction of the squared error by a split, as a share of the node's.
const LEAST_GAIN: f64 = 1e-4;

/// Training rows, by column.
#[derive(Clone, Debug, Default)]
pub struct Examples {
    /// The values of all rows, by feature; NaN if missing.
    pub columns: Vec<Vec<f64>>,
    /// The target; above zero.
    pub targets: Vec<f64>,
}

impl Examples {
    /// An empty set with this number of features.
    pub fn new(features: usize) -> Examples {
        Examples { columns: vec![Vec::new(); features], targets: Vec::new() }
    }

    /// Adds a row. A target that is not above zero counts as 1e-9.
    pub fn push(&mut self, row: &[f64], target: f64) {
        for (column, &value) in self.columns.iter_mut().zip(row) {
            column.push(value);
        }
        self.targets.push(if target > SMALLEST { target } else { SMALLEST });
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.targets.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.targets.is_empty()
    }

    /// The prediction of a leaf for a row.
    pub(super) fn answer(&self, leaf: &Leaf, row: u32) -> f64 {
        let x = if leaf.slope == 0.0 { 0.0 } else { self.columns[leaf.feature as usize][row as usize] };
        (leaf.base + leaf.slope * x).max(leaf.least).min(leaf.most)
    }
}

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
        let mut grower = Grower {
            logarithms: logarithms(examples, scales),
            bins: examples.columns.iter().map(|column| Bins::new(column)).collect(),
            examples,
            min_rows: self.min_rows.max(1),
            gains: vec![0.0; features.len()],
        };
        let mut draft = match self.first {
            Some((feature, threshold)) => grower.split_by(&mut grown, feature, threshold, 0),
            None => grower.split(&mut grown, 0),
        };
        if !held_out.is_empty() {
            prune::prune(&mut draft, examples, scales, &grown, &held_out);
        }
        let whole: f64 = grower.gains.iter().sum();
        let influence = grower.gains.iter().map(|gain| if whole > 0.0 { gain / whole } else { 0.0 }).collect();
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

/// Writes a draft into the arrays of a tree; leaves are fitted to all rows, including held-out ones.
fn lay_out(tree: &mut Tree, draft: &Draft, examples: &Examples, rows: &mut [u32]) -> u32 {
    let Draft::Split { feature, threshold, branches } = draft else {
        let number = tree.leaves.len() as u32;
        tree.leaves.push(leaf::fit(examples, &tree.scales, rows));
        return number | IS_LEAF;
    };
    let number = tree.nodes.len();
    tree.nodes.push(Node { threshold: *threshold, feature: *feature as u32, branches: [0; 2] });
    let at = partition(rows, &examples.columns[*feature], *threshold);
    let (below, above) = rows.split_at_mut(at);
    let branches = [lay_out(tree, &branches[0], examples, below), lay_out(tree, &branches[1], examples, above)];
    tree.nodes[number].branches = branches;
    number as u32
}

/// Moves rows up to the threshold to the front, preserving the order, and returns their number.
pub(super) fn partition(rows: &mut [u32], column: &[f64], threshold: f64) -> usize {
    let (below, above): (Vec<u32>, Vec<u32>) = rows.iter().partition(|&&row| column[row as usize] <= threshold);
    rows[..below.len()].copy_from_slice(&below);
    rows[below.len()..].copy_from_slice(&above);
    below.len()
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

/// A feature's values in bins with about equal numbers of rows.
struct Bins {
    /// The upper bound of each bin except the last.
    edges: Vec<f64>,
    of_row: Vec<u8>,
}

impl Bins {
    fn new(column: &[f64]) -> Bins {
        let mut sorted: Vec<f64> = column.iter().copied().filter(|value| !value.is_nan()).collect();
        sorted.sort_by(f64::total_cmp);
        let mut edges: Vec<f64> = (1..BINS).filter_map(|bin| sorted.get(bin * sorted.len() / BINS).copied()).collect();
        edges.dedup();
        // Values above the last edge and missing values are in the last bin.
        let of_row = column.iter().map(|value| edges.partition_point(|edge| value.is_nan() || value > edge) as u8).collect();
        Bins { edges, of_row }
    }
}

/// A split and its reduction of the squared error.
#[derive(Clone, Copy, Debug)]
struct Split {
    feature: usize,
    threshold: f64,
    gain: f64,
}

/// Number of rows, and for each logarithm the sum and the sum of squares.
#[derive(Clone, Copy, Debug, Default)]
struct Moments {
    rows: f64,
    sums: [(f64, f64); MOST_SCALES + 1],
}

/// Maximum number of scales.
pub(super) const MOST_SCALES: usize = 6;

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

struct Grower<'a> {
    examples: &'a Examples,
    logarithms: Vec<Vec<f64>>,
    bins: Vec<Bins>,
    min_rows: usize,
    gains: Vec<f64>,
}

impl Grower<'_> {
    fn split(&mut self, rows: &mut [u32], depth: usize) -> Draft {
        if rows.len() < 2 * self.min_rows || depth >= MAX_DEPTH {
            return Draft::Leaf;
        }
        let mut whole = Moments::default();
        rows.iter().for_each(|&row| whole.add(&self.logarithms, row as usize));
        let squares = whole.squares(self.logarithms.len());
        let Some(split) = self.best(rows, &whole, squares).filter(|split| split.gain > LEAST_GAIN * squares && squares > 1e-12)
        else {
            return Draft::Leaf;
        };
        self.gains[split.feature] += split.gain;
        self.split_by(rows, split.feature, split.threshold, depth)
    }

    fn split_by(&mut self, rows: &mut [u32], feature: usize, threshold: f64, depth: usize) -> Draft {
        let at = partition(rows, &self.examples.columns[feature], threshold);
        if at == 0 || at == rows.len() {
            return self.split(rows, depth);
        }
        let (below, above) = rows.split_at_mut(at);
        let branches = Box::new([self.split(below, depth + 1), self.split(above, depth + 1)]);
        Draft::Split { feature, threshold, branches }
    }

    fn best(&self, rows: &[u32], whole: &Moments, squares: f64) -> Option<Split> {
        let mut best: Option<Split> = None;
        for feature in 0..self.examples.columns.len() {
            let found = match rows.len() <= EXACT_ROWS {
                true => self.best_by_value(feature, rows, whole, squares),
                false => self.best_by_bin(feature, rows, whole, squares),
            };
            if let Some(found) = found.filter(|found| best.is_none_or(|best| found.gain > best.gain)) {
                best = Some(found);
            }
        }
        best
    }

    fn gain(&self, whole: &Moments, below: &Moments, squares: f64) -> Option<f64> {
        let above = whole.less(below);
        let least = self.min_rows as f64;
        let answers = self.logarithms.len();
        (below.rows >= least && above.rows >= least).then(|| squares - below.squares(answers) - above.squares(answers))
    }

    fn best_by_bin(&self, feature: usize, rows: &[u32], whole: &Moments, squares: f64) -> Option<Split> {
        let Bins { edges, of_row } = &self.bins[feature];
        let mut by_bin = [Moments::default(); BINS + 1];
        for &row in rows {
            by_bin[usize::from(of_row[row as usize])].add(&self.logarithms, row as usize);
        }
        let mut below = Moments::default();
        let mut best: Option<Split> = None;
        for (bin, &threshold) in edges.iter().enumerate() {
            if by_bin[bin].rows == 0.0 {
                continue;
            }
            below.join(&by_bin[bin]);
            if let Some(gain) = self.gain(whole, &below, squares).filter(|gain| best.is_none_or(|best| *gain > best.gain)) {
                best = Some(Split { feature, threshold, gain });
            }
        }
        best
    }

    fn best_by_value(&self, feature: usize, rows: &[u32], whole: &Moments, squares: f64) -> Option<Split> {
        let column = &self.examples.columns[feature];
        let mut sorted: Vec<(f64, u32)> = rows.iter().map(|&row| (column[row as usize], row)).collect();
        // Missing values last, as in predictions; equal values in the order of their rows, so that sums are deterministic.
        sorted.sort_unstable_by(|a, b| a.0.is_nan().cmp(&b.0.is_nan()).then(a.0.total_cmp(&b.0)).then(a.1.cmp(&b.1)));
        let mut below = Moments::default();
        let mut best: Option<Split> = None;
        for pair in sorted.windows(2) {
            let [(value, row), (next, _)] = pair else { continue };
            below.add(&self.logarithms, *row as usize);
            if value == next || value.is_nan() {
                continue;
            }
            if let Some(gain) = self.gain(whole, &below, squares).filter(|gain| best.is_none_or(|best| *gain > best.gain)) {
                let middle = value + (next - value) / 2.0;
                // The lower value is the threshold if the middle is not below the next, as for adjacent numbers or a missing value.
                let threshold = if middle < *next { middle } else { *value };
                best = Some(Split { feature, threshold, gain });
            }
        }
        best
    }
}
