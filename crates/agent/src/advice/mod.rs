//! Advice for people who want no daemon: what to set on a device, what it would bring, and files that set it.

mod files;

use std::path::Path;

use anyhow::ensure;
use block::Nanos;
use control::Setting;
use experiment::advice::{AdviceRequest, advise};
use experiment::comparison::Experiment;
use experiment::pool::Workers;
use observe::Preference;
use report::advice::Advice;
use serde::Serialize;

pub use files::{sysctl, tuned, udev};

use crate::history::id;
use applier::sysfs::Sysfs;
use linux::advice::{ASKED_FOR, LoadTracker, of_counters, unseen};
use linux::topology::{Device, wwid};

/// A piece of advice.
#[derive(Clone, Debug, Serialize)]
pub struct Piece {
    /// The same for the same advice about the same device, whenever it is asked for.
    pub id: String,
    /// The device's name, or the recording's.
    pub device: String,
    /// Its world-wide name, if it has one.
    pub wwid: Option<String>,
    /// The original setting.
    pub in_force: String,
    /// The setting to use; the active one where it should be left alone.
    pub setting: String,
    /// Whether anything is to be changed.
    pub is_change: bool,
    /// In a sentence.
    pub why: String,
    /// The gain that is promised, in percent, and its standard error; nothing where it is left alone.
    pub gain_percent: Option<f64>,
    /// See `gain_percent`.
    pub error_percent: Option<f64>,
    /// The whole advice.
    pub advice: Advice,
}

/// What is asked of it.
pub struct Asks {
    /// What to choose among, as the configuration has it.
    pub candidates: Vec<Setting>,
    /// What is wanted more.
    pub preference: Preference,
}

impl Asks {
    /// Of a recording.
    fn wanted(&self, recording: &Path, in_force: Option<Setting>) -> AdviceRequest {
        let experiment = Experiment {
            candidates: self.candidates.iter().map(ToString::to_string).collect(),
            preference: Some(self.preference),
            // No disk is named: the times are taken as they were recorded.
            ..Experiment::of_jobs(recording, "")
        };
        AdviceRequest { experiment, names_disk: false, device: None, active: in_force, aims: Vec::new(), varied: Vec::new() }
    }
}

/// Watches a device for so long, and judges what it was asked: where its requests may not be seen, or `by_counters`, from counters alone.
///
/// # Errors
/// It has no queue, cannot be observed, or was asked nothing.
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
        // Tunables of the host are not judged.
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

/// Judges a recording; `in_force` is the setting that was active then and takes precedence over the recording's own.
///
/// # Errors
/// It cannot be read, or does not say how long requests took.
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
