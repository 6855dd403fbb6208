//! Results of a workload on the real kernel and in the simulator, with statistics over runs.

use serde::Serialize;
use statistics::sample::mean_and_margin;

use ::report::number::{MISSING, three_digits};
use ::report::text::printable;

/// Results of a workload under a setting, in one direction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The workload.
    pub workload: String,
    /// The scheduler, with its tunables.
    pub scheduler: String,
    /// `read`, `write` or [`FSYNC`].
    pub direction: String,
    /// On the real kernel, by figure.
    pub real: [Spread; 3],
    /// In the simulator, by figure.
    pub simulated: [Spread; 3],
}

/// The direction for calls of fsync, which transfer no data.
pub const FSYNC: &str = "fsync";

impl Row {
    /// For each figure: the real value, its interval, the simulated value, and their ratio.
    pub(super) fn figures(&self) -> [[String; 4]; 3] {
        std::array::from_fn(|figure| {
            let (real, simulated) = (&self.real[figure], &self.simulated[figure]);
            let ratio = (real.median > 0.0).then(|| format!("{:.2}", simulated.median / real.median));
            [
                three_digits(real.median),
                real.interval_text(),
                three_digits(simulated.median),
                ratio.unwrap_or_else(|| MISSING.to_owned()),
            ]
        })
    }

    /// Cells for the page: workload; scheduler, direction and figures.
    pub(super) fn cells(&self) -> (String, Vec<String>) {
        let names = [printable(&self.scheduler), self.direction.clone()];
        (printable(&self.workload), names.into_iter().chain(self.figures().concat()).collect())
    }
}

/// Statistics over several runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// Median of the runs.
    pub median: f64,
    /// Minimum.
    pub low: f64,
    /// Maximum.
    pub high: f64,
    /// Half the width of the 95% confidence interval of their mean, by Student's t; `None` for fewer than two.
    pub interval: Option<f64>,
}

impl Spread {
    /// Statistics of some values; all are 0 if there are none.
    pub fn of(mut values: Vec<f64>) -> Spread {
        values.sort_by(f64::total_cmp);
        let median = statistics::median(values.iter().copied()).unwrap_or(0.0);
        let interval = mean_and_margin(&values).map(|(_, margin)| margin);
        Spread { median, low: values.first().copied().unwrap_or(0.0), high: values.last().copied().unwrap_or(0.0), interval }
    }

    /// Whether the intervals overlap. A single run counts as exact.
    pub(super) fn overlaps(&self, other: &Spread) -> bool {
        (self.median - other.median).abs() <= self.interval.unwrap_or(0.0) + other.interval.unwrap_or(0.0)
    }

    /// The interval in percent of the median.
    fn interval_text(&self) -> String {
        let percent = self.interval.filter(|_| self.median > 0.0).map(|interval| 100.0 * interval / self.median);
        percent.map_or_else(|| MISSING.to_owned(), |percent| format!("{percent:.0}%"))
    }
}
