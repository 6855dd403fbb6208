//! One device: what is seen of it goes to its controller, what that decides is done, or said, and the guard looks after both.

mod external_changes;
mod learning;
mod measured;

use std::collections::VecDeque;
use std::sync::Arc;

use block::Nanos;
use control::controller::{ControllerChoice, ControllerInput, Evidence, Prediction};
use control::experience::Experience;
use control::experience::GenePool;
use control::{ControlLoop, DecisionRecord, Setting};
use observe::Event;
use observe::merit::Scored;
use twin::counters::ByCounters;

use self::learning::LessonSession;
use self::measured::Trial;
use super::counted::Tally;
use super::device_control::{Acts, DeviceControl, PolicyGate, Rate};
use super::guard::Guard;
use crate::configuration::{Mode, Settings};
use crate::control_socket::{PendingAdvice, Rates};
use crate::history::{Entry, Kind, Promised};
use crate::learning::{ForeignIo, Work};
use crate::observe::blind::CANNOT_KNOW;
use crate::observe::{CountersOnly, EventSource, ObserveError};

/// How often to check for external changes.
const EXTERNAL_CHECK_INTERVAL: Nanos = Nanos(1_000_000_000);
/// What a controller thought lately: that there is nothing new comes after each thought.
const MOST_THOUGHTS: usize = 4;
/// Processor time for the first decisions about a device, in milliseconds: with a small budget it is all there only after a while again.
const SAVED_MS: i64 = 1_000;
/// Settings that are chosen among because they served a load of the device that was learned under.
const MOST_KNOWN: usize = 16;
/// Candidates of an entry.
const MOST_CANDIDATES: usize = 16;

/// What a device's controller may use.
#[derive(Clone, Copy, Debug)]
pub struct Means {
    /// Thousandths of a core.
    pub budget_permille: i64,
    /// Memory for what was seen.
    pub memory_mib: i64,
}

/// Something to be told.
#[derive(Debug)]
pub enum News {
    /// Something happened.
    Entry(Box<Entry>),
    /// What was measured of the latest change, in percent.
    Measured(f64),
}

impl News {
    /// What happened, as a sentence.
    pub fn text(&self) -> Option<String> {
        match self {
            News::Entry(entry) => Some(format!("{}: {}", entry.device, entry.why)),
            News::Measured(_) => None,
        }
    }
}

/// A device that is watched.
pub struct DeviceSession {
    name: String,
    settings: Settings,
    means: Means,
    experience: Arc<Experience>,
    hands: Box<dyn DeviceControl>,
    eyes: Box<dyn EventSource>,
    steering: ControlLoop,
    guard: Guard,
    acts: Acts,
    rate: Rate,
    /// The original setting.
    original: Setting,
    /// The active setting as the controller knows it.
    active: Setting,
    pending_advice: Option<PendingAdvice>,
    scores: VecDeque<Scored>,
    /// The queue's tags under the setting that it was last asked for them.
    tags: Option<(Setting, u32)>,
    trial: Option<Trial>,
    lost: u64,
    /// What is wrong with the applier, if something is.
    trouble: Option<String>,
    requests: u64,
    looks: Nanos,
    latest: Rates,
    tally: Tally,
    thoughts: VecDeque<String>,
    events: Vec<Event>,
    /// Requests of other processes than the agent's load, and when the last came.
    strangers: ForeignIo,
    work: (Nanos, Option<Work>),
    /// Learning goes on, and the device's own controller rests.
    session: Option<Box<LessonSession>>,
    lesson_failed: bool,
    lesson_ended: bool,
}

impl DeviceSession {
    /// Begins to watch. The experience is for controllers that learn from one.
    pub fn begin(
        now: Nanos,
        name: &str,
        (settings, means): (Settings, Means),
        experience: Arc<Experience>,
        hands: Box<dyn DeviceControl>,
        eyes: Box<dyn EventSource>,
    ) -> (DeviceSession, Vec<News>) {
        let original = hands.setting();
        let acts = if settings.mode == Mode::Act { Acts::Yes } else { Acts::Watches };
        let mut watched = DeviceSession {
            name: name.to_owned(),
            steering: ControlLoop::new(controller(&settings, means, &experience, &*hands, eyes.blind())),
            lost: eyes.lost(),
            settings,
            means,
            experience,
            hands,
            eyes,
            guard: Guard::new(now),
            acts,
            rate: Rate::default(),
            active: original.clone(),
            original,
            pending_advice: None,
            scores: VecDeque::new(),
            tags: None,
            trial: None,
            trouble: None,
            requests: 0,
            looks: now + EXTERNAL_CHECK_INTERVAL,
            latest: Rates::default(),
            tally: Tally::default(),
            thoughts: VecDeque::new(),
            events: Vec::new(),
            strangers: ForeignIo::default(),
            work: (now, None),
            session: None,
            lesson_failed: false,
            lesson_ended: false,
        };
        let what = if watched.acts == Acts::Yes { "is tuned" } else { "is watched" };
        let (label, original) = (watched.settings.controller.label(), watched.original.to_string());
        let by = match watched.eyes.blind() {
            None => label,
            Some(blind) => format!("counters alone ({}; {CANNOT_KNOW})", blind.why),
        };
        let began = Entry::new(name, Kind::Began, &original, &original, format!("{what} by {by}"));
        let news = vec![News::Entry(Box::new(began))];
        watched.start(now);
        (watched, news)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether what is decided is done.
    pub fn acts(&self) -> &Acts {
        &self.acts
    }

    /// What the configuration says of it.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The original setting.
    pub fn original(&self) -> &Setting {
        &self.original
    }

    /// The active setting, as far as the controller knows.
    pub fn active(&self) -> &Setting {
        &self.active
    }

    /// What is advised, if it is only watched.
    pub fn pending_advice(&self) -> Option<&PendingAdvice> {
        self.pending_advice.as_ref()
    }

    /// Requests that were seen to be done.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Events that the kernel lost.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// The latest window.
    pub fn latest(&self) -> Rates {
        self.latest
    }

    /// What the controller thought lately, the latest last and each once.
    pub fn thoughts(&self) -> impl Iterator<Item = &str> {
        self.thoughts.iter().map(String::as_str)
    }

    /// Attributes whose value differs from the agent's: name, the agent's value, the actual value.
    pub fn differs(&mut self) -> Vec<(String, String, String)> {
        let foreign = self.hands.foreign().unwrap_or_default();
        let shown = |now: Option<String>| now.unwrap_or_else(|| "not there".to_owned());
        foreign.into_iter().map(|one| (one.attribute, one.ours, shown(one.now))).collect()
    }

    /// The eyes, for whoever waits until there is something to see.
    pub fn eyes(&self) -> &dyn EventSource {
        &*self.eyes
    }

    /// What its controller's search found under real work, to be kept; nothing of a device on which nothing may be tried.
    pub fn gene_pools(&self) -> Vec<GenePool> {
        let pools = || self.steering.controller().gene_pools(&self.hands.identity().device);
        if self.acts == Acts::Yes { pools() } else { Vec::new() }
    }

    /// When the next window ends.
    pub fn next(&self) -> Option<Nanos> {
        self.session.as_ref().map_or_else(|| self.steering.next_deadline(), |session| session.next())
    }

    /// A controller without observations starts from the active setting.
    fn start(&mut self, now: Nanos) {
        self.with_care(|steering, plant| steering.begin(now, plant));
        self.active = self.hands.setting();
        (self.trial, self.pending_advice) = (None, None);
        self.scores.clear();
    }

    /// Lets the controller do something within what is allowed. Returns what was refused.
    fn with_care(&mut self, act: impl FnOnce(&mut ControlLoop, &mut PolicyGate)) -> Option<Setting> {
        let mut refused = None;
        let mut careful = PolicyGate {
            hands: &mut *self.hands,
            settings: &self.settings,
            original: &self.original,
            acts: &self.acts,
            rate: &mut self.rate,
            refused: &mut refused,
            not_tried: &[],
        };
        act(&mut self.steering, &mut careful);
        refused
    }

    fn start_anew(&mut self, now: Nanos) {
        let controller = controller(&self.settings, self.means, &self.experience, &*self.hands, self.eyes.blind());
        self.steering = ControlLoop::new(controller);
        self.start(now);
    }

    /// Looks at what happened, and decides where something is due.
    ///
    /// # Errors
    /// The device is gone, or cannot be observed any more.
    pub fn step(&mut self, now: Nanos, errors: Option<u64>) -> Result<Vec<News>, ObserveError> {
        let mut events = std::mem::take(&mut self.events);
        events.clear();
        let read = self.eyes.read(&mut events);
        let mut news = Vec::new();
        if self.session.is_some() {
            news = self.step_session(now, &events, errors);
            self.events = events;
            return read.map(|()| news);
        }
        self.see(now, &events, &mut news);
        self.events = events;
        read?;
        if now >= self.looks {
            self.looks = now + EXTERNAL_CHECK_INTERVAL;
            self.check_external_changes(now, &mut news);
        }
        if let Some(objection) = self.guard.objection(now, errors).filter(|_| self.active != self.original) {
            self.guard.settled();
            let back = self.original.clone();
            let why = format!("{objection} under {}: back to {back}", self.active);
            self.steer(now, errors, Kind::Guarded, &mut news, |steering, plant| steering.overrule(now, &back, &why, plant));
        }
        self.steer(now, errors, Kind::Set, &mut news, |steering, plant| steering.advance(now, plant));
        Ok(news)
    }

    fn see(&mut self, now: Nanos, events: &[Event], news: &mut Vec<News>) {
        for event in events {
            let work = self.strangers.look(event, |stream| self.eyes.name(stream), |_| false);
            self.work = work.map_or(self.work, |work| (now, Some(work)));
            self.guard.event(event);
            self.steering.event(event);
            self.requests += u64::from(matches!(event, Event::Completed { .. }));
        }
        self.count(news);
        let lost = self.eyes.lost();
        if lost > self.lost {
            let why = format!("the kernel lost {} events; requests in flight are unknown, so it starts again", lost - self.lost);
            self.lost = lost;
            self.work.0 = now;
            news.push(self.entry(Kind::Trouble, why));
            self.guard.lost(now);
            self.start_anew(now);
        }
    }

    fn entry(&self, kind: Kind, why: String) -> News {
        let active = self.active.to_string();
        News::Entry(Box::new(Entry::new(&self.name, kind, &active, &active, why)))
    }

    /// Runs a step of the controller and returns the resulting news.
    fn steer(
        &mut self,
        now: Nanos,
        errors: Option<u64>,
        kind: Kind,
        news: &mut Vec<News>,
        act: impl FnOnce(&mut ControlLoop, &mut PolicyGate),
    ) {
        let refused = self.with_care(act);
        let (decided, windows) = self.steering.take();
        windows.iter().for_each(|window| self.measure(window, news));
        for decided in decided {
            if !self.thoughts.contains(&decided.why) {
                if self.thoughts.len() >= MOST_THOUGHTS {
                    self.thoughts.pop_front();
                }
                self.thoughts.push_back(decided.why.clone());
            }
            if decided.is_change() {
                self.guard.changed(now, errors);
                self.active = (*decided.to).clone();
                if self.active == self.original {
                    self.guard.settled();
                }
                self.finish_trial(news);
                // Another read-ahead has no effect before files are opened again.
                let is_at_once = decided.from.host == decided.to.host;
                let before = Scored::mean(self.scores.iter().copied()).filter(|_| is_at_once);
                self.trial = before.map(|before| Trial { before, after: Vec::new() });
                self.scores.clear();
                news.push(News::Entry(Box::new(told(&self.name, kind, &decided, &decided.to.to_string()))));
            } else if self.acts == Acts::Yes {
                if let Some(reason) = &decided.refused {
                    news.push(News::Entry(Box::new(Entry {
                        why: format!("{}; but {reason}", decided.why),
                        ..told(&self.name, Kind::Refused, &decided, &refused.as_ref().unwrap_or(&decided.to).to_string())
                    })));
                }
            } else {
                self.advise(&decided, refused.as_ref(), news);
            }
        }
    }

    /// What is to be said of a decision that is not done.
    fn advise(&mut self, decided: &DecisionRecord, wanted: Option<&Setting>, news: &mut Vec<News>) {
        let best = decided.evidence.as_deref().and_then(|evidence| sure(evidence, &self.active));
        let (setting, gain_percent, error_percent) = match (best, wanted) {
            (Some(promise), _) => (promise.setting.to_string(), Some(percent(promise.gain)), Some(100.0 * promise.error)),
            // A controller that promises nothing.
            (None, Some(wanted)) => (wanted.to_string(), decided.expected_gain.map(percent), None),
            (None, None) => {
                if decided.evidence.is_some() {
                    self.pending_advice = None;
                }
                return;
            }
        };
        let active = self.active.to_string();
        let mut entry = told(&self.name, Kind::WouldSet, decided, &setting);
        if let Some(promise) = best {
            let (gain, error) = (percent(promise.gain), 100.0 * promise.error);
            entry.why = format!("{setting} promises {}", report::promises::with_error(gain, error));
            (entry.promised_percent, entry.error_percent) = (gain_percent, error_percent);
        }
        entry.from = active;
        let pending_advice = PendingAdvice { id: entry.id.clone(), setting, why: entry.why.clone(), gain_percent, error_percent };
        let is_news = self.pending_advice.as_ref().is_none_or(|known| known.id != pending_advice.id);
        self.pending_advice = Some(pending_advice);
        if is_news {
            news.push(News::Entry(Box::new(entry)));
        }
    }

    /// Tunes it again after it had stood down.
    ///
    /// # Errors
    /// It is not a device that stood down, or the applier refuses.
    pub fn resume(&mut self, now: Nanos) -> Result<Vec<News>, String> {
        match self.acts {
            Acts::StoodDown(_) => {}
            Acts::Yes => return Err(format!("{} is tuned already", self.name)),
            Acts::Watches => {
                return Err(format!("{} is only watched; to have it tuned, the configuration says mode = \"act\"", self.name));
            }
        }
        self.hands.resume().map_err(|error| error.to_string())?;
        (self.acts, self.original) = (Acts::Yes, self.hands.setting());
        self.start_anew(now);
        Ok(vec![self.entry(Kind::Resumed, "the administrator says so; the current values count as the original".to_owned())])
    }

    /// Puts back what was there before the agent, and only watches from then on.
    ///
    /// # Errors
    /// The applier cannot.
    pub fn restore(&mut self, now: Nanos) -> Result<Vec<News>, String> {
        let mut news = self.end_lesson(now, "the administrator has everything put back");
        let from = self.active.to_string();
        let restored = self.hands.restore().map_err(|error| error.to_string())?;
        self.finish_trial(&mut news);
        let back = restored.iter().map(super::restored).collect::<Vec<_>>().join(", ");
        let why = if restored.is_empty() { "nothing had been changed".to_owned() } else { back };
        self.original = self.hands.setting();
        let to = self.original.to_string();
        news.push(News::Entry(Box::new(Entry::new(&self.name, Kind::Restored, &from, &to, why))));
        if self.acts == Acts::Yes {
            self.acts = Acts::StoodDown("the administrator had everything put back".to_owned());
        }
        self.guard.settled();
        self.start_anew(now);
        Ok(news)
    }

    /// The agent ends and settings stay: replaces a setting on trial by the controller's final one.
    pub fn leave(&mut self, now: Nanos) -> Vec<News> {
        let mut news = Vec::new();
        if let Some(left) = self.steering.final_setting().filter(|left| *left != self.active) {
            let why = "the agent ends, and what is only on trial does not stay";
            self.steer(now, None, Kind::Set, &mut news, |steering, plant| steering.overrule(now, &left, why, plant));
        }
        news
    }
}

/// The device's controller, with what may be set on it to choose among. Where no request is seen it is the one that goes by counters.
fn controller(
    settings: &Settings,
    means: Means,
    experience: &Arc<Experience>,
    hands: &dyn DeviceControl,
    blind: Option<&CountersOnly>,
) -> Box<dyn control::Controller> {
    let brief = ControllerInput {
        preference: settings.preference,
        candidates: candidates(settings, experience, hands),
        experience: experience.clone(),
        ..ControllerInput::default()
    };
    if let Some(CountersOnly { known, .. }) = blind {
        return Box::new(ByCounters::new(&brief, known, means.budget_permille));
    }
    let ControllerChoice { spec, values } = &settings.controller;
    let mut values = values.clone();
    for (value, tunable) in values.iter_mut().zip(spec.tunables) {
        // What the file says of the controller itself has the last word.
        match tunable.name {
            "budget_permille" if *value == tunable.default => *value = means.budget_permille,
            "saved_s" if *value == tunable.default => *value = SAVED_MS / means.budget_permille.max(1),
            "memory_mib" if *value == tunable.default => *value = means.memory_mib,
            _ => {}
        }
    }
    (spec.build)(&brief, &values)
}

/// What may be set of the configuration's candidates, and of what is known to have served loads of this device best.
fn candidates(settings: &Settings, experience: &Experience, hands: &dyn DeviceControl) -> Vec<Setting> {
    let (active, device) = (hands.setting(), hands.identity().device);
    let pools = experience.pools.iter().rev().filter(|pool| pool.device == device);
    let known = pools.filter_map(|pool| pool.settings().next());
    let mut candidates: Vec<Setting> = settings.candidates.clone();
    for setting in known {
        let is_room = candidates.len() < settings.candidates.len() + MOST_KNOWN;
        if is_room && setting != active && !candidates.contains(&setting) {
            candidates.push(setting);
        }
    }
    candidates.retain(|candidate| settings.allows(candidate, &active));
    candidates
}

/// The best candidate that is significantly better than the active setting.
fn sure<'a>(evidence: &'a Evidence, active: &Setting) -> Option<&'a Prediction> {
    let others = evidence.candidates.iter().filter(|promise| promise.setting != *active && promise.is_sure());
    others.min_by(|a, b| a.surest_first(b))
}

/// A decision as an entry.
fn told(device: &str, kind: Kind, decided: &DecisionRecord, to: &str) -> Entry {
    let evidence = decided.evidence.as_deref();
    let promise = evidence.and_then(|evidence| evidence.candidates.iter().find(|promise| promise.setting.to_string() == to));
    let candidates = evidence.map_or(&[][..], |evidence| &evidence.candidates);
    Entry {
        promised_percent: promise.map(|promise| percent(promise.gain)).or(decided.expected_gain.map(percent)),
        error_percent: promise.map(|promise| 100.0 * promise.error),
        seen: evidence.map(|evidence| evidence.seen.clone()).unwrap_or_default(),
        candidates: candidates.iter().take(MOST_CANDIDATES).map(promised).collect(),
        ..Entry::new(device, kind, &decided.from.to_string(), to, decided.why.clone())
    }
}

fn promised(promise: &Prediction) -> Promised {
    Promised {
        setting: promise.setting.to_string(),
        gain_percent: percent(promise.gain),
        error_percent: 100.0 * promise.error,
        starves: promise.starves(),
    }
}

/// A difference of scores in percent.
fn percent(gain: f64) -> f64 {
    100.0 * gain.exp_m1()
}
