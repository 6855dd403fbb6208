//! The active settings of a store's queue, and the candidates for tuning it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::store::StoreHost;
use control::Setting;
use control::controller::ControllerChoice;
use serde::{Deserialize, Serialize};
use sim::host::QueueSettings;

use crate::catalog::EXTENT_BYTES;

/// Queue depths tried on rotational stores. A shallower queue leaves more of the ordering to the scheduler, a deeper one to the disk.
const DEPTHS: [usize; 2] = [4, 8];
/// The read-ahead that is tried, as the set of candidates `linux` has it.
const READ_AHEAD_KB: i64 = 1024;

/// Names of the host tunables, as in Linux (`queue/read_ahead_kb`, `device/queue_depth`).
const READ_AHEAD: &str = "read_ahead_kb";
const DEPTH: &str = "queue_depth";

/// Tuning of a store, for `status`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Tuned {
    /// Controller with its tunables.
    pub controller: String,
    /// Number of changes of the settings, including trials.
    pub changes: u64,
    /// Last change that was kept, with its reason; `None` if there was none.
    pub last: Option<String>,
}

/// Active settings.
#[derive(Clone, Debug)]
struct Active {
    setting: Setting,
    depth: usize,
    read_ahead_kb: i64,
    /// Whether volumes of the store have guarantees.
    has_promises: bool,
    tuned: Tuned,
}

/// Active and configured settings of a store's queue.
pub struct Tuning {
    active: Mutex<Active>,
    /// Scheduler, depth and read-ahead in KiB from the configuration or by default.
    original: (Setting, usize, i64),
    /// Whether the configuration sets the scheduler, the depth and the read-ahead. Those it sets are not tuned.
    pub(crate) fixed: [bool; 3],
    pub(crate) controller: Option<ControllerChoice>,
    pub(crate) settings: QueueSettings,
}

/// Configuration of a store's queue.
pub(crate) struct Given {
    pub setting: Setting,
    pub depth: usize,
    pub read_ahead_kb: i64,
    pub fixed: [bool; 3],
    pub controller: Option<ControllerChoice>,
}

impl Tuning {
    pub(crate) fn new(given: Given, settings: QueueSettings) -> Tuning {
        let Given { setting, depth, read_ahead_kb, fixed, controller } = given;
        let tuned = Tuned { controller: controller.as_ref().map_or_else(String::new, ControllerChoice::label), ..Tuned::default() };
        let active = Active { setting: setting.clone(), depth, read_ahead_kb, has_promises: false, tuned };
        Tuning { active: Mutex::new(active), original: (setting, depth, read_ahead_kb), fixed, controller, settings }
    }

    fn lock(&self) -> MutexGuard<'_, Active> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The active scheduler with its tunables, the queue depth, and the read-ahead in KiB.
    pub fn active(&self) -> (String, usize, i64) {
        let active = self.lock();
        (active.setting.to_string(), active.depth, active.read_ahead_kb)
    }

    /// The active scheduler with its tunables.
    pub(crate) fn setting(&self) -> Setting {
        self.lock().setting.clone()
    }

    /// Records a change that was kept, for `status`.
    pub(crate) fn note(&self, change: String) {
        self.lock().tuned.last = Some(change);
    }

    /// What the controller changed; `None` without a controller.
    pub fn tuned(&self) -> Option<Tuned> {
        self.controller.as_ref()?;
        Some(self.lock().tuned.clone())
    }

    /// Sets whether volumes of the store have guarantees. With the first guarantee the original settings are restored. Without a controller
    /// nothing happens, as the settings never change.
    pub(crate) fn promises(&self, host: &StoreHost, has_promises: bool) {
        if self.controller.is_none() {
            return;
        }
        let mut active = self.lock();
        let begins = has_promises && !active.has_promises;
        active.has_promises = has_promises;
        if begins {
            let (setting, depth, read_ahead_kb) = self.original.clone();
            self.set(host, &mut active, setting, depth, read_ahead_kb);
            active.tuned.last = Some(format!("{}: volumes have promises", self.original.0));
        }
    }

    /// Applies those of the settings that differ from the active ones.
    fn set(&self, host: &StoreHost, active: &mut Active, setting: Setting, depth: usize, read_ahead_kb: i64) {
        if setting.spec.name != active.setting.spec.name {
            host.set_scheduler((setting.spec.build)(&self.settings.limits(), &setting.values));
        } else if setting.values != active.setting.values {
            host.retune(&setting.values);
        }
        if depth != active.depth {
            host.set_depth(depth);
        }
        if read_ahead_kb != active.read_ahead_kb {
            host.set_read_ahead(2 * read_ahead_kb.unsigned_abs(), EXTENT_BYTES / 512);
        }
        if (&setting, depth, read_ahead_kb) != (&active.setting, active.depth, active.read_ahead_kb) {
            active.tuned.changes += 1;
        }
        (active.setting, active.depth, active.read_ahead_kb) = (setting, depth, read_ahead_kb);
    }

    /// Changes the scheduler; depth and read-ahead stay. An error if the scheduler is configured, or volumes have guarantees.
    pub(crate) fn set_scheduler(&self, host: &StoreHost, setting: &Setting) -> Result<(), String> {
        let mut active = self.lock();
        if self.fixed[0] {
            return Err("the configuration names the scheduler".to_owned());
        }
        if active.has_promises {
            return Err(format!("volumes have promises, which {} keeps", active.setting));
        }
        let (depth, read_ahead_kb) = (active.depth, active.read_ahead_kb);
        self.set(host, &mut active, setting.clone(), depth, read_ahead_kb);
        Ok(())
    }

    /// Applies a setting with its host tunables, where missing ones mean the original. False, without any change, if `has_promises` is
    /// outdated.
    pub(crate) fn set_all(&self, host: &StoreHost, setting: &Setting, has_promises: bool) -> bool {
        let mut active = self.lock();
        if active.has_promises != has_promises {
            return false;
        }
        let value = |name: &str| setting.host.iter().find(|(known, _)| known == name).map(|(_, value)| *value);
        let depth = value(DEPTH).map_or(self.original.1, |depth| usize::try_from(depth).unwrap_or(self.original.1));
        let read_ahead_kb = value(READ_AHEAD).unwrap_or(self.original.2);
        self.set(host, &mut active, Setting { host: Vec::new(), ..setting.clone() }, depth, read_ahead_kb);
        true
    }

    /// The active setting, with depth and read-ahead as host tunables where they differ from the original, and whether volumes have
    /// guarantees.
    pub(crate) fn whole(&self) -> (Setting, bool) {
        let active = self.lock();
        let mut host = Vec::new();
        if active.depth != self.original.1 {
            host.push((DEPTH.to_owned(), active.depth as i64));
        }
        if active.read_ahead_kb != self.original.2 {
            host.push((READ_AHEAD.to_owned(), active.read_ahead_kb));
        }
        (Setting { host, ..active.setting.clone() }, active.has_promises)
    }

    /// Settings to test against the active one: with guarantees other values of the scheduler's `order`, else other read-aheads and, on
    /// rotational stores, depths. What the configuration sets is not varied.
    pub(crate) fn challengers(&self, is_rotational: bool, outstanding: f64) -> Vec<Setting> {
        let (now, has_promises) = self.whole();
        if has_promises {
            let Some(place) = now.spec.tunables.iter().position(|tunable| tunable.name == "order").filter(|_| !self.fixed[0])
            else {
                return Vec::new();
            };
            let tunable = &now.spec.tunables[place];
            let other = |value: i64| {
                (value != now.values[place]).then(|| {
                    let mut setting = now.clone();
                    setting.values[place] = value;
                    setting
                })
            };
            return (tunable.min..=tunable.max).filter_map(other).collect();
        }
        let with = |name: &str, value: i64, original: i64| {
            let mut setting = now.clone();
            setting.host.retain(|(known, _)| known != name);
            if value != original {
                setting.host.push((name.to_owned(), value));
                setting.host.sort();
            }
            setting
        };
        let (mut tried, (_, depth, read_ahead)) = (Vec::new(), &self.original);
        if !self.fixed[2] {
            tried.extend([0, READ_AHEAD_KB].map(|kib| with(READ_AHEAD, kib, *read_ahead)));
        }
        if !self.fixed[1] && is_rotational {
            let depths = DEPTHS.into_iter().filter(|lower| *lower < *depth && (*lower as f64) < outstanding).chain([*depth]);
            tried.extend(depths.map(|value| with(DEPTH, value as i64, *depth as i64)));
        }
        tried.retain(|setting| *setting != now);
        tried
    }
}
