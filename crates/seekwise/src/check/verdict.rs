//! Verdict on a setting: active, overridden, without effect, or in conflict with another one.

use std::collections::BTreeMap;

use super::root::Origin;
use super::setting::{Disk, Found, Setting};
use super::state::State;

/// Verdict on a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The value is active.
    InForce,
    /// Overridden by a later setting of the same tool.
    Overridden(Origin),
    /// Cannot take effect, or equals the value without it.
    Nothing {
        /// The reason.
        why: String,
        /// Whether it should be corrected.
        is_finding: bool,
    },
    /// Another tool sets another value, which takes precedence.
    Fights {
        /// Location of the other setting.
        with: Origin,
        /// Why the other one takes precedence.
        why: String,
    },
    /// Should be active, but another value is.
    NotInForce(String),
    /// Cannot be determined.
    Unknown(String),
}

impl Verdict {
    /// Whether the verdict calls for action.
    pub fn is_finding(&self) -> bool {
        match self {
            Verdict::InForce | Verdict::Overridden(_) | Verdict::Unknown(_) => false,
            Verdict::Nothing { is_finding, .. } => *is_finding,
            Verdict::Fights { .. } | Verdict::NotInForce(_) => true,
        }
    }

    /// Machine-readable name.
    pub fn kind(&self) -> &'static str {
        match self {
            Verdict::InForce => "in_force",
            Verdict::Overridden(_) => "overridden",
            Verdict::Nothing { .. } => "does_nothing",
            Verdict::Fights { .. } => "fights",
            Verdict::NotInForce(_) => "not_in_force",
            Verdict::Unknown(_) => "unknown",
        }
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Verdict::InForce => write!(f, "in force"),
            Verdict::Overridden(by) => write!(f, "overridden by {by}"),
            Verdict::Nothing { why, .. } => write!(f, "does nothing: {why}"),
            Verdict::Fights { with, why } => write!(f, "fights with {with}, which wins: {why}"),
            Verdict::NotInForce(why) => write!(f, "not in force: {why}"),
            Verdict::Unknown(why) => write!(f, "unknown: {why}"),
        }
    }
}

/// A setting with its verdict.
pub struct Judged {
    /// The setting.
    pub setting: Setting,
    /// Current value in the kernel; `None` if it has none, or no kernel is available.
    pub now: Option<String>,
    /// The verdict.
    pub verdict: Verdict,
}

/// Judges all settings by device, in the order in which they are applied.
pub fn judge(found: &mut Found, disks: &[Disk], machine: &State) -> Vec<Judged> {
    let mut settings = std::mem::take(&mut found.settings);
    settings.sort_by_key(|setting| setting.tool);
    let mut by_device: BTreeMap<Option<String>, Vec<Setting>> = BTreeMap::new();
    for setting in settings {
        by_device.entry(setting.device.clone()).or_default().push(setting);
    }
    let mut judged = Vec::new();
    for disk in disks {
        let of_device = by_device.remove(&Some(disk.name().to_owned())).unwrap_or_default();
        judged.extend(of_one(of_device, &State::of(disk)));
    }
    judged.extend(of_one(by_device.remove(&None).unwrap_or_default(), machine));
    for (setting, why) in std::mem::take(&mut found.unmatched) {
        judged.push(Judged { setting, now: None, verdict: Verdict::Nothing { why, is_finding: false } });
    }
    judged
}

/// Judges the settings of one device, or of the machine.
fn of_one(settings: Vec<Setting>, state: &State) -> Vec<Judged> {
    let nothing: Vec<Option<Verdict>> = settings.iter().map(|setting| without_effect(setting, state)).collect();
    let verdicts: Vec<Verdict> = (0..settings.len())
        .map(|index| nothing[index].clone().unwrap_or_else(|| against_others(index, &settings, &nothing, state)))
        .collect();
    settings.into_iter().zip(verdicts).map(|(setting, verdict)| Judged { now: state.get(&setting.key), setting, verdict }).collect()
}

/// Verdict on a setting that has no effect regardless of the others; `None` if it may have one.
fn without_effect(setting: &Setting, state: &State) -> Option<Verdict> {
    if let Some(why) = &setting.ineffective {
        return Some(Verdict::Nothing { why: why.clone(), is_finding: true });
    }
    if setting.condition.is_some() {
        return None;
    }
    state.refuses(&setting.key, &setting.value).map(|why| Verdict::Nothing { why, is_finding: true })
}

/// Verdict on a setting that takes effect unless another one overrides it.
fn against_others(index: usize, settings: &[Setting], nothing: &[Option<Verdict>], state: &State) -> Verdict {
    let setting = &settings[index];
    let counts = |other: &usize| nothing[*other].is_none() && settings[*other].condition.is_none();
    let later = || (index + 1..settings.len()).filter(counts);
    let last = later().rfind(|&other| settings[other].key == setting.key).map(|other| &settings[other]);
    if let Some(last) = last {
        return match () {
            () if state.is_same(setting, &last.value) => told(setting, state),
            () if last.tool == setting.tool => Verdict::Overridden(last.origin.clone()),
            () => Verdict::Fights { with: last.origin.clone(), why: last.tool.why_it_wins(setting.tool) },
        };
    }
    if let Some(twin) = twin(&setting.key)
        && let Some(other) = later().find(|&other| settings[other].key == twin)
    {
        let why = format!("{twin} at {} is set after it, and each sets the other to 0", settings[other].origin);
        return Verdict::Nothing { why, is_finding: true };
    }
    if setting.key.starts_with("iosched/")
        && !state.has(setting)
        && let Some(other) = later().find(|&other| settings[other].key == "scheduler")
    {
        let why = format!("{} switches the scheduler after it, which resets it", settings[other].origin);
        return Verdict::Nothing { why, is_finding: true };
    }
    match told(setting, state) {
        Verdict::NotInForce(why) => {
            let other = settings.iter().find(|other| other.key == setting.key && state.has(other));
            Verdict::NotInForce(other.map_or(why, |other| format!("{} is, as {} has it", other.value, other.origin)))
        }
        verdict => verdict,
    }
}

/// Verdict by the current value in the kernel.
fn told(setting: &Setting, state: &State) -> Verdict {
    if let Some(condition) = &setting.condition {
        return Verdict::Unknown(format!("whether {condition} holds is not known here"));
    }
    let Some(now) = state.get(&setting.key) else {
        return match state.lacks(&setting.key) {
            Some(why) => Verdict::Nothing { why, is_finding: true },
            None => Verdict::Unknown("there is no kernel to ask below this root".to_owned()),
        };
    };
    if !state.has(setting) {
        return Verdict::NotInForce(format!("{now} is, so something else set it since, or this was not applied yet"));
    }
    match state.is_default(setting) {
        Some(why) => Verdict::Nothing { why, is_finding: false },
        None => Verdict::InForce,
    }
}

/// The sysctl that overrides another one, such as `vm.dirty_bytes` for `vm.dirty_ratio`; `None` if there is none.
fn twin(key: &str) -> Option<&'static str> {
    match key {
        "vm.dirty_ratio" => Some("vm.dirty_bytes"),
        "vm.dirty_bytes" => Some("vm.dirty_ratio"),
        "vm.dirty_background_ratio" => Some("vm.dirty_background_bytes"),
        "vm.dirty_background_bytes" => Some("vm.dirty_background_ratio"),
        _ => None,
    }
}
