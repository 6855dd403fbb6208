//! Predicted gains of candidates for a load, and its phases over time.

use crate::advice::Advice;
use crate::gains::{signed, with_error};
use crate::number::{self, grouped};
use crate::plot::panel::{Axis, Mark, Panel, Size};
use crate::plot::scale::Scale;
use crate::plot::{COLOURS, OUTLINES};
use crate::record::PredictionFigures;
use crate::text::printable;

/// Maximum number of rows.
const ROWS: usize = 24;
/// Height of a row, and of the margins above and below.
const ROW: f64 = 20.0;
const AROUND: f64 = 90.0;
/// Upper bound of drawn gains: tenfold.
const MOST_PERCENT: f64 = 1000.0;

fn cut(value: f64) -> f64 {
    value.clamp(-MOST_PERCENT, MOST_PERCENT)
}

/// A row per candidate: its prediction with the error, and the measured gain if it was simulated.
pub(super) fn advised(advice: &Advice) -> Option<String> {
    let drawn = |promise: &&PredictionFigures| promise.gain_percent.is_finite() && promise.error_percent.is_finite();
    let rows: Vec<&PredictionFigures> = advice.candidates.iter().filter(drawn).take(ROWS).collect();
    let bar = |promise: &PredictionFigures| {
        (cut(promise.gain_percent - promise.error_percent), cut(promise.gain_percent + promise.error_percent))
    };
    let measured = |promise: &PredictionFigures| {
        let of_it = advice.measured.iter().find(|one| one.setting == promise.setting);
        of_it.map(|one| one.gain_percent).filter(|percent| percent.is_finite())
    };
    let values = rows.iter().flat_map(|promise| [bar(promise).0, bar(promise).1, cut(measured(promise).unwrap_or_default())]);
    let x = Axis { scale: Scale::from_zero(values)?, title: "gain, %", tick: number::short };
    if rows.is_empty() {
        return None;
    }
    let size = Size { width: 480.0, height: AROUND + ROW * rows.len() as f64, left: 210.0 };
    let mut panel = Panel::new(size, &x, None);
    for (number, promise) in rows.iter().enumerate() {
        let name = printable(&promise.setting);
        panel.bars((number, rows.len()), &name, "promise", &[bar(promise)]);
        let promised = with_error(promise.gain_percent, promise.error_percent);
        let mut marks = vec![Mark {
            class: "promised".to_owned(),
            outline: OUTLINES[2],
            value: cut(promise.gain_percent),
            tip: format!("{name}: predicted {promised}"),
        }];
        marks.extend(measured(promise).map(|gain| Mark {
            class: "measured".to_owned(),
            outline: OUTLINES[0],
            value: cut(gain),
            tip: format!("{name}: simulated in full {}", signed(gain)),
        }));
        panel.row((number, rows.len()), "", &marks);
    }
    let note = format!("over {}", printable(&advice.in_force));
    Some(panel.finish("", "gain", &note, "Predicted gain of each candidate, with its error."))
}

/// A row per phase, with bars where it occurs.
pub(super) fn phases(advice: &Advice) -> Option<String> {
    let rows = &advice.phases[..advice.phases.len().min(ROWS)];
    let x = Axis { scale: Scale::exact([0.0, advice.lasts_s].into_iter())?, title: "time, s", tick: number::short };
    if rows.is_empty() {
        return None;
    }
    let size = Size { width: 480.0, height: AROUND + ROW * rows.len() as f64, left: 60.0 };
    let mut panel = Panel::new(size, &x, None);
    for (number, phase) in rows.iter().enumerate() {
        panel.bars((number, rows.len()), &phase.number.to_string(), &format!("c{}", number % COLOURS), &phase.spans_s);
    }
    let note = format!("{} phases", grouped(advice.phases.len() as u64));
    Some(panel.finish("", "phases", &note, "Phases of the load over time."))
}
