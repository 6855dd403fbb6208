//! Figures that are lines: throughput over time, distributions, what a paper shows in them and states about them.

#[cfg(feature = "pages")]
mod lines;

use serde::Serialize;

use crate::number;

#[cfg(feature = "pages")]
pub use lines::{CurvesPart, curves_part};

/// A figure of lines.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Curves {
    /// Its name on the command line: `fig-8`.
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
    /// The paper's statements about it.
    pub statements: Vec<Statement>,
}

/// A statement of the paper, and our result.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Statement {
    /// The paper's section.
    pub section: String,
    /// Its subject.
    pub about: String,
    /// The paper's result in short: a number with its unit, or a name.
    pub paper: String,
    /// The quotation.
    pub quote: String,
    /// Our result in short.
    pub ours: Option<String>,
    /// Whether our result agrees; `None` if there is no yes or no.
    pub agrees: Option<bool>,
    /// The value to mark in the plot: group, series and value.
    pub mark: Option<(usize, usize, f64)>,
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
    /// What it is of.
    pub name: String,
    /// Its points, from left to right.
    pub points: Vec<(f64, f64)>,
}

/// What an axis shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// Time of a run.
    Seconds,
    /// Requests a second.
    RequestsPerSecond,
    /// How far a prediction is off, of what is true.
    ErrorPercent,
    /// Share of all.
    SharePercent,
    /// Tests, counted from 1.
    TestNumber,
    /// 10⁶ bytes per second.
    MegabytesPerSecond,
    /// Mean latency.
    Milliseconds,
    /// Difference from the default, of it.
    ChangePercent,
}

impl Statement {
    /// The subject, the paper's result and ours: a line for a terminal.
    pub fn line(&self) -> String {
        let ours = self.ours.as_deref().unwrap_or(number::MISSING);
        format!("  {}: paper {}, ours {ours}", self.about, self.paper)
    }
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
