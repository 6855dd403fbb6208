//! The daemon's core without a clock: devices that appear and disappear, requests from the control socket, history, metrics and log.
//!
//! ```text
//! run (clock, poll, signals) ──now──▶ Daemon ─▶ DeviceSession: source ─▶ steering, guard ─▶ device_control
//!    ▲                                  │  ▲          one for each queue
//!    │ readable                 history │  │ ask
//!    └── source                   metrics ◀─ control
//!                                   log
//! ```
//! Everything here receives the time, so tests do not wait.

mod conflicting_tools;
mod device_control;
mod guard;
mod learner;
pub mod open;
mod read_only;
pub mod run;
mod session;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use block::Nanos;
use control::experience::Experience;
use control::fleet::FleetKnowledge;
use control::{Setting, Window};
use knowledge::NewOutcome;
use tracing::{info, warn};

use crate::history::{Entry, EntryKind, History, Measured};
pub use device_control::{DeviceControl, Ownership};
pub use learner::Learner;
pub use session::{Budget, DeviceSession, MeasuredChange, Notice};

use crate::configuration::{Configuration, Mode, Settings};
use crate::control_socket::{Answer, Ask, DeviceStatus, Differs, Status, VerdictStatus};
use crate::fleet::{FleetLink, Job, Reply, device_type};
use crate::learning::{LoadRecord, Memory};
use crate::metrics::{DeviceSample, DeviceState, Metrics};
use applier::AtExit;
use applier::sysfs::Sysfs;
use linux::cgroups::Processes;
use linux::clock::Moment;
use linux::events::EventSource;
use linux::topology::{self, Device};
use protect::live::{Protection, Terms};

/// Interval of scans for devices that were added or removed without an event. Choice: a shorter one reads all of sysfs more often; events
/// come at once; not varied.
const LOOKS_FOR_DEVICES: Nanos = Nanos(5_000_000_000);
/// Delay of a scan after a kernel event, because events come in bursts. Choice: a shorter one scans within a burst, a longer one delays a
/// new device; not varied.
const SWARM: Nanos = Nanos(200_000_000);
/// Interval at which results of searches under the normal workload are stored. Choice: a shorter one writes more, a longer one loses more
/// if the daemon is killed; not varied.
const KEEPS_POOLS: Nanos = Nanos(600_000_000_000);
/// Interval of updates of the metrics of guarantees. Choice: guarantees are judged by the second; not varied.
const SAMPLE_INTERVAL: Nanos = Nanos(1_000_000_000);
/// Interval of the per-unit figures: short enough for the usual scrape interval of 15 s. Choice: a longer one leaves scrapes without new
/// figures, a shorter one has few requests; not varied.
const UNITS_EVERY: Nanos = Nanos(10_000_000_000);
/// Source of the windows in the knowledge base that come from the normal workload. Choice: not a load's name; not varied.
const NORMAL_WORKLOAD: &str = "normal workload";
/// Memory for observations of all devices together, in MiB. A third holds requests: about 30,000, of which a trial uses a few thousand. At
/// 10,000 requests per second, analysing more for each forecast would take more CPU time than the trials. Choice: more cost memory and CPU
/// time for forecasts that are no surer; not varied.
const MEMORY_MIB: i64 = 6;
/// Minimum memory for observations of one device, in MiB. Choice: a third holds some 10,000 requests, several trials; not varied.
const LEAST_MIB: i64 = 2;

/// Control and event source of an opened device.
pub type Opened = (Box<dyn DeviceControl>, Box<dyn EventSource>);

/// Opens devices.
pub trait Opens {
    /// Opens a device.
    ///
    /// # Errors
    /// Why it cannot be monitored or tuned, as a sentence for the log.
    fn open(&mut self, device: &Device, settings: &Settings, at: Nanos) -> Result<Opened, String>;

    /// Starts keeping guarantees to units on a device; `None` if limits are not supported.
    ///
    /// # Errors
    /// Why guarantees cannot be kept, as a sentence for the log.
    fn protect(&mut self, device: &Device, terms: Terms, at: Nanos) -> Result<Option<Protection>, String> {
        let _ = (device, terms, at);
        Ok(None)
    }
}

/// The devices to monitor, and their modes.
pub struct Scope {
    /// The configuration files.
    pub configuration: Configuration,
    /// Devices named on the command line, to the exclusion of others; empty: all devices that the configuration does not exclude.
    pub named: Vec<String>,
    /// Mode of all devices, overriding the configuration; `None`: as configured.
    pub mode: Option<Mode>,
}

impl Scope {
    /// Settings of a device; `None` if it is not monitored.
    fn settings(&self, sysfs: &Sysfs, device: &Device) -> Option<Settings> {
        let mut settings = self.configuration.settings(device, sysfs.wwid(&device.name).as_deref());
        let is_named = self.named.contains(&device.name);
        if !self.named.is_empty() && !is_named {
            return None;
        }
        settings.mode = self.mode.unwrap_or(settings.mode);
        (settings.mode != Mode::LeaveAlone).then_some(settings)
    }
}

/// Identity of a device and its medium, to detect a replacement under the same name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Identity {
    name: String,
    sequence: u64,
}

/// Exchange with the fleet.
#[derive(Default)]
struct FleetState {
    /// Link to the fleet server; `None` if sharing is off.
    link: Option<FleetLink>,
    /// Latest reply of the fleet server.
    latest: Reply,
}

/// When periodic work is due.
struct Due {
    /// Scan of the devices.
    scan: Nanos,
    /// Metrics of guarantees.
    samples: Nanos,
    /// Storing gene pools.
    pools: Nanos,
}

/// The daemon.
pub struct Daemon {
    sysfs: Sysfs,
    /// The machine's `/`, for udev rules and tuned profiles.
    root: PathBuf,
    wants: Scope,
    opens: Box<dyn Opens>,
    /// Experience that comes with the program; `experience` adds this machine's own.
    shipped: Arc<Experience>,
    experience: Arc<Experience>,
    devices: BTreeMap<Identity, DeviceSession>,
    /// Devices that are not monitored, with the reason.
    left_alone: BTreeMap<Identity, String>,
    history: History,
    metrics: Metrics,
    /// Knowledge base of this machine.
    memory: Option<Memory>,
    learner: Option<Learner>,
    fleet: FleetState,
    due: Due,
    began: Moment,
}

impl Daemon {
    /// A daemon without devices; [`step`](Daemon::step) finds them.
    pub fn new(
        began: Moment,
        (sysfs, root): (Sysfs, PathBuf),
        wants: Scope,
        opens: Box<dyn Opens>,
        (experience, history, metrics): (Arc<Experience>, History, Metrics),
    ) -> Daemon {
        Daemon {
            sysfs,
            root,
            wants,
            opens,
            shipped: experience.clone(),
            experience,
            devices: BTreeMap::new(),
            left_alone: BTreeMap::new(),
            history,
            metrics,
            memory: None,
            learner: None,
            fleet: FleetState::default(),
            due: Due { scan: began.at, samples: began.at, pools: began.at + KEEPS_POOLS },
            began,
        }
    }

    /// Adds a knowledge base, whose content is available to controllers from the start.
    pub fn remembering(mut self, memory: Memory) -> Daemon {
        self.memory = Some(memory);
        self.recall();
        self
    }

    /// Adds learning mode.
    pub fn learning(self, learner: Learner) -> Daemon {
        Daemon { learner: Some(learner), ..self }
    }

    /// Adds sharing of outcomes with other machines.
    pub fn sharing(self, link: FleetLink) -> Daemon {
        Daemon { fleet: FleetState { link: Some(link), ..self.fleet }, ..self }
    }

    /// Reloads experience from the knowledge base. If it cannot be read, the present experience stays.
    fn recall(&mut self) {
        let Some(memory) = &self.memory else { return };
        match memory.experience() {
            Ok(known) if known.cases.is_empty() && known.pools.is_empty() => {}
            Ok(known) => self.experience = Arc::new(self.shipped.and(&known)),
            Err(error) => warn!("the knowledge base cannot be read: {error}"),
        }
    }

    /// Sessions of the monitored devices.
    pub fn sessions(&self) -> impl Iterator<Item = &DeviceSession> {
        self.devices.values()
    }

    /// Why devices are not monitored, as sentences.
    pub fn reasons(&self) -> Vec<String> {
        self.left_alone.iter().map(|(identity, why)| format!("{}: {why}", identity.name)).collect()
    }

    /// The history.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Time of the next call of [`step`](Daemon::step) if no events arrive before.
    pub fn next(&self) -> Nanos {
        self.devices.values().filter_map(DeviceSession::next).fold(self.due.scan, Nanos::min)
    }

    /// Schedules a scan after devices were added, removed or changed.
    pub fn devices_changed(&mut self, now: Moment) {
        self.due.scan = self.due.scan.min(now.at + SWARM);
    }

    /// Scans devices, reads events, decides, and updates history and metrics.
    pub fn step(&mut self, now: Moment) {
        if now.at >= self.due.scan {
            self.due.scan = now.at + LOOKS_FOR_DEVICES;
            self.look_for_devices(now);
        }
        let mut gone = Vec::new();
        let mut all = Vec::new();
        for (identity, session) in &mut self.devices {
            match session.step(now.at, guard::errors(&self.sysfs, &identity.name)) {
                Ok(notices) => all.extend(notices.into_iter().map(|one| (identity.name.clone(), one))),
                Err(error) => gone.push((identity.clone(), error.to_string())),
            }
            self.metrics.seen(&sample(session));
            if let Some(protection) = session.protection().filter(|_| now.at >= self.due.samples) {
                self.metrics.protects(&identity.name, &protection.promises(), &protection.limits());
            }
        }
        if now.at >= self.due.samples {
            self.due.samples = now.at + SAMPLE_INTERVAL;
        }
        all.into_iter().for_each(|(name, notices)| self.tell(now, &name, notices));
        gone.into_iter().for_each(|(identity, why)| self.drop_device(now, &identity, &why));
        if now.at >= self.due.pools {
            self.due.pools = now.at + KEEPS_POOLS;
            self.keep_pools();
        }
        self.learn(now);
        self.share(now);
    }

    /// Processes the fleet server's reply and submits the next job when due. Never blocks.
    fn share(&mut self, now: Moment) {
        let Some(link) = &mut self.fleet.link else { return };
        let reply = link.reply();
        if link.is_due(now.at) {
            let devices = self.devices.values_mut().map(|session| (session.name().to_owned(), session.share())).collect();
            link.ask(now.at, Job { devices, unix_seconds: now.unix_seconds });
        }
        if let Some(reply) = reply {
            self.shared_by_others(now, reply);
        }
    }

    fn shared_by_others(&mut self, now: Moment, reply: Reply) {
        if let Some(link) = &mut self.fleet.link {
            match &reply.trouble {
                Some(trouble) if link.trouble.as_ref() != Some(trouble) => warn!("sharing with the fleet: {trouble}"),
                None if link.trouble.is_some() => info!("sharing with the fleet works again"),
                _ => {}
            }
            link.trouble = reply.trouble.clone();
        }
        if reply.delivered > 0 {
            info!("{} outcomes of changes were delivered", reply.delivered);
        }
        let mut came = Vec::new();
        for (identity, session) in &mut self.devices {
            session.know_fleet(known(&reply, session));
            let Some(rollouts) = &reply.rollouts else { continue };
            let wanted = rollouts.get(&identity.name).and_then(|(rollout, setting)| Some((rollout, Setting::parse(setting).ok()?)));
            let notices = session.hold(now.at, wanted.as_ref().map(|(rollout, setting)| (rollout.as_str(), setting)));
            came.extend(notices.into_iter().map(|one| (identity.name.clone(), one)));
        }
        self.fleet.latest = reply;
        came.into_iter().for_each(|(name, notices)| self.tell(now, &name, notices));
    }

    /// Stores results of searches under the normal workload, for the next start of the daemon.
    fn keep_pools(&self) {
        let Some(memory) = &self.memory else { return };
        let pools: Vec<_> =
            self.devices.values().filter(|session| session.lesson().is_none()).flat_map(DeviceSession::gene_pools).collect();
        if let Err(error) = memory.keep_pools(&pools) {
            warn!("results of the search under the normal workload are not stored: {error}");
        }
    }

    /// Starts and ends lessons. After a lesson its results are available to all devices.
    fn learn(&mut self, now: Moment) {
        let Some(learner) = &mut self.learner else { return };
        let mut devices: Vec<&mut DeviceSession> = self.devices.values_mut().collect();
        let errors = |name: &str| guard::errors(&self.sysfs, name);
        let notices = learner.step(now, &mut devices, &self.experience, errors);
        let has_ended = devices.iter_mut().any(|session| session.lesson_ended());
        notices.into_iter().for_each(|(name, notices)| self.tell(now, &name, notices));
        if has_ended {
            self.recall();
            self.devices.values_mut().for_each(|session| session.set_experience(now.at, self.experience.clone()));
        }
    }

    fn look_for_devices(&mut self, now: Moment) {
        let found = match topology::devices(&self.sysfs) {
            Ok(found) => found,
            Err(error) => {
                warn!("devices are not known: {error}");
                return;
            }
        };
        let identity = |device: &Device| Identity { name: device.name.clone(), sequence: device.sequence };
        let there: Vec<Identity> = found.iter().map(identity).collect();
        let gone: Vec<Identity> = self.devices.keys().filter(|known| !there.contains(known)).cloned().collect();
        gone.iter().for_each(|identity| self.drop_device(now, identity, "it is gone"));
        self.left_alone.retain(|known, _| there.contains(known));
        let stacks = topology::stacks(&found);
        let wanted: Vec<(Identity, &Device, Settings)> = found
            .iter()
            .filter(|device| !self.devices.contains_key(&identity(device)))
            .filter_map(|device| Some((identity(device), device, self.wants.settings(&self.sysfs, device)?)))
            .collect();
        let all = (wanted.len() + self.devices.len()).max(1) as i64;
        let memory_mib = (MEMORY_MIB / all).max(LEAST_MIB);
        for (identity, device, settings) in wanted {
            let stack = stacks.iter().find(|stack| stack.devices.contains(&device.name));
            let is_asked_for = self.wants.named.contains(&device.name) && device.has_queue && !device.is_zoned;
            let reason = match stack {
                Some(stack) if !stack.queues.contains(&device.name) && stack.left_alone.is_none() => {
                    Some(format!("has no queue of its own; the devices below it are tuned: {}", stack.queues.join(", ")))
                }
                Some(stack) => stack.left_alone.clone().filter(|_| !is_asked_for),
                None => None,
            };
            match reason {
                Some(reason) => {
                    self.left_alone.insert(identity, reason);
                }
                None => self.add_device(now, identity, device, settings, memory_mib),
            }
        }
    }

    fn add_device(&mut self, now: Moment, identity: Identity, device: &Device, settings: Settings, memory_mib: i64) {
        match self.opens.open(device, &settings, now.at) {
            Ok((device_control, source)) => {
                let budget = Budget { cpu_permille: self.wants.configuration.budget_permille, memory_mib };
                let experience = self.experience.clone();
                let input = (source, Processes::new(&self.sysfs, false));
                let (mut session, mut notices) =
                    DeviceSession::begin(now.at, &device.name, (settings, budget), experience, device_control, input);
                session.is_of_type(device_type(&self.sysfs, device));
                if self.fleet.link.is_some() {
                    session.know_fleet(known(&self.fleet.latest, &session));
                }
                session.follow_units(&self.sysfs, device.number, UNITS_EVERY, now.at);
                self.protect(now, device, &mut session, &mut notices);
                self.metrics.begins(&device.name);
                self.left_alone.remove(&identity);
                self.devices.insert(identity, session);
                notices.into_iter().for_each(|one| self.tell(now, &device.name, one));
            }
            Err(reason) => {
                // Retried every few seconds; logged once.
                if self.left_alone.insert(identity, reason.clone()).is_none_or(|known| known != reason) {
                    self.tell(
                        now,
                        &device.name,
                        Notice::Entry(Box::new(Entry::new(&device.name, EntryKind::Trouble, "", "", reason))),
                    );
                }
            }
        }
    }

    /// Starts keeping the guarantees on a device, unless the daemon only monitors.
    fn protect(&mut self, now: Moment, device: &Device, session: &mut DeviceSession, notices: &mut Vec<Notice>) {
        let terms = self.wants.configuration.terms(device);
        if terms.promises.is_empty() || self.wants.mode == Some(Mode::Watch) {
            return;
        }
        let protection = match session.source().counters_only() {
            Some(counters) => Err(format!("requests cannot be traced ({})", counters.why)),
            None => self.opens.protect(device, terms, now.at),
        };
        match protection {
            Ok(Some(protection)) => session.protect(protection),
            Ok(None) => {}
            Err(why) => {
                let why = format!("promises to units cannot be kept: {why}");
                notices.push(Notice::Entry(Box::new(Entry::new(&device.name, EntryKind::Trouble, "", "", why))));
            }
        }
    }

    fn drop_device(&mut self, now: Moment, identity: &Identity, why: &str) {
        let Some(session) = self.devices.remove(identity) else { return };
        let in_force = session.active().to_string();
        let entry = Entry::new(&identity.name, EntryKind::Gone, &in_force, &in_force, why);
        self.tell(now, &identity.name, Notice::Entry(Box::new(entry)));
        self.metrics.gone(&identity.name);
    }

    /// Forwards notices to history, metrics and log.
    fn tell(&mut self, now: Moment, device: &str, notices: Notice) {
        let written = match notices {
            Notice::Units(table) => {
                self.metrics.units(device, &table);
                Ok(())
            }
            Notice::Change(change) => {
                self.record_outcome(now, device, *change);
                Ok(())
            }
            Notice::Windows(windows) => {
                self.remember(now, device, &windows);
                Ok(())
            }
            Notice::Verdict(verdict) => {
                if let Some(measured) = Measured::of(&verdict).filter(|_| verdict.is_outcome()) {
                    info!(device, "{} measured {} compared with {}", verdict.setting, measured.text(), verdict.over);
                    self.metrics.measured(device, measured.gain_percent);
                }
                self.history.judged(device, &verdict)
            }
            Notice::Entry(mut entry) => {
                if entry.kind == EntryKind::Conflict {
                    let rivals = conflicting_tools::conflicting_tools(&self.root, "scheduler");
                    entry.why = if rivals.is_empty() { entry.why } else { format!("{} ({})", entry.why, rivals.join("; ")) };
                }
                log(&entry);
                self.metrics.happened(&entry);
                self.history.add(now.unix_seconds, *entry).map(drop)
            }
        };
        if let Err(error) = written {
            warn!("the history cannot be written: {error}");
        }
    }

    fn session_of(&self, device: &str) -> Option<&DeviceSession> {
        self.sessions().find(|session| session.name() == device)
    }

    /// Stores how the normal workload was served before and after measured changes, so that the next start knows it.
    fn remember(&self, now: Moment, device: &str, windows: &[Window]) {
        let (Some(memory), Some(session)) = (&self.memory, self.session_of(device)) else { return };
        let stored = memory.keep(&LoadRecord {
            identity: session.target_identity(),
            source: NORMAL_WORKLOAD.to_owned(),
            controller: session.settings().controller.label(),
            began_s: now.unix_seconds,
            windows,
            decided: &[],
            pools: &[],
        });
        if let Err(error) = stored {
            warn!("measurements of the normal workload are not stored: {error}");
        }
    }

    /// Records the measured gain of a change for sharing, if sharing is on.
    fn record_outcome(&self, now: Moment, device: &str, change: MeasuredChange) {
        let (Some(memory), Some(_), Some(session)) = (&self.memory, &self.fleet.link, self.session_of(device)) else { return };
        let MeasuredChange { load, from, to, gain, preference } = change;
        let day = control::fleet::day(now.unix_seconds);
        let new = NewOutcome { day, device: session.device_type().clone(), load, preference, from, to, gain };
        if let Err(error) = memory.record_outcome(&new) {
            warn!("the outcome of the change is not shared: {error}");
        }
    }

    /// Answers a request of the control socket. Unprivileged clients may only read.
    pub fn answer(&mut self, now: Moment, ask: &Ask, is_privileged: bool) -> Answer {
        let forbidden = || Answer::Refused("only root may ask for that".to_owned());
        match ask {
            Ask::Status => Answer::Status(self.status(now)),
            Ask::Verify => Answer::Differs(self.differs()),
            Ask::History => Answer::History(self.history.entries().cloned().collect()),
            Ask::Resume { .. } | Ask::Restore { .. } if !is_privileged => forbidden(),
            Ask::Resume { scope: applier::Scope::Cgroup(path) } => self.resume_cgroup(now, path),
            Ask::Resume { scope } => self.touch(now, Some(scope.name()), DeviceSession::resume),
            Ask::Restore { device } => self.touch(now, device.as_deref(), DeviceSession::restore),
        }
    }

    /// Resumes limiting a cgroup on every device.
    fn resume_cgroup(&mut self, now: Moment, path: &str) -> Answer {
        let mut came = Vec::new();
        for session in self.devices.values_mut() {
            match session.resume_cgroup(path) {
                Ok(notices) => came.extend(notices.into_iter().flatten().map(|one| (session.name().to_owned(), one))),
                Err(reason) => return Answer::Refused(reason),
            }
        }
        if came.is_empty() {
            return Answer::Refused(format!("{path}: is not left alone; `seekwise-agent status` lists units that are"));
        }
        let said = came.iter().filter_map(|(_, notices)| notices.text()).collect();
        came.into_iter().for_each(|(name, notices)| self.tell(now, &name, notices));
        Answer::Done(said)
    }

    fn touch(
        &mut self,
        now: Moment,
        device: Option<&str>,
        act: impl Fn(&mut DeviceSession, Nanos) -> Result<Vec<Notice>, String>,
    ) -> Answer {
        let meant: Vec<&mut DeviceSession> =
            self.devices.values_mut().filter(|session| device.is_none_or(|name| name == session.name())).collect();
        if let Some(name) = device.filter(|_| meant.is_empty()) {
            let known: Vec<&str> = self.devices.keys().map(|identity| identity.name.as_str()).collect();
            return Answer::Refused(format!("{name}: is not watched; watched are {}", known.join(", ")));
        }
        let mut came = Vec::new();
        let mut refused = Vec::new();
        for session in meant {
            match act(session, now.at) {
                Ok(notices) => came.extend(notices.into_iter().map(|one| (session.name().to_owned(), one))),
                Err(reason) => refused.push(reason),
            }
        }
        let said: Vec<String> = came.iter().filter_map(|(_, notices)| notices.text()).collect();
        came.into_iter().for_each(|(name, notices)| self.tell(now, &name, notices));
        if refused.is_empty() { Answer::Done(said) } else { Answer::Refused(refused.join("; ")) }
    }

    fn status(&self, now: Moment) -> Status {
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            runs_for_s: (now.at - self.began.at).as_secs_f64(),
            devices: self.devices.values().map(device_status).collect(),
            learning: self.learns(now),
            left_alone: self.left_alone.iter().map(|(identity, why)| (identity.name.clone(), why.clone())).collect(),
        }
    }

    /// State of learning mode as a sentence; `None` if it is off.
    pub fn learns(&self, now: Moment) -> Option<String> {
        self.learner.as_ref().map(|learner| learner.says(now, self.devices.values()))
    }

    /// Attributes whose value differs from the agent's.
    fn differs(&mut self) -> Vec<Differs> {
        let mut found = Vec::new();
        for (identity, session) in &mut self.devices {
            found.extend(session.differs().into_iter().map(|(attribute, wanted, now)| Differs {
                device: identity.name.clone(),
                rivals: conflicting_tools::conflicting_tools(&self.root, &attribute),
                attribute,
                wanted,
                now,
            }));
        }
        found
    }

    /// Shuts down: restores settings as configured; where they are kept, replaces settings on trial by the controllers' choices.
    pub fn end(&mut self, now: Moment) {
        self.keep_pools();
        let mut came = Vec::new();
        for (identity, session) in &mut self.devices {
            came.extend(session.end_lesson(now.at, "the agent ends").into_iter().map(|one| (identity.name.clone(), one)));
            came.extend(session.end().into_iter().map(|one| (identity.name.clone(), one)));
            if *session.ownership() != Ownership::Agent {
                continue;
            }
            let notices = match session.settings().exit {
                AtExit::Keep => Ok(session.leave(now.at)),
                AtExit::Restore => session.restore(now.at),
            };
            match notices {
                Ok(notices) => came.extend(notices.into_iter().map(|one| (identity.name.clone(), one))),
                Err(reason) => warn!(device = identity.name, "cannot restore the original settings: {reason}"),
            }
        }
        came.into_iter().for_each(|(name, notices)| self.tell(now, &name, notices));
    }
}

/// Outcomes of other machines on devices of this type.
fn known(reply: &Reply, session: &DeviceSession) -> Arc<FleetKnowledge> {
    let preference = &session.settings().preference;
    Arc::new(FleetKnowledge::new(&reply.outcomes, reply.machine, session.device_type(), preference))
}

/// State of a device for the metrics.
fn sample(session: &DeviceSession) -> DeviceSample<'_> {
    DeviceSample {
        device: session.name(),
        requests: session.requests(),
        lost: session.lost(),
        advised_percent: session.pending_advice().and_then(|advice| advice.gain_percent).unwrap_or_default(),
        state: match session.ownership() {
            Ownership::ReadOnly => DeviceState::Watched,
            Ownership::Agent => DeviceState::Tuned,
            Ownership::StoodDown(_) => DeviceState::StoodDown,
        },
    }
}

fn device_status(session: &DeviceSession) -> DeviceStatus {
    let (state, why) = match session.ownership() {
        _ if session.lesson().is_some() => ("learned on", None),
        Ownership::Agent => ("tuned", session.obstacle().map(str::to_owned)),
        Ownership::ReadOnly => ("watched", None),
        Ownership::StoodDown(why) => ("stood down", Some(why.clone())),
    };
    DeviceStatus {
        device: session.name().to_owned(),
        state: state.to_owned(),
        why,
        found: session.original().to_string(),
        in_force: session.active().to_string(),
        advice: session.pending_advice().cloned(),
        verdict: session.verdict().and_then(VerdictStatus::of),
        thoughts: session.thoughts().map(str::to_owned).collect(),
        requests: session.requests(),
        lost: session.lost(),
        blind: session.source().counters_only().map(|counters| counters.why.clone()),
        latest: session.latest().finite(),
        promises: session.protection().map(Protection::promises).unwrap_or_default(),
        limits: session.protection().map(Protection::limits).unwrap_or_default(),
        units: session.unit_table().cloned(),
    }
}

fn log(entry: &Entry) {
    let Entry { device, kind, id, from, to, why, .. } = entry;
    let (kind, predicted) = (kind.name(), entry.predicted_percent.map(report::gains::signed).unwrap_or_default());
    match entry.kind {
        EntryKind::Conflict | EntryKind::Guarded | EntryKind::Trouble | EntryKind::Refused => {
            warn!(device, kind, id, from, to, predicted, "{why}")
        }
        _ => info!(device, kind, id, from, to, predicted, "{why}"),
    }
}
