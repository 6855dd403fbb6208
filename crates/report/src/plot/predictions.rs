//! Predicted gains of a controller's changes, with error bars, against the measured ones.

use super::panel::{Axis, Mark, Panel, Size};
use super::scale::Scale;
use super::{OUTLINES, label};
use crate::comparison::Comparison;
use crate::gains::{signed, with_error};
use crate::number::{self, grouped};
use crate::record::{ControlRecord, Decision, PredictionFigures, Record};
use crate::text::printable;

/// Maximum number of changes to draw, the first ones.
const ROWS: usize = 30;
/// Height of a row, and of the margins above and below.
const ROW: f64 = 20.0;
const AROUND: f64 = 90.0;
/// Upper bound of drawn gains, tenfold: a longer tail would squeeze all others together.
const MOST_PERCENT: f64 = 1000.0;

/// A change with a prediction and a measurement.
struct Row<'a> {
    decision: &'a Decision,
    prediction: &'a PredictionFigures,
    measured: f64,
}

/// One panel per controller whose changes have predictions.
pub(crate) fn kept_predictions(comparison: &Comparison) -> Vec<String> {
    let steered = comparison.records().iter().filter_map(|record| Some((record, record.steering.as_ref()?)));
    steered.filter_map(|(record, steering)| panel(record, steering)).collect()
}

fn panel(record: &Record, steering: &ControlRecord) -> Option<String> {
    let all: Vec<Row> = steering.decisions.iter().filter_map(row).collect();
    let rows = &all[..all.len().min(ROWS)];
    let cut = |value: f64| value.clamp(-MOST_PERCENT, MOST_PERCENT);
    let bar = |row: &Row| {
        let PredictionFigures { gain_percent, error_percent, .. } = *row.prediction;
        (cut(gain_percent - error_percent), cut(gain_percent + error_percent))
    };
    let values = rows.iter().flat_map(|row| [bar(row).0, bar(row).1, cut(row.measured)]);
    // Without a measured change there is no scale, and nothing to draw.
    let x = Axis { scale: Scale::from_zero(values.take(3 * rows.len()))?, title: "gain, %", tick: number::short };
    if rows.is_empty() {
        return None;
    }
    let size = Size { width: 480.0, height: AROUND + ROW * rows.len() as f64, left: 190.0 };
    let mut panel = Panel::new(size, &x, None);
    for (number, row) in rows.iter().enumerate() {
        let name = format!("{} s {}", number::three_digits(row.decision.at_s), printable(&row.decision.to));
        panel.bars((number, rows.len()), &name, "promise", &[bar(row)]);
        let mark = |class: &str, outline: &'static str, value: f64, tip: String| Mark {
            class: class.to_owned(),
            outline,
            value: cut(value),
            tip,
        };
        let predicted = with_error(row.prediction.gain_percent, row.prediction.error_percent);
        let marks = [
            mark("promised", OUTLINES[2], row.prediction.gain_percent, format!("{name}: predicted {predicted}")),
            mark("measured", OUTLINES[0], row.measured, format!("{name}: measured {}", signed(row.measured))),
        ];
        panel.row((number, rows.len()), "", &marks);
    }
    let within =
        all.iter().filter(|row| (row.measured - row.prediction.gain_percent).abs() <= 2.0 * row.prediction.error_percent).count();
    let note = format!("{} of {} within two errors", grouped(within as u64), grouped(all.len() as u64));
    let description = format!("Predicted and measured gains of the changes by {}: {note}.", label(record));
    Some(panel.finish("", &label(record), &note, &description))
}

fn row(decision: &Decision) -> Option<Row<'_>> {
    let prediction = decision.prediction().filter(|_| decision.is_change())?;
    let measured = decision.measured_gain_percent.filter(|percent| percent.is_finite())?;
    (prediction.gain_percent.is_finite() && prediction.error_percent.is_finite()).then_some(Row { decision, prediction, measured })
}
