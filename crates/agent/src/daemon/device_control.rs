//! Control of a device: a target that also detects external changes and restores the original setting, and the policy gate in front of it.

use std::collections::VecDeque;

use block::{Nanos, SchedulerSpec, Tunable};
use control::target::{Bounds, Identity};
use control::{Setting, Target, TargetError};

use crate::configuration::Settings;
use applier::{ApplierError, AtExit, Foreign, Restored};

/// A device that is tuned or monitored.
pub trait DeviceControl: Target + Send {
    /// External changes: attributes whose value is not the last one that the agent set or found, including those for which it has
    /// [stood down](DeviceControl::release).
    ///
    /// # Errors
    /// The device is gone, or the applier is unreachable.
    fn foreign(&mut self) -> Result<Vec<Foreign>, ApplierError>;

    /// Stands down: external changes are kept, also after a restart of the agent.
    ///
    /// # Errors
    /// As [`foreign`](DeviceControl::foreign).
    fn release(&mut self) -> Result<(), ApplierError>;

    /// Resumes control of attributes that were [released](DeviceControl::release).
    ///
    /// # Errors
    /// As [`foreign`](DeviceControl::foreign).
    fn resume(&mut self) -> Result<(), ApplierError>;

    /// Sets the reason for the next changes, for the journal.
    fn because(&mut self, why: &str);

    /// Sets whether the original settings are restored when the agent exits or is killed.
    ///
    /// # Errors
    /// As [`foreign`](DeviceControl::foreign).
    fn at_exit(&mut self, policy: AtExit) -> Result<(), ApplierError>;

    /// Restores the settings from before the agent.
    ///
    /// # Errors
    /// As [`foreign`](DeviceControl::foreign); the journal cannot be read.
    fn restore(&mut self) -> Result<Vec<Restored>, ApplierError>;
}

/// The period in which changes are counted. Derived: 60 seconds.
const MINUTE: Nanos = Nanos(60_000_000_000);

/// Times of the changes within the last minute, and the way back from the latest one.
#[derive(Debug, Default)]
pub struct ChangeRate {
    changes: VecDeque<Nanos>,
    /// The setting before the latest change; `None` after a return to it.
    return_to: Option<Setting>,
}

impl ChangeRate {
    /// When the next change is allowed; `None` if one is allowed now.
    fn full_until(&mut self, now: Nanos, most: u32) -> Option<Nanos> {
        while self.changes.front().is_some_and(|&at| at + MINUTE <= now) {
            self.changes.pop_front();
        }
        (self.changes.len() >= most as usize).then(|| self.changes.front().map_or(now, |&at| at + MINUTE))
    }

    /// Adds a change. A return counts, too, and is used up by it: otherwise two settings could be exchanged without limit.
    fn changed(&mut self, now: Nanos, from: Setting, to: &Setting) {
        self.changes.push_back(now);
        self.return_to = (self.return_to.as_ref() != Some(to)).then_some(from);
    }
}

/// How long a setting that the guard reverted is barred: longer than the pauses of a load that recurs every few minutes, and short enough
/// that a nightly backup does not decide about the day. Choice: an hour, between these two; not varied.
const VETO: Nanos = Nanos(3_600_000_000_000);
/// Maximum number of vetoes; the oldest is dropped first. Choice: bounds the memory; above the number of candidates; not varied.
const MAX_VETOES: usize = 64;

/// Settings recently reverted by the guard.
#[derive(Debug, Default)]
pub struct Vetoes(VecDeque<(Nanos, Setting)>);

impl Vetoes {
    /// Adds a setting that the guard has reverted.
    pub fn add(&mut self, now: Nanos, setting: &Setting) {
        self.0.retain(|(_, vetoed)| vetoed != setting);
        if self.0.len() >= MAX_VETOES {
            self.0.pop_front();
        }
        self.0.push_back((now, setting.clone()));
    }

    /// When the guard reverted this setting; `None` if not within the last hour.
    pub fn of(&self, now: Nanos, setting: &Setting) -> Option<Nanos> {
        self.0.iter().find(|(at, vetoed)| *at + VETO > now && vetoed == setting).map(|(at, _)| *at)
    }
}

/// Whether the agent may set the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// The agent may set it.
    Agent,
    /// The device is only monitored; decisions become recommendations.
    ReadOnly,
    /// The agent has stood down until it is resumed; the reason.
    StoodDown(String),
}

/// Enforces the limits of the configuration on a device, and records the last refused setting.
pub struct PolicyGate<'a> {
    /// The device.
    pub device_control: &'a mut dyn DeviceControl,
    /// Limits from the configuration.
    pub settings: &'a Settings,
    /// The original setting, which may always be restored.
    pub original: &'a Setting,
    /// The setting that stays if control ends now, where that is not the active one: the one before a trial. A return to it is not limited
    /// in number.
    pub stays: Option<Setting>,
    /// Whether the agent may set the device.
    pub ownership: &'a Ownership,
    /// Recent changes.
    pub rate: &'a mut ChangeRate,
    /// Settings barred by the guard.
    pub vetoes: &'a Vetoes,
    /// The last refused setting.
    pub refused: &'a mut Option<Setting>,
    /// Tunables of the host that are not varied.
    pub not_tried: &'static [&'static str],
}

impl PolicyGate<'_> {
    /// Why this setting must not be applied; `None` if it may.
    fn objection(&mut self, now: Nanos, setting: &Setting) -> Option<String> {
        match self.ownership {
            Ownership::ReadOnly => return Some("it is only watched".to_owned()),
            Ownership::StoodDown(why) => return Some(format!("the agent stands down: {why}")),
            Ownership::Agent if setting == self.original => return None,
            Ownership::Agent => {}
        }
        if !self.settings.allows(setting, self.original) {
            return Some("the configuration's attributes do not allow to touch all of it".to_owned());
        }
        if let Some(at) = self.vetoes.of(now, setting) {
            let minutes = (now - at).as_secs_f64() / 60.0;
            return Some(format!("the guard reverted it {minutes:.0} min ago, and it is not applied again within an hour"));
        }
        // The limit is for beginnings: the end of a trial, or of a setting that does harm, must not wait.
        if self.stays.as_ref() == Some(setting) || self.rate.return_to.as_ref() == Some(setting) {
            return None;
        }
        let most = self.settings.changes_per_minute;
        let until = self.rate.full_until(now, most)?;
        let in_s = (until - now).as_secs_f64();
        Some(format!("{most} changes were made within a minute (changes_per_minute); there is room in {in_s:.0} s"))
    }
}

impl Target for PolicyGate<'_> {
    fn identity(&self) -> Identity {
        self.device_control.identity()
    }

    fn schedulers(&self) -> Vec<&'static SchedulerSpec> {
        self.device_control.schedulers()
    }

    fn tunables(&self) -> Vec<&'static Tunable> {
        let mut tunables = self.device_control.tunables();
        tunables.retain(|tunable| !self.not_tried.contains(&tunable.name));
        tunables
    }

    fn bounds(&self) -> Bounds {
        self.device_control.bounds()
    }

    fn setting(&self) -> Setting {
        self.device_control.setting()
    }

    fn switching_time(&self, from: &Setting, to: &Setting) -> Nanos {
        self.device_control.switching_time(from, to)
    }

    fn apply(&mut self, now: Nanos, setting: &Setting) -> Result<(), TargetError> {
        if let Some(reason) = self.objection(now, setting) {
            *self.refused = Some(setting.clone());
            return Err(TargetError { setting: setting.to_string(), reason });
        }
        let from = self.device_control.setting();
        self.device_control.apply(now, setting)?;
        self.rate.changed(now, from, setting);
        Ok(())
    }
}
