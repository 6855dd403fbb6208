//! The result of a case.

use serde::{Deserialize, Serialize};

/// The result of a case, without its part of the plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Case number.
    pub case: u64,
    /// Setting, in the syntax of `--scheduler`.
    pub setting: String,
    /// SHA-256 of the load's bytes; empty if the load could not be read.
    pub load_sha256: String,
    /// Why the case failed; `None` if it has figures.
    pub error: Option<String>,
    /// Values of the figures, in their order.
    pub figures: Vec<Option<f64>>,
}
