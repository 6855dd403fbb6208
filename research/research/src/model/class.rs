//! The predicted class of a row: the one with the largest score.

use super::calibrate::softmax;

/// Index of the largest value; the first of equals.
pub fn largest(values: &[f64]) -> usize {
    values.iter().enumerate().fold(0, |best, (index, value)| if *value > values[best] { index } else { best })
}

/// Converts scores to probabilities and returns the most probable class.
pub fn decide(scores: &mut [f64], temperature: f64) -> usize {
    let class = largest(scores);
    softmax(scores, temperature);
    class
}
