//! Exchange of a device's session with the fleet: shares measured changes, receives outcomes of other machines and settings of rollouts.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use block::Nanos;
use control::ab_test::Estimate;
use control::fleet::{DeviceType, FleetKnowledge};
use control::{Setting, Verdict, Window};
use observe::description::{describe, mean_by_name};

use super::{DeviceSession, Notice};
use crate::daemon::device_control::Ownership;
use crate::fleet::DeviceJob;
use crate::history::EntryKind;

/// Number of windows averaged to describe the load before a change. Choice: more describe an earlier load, fewer describe it less exactly;
/// not varied.
const DESCRIBED: usize = 8;

/// A change of the setting with its measured gain.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredChange {
    /// Features of the load before the change, by name; features without a value are absent.
    pub load: BTreeMap<String, f32>,
    /// Previous setting.
    pub from: String,
    /// New setting.
    pub to: String,
    /// Measured gain, as a difference of scores with its standard error.
    pub gain: Estimate,
    /// Weights of the score.
    pub preference: String,
}

/// A rollout's setting held on this device.
#[derive(Clone, Debug)]
struct Held {
    rollout: String,
    setting: Setting,
    /// The setting to return to.
    before: Setting,
}

/// State of the exchange for one device.
#[derive(Default)]
pub(super) struct Sharing {
    device: DeviceType,
    knowledge: Arc<FleetKnowledge>,
    held: Option<Held>,
    /// Sum of the scores since the last report, and their number.
    scores: (f64, u64),
    /// Features of the latest windows under the active setting; at most [`DESCRIBED`].
    rows: VecDeque<Vec<f64>>,
    /// The load under the setting before the latest change, and that setting; `None` if too little was observed of it.
    before: Option<(Setting, BTreeMap<String, f32>)>,
}

impl Sharing {
    /// Outcomes measured by other machines.
    pub fn knowledge(&self) -> &Arc<FleetKnowledge> {
        &self.knowledge
    }

    /// Whether a rollout's setting is held, which suspends the controller.
    pub fn is_held(&self) -> bool {
        self.held.is_some()
    }

    /// Records a window under the active setting with its score.
    pub fn window(&mut self, window: &Window, score: f64) {
        self.scored(score);
        if self.rows.len() == DESCRIBED {
            self.rows.pop_front();
        }
        self.rows.push_back(describe(&window.features, &window.outcome));
    }

    /// Records a score, which may come from counters alone.
    pub fn scored(&mut self, score: f64) {
        self.scores = (self.scores.0 + score, self.scores.1 + 1);
    }

    /// Describes the load before a change from this setting.
    pub fn changed(&mut self, from: &Setting) {
        let rows = std::mem::take(&mut self.rows);
        let load = mean_by_name(rows.iter());
        self.before = (!load.is_empty()).then(|| (from.clone(), load));
    }

    /// Forgets the load.
    pub fn restart(&mut self) {
        self.rows.clear();
        self.before = None;
    }
}

impl DeviceSession {
    /// Sets the type under which its outcomes are shared.
    pub fn is_of_type(&mut self, device: DeviceType) {
        self.sharing.device = device;
    }

    /// Type of the device.
    pub fn device_type(&self) -> &DeviceType {
        &self.sharing.device
    }

    /// Replaces the outcomes of other machines, for the controller too.
    pub fn know_fleet(&mut self, knowledge: Arc<FleetKnowledge>) {
        self.sharing.knowledge = knowledge.clone();
        self.control_loop.know_fleet(knowledge);
    }

    /// Emits notices about a verdict: for the history, and if it is an outcome, to be shared.
    pub(super) fn judged(&mut self, verdict: &Arc<Verdict>, notices: &mut Vec<Notice>) {
        notices.push(Notice::Verdict(verdict.clone()));
        if !verdict.is_outcome() {
            return;
        }
        self.verdict = Some(verdict.clone());
        notices.push(Notice::Windows(self.learning.take_windows()));
        // Without features of the load the outcome is useless to other machines.
        if let Some((_, load)) = self.sharing.before.as_ref().filter(|(setting, _)| *setting == verdict.over)
            && verdict.gain.error.is_finite()
        {
            notices.push(Notice::Change(Box::new(MeasuredChange {
                load: load.clone(),
                from: verdict.over.to_string(),
                to: verdict.setting.to_string(),
                gain: verdict.gain,
                preference: self.configured.settings.preference.to_string(),
            })));
        }
    }

    /// State to report to the server. Resets the sum of scores.
    pub fn share(&mut self) -> DeviceJob {
        let (sum, count) = std::mem::take(&mut self.sharing.scores);
        let held = self.sharing.held.as_ref();
        let is_active = held.is_some_and(|held| held.setting == self.active);
        // Fixed texts only: text written by an administrator must not leave the machine.
        let note = match (held, &self.access.ownership) {
            (None, _) => "",
            (Some(_), _) if is_active => "",
            (Some(_), Ownership::StoodDown(_)) => "changed by an administrator",
            (Some(_), Ownership::ReadOnly) => "only watched",
            (Some(_), Ownership::Agent) if self.access.refusal.is_some() => "refused by the configuration or the applier",
            (Some(_), Ownership::Agent) => "taken back by the guard",
        };
        DeviceJob {
            device: self.sharing.device.clone(),
            takes_part: self.access.ownership == Ownership::Agent || held.is_some(),
            score: (count > 0).then(|| (sum / count as f64, count)),
            active: held.filter(|_| is_active).map(|held| held.rollout.clone()),
            note: note.to_owned(),
        }
    }

    /// Applies and holds the setting of a rollout; `None` restores the setting before it. Host tunables that the rollout does not name keep
    /// their active values, as on devices that it is compared with. No effect while the agent may not set the device: an administrator's
    /// change stays.
    pub fn hold(&mut self, now: Nanos, wanted: Option<(&str, &Setting)>) -> Vec<Notice> {
        let mut notices = Vec::new();
        if self.learning.lesson.is_some() {
            return notices;
        }
        let held = self.sharing.held.take();
        let before = held.as_ref().map_or_else(|| self.active.clone(), |held| held.before.clone());
        match (held, wanted) {
            (None, None) => {}
            (held, Some((rollout, setting))) => {
                let setting = &setting.keeping_host_of(&before);
                let is_new = held.is_none();
                if is_new && self.access.ownership != Ownership::Agent {
                    return notices;
                }
                self.sharing.held = Some(Held { rollout: rollout.to_owned(), setting: setting.clone(), before });
                if is_new {
                    self.sharing.scores = (0.0, 0);
                    self.restart(now);
                }
                if self.active != *setting && self.access.ownership == Ownership::Agent {
                    let why = format!("rollout {rollout} has chosen this device");
                    self.steer(now, None, EntryKind::Set, &mut notices, |control_loop, target| {
                        control_loop.overrule(now, setting, &why, target);
                    });
                }
            }
            (Some(held), None) => {
                if self.access.ownership == Ownership::Agent && self.active == held.setting {
                    let why = format!("rollout {} is over for this device: back to {before}", held.rollout);
                    self.steer(now, None, EntryKind::Set, &mut notices, |control_loop, target| {
                        control_loop.overrule(now, &before, &why, target);
                    });
                }
                self.restart(now);
            }
        }
        notices
    }
}
