//! Formats a model as readable text.

use std::fmt::Write as _;

use super::Model;

/// Number of features listed as the most influential.
const SHOWN: usize = 10;

impl Model {
    /// Description for people, in lines.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let learner = self.learner();
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}: {}", learner.name(), learner.summary());
        let _ = writeln!(text, "from: {}", learner.source());
        let parameters: Vec<String> = self.parameters().iter().map(|(name, value)| format!("{name} {value}")).collect();
        let _ = writeln!(text, "hyper-parameters: {}", parameters.join(", "));
        training(self, &mut text);
        let _ = writeln!(text);
        self.classifier().describe(&self.names(), &mut text);
        influence(self, &mut text);
        text
    }
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
