//! Measurements for offline learning: workloads on devices, described by their features, with the performance of each setting.
//!
//! The classes of the two-layer scheme are learned from them; `seekwise` recalls those of its device. A case is a phase
//! of a workload on a device. Its features are those seen under one of the settings, because they depend on the setting in force.

use block::Nanos;
use serde::{Deserialize, Serialize};

use crate::merit;
use crate::model::Dataset;
use crate::preference::Preference;
use crate::search::GenePool;
use crate::window::WindowOutcome;

/// Length of a window that a case is taken from. Controllers look at shorter and longer ones.
pub const WINDOW: Nanos = Nanos::from_millis(1_000);
/// Windows with fewer requests tell too little of their load, and are not used.
pub const FEWEST: u64 = 20;

/// Settings whose scores differ by at most this are equally good: results are stored with four digits.
const EQUAL: f64 = 1e-3;

/// Weight of a case in which all settings are equally good: close to zero.
const LEAST_STAKE: f64 = 0.05;

/// Version of the file format.
pub const SCHEMA: u32 = 2;

/// Cases, with the names of their features and settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experience {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The features of each case, in order.
    pub features: Vec<String>,
    /// The settings of each case's results, in order, as [`Setting`](crate::Setting) writes them.
    pub settings: Vec<String>,
    /// The cases.
    pub cases: Vec<Case>,
    /// What genetic searches kept of the loads that they met, the latest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pools: Vec<GenePool>,
}

/// A phase of a workload on a device, as seen under one setting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// The workload.
    pub workload: String,
    /// The device.
    pub device: String,
    /// The setting in force when the features were recorded, as an index into the settings.
    pub under: usize,
    /// One value per feature name; `None` if missing.
    pub features: Vec<Option<f32>>,
    /// The performance of the phase under each setting; `None` if not measured.
    pub results: Vec<Option<Served>>,
}

/// The performance of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Served {
    /// Bytes per second.
    pub throughput: f32,
    /// Mean response time in seconds.
    pub response_s: f32,
    /// Jain's index.
    pub fairness: f32,
    /// A stream waited longer than allowed ([`merit::starves`]).
    #[serde(default)]
    pub starves: bool,
}

impl Served {
    /// The performance over all these windows; `None` if no request completed in them.
    pub fn of<'a>(outcomes: impl IntoIterator<Item = &'a WindowOutcome>) -> Option<Served> {
        let (mut bytes, mut seconds, mut waited, mut done, mut fairness) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for outcome in outcomes {
            let length = outcome.duration.as_secs_f64();
            let (bytes_per_s, waited_s) = outcome.judged();
            let of_requests = if outcome.waited_for > 0 { outcome.waited_for } else { outcome.requests };
            let counted = outcome.calls.map_or(of_requests, |calls| calls.done) as f64;
            if counted > 0.0 {
                bytes += bytes_per_s * length;
                waited += waited_s * counted;
                done += counted;
            }
            seconds += length;
            fairness += outcome.fairness * length;
        }
        (done > 0.0).then(|| Served {
            throughput: four_digits(bytes / seconds),
            response_s: four_digits(waited / done),
            fairness: four_digits(fairness / seconds),
            starves: false,
        })
    }

    /// Whether all values are numbers and none is negative.
    pub fn is_sound(&self) -> bool {
        [self.throughput, self.response_s, self.fairness].iter().all(|value| value.is_finite() && *value >= 0.0)
    }

    /// The score of this performance ([`merit::score`]).
    pub fn score(&self, preference: &Preference) -> f64 {
        merit::score(preference, self.throughput.into(), self.response_s.into(), self.fairness.into())
    }
}

impl Case {
    /// Scores for ranking the settings: those that starve a stream rank below all others. `None` where not measured.
    pub fn ranked(&self, preference: &Preference) -> Vec<Option<f64>> {
        let measured = self.results.iter().flatten().map(|served| (served.score(preference), served.starves));
        let mut ranked = merit::ranked(measured).into_iter();
        self.results.iter().map(|served| served.and_then(|_| ranked.next())).collect()
    }
}

/// Converts a row to the form stored in a [`Case`].
pub fn noted(row: impl IntoIterator<Item = f64>) -> Vec<Option<f32>> {
    row.into_iter().map(|value| Some(four_digits(value)).filter(|value| value.is_finite())).collect()
}

/// Rounds to four digits; more would only make the file larger.
fn four_digits(value: f64) -> f32 {
    if value == 0.0 || !value.is_finite() {
        return value as f32;
    }
    let step = 10f64.powf(value.abs().log10().floor() - 3.0);
    ((value / step).round() * step) as f32
}

/// Why a file could not be read as experience.
#[derive(Debug, thiserror::Error)]
pub enum ExperienceError {
    /// Not valid JSON of this form.
    #[error("{path}: {source}")]
    Json {
        /// The file.
        path: String,
        /// What is wrong, and where.
        source: serde_json::Error,
    },
    /// Another version of the format.
    #[error("{path}: schema {found}; this program reads {SCHEMA}: gather again")]
    Schema {
        /// The file.
        path: String,
        /// Its version.
        found: u32,
    },
    /// A case does not match the names.
    #[error("{path}: case {case}: {reason}")]
    Case {
        /// The file.
        path: String,
        /// The index of the case, from 0.
        case: usize,
        /// What does not match.
        reason: String,
    },
}

impl Experience {
    /// Creates one without cases.
    pub fn new(features: Vec<String>, settings: Vec<String>) -> Experience {
        Experience { schema: SCHEMA, features, settings, cases: Vec::new(), pools: Vec::new() }
    }

    /// Reads the output of [`Experience::to_json`]; `path` is used in errors.
    ///
    /// # Errors
    /// The text is not valid experience, or its cases do not match the names.
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
        (!case.results.iter().flatten().all(Served::is_sound)).then(|| "has a result that is no number".to_owned())
    }

    /// Serializes it as JSON.
    ///
    /// # Errors
    /// Never, for numbers and names.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }

    /// Combines this with another, which may have other features and settings.
    pub fn and(&self, other: &Experience) -> Experience {
        let mut both = self.clone();
        let place = |name: &String, names: &mut Vec<String>| {
            names.iter().position(|known| known == name).unwrap_or_else(|| {
                names.push(name.clone());
                names.len() - 1
            })
        };
        let features: Vec<usize> = other.features.iter().map(|name| place(name, &mut both.features)).collect();
        let settings: Vec<usize> = other.settings.iter().map(|name| place(name, &mut both.settings)).collect();
        for case in &mut both.cases {
            case.features.resize(both.features.len(), None);
            case.results.resize(both.settings.len(), None);
        }
        for case in &other.cases {
            let mut added = Case {
                under: settings[case.under],
                features: vec![None; both.features.len()],
                results: vec![None; both.settings.len()],
                ..case.clone()
            };
            features.iter().zip(&case.features).for_each(|(&place, value)| added.features[place] = *value);
            settings.iter().zip(&case.results).for_each(|(&place, served)| added.results[place] = *served);
            both.cases.push(added);
        }
        both.pools.extend(other.pools.iter().cloned());
        both
    }

    /// The cases as rows for the learners of [`model`](crate::model), each with its best setting as the class. Ties go to the
    /// setting that is best most often, so that equal settings do not split a class. The cases of a workload form a group.
    pub fn dataset(&self, preference: &Preference) -> Dataset {
        self.dataset_among(preference, (0..self.settings.len()).collect())
    }

    /// The same with only these settings (as indices) available: the class is the best of them. Cases in which only one of them
    /// was measured are skipped.
    pub fn dataset_among(&self, preference: &Preference, all: Vec<usize>) -> Dataset {
        let scored = self.cases.iter().map(|case| (case, Scores::of(case, preference, &all)));
        let compared: Vec<(&Case, Scores)> = scored.filter(|(_, scores)| scores.0.len() > 1).collect();
        let mut wins = vec![0_usize; self.settings.len()];
        compared.iter().flat_map(|(_, scores)| scores.best()).for_each(|setting| wins[setting] += 1);
        let mut dataset = Dataset { features: self.features.clone(), classes: self.settings.clone(), ..Dataset::default() };
        let mut workloads: Vec<&str> = self.cases.iter().map(|case| case.workload.as_str()).collect();
        workloads.sort_unstable();
        workloads.dedup();
        for (case, mut scores) in compared {
            scores.0.sort_by_key(|&(setting, _)| (std::cmp::Reverse(wins[setting]), setting));
            if let Some(best) = scores.best().next() {
                dataset.groups.push(workloads.partition_point(|workload| *workload < case.workload.as_str()) as u64);
                dataset.rows.push(case.features.iter().map(|value| value.map_or(f64::NAN, f64::from)).collect());
                dataset.labels.push(best);
                dataset.weights.push(scores.stake());
            }
        }
        dataset
    }
}

/// Measured scores of settings (as indices) in a case.
struct Scores(Vec<(usize, f64)>);

impl Scores {
    fn of(case: &Case, preference: &Preference, among: &[usize]) -> Scores {
        let ranked = case.ranked(preference);
        Scores(among.iter().filter_map(|&setting| Some((setting, ranked[setting]?))).collect())
    }

    fn highest(&self) -> f64 {
        self.0.iter().fold(f64::NEG_INFINITY, |highest, (_, score)| highest.max(*score))
    }

    /// The best settings in order: several if they are [equal](EQUAL).
    fn best(&self) -> impl Iterator<Item = usize> + '_ {
        let least = self.highest() - EQUAL;
        self.0.iter().filter(move |(_, score)| *score >= least).map(|(setting, _)| *setting)
    }

    /// How much the choice matters: the mean loss with a setting other than the best, at most 1.
    fn stake(&self) -> f64 {
        let highest = self.highest();
        let lost: f64 = self.0.iter().fold(0.0, |lost, (_, score)| lost + 1.0 - (score - highest).exp());
        LEAST_STAKE + lost / self.0.len().max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn experience() -> Experience {
        let mut experience = Experience::new(vec!["a".into(), "b".into()], vec!["noop".into(), "cfq".into(), "sstf".into()]);
        let served = |throughput| Some(Served { throughput, response_s: 0.01, fairness: 1.0, starves: false });
        let case = |throughputs: [f32; 3]| Case {
            workload: "w".into(),
            device: "d".into(),
            under: 0,
            features: vec![Some(1.0), None],
            results: throughputs.map(served).to_vec(),
        };
        experience.cases =
            vec![case([100.0, 200.0, 100.0]), case([100.0, 100.1, 50.0]), case([100.0, 10.0, 120.0]), case([100.0, 99.9, 20.0])];
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
    fn a_setting_that_starves_is_no_winner() {
        let mut experience = experience();
        for served in experience.cases[0].results.iter_mut().skip(1).flatten() {
            served.starves = true;
        }
        assert_eq!(experience.dataset(&Preference::default()).labels[0], 0);
    }

    #[test]
    fn of_some_settings_the_best_of_these_is_the_class() {
        let dataset = experience().dataset_among(&Preference::default(), vec![0, 2]);
        assert_eq!(dataset.labels, [0, 0, 2, 0]);
    }

    #[test]
    fn a_case_in_which_only_one_was_measured_has_no_class() {
        let mut experience = experience();
        experience.cases[0].results = vec![experience.cases[0].results[0], None, None];
        assert_eq!(experience.dataset(&Preference::default()).labels, [0, 2, 0], "nor does it count as a win");
        assert!(experience.dataset_among(&Preference::default(), vec![0]).labels.is_empty(), "there is nothing to compare with");
    }

    #[test]
    fn two_experiences_are_joined_by_the_names_of_features_and_settings() {
        let ours = experience();
        let mut theirs = Experience::new(vec!["c".into(), "a".into()], vec!["sstf".into(), "clook".into()]);
        let served = Some(Served { throughput: 7.0, response_s: 0.5, fairness: 0.5, starves: false });
        let (workload, device) = ("v".to_owned(), "e".to_owned());
        theirs.cases = vec![Case { workload, device, under: 1, features: vec![Some(3.0), Some(4.0)], results: vec![None, served] }];
        let both = ours.and(&theirs);
        assert_eq!(both.features, ["a", "b", "c"]);
        assert_eq!(both.settings, ["noop", "cfq", "sstf", "clook"]);
        assert_eq!((both.cases[0].features.clone(), both.cases[0].results[3]), (vec![Some(1.0), None, None], None));
        let last = &both.cases[4];
        assert_eq!((last.under, last.workload.as_str(), last.device.as_str()), (3, "v", "e"));
        assert_eq!(
            (last.features.clone(), last.results.clone()),
            (vec![Some(4.0), None, Some(3.0)], vec![None, None, None, served])
        );
        assert_eq!(Experience::from_json(&both.to_json().unwrap(), "x").unwrap(), both, "it fits together");
    }

    #[test]
    fn what_does_not_fit_together_is_refused() {
        let message = |change: &dyn Fn(&mut Experience)| {
            let mut experience = experience();
            change(&mut experience);
            Experience::from_json(&experience.to_json().unwrap(), "x.json").unwrap_err().to_string()
        };
        assert_eq!(message(&|e| e.schema = 9), "x.json: schema 9; this program reads 2: gather again");
        assert_eq!(message(&|e| e.cases[1].under = 7), "x.json: case 1: was seen under setting 7; there are 3");
        assert!(message(&|e| e.cases[2].features.clear()).contains("has 0 features; 2 are named"));
        assert!(message(&|e| e.cases[2].results.truncate(2)).contains("has 2 results; 3 settings are named"));
        assert!(Experience::from_json("{", "x").is_err());
    }
}
