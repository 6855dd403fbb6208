//! Recommendations without the daemon: the setting for a device, its predicted gain, and configuration files that apply it.

mod files;

use std::path::Path;

use anyhow::ensure;
use block::Nanos;
use control::Setting;
use experiment::advice::{AdviceRequest, advise};
use experiment::comparison::Experiment;
use observe::Preference;
use report::advice::Advice;
use serde::Serialize;
use testbed::pool::Workers;

pub use files::{sysctl, tuned, udev};

use crate::history::id;
use applier::sysfs::Sysfs;
use linux::advice::{ASKED_FOR, LoadTracker, of_counters, unseen};
use linux::topology::{Device, wwid};

/// A recommendation.
#[derive(Clone, Debug, Serialize)]
pub struct Piece {
    /// Stable id: the same recommendation for the same device has the same id.
    pub id: String,
    /// Name of the device or trace.
    pub device: String,
    /// World-wide name of the device; `None` if it has none.
    pub wwid: Option<String>,
    /// The original setting.
    pub in_force: String,
    /// The recommended setting; the active one if no change is recommended.
    pub setting: String,
    /// Whether a change is recommended.
    pub is_change: bool,
    /// The recommendation as a sentence.
    pub why: String,
    /// Predicted gain in percent; `None` if no change is recommended.
    pub gain_percent: Option<f64>,
    /// Standard error of `gain_percent`.
    pub error_percent: Option<f64>,
    /// The full report.
    pub advice: Advice,
}

/// Parameters of a recommendation.
pub struct Asks {
    /// Candidate settings, in the syntax of the configuration.
    pub candidates: Vec<Setting>,
    /// Weights of throughput, response time and fairness.
    pub preference: Preference,
}

impl Asks {
    /// Request for a recorded trace.
    fn wanted(&self, recording: &Path, in_force: Option<Setting>) -> AdviceRequest {
        let experiment = Experiment {
            candidates: self.candidates.iter().map(ToString::to_string).collect(),
            preference: Some(self.preference),
            // Without a disk the recorded response times are used.
            ..Experiment::of_jobs(recording, "")
        };
        AdviceRequest { experiment, names_disk: false, device: None, active: in_force, aims: Vec::new(), varied: Vec::new() }
    }
}

/// Monitors a device for the given time and recommends a setting. With `by_counters`, or if requests cannot be traced, uses counters only.
///
/// # Errors
/// The device has no queue, cannot be observed, or received no requests.
pub fn of_device(
    sysfs: &Sysfs,
    device: &Device,
    (lasts, by_counters): (Nanos, bool),
    asks: &Asks,
    crew: Workers,
) -> anyhow::Result<Piece> {
    let name = &device.name;
    ensure!(device.size_sectors > 0, "{name}: holds nothing: no medium is in it, or nothing is attached to it");
    if let Some(why) = by_counters.then(|| ASKED_FOR.to_owned()).or_else(|| unseen(sysfs, device)) {
        // Tunables of the host are not candidates here.
        let of_queue: Vec<Setting> = asks.candidates.iter().filter(|one| one.host.is_empty()).cloned().collect();
        let advice = of_counters((sysfs, device), name, (lasts, why), (&of_queue, asks.preference), crew.monitor)?;
        return Ok(piece(name, wwid(sysfs, name), advice));
    }
    let program = format!("seekwise-agent {}", env!("CARGO_PKG_VERSION"));
    let watched = LoadTracker::of((sysfs, device), name, lasts, &program, crew.monitor)?;
    watched.expect_requests(name, crew.monitor)?;
    let mut advice = advise(&asks.wanted(watched.file.path(), None), crew)?;
    watched.describe((sysfs, device), "named", &mut advice);
    Ok(piece(name, wwid(sysfs, name), advice))
}

/// Recommends a setting for a trace. `in_force` is the setting that was active during the recording and overrides the one in the trace.
///
/// # Errors
/// The trace cannot be read or has no response times.
pub fn of_recording(path: &Path, in_force: Option<Setting>, asks: &Asks, crew: Workers) -> anyhow::Result<Piece> {
    let advice = advise(&asks.wanted(path, in_force), crew)?;
    let name = advice.load.clone();
    Ok(piece(&name, None, advice))
}

fn piece(device: &str, wwid: Option<String>, advice: Advice) -> Piece {
    let setting = advice.verdict.setting.clone();
    let promise = advice.candidates.iter().find(|promise| advice.verdict.is_change && promise.setting == setting);
    Piece {
        id: id(device, &advice.in_force, &setting),
        device: device.to_owned(),
        wwid,
        in_force: advice.in_force.clone(),
        is_change: advice.verdict.is_change,
        why: advice.verdict.text.clone(),
        gain_percent: promise.map(|promise| promise.gain_percent),
        error_percent: promise.map(|promise| promise.error_percent),
        setting,
        advice,
    }
}
