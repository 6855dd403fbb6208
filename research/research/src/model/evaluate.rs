//! Evaluates a model on labelled rows.

use serde::Serialize;

use super::{Dataset, Model, ModelError, Scratch};

/// Accuracy of a model, with its confusion matrix.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Evaluation {
    /// Rows judged.
    pub rows: usize,
    /// Share of correct predictions.
    pub accuracy: f64,
    /// Mean confidence of the predictions: equals the accuracy if confidences are calibrated.
    pub mean_confidence: f64,
    /// The model's classes, then those in the data that are unknown to it.
    pub classes: Vec<ClassReport>,
    /// Number of rows of each class (first index) predicted as each class (second index).
    pub confusion: Vec<Vec<usize>>,
}

/// Results of one class.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassReport {
    /// Its name.
    pub name: String,
    /// Number of rows in this class.
    pub rows: usize,
    /// Share of them predicted correctly; `None` without any.
    pub recall: Option<f64>,
    /// Share of correct ones among rows predicted as this class; `None` if there are none.
    pub precision: Option<f64>,
}

impl Evaluation {
    /// Applies the model to every row. A row of a class that is unknown to the model counts as wrong; weights are ignored.
    ///
    /// # Errors
    /// The data set is invalid, or has other features.
    pub fn of(model: &Model, data: &Dataset) -> Result<Evaluation, ModelError> {
        data.check()?;
        model.check_features(&data.features)?;
        let mut names: Vec<String> = model.classes().to_vec();
        let mut class_of = Vec::new();
        for (class, name) in data.classes.iter().enumerate() {
            let known = names.iter().position(|known| known == name);
            class_of.push(known.unwrap_or(names.len()));
            if known.is_none() && data.labels.contains(&class) {
                names.push(name.clone());
            }
        }
        let mut confusion = vec![vec![0usize; names.len()]; names.len()];
        let (mut scratch, mut confidences) = (Scratch::default(), 0.0);
        for (row, &label) in data.rows.iter().zip(&data.labels) {
            let (class, confidence) = model.predict_with(row, &mut scratch);
            confusion[class_of[label]][class] += 1;
            confidences += confidence;
        }
        let share = |part: usize, whole: usize| (whole > 0).then(|| part as f64 / whole as f64);
        let report = |(class, name): (usize, &String)| {
            let (rows, taken) = (confusion[class].iter().sum(), confusion.iter().map(|row| row[class]).sum());
            let right = confusion[class][class];
            ClassReport { name: name.clone(), rows, recall: share(right, rows), precision: share(right, taken) }
        };
        let right: usize = (0..names.len()).map(|class| confusion[class][class]).sum();
        Ok(Evaluation {
            rows: data.rows.len(),
            accuracy: right as f64 / data.rows.len() as f64,
            mean_confidence: confidences / data.rows.len() as f64,
            classes: names.iter().enumerate().map(report).collect(),
            confusion,
        })
    }
}
