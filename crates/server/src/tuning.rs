//! What a store's queue is set to, and the controller that chooses it.
//!
//! ```text
//! store's queue ─ events ─▶ control::ControlLoop ─▶ Controller (seekwise) ─▶ scheduler ──────────────┐
//! clients' requests ─ events ─▶ Trials: turns of 2 s with and without ─▶ read-ahead, depth, order ───┤
//!                                                                                                    ▼
//!                              promises to volumes, explicit keys of the configuration ─▶ Tuning ─▶ StoreHost
//! ```
//! The controller is the one that works on a kernel's queue and in the simulator. What it has no model of, the server's own read-ahead, the
//! depth, and the order within the slots of a scheduler that keeps promises, is tried in turns by the test that is used everywhere.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use std::{io, thread};

use block::{Nanos, SchedulerSpec, StreamId, Tunable};
use control::ab_test::{AbTest, Challenger, Verdict};
use control::controller::{ControllerChoice, ControllerInput};
use control::target::{Bounds, Identity};
use control::{ControlLoop, Setting, Target, TargetError, candidates};
use observe::window::Tally;
use observe::{Event, Preference};
use serde::{Deserialize, Serialize};
use serve::store::{Observed, StoreHost};
use sim::host::QueueSettings;

use crate::catalog::EXTENT_BYTES;
use crate::server::Server;
use crate::store::StoreEntry;

/// How often a store's events are taken.
const LOOKS: Duration = Duration::from_millis(50);
/// A turn of a test, and the time that requests under the setting before have to be gone: many requests of a disk, and less than people notice.
const TURN: Nanos = Nanos::from_millis(2_000);
const SETTLING: Nanos = Nanos::from_millis(500);
/// A turn of fewer requests shows nothing: the load has gone.
const LEAST_REQUESTS: u64 = 20;
/// The controller has found a scheduler if it changed nothing for this long: its second look at a load is after 8 windows of a second.
const CALM: Nanos = Nanos::from_millis(20_000);
/// How long until everything is tried again: a test takes 15 to 25 s.
const AGAIN: Nanos = Nanos::from_millis(600_000);
/// Depths that are tried on disks that turn, which a deep queue lets sort for themselves; the scheduler then sorts more.
const DEPTHS: [usize; 2] = [4, 8];
/// The read-ahead that is tried, as the set of candidates `linux` has it.
const READ_AHEAD_KB: i64 = 1024;

/// Names of what a store has besides its scheduler: those of Linux (`queue/read_ahead_kb`, `device/queue_depth`).
const READ_AHEAD: &str = "read_ahead_kb";
const DEPTH: &str = "queue_depth";

/// What `status` says of a store that is tuned.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Tuned {
    /// The controller with its tunables.
    pub controller: String,
    /// How often a setting was changed, trials among them.
    pub changes: u64,
    /// The last change that stayed and its reason; absent if there was none.
    pub last: Option<String>,
}

/// What a store is set to.
#[derive(Clone, Debug)]
struct Active {
    setting: Setting,
    depth: usize,
    read_ahead_kb: i64,
    /// Volumes of the store have promises.
    has_promises: bool,
    tuned: Tuned,
}

/// What a store is set to, and what it may be set to.
pub struct Tuning {
    active: Mutex<Active>,
    /// As the configuration says or by default.
    original: (Setting, usize, i64),
    /// What the configuration names is not changed: scheduler, depth, read-ahead.
    fixed: [bool; 3],
    controller: Option<ControllerChoice>,
    settings: QueueSettings,
}

/// What the configuration says of a store's queue.
pub(crate) struct Given {
    pub setting: Setting,
    pub depth: usize,
    pub read_ahead_kb: i64,
    pub fixed: [bool; 3],
    pub controller: Option<ControllerChoice>,
}

impl Tuning {
    pub(crate) fn new(given: Given, settings: QueueSettings) -> Tuning {
        let Given { setting, depth, read_ahead_kb, fixed, controller } = given;
        let tuned = Tuned { controller: controller.as_ref().map_or_else(String::new, ControllerChoice::label), ..Tuned::default() };
        let active = Active { setting: setting.clone(), depth, read_ahead_kb, has_promises: false, tuned };
        Tuning { active: Mutex::new(active), original: (setting, depth, read_ahead_kb), fixed, controller, settings }
    }

    fn lock(&self) -> MutexGuard<'_, Active> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The scheduler, the depth and the read-ahead in KiB that are active.
    pub fn active(&self) -> (String, usize, i64) {
        let active = self.lock();
        (active.setting.to_string(), active.depth, active.read_ahead_kb)
    }

    /// What a controller did; `None` if there is none.
    pub fn tuned(&self) -> Option<Tuned> {
        self.controller.as_ref()?;
        Some(self.lock().tuned.clone())
    }

    /// Volumes of the store have promises from now on, or have none. Where they have, it is set as the configuration says at once, unless a
    /// scheduler that keeps promises is active.
    pub(crate) fn promises(&self, host: &StoreHost, has_promises: bool) {
        if self.controller.is_none() {
            return;
        }
        let mut active = self.lock();
        let begins = has_promises && !active.has_promises;
        active.has_promises = has_promises;
        if begins {
            let (setting, depth, read_ahead_kb) = self.original.clone();
            self.set(host, &mut active, setting, depth, read_ahead_kb);
            active.tuned.last = Some(format!("{}: volumes have promises", self.original.0));
        }
    }

    /// Sets what differs.
    fn set(&self, host: &StoreHost, active: &mut Active, setting: Setting, depth: usize, read_ahead_kb: i64) {
        if setting.spec.name != active.setting.spec.name {
            host.set_scheduler((setting.spec.build)(&self.settings.limits(), &setting.values));
        } else if setting.values != active.setting.values {
            host.retune(&setting.values);
        }
        if depth != active.depth {
            host.set_depth(depth);
        }
        if read_ahead_kb != active.read_ahead_kb {
            host.set_read_ahead(2 * read_ahead_kb.unsigned_abs(), EXTENT_BYTES / 512);
        }
        if (&setting, depth, read_ahead_kb) != (&active.setting, active.depth, active.read_ahead_kb) {
            active.tuned.changes += 1;
        }
        (active.setting, active.depth, active.read_ahead_kb) = (setting, depth, read_ahead_kb);
    }

    /// Sets a scheduler for a store without promises, and keeps the rest.
    fn set_scheduler(&self, host: &StoreHost, setting: &Setting) -> Result<(), String> {
        let mut active = self.lock();
        if self.fixed[0] {
            return Err("the configuration names the scheduler".to_owned());
        }
        if active.has_promises {
            return Err(format!("volumes have promises, which {} keeps", active.setting));
        }
        let (depth, read_ahead_kb) = (active.depth, active.read_ahead_kb);
        self.set(host, &mut active, setting.clone(), depth, read_ahead_kb);
        Ok(())
    }

    /// Sets all of a setting with the host's tunables; false if promises have begun or ended since it was made.
    fn set_all(&self, host: &StoreHost, setting: &Setting, has_promises: bool) -> bool {
        let mut active = self.lock();
        if active.has_promises != has_promises {
            return false;
        }
        let value = |name: &str| setting.host.iter().find(|(known, _)| known == name).map(|(_, value)| *value);
        let depth = value(DEPTH).map_or(self.original.1, |depth| usize::try_from(depth).unwrap_or(self.original.1));
        let read_ahead_kb = value(READ_AHEAD).unwrap_or(self.original.2);
        self.set(host, &mut active, Setting { host: Vec::new(), ..setting.clone() }, depth, read_ahead_kb);
        true
    }

    /// The active setting, with depth and read-ahead as the host's tunables where they differ from the original.
    fn whole(&self) -> (Setting, bool) {
        let active = self.lock();
        let mut host = Vec::new();
        if active.depth != self.original.1 {
            host.push((DEPTH.to_owned(), active.depth as i64));
        }
        if active.read_ahead_kb != self.original.2 {
            host.push((READ_AHEAD.to_owned(), active.read_ahead_kb));
        }
        (Setting { host, ..active.setting.clone() }, active.has_promises)
    }

    /// What may be tried now, beside the scheduler.
    fn challengers(&self, is_rotational: bool, outstanding: f64) -> Vec<Setting> {
        let (now, has_promises) = self.whole();
        if has_promises {
            let Some(place) = now.spec.tunables.iter().position(|tunable| tunable.name == "order").filter(|_| !self.fixed[0])
            else {
                return Vec::new();
            };
            let tunable = &now.spec.tunables[place];
            let other = |value: i64| {
                (value != now.values[place]).then(|| {
                    let mut setting = now.clone();
                    setting.values[place] = value;
                    setting
                })
            };
            return (tunable.min..=tunable.max).filter_map(other).collect();
        }
        let with = |name: &str, value: i64, original: i64| {
            let mut setting = now.clone();
            setting.host.retain(|(known, _)| known != name);
            if value != original {
                setting.host.push((name.to_owned(), value));
                setting.host.sort();
            }
            setting
        };
        let (mut tried, (_, depth, read_ahead)) = (Vec::new(), &self.original);
        if !self.fixed[2] {
            tried.extend([0, READ_AHEAD_KB].map(|kib| with(READ_AHEAD, kib, *read_ahead)));
        }
        if !self.fixed[1] && is_rotational {
            let depths = DEPTHS.into_iter().filter(|lower| *lower < *depth && (*lower as f64) < outstanding).chain([*depth]);
            tried.extend(depths.map(|value| with(DEPTH, value as i64, *depth as i64)));
        }
        tried.retain(|setting| *setting != now);
        tried
    }
}

/// A store as a controller sees it: its scheduler.
struct StoreTarget<'a>(&'a StoreEntry);

impl Target for StoreTarget<'_> {
    fn identity(&self) -> Identity {
        Identity { plant: "server".to_owned(), device: self.0.name.clone() }
    }

    fn schedulers(&self) -> Vec<&'static SchedulerSpec> {
        block::ALL.to_vec()
    }

    fn tunables(&self) -> Vec<&'static Tunable> {
        Vec::new()
    }

    fn bounds(&self) -> Bounds {
        let StoreEntry { extents, tuning, .. } = self.0;
        Bounds {
            capacity_sectors: u64::from(*extents) * EXTENT_BYTES / 512,
            limits: tuning.settings.limits(),
            nr_requests: tuning.settings.nr_requests,
            read_ahead_kib: None,
        }
    }

    fn setting(&self) -> Setting {
        self.0.tuning.lock().setting.clone()
    }

    fn switching_time(&self, _: &Setting, _: &Setting) -> Nanos {
        Nanos::ZERO
    }

    fn apply(&mut self, _: Nanos, setting: &Setting) -> Result<(), TargetError> {
        let refused = |reason: String| TargetError { setting: setting.to_string(), reason };
        self.0.tuning.set_scheduler(&self.0.host, setting).map_err(refused)
    }
}

/// A test under way.
struct Trial {
    test: AbTest,
    baseline: Setting,
    /// When the turn, or the time to settle before it, is over.
    until: Nanos,
    tally: Tally,
    /// Requests that others made late when the turn began.
    late: u64,
}

/// Tunes one store.
struct Tuner {
    control_loop: Option<ControlLoop>,
    has_promises: bool,
    /// Since when the controller changed nothing.
    calm_since: Nanos,
    trial: Option<Trial>,
    waiting: Vec<Setting>,
    next_trials: Nanos,
    /// The last whole second of clients' requests, for how deep they ask.
    second: Tally,
    second_from: Nanos,
    outstanding: f64,
}

/// Tunes the stores that the configuration says so of, on a thread for each, until the server is gone.
///
/// # Errors
/// A thread cannot be started.
pub fn start(server: &Arc<Server>) -> io::Result<()> {
    for store in server.stores().iter().filter(|store| store.tuning.controller.is_some()) {
        let store: Weak<StoreEntry> = Arc::downgrade(store);
        thread::Builder::new().name("tune".to_owned()).spawn(move || {
            let mut tuner = None;
            while let Some(store) = store.upgrade() {
                let Some(observed) = store.host.observe() else { return };
                tuner.get_or_insert_with(|| Tuner::new(&store, observed.now)).step(&store, &observed);
                drop(store);
                thread::sleep(LOOKS);
            }
        })?;
    }
    Ok(())
}

impl Tuner {
    fn new(store: &StoreEntry, now: Nanos) -> Tuner {
        let has_promises = store.tuning.whole().1;
        let mut tuner = Tuner {
            control_loop: None,
            has_promises,
            calm_since: now,
            trial: None,
            waiting: Vec::new(),
            next_trials: now + CALM,
            second: Tally::new(),
            second_from: now,
            outstanding: 0.0,
        };
        tuner.second.begin(now);
        tuner.begin_control(store, now);
        tuner
    }

    /// Begins to choose the scheduler, where that may be chosen.
    fn begin_control(&mut self, store: &StoreEntry, now: Nanos) {
        let tuning = &store.tuning;
        self.control_loop = tuning.controller.as_ref().filter(|_| !self.has_promises && !tuning.fixed[0]).map(|choice| {
            let mut settings = (candidates::SETS[0].settings)();
            let active = StoreTarget(store).setting();
            if !settings.contains(&active) {
                settings.insert(0, active);
            }
            let gains = experiment::gain_model::load(None).unwrap_or_default();
            let mut control_loop =
                ControlLoop::new(choice.build(&ControllerInput { candidates: settings, gains, ..ControllerInput::default() }));
            control_loop.begin(now, &mut StoreTarget(store));
            control_loop
        });
    }

    fn step(&mut self, store: &StoreEntry, observed: &Observed) {
        let now = observed.now;
        let has_promises = store.tuning.whole().1;
        if has_promises != self.has_promises || observed.is_incomplete {
            *self = Tuner::new(store, now);
            return;
        }
        if let Some(control_loop) = &mut self.control_loop {
            observed.queue.iter().map(twin::event).for_each(|event| control_loop.event(&event));
            // A test of something else takes turns: the scheduler stays meanwhile.
            if self.trial.is_none() {
                control_loop.advance(now, &mut StoreTarget(store));
            }
            let (decisions, _) = control_loop.take();
            for decision in decisions.iter().filter(|decision| decision.is_change()) {
                self.calm_since = now;
                said(store, &decision.from.to_string(), &decision.to.to_string(), &decision.why, decision.to == decision.stays);
            }
        }
        let clients: Vec<Event> = observed.clients.iter().map(twin::event).collect();
        self.measure(&clients, now);
        self.try_others(store, &clients, now);
    }

    fn measure(&mut self, clients: &[Event], now: Nanos) {
        clients.iter().for_each(|event| self.second.event(event));
        let length = now - self.second_from;
        if length >= TURN {
            self.outstanding = observe::window::depth([&self.second.close(length)]);
            self.second_from = now;
        }
    }

    fn try_others(&mut self, store: &StoreEntry, clients: &[Event], now: Nanos) {
        if self.trial.is_some() {
            self.go_on(store, clients, now);
            return;
        }
        if self.waiting.is_empty() && now >= self.next_trials && now >= self.calm_since + CALM && self.outstanding > 0.0 {
            self.waiting = store.tuning.challengers(store.is_rotational, self.outstanding);
            self.waiting.reverse();
            self.next_trials = now + AGAIN;
        }
        let Some(challenger) = self.waiting.pop() else { return };
        let (baseline, _) = store.tuning.whole();
        // The test before it may have changed what this one was made from.
        let challenger = based_on(challenger, &baseline);
        let test = AbTest::new(Challenger::unpredicted(challenger.clone()), &baseline);
        let mut tally = Tally::new();
        tally.begin(now);
        if challenger != baseline && store.tuning.set_all(&store.host, &challenger, self.has_promises) {
            self.trial = Some(Trial { test, baseline, until: now + SETTLING, tally, late: late(store) });
        }
    }

    fn go_on(&mut self, store: &StoreEntry, clients: &[Event], now: Nanos) {
        let Some(trial) = &mut self.trial else { return };
        clients.iter().for_each(|event| trial.tally.event(event));
        if now < trial.until {
            return;
        }
        if trial.test.is_settling() {
            trial.test.settled();
            trial.tally.close(TURN);
            (trial.until, trial.late) = (now + TURN, late(store));
            return;
        }
        let outcome = trial.tally.close(now + TURN - trial.until);
        let broke = trial.test.is_candidates_turn() && late(store) > trial.late;
        let was_candidates = trial.test.is_candidates_turn();
        trial.test.record(outcome.score(&Preference::default()));
        let verdict = match trial.test.comparison() {
            _ if broke || outcome.requests < LEAST_REQUESTS => Some(Verdict::NotBetter),
            Some(comparison) => trial.test.verdict(&comparison),
            None => None,
        };
        let is_candidates = match verdict {
            Some(verdict) => matches!(verdict, Verdict::Better(_)),
            None => trial.test.is_candidates_turn(),
        };
        let next = if is_candidates { trial.test.candidate().clone() } else { trial.baseline.clone() };
        if !store.tuning.set_all(&store.host, &next, self.has_promises) {
            self.trial = None;
            return;
        }
        match verdict {
            None => trial.until = now + if was_candidates == is_candidates { TURN } else { SETTLING },
            Some(verdict) => {
                let (from, to) = (trial.baseline.to_string(), trial.test.candidate().to_string());
                match verdict {
                    Verdict::Better(gain) => {
                        said(store, &from, &to, &format!("{:+.0}% in turns", 100.0 * gain.mean), true);
                    }
                    Verdict::NotBetter => tracing::debug!(store = store.name, from, to, broke, "tried, and not better"),
                }
                self.trial = None;
                self.calm_since = now;
            }
        }
    }
}

/// The same change made to another setting: of the host's tunables, or of the scheduler's.
fn based_on(challenger: Setting, baseline: &Setting) -> Setting {
    if challenger.values != baseline.values {
        return Setting { host: baseline.host.clone(), ..challenger };
    }
    Setting { spec: baseline.spec, values: baseline.values.clone(), host: challenger.host }
}

/// Requests that others made late, of all volumes that are judged.
fn late(store: &StoreEntry) -> u64 {
    let standings: BTreeMap<StreamId, _> = store.host.report().map(|report| report.standings).unwrap_or_default();
    standings.values().map(|standing| standing.late_by_others).sum()
}

/// Says what was changed, in the log and in the status.
fn said(store: &StoreEntry, from: &str, to: &str, why: &str, stays: bool) {
    tracing::info!(store = store.name, from, to, why, "{}", if stays { "the store is tuned" } else { "a setting is tried" });
    if stays {
        store.tuning.lock().tuned.last = Some(format!("{from} to {to}: {why}"));
    }
}
