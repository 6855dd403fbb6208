//! The log database of windows, and the classifier trained with it (sections 3.3.2, 4.2 and 4.3).
//!
//! A row is a window: the workload's features of Table 2, the scheduler, and the performance. The paper does not define the correct class of
//! a row. Here it is the scheduler with the best mean performance:
//!
//! 1. for a workload that was run under every scheduler ("the same types of workloads are used for all schedulers"): among its rows;
//! 2. for a window observed while one scheduler is kept: the row's own performance under its scheduler, and under each other one the mean of
//!    the [`NEIGHBOURS`] most similar rows in the log. So windows under a single scheduler are training data, too.

use control::Window;

use crate::model::{Dataset, Learner, Model, ModelError, Options, Scratch, train};
use observe::Preference;

/// Table 2, right column, in the order of [`Row::features`]. Counts are per second and ratios are shares of the sum, so that windows of any
/// length can be compared and no ratio is infinite.
pub const FEATURES: [&str; 8] =
    ["reads_per_s", "writes_per_s", "read_share", "size_bytes", "sequential_share", "arrivals_per_s", "processes", "think_s"];

/// Number of similar rows averaged to estimate a scheduler that was not active. The paper gives no number.
const NEIGHBOURS: usize = 5;
/// Maximum number of training rows, sampled evenly, to bound the time.
const MOST_ROWS: usize = 600;
/// Rows used to choose hyper-parameters, and folds of that cross-validation: as in the controllers of this program.
const TUNING_ROWS: usize = 240;
const FOLDS: usize = 3;

/// Performance of a window or a phase.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Achieved {
    /// Bytes per second.
    pub throughput: f64,
    /// Mean response time in seconds.
    pub response_s: f64,
    /// Jain's index over the streams' progress, for the paper's quality of service, for which it defines no measure.
    pub fairness: f64,
}

/// The ranking criterion: "given the UP(3,2,2) preference, we rank the schedulers according to the throughput" (section 3.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RankedBy {
    /// Higher is better.
    Throughput,
    /// Lower is better.
    ResponseTime,
    /// Higher is better.
    Fairness,
}

impl RankedBy {
    /// The criterion with the largest weight; the first of equals.
    pub fn of(preference: &Preference) -> RankedBy {
        let [throughput, response, fairness] = preference.weights();
        if throughput >= response && throughput >= fairness {
            RankedBy::Throughput
        } else if response >= fairness {
            RankedBy::ResponseTime
        } else {
            RankedBy::Fairness
        }
    }

    /// A number that is higher for better performance.
    pub fn rank(self, achieved: &Achieved) -> f64 {
        match self {
            RankedBy::Throughput => achieved.throughput,
            RankedBy::ResponseTime => -achieved.response_s,
            RankedBy::Fairness => achieved.fairness,
        }
    }
}

/// A window in the log.
#[derive(Clone, Debug)]
pub struct Row {
    /// The workload if it was run under every scheduler; `None` for windows of a kept scheduler.
    pub workload: Option<u32>,
    /// Index of the active scheduler.
    pub setting: usize,
    /// Values of [`FEATURES`]; NaN if undefined.
    pub features: [f64; FEATURES.len()],
    /// Its performance.
    pub achieved: Achieved,
}

/// The performance in a window: at the block layer, as the paper's schemes log it, or of processes' calls.
pub fn achieved(window: &Window, by_calls: bool) -> Achieved {
    let outcome = &window.outcome;
    let (throughput, response_s) = if by_calls { outcome.judged() } else { (outcome.throughput(), outcome.waited_s) };
    Achieved { throughput, response_s, fairness: outcome.fairness }
}

/// The features of a window.
pub fn features(window: &Window) -> [f64; FEATURES.len()] {
    let get = |name: &str| window.features.get(name).unwrap_or(f64::NAN);
    let seconds = window.duration().as_secs_f64();
    [
        get("reads") / seconds,
        get("writes") / seconds,
        get("read_share"),
        get("size_mean_bytes"),
        get("sequential_share"),
        get("requests_per_s"),
        get("streams"),
        get("think_mean_s"),
    ]
    .map(|value| if value.is_finite() { value } else { f64::NAN })
}

/// The rule that assigns classes to rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ranking {
    /// The criterion.
    pub by: RankedBy,
    /// Relative difference up to which a scheduler counts as good as the best; the class is then the one that is among the best of most
    /// workloads. 0 as printed: only the best.
    pub tolerance: f64,
}

impl Ranking {
    /// Whether a rank is as good as the best.
    fn is_as_good(&self, rank: f64, best: f64) -> bool {
        let kept = 1.0 - self.tolerance;
        rank >= if best >= 0.0 { best * kept } else { best / kept }
    }

    /// Indices of those as good as the best; empty if fewer than two ranks are known.
    fn best(&self, ranks: &[Option<f64>]) -> Vec<usize> {
        if ranks.iter().flatten().count() < 2 {
            return Vec::new();
        }
        let best = ranks.iter().flatten().copied().fold(f64::NEG_INFINITY, f64::max);
        (0..ranks.len()).filter(|&setting| ranks[setting].is_some_and(|rank| self.is_as_good(rank, best))).collect()
    }
}

/// The correct class of each row; `None` if nothing can be compared.
pub fn labels(rows: &[Row], ranking: Ranking, settings: usize) -> Vec<Option<usize>> {
    let by = ranking.by;
    let workloads = rows.iter().filter_map(|row| row.workload).max().map_or(0, |last| last as usize + 1);
    let mut means = vec![vec![Mean::default(); settings]; workloads];
    for row in rows {
        if let Some(workload) = row.workload {
            means[workload as usize][row.setting].add(by.rank(&row.achieved));
        }
    }
    let best: Vec<Vec<usize>> = means.iter().map(|ranks| ranking.best(&ranks.iter().map(Mean::get).collect::<Vec<_>>())).collect();
    let mut wins = vec![0_usize; settings];
    best.iter().flatten().for_each(|&setting| wins[setting] += 1);
    // The first of equals.
    let class = |best: &[usize]| best.iter().copied().rev().max_by_key(|&setting| wins[setting]);
    let scales = scales(rows);
    let label = |(number, row): (usize, &Row)| match row.workload {
        Some(workload) => class(&best[workload as usize]),
        None => {
            let rank = |setting| match setting == row.setting {
                true => Some(by.rank(&row.achieved)),
                false => neighbours(rows, number, setting, by, &scales),
            };
            class(&ranking.best(&(0..settings).map(rank).collect::<Vec<_>>()))
        }
    };
    rows.iter().enumerate().map(label).collect()
}

/// The mean rank of the [`NEIGHBOURS`] most similar rows under a setting; `None` if there are none.
fn neighbours(rows: &[Row], of: usize, setting: usize, by: RankedBy, scales: &[f64; FEATURES.len()]) -> Option<f64> {
    let others = rows.iter().enumerate().filter(|(number, row)| *number != of && row.setting == setting);
    let mut near: Vec<(f64, f64)> =
        others.map(|(_, row)| (distance(&rows[of].features, &row.features, scales), by.rank(&row.achieved))).collect();
    near.sort_by(|a, b| a.0.total_cmp(&b.0));
    near.truncate(NEIGHBOURS);
    let mut mean = Mean::default();
    near.iter().for_each(|(_, rank)| mean.add(*rank));
    mean.get()
}

/// The squared distance in standard deviations; a feature that is undefined in only one row adds 1.
fn distance(a: &[f64; FEATURES.len()], b: &[f64; FEATURES.len()], scales: &[f64; FEATURES.len()]) -> f64 {
    let one = |((a, b), scale): ((&f64, &f64), &f64)| match (a.is_nan(), b.is_nan()) {
        (true, true) => 0.0,
        (false, false) => ((a - b) / scale).powi(2),
        _ => 1.0,
    };
    a.iter().zip(b).zip(scales).map(one).sum()
}

/// The standard deviation of each feature; 1 if it does not vary.
fn scales(rows: &[Row]) -> [f64; FEATURES.len()] {
    std::array::from_fn(|feature| {
        let values = || rows.iter().map(|row| row.features[feature]).filter(|value| !value.is_nan());
        let count = values().count().max(1) as f64;
        let mean = values().sum::<f64>() / count;
        let deviation = (values().map(|value| (value - mean).powi(2)).sum::<f64>() / count).sqrt();
        if deviation > 0.0 { deviation } else { 1.0 }
    })
}

#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    count: f64,
    sum: f64,
}

impl Mean {
    fn add(&mut self, value: f64) {
        (self.count, self.sum) = (self.count + 1.0, self.sum + value);
    }

    fn get(&self) -> Option<f64> {
        (self.count > 0.0).then(|| self.sum / self.count)
    }
}

/// Predicts the best scheduler for a window's workload.
#[derive(Debug)]
pub struct Classifier {
    model: Model,
    /// The index of the setting for each class of the model.
    settings: Vec<usize>,
}

impl Classifier {
    /// Trains with a log over this number of settings.
    ///
    /// # Errors
    /// No row has a class, or training fails.
    pub fn learn(
        rows: &[Row],
        ranking: Ranking,
        settings: usize,
        learner: &'static dyn Learner,
        seed: u64,
    ) -> Result<Classifier, ModelError> {
        let labels = labels(rows, ranking, settings);
        let labelled: Vec<(&Row, usize)> = rows.iter().zip(labels).filter_map(|(row, label)| Some((row, label?))).collect();
        let step = labelled.len().div_ceil(MOST_ROWS).max(1);
        let mut data = Dataset {
            features: FEATURES.map(str::to_owned).to_vec(),
            classes: (0..settings).map(|setting| setting.to_string()).collect(),
            ..Dataset::default()
        };
        for (number, (row, label)) in labelled.iter().enumerate().step_by(step) {
            data.rows.push(row.features.to_vec());
            data.labels.push(*label);
            data.groups.push(row.workload.map_or(u64::MAX - number as u64, u64::from));
        }
        let options = Options { seed, folds: FOLDS, tuning_rows: TUNING_ROWS, ..Options::default() };
        let model = train(&data, learner, &options, &mut |_, _| true)?;
        let settings = model.classes().iter().filter_map(|name| name.parse().ok()).collect();
        Ok(Classifier { model, settings })
    }

    /// The index of the setting for a window.
    pub fn choose(&self, features: &[f64; FEATURES.len()], scratch: &mut Scratch) -> Option<usize> {
        let (class, _) = self.model.predict_with(features, scratch);
        self.settings.get(class).copied()
    }
}

#[cfg(test)]
pub mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::*;

    /// A row whose only feature is its number of processes.
    pub fn row(workload: Option<u32>, setting: usize, processes: f64, throughput: f64) -> Row {
        let mut features = [0.0; FEATURES.len()];
        features[6] = processes;
        Row { workload, setting, features, achieved: Achieved { throughput, response_s: 1.0 / throughput, fairness: 1.0 } }
    }

    /// By throughput, with no tolerance.
    pub const PRINTED: Ranking = Ranking { by: RankedBy::Throughput, tolerance: 0.0 };

    #[test]
    fn within_a_tolerance_the_class_is_the_one_that_is_among_the_best_of_most_workloads() {
        // Workload 0: 50 under 0, 49.5 under 1, within 2% of it. Workload 1: 40 under 0, 50 under 1. So 1 is among the best of both.
        let of = |workload, processes, throughputs: [f64; 2]| {
            [row(Some(workload), 0, processes, throughputs[0]), row(Some(workload), 1, processes, throughputs[1])]
        };
        let rows = [of(0, 1.0, [50.0, 49.5]), of(1, 9.0, [40.0, 50.0])].concat();
        assert_eq!(labels(&rows, PRINTED, 2), [Some(0), Some(0), Some(1), Some(1)]);
        assert_eq!(labels(&rows, Ranking { tolerance: 0.02, ..PRINTED }, 2), [Some(1); 4]);
        // Response times are the inverse: 20 ms and 20.2 ms, 25 ms and 20 ms.
        let by_response = Ranking { by: RankedBy::ResponseTime, tolerance: 0.02 };
        assert_eq!(labels(&rows, by_response, 2), [Some(1); 4]);
    }

    #[test]
    fn a_workload_run_under_every_scheduler_is_classed_by_the_best_mean() {
        // Workload 0: (10 + 30) / 2 = 20 under 0, 25 under 1. Workload 1: 50 under 0, 40 under 1.
        let rows = [
            row(Some(0), 0, 1.0, 10.0),
            row(Some(0), 0, 1.0, 30.0),
            row(Some(0), 1, 1.0, 25.0),
            row(Some(1), 0, 9.0, 50.0),
            row(Some(1), 1, 9.0, 40.0),
        ];
        assert_eq!(labels(&rows, PRINTED, 2), [Some(1), Some(1), Some(1), Some(0), Some(0)]);
    }

    #[test]
    fn a_window_under_the_scheduler_that_is_kept_is_classed_by_its_neighbours_under_the_others() {
        // Under 1 the windows of 9 processes have 40: a window of 9 processes with 45 under 0 is better under 0, one with 35 under 1.
        let known = [row(Some(0), 0, 1.0, 10.0), row(Some(0), 1, 1.0, 90.0)];
        let near: Vec<Row> = (0..5).map(|_| row(Some(1), 1, 9.0, 40.0)).collect();
        let log = |throughput| [&known[..], &near, &[row(Some(1), 0, 9.0, 50.0), row(None, 0, 9.0, throughput)]].concat();
        assert_eq!(labels(&log(45.0), PRINTED, 2).last(), Some(&Some(0)));
        assert_eq!(labels(&log(35.0), PRINTED, 2).last(), Some(&Some(1)));
    }

    #[test]
    fn what_schedulers_are_ranked_by_is_the_largest_number_of_the_preference() {
        let by = |t, r, q| RankedBy::of(&Preference::new(t, r, q).unwrap());
        assert_eq!(
            [by(3, 2, 2), by(2, 3, 2), by(2, 2, 3), by(2, 2, 2)],
            [RankedBy::Throughput, RankedBy::ResponseTime, RankedBy::Fairness, RankedBy::Throughput]
        );
        let achieved = Achieved { throughput: 5.0, response_s: 0.1, fairness: 0.7 };
        assert_eq!(RankedBy::ResponseTime.rank(&achieved), -0.1);
    }
}
