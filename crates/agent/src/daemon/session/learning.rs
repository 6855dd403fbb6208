//! Learning on a device that is otherwise tuned: the same eyes, hands and guard, and a load and a search of the lesson's own.
//!
//! The bound on changes in a minute does not hold, for they disturb no one; that of the applier does.

use std::sync::Arc;

use block::Nanos;
use control::experience::Experience;
use observe::Event;

use super::external_changes::unreleased;
use super::{DeviceSession, EXTERNAL_CHECK_INTERVAL, News, percent};
use crate::configuration::{Exit, Settings};
use crate::daemon::device_control::{Acts, DeviceControl, PolicyGate, Rate};
use crate::daemon::guard::Guard;
use crate::daemon::open::decided_by;
use crate::history::{Entry, Kind};
use crate::learning::{Learned, Lesson};
use applier::attribute::READ_AHEAD;
use applier::{AtExit, Foreign};

/// How often it is looked whether real work came, at least: it has to stop within a second.
const LOOKS_FOR_WORK: Nanos = Nanos(100_000_000);

/// How far a file is read ahead is decided when it is opened, and a lesson's load has its file open.
const NOT_TRIED: &[&str] = &[READ_AHEAD];

/// Why a lesson ends.
enum Ends {
    /// The device is needed for real work.
    Work(String),
    /// Something went wrong, and it is not to begin again soon.
    Trouble(String),
    /// A setting was changed externally.
    Foreign(Vec<Foreign>),
}

/// A lesson that goes on.
pub struct LessonSession {
    lesson: Lesson,
    /// The device's, without the bound on changes.
    settings: Settings,
    rate: Rate,
    guard: Guard,
    /// Errors that the driver had counted at the beginning.
    errors: Option<u64>,
    polls: Nanos,
    looks: Nanos,
}

impl LessonSession {
    /// When it wants to be called next.
    pub fn next(&self) -> Option<Nanos> {
        self.lesson.next().map_or(Some(self.polls), |next| Some(next.min(self.polls)))
    }

    /// The plant, as what steers it in a lesson may set it.
    fn with_care<T>(
        &mut self,
        hands: &mut dyn DeviceControl,
        original: &control::Setting,
        act: impl FnOnce(&mut Lesson, &mut PolicyGate) -> T,
    ) -> T {
        let mut refused = None;
        let (settings, rate) = (&self.settings, &mut self.rate);
        let mut careful =
            PolicyGate { hands, settings, original, acts: &Acts::Yes, rate, refused: &mut refused, not_tried: NOT_TRIED };
        act(&mut self.lesson, &mut careful)
    }
}

impl DeviceSession {
    /// How long the device has been idle, and the last request's origin.
    pub fn idle(&self, now: Nanos) -> (Nanos, Option<String>) {
        let (last, work) = &self.work;
        (now - *last, work.map(|work| work.text(self.eyes.name(work.stream))))
    }

    /// The lesson that goes on.
    pub fn lesson(&self) -> Option<&Lesson> {
        self.session.as_ref().map(|session| &session.lesson)
    }

    /// Begins to learn, from the original setting.
    ///
    /// # Errors
    /// The applier cannot put it back.
    pub fn begin_lesson(&mut self, now: Nanos, lesson: Lesson, errors: Option<u64>) -> Result<News, String> {
        self.hands.at_exit(AtExit::Restore).and_then(|()| self.hands.restore()).map_err(|error| error.to_string())?;
        self.hands.because("tried while learning, under a load of the agent's own");
        self.active = self.hands.setting();
        self.original = self.active.clone();
        self.session = Some(Box::new(LessonSession {
            lesson,
            settings: Settings { changes_per_minute: u32::MAX, ..self.settings.clone() },
            rate: Rate::default(),
            guard: Guard::new(now),
            errors,
            polls: now,
            looks: now + EXTERNAL_CHECK_INTERVAL,
        }));
        Ok(self.entry(Kind::Learning, "it is idle: learning begins".to_owned()))
    }

    /// Whether the last lesson ended because something went wrong; said once.
    pub fn lesson_failed(&mut self) -> bool {
        std::mem::take(&mut self.lesson_failed)
    }

    /// Whether a lesson has ended; said once.
    pub fn lesson_ended(&mut self) -> bool {
        std::mem::take(&mut self.lesson_ended)
    }

    /// From now on this is what is known.
    pub fn know(&mut self, now: Nanos, experience: Arc<Experience>) {
        self.experience = experience;
        self.start_anew(now);
    }

    /// A step of the lesson that goes on.
    pub(super) fn step_session(&mut self, now: Nanos, events: &[Event], errors: Option<u64>) -> Vec<News> {
        let Some(mut session) = self.session.take() else { return Vec::new() };
        let mut news = Vec::new();
        let goes_on = self.learn(&mut session, now, events, errors, &mut news);
        self.session = Some(session);
        match goes_on {
            Ok(()) => {}
            Err(Ends::Work(why)) => news.extend(self.end_lesson(now, &why)),
            Err(Ends::Trouble(why)) => {
                self.lesson_failed = true;
                news.push(self.entry(Kind::Trouble, format!("learning: {why}")));
                news.extend(self.end_lesson(now, "it cannot go on"));
            }
            Err(Ends::Foreign(foreign)) => {
                news.extend(self.end_lesson(now, "a setting was changed externally"));
                self.stand_down(now, &foreign, &mut news);
            }
        }
        news
    }

    fn learn(
        &mut self,
        session: &mut LessonSession,
        now: Nanos,
        events: &[Event],
        errors: Option<u64>,
        news: &mut Vec<News>,
    ) -> Result<(), Ends> {
        session.polls = now + LOOKS_FOR_WORK;
        for event in events {
            session.guard.event(event);
            self.requests += u64::from(matches!(event, Event::Completed { .. }));
            if let Some(work) = session.lesson.event(event, |stream| self.eyes.name(stream)) {
                self.work = (now, Some(work));
                return Err(Ends::Work(format!("real work came: {}", work.text(self.eyes.name(work.stream)))));
            }
        }
        if errors > session.errors {
            return Err(Ends::Trouble("the driver counted errors of the device".to_owned()));
        }
        let lost = self.eyes.lost();
        if lost > self.lost {
            self.lost = lost;
            session.guard.lost(now);
            session.lesson.give_up_load();
        }
        if now >= session.looks {
            session.looks = now + EXTERNAL_CHECK_INTERVAL;
            let foreign = self.hands.foreign().map(unreleased).map_err(|error| Ends::Trouble(error.to_string()))?;
            if !foreign.is_empty() {
                return Err(Ends::Foreign(foreign));
            }
        }
        // Before anything was tried, nothing is known to be foreign.
        let setting = self.hands.setting();
        if setting != self.active {
            return Err(Ends::Work(format!("{setting} is active, and not {} as it was left", self.active)));
        }
        self.steer_lesson(session, now, errors);
        let original = self.original.clone();
        let learned = session.with_care(&mut *self.hands, &original, |lesson, plant| lesson.step(now, plant, &original));
        self.update_active(session, now, errors);
        news.extend(learned.map_err(Ends::Trouble)?.map(|learned| self.learned(&learned)));
        Ok(())
    }

    /// Lets the lesson's search decide; the guard has the first word.
    fn steer_lesson(&mut self, session: &mut LessonSession, now: Nanos, errors: Option<u64>) {
        let original = self.original.clone();
        let objection = session.guard.objection(now, errors).filter(|_| self.active != original);
        session.with_care(&mut *self.hands, &original, |lesson, plant| {
            let Some(steering) = lesson.steering() else { return };
            if let Some(objection) = objection {
                steering.overrule(now, &original, &objection, plant);
            }
            steering.advance(now, plant);
        });
        self.update_active(session, now, errors);
    }

    fn update_active(&mut self, session: &mut LessonSession, now: Nanos, errors: Option<u64>) {
        let active = self.hands.setting();
        if active == self.active {
            return;
        }
        self.active = active;
        session.guard.changed(now, errors);
        if self.active == self.original {
            session.guard.settled();
        }
    }

    fn learned(&self, learned: &Learned) -> News {
        let Learned { load, setting, gain, why } = learned;
        let entry = Entry {
            promised_percent: gain.map(percent),
            ..Entry::new(&self.name, Kind::Learning, &self.original.to_string(), setting, format!("under {load}: {why}"))
        };
        News::Entry(Box::new(entry))
    }

    /// Ends the current lesson, if there is one: stops its load, restores the original setting, and the device's own
    /// controller starts again.
    pub fn end_lesson(&mut self, now: Nanos, why: &str) -> Vec<News> {
        let Some(mut session) = self.session.take() else { return Vec::new() };
        let mut news = Vec::new();
        let finished = session.lesson.finish(&*self.hands);
        let policy = if self.settings.exit == Exit::Keep { AtExit::Keep } else { AtExit::Restore };
        if let Err(error) = self.hands.restore().and_then(|_| self.hands.at_exit(policy)) {
            news.push(self.entry(Kind::Trouble, format!("cannot put back what was there before learning: {error}")));
        }
        self.hands.because(&decided_by(&self.settings));
        self.active = self.hands.setting();
        self.original = self.active.clone();
        match finished {
            Ok(learned) => news.extend(learned.map(|learned| self.learned(&learned))),
            Err(error) => news.push(self.entry(Kind::Trouble, format!("what was learned is not kept: {error}"))),
        }
        self.lesson_ended = true;
        let count = session.lesson.learned();
        // Here the load is waited for: what it asked last is not to be taken for work.
        drop(session);
        self.events.clear();
        let mut rest = Vec::new();
        // A device that is gone is noticed by the next look.
        let _ = self.eyes.read(&mut rest);
        self.work.0 = now;
        self.guard = Guard::new(now);
        self.start_anew(now);
        let loads = if count == 1 { "load" } else { "loads" };
        news.push(self.entry(Kind::Learning, format!("learning ends, after {count} {loads}: {why}; {} is active", self.active)));
        news
    }
}
