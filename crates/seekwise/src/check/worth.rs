//! Effect of each active setting: a load is simulated under all settings, then with each one individually at its default.

use control::Setting;
use experiment::comparison::Experiment;
use experiment::comparison::regime::Regime;
use serde::Serialize;
use testbed::pool::Workers;

use super::setting::Disk;
use super::state::State;
use super::verdict::{Judged, Verdict};

/// Effect of one setting.
#[derive(Debug, Serialize)]
pub struct Worth {
    /// The device whose settings these are.
    pub device: String,
    /// Name of the attribute, such as `iosched/fifo_batch`.
    pub setting: String,
    /// Its value.
    pub value: String,
    /// Mean response time in ms, under all settings and without this one.
    pub mean_ms: (f64, f64),
    /// 99th percentile of the response time in ms, under all settings and without this one.
    pub p99_ms: (f64, f64),
}

/// Effects of settings, and the settings that could not be simulated.
#[derive(Debug, Default)]
pub struct Worths {
    /// Effects, by device and setting.
    pub worths: Vec<Worth>,
    /// Settings that could not be simulated, as sentences.
    pub notes: Vec<String>,
}

/// Prefix of a scheduler's attributes.
const OF_SCHEDULER: &str = "iosched/";
/// The kernel's default scheduler for a device with one hardware queue, and with several (`elevator_get_default`).
const DEFAULTS: [&str; 2] = ["mq-deadline", "none"];

/// An active setting, as input of the simulator.
struct Part {
    key: String,
    value: String,
}

impl Part {
    fn is_machines(&self) -> bool {
        self.key.starts_with("vm.")
    }

    /// Formats it as `read_ahead_kb=1024`.
    fn word(&self) -> String {
        let name = self.key.strip_prefix("vm.").or(self.key.strip_prefix(OF_SCHEDULER)).unwrap_or(&self.key);
        format!("{name}={}", self.value.trim_start_matches(['<', '>']))
    }
}

/// Simulates the load for each disk with active settings.
pub fn simulate(experiment: &Experiment, judged: &[Judged], disks: &[Disk], workers: Workers) -> anyhow::Result<Worths> {
    let world = experiment.world()?;
    let heeded: Vec<String> =
        experiment.load(&world, workers.monitor)?.replay(&world).host.into_iter().map(|(name, _)| name).collect();
    let mut found = Worths::default();
    for disk in disks {
        let parts = parts(disk, judged, &heeded, &mut found.notes);
        let state = State::of(disk);
        let active = state.get("scheduler").unwrap_or_else(|| default_scheduler(disk).to_owned());
        let whole = figures(experiment, &active, parts.iter(), workers)?;
        for part in &parts {
            let scheduler = if part.key == "scheduler" { default_scheduler(disk) } else { &active };
            let left = parts.iter().filter(|other| other.key != part.key);
            // A scheduler is removed together with its tunables.
            let left = left.filter(|other| scheduler == active || !other.key.starts_with(OF_SCHEDULER));
            let without = figures(experiment, scheduler, left, workers)?;
            found.worths.push(Worth {
                device: disk.name().to_owned(),
                setting: part.key.clone(),
                value: part.value.clone(),
                mean_ms: (whole.0, without.0),
                p99_ms: (whole.1, without.1),
            });
        }
    }
    Ok(found)
}

fn default_scheduler(disk: &Disk) -> &'static str {
    DEFAULTS[usize::from(disk.hardware_queues() > 1)]
}

/// Active settings that affect the simulated load; others are added to `notes`.
fn parts(disk: &Disk, judged: &[Judged], heeded: &[String], notes: &mut Vec<String>) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    let is_its = |judged: &&Judged| judged.setting.device.as_deref().is_none_or(|device| device == disk.name());
    for judged in judged.iter().filter(|judged| judged.verdict == Verdict::InForce).filter(is_its) {
        let part = Part { key: judged.setting.key.clone(), value: judged.now.clone().unwrap_or_default() };
        let word = part.word();
        let name = word.split('=').next().unwrap_or_default();
        let is_of_scheduler = part.key == "scheduler" || part.key.starts_with(OF_SCHEDULER);
        if parts.iter().any(|known| known.key == part.key) {
            continue;
        }
        if is_of_scheduler || heeded.iter().any(|known| known == name) {
            parts.push(part);
        } else {
            let owner = if part.is_machines() { "the machine" } else { disk.name() };
            let note = format!("{} of {owner} is not simulated with this load", part.key);
            (!notes.contains(&note)).then(|| notes.push(note));
        }
    }
    parts
}

/// Mean and 99th percentile of the response time, in milliseconds.
fn figures<'a>(
    experiment: &Experiment,
    scheduler: &str,
    parts: impl Iterator<Item = &'a Part>,
    workers: Workers,
) -> anyhow::Result<(f64, f64)> {
    let (mut tunables, mut host) = (Vec::new(), experiment.host.clone());
    for part in parts {
        match part.key.as_str() {
            "scheduler" => {}
            key if key.starts_with(OF_SCHEDULER) => tunables.push(part.word()),
            _ => host.push(part.word()),
        }
    }
    let text = if tunables.is_empty() { scheduler.to_owned() } else { format!("{scheduler}:{}", tunables.join(",")) };
    let setting = Setting::parse_scheduler(&text)?;
    let records = Experiment { host, ..experiment.clone() }.records(vec![Regime::Scheduler(setting)], false, workers)?;
    let response = records.first().map(|record| &record.figures.response);
    Ok(response.map_or((0.0, 0.0), |response| (response.mean_ms, response.p99_ms)))
}
