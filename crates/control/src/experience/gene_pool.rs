//! Gene pools: what served a load, kept under the load's fingerprint until it comes back.
//!
//! Moilanen, "I/O Workload Fingerprinting in the Genetic Library", Linux Symposium 2006: "gene pools are saved and re-introduced".

use serde::{Deserialize, Serialize};

use crate::setting::Setting;
use observe::performance::TrialScore;
use observe::performance::{Performance, stored_features};
use observe::preference::Preference;
use observe::similarity::{Columns, Point, load_distance};

/// What is kept of a pool, the best.
const MOST_MEMBERS: usize = 16;

/// What served a load on a device, the best first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GenePool {
    /// The device's name or model.
    pub device: String,
    /// The fingerprint: what the load was described by ([`describe`](observe::description::describe)) under `under`.
    pub features: Vec<Option<f32>>,
    /// What was in force when it was described, as text.
    pub under: String,
    /// The settings that were tried, the best first.
    pub members: Vec<Member>,
}

/// A setting, and how it served.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Member {
    /// As text.
    pub setting: String,
    /// Throughput, response time, fairness.
    pub served: Performance,
}

impl GenePool {
    /// A pool of what was tried under a load with this description.
    pub fn of(device: &str, row: &[f64], under: &Setting, tried: &[(Setting, TrialScore)], preference: &Preference) -> GenePool {
        let mut tried: Vec<&(Setting, TrialScore)> = tried.iter().filter(|(_, rated)| !rated.starves()).collect();
        tried.sort_by(|a, b| b.1.score(preference).total_cmp(&a.1.score(preference)));
        let mut members: Vec<Member> = Vec::new();
        for (setting, rated) in tried {
            let setting = setting.to_string();
            if members.len() < MOST_MEMBERS && !members.iter().any(|member| member.setting == setting) {
                members.push(Member { setting, served: rated.served });
            }
        }
        GenePool { device: device.to_owned(), features: stored_features(row.iter().copied()), under: under.to_string(), members }
    }

    /// The fingerprint as a point.
    pub fn point(&self) -> Point {
        Columns::described().point(|column| self.features.get(column).copied().flatten().map(f64::from))
    }

    /// How far its load is from another, squared; `None` if it was seen on another device or under another setting.
    pub fn distance(&self, device: &str, under: &Setting, point: &Point) -> Option<f64> {
        (self.device == device && self.under == under.to_string()).then(|| load_distance(&self.point(), point))
    }

    /// Its settings, the best first. What this program cannot parse is left out.
    pub fn settings(&self) -> impl Iterator<Item = Setting> + '_ {
        self.members.iter().filter_map(|member| Setting::parse(&member.setting).ok())
    }
}
