//! Figures of a paper: values of series by group, and the best of a group.

use serde::Serialize;

use ::report::number::{self, three_digits};
use ::report::verdict::NEGLIGIBLE_PERCENT;

/// The unit of a figure's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Share of correct decisions.
    AccuracyPercent,
    /// Distance of a setting's performance below the best, in percent.
    BelowBestPercent,
    /// Aggregated response time.
    Seconds,
    /// Mean response time.
    Milliseconds,
    /// 10⁶ bytes per second.
    MegabytesPerSecond,
    /// Processor time per simulated second.
    ProcessorMicrosecondsPerSecond,
    /// Requests per second.
    RequestsPerSecond,
    /// A quantity as a share of its reference, in percent.
    OfReferencePercent,
    /// The largest deviation of a share from its target, in percentage points.
    ShareErrorPercent,
}

impl Unit {
    /// The axis title.
    pub fn title(self) -> &'static str {
        match self {
            Unit::AccuracyPercent => "correct decisions, %",
            Unit::BelowBestPercent => "below the best, %",
            Unit::Seconds => "aggregated response time, s",
            Unit::Milliseconds => "mean response time, ms",
            Unit::MegabytesPerSecond => "throughput, MB/s",
            Unit::ProcessorMicrosecondsPerSecond => "processor time, µs per second",
            Unit::RequestsPerSecond => "throughput, requests/s",
            Unit::OfReferencePercent => "of the reference disk’s, %",
            Unit::ShareErrorPercent => "error of the share, points",
        }
    }

    /// Whether less is better.
    pub fn lower_is_better(self) -> bool {
        !matches!(self, Unit::AccuracyPercent | Unit::MegabytesPerSecond | Unit::RequestsPerSecond | Unit::OfReferencePercent)
    }

    /// The best value, and those within [`NEGLIGIBLE_PERCENT`] of it (percentage points if the unit is a percentage).
    pub fn best(self, values: &[Option<f64>]) -> Best {
        let known = || values.iter().enumerate().filter_map(|(index, value)| Some((index, (*value)?)));
        let sign = if self.lower_is_better() { 1.0 } else { -1.0 };
        let Some((_, best)) = known().min_by(|a, b| (sign * a.1).total_cmp(&(sign * b.1))) else { return Best::None };
        let scale = match self {
            Unit::AccuracyPercent | Unit::BelowBestPercent | Unit::ShareErrorPercent => 100.0,
            _ => best.abs(),
        };
        let ties = |value: f64| value == best || (value - best).abs() < scale * NEGLIGIBLE_PERCENT / 100.0;
        let tied: Vec<usize> = known().filter(|(_, value)| ties(*value)).map(|(index, _)| index).collect();
        match tied.as_slice() {
            [only] => Best::One(*only),
            all if all.len() == known().count() => Best::All(all.len()),
            _ => Best::Some(tied),
        }
    }
}

/// A figure of the paper, redrawn.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// Its name on the command line: `fig-6`.
    pub id: String,
    /// The paper's number and title.
    pub title: String,
    /// The method by which our values were measured.
    pub method: String,
    /// Unit of its values.
    pub unit: Unit,
    /// The series compared in each group.
    pub series: Vec<String>,
    /// The workloads, or sets of workloads.
    pub groups: Vec<String>,
    /// How many series at the beginning are the paper's: it names the best among these.
    pub of_paper: usize,
    /// One per disk or way of counting; the first is drawn, the table shows all.
    pub panels: Vec<Panel>,
    /// Values that the paper states: group, series and value.
    pub marks: Vec<(usize, usize, f64)>,
}

/// A figure's values in one setup.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Panel {
    /// The setup.
    pub name: String,
    /// Per group, the value of each series; `None` if there is none.
    pub values: Vec<Vec<Option<f64>>>,
}

impl Figure {
    /// A figure without values.
    pub fn new(id: &str) -> Figure {
        Figure {
            id: id.to_owned(),
            title: String::new(),
            method: String::new(),
            unit: Unit::AccuracyPercent,
            series: Vec::new(),
            groups: Vec::new(),
            of_paper: 0,
            panels: Vec::new(),
            marks: Vec::new(),
        }
    }

    /// The first panel as a table.
    pub(super) fn lines(&self) -> Vec<String> {
        let name = self.series.iter().map(|series| series.chars().count()).max().unwrap_or(0);
        let width = self.groups.iter().map(|group| group.chars().count()).max().unwrap_or(0).max(8);
        let mut lines = vec![format!("  {:name$}", "")];
        self.groups.iter().for_each(|group| lines[0].push_str(&format!("  {group:>width$}")));
        for (number, series) in self.series.iter().enumerate() {
            let mut line = format!("  {series:name$}");
            for group in 0..self.groups.len() {
                line.push_str(&format!("  {:>width$}", shown(self.value(0, group, number))));
            }
            lines.push(line);
        }
        lines
    }

    /// The value of a series in a group of a panel.
    pub fn value(&self, panel: usize, group: usize, series: usize) -> Option<f64> {
        *self.panels.get(panel)?.values.get(group)?.get(series)?
    }

    /// The best of a group in the first panel, among its first `among` series.
    pub fn best(&self, group: usize, among: usize) -> Best {
        let values: Vec<Option<f64>> = (0..among.min(self.series.len())).map(|series| self.value(0, group, series)).collect();
        self.unit.best(&values)
    }
}

/// The best among several values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Best {
    /// There is no value.
    None,
    /// The one with this index.
    One(usize),
    /// These indices, within [`NEGLIGIBLE_PERCENT`] of the best; others are worse.
    Some(Vec<usize>),
    /// All that have a value, this many, so that none is better than another.
    All(usize),
}

impl Best {
    /// A tie in words, with names by `name`; `None` if there is no tie.
    pub fn tie(&self, name: impl Fn(usize) -> String) -> Option<String> {
        match self {
            Best::None | Best::One(_) => None,
            Best::All(count) => Some(format!("a tie: all {count} within {NEGLIGIBLE_PERCENT}%")),
            Best::Some(tied) => {
                let names: Vec<String> = tied.iter().map(|index| name(*index)).collect();
                Some(format!("a tie within {NEGLIGIBLE_PERCENT}%: {}", names.join(", ")))
            }
        }
    }
}

/// A value with three significant digits; [`MISSING`](number::MISSING) for `None`.
pub fn shown(value: Option<f64>) -> String {
    value.map_or_else(|| number::MISSING.to_owned(), three_digits)
}
