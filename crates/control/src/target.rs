//! Interface to the controlled system (the "plant" of control theory): a simulated host, a Linux block device, or our block server.

use block::{Limits, Nanos, SchedulerSpec, Tunable};

use crate::setting::Setting;

/// A system whose scheduler and settings can be changed while it runs.
///
/// Its host passes events to a [`ControlLoop`](crate::ControlLoop), which applies the controller's decisions to the target.
///
/// ```
/// use block::{Limits, Nanos, SchedulerSpec, Tunable};
/// use control::target::{Bounds, Identity};
/// use control::{Setting, Target, TargetError};
///
/// /// A disk that runs the schedulers of today's Linux and has no tunables of its own.
/// struct Disk(Setting);
///
/// impl Target for Disk {
///     fn identity(&self) -> Identity {
///         Identity { plant: "simulator".to_owned(), device: "example".to_owned() }
///     }
///     fn schedulers(&self) -> Vec<&'static SchedulerSpec> {
///         block::KERNEL.to_vec()
///     }
///     fn tunables(&self) -> Vec<&'static Tunable> {
///         Vec::new()
///     }
///     fn bounds(&self) -> Bounds {
///         Bounds { capacity_sectors: 1 << 30, limits: Limits::default(), nr_requests: 256, read_ahead_kib: None }
///     }
///     fn setting(&self) -> Setting {
///         self.0.clone()
///     }
///     fn switching_time(&self, _from: &Setting, _to: &Setting) -> Nanos {
///         Nanos::from_millis(35)
///     }
///     fn apply(&mut self, _now: Nanos, setting: &Setting) -> Result<(), TargetError> {
///         if !self.schedulers().iter().any(|spec| spec.name == setting.spec.name) {
///             return Err(TargetError { setting: setting.to_string(), reason: "unknown scheduler".to_owned() });
///         }
///         self.0 = setting.clone();
///         Ok(())
///     }
/// }
///
/// let mut disk = Disk(Setting::parse("mq-deadline")?);
/// assert!(disk.apply(Nanos::ZERO, &Setting::parse("bfq:slice_idle=0")?).is_ok());
/// let refused = disk.apply(Nanos::ZERO, &Setting::parse("cfq")?);
/// assert_eq!(refused.map_err(|error| error.to_string()), Err("cannot set cfq: unknown scheduler".to_owned()));
/// assert_eq!(disk.setting().to_string(), "bfq:slice_idle=0");
/// # Ok::<(), block::SettingError>(())
/// ```
pub trait Target {
    /// The kind of target and the device, under which knowledge is stored.
    fn identity(&self) -> Identity;

    /// The schedulers that it can run.
    fn schedulers(&self) -> Vec<&'static SchedulerSpec>;

    /// The host tunables that can be set at run time.
    fn tunables(&self) -> Vec<&'static Tunable>;

    /// Limits of the queue, and capacity of the device.
    fn bounds(&self) -> Bounds;

    /// The active setting, read back.
    fn setting(&self) -> Setting;

    /// Estimated time for which the device is idle during this change.
    fn switching_time(&self, from: &Setting, to: &Setting) -> Nanos;

    /// Applies a setting and reads it back.
    ///
    /// # Errors
    /// The setting was refused, or reads back as another one. The previous setting is then active.
    fn apply(&mut self, now: Nanos, setting: &Setting) -> Result<(), TargetError>;
}

/// A target that applies nothing and says that it did: each comparison made on it compares a setting with itself, so every gain beyond
/// its stated interval is an error of the comparison.
#[derive(Clone, Debug)]
pub struct Placebo {
    identity: Identity,
    schedulers: Vec<&'static SchedulerSpec>,
    tunables: Vec<&'static Tunable>,
    bounds: Bounds,
    switching_time: Nanos,
    setting: Setting,
}

impl Placebo {
    /// Answers as this target does now.
    pub fn of(target: &dyn Target) -> Placebo {
        let (setting, schedulers) = (target.setting(), target.schedulers());
        let other = schedulers.iter().find(|spec| spec.name != setting.spec.name);
        Placebo {
            identity: target.identity(),
            switching_time: other.map_or(Nanos::ZERO, |spec| target.switching_time(&setting, &Setting::of(spec))),
            tunables: target.tunables(),
            bounds: target.bounds(),
            schedulers,
            setting,
        }
    }
}

impl Target for Placebo {
    fn identity(&self) -> Identity {
        self.identity.clone()
    }

    fn schedulers(&self) -> Vec<&'static SchedulerSpec> {
        self.schedulers.clone()
    }

    fn tunables(&self) -> Vec<&'static Tunable> {
        self.tunables.clone()
    }

    fn bounds(&self) -> Bounds {
        self.bounds
    }

    fn setting(&self) -> Setting {
        self.setting.clone()
    }

    fn switching_time(&self, from: &Setting, to: &Setting) -> Nanos {
        if from.spec.name == to.spec.name { Nanos::ZERO } else { self.switching_time }
    }

    fn apply(&mut self, _now: Nanos, setting: &Setting) -> Result<(), TargetError> {
        self.setting = setting.clone();
        Ok(())
    }
}

/// Identifies a target in the knowledge base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The kind of target: `simulator`, `linux`, `server`.
    pub plant: String,
    /// The device's name or model.
    pub device: String,
}

/// Limits of a device and its queue; on Linux those in `/sys/block/*/size` and `/sys/block/*/queue`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The device's size in 512-byte sectors.
    pub capacity_sectors: u64,
    /// Limits for the scheduler.
    pub limits: Limits,
    /// Maximum number of requests of each kind that are queued or in flight.
    pub nr_requests: u32,
    /// Default read-ahead of files in KiB; `None` if there is none or it is unknown.
    pub read_ahead_kib: Option<u32>,
}

/// Why a setting could not be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot set {setting}: {reason}")]
pub struct TargetError {
    /// The setting.
    pub setting: String,
    /// The reason.
    pub reason: String,
}
