//! Advice as one self-contained HTML page.

use askama::Template;

use super::advised;
use crate::advice::{Advice, Measured, Overload};
use crate::effects::{self, Effect, EffectFigures};
use crate::gains::with_error;
use crate::number::three_digits;
use crate::record::PredictionFigures;
use crate::text::printable;

/// The page's text. The same advice always gives the same bytes.
pub fn html(advice: &Advice) -> String {
    let page = Page {
        advice,
        candidates_plot: advised::advised(advice),
        phases_plot: advised::phases(advice),
        overload: advice.overload.as_ref().map(Overload::warning),
        effects: effects::sentences(&advice.aims, &advice.effects, advice.verdict.is_change),
        effect_rows: advice.effects.iter().map(effect_row).collect(),
        measured: advice.measured.iter().map(Measured::text).collect(),
        summary: advice.summary(),
        rows: advice.candidates.iter().map(|promise| row(advice, promise)).collect(),
        phases: advice
            .phases
            .iter()
            .map(|phase| (phase.cells(), phase.streams.iter().map(|one| printable(one)).collect()))
            .collect(),
    };
    #[expect(clippy::expect_used, reason = "the template formats strings only, and writing to a String does not fail")]
    page.render().expect("the page's template formats strings only")
}

fn row(advice: &Advice, promise: &PredictionFigures) -> (String, Vec<String>, bool) {
    let label = match advice.note(promise) {
        "" => printable(&promise.setting),
        note => format!("{} ({note})", printable(&promise.setting)),
    };
    let gain = with_error(promise.gain_percent, promise.error_percent);
    let cells = [promise.throughput_mb_s, promise.response_ms, promise.p99_by_bound].map(three_digits);
    (label, cells.into_iter().chain([gain]).collect(), promise.setting == advice.verdict.setting)
}

fn effect_row(effect: &Effect) -> (String, Vec<String>) {
    let Effect { active, recommended, best, .. } = effect;
    let times = |figures: &EffectFigures| [figures.mean_ms, figures.p99_ms].map(three_digits);
    let best = best.as_ref().map_or_else(
        || "–".to_owned(),
        |(setting, best)| format!("{}: {} ({})", printable(setting), three_digits(best.mean_ms), three_digits(best.p99_ms)),
    );
    let cells = times(active).into_iter().chain(times(recommended)).chain([best]);
    (format!("{} {}", printable(&effect.stream), effect.kind), cells.collect())
}

#[derive(Template)]
#[template(path = "advice.html")]
struct Page<'a> {
    advice: &'a Advice,
    candidates_plot: Option<String>,
    phases_plot: Option<String>,
    overload: Option<String>,
    effects: Vec<String>,
    effect_rows: Vec<(String, Vec<String>)>,
    measured: Vec<String>,
    summary: String,
    rows: Vec<(String, Vec<String>, bool)>,
    phases: Vec<([String; 6], Vec<String>)>,
}
