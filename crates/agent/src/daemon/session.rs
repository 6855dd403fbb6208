//! One device: its requests feed a controller, whose decisions are applied or become recommendations; the guard supervises changes.
//!
//! ```text
//! EventSource ─▶ Outstanding, Guard, ControlLoop ─▶ PolicyGate ─▶ DeviceControl
//!                                        │
//!                                        └▶ DecisionRecord with its verdict ─▶ Notice: history, metrics, log, fleet
//! ```

mod advice_log;
mod controller;
mod external_changes;
mod learning;
mod sharing;
mod traffic;

use std::sync::Arc;

use block::Nanos;
use control::experience::Experience;
use control::experience::GenePool;
use control::{ControlLoop, DecisionRecord, Setting, Verdict};
use observe::Event;
use observe::outstanding::Outstanding;

use self::advice_log::{AdviceLog, entry_of};
use self::controller::build_controller;
use self::external_changes::describe;
use self::learning::LearningState;
pub use self::sharing::MeasuredChange;
use self::sharing::Sharing;
use self::traffic::Traffic;
use super::device_control::{ChangeRate, DeviceControl, Ownership, PolicyGate, Vetoes};
use super::guard::Guard;
use crate::configuration::{Mode, Settings};
use crate::control_socket::{PendingAdvice, Rates};
use crate::history::{Entry, EntryKind};
use crate::units::{UnitMonitor, UnitTable};
use applier::Foreign;
use applier::sysfs::Sysfs;
use control::Window;
use control::experience::MIN_REQUESTS;
use linux::cgroups::Processes;
use linux::events::counter_source::CANNOT_KNOW;
use linux::events::{EventSource, ObserveError};
use protect::live::{Protection, Told};
use tracing::debug;

/// Interval of checks for external changes. Choice: a longer one lets a decision come between, a shorter one reads more files; not varied.
const EXTERNAL_CHECK_INTERVAL: Nanos = Nanos(1_000_000_000);

/// Resources of a device's controller.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Thousandths of a core.
    pub cpu_permille: i64,
    /// Memory for observations.
    pub memory_mib: i64,
}

/// A report of a session to the daemon.
#[derive(Debug)]
pub enum Notice {
    /// An entry for the history and the log.
    Entry(Box<Entry>),
    /// The comparison that decided about a setting.
    Verdict(Arc<Verdict>),
    /// The measured outcome of a change with the load before it, to be shared.
    Change(Box<MeasuredChange>),
    /// Windows of the normal workload around changes of which one was measured, for the knowledge base.
    Windows(Vec<Window>),
    /// The units that used the device in an interval.
    Units(Box<UnitTable>),
}

impl Notice {
    fn entry(entry: Entry) -> Notice {
        Notice::Entry(Box::new(entry))
    }

    /// The notice as a sentence; `None` for figures.
    pub fn text(&self) -> Option<String> {
        match self {
            Notice::Entry(entry) => Some(format!("{}: {}", entry.device, entry.why)),
            Notice::Verdict(_) | Notice::Change(_) | Notice::Windows(_) | Notice::Units(_) => None,
        }
    }
}

/// The device's part of the configuration, and the knowledge that its controllers start with.
struct Configured {
    settings: Settings,
    budget: Budget,
    experience: Arc<Experience>,
}

/// The observed requests.
struct Input {
    source: Box<dyn EventSource>,
    /// Requests in flight, and the number of completed ones.
    outstanding: Outstanding,
    traffic: Traffic,
    /// Reused buffer.
    events: Vec<Event>,
}

/// Whether settings may be applied, and why the latest was not.
struct Access {
    ownership: Ownership,
    rate: ChangeRate,
    vetoes: Vetoes,
    /// Why the latest change was refused; `None` if it was not.
    refusal: Option<String>,
    /// Why the applier is unreachable; reported once.
    applier_trouble: Option<String>,
    next_external_check: Nanos,
}

/// Units that use the device.
struct Units {
    /// The unit of each process, for the monitor and for guarantees.
    processes: Processes,
    /// `None` if requests are not traced.
    monitor: Option<UnitMonitor>,
    /// The table of the latest interval; `None` before one has ended.
    table: Option<UnitTable>,
}

/// A device that is monitored and, if allowed, tuned.
pub struct DeviceSession {
    name: String,
    configured: Configured,
    device_control: Box<dyn DeviceControl>,
    input: Input,
    control_loop: ControlLoop,
    guard: Guard,
    access: Access,
    /// The original setting.
    original: Setting,
    /// The active setting as the controller knows it.
    active: Setting,
    advice: AdviceLog,
    /// The comparison by which the latest change was kept or taken back; `None` before one was measured.
    verdict: Option<Arc<Verdict>>,
    sharing: Sharing,
    learning: LearningState,
    units: Units,
    /// Guarantees to units on this device.
    protection: Option<Protection>,
}

impl DeviceSession {
    /// Starts monitoring a device. `experience` is for controllers that learn; `processes` are the units of processes on this machine.
    pub fn begin(
        now: Nanos,
        name: &str,
        (settings, budget): (Settings, Budget),
        experience: Arc<Experience>,
        mut device_control: Box<dyn DeviceControl>,
        (source, processes): (Box<dyn EventSource>, Processes),
    ) -> (DeviceSession, Vec<Notice>) {
        let ownership = initial_ownership(&settings, &mut *device_control);
        let original = device_control.setting();
        let sharing = Sharing::default();
        let controller = build_controller(&settings, budget, (&experience, &sharing), &*device_control, source.counters_only());
        let mut session = DeviceSession {
            name: name.to_owned(),
            control_loop: ControlLoop::new(controller),
            input: Input { outstanding: Outstanding::new(now), traffic: Traffic::new(source.lost()), source, events: Vec::new() },
            access: Access {
                ownership,
                rate: ChangeRate::default(),
                vetoes: Vetoes::default(),
                refusal: None,
                applier_trouble: None,
                next_external_check: now + EXTERNAL_CHECK_INTERVAL,
            },
            sharing,
            configured: Configured { settings, budget, experience },
            device_control,
            guard: Guard::new(now),
            active: original.clone(),
            original,
            advice: AdviceLog::default(),
            verdict: None,
            learning: LearningState::new(now),
            units: Units { processes, monitor: None, table: None },
            protection: None,
        };
        let what = match &session.access.ownership {
            Ownership::Agent => "is tuned".to_owned(),
            Ownership::ReadOnly => "is watched".to_owned(),
            Ownership::StoodDown(why) => format!("is not tuned until `seekwise-agent resume {name}` ({why}), and is watched"),
        };
        let by = match session.input.source.counters_only() {
            None => session.configured.settings.controller.label(),
            Some(counters) => format!("counters alone ({}; {CANNOT_KNOW})", counters.why),
        };
        let began = session.notice(EntryKind::Began, format!("{what} by {by}"));
        session.start(now);
        (session, vec![began])
    }

    /// Starts keeping guarantees to units.
    pub fn protect(&mut self, protection: Protection) {
        self.input.source.report_fsync();
        self.protection = Some(protection);
    }

    /// The guarantees to units; `None` without any.
    pub fn protection(&self) -> Option<&Protection> {
        self.protection.as_ref()
    }

    /// Resumes limiting a cgroup. `None` if this device does not limit it.
    ///
    /// # Errors
    /// The applier refuses.
    pub fn resume_cgroup(&mut self, path: &str) -> Result<Option<Vec<Notice>>, String> {
        let Some(protection) = &mut self.protection else { return Ok(None) };
        if !protection.resume(path).map_err(|error| error.to_string())? {
            return Ok(None);
        }
        let why = format!("{path} may be limited again, the administrator says so");
        Ok(Some(vec![self.notice(EntryKind::Resumed, why)]))
    }

    /// Starts per-unit statistics of the device with this major and minor number, unless only counters are available.
    pub fn follow_units(&mut self, sysfs: &Sysfs, device: (u32, u32), interval: Nanos, now: Nanos) {
        let is_traced = self.input.source.counters_only().is_none();
        self.units.monitor = is_traced.then(|| UnitMonitor::new(sysfs, device, interval, &self.units.processes, now));
    }

    /// The units that used the device in the latest interval; `None` before one has ended.
    pub fn unit_table(&self) -> Option<&UnitTable> {
        self.units.table.as_ref()
    }

    /// The device in the knowledge base.
    pub fn target_identity(&self) -> control::target::Identity {
        self.device_control.identity()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether decisions are applied rather than only recommended.
    pub fn ownership(&self) -> &Ownership {
        &self.access.ownership
    }

    /// Why settings cannot be applied to a tuned device: the applier fails or refused the latest change. `None` if they can.
    pub fn obstacle(&self) -> Option<&str> {
        let is_tuned = self.access.ownership == Ownership::Agent;
        self.access.applier_trouble.as_deref().or(self.access.refusal.as_deref()).filter(|_| is_tuned)
    }

    /// The device's configuration.
    pub fn settings(&self) -> &Settings {
        &self.configured.settings
    }

    /// The original setting.
    pub fn original(&self) -> &Setting {
        &self.original
    }

    /// The active setting, as far as the controller knows.
    pub fn active(&self) -> &Setting {
        &self.active
    }

    /// The pending recommendation of a device that is only monitored; `None` if the active setting is best or data do not suffice yet.
    pub fn pending_advice(&self) -> Option<&PendingAdvice> {
        self.advice.pending()
    }

    /// The comparison by which the latest change was kept or taken back; `None` before one was measured.
    pub fn verdict(&self) -> Option<&Verdict> {
        self.verdict.as_deref()
    }

    /// Completed requests.
    pub fn requests(&self) -> u64 {
        self.input.outstanding.completed() + self.input.traffic.counted
    }

    /// Events lost by the kernel.
    pub fn lost(&self) -> u64 {
        self.input.traffic.lost
    }

    /// The rates of the latest window.
    pub fn latest(&self) -> Rates {
        self.input.traffic.latest
    }

    /// The controller's latest reasons without duplicates, the latest last.
    pub fn thoughts(&self) -> impl Iterator<Item = &str> {
        self.advice.thoughts()
    }

    /// Attributes whose value differs from the agent's: name, the agent's value, the actual value.
    pub fn differs(&mut self) -> Vec<(String, String, String)> {
        let foreign = self.device_control.foreign().unwrap_or_default();
        let shown = |now: Option<String>| now.unwrap_or_else(|| "not there".to_owned());
        foreign.into_iter().map(|one| (one.attribute, one.ours, shown(one.now))).collect()
    }

    /// Its event source, for a caller that waits for events.
    pub fn source(&self) -> &dyn EventSource {
        &*self.input.source
    }

    /// Gene pools of the controller's search, to be stored; empty for a device that is only monitored.
    pub fn gene_pools(&self) -> Vec<GenePool> {
        let pools = || self.control_loop.controller().gene_pools(&self.device_control.identity().device);
        if self.access.ownership == Ownership::Agent { pools() } else { Vec::new() }
    }

    /// When the next window ends.
    pub fn next(&self) -> Option<Nanos> {
        let next = self.learning.lesson.as_ref().map_or_else(|| self.control_loop.next_deadline(), |lesson| lesson.next());
        next.into_iter().chain(self.protection.as_ref().map(Protection::next)).min()
    }

    /// Starts the controller, without observations, from the active setting.
    fn start(&mut self, now: Nanos) {
        self.within_policy(|control_loop, target| control_loop.begin(now, target));
        self.active = self.device_control.setting();
        self.verdict = None;
        self.sharing.restart();
        self.advice.withdraw();
    }

    /// Starts a new controller.
    fn restart(&mut self, now: Nanos) {
        self.access.refusal = None;
        let counters_only = self.input.source.counters_only();
        let known = (&self.configured.experience, &self.sharing);
        let controller =
            build_controller(&self.configured.settings, self.configured.budget, known, &*self.device_control, counters_only);
        self.control_by(now, controller);
    }

    /// Replaces the controller, which begins at `now`.
    pub fn control_by(&mut self, now: Nanos, controller: Box<dyn control::Controller>) {
        self.control_loop = ControlLoop::new(controller);
        self.start(now);
    }

    /// Runs the control loop behind the policy gate. Returns the setting that the gate refused; `None` if it refused none.
    fn within_policy(&mut self, act: impl FnOnce(&mut ControlLoop, &mut PolicyGate)) -> Option<Setting> {
        let mut refused = None;
        let mut gate = PolicyGate {
            device_control: &mut *self.device_control,
            settings: &self.configured.settings,
            original: &self.original,
            stays: self.control_loop.controller().final_setting().cloned(),
            ownership: &self.access.ownership,
            rate: &mut self.access.rate,
            vetoes: &self.access.vetoes,
            refused: &mut refused,
            not_tried: &[],
        };
        act(&mut self.control_loop, &mut gate);
        refused
    }

    /// Reads the events since the last step, and makes a decision if one is due. `errors` is the driver's error count.
    ///
    /// # Errors
    /// The device is gone, or cannot be observed any more.
    pub fn step(&mut self, now: Nanos, errors: Option<u64>) -> Result<Vec<Notice>, ObserveError> {
        let mut events = std::mem::take(&mut self.input.events);
        events.clear();
        let read = self.input.source.read(&mut events);
        let mut notices = Vec::new();
        let Units { processes, monitor, .. } = &mut self.units;
        if let Some(table) = monitor.as_mut().and_then(|monitor| monitor.read(now, &events, &*self.input.source, processes)) {
            notices.push(Notice::Units(Box::new(table.clone())));
            self.units.table = Some(table);
        }
        if self.learning.lesson.is_some() {
            notices.extend(self.step_lesson(now, &events, errors));
            self.input.events = events;
            return read.map(|()| notices);
        }
        self.observe(now, &events, &mut notices);
        self.keep_promises(now, &events, &mut notices);
        self.input.events = events;
        read?;
        if now >= self.access.next_external_check {
            self.access.next_external_check = now + EXTERNAL_CHECK_INTERVAL;
            self.check_external_changes(now, &mut notices);
        }
        let objection = self.guard.objection(now, errors, &self.input.outstanding);
        if let Some(objection) = objection.filter(|_| self.active != self.original) {
            self.guard.settled();
            self.access.vetoes.add(now, &self.active);
            // A harmful trial is no reason to give up the setting that was kept before it.
            let stays = self.control_loop.final_setting().filter(|stays| *stays != self.active);
            let back = stays.unwrap_or_else(|| self.original.clone());
            let why = format!("{objection} under {}: back to {back}", self.active);
            self.steer(now, errors, EntryKind::Guarded, &mut notices, |control_loop, target| {
                control_loop.overrule(now, &back, &why, target);
            });
        }
        self.steer(now, errors, EntryKind::Set, &mut notices, |control_loop, target| control_loop.advance(now, target));
        Ok(notices)
    }

    /// Updates the limits on neighbours of units with guarantees.
    fn keep_promises(&mut self, now: Nanos, events: &[Event], notices: &mut Vec<Notice>) {
        let Some(protection) = &mut self.protection else { return };
        protection.observe(events, &*self.input.source, &mut self.units.processes);
        let told = protection.step(now);
        notices.extend(told.into_iter().filter_map(|told| self.promise_notice(told)));
    }

    fn promise_notice(&self, told: Told) -> Option<Notice> {
        match told {
            Told::Promise(why) | Told::Limited(why) => Some(self.notice(EntryKind::Promise, why)),
            Told::Conflict(why) => Some(self.notice(EntryKind::Conflict, why)),
            Told::Trouble(why) => Some(self.notice(EntryKind::Trouble, why)),
            // Too frequent for the history.
            Told::Moved(why) => {
                debug!(device = self.name, "{why}");
                None
            }
        }
    }

    /// Removes the limits on other units and stops keeping guarantees.
    fn end_promises(&mut self, notices: &mut Vec<Notice>) {
        let told = self.protection.take().map(|mut protection| protection.end()).unwrap_or_default();
        notices.extend(told.into_iter().filter_map(|told| self.promise_notice(told)));
    }

    fn observe(&mut self, now: Nanos, events: &[Event], notices: &mut Vec<Notice>) {
        // fsync calls alone are not scored: only reads and writes together show the value of a setting.
        for event in events.iter().filter(|event| !event.is_call()) {
            self.learning.observe(now, event, |stream| self.input.source.name(stream));
            self.input.outstanding.event(event);
            self.guard.event(event);
            self.control_loop.event(event);
        }
        self.observe_counters();
        if let Some(lost) = self.input.traffic.newly_lost(self.input.source.lost()) {
            let why = format!("the kernel lost {lost} events; requests in flight are unknown, so it starts again");
            self.learning.restart_idle_time(now);
            notices.push(self.notice(EntryKind::Trouble, why));
            self.input.outstanding.forget(now);
            self.restart(now);
        }
    }

    /// Processes counter samples, if requests are not traced.
    fn observe_counters(&mut self) {
        let mut samples = Vec::new();
        self.input.source.samples(&mut samples);
        for sample in &samples {
            self.control_loop.record_counters(sample);
            if let Some(score) = self.input.traffic.sample(sample, &self.configured.settings.preference) {
                self.sharing.scored(score);
            }
        }
    }

    fn observe_window(&mut self, window: &Window) {
        if self.input.source.counters_only().is_some() {
            return;
        }
        let outcome = &window.outcome;
        self.input.traffic.window(outcome);
        let score = outcome.score(&self.configured.settings.preference);
        if outcome.requests < MIN_REQUESTS || !score.is_finite() || *window.setting != self.active {
            return;
        }
        self.sharing.window(window, score);
    }

    /// A notice about the active setting.
    fn notice(&self, kind: EntryKind, why: String) -> Notice {
        let active = self.active.to_string();
        Notice::entry(Entry::new(&self.name, kind, &active, &active, why))
    }

    /// Runs a step of the control loop, and adds its results to the notices.
    fn steer(
        &mut self,
        now: Nanos,
        errors: Option<u64>,
        kind: EntryKind,
        notices: &mut Vec<Notice>,
        act: impl FnOnce(&mut ControlLoop, &mut PolicyGate),
    ) {
        let refused = self.within_policy(act);
        let (decisions, windows) = self.control_loop.take();
        windows.iter().for_each(|window| self.observe_window(window));
        if self.input.source.counters_only().is_none() {
            self.learning.keep_windows(windows);
        }
        let mut is_refused = false;
        for decision in decisions {
            is_refused |= decision.refused.is_some();
            self.advice.add_thought(&decision.why);
            // A verdict belongs to the change to the setting that was judged: to an earlier one if this decision takes it back.
            let is_earlier = decision.verdict.as_ref().is_some_and(|verdict| verdict.setting != *decision.to);
            if let Some(verdict) = decision.verdict.as_ref().filter(|_| is_earlier) {
                self.judged(verdict, notices);
            }
            if decision.is_change() {
                self.changed(now, errors, kind, &decision, notices);
            } else if self.access.ownership != Ownership::Agent {
                let advised = self.advice.advise(&self.name, &self.active, &decision, refused.as_ref());
                notices.extend(advised.map(Notice::entry));
            } else if let Some(reason) = &decision.refused {
                let to = refused.as_ref().unwrap_or(&decision.to).to_string();
                let why = format!("{}; but {reason}", decision.why);
                self.access.refusal = Some(reason.clone());
                notices.push(Notice::entry(Entry { why, ..entry_of(&self.name, EntryKind::Refused, &decision, &to) }));
            }
            if let Some(verdict) = decision.verdict.as_ref().filter(|_| !is_earlier) {
                self.judged(verdict, notices);
            }
        }
        if is_refused && self.access.ownership == Ownership::Agent {
            // An external change may be the reason.
            self.check_external_changes(now, notices);
        }
    }

    /// The control loop has changed the setting.
    fn changed(&mut self, now: Nanos, errors: Option<u64>, kind: EntryKind, decision: &DecisionRecord, notices: &mut Vec<Notice>) {
        self.access.refusal = None;
        self.guard.changed(now, errors);
        self.active = (*decision.to).clone();
        if self.active == self.original {
            self.guard.settled();
        }
        self.sharing.changed(&decision.from);
        notices.push(Notice::entry(entry_of(&self.name, kind, decision, &decision.to.to_string())));
    }

    /// Resumes tuning after standing down.
    ///
    /// # Errors
    /// The device has not stood down, or the applier refuses.
    pub fn resume(&mut self, now: Nanos) -> Result<Vec<Notice>, String> {
        match self.access.ownership {
            Ownership::StoodDown(_) => {}
            Ownership::Agent => return Err(format!("{} is tuned already", self.name)),
            Ownership::ReadOnly => {
                return Err(format!("{} is only watched; to have it tuned, the configuration says mode = \"act\"", self.name));
            }
        }
        self.device_control.resume().map_err(|error| error.to_string())?;
        (self.access.ownership, self.original) = (Ownership::Agent, self.device_control.setting());
        self.restart(now);
        Ok(vec![self.notice(EntryKind::Resumed, "the administrator says so; the current values count as the original".to_owned())])
    }

    /// Restores the original setting and only monitors from then on.
    ///
    /// # Errors
    /// The applier fails.
    pub fn restore(&mut self, now: Nanos) -> Result<Vec<Notice>, String> {
        let mut notices = self.end_lesson(now, "the administrator has everything put back");
        self.end_promises(&mut notices);
        let from = self.active.to_string();
        let restored = self.device_control.restore().map_err(|error| error.to_string())?;
        let back = restored.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let why = if restored.is_empty() { "nothing had been changed".to_owned() } else { back };
        self.original = self.device_control.setting();
        notices.push(Notice::entry(Entry::new(&self.name, EntryKind::Restored, &from, &self.original.to_string(), why)));
        if self.access.ownership == Ownership::Agent {
            self.access.ownership = Ownership::StoodDown("the administrator had everything put back".to_owned());
        }
        self.guard.settled();
        self.restart(now);
        Ok(notices)
    }

    /// Removes limits on other units at exit: they never outlive the agent.
    pub fn end(&mut self) -> Vec<Notice> {
        let mut notices = Vec::new();
        self.end_promises(&mut notices);
        notices
    }

    /// At exit with settings kept: replaces a setting on trial by the controller's choice.
    pub fn leave(&mut self, now: Nanos) -> Vec<Notice> {
        let mut notices = Vec::new();
        if let Some(left) = self.control_loop.final_setting().filter(|left| *left != self.active) {
            let why = "the agent ends, and what is only on trial does not stay";
            self.steer(now, None, EntryKind::Set, &mut notices, |control_loop, target| {
                control_loop.overrule(now, &left, why, target)
            });
        }
        notices
    }
}

/// Whether the agent may set a device: as configured, unless it stood down in an earlier run.
fn initial_ownership(settings: &Settings, device_control: &mut dyn DeviceControl) -> Ownership {
    if settings.mode != Mode::Act {
        return Ownership::ReadOnly;
    }
    let foreign = device_control.foreign().unwrap_or_default();
    let released: Vec<Foreign> = foreign.into_iter().filter(|one| one.released).collect();
    if released.is_empty() { Ownership::Agent } else { Ownership::StoodDown(describe(&released)) }
}
