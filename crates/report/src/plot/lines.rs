//! A paper's lines, redrawn.

use super::panel::{Axis, Panel};
use super::scale::Scale;
use super::{BINS, SMALL, classes, stride};
use crate::number;
use crate::paper::{Curves, Line, Plot};
use crate::text::printable;

/// The plots of a figure, all with the same axes.
pub(crate) fn lines(curves: &Curves) -> Vec<String> {
    let points = || curves.plots.iter().flat_map(|plot| &plot.lines).flat_map(|line| &line.points);
    let xs = Scale::exact(points().map(|point| point.0));
    let (Some(xs), Some(ys)) = (xs, Scale::from_zero(points().map(|point| point.1))) else { return Vec::new() };
    let x = Axis { scale: xs, title: curves.x.title(), tick: number::short };
    let y = Axis { scale: ys, title: curves.y.title(), tick: number::short };
    curves.plots.iter().map(|plot| one(curves, plot, &x, &y)).collect()
}

fn one(curves: &Curves, plot: &Plot, x: &Axis, y: &Axis) -> String {
    let mut panel = Panel::new(SMALL, x, Some(y));
    for (number, line) in plot.lines.iter().enumerate() {
        panel.line(&classes(number), thinned(line), &printable(&line.name));
    }
    let name = printable(&plot.name);
    panel.finish("", &name, "", &format!("{}: {name}", printable(&curves.title)))
}

/// At most [`BINS`] of the points.
fn thinned(line: &Line) -> impl Iterator<Item = Option<(f64, f64)>> + '_ {
    line.points.iter().step_by(stride(line.points.len(), BINS)).map(|&point| Some(point))
}
