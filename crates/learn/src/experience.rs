//! What was lived through: workloads on devices, described by their features, and how every setting served them.
//!
//! Everything that is learned offline is learned from this: the classes of the two-layer scheme, and the gains that the scheme
//! `seekwise` expects. A case stands for a phase of a workload on a device. It is described as it looked under one of the settings,
//! for what a controller sees depends on what is in force.

use serde::{Deserialize, Serialize};

use crate::merit;
use crate::model::Dataset;
use crate::preference::Preference;
use crate::window::WindowOutcome;

/// Settings whose scores differ by no more are equally good: results are kept with four digits.
const EQUAL: f64 = 1e-3;

/// Where all settings are equally good, how much a case counts: next to nothing.
const LEAST_STAKE: f64 = 0.05;

/// The version of the file's form.
pub const SCHEMA: u32 = 2;

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
    /// A stream had to wait longer than it may ([`merit::starves`]).
    #[serde(default)]
    pub starves: bool,
}

impl Served {
    /// How these windows were served, taken together; `None` if nothing was done in them.
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

    /// All of it are numbers, and none is below zero.
    pub fn is_sound(&self) -> bool {
        [self.throughput, self.response_s, self.fairness].iter().all(|value| value.is_finite() && *value >= 0.0)
    }

    /// How good that is ([`merit::score`]).
    pub fn score(&self, preference: &Preference) -> f64 {
        merit::score(preference, self.throughput.into(), self.response_s.into(), self.fairness.into())
    }
}

impl Case {
    /// The scores of the settings by which they are ranked: one that starves is behind all others. `None` where nothing was measured.
    pub fn ranked(&self, preference: &Preference) -> Vec<Option<f64>> {
        let measured = self.results.iter().flatten().map(|served| (served.score(preference), served.starves));
        let mut ranked = merit::ranked(measured).into_iter();
        self.results.iter().map(|served| served.and_then(|_| ranked.next())).collect()
    }
}

/// Such a row as a [`Case`] keeps it.
pub fn noted(row: impl IntoIterator<Item = f64>) -> Vec<Option<f32>> {
    row.into_iter().map(|value| Some(four_digits(value)).filter(|value| value.is_finite())).collect()
}

/// Rounded: more digits would say no more, and make the file long.
fn four_digits(value: f64) -> f32 {
    if value == 0.0 || !value.is_finite() {
        return value as f32;
    }
    let step = 10f64.powf(value.abs().log10().floor() - 3.0);
    ((value / step).round() * step) as f32
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
    #[error("{path}: schema {found}; this program reads {SCHEMA}: gather again")]
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
        (!case.results.iter().flatten().all(Served::is_sound)).then(|| "has a result that is no number".to_owned())
    }

    /// As text.
    ///
    /// # Errors
    /// Never, for numbers and names.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }

    /// All of this and all of another, which may know other features and settings.
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
        both
    }

    /// The cases as rows with the best setting of each as its class, for the learners of [`model`](crate::model). Settings that are
    /// the best more often decide between equals, so that classes do not split what is one. A workload's cases are a group.
    pub fn dataset(&self, preference: &Preference) -> Dataset {
        self.dataset_among(preference, (0..self.settings.len()).collect())
    }

    /// The same where only these settings, as indices, can be had: the class is the best of them. A case in which only one of them
    /// was measured says nothing.
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

/// How well settings, as indices, served a case: those that were measured.
struct Scores(Vec<(usize, f64)>);

impl Scores {
    fn of(case: &Case, preference: &Preference, among: &[usize]) -> Scores {
        let ranked = case.ranked(preference);
        Scores(among.iter().filter_map(|&setting| Some((setting, ranked[setting]?))).collect())
    }

    fn highest(&self) -> f64 {
        self.0.iter().fold(f64::NEG_INFINITY, |highest, (_, score)| highest.max(*score))
    }

    /// The best settings, in their order: several if they are [equal](EQUAL).
    fn best(&self) -> impl Iterator<Item = usize> + '_ {
        let least = self.highest() - EQUAL;
        self.0.iter().filter(move |(_, score)| *score >= least).map(|(setting, _)| *setting)
    }

    /// How much it matters that the best is taken: what is lost with another one, on average, at most everything.
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
