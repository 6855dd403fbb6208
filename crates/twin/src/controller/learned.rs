//! What a model of gains expects of each arm ([`control::gain_model`]): known after a few seconds of a load, and without any forecast.

use std::sync::Arc;

use block::Nanos;
use control::Window;
use control::ab_test::Estimate;
use control::gain_model::{GainModel, LoadSummary};

use super::TwinController;

/// How the errors of forecasts and of the model correlate: loads that one misjudges are hard for the other, too.
const CORRELATION: f64 = 0.3;

/// The model, and what it says of the present load.
#[derive(Debug)]
pub(super) struct Learned {
    model: Arc<GainModel>,
    /// The load under the active arm, from when on.
    summary: LoadSummary,
    from: Nanos,
    under: usize,
    /// The expected gain of each arm over the original one; empty until the load is known.
    expected: Vec<Option<Estimate>>,
}

impl Learned {
    pub fn new(model: Arc<GainModel>) -> Learned {
        Learned { model, summary: LoadSummary::default(), from: Nanos::ZERO, under: 0, expected: Vec::new() }
    }

    /// Another load begins.
    pub fn begin_load(&mut self) {
        self.summary = LoadSummary::default();
        self.expected.clear();
    }
}

impl TwinController {
    /// Takes in a window under the active arm, outside of trials. Where the twin forecasts nothing, what the model expects is what is known.
    pub(super) fn observe_for_model(&mut self, window: &Window) {
        let from = self.observed_from();
        if self.learned.model.preference != self.preference || window.from < from || self.trying.trial.is_some() {
            return;
        }
        if (self.learned.under, self.learned.from) != (self.active, from) {
            (self.learned.under, self.learned.from) = (self.active, from);
            self.learned.summary = LoadSummary::default();
        }
        self.learned.summary.add(&window.features, &window.outcome);
        let Some(row) = self.learned.summary.row(self.setting()) else { return };
        let gains = self.learned.model.expect(&row);
        let of = |arm: usize| gains.get(self.learned.model.index_of(&self.arms[arm].setting)?).copied();
        let Some(of_original) = of(self.original) else { return };
        let over_original =
            |gain: Estimate| Estimate { mean: gain.mean - of_original.mean, error: gain.error.max(of_original.error) };
        self.learned.expected = (0..self.arms.len()).map(|arm| of(arm).map(over_original)).collect();
        if self.trying.evidence.is_none() {
            let known = |arm: usize| Some((arm, self.learned_gain(arm)?));
            let gains: Vec<(usize, Estimate)> = (0..self.arms.len()).filter_map(known).collect();
            self.trying.trials.expect(gains);
        }
    }

    /// What the model expects of an arm; `None` if it does not know it, or not the load.
    pub(super) fn learned_gain(&self, arm: usize) -> Option<Estimate> {
        self.learned.expected.get(arm).copied().flatten()
    }

    /// A forecast gain of an arm, with what the model expects of it.
    pub(super) fn with_learned(&self, arm: usize, forecast: Estimate) -> Estimate {
        self.learned_gain(arm).map_or(forecast, |learned| combined(forecast, learned))
    }
}

/// Two estimates of the same gain as one, of least variance where their errors correlate by [`CORRELATION`].
fn combined(a: Estimate, b: Estimate) -> Estimate {
    let common = CORRELATION * a.error * b.error;
    let apart = a.error.powi(2) + b.error.powi(2) - 2.0 * common;
    if apart <= 0.0 {
        return a;
    }
    let share = ((b.error.powi(2) - common) / apart).clamp(0.0, 1.0);
    let variance = (share * a.error).powi(2) + ((1.0 - share) * b.error).powi(2) + 2.0 * share * (1.0 - share) * common;
    Estimate { mean: share * a.mean + (1.0 - share) * b.mean, error: variance.sqrt() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_surer_estimate_counts_more_and_together_they_are_surer() {
        let (sure, unsure) = (Estimate { mean: 0.1, error: 0.05 }, Estimate { mean: -0.3, error: 0.2 });
        let both = combined(sure, unsure);
        assert!(both.mean > 0.05 && both.mean < 0.1 && both.error <= sure.error, "{both:?}");
        assert_eq!(combined(sure, unsure), combined(unsure, sure));
        let alike = combined(sure, Estimate { mean: 0.2, error: 0.05 });
        assert!((alike.mean - 0.15).abs() < 1e-9 && alike.error > 0.05 / 2f64.sqrt(), "{alike:?}");
    }
}
