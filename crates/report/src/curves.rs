//! Figures that are lines: throughput over time, distributions.

#[cfg(feature = "pages")]
mod lines;

use serde::Serialize;

#[cfg(feature = "pages")]
pub use lines::{CurvesPart, curves_part};

/// A figure of line plots.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Curves {
    /// Identifier on the command line: `fig-8`.
    pub id: String,
    /// The paper's number and title.
    pub title: String,
    /// How our values were measured.
    pub method: String,
    /// The quantity of the horizontal axis.
    pub x: Quantity,
    /// The quantity of the vertical axis.
    pub y: Quantity,
    /// The plots, all with the same axes.
    pub plots: Vec<Plot>,
}

/// One plot.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plot {
    /// The setup.
    pub name: String,
    /// The lines.
    pub lines: Vec<Line>,
}

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line {
    /// The label.
    pub name: String,
    /// Its points, from left to right.
    pub points: Vec<(f64, f64)>,
}

/// The quantity of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// Time of a run.
    Seconds,
    /// Requests per second.
    RequestsPerSecond,
    /// Error of a prediction relative to the true value.
    ErrorPercent,
    /// Share of the total.
    SharePercent,
    /// Tests, counted from 1.
    TestNumber,
    /// 10⁶ bytes per second.
    MegabytesPerSecond,
    /// Mean latency.
    Milliseconds,
    /// Difference from the default, relative to it.
    ChangePercent,
}

impl Quantity {
    /// The axis title.
    pub fn title(self) -> &'static str {
        match self {
            Quantity::Seconds => "time, s",
            Quantity::RequestsPerSecond => "throughput, requests/s",
            Quantity::ErrorPercent => "error, %",
            Quantity::SharePercent => "share of all, %",
            Quantity::TestNumber => "test",
            Quantity::MegabytesPerSecond => "throughput, MB/s",
            Quantity::Milliseconds => "latency, ms",
            Quantity::ChangePercent => "change, %",
        }
    }
}
