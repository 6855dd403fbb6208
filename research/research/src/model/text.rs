//! Formats a model as readable text.

use std::fmt::Write as _;

use super::{Model, Scaler};

/// Number of features listed as the most influential.
const SHOWN: usize = 10;

/// The meaning of the numbers in a classifier.
#[derive(Clone, Copy, Debug)]
pub struct Names<'a> {
    features: &'a [String],
    classes: &'a [String],
    scaler: Option<&'a Scaler>,
}

impl<'a> Names<'a> {
    pub(super) fn new(features: &'a [String], classes: &'a [String], scaler: Option<&'a Scaler>) -> Names<'a> {
        Names { features, classes, scaler }
    }

    /// A feature's name.
    pub fn feature(&self, feature: usize) -> &'a str {
        self.features.get(feature).map_or("?", String::as_str)
    }

    /// A class's name.
    pub fn class(&self, class: usize) -> &'a str {
        self.classes.get(class).map_or("?", String::as_str)
    }

    /// A scaled value in the feature's original unit.
    pub fn unscaled(&self, feature: usize, value: f64) -> f64 {
        self.scaler.and_then(|scaler| scaler.0.get(feature)).map_or(value, |scale| scale.invert(value))
    }

    /// A number with six significant digits.
    pub fn number(&self, value: f64) -> String {
        if value == 0.0 {
            return "0".to_owned();
        }
        let digits = value.abs().log10().floor();
        if !(-5.0..=15.0).contains(&digits) {
            return format!("{value:.5e}");
        }
        let decimals = (5.0 - digits).max(0.0) as usize;
        let text = format!("{value:.decimals$}");
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
    }
}

/// The whole description.
pub fn page(model: &Model) -> String {
    let mut text = String::new();
    let learner = model.learner();
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{}: {}", learner.name(), learner.summary());
    let _ = writeln!(text, "from: {}", learner.source());
    let parameters: Vec<String> = model.parameters().iter().map(|(name, value)| format!("{name} {value}")).collect();
    let _ = writeln!(text, "hyper-parameters: {}", parameters.join(", "));
    training(model, &mut text);
    let _ = writeln!(text);
    model.classifier().describe(&model.names(), &mut text);
    influence(model, &mut text);
    text
}

fn training(model: &Model, text: &mut String) {
    let training = model.training();
    let counts: Vec<String> =
        model.classes().iter().zip(&training.class_rows).map(|(class, rows)| format!("{class} {rows}")).collect();
    let balance = if training.balanced { ", balanced classes" } else { "" };
    let _ = writeln!(
        text,
        "trained on: {} rows of {} features ({}){balance}",
        training.rows,
        model.features().len(),
        counts.join(", ")
    );
    let _ = match training.cross_validated_accuracy {
        Some(accuracy) => writeln!(
            text,
            "accuracy: {:.1}% in {}-fold cross-validation of {} combination{} of hyper-parameters, {:.1}% on the training rows",
            accuracy * 100.0,
            training.folds,
            training.combinations,
            if training.combinations == 1 { "" } else { "s" },
            training.training_accuracy * 100.0
        ),
        None => {
            writeln!(
                text,
                "accuracy: {:.1}% on the training rows, too few for cross-validation",
                training.training_accuracy * 100.0
            )
        }
    };
    let _ = writeln!(text, "temperature of the confidences: {:.3}", model.temperature());
    let logarithms: Vec<&str> = model.scaler().map_or(Vec::new(), |scaler| {
        scaler.0.iter().zip(model.features()).filter(|(scale, _)| scale.log.is_some()).map(|(_, name)| name.as_str()).collect()
    });
    if !logarithms.is_empty() {
        let _ = writeln!(text, "log-transformed: {}", logarithms.join(", "));
    }
}

fn influence(model: &Model, text: &mut String) {
    let influence = &model.training().influence;
    let mut order: Vec<usize> = (0..influence.len()).filter(|&feature| influence[feature] > 0.0).collect();
    order.sort_by(|&a, &b| influence[b].total_cmp(&influence[a]));
    if order.is_empty() {
        return;
    }
    let _ = writeln!(text, "\nFeature importance: points of accuracy lost on the training rows if a feature is permuted");
    for &feature in order.iter().take(SHOWN) {
        let _ = writeln!(text, "  {:6.1}  {}", influence[feature] * 100.0, model.names().feature(feature));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_six_digits_that_count() {
        let names = Names::new(&[], &[], None);
        for (value, text) in
            [(0.0, "0"), (1234567.0, "1234567"), (0.1 + 0.2, "0.3"), (-0.00123456789, "-0.00123457"), (1e-9, "1.00000e-9")]
        {
            assert_eq!(names.number(value), text);
        }
    }
}
