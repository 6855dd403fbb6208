//! Learners: train models that predict the class of an unseen row from labelled rows.
//!
//! ```text
//!            ┌─ five folds: every combination of hyper-parameters ─┐
//! Dataset ───┤  scale ─▶ Learner::fit ─▶ Classifier ─▶ scores      ├──▶ the best one, and the temperature of its confidences
//!            └─ all rows: scale ─▶ Learner::fit ─▶ Classifier ◀────┘
//!                                                      │
//!                       Model: features' names, classes, scaler, classifier, temperature, how it was trained ◀──▶ JSON
//! ```
//! The five learners are those of "Self-Learning Disk Scheduling", section 4.1. Each has its own file and an entry in [`ALL`].

mod bayes;
mod calibrate;
mod class;
mod csv;
mod dataset;
mod evaluate;
mod fold;
mod labels;
mod lbfgs;
mod logistic;
mod names;
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
pub use labels::dataset_among;
pub use names::Names;
pub use parameter::Parameter;
pub use scale::{Scale, Scaler};
pub use stored::{Model, Prediction, Scratch, Training};
pub use train::{Options, best, train};

macro_rules! learners {
    ($($file:ident::$Learner:ident),* $(,)?) => {
        /// All learners.
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

/// Finds a learner by name.
///
/// # Errors
/// The name is unknown.
pub fn learner(name: &str) -> Result<&'static dyn Learner, ModelError> {
    let known = || NAMES.join(", ");
    let found = ALL.iter().copied().find(|learner| learner.name() == name);
    found.ok_or_else(|| ModelError::Learner {
        name: name.to_owned(),
        known: known() + &block::did_you_mean(name, ALL.iter().map(|learner| learner.name())),
    })
}

/// How a learner expects its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preparation {
    /// Unscaled, missing values as NaN.
    None,
    /// Scaled by a [`Scaler`], missing values as NaN.
    Scaled,
    /// Scaled, missing values replaced by the mean.
    ScaledAndFilled,
}

/// A learning algorithm.
///
/// ```
/// use research::model::{Buffers, Dataset, Examples, learner};
///
/// let data = Dataset {
///     features: vec!["size".to_owned()],
///     classes: vec!["small".to_owned(), "large".to_owned()],
///     rows: (0..20).map(|size| vec![f64::from(size)]).collect(),
///     labels: (0..20).map(|size| size / 10).collect(),
///     ..Dataset::default()
/// };
/// let (examples, _) = Examples::of(&data, false);
/// let tree = learner("c4.5")?;
/// let defaults: Vec<f64> = tree.parameters().iter().map(|parameter| parameter.candidates[0]).collect();
/// let classifier = tree.fit(&examples, &defaults, 1)?;
/// let mut scores = [0.0; 2];
/// classifier.scores(&[17.0], &mut Buffers::default(), &mut scores);
/// assert!(scores[1] > scores[0], "17 is large");
/// # Ok::<(), research::model::ModelError>(())
/// ```
pub trait Learner: Sync {
    /// Name on the command line.
    fn name(&self) -> &'static str;

    /// One-line description.
    fn summary(&self) -> &'static str;

    /// Its source in the literature.
    fn source(&self) -> &'static str;

    /// Hyper-parameters; cross-validation tries every combination of their candidates.
    fn parameters(&self) -> &'static [Parameter];

    /// The preparation of rows that [`fit`](Learner::fit) and its classifiers expect.
    fn preparation(&self) -> Preparation;

    /// Trains on rows with that [`preparation`](Learner::preparation). `parameters` has one value for each of
    /// [`parameters`](Learner::parameters), in that order. Deterministic: the same input and seed give the same classifier.
    ///
    /// # Errors
    /// It cannot be trained on these examples; the message gives the reason.
    fn fit(&self, examples: &Examples, parameters: &[f64], seed: u64) -> Result<Box<dyn Classifier>, ModelError>;

    /// Loads a classifier for the given numbers of features and classes from the output of [`Classifier::body`].
    ///
    /// # Errors
    /// The body is invalid; the message says why.
    fn load(&self, body: serde_json::Value, features: usize, classes: usize) -> Result<Box<dyn Classifier>, String>;
}

impl fmt::Debug for dyn Learner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Scratch buffers of a classifier.
#[derive(Clone, Debug, Default)]
pub struct Buffers {
    /// Double precision.
    pub wide: Vec<f64>,
    /// Single precision.
    pub narrow: Vec<f32>,
}

/// A trained classifier.
///
/// ```
/// use research::model::{Buffers, Classifier, Names};
///
/// /// Prefers class 1 above a threshold of the first feature.
/// #[derive(Debug)]
/// struct Threshold(f64);
///
/// impl Classifier for Threshold {
///     fn scores(&self, row: &[f64], _: &mut Buffers, scores: &mut [f64]) {
///         (scores[0], scores[1]) = (self.0, row[0]);
///     }
///     fn describe(&self, names: &Names, text: &mut String) {
///         text.push_str(&format!("{} if {} > {}", names.class(1), names.feature(0), self.0));
///     }
///     fn body(&self) -> serde_json::Value {
///         serde_json::json!({ "threshold": self.0 })
///     }
/// }
///
/// let mut scores = [0.0; 2];
/// Threshold(3.0).scores(&[5.0], &mut Buffers::default(), &mut scores);
/// assert_eq!(scores, [3.0, 5.0]);
/// ```
pub trait Classifier: Send + Sync + fmt::Debug {
    /// Writes one score for each class, for a row with the learner's [`preparation`](Learner::preparation). A score is finite, and is the
    /// log probability up to a constant and a factor: the largest is the predicted class. Does not allocate once the buffers have grown.
    fn scores(&self, row: &[f64], buffers: &mut Buffers, scores: &mut [f64]);

    /// Appends a description for people, in lines.
    fn describe(&self, names: &Names, text: &mut String);

    /// The classifier as JSON for a model file; [`Learner::load`] reads it.
    fn body(&self) -> serde_json::Value;
}

/// Why training failed or a model cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ModelError {
    /// The rows are unsuitable for training.
    #[error("the data: {0}")]
    Dataset(String),
    /// Unknown learner.
    #[error("unknown learner '{name}'; known: {known}")]
    Learner {
        /// The name given.
        name: String,
        /// The known learners.
        known: String,
    },
    /// An unknown hyper-parameter, or an invalid value.
    #[error("{learner}: {message}")]
    Parameter {
        /// The learner.
        learner: &'static str,
        /// The error, and the valid values.
        message: String,
    },
    /// The features differ from those the model was trained on.
    #[error("the model was trained on other features: {0}")]
    Features(String),
    /// The learner failed.
    #[error("{learner} cannot learn from these rows: {message}")]
    Fit {
        /// The learner.
        learner: &'static str,
        /// The reason.
        message: String,
    },
    /// Training was cancelled.
    #[error("interrupted")]
    Interrupted,
    /// A model file is damaged or of another version.
    #[error("{0}")]
    File(String),
}
