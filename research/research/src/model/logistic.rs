//! Multinomial logistic regression: a weighted sum of the features per class, through a softmax.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::calibrate::softmax;
use super::lbfgs::minimise;
use super::{Buffers, Classifier, Examples, Learner, ModelError, Names, Parameter, Preparation};

/// Number of coefficients printed per class.
const SHOWN: usize = 12;

/// The learner. Own implementation: no available library supports row weights.
pub struct Logistic;

impl Logistic {
    /// The name on the command line.
    pub(super) const NAME: &str = "logistic";
}

impl Learner for Logistic {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn summary(&self) -> &'static str {
        "multinomial logistic regression with an L2 penalty"
    }

    fn source(&self) -> &'static str {
        "Hastie, Tibshirani and Friedman, The Elements of Statistical Learning, section 4.4; the penalty as in scikit-learn"
    }

    fn parameters(&self) -> &'static [Parameter] {
        &[Parameter {
            name: "c",
            doc: "Inverse strength of the penalty: smaller values shrink the coefficients more.",
            candidates: &[1.0, 0.1, 0.01, 10.0, 100.0],
            min: 1e-6,
            max: 1e6,
            is_whole: false,
        }]
    }

    fn preparation(&self) -> Preparation {
        Preparation::ScaledAndFilled
    }

    fn fit(&self, examples: &Examples, parameters: &[f64], _seed: u64) -> Result<Box<dyn Classifier>, ModelError> {
        let &[c] = parameters else {
            return Err(ModelError::Fit { learner: self.name(), message: "expected one hyper-parameter".to_owned() });
        };
        let width = examples.features() + 1;
        let flat = minimise(vec![0.0; width * examples.classes], 1e-4, 500, |point, gradient| loss(examples, c, point, gradient));
        let coefficients = flat.chunks(width).map(<[f64]>::to_vec).collect();
        Ok(Box::new(Coefficients { coefficients }))
    }

    fn load(&self, body: serde_json::Value, features: usize, classes: usize) -> Result<Box<dyn Classifier>, String> {
        let loaded: Coefficients = serde_json::from_value(body).map_err(|error| error.to_string())?;
        let right = |row: &Vec<f64>| row.len() == features + 1 && row.iter().all(|value| value.abs() < 1e100);
        if loaded.coefficients.len() != classes || !loaded.coefficients.iter().all(right) {
            return Err(format!("there should be {} finite coefficients for each of {classes} classes", features + 1));
        }
        Ok(Box::new(loaded))
    }
}

/// c times the sum of -ln(probability of the correct class), plus half the squared norm of the coefficients, excluding intercepts.
fn loss(examples: &Examples, c: f64, point: &[f64], gradient: &mut [f64]) -> f64 {
    let width = examples.features() + 1;
    let mut sum = 0.0;
    gradient.fill(0.0);
    let mut scores = vec![0.0; examples.classes];
    for ((row, &label), weight) in examples.rows.iter().zip(&examples.labels).zip(&examples.weights) {
        write_scores(point.chunks_exact(width), row, &mut scores);
        let right = scores[label];
        let highest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let total: f64 = scores.iter().map(|score| (score - highest).exp()).sum();
        sum += c * weight * (total.ln() + highest - right);
        softmax(&mut scores, 1.0);
        scores[label] -= 1.0;
        for (slots, error) in gradient.chunks_exact_mut(width).zip(&scores) {
            let factor = c * weight * error;
            slots.iter_mut().zip(row).for_each(|(slot, value)| *slot += factor * value);
            slots[width - 1] += factor;
        }
    }
    for (slots, coefficients) in gradient.chunks_exact_mut(width).zip(point.chunks_exact(width)) {
        for (slot, coefficient) in slots.iter_mut().zip(coefficients).take(width - 1) {
            *slot += coefficient;
            sum += 0.5 * coefficient * coefficient;
        }
    }
    sum
}

fn write_scores<'a>(coefficients: impl Iterator<Item = &'a [f64]>, row: &[f64], scores: &mut [f64]) {
    for (score, coefficients) in scores.iter_mut().zip(coefficients) {
        let sum: f64 = coefficients.iter().zip(row).map(|(coefficient, value)| coefficient * value).sum();
        *score = sum + coefficients.last().copied().unwrap_or(0.0);
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Coefficients {
    /// Per class: one for each feature, then the intercept.
    coefficients: Vec<Vec<f64>>,
}

impl Classifier for Coefficients {
    fn scores(&self, row: &[f64], _buffers: &mut Buffers, scores: &mut [f64]) {
        write_scores(self.coefficients.iter().map(Vec::as_slice), row, scores);
    }

    fn describe(&self, names: &Names, text: &mut String) {
        let _ = writeln!(text, "Change of a class's log-odds for one standard deviation of a feature:");
        for (class, coefficients) in self.coefficients.iter().enumerate() {
            let Some((intercept, coefficients)) = coefficients.split_last() else { continue };
            let _ = writeln!(text, "\n{} (at the mean of every feature: {intercept:.3})", names.class(class));
            let mut order: Vec<usize> = (0..coefficients.len()).collect();
            order.sort_by(|&a, &b| coefficients[b].abs().total_cmp(&coefficients[a].abs()));
            for &feature in order.iter().take(SHOWN) {
                let _ = writeln!(text, "  {:+9.3}  {}", coefficients[feature], names.feature(feature));
            }
            if order.len() > SHOWN {
                let _ = writeln!(text, "  and {} smaller ones", order.len() - SHOWN);
            }
        }
    }

    fn body(&self) -> serde_json::Value {
        serde_json::json!(self)
    }
}
