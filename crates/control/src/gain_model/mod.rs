//! Expected gains of settings under a load, learned from random loads on random devices.
//!
//! A forest of regression trees (Breiman, "Random Forests", Machine Learning 45, 2001) shared by all settings: a leaf holds the mean and
//! the standard deviation of each setting's gain. The expected gain is the mean over the trees. Its error is derived from the variance of
//! the mixture of leaves, scaled to the error measured on held-out devices.
//!
//! Training needs the simulator (`seekwise-lab learn gains`); reading and evaluating a model does not.

mod stored;
mod summary;

use crate::ab_test::Estimate;
use crate::setting::Setting;
use observe::Preference;

pub use stored::{GainModelError, SCHEMA, Training, TrainingScore};
pub use summary::{LoadSummary, MIN_REQUESTS, names};

/// Unit of the gains in leaves: thousandths of log merit, far finer than their errors.
pub const UNITS: f64 = 1_000.0;

/// A model of gains. The default has no settings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GainModel {
    /// The preference of the merit.
    pub preference: Preference,
    /// The settings, as text; gains are relative to the first.
    pub settings: Vec<String>,
    /// The forest.
    pub trees: Vec<GainTree>,
    /// Squared error of an expected gain: the first value plus the second times the variance of the mixture of leaves.
    pub error: [f64; 2],
    /// Training data and accuracy.
    pub training: Training,
}

/// A tree. Branches lead to later nodes, or to leaves.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GainTree {
    /// The splits, the first one at the root; empty if the tree is a single leaf.
    pub nodes: Vec<GainNode>,
    /// Means of each leaf, in [`UNITS`], by setting.
    pub means: Vec<i16>,
    /// Standard deviations, in the same layout.
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
    /// The index of the leaf for a row.
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
    /// The index of a setting; `None` if it is not in the model.
    pub fn index_of(&self, setting: &Setting) -> Option<usize> {
        let text = setting.to_string();
        self.settings.iter().position(|known| *known == text)
    }

    /// The expected gain of each setting over the first, in log merit, for the load described by this row ([`LoadSummary::row`]).
    pub fn expect(&self, row: &[f64]) -> Vec<Estimate> {
        let moments = mixture(self.trees.iter(), self.settings.len(), row);
        moments.into_iter().map(|(mean, variance)| Estimate { mean, error: stated_error(self.error, variance) }).collect()
    }

    /// Whether the settings that it chose for held-out drives had a positive mean gain. Other models must not be used for decisions.
    pub fn is_trusted(&self) -> bool {
        self.training.scores.first().is_some_and(|score| score.chosen > 0.0)
    }
}

/// The error of a gain whose mixture of leaves has this variance, from [`GainModel::error`].
pub fn stated_error([least, share]: [f64; 2], variance: f64) -> f64 {
    (least + share * variance).sqrt()
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::*;

    /// One tree that splits the first feature, and one that is a leaf.
    fn model() -> GainModel {
        let node = GainNode { feature: 0, threshold: 0.5, branches: [!0, !1] };
        let split = GainTree { nodes: vec![node], means: vec![0, 100, 0, -300], deviations: vec![0, 20, 0, 50] };
        let leaf = GainTree { nodes: Vec::new(), means: vec![0, 0], deviations: vec![0, 100] };
        GainModel {
            settings: vec!["mq-deadline".into(), "bfq".into()],
            trees: vec![split, leaf],
            error: [1e-4, 1.5],
            ..GainModel::default()
        }
    }

    #[test]
    fn a_gain_is_the_mean_of_the_trees_and_its_error_has_what_they_differ_by() {
        let [of_default, low] = model().expect(&[0.5]).try_into().unwrap();
        assert_eq!((of_default.mean, of_default.error), (0.0, 0.01));
        assert!((low.mean - 0.05).abs() < 1e-9);
        // Variances within leaves are 0.0004 and 0.01; between them, 0.0025.
        assert!((low.error - (1e-4 + 1.5 * (0.0052 + 0.0025_f64)).sqrt()).abs() < 1e-9, "{low:?}");
        let missing = model().expect(&[f64::NAN])[1];
        assert!((missing.mean - -0.15).abs() < 1e-9, "a missing value is not at most the threshold");
        assert_eq!(GainModel::default().expect(&[0.5]), []);
    }

    #[test]
    fn a_model_is_asked_only_if_choosing_by_it_gained_on_drives_that_were_held_out() {
        let score = |chosen: f32| TrainingScore { chosen, ..TrainingScore::default() };
        let mut model = model();
        assert!(!model.is_trusted(), "nothing is known of it");
        model.training.scores = vec![score(-0.05), score(0.1)];
        assert!(!model.is_trusted());
        model.training.scores = vec![score(0.02), score(-0.1)];
        assert!(model.is_trusted());
    }

    #[test]
    fn a_model_round_trips_through_json() {
        let model = model();
        assert_eq!(GainModel::from_json(&model.to_json().unwrap(), "x").unwrap(), model);
    }

    #[test]
    fn a_model_whose_parts_do_not_fit_is_refused() {
        let message = |change: &dyn Fn(&mut GainModel)| {
            let mut model = model();
            change(&mut model);
            GainModel::from_json(&model.to_json().unwrap(), "x.json").unwrap_err().to_string()
        };
        assert_eq!(message(&|model| model.settings[1] = "bfg".into()), "x.json: 'bfg' is no setting");
        assert!(message(&|model| model.error[0] = -1.0).contains("error should be two numbers from 0"));
        assert!(message(&|model| model.trees[0].nodes[0].feature = 200).contains("tree 0: node 0 splits feature 200"));
        assert!(message(&|model| model.trees[0].nodes[0].branches[0] = 0).contains("leads to 0, which is no later node"));
        assert!(message(&|model| model.trees[1].means.clear()).contains("tree 1: 0 nodes need 1 leaves of 2 settings"));
        let other = model().to_json().unwrap().replace("read_share", "write_share");
        assert!(GainModel::from_json(&other, "x").unwrap_err().to_string().contains("train it again"));
        assert!(GainModel::from_json(&model().to_json().unwrap().replace("\"schema\":1", "\"schema\":9"), "x").is_err());
    }
}
