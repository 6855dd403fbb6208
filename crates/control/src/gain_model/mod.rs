//! What each setting is expected to gain under a load, learned from drawn loads on drawn devices.
//!
//! A forest of regression trees (Breiman, "Random Forests", Machine Learning 45, 2001) that all settings share: a leaf holds the mean and
//! the standard deviation of the gain of each setting. The mean over the trees is the expectation. The error comes from the variance of
//! the mixture of leaves, scaled so that it is the error that was measured on devices that were not trained on.
//!
//! Training needs the simulator (`seekwise-lab learn gains`); a model is read and asked without.

mod stored;
mod summary;

use crate::ab_test::Estimate;
use crate::setting::Setting;
use observe::Preference;

pub use stored::{GainModelError, SCHEMA, Training, TrainingScore};
pub use summary::{LoadSummary, MIN_REQUESTS, names};

/// Leaves hold gains in thousandths of log merit: far finer than their errors.
pub const UNITS: f64 = 1_000.0;

/// A model of gains. The default knows no setting.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GainModel {
    /// The preference whose merit the gains are of.
    pub preference: Preference,
    /// The settings, as text; the first is the one that gains are over.
    pub settings: Vec<String>,
    /// The forest.
    pub trees: Vec<GainTree>,
    /// Squared error of an expected gain: the first, plus the second times the variance of the mixture of leaves.
    pub error: [f64; 2],
    /// What it was trained on, and how far it carries.
    pub training: Training,
}

/// A tree. Branches lead to later nodes, or to leaves.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GainTree {
    /// The splits, the first one at the root; empty if the tree is a single leaf.
    pub nodes: Vec<GainNode>,
    /// Means of each leaf, in [`UNITS`], by setting.
    pub means: Vec<i16>,
    /// Standard deviations, in the same way.
    pub deviations: Vec<u16>,
}

/// A split: whether a feature is at most the threshold. A missing value (NaN) is not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GainNode {
    /// The feature, as an index into [`names`].
    pub feature: u8,
    /// The threshold.
    pub threshold: f32,
    /// The branches for yes and no: a node's index, or the complement (`!`) of a leaf's.
    pub branches: [i32; 2],
}

impl GainTree {
    /// The index of the leaf of a row.
    pub fn leaf(&self, row: &[f64]) -> usize {
        let mut at = if self.nodes.is_empty() { !0 } else { 0 };
        while at >= 0 {
            let node = &self.nodes[at as usize];
            let is_at_most = row.get(usize::from(node.feature)).is_some_and(|value| *value <= f64::from(node.threshold));
            at = node.branches[usize::from(!is_at_most)];
        }
        !at as usize
    }
}

impl GainModel {
    /// The index of a setting; `None` if the model does not know it.
    pub fn index_of(&self, setting: &Setting) -> Option<usize> {
        let text = setting.to_string();
        self.settings.iter().position(|known| *known == text)
    }

    /// The expected gain of each setting over the first, in log merit, for a load that is described by this row
    /// ([`LoadSummary::row`]).
    pub fn expect(&self, row: &[f64]) -> Vec<Estimate> {
        let moments = mixture(self.trees.iter(), self.settings.len(), row);
        moments.into_iter().map(|(mean, variance)| Estimate { mean, error: self.error_of(variance) }).collect()
    }

    /// The error of a gain whose mixture of leaves has this variance.
    pub fn error_of(&self, variance: f64) -> f64 {
        let [least, share] = self.error;
        (least + share * variance).sqrt()
    }
}

/// The mean and the variance of each setting's gain over the leaves of these trees; empty without trees.
pub fn mixture<'a>(trees: impl Iterator<Item = &'a GainTree>, settings: usize, row: &[f64]) -> Vec<(f64, f64)> {
    let mut count = 0.0;
    let mut sums = vec![(0.0, 0.0); settings];
    for tree in trees {
        count += 1.0;
        let first = tree.leaf(row) * settings;
        let of_leaf = tree.means[first..].iter().zip(&tree.deviations[first..]);
        for ((sum, squares), (mean, deviation)) in sums.iter_mut().zip(of_leaf) {
            let (mean, deviation) = (f64::from(*mean) / UNITS, f64::from(*deviation) / UNITS);
            *sum += mean;
            *squares += mean * mean + deviation * deviation;
        }
    }
    if count == 0.0 {
        return Vec::new();
    }
    sums.into_iter().map(|(sum, squares)| (sum / count, (squares / count - (sum / count).powi(2)).max(0.0))).collect()
}
