//! Training rows.

use super::Leaf;

/// Minimum target, so that its logarithm is finite.
pub(super) const SMALLEST: f64 = 1e-9;
/// Maximum number of scales.
pub(super) const MOST_SCALES: usize = 6;

/// Training rows, by column.
#[derive(Clone, Debug, Default)]
pub struct Examples {
    /// The values of all rows, by feature; NaN if missing.
    pub columns: Vec<Vec<f64>>,
    /// The target; above zero.
    pub targets: Vec<f64>,
}

impl Examples {
    /// An empty set with this number of features.
    pub fn new(features: usize) -> Examples {
        Examples { columns: vec![Vec::new(); features], targets: Vec::new() }
    }

    /// Adds a row. A target that is not above zero counts as 1e-9.
    pub fn push(&mut self, row: &[f64], target: f64) {
        for (column, &value) in self.columns.iter_mut().zip(row) {
            column.push(value);
        }
        self.targets.push(if target > SMALLEST { target } else { SMALLEST });
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.targets.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.targets.is_empty()
    }

    /// The prediction of a leaf for a row.
    pub(super) fn answer(&self, leaf: &Leaf, row: u32) -> f64 {
        let x = if leaf.slope == 0.0 { 0.0 } else { self.columns[leaf.feature as usize][row as usize] };
        (leaf.base + leaf.slope * x).max(leaf.least).min(leaf.most)
    }

    /// Moves rows up to the threshold to the front, preserving the order, and returns their number.
    pub(super) fn partition(&self, rows: &mut [u32], feature: usize, threshold: f64) -> usize {
        let column = &self.columns[feature];
        let (below, above): (Vec<u32>, Vec<u32>) = rows.iter().partition(|&&row| column[row as usize] <= threshold);
        rows[..below.len()].copy_from_slice(&below);
        rows[below.len()..].copy_from_slice(&above);
        below.len()
    }
}
