//! What was lived through: workloads on devices, described by their features, and how every setting served them.
//!
//! Everything that is learned offline is learned from this: the classes of the two-layer scheme, and the gains that the scheme
//! `seekwise` expects. A case stands for a phase of a workload on a device. It is described as it looked under one of the settings,
//! for what a controller sees depends on what is in force.

use serde::{Deserialize, Serialize};

use crate::model::Dataset;
use crate::preference::Preference;
use crate::window::{FEATURES, Features, Outcome};

/// The version of the file's form.
pub const SCHEMA: u32 = 1;

/// Cases with the names of what their numbers mean.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experience {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The features of each case, in order.
    pub features: Vec<String>,
    /// The settings of each case's results, in order, as [`Setting`](crate::Setting) writes them.
    pub settings: Vec<String>,
    /// What was lived through.
    pub cases: Vec<Case>,
}

/// A phase of a workload on a device, as it looked under one setting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// The workload.
    pub workload: String,
    /// The device.
    pub device: String,
    /// What was in force when the features were seen, as an index into the settings.
    pub under: usize,
    /// One for each name; `None` where there was no value.
    pub features: Vec<Option<f32>>,
    /// How each setting served the phase; `None` where that was not measured.
    pub results: Vec<Option<Served>>,
}

/// How a phase was served.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Served {
    /// Bytes a second.
    pub throughput: f32,
    /// Mean response time in seconds.
    pub response_s: f32,
    /// Jain's index.
    pub fairness: f32,
}

impl Served {
    /// How good that is; as [`Outcome::score`](crate::Outcome::score).
    pub fn score(&self, preference: &Preference) -> f64 {
        let [throughput, response, fairness] = preference.weights();
        let ln = |value: f32| f64::from(value).max(1e-12).ln();
        throughput * ln(self.throughput) - response * ln(self.response_s) + fairness * ln(self.fairness)
    }
}

/// What a window is described by in a [`Case`]: its features, then these of its outcome.
const OF_OUTCOME: [&str; 3] = ["service_mean_s", "at_device_mean", "throughput_bytes_per_s"];

/// The names of what [`describe`] gives.
pub fn names() -> Vec<String> {
    FEATURES.iter().map(|feature| feature.name).chain(OF_OUTCOME).map(str::to_owned).collect()
}

/// A window as a row of numbers in the order of [`names`]; NaN where there is no value.
pub fn describe(features: &Features, outcome: &Outcome) -> Vec<f64> {
    let seconds = outcome.duration.as_secs_f64();
    let at_device = outcome.requests as f64 * outcome.mean_service_s / seconds;
    features.0.iter().copied().chain([outcome.mean_service_s, at_device, outcome.throughput()]).collect()
}

/// Why something is no experience.
#[derive(Debug, thiserror::Error)]
pub enum ExperienceError {
    /// Not the JSON that it should be.
    #[error("{path}: {source}")]
    Json {
        /// The file.
        path: String,
        /// What is wrong with it, and where.
        source: serde_json::Error,
    },
    /// Of another version.
    #[error("{path}: schema {found}; this program reads {SCHEMA}: train again")]
    Schema {
        /// The file.
        path: String,
        /// Its version.
        found: u32,
    },
    /// A case does not fit the names.
    #[error("{path}: case {case}: {reason}")]
    Case {
        /// The file.
        path: String,
        /// Counts from 0.
        case: usize,
        /// What does not fit.
        reason: String,
    },
}

impl Experience {
    /// Without a case.
    pub fn new(features: Vec<String>, settings: Vec<String>) -> Experience {
        Experience { schema: SCHEMA, features, settings, cases: Vec::new() }
    }

    /// Reads what [`Experience::to_json`] wrote; `path` is what errors call it.
    ///
    /// # Errors
    /// It is something else, or does not fit together.
    pub fn from_json(text: &str, path: &str) -> Result<Experience, ExperienceError> {
        let json = |source| ExperienceError::Json { path: path.to_owned(), source };
        let experience: Experience = serde_json::from_str(text).map_err(json)?;
        if experience.schema != SCHEMA {
            return Err(ExperienceError::Schema { path: path.to_owned(), found: experience.schema });
        }
        for (number, case) in experience.cases.iter().enumerate() {
            if let Some(reason) = experience.misfit(case) {
                return Err(ExperienceError::Case { path: path.to_owned(), case: number, reason });
            }
        }
        Ok(experience)
    }

    fn misfit(&self, case: &Case) -> Option<String> {
        if case.features.len() != self.features.len() {
            return Some(format!("has {} features; {} are named", case.features.len(), self.features.len()));
        }
        if case.results.len() != self.settings.len() {
            return Some(format!("has {} results; {} settings are named", case.results.len(), self.settings.len()));
        }
        if case.under >= self.settings.len() {
            return Some(format!("was seen under setting {}; there are {}", case.under, self.settings.len()));
        }
        if case.features.iter().flatten().any(|value| !value.is_finite()) {
            return Some("has a feature that is no number".to_owned());
        }
        let good = |served: &Served| {
            [served.throughput, served.response_s, served.fairness].iter().all(|value| value.is_finite() && *value >= 0.0)
        };
        (!case.results.iter().flatten().all(good)).then(|| "has a result that is no number".to_owned())
    }

    /// As text.
    ///
    /// # Errors
    /// Never, for numbers and names.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }

    /// The best setting of a case, as an index; of those within one percent of the best the one that is first in `order`.
    pub fn best(&self, case: &Case, preference: &Preference, order: &[usize]) -> Option<usize> {
        let score = |&setting: &usize| case.results[setting].map(|served| served.score(preference));
        let best = order.iter().filter_map(score).max_by(f64::total_cmp)?;
        order.iter().copied().find(|setting| score(setting).is_some_and(|score| score >= best - 0.01))
    }

    /// The cases as rows with the best setting of each as its class, for the learners of [`model`](crate::model). Settings that are
    /// the best more often decide between equals, so that classes do not split what is one. A workload's cases are a group.
    pub fn dataset(&self, preference: &Preference) -> Dataset {
        self.dataset_among(preference, (0..self.settings.len()).collect())
    }

    /// The same where only these settings, as indices, can be had: the class is the best of them.
    pub fn dataset_among(&self, preference: &Preference, all: Vec<usize>) -> Dataset {
        let mut wins = vec![0_usize; self.settings.len()];
        for case in &self.cases {
            let score = |setting: usize| case.results[setting].map(|served| served.score(preference));
            let best = all.iter().filter_map(|&setting| score(setting)).max_by(f64::total_cmp);
            for &setting in &all {
                let is_best = score(setting).zip(best).is_some_and(|(score, best)| score >= best - 0.01);
                wins[setting] += usize::from(is_best);
            }
        }
        let mut order = all;
        order.sort_by_key(|&setting| (std::cmp::Reverse(wins[setting]), setting));
        let mut dataset = Dataset { features: self.features.clone(), classes: self.settings.clone(), ..Dataset::default() };
        let mut workloads: Vec<&str> = self.cases.iter().map(|case| case.workload.as_str()).collect();
        workloads.sort_unstable();
        workloads.dedup();
        for case in &self.cases {
            if let Some(best) = self.best(case, preference, &order) {
                dataset.groups.push(workloads.partition_point(|workload| *workload < case.workload.as_str()) as u64);
                dataset.rows.push(case.features.iter().map(|value| value.map_or(f64::NAN, f64::from)).collect());
                dataset.labels.push(best);
            }
        }
        dataset
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn experience() -> Experience {
        let mut experience = Experience::new(vec!["a".into(), "b".into()], vec!["noop".into(), "cfq".into(), "sstf".into()]);
        let served = |throughput| Some(Served { throughput, response_s: 0.01, fairness: 1.0 });
        let case = |throughputs: [f32; 3]| Case {
            workload: "w".into(),
            device: "d".into(),
            under: 0,
            features: vec![Some(1.0), None],
            results: throughputs.map(served).to_vec(),
        };
        experience.cases =
            vec![case([100.0, 200.0, 100.0]), case([100.0, 100.2, 50.0]), case([100.0, 10.0, 120.0]), case([100.0, 99.9, 20.0])];
        experience
    }

    #[test]
    fn it_is_read_back_as_it_was() {
        let experience = experience();
        let text = experience.to_json().unwrap();
        assert_eq!(Experience::from_json(&text, "x").unwrap(), experience);
    }

    #[test]
    fn of_equals_the_setting_that_wins_more_often_is_the_class() {
        let dataset = experience().dataset(&Preference::default());
        // cfq is among the best three times, noop twice.
        assert_eq!(dataset.labels, [1, 1, 2, 1]);
        assert!(dataset.rows[0][1].is_nan());
    }

    #[test]
    fn of_some_settings_the_best_of_these_is_the_class() {
        let dataset = experience().dataset_among(&Preference::default(), vec![0, 2]);
        assert_eq!(dataset.labels, [0, 0, 2, 0]);
    }

    #[test]
    fn what_does_not_fit_together_is_refused() {
        let message = |change: &dyn Fn(&mut Experience)| {
            let mut experience = experience();
            change(&mut experience);
            Experience::from_json(&experience.to_json().unwrap(), "x.json").unwrap_err().to_string()
        };
        assert_eq!(message(&|e| e.schema = 9), "x.json: schema 9; this program reads 1: train again");
        assert_eq!(message(&|e| e.cases[1].under = 7), "x.json: case 1: was seen under setting 7; there are 3");
        assert!(message(&|e| e.cases[2].features.clear()).contains("has 0 features; 2 are named"));
        assert!(message(&|e| drop(e.cases[2].results.pop())).contains("has 2 results; 3 settings are named"));
        assert!(Experience::from_json("{", "x").is_err());
    }
}
