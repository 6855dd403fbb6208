//! Tunes stores: a controller chooses the scheduler, A/B tests the read-ahead, the queue depth and `order`.
//!
//! ```text
//! store's queue ─ events ─▶ control::ControlLoop ─▶ Controller (seekwise) ─▶ scheduler ──────────────┐
//! clients' requests ─ events ─▶ Trials: turns of 2 s with and without ─▶ read-ahead, depth, order ───┤
//!                                                                                                    ▼
//!                              promises to volumes, explicit keys of the configuration ─▶ Tuning ─▶ StoreHost
//! ```
//! The controller is the same as for a kernel's queue and in the simulator. It has no model of the server's read-ahead, of the depth, and
//! of the order within the slots of a scheduler that enforces guarantees: these are compared by the A/B test used elsewhere.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;
use std::{io, thread};

use crate::store::Observed;
use block::{Nanos, SchedulerSpec, StreamId, Tunable};
use control::ab_test::{AbTest, Challenger, Winner};
use control::controller::ControllerInput;
use control::target::{Bounds, Identity};
use control::{ControlLoop, Setting, Target, TargetError, candidates};
use observe::window::Tally;
use observe::{Event, Preference};

use crate::catalog::EXTENT_BYTES;
use crate::store_entry::StoreEntry;

/// Interval at which a store's events are read.
const LOOKS: Duration = Duration::from_millis(50);
/// Length of a turn of a test, and time for requests under the previous setting to complete. A turn has many requests even of a disk, and
/// is short enough to go unnoticed.
const TURN: Nanos = Nanos::from_millis(2_000);
const SETTLING: Nanos = Nanos::from_millis(500);
/// Minimum number of requests in a turn. With fewer the load has ended, and the test is abandoned.
const LEAST_REQUESTS: u64 = 20;
/// Time without a change after which the controller is considered settled: it judges a load a second time after 8 windows of a second.
const CALM: Nanos = Nanos::from_millis(20_000);
/// Interval between rounds of tests. One test takes 15 to 25 s.
const AGAIN: Nanos = Nanos::from_millis(600_000);
/// A store as the controller sees it: only its scheduler.
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
        self.0.tuning.setting()
    }

    fn switching_time(&self, _: &Setting, _: &Setting) -> Nanos {
        Nanos::ZERO
    }

    fn apply(&mut self, _: Nanos, setting: &Setting) -> Result<(), TargetError> {
        let refused = |reason: String| TargetError { setting: setting.to_string(), reason };
        self.0.tuning.set_scheduler(&self.0.host, setting).map_err(refused)
    }
}

/// A running test.
struct Trial {
    test: AbTest,
    baseline: Setting,
    /// End of the turn, or of the settling time before it.
    until: Nanos,
    tally: Tally,
    /// Requests that were late because of other volumes, when the turn began.
    late: u64,
}

/// Tuner of one store.
struct Tuner {
    control_loop: Option<ControlLoop>,
    has_promises: bool,
    /// Time of the controller's last change, or of the end of the last test.
    calm_since: Nanos,
    trial: Option<Trial>,
    waiting: Vec<Setting>,
    next_trials: Nanos,
    /// Requests of clients in the current period of length [`TURN`], from which `outstanding` is updated.
    second: Tally,
    second_from: Nanos,
    outstanding: f64,
}

/// Starts a thread to tune each store that has a controller, until the store is closed.
///
/// # Errors
/// A thread cannot be started.
pub fn start(stores: &[Arc<StoreEntry>]) -> io::Result<()> {
    for store in stores.iter().filter(|store| store.tuning.controller.is_some()) {
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

    /// Starts the controller if the scheduler is not configured and no volume has guarantees.
    fn begin_control(&mut self, store: &StoreEntry, now: Nanos) {
        let tuning = &store.tuning;
        self.control_loop = tuning.controller.as_ref().filter(|_| !self.has_promises && !tuning.fixed[0]).map(|choice| {
            let mut settings = (candidates::SETS[0].settings)();
            let active = StoreTarget(store).setting();
            if !settings.contains(&active) {
                settings.insert(0, active);
            }
            let mut control_loop =
                ControlLoop::new(choice.build(&ControllerInput { candidates: settings, ..ControllerInput::default() }));
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
            // The scheduler must not change during a test.
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
        // The previous test may have changed the active setting.
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
        let winner = match trial.test.comparison() {
            _ if broke || outcome.requests < LEAST_REQUESTS => Some(Winner::Baseline),
            Some(comparison) => trial.test.winner(&comparison),
            None => None,
        };
        let is_candidates = match winner {
            Some(winner) => matches!(winner, Winner::Candidate(_)),
            None => trial.test.is_candidates_turn(),
        };
        let next = if is_candidates { trial.test.candidate().clone() } else { trial.baseline.clone() };
        if !store.tuning.set_all(&store.host, &next, self.has_promises) {
            self.trial = None;
            return;
        }
        match winner {
            None => trial.until = now + if was_candidates == is_candidates { TURN } else { SETTLING },
            Some(winner) => {
                let (from, to) = (trial.baseline.to_string(), trial.test.candidate().to_string());
                match winner {
                    Winner::Candidate(gain) => {
                        said(store, &from, &to, &format!("{:+.0}% in turns", 100.0 * gain.mean), true);
                    }
                    Winner::Baseline => tracing::debug!(store = store.name, from, to, broke, "tried, and not better"),
                }
                self.trial = None;
                self.calm_since = now;
            }
        }
    }
}

/// Applies a challenger's change, of the host tunables or of the scheduler's, to another setting.
fn based_on(challenger: Setting, baseline: &Setting) -> Setting {
    if challenger.values != baseline.values {
        return Setting { host: baseline.host.clone(), ..challenger };
    }
    Setting { spec: baseline.spec, values: baseline.values.clone(), host: challenger.host }
}

/// Requests that were late because of other volumes, over all judged volumes of the store.
fn late(store: &StoreEntry) -> u64 {
    let standings: BTreeMap<StreamId, _> = store.host.report().map(|report| report.standings).unwrap_or_default();
    standings.values().map(|standing| standing.late_by_others).sum()
}

/// Logs a change, and records it for `status` if it stays.
fn said(store: &StoreEntry, from: &str, to: &str, why: &str, stays: bool) {
    tracing::info!(store = store.name, from, to, why, "{}", if stays { "the store is tuned" } else { "a setting is tried" });
    if stays {
        store.tuning.note(format!("{from} to {to}: {why}"));
    }
}
