//! Trains a model: chooses hyper-parameters by cross-validation, then trains on all rows.

use std::collections::BTreeMap;

use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

use super::calibrate::{HeldOut, log_loss, temperature};
use super::class::largest;
use super::fold::{folds, split};
use super::parameter::combinations;
use super::{Buffers, Classifier, Dataset, Examples, Learner, Model, ModelError, Preparation, Scaler, Training};

/// Number of rows among which a feature is shuffled to measure its influence.
const JUDGED_ROWS: usize = 300;

/// Minimum score relative to a row's best: a class that is absent from a fold is unlikely, not impossible.
const LEAST: f64 = -30.0;

/// Index of the model with the highest accuracy in cross-validation, or in training if there were too few rows to hold any out. All must be
/// trained with the same rows. Ties go to the first.
pub fn best(models: &[Model]) -> usize {
    let accuracy = |model: &Model| model.training().cross_validated_accuracy.unwrap_or(model.training().training_accuracy);
    (1..models.len()).fold(0, |best, next| if accuracy(&models[next]) > accuracy(&models[best]) { next } else { best })
}

/// Options for training.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether every class gets the same total weight.
    pub balanced: bool,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Number of folds in cross-validation; fewer if there are fewer groups.
    pub folds: usize,
    /// Fixed hyper-parameters, which are not tuned.
    pub fixed: BTreeMap<String, f64>,
    /// Maximum number of rows for tuning hyper-parameters, drawn such that every class keeps its share.
    pub tuning_rows: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options { balanced: false, seed: 1, folds: 5, fixed: BTreeMap::new(), tuning_rows: 2000 }
    }
}

/// A classifier with the preparation of its rows.
pub struct Prepared {
    /// The scaler; `None` if the learner needs none.
    pub scaler: Option<Scaler>,
    /// The classifier of scaled rows.
    pub classifier: Box<dyn Classifier>,
    /// The training set's class of each of its classes.
    pub classes: Vec<usize>,
}

impl Prepared {
    /// A score for each of `classes`, where the best is 0.
    fn scores(&self, row: &[f64], classes: usize, buffers: &mut Buffers) -> Vec<f64> {
        let mut own = vec![0.0; self.classes.len()];
        self.classifier.scores(row, buffers, &mut own);
        let best = own.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut scores = vec![LEAST; classes];
        self.classes.iter().zip(&own).for_each(|(&class, score)| scores[class] = (score - best).max(LEAST));
        scores
    }
}

/// Prepares rows as the learner expects them.
fn prepare(rows: &mut [Vec<f64>], scaler: Option<&Scaler>, preparation: Preparation) {
    let Some(scaler) = scaler else { return };
    let mut scaled = Vec::new();
    for row in rows {
        scaler.apply(row, preparation == Preparation::ScaledAndFilled, &mut scaled);
        std::mem::swap(row, &mut scaled);
    }
}

fn scaler_of(learner: &dyn Learner, examples: &Examples) -> Option<Scaler> {
    (learner.preparation() != Preparation::None).then(|| Scaler::fit(examples))
}

/// Trains a model, with hyper-parameters from cross-validation. `watch` is called with the number of classifiers trained so far and the
/// total; it cancels the training by returning false.
///
/// # Errors
/// The data set is invalid ([`Dataset::check`]); a fixed hyper-parameter is unknown or out of range; the learner fails; or `watch` has
/// returned false ([`ModelError::Interrupted`]).
pub fn train(
    data: &Dataset,
    learner: &'static dyn Learner,
    options: &Options,
    watch: &mut dyn FnMut(usize, usize) -> bool,
) -> Result<Model, ModelError> {
    data.check()?;
    let combinations = combinations(learner, &options.fixed)?;
    let (examples, classes) = Examples::of(data, options.balanced);
    let tuning = examples.sample(options.tuning_rows, options.seed);
    let validated = cross_validate(&tuning, learner, &combinations, options, watch)?;
    let best = validated.as_ref().map_or(0, |validated| validated.best);
    let scaler = scaler_of(learner, &examples);
    let mut prepared_examples = examples.clone();
    prepare(&mut prepared_examples.rows, scaler.as_ref(), learner.preparation());
    let classifier = learner.fit(&prepared_examples, &combinations[best], options.seed)?;
    let prepared = Prepared { scaler, classifier, classes: (0..classes.len()).collect() };
    let (training_accuracy, influence) =
        judge(&prepared, learner.preparation(), &examples.sample(JUDGED_ROWS, options.seed), options.seed);
    let training = Training {
        rows: examples.rows.len(),
        class_rows: examples.class_counts(),
        balanced: options.balanced,
        seed: options.seed,
        folds: validated.as_ref().map_or(0, |validated| validated.folds),
        combinations: combinations.len(),
        cross_validated_accuracy: validated.as_ref().map(|validated| validated.accuracy),
        training_accuracy,
        influence,
    };
    let names = learner.parameters().iter().map(|parameter| parameter.name.to_owned());
    Ok(Model {
        learner,
        parameters: names.zip(combinations[best].iter().copied()).collect(),
        features: data.features.clone(),
        classes: classes.iter().map(|&class| data.classes[class].clone()).collect(),
        scaler: prepared.scaler,
        temperature: validated.map_or(1.0, |validated| validated.temperature),
        training,
        classifier: prepared.classifier,
    })
}

/// Result of cross-validation.
struct Validated {
    /// Index of the best combination of hyper-parameters.
    best: usize,
    folds: usize,
    accuracy: f64,
    temperature: f64,
}

/// The combination with the highest accuracy on held-out rows; ties go to the smallest loss, then to the first. `None` if nothing can be
/// held out.
fn cross_validate(
    examples: &Examples,
    learner: &dyn Learner,
    combinations: &[Vec<f64>],
    options: &Options,
    watch: &mut dyn FnMut(usize, usize) -> bool,
) -> Result<Option<Validated>, ModelError> {
    let (fold_of, folds) = folds(examples, options.folds, options.seed);
    if folds < 2 {
        return Ok(None);
    }
    let mut held_out: Vec<Vec<HeldOut>> = vec![Vec::new(); combinations.len()];
    let mut buffers = Buffers::default();
    for fold in 0..folds {
        let (seen, unseen) = split(&fold_of, fold);
        let (mut seen, classes) = examples.subset(&seen).compact();
        let mut unseen = examples.subset(&unseen);
        let scaler = scaler_of(learner, &seen);
        prepare(&mut seen.rows, scaler.as_ref(), learner.preparation());
        prepare(&mut unseen.rows, scaler.as_ref(), learner.preparation());
        for (number, combination) in combinations.iter().enumerate() {
            if !watch(fold * combinations.len() + number, folds * combinations.len() + 1) {
                return Err(ModelError::Interrupted);
            }
            let classifier = learner.fit(&seen, combination, options.seed)?;
            let prepared = Prepared { scaler: None, classifier, classes: classes.clone() };
            let rows = unseen.rows.iter().zip(&unseen.labels).zip(&unseen.weights);
            held_out[number].extend(rows.map(|((row, &class), &weight)| {
                let scores = prepared.scores(row, examples.classes, &mut buffers);
                HeldOut { scores, class, weight }
            }));
        }
    }
    let judged: Vec<(f64, f64)> = held_out.iter().map(|rows| (accuracy(rows), log_loss(rows, temperature(rows)))).collect();
    let better = |a: usize, b: usize| {
        judged[a].0 > judged[b].0 + 1e-9 || (judged[a].0 > judged[b].0 - 1e-9 && judged[a].1 < judged[b].1 - 1e-9)
    };
    let best = (1..combinations.len()).fold(0, |best, number| if better(number, best) { number } else { best });
    Ok(Some(Validated { best, folds, accuracy: judged[best].0, temperature: temperature(&held_out[best]) }))
}

fn accuracy(rows: &[HeldOut]) -> f64 {
    let right: f64 = rows.iter().filter(|row| largest(&row.scores) == row.class).map(|row| row.weight).sum();
    right / rows.iter().map(|row| row.weight).sum::<f64>()
}

/// The accuracy on training rows, and its loss when each feature's values are shuffled among them.
fn judge(prepared: &Prepared, preparation: Preparation, examples: &Examples, seed: u64) -> (f64, Vec<f64>) {
    let mut rows = examples.rows.clone();
    prepare(&mut rows, prepared.scaler.as_ref(), preparation);
    let mut buffers = Buffers::default();
    let mut right = |rows: &[Vec<f64>]| {
        let judged: Vec<HeldOut> = rows
            .iter()
            .zip(&examples.labels)
            .zip(&examples.weights)
            .map(|((row, &class), &weight)| HeldOut { scores: prepared.scores(row, examples.classes, &mut buffers), class, weight })
            .collect();
        accuracy(&judged)
    };
    let all = right(&rows);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut order: Vec<usize> = (0..rows.len()).collect();
    let mut influence = Vec::new();
    for feature in 0..examples.features() {
        let column: Vec<f64> = rows.iter().map(|row| row[feature]).collect();
        order.shuffle(&mut random);
        rows.iter_mut().zip(&order).for_each(|(row, &other)| row[feature] = column[other]);
        influence.push(all - right(&rows));
        rows.iter_mut().zip(&column).for_each(|(row, &value)| row[feature] = value);
    }
    (all, influence)
}
