//! Performance of a phase, as it is compared and stored: throughput, response time and fairness, rounded to four digits.

use std::borrow::Borrow;

use serde::{Deserialize, Serialize};

use crate::merit;
use crate::preference::Preference;
use crate::window::WindowOutcome;

/// The performance of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Performance {
    /// Bytes per second.
    pub throughput: f32,
    /// Mean response time in seconds.
    pub response_s: f32,
    /// Jain's index.
    pub fairness: f32,
    /// Whether a stream waited longer than allowed ([`starves`](crate::starvation::starves)).
    #[serde(default)]
    pub starves: bool,
}

impl Performance {
    /// The performance over these windows; `None` if no request completed.
    pub fn of<W: Borrow<WindowOutcome>>(outcomes: impl IntoIterator<Item = W>) -> Option<Performance> {
        let (mut bytes, mut seconds, mut waited, mut done, mut fairness) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for outcome in outcomes {
            let outcome = outcome.borrow();
            let length = outcome.duration.as_secs_f64();
            let (bytes_per_s, waited_s) = outcome.judged();
            let of_requests = if outcome.waited_for > 0 { outcome.waited_for } else { outcome.requests };
            let counted = outcome.calls.map_or(of_requests, |calls| calls.done) as f64;
            if counted > 0.0 {
                bytes += bytes_per_s * length;
                waited += waited_s * counted;
                done += counted;
            }
            seconds += length;
            fairness += outcome.fairness * length;
        }
        (done > 0.0).then(|| Performance {
            throughput: four_digits(bytes / seconds),
            response_s: four_digits(waited / done),
            fairness: four_digits(fairness / seconds),
            starves: false,
        })
    }

    /// Whether all values are numbers and none is negative.
    pub fn is_sound(&self) -> bool {
        [self.throughput, self.response_s, self.fairness].iter().all(|value| value.is_finite() && *value >= 0.0)
    }

    /// The score of this performance ([`merit::score`]).
    pub fn score(&self, preference: &Preference) -> f64 {
        merit::score(preference, self.throughput.into(), self.response_s.into(), self.fairness.into())
    }
}

/// Converts a described window to the stored form; `None` for missing values.
pub fn stored_features(row: impl IntoIterator<Item = f64>) -> Vec<Option<f32>> {
    row.into_iter().map(|value| Some(four_digits(value)).filter(|value| value.is_finite())).collect()
}

/// Rounds to four digits; more would only make the file larger.
fn four_digits(value: f64) -> f32 {
    if value == 0.0 || !value.is_finite() {
        return value as f32;
    }
    let step = 10f64.powf(value.abs().log10().floor() - 3.0);
    ((value / step).round() * step) as f32
}

/// Result of a trial of a setting.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrialScore {
    /// Throughput, response time, fairness.
    pub served: Performance,
    /// The longest wait divided by its [bound](crate::starvation::bound_s); above 1 a stream starves.
    pub wait_ratio: f64,
}

/// Subtracted from the score of a setting that starves a stream; larger than the difference of any two settings. Choice: a factor of 4.9 ×
/// 10⁸ in merit, still far from the rounding of scores; not varied.
const STARVED: f64 = 20.0;

impl TrialScore {
    /// The score for ranking: a setting that starves a stream ranks behind every one that does not.
    pub fn score(&self, preference: &Preference) -> f64 {
        self.served.score(preference) - if self.starves() { STARVED } else { 0.0 }
    }

    /// Whether a stream waited beyond its bound.
    pub fn starves(&self) -> bool {
        self.wait_ratio > 1.0
    }
}
