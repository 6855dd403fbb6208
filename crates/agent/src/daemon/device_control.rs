//! What a daemon does with a device: a plant that can also say who else wrote, and put everything back; and the care that is taken of it.

use std::collections::VecDeque;

use block::{Nanos, SchedulerSpec, Tunable};
use control::target::{Bounds, Identity};
use control::{Setting, Target, TargetError};

use crate::configuration::Settings;
use applier::{ApplierError, AtExit, Foreign, Restored};

/// A device that may be tuned, or only looked at.
pub trait DeviceControl: Target + Send {
    /// External changes: attributes that are not as the agent set or found them last, those for which it has
    /// [stood down](DeviceControl::release) included.
    ///
    /// # Errors
    /// The device is gone, or the applier is.
    fn foreign(&mut self) -> Result<Vec<Foreign>, ApplierError>;

    /// Stands down: external changes stay, also when the agent is started again.
    ///
    /// # Errors
    /// As [`foreign`](DeviceControl::foreign).
    fn release(&mut self) -> Result<(), ApplierError>;

    /// May set again what it [released](DeviceControl::release).
    ///
    /// # Errors
    /// As [`foreign`](DeviceControl::foreign).
    fn resume(&mut self) -> Result<(), ApplierError>;

    /// Why the next settings are applied, for the journal.
    fn because(&mut self, why: &str);

    /// Sets whether its settings are restored when the agent ends or is killed.
    ///
    /// # Errors
    /// As [`foreign`](DeviceControl::foreign).
    fn at_exit(&mut self, policy: AtExit) -> Result<(), ApplierError>;

    /// Puts back what was there before the agent.
    ///
    /// # Errors
    /// As [`foreign`](DeviceControl::foreign); the journal cannot be read.
    fn restore(&mut self) -> Result<Vec<Restored>, ApplierError>;
}

const MINUTE: Nanos = Nanos(60_000_000_000);

/// When settings were changed within the last minute.
#[derive(Debug, Default)]
pub struct ChangeRate {
    changes: VecDeque<Nanos>,
}

impl ChangeRate {
    /// Whether another change is too many; if so, when there is room for one.
    fn full_until(&mut self, now: Nanos, most: u32) -> Option<Nanos> {
        while self.changes.front().is_some_and(|&at| at + MINUTE <= now) {
            self.changes.pop_front();
        }
        (self.changes.len() >= most as usize).then(|| self.changes.front().map_or(now, |&at| at + MINUTE))
    }
}

/// For how long a setting that the guard reverted is not applied again: longer than a load that comes back every few minutes stays away, and
/// short enough that a night's backup does not decide about the day.
const VETO: Nanos = Nanos(3_600_000_000_000);
/// Maximum number of vetoes; the oldest is forgotten first.
const MAX_VETOES: usize = 64;

/// Settings that the guard reverted lately.
#[derive(Debug, Default)]
pub struct Vetoes(VecDeque<(Nanos, Setting)>);

impl Vetoes {
    /// The guard reverted this setting.
    pub fn add(&mut self, now: Nanos, setting: &Setting) {
        self.0.retain(|(_, vetoed)| vetoed != setting);
        if self.0.len() >= MAX_VETOES {
            self.0.pop_front();
        }
        self.0.push_back((now, setting.clone()));
    }

    /// When the guard reverted this setting, if that was lately.
    pub fn of(&self, now: Nanos, setting: &Setting) -> Option<Nanos> {
        self.0.iter().find(|(at, vetoed)| *at + VETO > now && vetoed == setting).map(|(at, _)| *at)
    }
}

/// Whether the agent may set the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// It may.
    Agent,
    /// The device is only observed; decisions become advice.
    ReadOnly,
    /// It stands down until it is resumed, for this reason.
    StoodDown(String),
}

/// A device within the configuration's limits. What is refused by them is remembered, to say what would have been done.
pub struct PolicyGate<'a> {
    /// The device.
    pub device_control: &'a mut dyn DeviceControl,
    /// What may be done.
    pub settings: &'a Settings,
    /// The original setting: going back to it is always allowed.
    pub original: &'a Setting,
    /// Whether anything is done.
    pub ownership: &'a Ownership,
    /// How much was done lately.
    pub rate: &'a mut ChangeRate,
    /// What the guard reverted.
    pub vetoes: &'a Vetoes,
    /// What was refused last.
    pub refused: &'a mut Option<Setting>,
    /// Tunables of the host that are not tried.
    pub not_tried: &'static [&'static str],
}

impl PolicyGate<'_> {
    /// Why this must not be set, if so.
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
        self.device_control.apply(now, setting)?;
        self.rate.changes.push_back(now);
        Ok(())
    }
}
