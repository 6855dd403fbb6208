//! Hyper-parameters: the candidates tried for each, and the values a user may set.

use std::collections::BTreeMap;

use super::{Learner, ModelError};

/// A hyper-parameter of a learner.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Name on the command line.
    pub name: &'static str,
    /// Its meaning in one sentence.
    pub doc: &'static str,
    /// Values that cross-validation tries, at least one. The first is the default; of equally good ones, the earlier wins.
    pub candidates: &'static [f64],
    /// Minimum.
    pub min: f64,
    /// Maximum.
    pub max: f64,
    /// Whether it must be a whole number.
    pub is_whole: bool,
}

impl Parameter {
    fn check(&self, value: f64) -> Result<(), String> {
        if !(self.min..=self.max).contains(&value) || (self.is_whole && value.fract() != 0.0) {
            let kind = if self.is_whole { "a whole number" } else { "a number" };
            return Err(format!("{} {value} should be {kind} from {} to {}", self.name, self.min, self.max));
        }
        Ok(())
    }
}

/// Every combination of the learner's candidates; a `fixed` hyper-parameter has only that value.
///
/// # Errors
/// A fixed hyper-parameter is unknown, or its value out of range.
pub fn combinations(learner: &dyn Learner, fixed: &BTreeMap<String, f64>) -> Result<Vec<Vec<f64>>, ModelError> {
    let wrong = |message: String| ModelError::Parameter { learner: learner.name(), message };
    let parameters = learner.parameters();
    if let Some(name) = fixed.keys().find(|name| parameters.iter().all(|parameter| parameter.name != name.as_str())) {
        let known: Vec<&str> = parameters.iter().map(|parameter| parameter.name).collect();
        let meant = block::did_you_mean(name, known.iter().copied());
        return Err(wrong(format!("unknown hyper-parameter '{name}'; known: {}{meant}", known.join(", "))));
    }
    let mut combinations = vec![Vec::new()];
    for parameter in parameters {
        let single = fixed.get(parameter.name).copied();
        if let Some(value) = single {
            parameter.check(value).map_err(wrong)?;
        }
        let candidates = single.as_ref().map_or(parameter.candidates, std::slice::from_ref);
        let with = |combination: &Vec<f64>| -> Vec<Vec<f64>> {
            candidates.iter().map(|&value| combination.iter().copied().chain([value]).collect()).collect()
        };
        combinations = combinations.iter().flat_map(with).collect();
    }
    Ok(combinations)
}
