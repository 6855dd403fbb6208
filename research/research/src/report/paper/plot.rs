//! A paper's bar chart, redrawn: a panel per group, a row per bar.

use ::report::number::{self, three_digits};
use ::report::plot::panel::{Axis, Mark, Panel, Size};
use ::report::plot::scale::Scale;
use ::report::plot::{COLOURS, OUTLINES};
use ::report::verdict::NEGLIGIBLE_PERCENT;

use super::figure::{Best, Figure, Unit};

/// Height of a row, and of the margins above and below the rows.
const ROW: f64 = 22.0;
const AROUND: f64 = 94.0;
/// Room for the rows' names.
const LEFT: f64 = 146.0;

/// One group of a figure's first panel, with the paper's values as diamonds. `None` if there is nothing to draw.
pub fn series(figure: &Figure, group: usize) -> Option<String> {
    let values: Vec<Option<f64>> = (0..figure.series.len()).map(|series| figure.value(0, group, series)).collect();
    let stated: Vec<(usize, f64)> =
        figure.marks.iter().filter(|mark| mark.0 == group).map(|&(_, series, value)| (series, value)).collect();
    values.iter().flatten().next()?;
    // A share is compared most easily with the whole.
    let whole = (figure.unit == Unit::AccuracyPercent).then_some(100.0);
    let all = values.iter().flatten().copied().chain(stated.iter().map(|(_, value)| *value)).chain(whole);
    let x = Axis { scale: Scale::from_zero(all)?, title: figure.unit.title(), tick: number::short };
    let rows = figure.series.len();
    let size = Size { width: 360.0, height: AROUND + ROW * rows as f64, left: LEFT };
    let mut panel = Panel::new(size, &x, None);
    for (row, name) in figure.series.iter().enumerate() {
        let bar: Vec<(f64, f64)> = values[row].map(|value| (0.0, value)).into_iter().collect();
        panel.bars((row, rows), name, &format!("c{}", row % COLOURS), &bar);
        let mark = |&(_, value): &(usize, f64)| Mark {
            class: "stated".to_owned(),
            outline: OUTLINES[2],
            value,
            tip: format!("{name}, the paper: {}", three_digits(value)),
        };
        let marks: Vec<Mark> = stated.iter().filter(|(series, _)| *series == row).map(mark).collect();
        panel.row((row, rows), "", &marks);
    }
    let name = &figure.groups[group];
    let best = match figure.best(group, rows) {
        Best::None => String::new(),
        Best::All(_) => format!("all within {NEGLIGIBLE_PERCENT}%"),
        Best::One(best) => format!("best {}", values[best].map_or_else(String::new, three_digits)),
        Best::Some(tied) => format!("best {} of {rows}, within {NEGLIGIBLE_PERCENT}%", tied.len()),
    };
    Some(panel.finish("", name, &best, &format!("{}: {name}", figure.title)))
}
