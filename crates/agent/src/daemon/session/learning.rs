//! A lesson on a device: uses the session's device and event source, with its own load, search and guard.
//!
//! The limit of changes per minute does not apply, because a lesson disturbs no process; the applier's limit does.

use std::sync::Arc;

use block::{Nanos, StreamId};
use control::experience::Experience;
use control::{Setting, Window};
use observe::Event;

use super::external_changes::unreleased;
use super::{DeviceSession, EXTERNAL_CHECK_INTERVAL, Notice};
use crate::configuration::Settings;
use crate::daemon::device_control::{ChangeRate, DeviceControl, Ownership, PolicyGate, Vetoes};
use crate::daemon::guard::Guard;
use crate::daemon::open::decided_by;
use crate::history::{Entry, EntryKind, Measured};
use crate::learning::{ForeignIo, ForeignProcess, Learned, Lesson};
use applier::attribute::READ_AHEAD;
use applier::{AtExit, Foreign};

/// Maximum interval of checks for foreign I/O: a lesson must stop within a second of it. Choice: a tenth of that second; not varied.
const WORK_CHECK_INTERVAL: Nanos = Nanos(100_000_000);

/// Number of windows of the normal workload that are kept: a trial, its return and the confirmation, with the windows before. Choice: a minute
/// at two windows a second, some 100 KiB; not varied.
const MAX_WINDOWS: usize = 120;

/// Attributes that a lesson does not try: read-ahead takes effect when a file is opened, and the load of a lesson keeps its file open.
/// Source: `file_ra_state_init` in `mm/readahead.c`.
const NOT_TRIED: &[&str] = &[READ_AHEAD];

/// Idle time of a device, and its running lesson.
pub(super) struct LearningState {
    foreign_io: ForeignIo,
    /// Time and origin of the last foreign I/O.
    last_work: (Nanos, Option<ForeignProcess>),
    /// The running lesson, during which the device's own controller is suspended; `None` without one.
    pub lesson: Option<Box<LessonSession>>,
    has_failed: bool,
    has_ended: bool,
    /// The latest windows of the normal workload that are not in the knowledge base.
    windows: Vec<Window>,
}

impl LearningState {
    /// State of a device that counts as idle from now on.
    pub fn new(now: Nanos) -> LearningState {
        LearningState {
            foreign_io: ForeignIo::default(),
            last_work: (now, None),
            lesson: None,
            has_failed: false,
            has_ended: false,
            windows: Vec::new(),
        }
    }

    /// Keeps windows of the normal workload, until there are too many.
    pub fn keep_windows(&mut self, windows: Vec<Window>) {
        self.windows.extend(windows);
        self.windows.drain(..self.windows.len().saturating_sub(MAX_WINDOWS));
    }

    /// The kept windows, which are forgotten.
    pub fn take_windows(&mut self) -> Vec<Window> {
        std::mem::take(&mut self.windows)
    }

    /// Processes an event and records foreign I/O. `name` returns the program name of a stream.
    pub fn observe<'a>(&mut self, now: Nanos, event: &Event, name: impl Fn(StreamId) -> Option<&'a str>) {
        if let Some(work) = self.foreign_io.look(event, name, |_| false) {
            self.last_work = (now, Some(work));
        }
    }

    /// Restarts the idle time.
    pub fn restart_idle_time(&mut self, now: Nanos) {
        self.last_work.0 = now;
    }
}

/// Why a lesson ends.
enum End {
    /// Foreign I/O on the device.
    ForeignIo(String),
    /// A failure, which delays the next lesson.
    Failure(String),
    /// A setting was changed externally.
    ExternalChange(Vec<Foreign>),
}

/// A running lesson on a device.
pub struct LessonSession {
    lesson: Lesson,
    /// The device's settings, without the limit on changes per minute.
    settings: Settings,
    rate: ChangeRate,
    guard: Guard,
    /// Error count of the driver at the start.
    errors: Option<u64>,
    next_work_check: Nanos,
    next_external_check: Nanos,
}

impl LessonSession {
    /// Time of the next step.
    pub fn next(&self) -> Option<Nanos> {
        self.lesson.next().map_or(Some(self.next_work_check), |next| Some(next.min(self.next_work_check)))
    }

    /// Runs the lesson's control loop behind the policy gate.
    fn within_policy<T>(
        &mut self,
        device_control: &mut dyn DeviceControl,
        original: &Setting,
        act: impl FnOnce(&mut Lesson, &mut PolicyGate) -> T,
    ) -> T {
        let mut gate = PolicyGate {
            device_control,
            settings: &self.settings,
            original,
            stays: None,
            ownership: &Ownership::Agent,
            rate: &mut self.rate,
            // A lesson's load cannot harm other processes.
            vetoes: &Vetoes::default(),
            refused: &mut None,
            not_tried: NOT_TRIED,
        };
        act(&mut self.lesson, &mut gate)
    }
}

impl DeviceSession {
    /// Idle time of the device, and the origin of the last request.
    pub fn idle(&self, now: Nanos) -> (Nanos, Option<String>) {
        let (last, work) = &self.learning.last_work;
        (now - *last, work.map(|work| work.text(self.input.source.name(work.stream))))
    }

    /// The lesson that is under way.
    pub fn lesson(&self) -> Option<&Lesson> {
        self.learning.lesson.as_ref().map(|session| &session.lesson)
    }

    /// Begins a lesson, from the original setting.
    ///
    /// # Errors
    /// The applier cannot restore it.
    pub fn begin_lesson(&mut self, now: Nanos, lesson: Lesson, errors: Option<u64>) -> Result<Notice, String> {
        self.device_control
            .at_exit(AtExit::Restore)
            .and_then(|()| self.device_control.restore())
            .map_err(|error| error.to_string())?;
        self.device_control.because("tried while learning, under a load of the agent's own");
        self.active = self.device_control.setting();
        self.original = self.active.clone();
        self.input.outstanding.forget(now);
        self.learning.lesson = Some(Box::new(LessonSession {
            lesson,
            settings: Settings { changes_per_minute: u32::MAX, ..self.configured.settings.clone() },
            rate: ChangeRate::default(),
            guard: Guard::new(now),
            errors,
            next_work_check: now,
            next_external_check: now + EXTERNAL_CHECK_INTERVAL,
        }));
        Ok(self.notice(EntryKind::Learning, "it is idle: learning begins".to_owned()))
    }

    /// Whether the last lesson failed; true once.
    pub fn lesson_failed(&mut self) -> bool {
        std::mem::take(&mut self.learning.has_failed)
    }

    /// Whether a lesson has ended; true once.
    pub fn lesson_ended(&mut self) -> bool {
        std::mem::take(&mut self.learning.has_ended)
    }

    /// Replaces the experience, and starts a controller with it.
    pub fn set_experience(&mut self, now: Nanos, experience: Arc<Experience>) {
        self.configured.experience = experience;
        self.restart(now);
    }

    /// Runs a step of the current lesson.
    pub(super) fn step_lesson(&mut self, now: Nanos, events: &[Event], errors: Option<u64>) -> Vec<Notice> {
        let Some(mut session) = self.learning.lesson.take() else { return Vec::new() };
        let mut notices = Vec::new();
        let result = self.learn(&mut session, now, events, errors, &mut notices);
        self.learning.lesson = Some(session);
        match result {
            Ok(()) => {}
            Err(End::ForeignIo(why)) => notices.extend(self.end_lesson(now, &why)),
            Err(End::Failure(why)) => {
                self.learning.has_failed = true;
                notices.push(self.notice(EntryKind::Trouble, format!("learning: {why}")));
                notices.extend(self.end_lesson(now, "it cannot go on"));
            }
            Err(End::ExternalChange(foreign)) => {
                notices.extend(self.end_lesson(now, "a setting was changed externally"));
                self.stand_down(now, &foreign, &mut notices);
            }
        }
        notices
    }

    fn learn(
        &mut self,
        session: &mut LessonSession,
        now: Nanos,
        events: &[Event],
        errors: Option<u64>,
        notices: &mut Vec<Notice>,
    ) -> Result<(), End> {
        session.next_work_check = now + WORK_CHECK_INTERVAL;
        for event in events {
            self.input.outstanding.event(event);
            session.guard.event(event);
            if let Some(work) = session.lesson.event(event, |stream| self.input.source.name(stream)) {
                self.learning.last_work = (now, Some(work));
                return Err(End::ForeignIo(format!("real work came: {}", work.text(self.input.source.name(work.stream)))));
            }
        }
        if errors > session.errors {
            return Err(End::Failure("the driver counted errors of the device".to_owned()));
        }
        if self.input.traffic.newly_lost(self.input.source.lost()).is_some() {
            self.input.outstanding.forget(now);
            session.lesson.give_up_load();
        }
        if now >= session.next_external_check {
            session.next_external_check = now + EXTERNAL_CHECK_INTERVAL;
            let foreign = self.device_control.foreign().map(unreleased).map_err(|error| End::Failure(error.to_string()))?;
            if !foreign.is_empty() {
                return Err(End::ExternalChange(foreign));
            }
        }
        // The applier detects external changes only of attributes that it has set.
        let setting = self.device_control.setting();
        if setting != self.active {
            return Err(End::ForeignIo(format!("{setting} is active instead of {}, as it was left", self.active)));
        }
        self.steer_lesson(session, now, errors);
        let original = self.original.clone();
        let learned =
            session.within_policy(&mut *self.device_control, &original, |lesson, target| lesson.step(now, target, &original));
        self.update_active(session, now, errors);
        notices.extend(learned.map_err(End::Failure)?.map(|learned| self.learned(&learned)));
        Ok(())
    }

    /// Runs the guard, then the lesson's search.
    fn steer_lesson(&mut self, session: &mut LessonSession, now: Nanos, errors: Option<u64>) {
        let original = self.original.clone();
        let objection = session.guard.objection(now, errors, &self.input.outstanding).filter(|_| self.active != original);
        session.within_policy(&mut *self.device_control, &original, |lesson, target| {
            let Some(control_loop) = lesson.steering() else { return };
            if let Some(objection) = objection {
                control_loop.overrule(now, &original, &objection, target);
            }
            control_loop.advance(now, target);
        });
        self.update_active(session, now, errors);
    }

    fn update_active(&mut self, session: &mut LessonSession, now: Nanos, errors: Option<u64>) {
        let active = self.device_control.setting();
        if active == self.active {
            return;
        }
        self.active = active;
        session.guard.changed(now, errors);
        if self.active == self.original {
            session.guard.settled();
        }
    }

    fn learned(&self, learned: &Learned) -> Notice {
        let Learned { load, setting, verdict, why } = learned;
        let measured = verdict.as_deref().and_then(Measured::of);
        let entry = Entry {
            measured_percent: measured.map(|measured| measured.gain_percent),
            measured_error_percent: measured.and_then(|measured| measured.error_percent),
            ..Entry::new(&self.name, EntryKind::Learning, &self.original.to_string(), setting, format!("under {load}: {why}"))
        };
        Notice::entry(entry)
    }

    /// Ends the current lesson, if there is one: stops its load, restores the original setting, and the device's own
    /// controller starts again.
    pub fn end_lesson(&mut self, now: Nanos, why: &str) -> Vec<Notice> {
        let Some(mut session) = self.learning.lesson.take() else { return Vec::new() };
        let mut notices = Vec::new();
        let finished = session.lesson.finish(&*self.device_control);
        let policy = self.configured.settings.exit;
        if let Err(error) = self.device_control.restore().and_then(|_| self.device_control.at_exit(policy)) {
            notices.push(self.notice(EntryKind::Trouble, format!("cannot restore the settings from before learning: {error}")));
        }
        self.device_control.because(&decided_by(&self.configured.settings));
        self.active = self.device_control.setting();
        self.original = self.active.clone();
        match finished {
            Ok(learned) => notices.extend(learned.map(|learned| self.learned(&learned))),
            Err(error) => notices.push(self.notice(EntryKind::Trouble, format!("the results are not stored: {error}"))),
        }
        self.learning.has_ended = true;
        let count = session.lesson.learned();
        // Wait for the load to end, so that its last requests do not count as foreign I/O.
        drop(session);
        self.input.events.clear();
        let mut rest = Vec::new();
        // The next step detects a removed device.
        let _ = self.input.source.read(&mut rest);
        self.learning.restart_idle_time(now);
        self.guard = Guard::new(now);
        self.input.outstanding.forget(now);
        self.restart(now);
        let loads = if count == 1 { "load" } else { "loads" };
        notices.push(
            self.notice(EntryKind::Learning, format!("learning ends, after {count} {loads}: {why}; {} is active", self.active)),
        );
        notices
    }
}
