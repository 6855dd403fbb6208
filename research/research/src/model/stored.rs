//! A trained model, and its file.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::class::decide;
use super::{Buffers, Classifier, Learner, ModelError, Names, Preparation, Scaler, learner};

/// The format and version of a model's file; the number increases when its meaning changes.
const SCHEMA: &str = "seekwise-model 1";

/// A trained model, which predicts the class of a row.
#[derive(Debug)]
pub struct Model {
    pub(super) learner: &'static dyn Learner,
    pub(super) parameters: BTreeMap<String, f64>,
    pub(super) features: Vec<String>,
    pub(super) classes: Vec<String>,
    pub(super) scaler: Option<Scaler>,
    pub(super) temperature: f64,
    pub(super) training: Training,
    pub(super) classifier: Box<dyn Classifier>,
}

/// Facts about a model's training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Training {
    /// Number of training rows.
    pub rows: usize,
    /// Number of training rows by class.
    pub class_rows: Vec<usize>,
    /// Whether every class had the same total weight.
    pub balanced: bool,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Number of folds in cross-validation; 0 if nothing could be held out.
    pub folds: usize,
    /// Number of combinations of hyper-parameters tried.
    pub combinations: usize,
    /// Accuracy on held-out rows with the best combination; `None` if nothing could be held out.
    pub cross_validated_accuracy: Option<f64>,
    /// Accuracy on (a sample of) the training rows.
    pub training_accuracy: f64,
    /// Loss of accuracy when a feature's values are shuffled among the rows, by feature.
    pub influence: Vec<f64>,
}

/// A model's prediction for a row.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// The most probable class, as an index into [`Model::classes`].
    pub class: usize,
    /// Its probability.
    pub confidence: f64,
    /// The probability of each class.
    pub probabilities: Vec<f64>,
}

/// Reusable buffers for predictions.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    row: Vec<f64>,
    buffers: Buffers,
    probabilities: Vec<f64>,
}

impl Scratch {
    /// The probability of each class in the last prediction.
    pub fn probabilities(&self) -> &[f64] {
        &self.probabilities
    }
}

/// The file format of a model.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    schema: String,
    learner: String,
    parameters: BTreeMap<String, f64>,
    features: Vec<String>,
    classes: Vec<String>,
    training: Training,
    scaler: Option<Scaler>,
    temperature: f64,
    body: serde_json::Value,
}

impl Model {
    /// Its learner.
    pub fn learner(&self) -> &'static dyn Learner {
        self.learner
    }

    /// Its hyper-parameters by name.
    pub fn parameters(&self) -> &BTreeMap<String, f64> {
        &self.parameters
    }

    /// Names of its features, in the order of a row.
    pub fn features(&self) -> &[String] {
        &self.features
    }

    /// Names of its classes.
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// Facts about its training.
    pub fn training(&self) -> &Training {
        &self.training
    }

    /// The scaler of its features; `None` if they are not scaled.
    pub fn scaler(&self) -> Option<&Scaler> {
        self.scaler.as_ref()
    }

    /// The temperature: scores are divided by it before the softmax, which calibrates the confidences.
    pub fn temperature(&self) -> f64 {
        self.temperature
    }

    pub(super) fn classifier(&self) -> &dyn Classifier {
        &*self.classifier
    }

    pub(super) fn names(&self) -> Names<'_> {
        Names::new(&self.features, &self.classes, self.scaler.as_ref())
    }

    /// Checks that rows with these features fit the model: the same names in the same order.
    ///
    /// # Errors
    /// [`ModelError::Features`] with the first difference.
    pub fn check_features<S: AsRef<str>>(&self, features: &[S]) -> Result<(), ModelError> {
        let wrong = |message: String| Err(ModelError::Features(message));
        for (number, name) in self.features.iter().enumerate() {
            match features.get(number).map(AsRef::as_ref) {
                Some(given) if given == name => {}
                Some(given) => return wrong(format!("feature {} is '{given}'; it should be '{name}'", number + 1)),
                None => return wrong(format!("there are only {number}; feature {} should be '{name}'", number + 1)),
            }
        }
        match features.get(self.features.len()) {
            Some(given) => wrong(format!("there is one too many, '{}'; there should be {}", given.as_ref(), self.features.len())),
            None => Ok(()),
        }
    }

    /// Predicts the class of a row with the features that [`check_features`](Model::check_features) checks; NaN means missing. Missing
    /// values at the end of a short row count as NaN, additional values are ignored.
    pub fn predict(&self, values: &[f64]) -> Prediction {
        let mut scratch = Scratch::default();
        let (class, confidence) = self.predict_with(values, &mut scratch);
        Prediction { class, confidence, probabilities: scratch.probabilities }
    }

    /// Class and probability as in [`predict`](Model::predict), without allocation once `scratch` has been used.
    pub fn predict_with(&self, values: &[f64], scratch: &mut Scratch) -> (usize, f64) {
        let Scratch { row, buffers, probabilities } = scratch;
        let filled = self.learner.preparation() == Preparation::ScaledAndFilled;
        let row: &[f64] = match &self.scaler {
            Some(scaler) => {
                scaler.apply(values, filled, row);
                row
            }
            None => values,
        };
        probabilities.resize(self.classes.len(), 0.0);
        self.classifier.scores(row, buffers, probabilities);
        let class = decide(probabilities, self.temperature);
        (class, probabilities[class])
    }

    /// The model as JSON. The same model gives the same bytes.
    ///
    /// # Errors
    /// A number is not finite, which is a defect of the learner.
    pub fn to_json(&self) -> Result<String, ModelError> {
        let stored = Stored {
            schema: SCHEMA.to_owned(),
            learner: self.learner.name().to_owned(),
            parameters: self.parameters.clone(),
            features: self.features.clone(),
            classes: self.classes.clone(),
            training: self.training.clone(),
            scaler: self.scaler.clone(),
            temperature: self.temperature,
            body: self.classifier.body(),
        };
        let text = serde_json::to_string(&stored).map_err(|error| ModelError::File(error.to_string()))?;
        Ok(text + "\n")
    }

    /// Parses and validates the output of [`to_json`](Model::to_json).
    ///
    /// # Errors
    /// The text is not a model, of another version, or damaged.
    pub fn from_json(text: &str) -> Result<Model, ModelError> {
        let wrong = |message: String| ModelError::File(format!("not a model: {message}"));
        check_schema(text)?;
        let stored: Stored = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
        let learner = learner(&stored.learner)?;
        stored.check(learner).map_err(wrong)?;
        let classifier = learner.load(stored.body, stored.features.len(), stored.classes.len()).map_err(wrong)?;
        Ok(Model {
            learner,
            parameters: stored.parameters,
            features: stored.features,
            classes: stored.classes,
            scaler: stored.scaler,
            temperature: stored.temperature,
            training: stored.training,
            classifier,
        })
    }
}

/// Checks the version first, so that another one is reported as such and not as an unknown key.
fn check_schema(text: &str) -> Result<(), ModelError> {
    #[derive(Deserialize)]
    struct Head {
        schema: String,
    }
    match serde_json::from_str::<Head>(text) {
        Ok(head) if head.schema == SCHEMA => Ok(()),
        Ok(head) => Err(ModelError::File(format!("its schema is {:?}; this program reads {SCHEMA:?}", head.schema))),
        Err(error) => Err(ModelError::File(format!("not a model: {error}"))),
    }
}

impl Stored {
    fn check(&self, learner: &dyn Learner) -> Result<(), String> {
        if self.features.is_empty() || self.classes.is_empty() {
            return Err("there should be at least one feature and one class".to_owned());
        }
        let right = learner.parameters().iter().all(|parameter| self.parameters.contains_key(parameter.name));
        if !right || self.parameters.len() != learner.parameters().len() {
            return Err(format!("the hyper-parameters {:?} are not those of {}", self.parameters.keys(), learner.name()));
        }
        if !(self.temperature > 0.0 && self.temperature < 1e6) {
            return Err(format!("the temperature {} should be above 0", self.temperature));
        }
        if self.scaler.is_some() != (learner.preparation() != Preparation::None) {
            return Err(format!("{} has its features {}scaled", learner.name(), if self.scaler.is_some() { "not " } else { "" }));
        }
        if let Some(problem) = self.scaler.as_ref().and_then(|scaler| scaler.problem(self.features.len())) {
            return Err(problem);
        }
        for (what, length, wanted) in [
            ("class_rows", self.training.class_rows.len(), self.classes.len()),
            ("influence", self.training.influence.len(), self.features.len()),
        ] {
            if length != wanted {
                return Err(format!("{what} has {length} values; there should be {wanted}"));
            }
        }
        Ok(())
    }
}
