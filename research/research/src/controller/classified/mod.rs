//! Feedback learning and two-layer learning ("Self-Learning Disk Scheduling", sections 3.3.2 and 3.3.4): a classifier chooses the
//! setting from each window, and learns from the measured result.
//!
//! ```text
//!  experience of others ──train──▶ model ◀──retrained after Y requests── log of what was measured here
//!                                    │                                          ▲
//!  window of X requests ──describe──▶ which arm? ──another than now──▶ change, judged against before ──worse: back──┘
//! ```
//! *Labels.* A window alone does not show what another scheduler would have achieved, so it yields no label. A stretch of one
//! workload (as far as [`Distribution`]s of requests can tell) is labelled with the best candidate that was active in it, and
//! only if two or more were: before and after a change; in a round over all candidates, if nothing is known; or in exploration
//! windows (`explore_windows`). A label thus means "the best of those compared", possibly of only two. All windows of a labelled
//! stretch become rows at the next training.
//!
//! *Wrong choices.* If N consecutive windows are worse, the previous setting is restored and the error is remembered at once: for
//! this stretch, and for later ones whose distribution correlates with it, until the model is retrained with it.
//!
//! *No experience.* The first workload then begins with a round as in the first scheme. With online learning only, so does every
//! workload unlike all earlier ones: without a comparison there would be no label.

mod log;
mod taught;
mod tunables;

use std::sync::Arc;

use block::Nanos;
use rand::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

pub use tunables::Tunables;

use super::round::{Achieved, Round};
use super::workload::{Distribution, Mix, looks};
use super::{Controller, ControllerInput, Decision};
use crate::model::Dataset;
use control::controller::TrainedModel;
use control::experience::Experience;
use control::setting::Setting;
use control::target::Target;
use control::{Window, WindowLength};
use log::Log;
use observe::description::describe;
use observe::event::Event;
use observe::preference::Preference;
use taught::{Taught, lessons};
use tunables::Lessons;

/// Minimum completed requests for a window to be classified; a window with fewer is extended.
const FEWEST: u64 = 30;

#[derive(Clone, Debug)]
enum State {
    /// The first window, or the first of another workload.
    First,
    /// The classifier's choice is active.
    Serving,
    /// The same after a change that may have been an error.
    Judging { from: usize, losses: u64, others: u64 },
    /// Each candidate in turn.
    Round(Round),
    /// A candidate other than `home` for one window, to learn from it.
    Exploring { home: usize },
}

/// The choice of the classifier or of a remembered error.
struct Proposal {
    arm: usize,
    /// Probability that it is correct, in percent.
    confidence: f64,
    why: String,
}

/// Both schemes, which differ only in their candidates.
pub struct Classified {
    name: &'static str,
    preference: Preference,
    experience: Arc<Experience>,
    set: Tunables,
    seed: u64,
    /// The candidates, and the initial setting if it is not among them.
    arms: Vec<Setting>,
    /// Which arms may be chosen.
    eligible: Vec<bool>,
    taught: Result<Taught, String>,
    /// The experience of others as rows.
    lessons: Dataset,
    log: Log,
    state: State,
    mix: Mix,
    random: Xoshiro256PlusPlus,
    requests: u64,
    /// Windows since the last exploration.
    unexplored: u64,
    is_refused: bool,
}

impl Classified {
    /// Chooses among `candidates`; the values are those of `Tunables`.
    pub fn new(name: &'static str, candidates: Vec<Setting>, brief: &ControllerInput, values: &[i64]) -> Classified {
        Classified {
            name,
            preference: brief.preference,
            experience: brief.experience.clone(),
            set: Tunables::of(values),
            seed: brief.seed,
            eligible: vec![true; candidates.len()],
            log: Log::new(candidates.len()),
            arms: candidates,
            taught: Err("not started".to_owned()),
            lessons: Dataset::default(),
            state: State::First,
            mix: Mix::new(),
            random: Xoshiro256PlusPlus::seed_from_u64(brief.seed),
            requests: 0,
            unexplored: 0,
            is_refused: false,
        }
    }

    fn learns_online(&self) -> bool {
        self.set.training != Lessons::Offline
    }

    /// Whether there is no earlier experience to learn from.
    fn is_alone(&self) -> bool {
        self.lessons.rows.is_empty()
    }

    /// Trains on all rows; returns the number of local ones.
    fn train(&mut self) -> usize {
        let mut all = self.lessons.clone();
        let logged = if self.learns_online() { self.log.teach(&mut all) } else { 0 };
        if all.rows.is_empty() {
            self.taught = Err("no training data".to_owned());
            return 0;
        }
        match Taught::new(&all, self.set.learner, self.seed) {
            Ok(taught) => self.taught = Ok(taught),
            // Keep the previous model.
            Err(error) if self.taught.is_err() => self.taught = Err(error.to_string()),
            Err(_) => {}
        }
        logged
    }

    /// Activates an arm.
    fn put(&mut self, arm: usize, why: String, expected_gain: Option<f64>) -> Decision {
        Decision { expected_gain, ..Decision::set(self.arms[arm].clone(), why) }
    }

    /// Begins a round, if there are candidates.
    fn begin_round(&mut self, why: &str) -> Decision {
        let round = Round::new(&self.arms, |arm| self.eligible[arm]);
        let Some(turn) = round.turn() else { return Decision::keep(format!("{why}; no candidate can be set")) };
        let why = format!("{why}: trying each candidate, 1 of {}", round.place().1);
        self.state = State::Round(round);
        self.put(turn, why, None)
    }

    fn next_turn(&mut self, measured: Option<Achieved>) -> Decision {
        let State::Round(round) = &mut self.state else { return Decision::keep("no round") };
        let had = round.turn().map_or(String::new(), |had| self.arms[had].to_string());
        let text = measured.map_or("no requests".to_owned(), |measured| measured.text());
        round.end_turn(measured);
        if let Some(turn) = round.turn() {
            let (place, count) = round.place();
            return self.put(turn, format!("{had}: {text}; turn {place} of {count}"), None);
        }
        let (best, count) = (round.best(), round.results().len());
        self.state = State::Serving;
        let Some((best, achieved)) = best else { return Decision::keep("no candidate could be measured") };
        self.train();
        let gain = measured.map(|last| achieved.score - last.score);
        self.put(best, format!("the best of {count}: {}", achieved.text()), gain)
    }

    /// Starts another segment if this window belongs to another workload, and returns a message about it.
    fn sense_change(&mut self, distribution: Option<&Distribution>) -> Option<String> {
        let correlation = self.log.segment.correlation(distribution?)?;
        if matches!(self.state, State::Round(_)) || self.set.least_correlation_percent.is_none_or(|least| correlation >= least) {
            return None;
        }
        self.log.change();
        // The change to be judged was made for another workload: keep the active setting until the new one is classified.
        self.state = State::Serving;
        Some(format!("another workload, correlation {correlation:.2}; "))
    }

    /// Loss of a window relative to `arm` in this segment, as a difference of scores; `None` if `arm` was not measured there.
    fn loss(&self, arm: usize, score: f64) -> Option<f64> {
        self.log.segment.mean(arm).map(|before| before - score)
    }

    /// Judges the last change by another window, and reverts it after enough consecutive losses. `None` if this window is no loss.
    fn judge(&mut self, arm: usize, score: f64) -> Option<Decision> {
        let State::Judging { from, losses, others } = self.state.clone() else { return None };
        let (losses, others) = match self.loss(from, score) {
            Some(loss) if loss > self.set.loss() => (losses + 1, 0),
            Some(_) => (0, others + 1),
            None => (losses, others),
        };
        self.state = State::Judging { from, losses, others };
        if others >= self.set.losses {
            self.state = State::Serving;
        }
        if losses < self.set.losses {
            let what = if losses > 0 { "worse" } else { "not worse" };
            let so_far = format!("judging {}: {what} than {} so far", self.arms[arm], self.arms[from]);
            return (losses > 0).then(|| Decision::keep(so_far));
        }
        self.log.segment.is_corrected = true;
        self.state = State::Serving;
        let loss = self.loss(from, self.log.segment.mean(arm).unwrap_or(score));
        let text = loss.filter(|loss| loss.is_finite()).map_or("no requests".to_owned(), worse);
        let why = format!("{} was wrong: {text} than {} in {losses} windows; reverting", self.arms[arm], self.arms[from]);
        Some(self.put(from, why, loss.filter(|loss| loss.is_finite())))
    }

    /// Ends the exploration of another candidate, which is kept only if it is better. `None` if none was being explored.
    fn end_exploration(&mut self, arm: usize, score: f64) -> Option<Decision> {
        let State::Exploring { home } = self.state else { return None };
        self.state = State::Serving;
        let (tried, before) = (self.arms[arm].to_string(), self.arms[home].to_string());
        match self.loss(home, score) {
            Some(loss) if loss < -self.set.loss() => {
                self.log.segment.is_corrected = true;
                Some(Decision::keep(format!("keeping {tried}: better than {before}")))
            }
            _ => Some(self.put(home, format!("{tried} is not better than {before}: reverting"), None)),
        }
    }

    /// The best arm for this window's workload, with the reason; or why it is unknown.
    fn wanted(&mut self, row: &[f64], distribution: Option<&Distribution>) -> Result<Proposal, String> {
        let least = self.set.least_correlation_percent.filter(|_| self.learns_online());
        let alike = distribution.zip(least).and_then(|(distribution, least)| self.log.alike(distribution, least));
        if let Some((arm, true)) = alike
            && self.eligible[arm]
        {
            let why = format!("{}, which corrected an error in a workload like this one", self.arms[arm]);
            return Ok(Proposal { arm, confidence: 100.0, why });
        }
        let is_new = self.is_alone() && alike.is_none() && self.log.segment.label().is_none();
        if self.learns_online() && is_new {
            return Err("unknown workload".to_owned());
        }
        let taught = self.taught.as_mut().map_err(|why| why.clone())?;
        let learner = taught.learner();
        let (arm, confidence) = taught.classify(row, &self.eligible).ok_or("the model predicts no candidate that can be set")?;
        let confidence = 100.0 * confidence;
        Ok(Proposal { arm, confidence, why: format!("{learner}: {}, {confidence:.0}% sure", self.arms[arm]) })
    }

    /// Decides by the classifier.
    fn choose(&mut self, arm: usize, row: &[f64], distribution: Option<&Distribution>, before: &str, looks: &str) -> Decision {
        let Proposal { arm: wanted, confidence, why } = match self.wanted(row, distribution) {
            Ok(wanted) => wanted,
            Err(why) if self.learns_online() && self.is_alone() => return self.begin_round(&format!("{before}{why} ({looks})")),
            Err(why) => return Decision::keep(format!("{before}{why} ({looks}): keeping {}", self.arms[arm])),
        };
        let why = format!("{before}{why} ({looks})");
        if wanted == arm {
            return self.explore(arm).unwrap_or_else(|| Decision::keep(why));
        }
        if confidence < 100.0 * self.set.least_confidence {
            return Decision::keep(format!("{why}, too low: keeping {}", self.arms[arm]));
        }
        if self.learns_online()
            && let Some((measured, now)) = self.log.segment.mean(wanted).zip(self.log.segment.mean(arm))
            && measured < now + self.set.loss()
        {
            return Decision::keep(format!("{why}, but measured not better than {}", self.arms[arm]));
        }
        let is_judged = self.learns_online() && self.set.losses > 0;
        self.state = if is_judged { State::Judging { from: arm, losses: 0, others: 0 } } else { State::Serving };
        self.put(wanted, why, None)
    }

    /// Explores another candidate in the next window if that is due, preferring one that was not active in this segment.
    fn explore(&mut self, home: usize) -> Option<Decision> {
        self.unexplored += 1;
        if !self.learns_online() || self.set.explore_windows == 0 || self.unexplored < self.set.explore_windows {
            return None;
        }
        self.unexplored = 0;
        let others: Vec<usize> = (0..self.arms.len()).filter(|&arm| arm != home && self.eligible[arm]).collect();
        let unknown: Vec<usize> = others.iter().copied().filter(|&arm| self.log.segment.mean(arm).is_none()).collect();
        let among = if unknown.is_empty() { others } else { unknown };
        if among.is_empty() {
            return None;
        }
        let arm = among[self.random.random_range(0..among.len())];
        self.state = State::Exploring { home };
        Some(self.put(arm, format!("trying {} for one window", self.arms[arm]), None))
    }

    /// Retrains the model if enough requests have completed, and returns a message about it.
    fn retrain(&mut self, requests: u64) -> String {
        let before = self.requests / self.set.retrain_requests;
        self.requests += requests;
        if !self.learns_online() || self.requests / self.set.retrain_requests == before {
            return String::new();
        }
        match self.train() {
            0 => String::new(),
            logged => {
                let rows = self.taught.as_ref().map_or(0, Taught::rows);
                format!("retrained with {rows} windows, {logged} of them from this device; ")
            }
        }
    }

    /// The index of a setting's arm; `None` if it has none, which happens only after an external change.
    fn arm_of(&self, setting: &Setting) -> Option<usize> {
        self.arms.iter().position(|arm| arm == setting)
    }

    /// Logs a window and decides.
    fn classified(&mut self, window: &Window, arm: usize, distribution: Option<&Distribution>) -> Decision {
        let (outcome, looks) = (&window.outcome, looks(&window.features));
        let score = outcome.score(&self.preference);
        // Nothing completed although requests wait.
        let is_stuck = !score.is_finite() && outcome.unfinished > 0;
        if is_stuck && let Some(decision) = self.judge(arm, score) {
            return decision;
        }
        if !score.is_finite() || outcome.requests < FEWEST && matches!(self.state, State::First | State::Serving) {
            return Decision::keep(format!("only {} requests, too few to judge", outcome.requests));
        }
        let row = describe(&window.features, &window.outcome);
        let mut before = self.sense_change(distribution).unwrap_or_default();
        if !before.is_empty() && self.set.first_window_ms.is_some() {
            // This window may contain both workloads: a short one with only the new workload is more informative.
            self.state = State::First;
            return Decision::keep(format!("{before}observing"));
        }
        self.log.segment.look(distribution);
        self.log.segment.add(arm, row.clone(), score);
        before += &self.retrain(outcome.requests);
        if matches!(self.state, State::Round(_)) {
            return self.next_turn(Some(Achieved::of(outcome, score)));
        }
        if let Some(decision) = self.judge(arm, score).or_else(|| self.end_exploration(arm, score)) {
            return decision;
        }
        if let State::Judging { from, .. } = self.state {
            return Decision::keep(format!("judging {}: not worse than {} so far", self.arms[arm], self.arms[from]));
        }
        self.state = State::Serving;
        self.choose(arm, &row, distribution, &before, &looks)
    }
}

/// A loss in words.
fn worse(loss: f64) -> String {
    format!("{:.0}% worse", 100.0 * (1.0 - (-loss).exp()))
}

impl Controller for Classified {
    fn name(&self) -> &'static str {
        self.name
    }

    fn begin(&mut self, _now: Nanos, plant: &dyn Target) -> Decision {
        let known = plant.schedulers();
        self.arms.retain(|arm| known.iter().any(|spec| spec.name == arm.spec.name));
        self.eligible = vec![true; self.arms.len()];
        if self.arms.is_empty() {
            return Decision::keep("no candidates");
        }
        let found = plant.setting();
        if self.arm_of(&found).is_none() {
            self.arms.push(found.clone());
            self.eligible.push(false);
        }
        self.log = Log::new(self.arms.len());
        let none = Experience::default();
        let experience = if self.set.training == Lessons::Online { &none } else { &self.experience };
        self.lessons = lessons(experience, &self.preference, &self.arms, &self.eligible);
        self.train();
        match &self.taught {
            Ok(taught) => {
                let learned = format!("{} trained with {} windows", taught.learner(), taught.rows());
                Decision::keep(format!("{learned}: keeping {found} until a window is classified"))
            }
            Err(_) if self.learns_online() && self.is_alone() => self.begin_round("no measurements yet"),
            Err(why) => Decision::keep(format!("{why}: keeping {found}")),
        }
    }

    fn window_length(&self) -> WindowLength {
        let by_time = |time: Nanos| WindowLength { time: Some(time), requests: None };
        if self.is_refused {
            // A refused setting has no turn: end it immediately.
            return by_time(Nanos(1));
        }
        let is_short = matches!(self.state, State::First | State::Judging { .. } | State::Exploring { .. });
        let first = self.set.first_window_ms.filter(|_| is_short);
        match (&self.state, self.set.window_ms, first) {
            (State::Round(_), ..) => by_time(self.set.quantum_ms),
            (_, Some(window), first) => by_time(first.map_or(window, |first| first.min(window))),
            (_, None, time) => WindowLength { time, requests: Some(self.set.window_requests) },
        }
    }

    fn least_requests(&self) -> u64 {
        let is_classified = !self.is_refused && matches!(self.state, State::First | State::Serving);
        if is_classified { FEWEST } else { 0 }
    }

    fn event(&mut self, event: &Event) -> bool {
        self.mix.event(event);
        false
    }

    fn decide(&mut self, window: &Window, _plant: &dyn Target) -> Decision {
        let distribution = self.mix.close();
        if self.arms.is_empty() {
            return Decision::keep("no candidates");
        }
        if std::mem::take(&mut self.is_refused) {
            return self.next_turn(None);
        }
        let Some(arm) = self.arm_of(&window.setting) else {
            return Decision::keep(format!("{} is active after an external change", window.setting));
        };
        if matches!(self.state, State::Round(_)) && !window.outcome.score(&self.preference).is_finite() {
            return self.next_turn(None);
        }
        self.classified(window, arm, distribution.as_ref())
    }

    fn refused(&mut self, setting: &Setting, _reason: &str) {
        if let Some(arm) = self.arm_of(setting) {
            self.eligible[arm] = false;
        }
        match self.state {
            State::Round(_) => self.is_refused = true,
            _ => self.state = State::Serving,
        }
    }

    fn model(&self) -> Option<TrainedModel> {
        let model = self.taught.as_ref().ok()?.model();
        let json = model.to_json().ok()?;
        Some(TrainedModel { learner: model.learner().name(), json, features: model.features().to_vec() })
    }
}
