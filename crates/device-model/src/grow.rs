//! Growing of binary trees whose splits compare a feature with a threshold.
//!
//! ```text
//! rows ──node──▶ its features ──▶ each: rows by value, or by bin ──judge──▶ candidates ──choose──▶ split ──divide──▶ two nodes
//!       └▶ leaf                                                                          └▶ leaf
//! ```
//! [`grow`] walks through nodes, features and thresholds in a fixed order; a [`Criterion`] says which rows reach a node, when a node
//! stays a leaf, and how good a split is. Equal rows, criteria and random numbers give equal trees.
//!
//! Used by the [regression trees](crate::regression) of this crate, and by the decision trees and forests of research.

use std::ops::ControlFlow;

/// A criterion for splits.
pub trait Criterion {
    /// A training row, or a part of one.
    type Row: Copy;
    /// Statistics of a node's rows, the same for all features.
    type Node;
    /// Statistics of the rows up to a threshold, and any others that are needed to judge it.
    type Sums: Clone;
    /// A possible split.
    type Candidate;

    /// Whether rows without a value (NaN) follow those with a value, so that a threshold may lie before them. Otherwise thresholds are
    /// sought among rows with a value only.
    const MISSING_IS_LARGEST: bool;

    /// Statistics of a node; `None` if it stays a leaf.
    fn node(&mut self, rows: &[Self::Row], depth: usize) -> Option<Self::Node>;

    /// The features to be tried at a node, in this order.
    fn features(&mut self) -> Vec<usize>;

    /// The value of a row's feature; NaN if it has none.
    fn value(&self, row: Self::Row, feature: usize) -> f64;

    /// The bins of a feature whose edges are the thresholds to be tried, and the bin of each row; `None`: a threshold between any two
    /// successive values is tried.
    fn bins(&self, _node: &Self::Node, _feature: usize) -> Option<&Bins> {
        None
    }

    /// The index of a row in the [bins](Bins).
    fn index(&self, _row: Self::Row) -> usize {
        0
    }

    /// Sums without any rows below the threshold. `sorted` has the rows of the node in ascending order of their values; it is empty if
    /// the feature has bins. `None` if the feature cannot split the node.
    fn begin(&self, node: &Self::Node, sorted: &[(f64, Self::Row)]) -> Option<Self::Sums>;

    /// Adds a row below the threshold.
    fn add(&self, sums: &mut Self::Sums, row: Self::Row);

    /// Adds the rows of another sum. Called for features with bins only.
    fn join(&self, _sums: &mut Self::Sums, _others: &Self::Sums) {}

    /// Whether a threshold may lie between two successive values.
    fn differ(&self, below: f64, above: f64) -> bool {
        below != above
    }

    /// Judges a boundary; replaces `best` if a split there is better. `Break` ends the search in this feature.
    fn judge(&self, node: &Self::Node, at: Boundary, below: &mut Self::Sums, best: &mut Option<Self::Candidate>)
    -> ControlFlow<()>;

    /// Completes the best candidate of a feature, after all of its boundaries were judged. `None` drops it.
    fn complete(&self, _node: &Self::Node, _sums: &Self::Sums, candidate: Self::Candidate) -> Option<Self::Candidate> {
        Some(candidate)
    }

    /// Chooses one of the candidates, which are in the order of the features; `None` if the node stays a leaf.
    fn choose(&mut self, node: &Self::Node, candidates: Vec<Self::Candidate>) -> Option<Split>;

    /// Distributes a node's rows to the branches of a split, in their order.
    fn divide(&self, rows: &[Self::Row], split: Split) -> [Vec<Self::Row>; 2] {
        let (below, above) = rows.iter().partition(|row| self.value(**row, split.feature) <= split.threshold);
        [below, above]
    }
}

/// A place for a threshold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Boundary {
    /// The feature.
    pub feature: usize,
    /// The largest value below, or the edge of a bin.
    pub below: f64,
    /// The smallest value above, NaN if the rows there have none; `None` at the edge of a bin.
    pub above: Option<f64>,
}

/// A split: rows whose value is at most the threshold go to the first branch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Split {
    /// The feature.
    pub feature: usize,
    /// The threshold.
    pub threshold: f64,
}

/// A tree without statistics.
#[derive(Clone, Debug, PartialEq)]
pub enum Draft {
    /// A leaf.
    Leaf,
    /// A split, and the branches of rows up to the threshold and of all others.
    Split(Split, Box<[Draft; 2]>),
}

/// A feature's values in bins with about equal numbers of rows.
#[derive(Clone, Debug)]
pub struct Bins {
    /// The upper bound of each bin except the last, which also has the rows without a value.
    edges: Vec<f64>,
    of_row: Vec<u8>,
}

impl Bins {
    /// Divides a column into at most `bins` bins, up to 256.
    pub fn new(column: &[f64], bins: usize) -> Bins {
        let bins = bins.min(256);
        let mut sorted: Vec<f64> = column.iter().copied().filter(|value| !value.is_nan()).collect();
        sorted.sort_by(f64::total_cmp);
        let mut edges: Vec<f64> = (1..bins).filter_map(|bin| sorted.get(bin * sorted.len() / bins).copied()).collect();
        edges.dedup();
        let of_row = column.iter().map(|value| edges.partition_point(|edge| value.is_nan() || value > edge) as u8).collect();
        Bins { edges, of_row }
    }
}

/// Grows a tree from these rows, whose root is at `depth`.
pub fn grow<C: Criterion>(criterion: &mut C, rows: &[C::Row], depth: usize) -> Draft {
    let Some(node) = criterion.node(rows, depth) else { return Draft::Leaf };
    let features = criterion.features();
    let candidates = features.into_iter().filter_map(|feature| best_of(criterion, &node, rows, feature)).collect();
    let Some(split) = criterion.choose(&node, candidates) else { return Draft::Leaf };
    grow_by(criterion, rows, split, depth)
}

/// Grows a tree whose root has this split.
pub fn grow_by<C: Criterion>(criterion: &mut C, rows: &[C::Row], split: Split, depth: usize) -> Draft {
    let [below, above] = criterion.divide(rows, split);
    Draft::Split(split, Box::new([grow(criterion, &below, depth + 1), grow(criterion, &above, depth + 1)]))
}

/// The best split of a node by one feature.
fn best_of<C: Criterion>(criterion: &C, node: &C::Node, rows: &[C::Row], feature: usize) -> Option<C::Candidate> {
    let mut best = None;
    let sums = match criterion.bins(node, feature) {
        Some(bins) => by_bin(criterion, node, (rows, feature), bins, &mut best)?,
        None => by_value(criterion, node, (rows, feature), &mut best)?,
    };
    criterion.complete(node, &sums, best?)
}

fn by_bin<C: Criterion>(
    criterion: &C,
    node: &C::Node,
    (rows, feature): (&[C::Row], usize),
    bins: &Bins,
    best: &mut Option<C::Candidate>,
) -> Option<C::Sums> {
    let mut below = criterion.begin(node, &[])?;
    let mut by_bin = vec![(0_u32, below.clone()); bins.edges.len() + 1];
    for &row in rows {
        let (count, sums) = &mut by_bin[usize::from(bins.of_row[criterion.index(row)])];
        *count += 1;
        criterion.add(sums, row);
    }
    // The same threshold at the edge of an empty bin has been judged.
    for (&edge, (_, sums)) in bins.edges.iter().zip(&by_bin).filter(|(_, (count, _))| *count > 0) {
        criterion.join(&mut below, sums);
        let at = Boundary { feature, below: edge, above: None };
        if criterion.judge(node, at, &mut below, best).is_break() {
            break;
        }
    }
    Some(below)
}

fn by_value<C: Criterion>(
    criterion: &C,
    node: &C::Node,
    (rows, feature): (&[C::Row], usize),
    best: &mut Option<C::Candidate>,
) -> Option<C::Sums> {
    let values = rows.iter().map(|&row| (criterion.value(row, feature), row));
    let mut sorted: Vec<(f64, C::Row)> = values.filter(|(value, _)| C::MISSING_IS_LARGEST || !value.is_nan()).collect();
    // Equal values stay in the order of their rows, so that sums are deterministic.
    sorted.sort_by(|a, b| a.0.is_nan().cmp(&b.0.is_nan()).then(a.0.total_cmp(&b.0)));
    let mut below = criterion.begin(node, &sorted)?;
    for pair in sorted.windows(2) {
        let [(value, row), (next, _)] = *pair else { continue };
        criterion.add(&mut below, row);
        if value.is_nan() || !criterion.differ(value, next) {
            continue;
        }
        let at = Boundary { feature, below: value, above: Some(next) };
        if criterion.judge(node, at, &mut below, best).is_break() {
            break;
        }
    }
    Some(below)
}
