//! Performance as it is compared and stored: throughput, response time and fairness, in four digits.

use serde::{Deserialize, Serialize};

use crate::merit;
use crate::preference::Preference;
use crate::window::WindowOutcome;

/// The performance of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Served {
    /// Bytes per second.
    pub throughput: f32,
    /// Mean response time in seconds.
    pub response_s: f32,
    /// Jain's index.
    pub fairness: f32,
    /// A stream waited longer than allowed ([`merit::starves`]).
    #[serde(default)]
    pub starves: bool,
}

impl Served {
    /// The performance over all these windows; `None` if no request completed in them.
    pub fn of<'a>(outcomes: impl IntoIterator<Item = &'a WindowOutcome>) -> Option<Served> {
        let (mut bytes, mut seconds, mut waited, mut done, mut fairness) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for outcome in outcomes {
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
        (done > 0.0).then(|| Served {
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

/// Converts a row to the form stored in a [`Case`].
pub fn noted(row: impl IntoIterator<Item = f64>) -> Vec<Option<f32>> {
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

/// How a genome served.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rated {
    /// Throughput, response time, fairness.
    pub served: Served,
    /// The longest wait by its [bound](observe::merit::bound_s); above 1 a stream starves.
    pub by_bound: f64,
}

/// A setting that starves a stream ranks behind all that do not: this much is taken off its score, more than any two settings differ.
const STARVED: f64 = 20.0;

impl Rated {
    /// [Merit](observe::merit) as one number, in which a setting that starves a stream is behind every one that does not.
    pub fn score(&self, preference: &Preference) -> f64 {
        self.served.score(preference) - if self.starves() { STARVED } else { 0.0 }
    }

    /// Whether a stream waits for longer than [merit](observe::merit) allows.
    pub fn starves(&self) -> bool {
        self.by_bound > 1.0
    }
}
