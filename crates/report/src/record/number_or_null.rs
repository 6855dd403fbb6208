//! Reads `null`, which `serde_json` writes for numbers that are not finite.

use serde::{Deserialize, Deserializer};

fn number(value: Option<f64>) -> f64 {
    value.unwrap_or(f64::NAN)
}

pub(super) fn one<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Option::deserialize(deserializer).map(number)
}

pub(super) fn many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<f64>, D::Error> {
    let values = Vec::<Option<f64>>::deserialize(deserializer)?;
    Ok(values.into_iter().map(number).collect())
}

pub(super) fn pairs<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(f64, f64)>, D::Error> {
    let values = Vec::<(Option<f64>, Option<f64>)>::deserialize(deserializer)?;
    Ok(values.into_iter().map(|(x, y)| (number(x), number(y))).collect())
}
