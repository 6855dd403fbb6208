//! Gaussian naive Bayes: in each class every feature has its own normal distribution, independent of the others.

use std::f64::consts::TAU;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::{Buffers, Classifier, Examples, Learner, ModelError, Names, Parameter, Preparation};

/// The learner. Own implementation: libraries reject constant columns and do not support row weights.
pub struct NaiveBayes;

impl NaiveBayes {
    /// The name on the command line.
    pub(super) const NAME: &str = "naive-bayes";
}

impl Learner for NaiveBayes {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn summary(&self) -> &'static str {
        "Gaussian naive Bayes with smoothed variances; missing values are ignored"
    }

    fn source(&self) -> &'static str {
        "Rish, An Empirical Study of the Naive Bayes Classifier, 2001; the smoothing as in scikit-learn"
    }

    fn parameters(&self) -> &'static [Parameter] {
        &[Parameter {
            name: "smoothing",
            doc: "Added to every variance, as a fraction of the largest variance of a feature.",
            candidates: &[1e-9, 1e-4, 1e-3, 1e-2, 1e-1],
            min: 1e-12,
            max: 100.0,
            is_whole: false,
        }]
    }

    fn preparation(&self) -> Preparation {
        Preparation::Scaled
    }

    fn fit(&self, examples: &Examples, parameters: &[f64], _seed: u64) -> Result<Box<dyn Classifier>, ModelError> {
        let &[smoothing] = parameters else {
            return Err(ModelError::Fit { learner: self.name(), message: "expected one hyper-parameter".to_owned() });
        };
        let totals = examples.class_weights();
        let sum: f64 = totals.iter().sum();
        let normals = (0..examples.classes).map(|class| normals(examples, class, smoothing)).collect();
        Ok(Box::new(Normals { priors: totals.iter().map(|total| total / sum).collect(), normals }))
    }

    fn load(&self, body: serde_json::Value, features: usize, classes: usize) -> Result<Box<dyn Classifier>, String> {
        let loaded: Normals = serde_json::from_value(body).map_err(|error| error.to_string())?;
        if loaded.priors.len() != classes || loaded.priors.iter().any(|prior| !(*prior > 0.0 && *prior <= 1.0)) {
            return Err(format!("there should be {classes} priors between 0 and 1; there are {:?}", loaded.priors));
        }
        let right = |normal: &Normal| normal.mean.abs() < 1e6 && (1e-13..1e13).contains(&normal.variance);
        if loaded.normals.len() != classes || !loaded.normals.iter().all(|row| row.len() == features && row.iter().all(right)) {
            return Err(format!(
                "there should be a mean and a positive variance for each of {features} features and {classes} classes"
            ));
        }
        Ok(Box::new(loaded))
    }
}

/// Each feature's distribution in a class. `smoothing` is relative to the largest variance of a feature, which is 1 as features are scaled.
fn normals(examples: &Examples, class: usize, smoothing: f64) -> Vec<Normal> {
    let normal = |feature: usize| {
        let known = || {
            let rows = examples.rows.iter().zip(&examples.labels).zip(&examples.weights);
            rows.filter(move |((row, label), _)| **label == class && !row[feature].is_nan())
                .map(move |((row, _), weight)| (row[feature], weight))
        };
        let total: f64 = known().map(|(_, weight)| weight).sum();
        if total <= 0.0 {
            // No value is known in this class: use the distribution over all classes.
            return Normal { mean: 0.0, variance: 1.0 + smoothing };
        }
        let mean = known().map(|(value, weight)| value * weight).sum::<f64>() / total;
        let variance = known().map(|(value, weight)| (value - mean) * (value - mean) * weight).sum::<f64>() / total;
        Normal { mean, variance: variance + smoothing }
    };
    (0..examples.features()).map(normal).collect()
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Normal {
    mean: f64,
    variance: f64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Normals {
    /// Share of each class in the training set.
    priors: Vec<f64>,
    /// By class and feature.
    normals: Vec<Vec<Normal>>,
}

impl Classifier for Normals {
    fn scores(&self, row: &[f64], _buffers: &mut Buffers, scores: &mut [f64]) {
        for ((score, prior), normals) in scores.iter_mut().zip(&self.priors).zip(&self.normals) {
            let likelihood = |(normal, &value): (&Normal, &f64)| {
                let distance = value - normal.mean;
                if value.is_nan() { 0.0 } else { distance * distance / normal.variance + (TAU * normal.variance).ln() }
            };
            *score = prior.ln() - 0.5 * normals.iter().zip(row).map(likelihood).sum::<f64>();
        }
    }

    fn describe(&self, names: &Names, text: &mut String) {
        let _ = writeln!(text, "Mean of each feature by class, with the standard deviation in brackets:");
        for (class, normals) in self.normals.iter().enumerate() {
            let _ = writeln!(text, "\n{} (share of the training set {:.3})", names.class(class), self.priors[class]);
            for (feature, normal) in normals.iter().enumerate() {
                let at = |deviations: f64| names.number(names.unscaled(feature, normal.mean + deviations * normal.variance.sqrt()));
                let _ = writeln!(text, "  {:28} {} ({} to {})", names.feature(feature), at(0.0), at(-1.0), at(1.0));
            }
        }
    }

    fn body(&self) -> serde_json::Value {
        serde_json::json!(self)
    }
}
