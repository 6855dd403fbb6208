//! What is learned from: labelled rows. The learners follow.

use serde::{Deserialize, Serialize};

/// Rows of features with a class each.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Dataset {
    /// Name of each column.
    pub features: Vec<String>,
    /// Name of each class.
    pub classes: Vec<String>,
    /// One value per feature; NaN where it is missing.
    pub rows: Vec<Vec<f64>>,
    /// The class of each row, as an index into `classes`.
    pub labels: Vec<usize>,
}
