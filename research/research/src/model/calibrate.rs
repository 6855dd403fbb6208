//! Calibrated confidences: one temperature per model ("On Calibration of Modern Neural Networks", Guo et al. 2017).
//!
//! Each learner's scores are divided by the temperature and passed through a softmax. The temperature maximizes the likelihood of
//! the held-out classes in cross-validation. Naive Bayes assumes independent features and is far too confident (a temperature
//! well above 1); a support vector machine has no probabilities of its own. Predictions do not change.

/// Range of temperatures that are searched, as natural logarithms.
const RANGE: (f64, f64) = (-3.0, 6.0);

/// Turns scores into probabilities, in place.
pub fn softmax(scores: &mut [f64], temperature: f64) {
    let highest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mut sum = 0.0;
    for score in scores.iter_mut() {
        *score = ((*score - highest) / temperature).exp();
        sum += *score;
    }
    scores.iter_mut().for_each(|score| *score /= sum);
}

/// A held-out row: scores, class, and weight.
#[derive(Clone, Debug)]
pub struct HeldOut {
    /// One score per class.
    pub scores: Vec<f64>,
    /// The correct class.
    pub class: usize,
    /// The weight of the row.
    pub weight: f64,
}

/// Weighted mean of -ln(probability of the correct class).
pub fn log_loss(held_out: &[HeldOut], temperature: f64) -> f64 {
    let loss = |row: &HeldOut| {
        let highest = row.scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = row.scores.iter().map(|score| ((score - highest) / temperature).exp()).sum();
        row.weight * (sum.ln() - (row.scores[row.class] - highest) / temperature)
    };
    held_out.iter().map(loss).sum::<f64>() / held_out.iter().map(|row| row.weight).sum::<f64>()
}

/// The temperature with the smallest loss, by golden-section search: the loss is convex in 1/temperature.
pub fn temperature(held_out: &[HeldOut]) -> f64 {
    let golden = (5f64.sqrt() - 1.0) / 2.0;
    let loss = |logarithm: f64| log_loss(held_out, logarithm.exp());
    let (mut low, mut high) = RANGE;
    for _ in 0..40 {
        let (left, right) = (high - golden * (high - low), low + golden * (high - low));
        if loss(left) <= loss(right) { high = right } else { low = left }
    }
    (0.5 * (low + high)).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seven_right_of_ten_is_a_confidence_of_seven_tenths() {
        let row = |is_right: bool| HeldOut { scores: vec![20.0, 0.0], class: usize::from(!is_right), weight: 1.0 };
        let held_out: Vec<HeldOut> = (0..10).map(|number| row(number < 7)).collect();
        let mut scores = [20.0, 0.0];
        softmax(&mut scores, temperature(&held_out));
        assert!((scores[0] - 0.7).abs() < 1e-3, "{scores:?}");
    }
}
