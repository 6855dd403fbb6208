//! The result of a case.

use serde::{Deserialize, Serialize};

/// The result of a case: what the plan does not say of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Its number.
    pub case: u64,
    /// Its setting, as `--scheduler` takes it.
    pub setting: String,
    /// SHA-256 of its load's bytes; empty if it could not be read.
    pub load_sha256: String,
    /// Why there are no figures; `None` if there are.
    pub error: Option<String>,
    /// Its [figures](super::columns::names).
    pub figures: Vec<Option<f64>>,
}
