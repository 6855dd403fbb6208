//! The file format of a model; compact, because the file is shipped with the program.

use serde::{Deserialize, Serialize};

use super::{GainModel, GainNode, GainTree, names};
use crate::setting::Setting;
use observe::Preference;

/// Version of the file format.
pub const SCHEMA: u32 = 1;

/// The training data and the accuracy of a model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Training {
    /// The commands that reproduce it.
    pub commands: Vec<String>,
    /// Number of cases: loads, each on a separate device.
    pub cases: u32,
    /// Number of rows from these cases.
    pub rows: u32,
    /// Kinds of devices, with their numbers of cases.
    pub devices: Vec<(String, u32)>,
    /// Programs of loads, with their numbers of cases.
    pub programs: Vec<(String, u32)>,
    /// Mean gain of each setting, in log merit.
    pub mean_gains: Vec<f32>,
    /// Scores on held-out cases; the first is for held-out drives.
    pub scores: Vec<TrainingScore>,
}

/// Quality of the chosen settings on held-out cases: mean gains over the default, in log merit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainingScore {
    /// The property that was held out.
    pub held_out: String,
    /// Mean number of training cases.
    pub cases: u32,
    /// Gain of the settings chosen by the model.
    pub chosen: f32,
    /// Gain of the best settings in hindsight.
    pub best: f32,
    /// The best setting if one is used for all cases.
    pub constant: String,
    /// Gain of `constant`.
    pub constant_gain: f32,
    /// Root mean square error of expected gains.
    pub error: f32,
    /// Root mean square error if the mean gain of each setting is the expectation.
    pub error_of_mean: f32,
    /// Fraction of gains within the stated 90% interval.
    pub within_90: f32,
}

/// Why a file could not be read as a model.
#[derive(Debug, thiserror::Error)]
pub enum GainModelError {
    /// Not valid JSON of this form.
    #[error("{path}: {source}")]
    Json {
        /// The file.
        path: String,
        /// The error and its position.
        source: serde_json::Error,
    },
    /// Another version of the format.
    #[error("{path}: schema {found}; this program reads {SCHEMA}: train it again")]
    Schema {
        /// The file.
        path: String,
        /// Its version.
        found: u32,
    },
    /// The parts of the file are inconsistent.
    #[error("{path}: {reason}")]
    Misfit {
        /// The file.
        path: String,
        /// The inconsistency.
        reason: String,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    schema: u32,
    /// As text.
    preference: String,
    features: Vec<String>,
    settings: Vec<String>,
    error: [f64; 2],
    training: Training,
    trees: Vec<StoredTree>,
}

/// Columns rather than nodes, as they compress better.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredTree {
    features: Vec<u8>,
    thresholds: Vec<f32>,
    yes: Vec<i32>,
    no: Vec<i32>,
    means: Vec<i16>,
    deviations: Vec<u16>,
}

impl GainModel {
    /// Reads the output of [`GainModel::to_json`]; `path` is used in errors.
    ///
    /// # Errors
    /// The text is not a model, or is inconsistent.
    pub fn from_json(text: &str, path: &str) -> Result<GainModel, GainModelError> {
        let stored: Stored = serde_json::from_str(text).map_err(|source| GainModelError::Json { path: path.to_owned(), source })?;
        if stored.schema != SCHEMA {
            return Err(GainModelError::Schema { path: path.to_owned(), found: stored.schema });
        }
        let misfit = |reason: String| GainModelError::Misfit { path: path.to_owned(), reason };
        if stored.features != names() {
            return Err(misfit("it was trained on other features than this program computes: train it again".to_owned()));
        }
        let preference: Result<Preference, _> = stored.preference.parse();
        let preference = preference.map_err(|error| misfit(format!("preference '{}': {error}", stored.preference)))?;
        if let Some(setting) = stored.settings.iter().find(|text| Setting::parse(text).is_err()) {
            return Err(misfit(format!("'{setting}' is no setting")));
        }
        if stored.error.iter().any(|value| !value.is_finite() || *value < 0.0) {
            return Err(misfit("its error should be two numbers from 0".to_owned()));
        }
        let trees = stored.trees.into_iter().enumerate().map(|(number, tree)| {
            let tree = tree.unpacked();
            tree.and_then(|tree| tree.check(stored.features.len(), stored.settings.len()).map(|()| tree))
                .map_err(|reason| misfit(format!("tree {number}: {reason}")))
        });
        Ok(GainModel {
            trees: trees.collect::<Result<_, _>>()?,
            preference,
            settings: stored.settings,
            error: stored.error,
            training: stored.training,
        })
    }

    /// Serializes it as JSON.
    ///
    /// # Errors
    /// Never, for numbers and names.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        let trees = self.trees.iter().map(|tree| StoredTree {
            features: tree.nodes.iter().map(|node| node.feature).collect(),
            thresholds: tree.nodes.iter().map(|node| node.threshold).collect(),
            yes: tree.nodes.iter().map(|node| node.branches[0]).collect(),
            no: tree.nodes.iter().map(|node| node.branches[1]).collect(),
            means: tree.means.clone(),
            deviations: tree.deviations.clone(),
        });
        serde_json::to_string(&Stored {
            schema: SCHEMA,
            preference: self.preference.to_string(),
            features: names(),
            settings: self.settings.clone(),
            error: self.error,
            training: self.training.clone(),
            trees: trees.collect(),
        })
    }
}

impl StoredTree {
    fn unpacked(self) -> Result<GainTree, String> {
        let StoredTree { features, thresholds, yes, no, means, deviations } = self;
        let nodes = features.len();
        if [thresholds.len(), yes.len(), no.len()].iter().any(|length| *length != nodes) {
            return Err(format!("its columns differ in length from its {nodes} features"));
        }
        let branches = yes.into_iter().zip(no);
        let nodes = features.into_iter().zip(thresholds).zip(branches);
        let nodes = nodes.map(|((feature, threshold), (yes, no))| GainNode { feature, threshold, branches: [yes, no] });
        Ok(GainTree { nodes: nodes.collect(), means, deviations })
    }
}

impl GainTree {
    /// Checks everything that predictions rely on: branches lead to later nodes, so that paths end, or to existing leaves.
    fn check(&self, features: usize, settings: usize) -> Result<(), String> {
        let leaves = self.nodes.len() + 1;
        if self.means.len() != leaves * settings || self.deviations.len() != leaves * settings {
            return Err(format!("{} nodes need {leaves} leaves of {settings} settings", self.nodes.len()));
        }
        for (number, node) in self.nodes.iter().enumerate() {
            if usize::from(node.feature) >= features || node.threshold.is_nan() {
                return Err(format!("node {number} splits feature {} at {}", node.feature, node.threshold));
            }
            let is_there = |branch: i32| match branch {
                0.. => branch as usize > number && (branch as usize) < self.nodes.len(),
                _ => (!branch as usize) < leaves,
            };
            if let Some(branch) = node.branches.iter().find(|branch| !is_there(**branch)) {
                return Err(format!("node {number} leads to {branch}, which is no later node and no leaf"));
            }
        }
        Ok(())
    }
}
