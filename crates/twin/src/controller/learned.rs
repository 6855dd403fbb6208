//! Expected gains of the arms from a gain model ([`control::gain_model`]): available after a few seconds of a load, without a forecast.
//!
//! It is used only where the twin has no forecast, and only if it is [trusted](GainModel::is_trusted). Combining it with forecasts by their
//! errors did harm: over 144 random loads of the validation world the mean gain fell from 1.5 to 1.0%, while cases of more than 2% below
//! the default went from two to one. A large predicted gain is real in two of three cases and absent in the third; the model, which
//! predicts the mean over many loads, had a smaller error than that and kept such arms from being tried. (A scan on an old drive: forecast
//! +0.27 ± 0.48, model -0.05 ± 0.25, measured +0.61.)

use std::sync::Arc;

use block::Nanos;
use control::Window;
use control::ab_test::Estimate;
use control::gain_model::{GainModel, LoadSummary};

use super::{TwinController, sources};

/// The model, and its estimates for the present load.
#[derive(Debug)]
pub(super) struct Learned {
    model: Arc<GainModel>,
    /// Summary of the load under the active arm, the start of the summarized time, and that arm.
    summary: LoadSummary,
    from: Nanos,
    under: usize,
    /// The arm with the largest expected gain over the original one, from the latest estimate under this load; `None` without one.
    best: Option<(usize, Estimate)>,
}

impl Learned {
    pub fn new(model: Arc<GainModel>) -> Learned {
        Learned { model, summary: LoadSummary::default(), from: Nanos::ZERO, under: 0, best: None }
    }

    /// Whether there is an estimate for the present load.
    pub fn knows(&self) -> bool {
        self.best.is_some()
    }

    /// Resets the summary for another load.
    pub fn begin_load(&mut self) {
        (self.summary, self.best) = (LoadSummary::default(), None);
    }
}

impl TwinController {
    /// Adds a window under the active arm, outside of trials. Where the twin has no forecast, the model's estimates become the expected
    /// gains.
    pub(super) fn observe_for_model(&mut self, window: &Window) {
        let from = self.observed_from();
        let is_forecast = self.trying.evidence.is_some();
        if is_forecast
            || !self.priors.learned.model.is_trusted()
            || self.priors.learned.model.preference != self.preference
            || window.from < from
            || self.trying.trial.is_some()
        {
            return;
        }
        if (self.priors.learned.under, self.priors.learned.from) != (self.active, from) {
            (self.priors.learned.under, self.priors.learned.from) = (self.active, from);
            self.priors.learned.summary = LoadSummary::default();
        }
        self.priors.learned.summary.add(&window.features, &window.outcome);
        let Some(row) = self.priors.learned.summary.row(self.setting()) else { return };
        let gains = self.priors.learned.model.expect(&row);
        let of = |arm: usize| gains.get(self.priors.learned.model.index_of(&self.arms[arm].setting)?).copied();
        let Some(of_original) = of(self.original) else { return };
        let over_original =
            |gain: Estimate| Estimate { mean: gain.mean - of_original.mean, error: gain.error.max(of_original.error) };
        let gains: Vec<(usize, Estimate)> = (0..self.arms.len()).filter_map(|arm| Some((arm, over_original(of(arm)?)))).collect();
        let others = gains.iter().filter(|(arm, _)| *arm != self.original);
        self.priors.learned.best = others.max_by(|a, b| a.1.mean.total_cmp(&b.1.mean)).copied();
        let gains = self.with_fleet(gains);
        self.trying.trials.expect(gains);
    }

    /// The model's estimate for the setting with the largest expected gain, for display.
    pub(super) fn model_says(&self) -> String {
        let Some((arm, gain)) = &self.priors.learned.best else { return "not asked".to_owned() };
        format!("{} {}", self.arms[*arm].setting, sources::gain(gain))
    }
}
