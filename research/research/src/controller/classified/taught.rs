//! The training rows of a classifier, and the trained classifier.

use crate::model::dataset_among;
use crate::model::{Dataset, Learner, Model, ModelError, Options, Scratch, train};
use control::experience::Experience;
use control::setting::Setting;
use observe::description::names;
use observe::preference::Preference;

/// Maximum number of rows taken from experience, sampled evenly. Training on them takes a few seconds at most.
const MOST_ROWS: usize = 1500;
/// Rows used to choose hyper-parameters, and folds of the cross-validation.
const TUNING_ROWS: usize = 240;
const FOLDS: usize = 3;

/// The cases of an experience as training rows, with the best eligible arm of each as its class; the classes are the
/// arms.
pub fn lessons(experience: &Experience, preference: &Preference, arms: &[Setting], eligible: &[bool]) -> Dataset {
    let classes = arms.iter().map(Setting::to_string).collect();
    let mut lessons = Dataset { features: names(), classes, ..Dataset::default() };
    let arm_of = |setting: &String| lessons.classes.iter().zip(eligible).position(|(text, eligible)| text == setting && *eligible);
    let arms_of: Vec<Option<usize>> = experience.settings.iter().map(arm_of).collect();
    let among: Vec<usize> = (0..arms_of.len()).filter(|&setting| arms_of[setting].is_some()).collect();
    let theirs = dataset_among(experience, preference, &among);
    let columns: Vec<Option<usize>> =
        lessons.features.iter().map(|name| experience.features.iter().position(|theirs| theirs == name)).collect();
    let step = theirs.rows.len().div_ceil(MOST_ROWS).max(1);
    let theirs = theirs.rows.iter().zip(&theirs.labels).zip(&theirs.groups).zip(&theirs.weights);
    for (((row, label), group), weight) in theirs.step_by(step) {
        let Some(arm) = arms_of[*label] else { continue };
        lessons.rows.push(columns.iter().map(|column| column.map_or(f64::NAN, |column| row[column])).collect());
        lessons.labels.push(arm);
        lessons.groups.push(*group);
        lessons.weights.push(*weight);
    }
    lessons
}

/// A classifier whose classes are arms.
#[derive(Debug)]
pub struct Taught {
    model: Model,
    /// The arm of each of the model's classes.
    arms: Vec<usize>,
    scratch: Scratch,
}

impl Taught {
    /// Trains a classifier.
    ///
    /// # Errors
    /// There are no rows, or the learner cannot be trained on them.
    pub fn new(lessons: &Dataset, learner: &'static dyn Learner, seed: u64) -> Result<Taught, ModelError> {
        let options = Options { seed, folds: FOLDS, tuning_rows: TUNING_ROWS, ..Options::default() };
        let model = train(lessons, learner, &options, &mut |_, _| true)?;
        let arm = |class: &String| lessons.classes.iter().position(|name| name == class);
        let arms = model.classes().iter().filter_map(arm).collect();
        Ok(Taught { model, arms, scratch: Scratch::default() })
    }

    /// The most likely eligible arm, and its probability; `None` if no class is eligible.
    pub fn classify(&mut self, row: &[f64], eligible: &[bool]) -> Option<(usize, f64)> {
        self.model.predict_with(row, &mut self.scratch);
        let known = self.arms.iter().copied().zip(self.scratch.probabilities().iter().copied());
        let better = |best: Option<(usize, f64)>, other: (usize, f64)| match best {
            Some(best) if best.1 >= other.1 => Some(best),
            _ => Some(other),
        };
        known.filter(|(arm, _)| eligible[*arm]).fold(None, better)
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The learner's name.
    pub fn learner(&self) -> &'static str {
        self.model.learner().name()
    }

    /// Number of rows it was trained on.
    pub fn rows(&self) -> usize {
        self.model.training().rows
    }
}
