//! What a model of gains expects of each arm ([`control::gain_model`]): known after a few seconds of a load, and without any forecast.
//!
//! It counts where the twin forecasts nothing, and only if it is [trusted](GainModel::is_trusted). Combined with forecasts by their errors it did
//! harm: over 144 drawn loads of the validation world the mean gain fell from 1.5 to 1.0%, while cases of more than 2% below the default went
//! from two to one. A large gain that is forecast comes in two of three and not at all in the third; the model, which expects the mean of many
//! loads, was surer than that and kept such arms from being tried. (A scan on an old drive: forecast +0.27 ± 0.48, model -0.05 ± 0.25, and the
//! arm gains 0.61.)

use std::sync::Arc;

use block::Nanos;
use control::Window;
use control::ab_test::Estimate;
use control::gain_model::{GainModel, LoadSummary};

use super::{TwinController, sources};

/// The model, and what it says of the present load.
#[derive(Debug)]
pub(super) struct Learned {
    model: Arc<GainModel>,
    /// The load under the active arm, from when on.
    summary: LoadSummary,
    from: Nanos,
    under: usize,
    /// The arm that was expected to gain most over the original one, when the model was asked last under this load.
    best: Option<(usize, Estimate)>,
}

impl Learned {
    pub fn new(model: Arc<GainModel>) -> Learned {
        Learned { model, summary: LoadSummary::default(), from: Nanos::ZERO, under: 0, best: None }
    }

    /// Whether it said what to expect under the present load.
    pub fn knows(&self) -> bool {
        self.best.is_some()
    }

    /// Another load begins.
    pub fn begin_load(&mut self) {
        (self.summary, self.best) = (LoadSummary::default(), None);
    }
}

impl TwinController {
    /// Takes in a window under the active arm, outside of trials. Where the twin forecasts nothing, what the model expects is what is known.
    pub(super) fn observe_for_model(&mut self, window: &Window) {
        let from = self.observed_from();
        let is_forecast = self.trying.evidence.is_some();
        if is_forecast
            || !self.learned.model.is_trusted()
            || self.learned.model.preference != self.preference
            || window.from < from
            || self.trying.trial.is_some()
        {
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
        let gains: Vec<(usize, Estimate)> = (0..self.arms.len()).filter_map(|arm| Some((arm, over_original(of(arm)?)))).collect();
        let others = gains.iter().filter(|(arm, _)| *arm != self.original);
        self.learned.best = others.max_by(|a, b| a.1.mean.total_cmp(&b.1.mean)).copied();
        let gains = self.with_fleet(gains);
        self.trying.trials.expect(gains);
    }

    /// What the model says of the setting that is expected to gain most, for display.
    pub(super) fn model_says(&self) -> String {
        let Some((arm, gain)) = &self.learned.best else { return "not asked".to_owned() };
        format!("{} {}", self.arms[*arm].setting, sources::gain(gain))
    }
}
