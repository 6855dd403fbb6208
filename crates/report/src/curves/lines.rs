//! Draws a figure of line plots.

use super::{Curves, Line, Plot};
use crate::number;
use crate::plot::panel::{Axis, Panel};
use crate::plot::scale::Scale;
use crate::plot::{BINS, SMALL, classes, stride};
use crate::text::printable;

/// A figure of line plots for pages (`curves.html`). Texts are printable, but not escaped for HTML.
pub struct CurvesPart {
    /// The figure's title.
    pub title: String,
    /// How the values were measured.
    pub method: String,
    /// Class and name of each line.
    pub legend: Vec<(String, String)>,
    /// An SVG per plot.
    pub plots: Vec<String>,
}

/// Draws the figure.
pub fn curves_part(curves: &Curves) -> CurvesPart {
    // The plot with the most lines has all names.
    let lines = curves.plots.iter().max_by_key(|plot| plot.lines.len()).map_or(&[][..], |plot| &plot.lines);
    CurvesPart {
        title: printable(&curves.title),
        method: printable(&curves.method),
        legend: lines.iter().enumerate().map(|(number, line)| (classes(number), printable(&line.name))).collect(),
        plots: plots(curves),
    }
}

/// The plots of a figure, all with the same axes.
fn plots(curves: &Curves) -> Vec<String> {
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
    for (number, line) in plot.lines.iter().enumerate() {
        if let Some(&end) = line.points.last() {
            panel.label_end(&classes(number), end, &printable(&line.name));
        }
    }
    let name = printable(&plot.name);
    panel.finish("", &name, "", &format!("{}: {name}", printable(&curves.title)))
}

/// At most [`BINS`] of the points.
fn thinned(line: &Line) -> impl Iterator<Item = Option<(f64, f64)>> + '_ {
    line.points.iter().step_by(stride(line.points.len(), BINS)).map(|&point| Some(point))
}
