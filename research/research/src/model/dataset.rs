//! Labelled rows for training and evaluation.

use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use serde::{Deserialize, Serialize};

use super::ModelError;

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
    /// Weight of each row, 0 or more; empty: equal weights. Only ratios matter.
    #[serde(default)]
    pub weights: Vec<f64>,
    /// The group of each row, such as the run that a window belongs to; empty if every row is its own group. Cross-validation never splits
    /// a group: other windows of the same run would make the test too easy.
    #[serde(default)]
    pub groups: Vec<u64>,
}

impl Dataset {
    /// Checks that it is suitable for training.
    ///
    /// # Errors
    /// No rows, no features, a duplicate name, lists of different lengths, a label without a class, an infinite value, or an invalid
    /// weight.
    pub fn check(&self) -> Result<(), ModelError> {
        let wrong = |message: String| Err(ModelError::Dataset(message));
        if self.rows.is_empty() {
            return wrong("no rows; should have at least one".to_owned());
        }
        if self.features.is_empty() {
            return wrong("no features; should have at least one".to_owned());
        }
        for (what, names) in [("feature", &self.features), ("class", &self.classes)] {
            let mut sorted: Vec<&String> = names.iter().collect();
            sorted.sort();
            if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
                return wrong(format!("duplicate {what} '{}'", pair[0]));
            }
        }
        let optional = [("weights", self.weights.len()), ("groups", self.groups.len())];
        let lengths = [("labels", self.labels.len())].into_iter().chain(optional.into_iter().filter(|(_, length)| *length > 0));
        for (what, length) in lengths {
            if length != self.rows.len() {
                return wrong(format!("{length} {what} for {} rows; there should be one for each", self.rows.len()));
            }
        }
        self.check_rows()
    }

    fn check_rows(&self) -> Result<(), ModelError> {
        let wrong = |number: usize, message: String| Err(ModelError::Dataset(format!("row {}: {message}", number + 1)));
        for (number, row) in self.rows.iter().enumerate() {
            if row.len() != self.features.len() {
                return wrong(number, format!("{} values for {} features", row.len(), self.features.len()));
            }
            if let Some(column) = row.iter().position(|value| value.is_infinite()) {
                return wrong(
                    number,
                    format!("{} is {}; it should be finite, or NaN if missing", self.features[column], row[column]),
                );
            }
        }
        if let Some(number) = self.labels.iter().position(|&label| label >= self.classes.len()) {
            return wrong(number, format!("class {} of {}; they count from 0", self.labels[number], self.classes.len()));
        }
        if let Some(number) = self.weights.iter().position(|weight| !(weight.is_finite() && *weight >= 0.0)) {
            return wrong(number, format!("weight {} should be 0 or more", self.weights[number]));
        }
        if !self.weights.is_empty() && self.weights.iter().all(|weight| *weight == 0.0) {
            return Err(ModelError::Dataset("every row has weight 0; at least one should count".to_owned()));
        }
        Ok(())
    }
}

/// Training rows, prepared for a learner, with weights whose mean is 1. Each class has at least one row.
#[derive(Clone, Debug)]
pub struct Examples {
    /// One value per feature; NaN where missing, if the learner's preparation allows that.
    pub rows: Vec<Vec<f64>>,
    /// The class of each row.
    pub labels: Vec<usize>,
    /// Weight of each row.
    pub weights: Vec<f64>,
    /// Group of each row.
    pub groups: Vec<u64>,
    /// Number of classes.
    pub classes: usize,
}

impl Examples {
    /// The rows of a data set with positive weight; `balanced` gives every class the same total weight. Classes without rows are omitted:
    /// the second value maps each class to its index in the data set.
    pub fn of(data: &Dataset, balanced: bool) -> (Examples, Vec<usize>) {
        let weight = |row: usize| data.weights.get(row).copied().unwrap_or(1.0);
        // Relative to the largest, as a sum of huge weights could be infinite.
        let largest = (0..data.rows.len()).map(weight).fold(0.0, f64::max);
        let kept: Vec<usize> = (0..data.rows.len()).filter(|&row| weight(row) / largest > 0.0).collect();
        let examples = Examples {
            rows: kept.iter().map(|&row| data.rows[row].clone()).collect(),
            labels: kept.iter().map(|&row| data.labels[row]).collect(),
            weights: kept.iter().map(|&row| weight(row) / largest).collect(),
            groups: kept.iter().map(|&row| data.groups.get(row).copied().unwrap_or(row as u64)).collect(),
            classes: data.classes.len(),
        };
        let (mut examples, present) = examples.compact();
        if balanced {
            let totals = examples.class_weights();
            for (weight, &label) in examples.weights.iter_mut().zip(&examples.labels) {
                *weight /= totals[label];
            }
        }
        let mean = examples.weights.iter().sum::<f64>() / examples.weights.len() as f64;
        examples.weights.iter_mut().for_each(|weight| *weight /= mean);
        (examples, present)
    }

    /// The rows with these indices, in this order. Classes keep their numbers, even without rows.
    pub fn subset(&self, indices: &[usize]) -> Examples {
        Examples {
            rows: indices.iter().map(|&index| self.rows[index].clone()).collect(),
            labels: indices.iter().map(|&index| self.labels[index]).collect(),
            weights: indices.iter().map(|&index| self.weights[index]).collect(),
            groups: indices.iter().map(|&index| self.groups[index]).collect(),
            classes: self.classes,
        }
    }

    /// Renumbers the classes that have rows from 0. The second value maps each to its former number.
    pub fn compact(mut self) -> (Examples, Vec<usize>) {
        let counts = self.class_counts();
        let present: Vec<usize> = (0..self.classes).filter(|&class| counts[class] > 0).collect();
        let mut number = vec![0; self.classes];
        present.iter().enumerate().for_each(|(new, &old)| number[old] = new);
        self.labels.iter_mut().for_each(|label| *label = number[*label]);
        self.classes = present.len();
        (self, present)
    }

    /// Rows of each class.
    pub fn class_counts(&self) -> Vec<usize> {
        let mut counts = vec![0; self.classes];
        self.labels.iter().for_each(|&label| counts[label] += 1);
        counts
    }

    /// Weight of each class.
    pub fn class_weights(&self) -> Vec<f64> {
        let mut totals = vec![0.0; self.classes];
        self.labels.iter().zip(&self.weights).for_each(|(&label, weight)| totals[label] += weight);
        totals
    }

    /// Number of features.
    pub fn features(&self) -> usize {
        self.rows.first().map_or(0, Vec::len)
    }

    /// At most `limit` rows, drawn such that every class keeps its share (and at least one row), in the original order.
    pub fn sample(&self, limit: usize, seed: u64) -> Examples {
        if self.rows.len() <= limit {
            return self.clone();
        }
        let mut order: Vec<usize> = (0..self.rows.len()).collect();
        order.shuffle(&mut Xoshiro256PlusPlus::seed_from_u64(seed));
        let share = limit as f64 / self.rows.len() as f64;
        let mut left: Vec<usize> = self.class_counts().iter().map(|&count| ((count as f64 * share) as usize).max(1)).collect();
        order.retain(|&row| {
            let room = &mut left[self.labels[row]];
            let is_kept = *room > 0;
            *room = room.saturating_sub(1);
            is_kept
        });
        order.sort_unstable();
        self.subset(&order)
    }
}
