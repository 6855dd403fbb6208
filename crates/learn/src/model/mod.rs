//! Learners: what makes, of rows with a class each, a model that says the class of a row it has not seen.
//!
//! ```text
//!            ┌─ five folds: every combination of hyper-parameters ─┐
//! Dataset ───┤  scale ─▶ Learner::fit ─▶ Classifier ─▶ scores      ├──▶ the best one, and the temperature of its confidences
//!            └─ all rows: scale ─▶ Learner::fit ─▶ Classifier ◀────┘
//!                                                      │
//!                       Model: features' names, classes, scaler, classifier, temperature, how it was trained ◀──▶ JSON
//! ```
//! The five are those of "Self-Learning Disk Scheduling", section 4.1. Each is one file, and a line in [`ALL`].

mod bayes;
mod calibrate;
mod csv;
mod dataset;
mod evaluate;
mod fold;
mod lbfgs;
mod logistic;
mod parameter;
mod perceptron;
mod scale;
mod stored;
mod svm;
mod text;
mod train;
mod tree;

use std::fmt;

use block::{TunableValue, Unit};

pub use csv::{Columns, CsvError, read_csv};
pub use dataset::{Dataset, Examples};
pub use evaluate::{ClassReport, Evaluation};
pub use parameter::Parameter;
pub use scale::{Scale, Scaler};
pub use stored::{Model, Prediction, Scratch, Training};
pub use text::Names;
pub use train::{Options, train};

macro_rules! learners {
    ($($file:ident::$Learner:ident),* $(,)?) => {
        /// Every learner there is.
        pub static ALL: &[&dyn Learner] = &[$(&$file::$Learner),*];
        /// Their names, in the same order.
        pub const NAMES: &[&str] = &[$($file::$Learner::NAME),*];
    };
}

learners![tree::C45, logistic::Logistic, bayes::NaiveBayes, perceptron::Perceptron, svm::Svm];

impl TunableValue for &'static dyn Learner {
    fn from_number(number: i64, _unit: Unit) -> &'static dyn Learner {
        let place = usize::try_from(number).unwrap_or(0);
        ALL[place.min(ALL.len() - 1)]
    }

    fn number(&self, _unit: Unit) -> i64 {
        let place = NAMES.iter().position(|name| *name == self.name());
        place.map_or(0, |place| place as i64)
    }
}

/// The learner of this name.
///
/// # Errors
/// There is none.
pub fn learner(name: &str) -> Result<&'static dyn Learner, ModelError> {
    let known = || NAMES.join(", ");
    let found = ALL.iter().copied().find(|learner| learner.name() == name);
    found.ok_or_else(|| ModelError::Learner { name: name.to_owned(), known: known() })
}

/// How a learner wants its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preparation {
    /// As they are, missing values as NaN.
    None,
    /// Scaled by a [`Scaler`], missing values as NaN.
    Scaled,
    /// Scaled, missing values at the mean.
    ScaledAndFilled,
}

/// A way to learn.
pub trait Learner: Sync {
    /// What a person types.
    fn name(&self) -> &'static str;

    /// What it is, in a line.
    fn summary(&self) -> &'static str;

    /// Where it is from.
    fn source(&self) -> &'static str;

    /// What can be tuned; cross-validation tries every combination of candidates.
    fn parameters(&self) -> &'static [Parameter];

    /// How it wants its rows.
    fn preparation(&self) -> Preparation;

    /// Learns from rows prepared that way, with the parameters' values in their order. The same seed gives the same classifier.
    ///
    /// # Errors
    /// It cannot learn from these: the reason.
    fn fit(&self, examples: &Examples, parameters: &[f64], seed: u64) -> Result<Box<dyn Classifier>, ModelError>;

    /// Reads what [`Classifier::body`] wrote, of a classifier for rows of so many features and so many classes.
    ///
    /// # Errors
    /// What is wrong with it.
    fn load(&self, body: serde_json::Value, features: usize, classes: usize) -> Result<Box<dyn Classifier>, String>;
}

impl fmt::Debug for dyn Learner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Room that a classifier works in.
#[derive(Clone, Debug, Default)]
pub struct Buffers {
    /// Of double precision.
    pub wide: Vec<f64>,
    /// Of single precision.
    pub narrow: Vec<f32>,
}

/// What was learned.
pub trait Classifier: Send + Sync + fmt::Debug {
    /// Writes a score per class for a row prepared as the learner wants it: the likelier the higher, as a logarithm of a probability
    /// up to a constant and a factor, always finite. Allocates nothing once the buffers have grown.
    fn scores(&self, row: &[f64], buffers: &mut Buffers, scores: &mut [f64]);

    /// Appends what a person can read of it.
    fn describe(&self, names: &Names, text: &mut String);

    /// For a file.
    fn body(&self) -> serde_json::Value;
}

/// Why nothing could be learned, or a model cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ModelError {
    /// The rows cannot be learned from.
    #[error("the data: {0}")]
    Dataset(String),
    /// There is no such learner.
    #[error("there is no learner '{name}'; there are {known}")]
    Learner {
        /// What was asked for.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// A hyper-parameter that the learner does not have, or of a value that it cannot have.
    #[error("{learner}: {message}")]
    Parameter {
        /// Which learner.
        learner: &'static str,
        /// What is wrong, and what would be right.
        message: String,
    },
    /// The features are not those that the model was trained on.
    #[error("the model was trained on other features: {0}")]
    Features(String),
    /// The learner failed.
    #[error("{learner} cannot learn from these rows: {message}")]
    Fit {
        /// Which learner.
        learner: &'static str,
        /// Why.
        message: String,
    },
    /// It was asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// A model's file is damaged, or of another version.
    #[error("{0}")]
    File(String),
}
