//! Opens the machine's devices: through the applier if it is running, else read-only as root.

use std::path::{Path, PathBuf};

use block::{Nanos, StreamId};
use observe::Event;
use tracing::warn;

use super::device_control::DeviceControl;
use super::read_only::ReadOnlyDevice;
use super::{Opened, Opens};
use crate::configuration::{Mode, Settings};
use applier::sysfs::Sysfs;
use applier::{ApplierError, AtExit, Client, ErrorKind, Foreign, Restored};
use linux::events::counter_source::ASKED_FOR;
use linux::events::{CounterSource, EventSource, ObserveError, Tracepoints};
use linux::target::LinuxTarget;
use linux::topology::Device;
use protect::live::{ByApplier, Protection, Terms};

/// The machine's devices.
pub struct Machine {
    sysfs: Sysfs,
    applier: PathBuf,
    /// Use counters only, even if requests could be traced.
    by_counters: bool,
}

impl Machine {
    /// Uses the applier at this socket.
    pub fn new(sysfs: Sysfs, applier: &Path) -> Machine {
        Machine { sysfs, applier: applier.to_owned(), by_counters: false }
    }

    /// With `only`, uses counters only.
    pub fn by_counters(self, only: bool) -> Machine {
        Machine { by_counters: only, ..self }
    }

    /// Opens an event source: tracepoints through the applier, else directly, else counters.
    ///
    /// # Errors
    /// No source is available.
    pub fn source(&self, device: &Device) -> Result<Box<dyn EventSource>, String> {
        // A detached loop device still exists, with its counters.
        if device.size_sectors == 0 {
            return Err("it is empty".to_owned());
        }
        let refused = match self.by_counters {
            true => ASKED_FOR.to_owned(),
            false => match self.seeing(device) {
                Ok(source) => return Ok(source),
                Err(reason) => reason,
            },
        };
        match CounterSource::open(&self.sysfs, device, refused.clone()) {
            Ok(blind) => Ok(Box::new(blind)),
            Err(error) => Err(format!("{refused}; nor can its counters: {error}")),
        }
    }

    fn seeing(&self, device: &Device) -> Result<Box<dyn EventSource>, String> {
        let lent = Lent::new(&self.sysfs, &self.applier, device);
        let lent = match lent {
            Ok(lent) => return Ok(Box::new(lent)),
            Err(reason) => reason,
        };
        if !rustix::process::geteuid().is_root() {
            return Err(format!("its requests cannot be seen: {lent}"));
        }
        match Tracepoints::open(&self.sysfs, device) {
            Ok(own) => Ok(Box::new(own)),
            Err(error) => Err(format!("its requests cannot be seen: {error}")),
        }
    }
}

impl Opens for Machine {
    fn open(&mut self, device: &Device, settings: &Settings, _at: Nanos) -> Result<Opened, String> {
        let source = self.source(device)?;
        if settings.mode != Mode::Act {
            return Ok((Box::new(ReadOnlyDevice::new(&self.sysfs, device)), source));
        }
        let linux = applied(&self.sysfs, &self.applier, device, settings);
        let linux = linux.map_err(|error| format!("it cannot be tuned: {error}"))?;
        Ok((Box::new(linux), source))
    }

    fn protect(&mut self, device: &Device, terms: Terms, at: Nanos) -> Result<Option<Protection>, String> {
        let limiter = Box::new(ByApplier::new(self.applier.clone()));
        let protection = Protection::begin(at, &self.sysfs, device, terms, limiter);
        protection.map(Some).map_err(|error| error.to_string())
    }
}

fn applied(sysfs: &Sysfs, applier: &Path, device: &Device, settings: &Settings) -> Result<Applied, ApplierError> {
    let policy = settings.exit;
    let client = connected(applier, &device.name, policy)?;
    let model = device.model.as_deref().unwrap_or(&device.name);
    let mut linux = LinuxTarget::new(sysfs, &device.name, model, client, |attribute| settings.may_touch(attribute))?;
    linux.because(&decided_by(settings));
    Ok(Applied { linux, socket: applier.to_owned(), device: device.name.clone(), policy })
}

/// Reason in the journal for changes while the device is tuned.
pub(super) fn decided_by(settings: &Settings) -> String {
    format!("decided by {}; `seekwise-agent history` says why", settings.controller.label())
}

/// A connection on which the exit policy of the device has been set. An applier whose own configuration does not allow that settings are
/// kept restores them.
fn connected(applier: &Path, device: &str, policy: AtExit) -> Result<Client, ApplierError> {
    let mut client = Client::connect(applier)?;
    match client.at_exit(device, policy) {
        Err(error) if error.kind == ErrorKind::NotAllowed => {
            warn!("{error}");
            client.at_exit(device, AtExit::Restore)?;
        }
        done => done?,
    }
    Ok(client)
}

/// A device that is set through the applier.
struct Applied {
    linux: LinuxTarget,
    socket: PathBuf,
    device: String,
    policy: AtExit,
}

impl Applied {
    /// Sends a request to the applier; retries if the applier was restarted.
    fn ask<T>(&mut self, ask: impl Fn(&mut Client, &str) -> Result<T, ApplierError>) -> Result<T, ApplierError> {
        match ask(self.linux.applier(), &self.device) {
            Err(error) if error.kind == ErrorKind::Unreachable => {
                *self.linux.applier() = connected(&self.socket, &self.device, self.policy)?;
                self.linux.applier_restarted();
                ask(self.linux.applier(), &self.device)
            }
            answer => answer,
        }
    }
}

impl control::Target for Applied {
    fn identity(&self) -> control::target::Identity {
        self.linux.identity()
    }

    fn schedulers(&self) -> Vec<&'static block::SchedulerSpec> {
        self.linux.schedulers()
    }

    fn tunables(&self) -> Vec<&'static block::Tunable> {
        self.linux.tunables()
    }

    fn bounds(&self) -> control::target::Bounds {
        self.linux.bounds()
    }

    fn setting(&self) -> control::Setting {
        self.linux.setting()
    }

    fn switching_time(&self, from: &control::Setting, to: &control::Setting) -> Nanos {
        self.linux.switching_time(from, to)
    }

    fn apply(&mut self, now: Nanos, setting: &control::Setting) -> Result<(), control::TargetError> {
        self.linux.apply(now, setting)
    }
}

impl DeviceControl for Applied {
    fn foreign(&mut self) -> Result<Vec<Foreign>, ApplierError> {
        let mut foreign = self.ask(Client::foreign)?;
        // The journal has only attributes that the agent has set.
        for change in self.linux.external_changes() {
            if foreign.iter().all(|known| known.attribute != change.attribute) {
                foreign.push(change);
            }
        }
        Ok(foreign)
    }

    fn release(&mut self) -> Result<(), ApplierError> {
        let changes = self.linux.external_changes().into_iter().map(|change| (change.attribute, change.ours));
        let changes: Vec<(String, String)> = changes.collect();
        self.ask(|client, device| client.release(device, &changes))?;
        self.linux.accept_external_changes();
        Ok(())
    }

    fn resume(&mut self) -> Result<(), ApplierError> {
        self.ask(Client::resume)?;
        self.linux.begin()
    }

    fn because(&mut self, why: &str) {
        self.linux.because(why);
    }

    fn at_exit(&mut self, policy: AtExit) -> Result<(), ApplierError> {
        self.policy = policy;
        self.ask(|client, device| client.at_exit(device, policy))
    }

    fn restore(&mut self) -> Result<Vec<Restored>, ApplierError> {
        let restored = self.ask(|client, device| client.restore(Some(device)))?;
        self.linux.restored(&restored);
        Ok(restored)
    }
}

/// Tracepoints whose pipes the applier opened; closed with the connection.
struct Lent {
    tracepoints: Tracepoints,
    _applier: Client,
}

impl Lent {
    fn new(sysfs: &Sysfs, applier: &Path, device: &Device) -> Result<Lent, String> {
        let mut client = Client::connect(applier).map_err(|error| error.to_string())?;
        let lent = client.tracepoints(&device.name).map_err(|error| error.to_string())?;
        let tracepoints = Tracepoints::of_pipes(sysfs, device, lent.pipes, &lent.formats).map_err(|error| error.to_string())?;
        Ok(Lent { tracepoints, _applier: client })
    }
}

impl EventSource for Lent {
    fn read(&mut self, out: &mut Vec<Event>) -> Result<(), ObserveError> {
        self.tracepoints.read(out)
    }

    fn report_fsync(&mut self) {
        self.tracepoints.report_fsync();
    }

    fn lost(&self) -> u64 {
        self.tracepoints.lost()
    }

    fn name(&self, stream: StreamId) -> Option<&str> {
        self.tracepoints.name(stream)
    }

    fn fds(&self) -> Vec<std::os::fd::BorrowedFd<'_>> {
        self.tracepoints.fds()
    }
}
