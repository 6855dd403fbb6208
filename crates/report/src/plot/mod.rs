//! The page's plots, each a function from a comparison to SVG.
//!
//! The SVG is written here, not by a plotting crate. Measured on `plotters` 0.3: it writes one `<circle>` of about 80 bytes per
//! point (24,000 points: 1.9 MB; here 0.3 MB), whole-pixel coordinates, and colours and fonts in every element, where neither
//! dark mode nor print can change them.

mod in_force;
mod order;
pub mod panel;
mod predictions;
mod response;
pub mod scale;
mod streams;
mod tenants;
mod throughput;

pub(crate) use in_force::in_force;
pub(crate) use order::{Order, order};
pub(crate) use predictions::kept_predictions;
pub(crate) use response::{distribution, over_time as response_over_time, tail};
pub(crate) use streams::{Stream, busiest, response_dots, slowdown_dots};
pub(crate) use tenants::{TenantPanels, tenants};
pub(crate) use throughput::over_time as throughput_over_time;

use crate::number;
use crate::record::Record;
use crate::text::printable;
use panel::{Axis, Size};
use scale::Scale;

/// Half of the page's width.
const HALF: Size = Size { width: 480.0, height: 330.0, left: 58.0 };
/// A third of it: for one panel per scheduler.
pub(crate) const SMALL: Size = Size { width: 360.0, height: 220.0, left: 48.0 };

/// Number of colours of the style sheet: classes `c0` to `c6`.
pub const COLOURS: usize = 7;
/// Dashes of the style sheet, and shapes of marks.
const STYLES: usize = 4;
/// Outlines of the marks as SVG paths around (0, 0): circle, square, diamond, triangle, each about ten wide.
pub const OUTLINES: [&str; STYLES] =
    ["M-5 0a5 5 0 1 0 10 0a5 5 0 1 0 -10 0Z", "M-4.5 -4.5H4.5V4.5H-4.5Z", "M0 -6L6 0L0 6L-6 0Z", "M0 -5.5L5.5 4.5H-5.5Z"];
/// Maximum number of bins of a curve over time; more are combined.
pub(crate) const BINS: usize = 400;

/// The classes that give the n-th scheduler its colour and dash: 28 differ.
pub(crate) fn classes(scheduler: usize) -> String {
    format!("c{} d{}", scheduler % COLOURS, style(scheduler))
}

/// The outline of the n-th scheduler's mark.
pub(crate) fn outline(scheduler: usize) -> &'static str {
    OUTLINES[style(scheduler)]
}

fn style(scheduler: usize) -> usize {
    (scheduler % COLOURS + scheduler / COLOURS) % STYLES
}

fn label(record: &Record) -> String {
    printable(&record.scheduler.label)
}

/// The stride that leaves at most `limit` of `len` items.
pub(crate) fn stride(len: usize, limit: usize) -> usize {
    len.div_ceil(limit.max(1)).max(1)
}

/// The middle of each of the bins, with the value that `put_together` computes from the values in it.
fn binned<T>(values: &[T], bin_s: f64, put_together: impl Fn(&[T]) -> Option<f64>) -> Vec<Option<(f64, f64)>> {
    let stride = stride(values.len(), BINS);
    let middle = |i: usize, len: usize| ((i * stride) as f64 + len as f64 / 2.0) * bin_s;
    let bins = values.chunks(stride).enumerate();
    bins.map(|(i, bin)| put_together(bin).map(|value| (middle(i, bin.len()), value))).collect()
}

/// From the start to the end of the longest run; `None` if no curve over time was recorded.
fn time_axis(records: &[Record]) -> Option<Axis> {
    let ends = records.iter().map(|record| record.curves.throughput_mb_s.len() as f64 * record.curves.bin_s);
    let end = ends.filter(|&end| end > 0.0 && scale::drawable(end)).max_by(f64::total_cmp)?;
    let scale = Scale::exact([0.0, end].into_iter())?;
    Some(Axis { scale, title: "time, s", tick: number::short })
}

fn percent(share: f64) -> String {
    format!("{}%", number::short(share * 100.0))
}
