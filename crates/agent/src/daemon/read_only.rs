//! A monitored device: a target that reports its setting and refuses every change.

use block::{Limits, Nanos, SchedulerSpec, Tunable};
use control::target::{Bounds, Identity};
use control::{Setting, Target, TargetError};

use super::device_control::DeviceControl;
use applier::attribute::{NR_REQUESTS, READ_AHEAD, State};
use applier::sysfs::{RealFiles, Sysfs};
use applier::{ApplierError, AtExit, Foreign, Restored};
use linux::target::{SWITCH, active_setting};
use linux::topology::Device;

/// A device that is only monitored.
pub struct ReadOnlyDevice {
    sysfs: Sysfs,
    name: String,
    model: String,
    capacity_sectors: u64,
}

impl ReadOnlyDevice {
    /// This device.
    pub fn new(sysfs: &Sysfs, device: &Device) -> ReadOnlyDevice {
        ReadOnlyDevice {
            sysfs: sysfs.clone(),
            name: device.name.clone(),
            model: device.model.clone().unwrap_or_else(|| device.name.clone()),
            capacity_sectors: device.size_sectors,
        }
    }

    /// The active setting; `None` if the device is gone.
    fn state(&self) -> State {
        State::read(&RealFiles, &self.sysfs, &self.name).unwrap_or_default()
    }
}

impl Target for ReadOnlyDevice {
    fn identity(&self) -> Identity {
        Identity { plant: "linux".to_owned(), device: self.model.clone() }
    }

    fn schedulers(&self) -> Vec<&'static SchedulerSpec> {
        let offered = self.state().offered;
        block::of_linux().filter(|spec| offered.iter().any(|name| name == spec.name)).collect()
    }

    fn tunables(&self) -> Vec<&'static Tunable> {
        Vec::new()
    }

    fn bounds(&self) -> Bounds {
        let state = self.state();
        Bounds {
            capacity_sectors: self.capacity_sectors,
            limits: Limits::default(),
            nr_requests: state.count(NR_REQUESTS).unwrap_or(256),
            read_ahead_kib: state.count(READ_AHEAD),
        }
    }

    fn setting(&self) -> Setting {
        active_setting(&self.sysfs, &self.name)
    }

    fn switching_time(&self, from: &Setting, to: &Setting) -> Nanos {
        if from.spec.name == to.spec.name { Nanos::ZERO } else { SWITCH }
    }

    fn apply(&mut self, _now: Nanos, setting: &Setting) -> Result<(), TargetError> {
        Err(TargetError { setting: setting.to_string(), reason: "it is only watched".to_owned() })
    }
}

/// Nothing is ever set, so there are no external changes and nothing to restore.
impl DeviceControl for ReadOnlyDevice {
    fn foreign(&mut self) -> Result<Vec<Foreign>, ApplierError> {
        Ok(Vec::new())
    }

    fn release(&mut self) -> Result<(), ApplierError> {
        Ok(())
    }

    fn resume(&mut self) -> Result<(), ApplierError> {
        Ok(())
    }

    fn because(&mut self, _why: &str) {}

    fn at_exit(&mut self, _policy: AtExit) -> Result<(), ApplierError> {
        Ok(())
    }

    fn restore(&mut self) -> Result<Vec<Restored>, ApplierError> {
        Ok(Vec::new())
    }
}
