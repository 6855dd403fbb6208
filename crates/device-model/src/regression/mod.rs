//! Regression trees for a target that is always above zero, such as a time.
//!
//! ```text
//! gap <= 64 ──yes── size <= 16 ──yes── 0.21 + 1.02 × transfer        a leaf: a line through one feature
//!     └───no─── 1.01 × positioning                   └──no── …
//! ```
//! Breiman, Friedman, Olshen and Stone, "Classification and Regression Trees" (1984): binary splits with the smallest squared error,
//! then pruning, here by held-out rows. It differs in the use of relative errors, and of sums:
//!
//! * the squared error is that of logarithms, so that a relative error of a tenth costs the same for any size;
//! * some features are *scales*, to which the target may be proportional, such as the time of a transfer. A leaf is then a factor to
//!   one of them or a line over it, and splits are judged by the error with such leaves. Constants would need a leaf for each step of a slope.
//!   (Lines in leaves are Quinlan's "Learning with continuous classes", 1992; here over one feature, so that people can read them.)
//! * a leaf preserves the sum of its rows: least squares of logarithms alone would underestimate by half their variance, and schedulers
//!   rely on sums over many requests.
//!
//! Training is deterministic: equal rows give equal trees.
//!
//! ```
//! use device_model::regression::{Examples, Growth};
//!
//! // The target is twice the size, above a threshold of another feature.
//! let mut examples = Examples::new(2);
//! for number in 0..1_000 {
//!     let (size, gap) = (f64::from(number % 10 + 1), f64::from(number % 7));
//!     examples.push(&[size, gap], if gap > 3.0 { 2.0 * size } else { size });
//! }
//! let tree = Growth::default().grow(&examples, &["size", "gap"], &[0])?;
//! assert!((tree.predict(&[5.0, 6.0]) - 10.0).abs() < 0.2);
//! assert!((tree.predict(&[5.0, 1.0]) - 5.0).abs() < 0.2);
//! # Ok::<(), device_model::regression::TreeError>(())
//! ```

mod examples;
mod grow;
mod leaf;
mod prune;
mod stored;
mod text;

use serde::{Deserialize, Serialize};

pub use examples::Examples;
pub use grow::Growth;
pub use stored::TreeError;

/// Maximum depth of trees that are grown or read: it bounds the number of steps of a prediction.
const MAX_DEPTH: usize = 64;

/// Flag in a branch that leads to a leaf.
const IS_LEAF: u32 = 1 << 31;

/// A tree. Nodes and leaves are in one array each, so that predictions touch few cache lines.
#[derive(Clone, Debug, PartialEq)]
pub struct Tree {
    features: Vec<String>,
    /// The scales, as indexes into `features`.
    scales: Vec<usize>,
    nodes: Vec<Node>,
    leaves: Vec<Leaf>,
    /// The share of each feature in the reduction of the squared error by splits.
    influence: Vec<f64>,
}

/// A split: whether a feature is at most the threshold. A missing value (NaN) is not.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Node {
    threshold: f64,
    feature: u32,
    /// The branches for yes and no: index of a node, or with [`IS_LEAF`] that of a leaf.
    branches: [u32; 2],
}

/// A leaf with its prediction.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Leaf {
    /// `base + slope × feature`, within `least` and `most`.
    base: f64,
    slope: f64,
    /// The feature of the line; unused if `slope` is 0.
    feature: u32,
    /// Number of its training rows.
    rows: u32,
    /// Bounds: the least and the largest target of its rows.
    least: f64,
    most: f64,
    /// The 10th, 50th and 90th percentiles of its rows' targets, as multiples of the prediction.
    quantiles: [f64; 3],
}

/// A prediction with its quantiles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The mean.
    pub mean: f64,
    /// The 10th percentile.
    pub p10: f64,
    /// The median.
    pub p50: f64,
    /// The 90th percentile.
    pub p90: f64,
}

impl Leaf {
    #[inline]
    fn answer(&self, row: &[f64]) -> f64 {
        let line = if self.slope == 0.0 { self.base } else { self.base + self.slope * value(row, self.feature) };
        // Not `clamp`: for a missing value the result must be the least, not NaN.
        line.max(self.least).min(self.most)
    }
}

#[inline]
fn value(row: &[f64], feature: u32) -> f64 {
    row.get(feature as usize).copied().unwrap_or(f64::NAN)
}

impl Tree {
    /// The features, in order.
    pub fn features(&self) -> &[String] {
        &self.features
    }

    /// Number of leaves.
    pub fn leaves(&self) -> usize {
        self.leaves.len()
    }

    /// Depth: the maximum number of splits of a prediction.
    pub fn depth(&self) -> usize {
        // Branches lead to later nodes, so one pass suffices.
        let mut depths = vec![0; self.nodes.len()];
        let mut deepest = 0;
        for (number, node) in self.nodes.iter().enumerate() {
            let below = depths[number] + 1;
            for branch in node.branches {
                match branch & IS_LEAF {
                    0 => depths[branch as usize] = below,
                    _ => deepest = deepest.max(below),
                }
            }
        }
        deepest
    }

    /// The share of each feature in the reduction of the squared error by splits, in order.
    pub fn influence(&self) -> &[f64] {
        &self.influence
    }

    #[inline]
    fn leaf(&self, row: &[f64]) -> &Leaf {
        let mut at = if self.nodes.is_empty() { IS_LEAF } else { 0 };
        while at & IS_LEAF == 0 {
            let node = &self.nodes[at as usize];
            let is_at_most = value(row, node.feature) <= node.threshold;
            at = node.branches[usize::from(!is_at_most)];
        }
        &self.leaves[(at & !IS_LEAF) as usize]
    }

    /// The expected target of a row. Missing values at its end count as NaN.
    #[inline]
    pub fn predict(&self, row: &[f64]) -> f64 {
        self.leaf(row).answer(row)
    }

    /// The same, with quantiles.
    pub fn predict_spread(&self, row: &[f64]) -> Spread {
        let leaf = self.leaf(row);
        let mean = leaf.answer(row);
        let [p10, p50, p90] = leaf.quantiles.map(|quantile| quantile * mean);
        Spread { mean, p10, p50, p90 }
    }
}
