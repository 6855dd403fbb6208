//! Measurements for offline learning: workloads on devices, described by their features, with the performance of each setting.
//!
//! The two-layer scheme learns its classes from them; the twin's controller recalls those of its device. A case is a phase of a workload on
//! a device. Its features depend on the setting under which they were observed.

mod gene_pool;

use block::Nanos;
use serde::{Deserialize, Serialize};

use observe::merit;
use observe::performance::Performance;
use observe::preference::Preference;

pub use gene_pool::{GenePool, Member};

/// Length of the window of a case. Controllers also use shorter and longer ones. Choice: shorter ones have too few requests for shares,
/// longer ones notice a change late; not varied.
pub const WINDOW: Nanos = Nanos::from_millis(1_000);
/// Minimum number of requests of a window; windows with fewer are not used. Choice: more exclude slow devices; with 20, the standard error
/// of a share is at most 0.11; not varied.
pub const MIN_REQUESTS: u64 = 20;

/// Version of the file format. Choice: rises by one with each incompatible change; not varied.
pub const SCHEMA: u32 = 2;

/// Cases, with the names of their features and settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experience {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Names of the features of each case, in order.
    pub features: Vec<String>,
    /// The settings of each case's results, in order, in the format of [`Setting`](crate::Setting).
    pub settings: Vec<String>,
    /// The cases.
    pub cases: Vec<Case>,
    /// Gene pools of earlier searches, the latest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pools: Vec<GenePool>,
}

/// A phase of a workload on a device, observed under one setting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// The workload.
    pub workload: String,
    /// The device.
    pub device: String,
    /// The setting that was active when the features were recorded, as an index into the settings.
    pub under: usize,
    /// One value per feature name; `None` if missing.
    pub features: Vec<Option<f32>>,
    /// The performance of the phase under each setting; `None` if not measured.
    pub results: Vec<Option<Performance>>,
}

impl Case {
    /// Scores for ranking the settings: settings that starve a stream rank below all others. `None` if not measured.
    pub fn ranked(&self, preference: &Preference) -> Vec<Option<f64>> {
        let measured = self.results.iter().flatten().map(|served| (served.score(preference), served.starves));
        let mut ranked = merit::ranked(measured).into_iter();
        self.results.iter().map(|served| served.and_then(|_| ranked.next())).collect()
    }
}

/// Why a file could not be read as experience.
#[derive(Debug, thiserror::Error)]
pub enum ExperienceError {
    /// Not valid JSON of this form.
    #[error("{path}: {source}")]
    Json {
        /// The file.
        path: String,
        /// The error and its position.
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
        /// The mismatch.
        reason: String,
    },
}

impl Experience {
    /// An empty collection with these names.
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
        (!case.results.iter().flatten().all(Performance::is_sound)).then(|| "has a result that is no number".to_owned())
    }

    /// Serializes it as JSON.
    ///
    /// # Errors
    /// Never, for numbers and names.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }

    /// Combines this with `other`, which may have other features and settings.
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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn experience() -> Experience {
        let mut experience = Experience::new(vec!["a".into(), "b".into()], vec!["noop".into(), "cfq".into(), "sstf".into()]);
        let served = |throughput| Some(Performance { throughput, response_s: 0.01, fairness: 1.0, starves: false });
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
    fn experience_round_trips_through_json() {
        let experience = experience();
        let text = experience.to_json().unwrap();
        assert_eq!(Experience::from_json(&text, "x").unwrap(), experience);
    }

    #[test]
    fn two_experiences_are_joined_by_the_names_of_features_and_settings() {
        let ours = experience();
        let mut theirs = Experience::new(vec!["c".into(), "a".into()], vec!["sstf".into(), "clook".into()]);
        let served = Some(Performance { throughput: 7.0, response_s: 0.5, fairness: 0.5, starves: false });
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
    fn inconsistent_experience_is_refused() {
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
