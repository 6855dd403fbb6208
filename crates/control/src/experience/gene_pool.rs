//! Gene pools: the best settings of a load, stored with its fingerprint until the load returns.
//!
//! Moilanen, "I/O Workload Fingerprinting in the Genetic Library", Linux Symposium 2006: "gene pools are saved and re-introduced".

use serde::{Deserialize, Serialize};

use crate::setting::Setting;
use observe::performance::TrialScore;
use observe::performance::{Performance, stored_features};
use observe::preference::Preference;
use observe::similarity::{Columns, Point, load_distance};

/// Maximum size of a pool; the best are kept. Choice: bounds the size of a stored pool; four times the settings that a search takes from
/// one; not varied.
const MAX_MEMBERS: usize = 16;

/// The best settings of a load on a device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GenePool {
    /// The device's name or model.
    pub device: String,
    /// The fingerprint: the load's description ([`describe`](observe::description::describe)) under `under`.
    pub features: Vec<Option<f32>>,
    /// The setting under which it was described, as text.
    pub under: String,
    /// The settings tried, the best first.
    pub members: Vec<Member>,
}

/// A setting with its performance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Member {
    /// The setting, as text.
    pub setting: String,
    /// Throughput, response time and fairness.
    pub served: Performance,
}

impl GenePool {
    /// A pool of the trials of a load with this description. Settings that starve a stream are omitted.
    pub fn of(device: &str, row: &[f64], under: &Setting, tried: &[(Setting, TrialScore)], preference: &Preference) -> GenePool {
        let mut tried: Vec<&(Setting, TrialScore)> = tried.iter().filter(|(_, rated)| !rated.starves()).collect();
        tried.sort_by(|a, b| b.1.score(preference).total_cmp(&a.1.score(preference)));
        let mut members: Vec<Member> = Vec::new();
        for (setting, rated) in tried {
            let setting = setting.to_string();
            if members.len() < MAX_MEMBERS && !members.iter().any(|member| member.setting == setting) {
                members.push(Member { setting, served: rated.served });
            }
        }
        GenePool { device: device.to_owned(), features: stored_features(row.iter().copied()), under: under.to_string(), members }
    }

    /// The fingerprint as a point.
    pub fn point(&self) -> Point {
        Columns::described().point(|column| self.features.get(column).copied().flatten().map(f64::from))
    }

    /// Squared distance between its load and another; `None` if it was recorded on another device or under another setting.
    pub fn distance(&self, device: &str, under: &Setting, point: &Point) -> Option<f64> {
        (self.device == device && self.under == under.to_string()).then(|| load_distance(&self.point(), point))
    }

    /// Its settings, the best first, except those that this program cannot parse.
    pub fn settings(&self) -> impl Iterator<Item = Setting> + '_ {
        self.members.iter().filter_map(|member| Setting::parse(&member.setting).ok())
    }
}
