//! Current values in the kernel, and values that it would refuse.

use applier::attribute::{self, Owner};

use super::root::Root;
use super::setting::{Disk, Setting};

/// Current values of a device, or of the machine.
pub struct State<'a> {
    root: &'a Root,
    disk: Option<&'a Disk<'a>>,
    /// Schedulers offered by `queue/scheduler`; empty if it does not exist.
    offered: Vec<String>,
    active: Option<String>,
}

/// Schedulers up to Linux 4.20, with their replacements.
const GONE: &[(&str, &str)] = &[("cfq", "bfq"), ("noop", "none"), ("anticipatory", "bfq")];
/// Name that the kernel maps to its successor (`elevator_alias` in Linux 6.18 `block/mq-deadline.c`).
const ALIAS: (&str, &str) = ("deadline", "mq-deadline");

impl<'a> State<'a> {
    /// State of the machine.
    pub fn of_machine(root: &'a Root) -> State<'a> {
        State { root, disk: None, offered: Vec::new(), active: None }
    }

    /// State of a device.
    pub fn of(disk: &'a Disk<'a>) -> State<'a> {
        let text = disk.attribute("queue/scheduler").unwrap_or_default();
        let offered = text.split_whitespace().map(|word| word.trim_matches(['[', ']']).to_owned()).collect();
        let active = text.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
        // No brackets: the value is not a choice.
        let active = active.or((!text.is_empty()).then_some(text.as_str())).map(str::to_owned);
        State { root: disk.root, disk: Some(disk), offered, active }
    }

    /// Current value; `None` if the kernel has none.
    pub fn get(&self, key: &str) -> Option<String> {
        match (self.disk, key) {
            (Some(_), "scheduler") => self.active.clone(),
            (Some(disk), "device/queue_depth") => disk.attribute(key),
            (Some(disk), _) => disk.attribute(&format!("queue/{key}")),
            (None, _) => key.strip_prefix("vm.").and_then(|name| self.root.attribute(&format!("/proc/sys/vm/{name}"))),
        }
    }

    /// Whether the current value is the one set.
    pub fn has(&self, setting: &Setting) -> bool {
        self.get(&setting.key).is_some_and(|now| self.is_same(setting, &now))
    }

    /// Whether a setting results in this value.
    pub fn is_same(&self, setting: &Setting, value: &str) -> bool {
        let wanted = known_as(&setting.key, setting.value.trim());
        let value = known_as(&setting.key, value.trim());
        // tuned's prefixes for minimum and maximum.
        match (wanted.strip_prefix('>'), wanted.strip_prefix('<')) {
            (Some(least), _) => number(value).zip(number(least)).is_some_and(|(value, least)| value >= least),
            (_, Some(most)) => number(value).zip(number(most)).is_some_and(|(value, most)| value <= most),
            _ => wanted == value || number(wanted).is_some_and(|wanted| number(value) == Some(wanted)),
        }
    }

    /// Why the kernel refuses a value; `None` if it accepts it.
    pub fn refuses(&self, key: &str, value: &str) -> Option<String> {
        let value = known_as(key, value.trim());
        if key != "scheduler" || self.offered.is_empty() || self.offered.iter().any(|offered| offered == value) {
            return None;
        }
        let offered = self.offered.join(", ");
        if let Some((_, instead)) = GONE.iter().find(|(name, _)| *name == value) {
            return Some(format!("{value} went with Linux 5.0; its place has {instead}; offered here: {offered}"));
        }
        if self.offered == ["none"] {
            return Some("this device has no choice of schedulers".to_owned());
        }
        // Writing the name of a scheduler loads its module.
        let state =
            self.disk.and_then(|disk| attribute::State::read(&applier::sysfs::RealFiles, &self.root.sysfs(), disk.name()).ok());
        let is_loadable = state.is_some_and(|state| state.loadable.iter().any(|name| name == value));
        (!is_loadable).then(|| format!("this kernel does not offer {value} here, but {offered}"))
    }

    /// Why the attribute does not exist; `None` if nothing is known about the device.
    pub fn lacks(&self, key: &str) -> Option<String> {
        let Some(disk) = self.disk else {
            return self.root.attribute("/proc/sys/vm/swappiness").map(|_| format!("this kernel has no {key}"));
        };
        let active = self.active.as_deref().unwrap_or("none");
        match attribute::find(key).map(|attribute| attribute.owner) {
            Some(Owner::Scheduler(owner)) if owner != active => Some(format!("{key} is {owner}'s, and {active} is active")),
            _ if !disk.device.has_queue => Some("requests do not queue at this device, but at those below it".to_owned()),
            _ if key.starts_with("iosched/") => Some(format!("{active} has no such attribute")),
            _ => Some(format!("this kernel has no {key} here")),
        }
    }

    /// Why an active value would be the same without the setting; `None` if unknown.
    pub fn is_default(&self, setting: &Setting) -> Option<String> {
        let queues = self.disk.filter(|_| setting.key == "scheduler")?.hardware_queues();
        let is_default = queues > 1 && setting.value == "none";
        is_default.then(|| format!("the kernel gives a device with {queues} hardware queues none by itself"))
    }
}

fn number(text: &str) -> Option<i64> {
    text.parse().ok()
}

/// Normalises a value to the kernel's notation.
fn known_as<'a>(key: &str, value: &'a str) -> &'a str {
    if key == "scheduler" && value == ALIAS.0 { ALIAS.1 } else { value }
}
