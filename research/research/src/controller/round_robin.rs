//! The paper's first scheme, change-sensing round-robin selection ("Self-Learning Disk Scheduling", section 3.3.1): tries all
//! candidates and learns nothing.
//!
//! ```text
//! phase 1: each candidate for a quantum ──▶ (tune the best: double, halve) ──▶ phase 2: the best
//!     ▲                                                                          │ every T_select
//!     └────────────── another workload, or the performance is bad ◀──────────────┘
//! ```
//! Choices where the paper is not specific:
//!
//! * *The best by preference.* The paper ranks by the largest of the preference's three numbers; here all three are weighted
//!   ([`WindowOutcome::score`](observe::WindowOutcome::score)). [`RoundRobin::printed`] ranks as the paper does.
//! * *Another workload.* The distribution of requests in the quantum of the selected candidate is correlated with the one since
//!   the last check, under the same candidate: see [`workload`](super::workload).
//! * *Bad performance.* The paper's thresholds are absolute, so a disk that cannot meet them would be searched forever: they
//!   count only if the selection itself measured better. A threshold relative to the selection's measurement is added. Throughput
//!   that falls without longer waits means less work, not worse performance.

mod tune;

use block::{Nanos, Tunable, Unit, tunables};

use super::round::{Achieved, Round};
use super::workload::{Distribution, Mix, looks};
use super::{Controller, ControllerInput, ControllerSpec, Decision};
use control::setting::Setting;
use control::target::Target;
use control::{Window, WindowLength};
use observe::event::Event;
use observe::window::WindowOutcome;
use tune::Tuner;

/// Tries all candidates, keeps the best, and repeats that after a change.
pub static SPEC: ControllerSpec = ControllerSpec {
    name: "round-robin",
    summary: "tries every candidate for a quantum and keeps the best, until the workload changes or the performance is bad",
    source: "Zhang and Bhargava, Self-Learning Disk Scheduling, algorithm 1 (CRRN)",
    tunables: Tunables::TUNABLES,
    build: |brief, values| Box::new(RoundRobin::new(brief, Thresholds::of(values))),
};

tunables! {
    /// Tunables of the controller.
    struct Tunables {
        /// Time for each candidate during a selection.
        quantum_ms: Nanos = Tunable::new(Unit::Milliseconds, 1..=3_600_000, 2000).logarithmic(),
        /// Interval of checks whether to repeat the selection (the paper's T_select).
        check_ms: Nanos = Tunable::new(Unit::Milliseconds, 1..=86_400_000, 60_000).logarithmic(),
        least_correlation_percent: f64 = super::LEAST_CORRELATION,
        /// Minimum throughput in 1,000,000 bits per second; below it, the performance is bad. 0: off.
        least_mbit_per_s: f64 = Tunable::new(Unit::Count, 0..=1_000_000, 50).logarithmic(),
        /// Maximum mean response time; above it, the performance is bad. 0: off.
        longest_response_ms: Option<Nanos> = Tunable::new(Unit::Milliseconds, 0..=3_600_000, 800).logarithmic(),
        /// The performance is bad if throughput or the inverse of the response time has fallen by this much since the selection. 0: off, as
        /// in the paper.
        worse_percent: f64 = Tunable::new(Unit::Percent, 0..=99, 50),
        /// Also tune the best scheduler: each of its tunables is doubled, else halved, as long as it improves, with a quantum for each
        /// value.
        tune: bool = Tunable::flag(false),
    }
}

/// The tunables' values.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Thresholds {
    quantum: Nanos,
    check: Nanos,
    least_correlation: f64,
    /// In bytes per second.
    least_throughput: f64,
    longest_response_s: f64,
    /// Fraction of the performance below which it counts as bad; 0 disables the criterion.
    left: f64,
    tunes: bool,
}

impl Thresholds {
    fn of(values: &[i64]) -> Thresholds {
        let set = Tunables::of(values);
        Thresholds {
            quantum: set.quantum_ms,
            check: set.check_ms,
            least_correlation: set.least_correlation_percent,
            least_throughput: set.least_mbit_per_s * 1e6 / 8.0,
            longest_response_s: set.longest_response_ms.map_or(f64::INFINITY, Nanos::as_secs_f64),
            left: if set.worse_percent > 0.0 { 1.0 - set.worse_percent } else { 0.0 },
            tunes: set.tune,
        }
    }

    /// Why the performance `now` is bad relative to `then`, measured at the selection; `None` if it is not.
    fn deteriorated(&self, then: &Achieved, now: &Achieved) -> Option<String> {
        let (before, after) = (then.text(), now.text());
        if now.waited_s > then.waited_s {
            if then.throughput >= self.least_throughput && now.throughput < self.least_throughput {
                return Some(format!("{after}: below {:.0} Mbit/s, was {before}", self.least_throughput * 8.0 / 1e6));
            }
            if now.throughput < self.left * then.throughput {
                return Some(format!("{after}: much lower than {before}"));
            }
        }
        if then.waited_s <= self.longest_response_s && now.waited_s > self.longest_response_s {
            return Some(format!("{after}: above {:.0} ms, was {before}", self.longest_response_s * 1e3));
        }
        (now.waited_s * self.left > then.waited_s).then(|| format!("{after}: much longer than {before}"))
    }
}

#[derive(Clone, Debug)]
enum Phase {
    /// Each candidate in turn; with the distribution in each quantum, and the previous setting.
    Selecting { round: Round, seen: Vec<(usize, Distribution)>, before: Setting },
    /// Tunes the best candidate, one tunable at a time.
    Tuning { tuner: Tuner, reference: Option<Distribution> },
    /// The best is active; with its measurements from the selection.
    Executing { reference: Option<Distribution>, measured: Option<Achieved> },
}

/// Scores a window: higher is better, logarithmic; not finite if nothing was measured.
type Score = Box<dyn Fn(&WindowOutcome) -> f64 + Send>;

/// The controller.
pub struct RoundRobin {
    /// The score by which candidates are ranked.
    score: Score,
    candidates: Vec<Setting>,
    thresholds: Thresholds,
    /// Candidates that the plant refused, which are skipped.
    refused: Vec<bool>,
    /// Whether the last decision was refused.
    is_refused: bool,
    phase: Phase,
    mix: Mix,
}

impl RoundRobin {
    fn new(brief: &ControllerInput, thresholds: Thresholds) -> RoundRobin {
        let preference = brief.preference;
        RoundRobin {
            score: Box::new(move |outcome| outcome.score(&preference)),
            candidates: brief.candidates.clone(),
            thresholds,
            refused: vec![false; brief.candidates.len()],
            is_refused: false,
            phase: Phase::Executing { reference: None, measured: None },
            mix: Mix::new(),
        }
    }

    /// As printed: candidates are ranked by `score`, and only the paper's absolute thresholds make a performance bad.
    pub fn printed(brief: &ControllerInput, score: Score, quantum: Nanos, check: Nanos, tunes: bool) -> RoundRobin {
        let defaults: Vec<i64> = Tunables::TUNABLES.iter().map(|tunable| tunable.default).collect();
        let thresholds = Thresholds { quantum, check, tunes, left: 0.0, ..Thresholds::of(&defaults) };
        RoundRobin { score, ..RoundRobin::new(brief, thresholds) }
    }

    /// Starts phase 1.
    fn select(&mut self, before: Setting, why: &str) -> Decision {
        let round = Round::new(&self.candidates, |candidate| !self.refused[candidate]);
        let Some(turn) = round.turn() else {
            return Decision::keep(format!("{why}; no candidate can be set: keeping {before}"));
        };
        let decision =
            Decision::set(self.candidates[turn].clone(), format!("{why}: trying each candidate, 1 of {}", round.place().1));
        self.phase = Phase::Selecting { round, seen: Vec::new(), before };
        decision
    }

    /// The next turn, or the end of phase 1.
    fn next_turn(&mut self, distribution: Option<Distribution>, measured: Option<Achieved>) -> Decision {
        let Phase::Selecting { round, seen, before } = &mut self.phase else { return Decision::keep("no selection") };
        let (had, text) = (round.turn(), measured.map_or("no requests".to_owned(), |measured| measured.text()));
        seen.extend(had.zip(distribution));
        round.end_turn(measured);
        if let Some(turn) = round.turn() {
            let (place, count) = round.place();
            let name = had.map_or(String::new(), |had| self.candidates[had].to_string());
            return Decision::set(self.candidates[turn].clone(), format!("{name}: {text}; turn {place} of {count}"));
        }
        let Some((best, achieved)) = round.best() else {
            let why = "no candidate could be measured: restoring the previous setting";
            let decision = Decision::set(before.clone(), why);
            self.phase = Phase::Executing { reference: None, measured: None };
            return decision;
        };
        let reference = seen.iter().find(|(candidate, _)| *candidate == best).map(|(_, distribution)| *distribution);
        let why = format!("the best of {}: {}", round.results().len(), achieved.text());
        let gain = measured.map(|last| achieved.score - last.score);
        let selected = self.candidates[best].clone();
        if !self.thresholds.tunes {
            self.phase = Phase::Executing { reference, measured: Some(achieved) };
            return Decision { expected_gain: gain, ..Decision::set(selected, why) };
        }
        let mut tuner = Tuner::new(selected, achieved);
        let decision = tuning_step(&mut tuner, &why);
        self.phase = Phase::Tuning { tuner, reference };
        decision
    }

    fn tune(&mut self, distribution: Option<Distribution>, measured: Option<Achieved>, before: &Setting) -> Decision {
        let Phase::Tuning { tuner, reference } = &mut self.phase else { return Decision::keep("no tuning") };
        if let Some(why) = changed(&self.thresholds, reference.as_ref(), distribution.as_ref()) {
            let before = before.clone();
            return self.select(before, &why);
        }
        tuner.judge(measured);
        let decision = tuning_step(tuner, "tuning");
        if tuner.trial().is_none() {
            self.phase = Phase::Executing { reference: *reference, measured: Some(tuner.best().1) };
        }
        decision
    }

    /// Phase 2: checks whether to repeat phase 1.
    fn check(&mut self, window: &Window, distribution: Option<Distribution>, now: Option<Achieved>) -> Decision {
        let Phase::Executing { reference, measured } = &mut self.phase else { return Decision::keep("no setting is active") };
        if is_idle(&window.outcome) {
            return Decision::keep("no requests");
        }
        let looks = looks(&window.features);
        let why = match (changed(&self.thresholds, reference.as_ref(), distribution.as_ref()), *measured) {
            (Some(why), _) => Some(why),
            (None, None) => Some("no reference measurement".to_owned()),
            (None, Some(then)) => match now {
                Some(now) => self.thresholds.deteriorated(&then, &now),
                None => Some("no requests".to_owned()),
            },
        };
        *reference = reference.or(distribution);
        let Some(why) = why else { return Decision::keep(format!("same workload ({looks}), same performance")) };
        let before = Setting::clone(&window.setting);
        self.select(before, &format!("{why} ({looks})"))
    }
}

/// The next trial of the tuner, or the end of tuning.
fn tuning_step(tuner: &mut Tuner, why: &str) -> Decision {
    match tuner.next() {
        Some(trial) => Decision::set(trial.clone(), format!("{why}; trying {trial}")),
        None => {
            let (best, measured) = tuner.best();
            Decision::set(best.clone(), format!("{why}; tuned: {}", measured.text()))
        }
    }
}

fn changed(thresholds: &Thresholds, then: Option<&Distribution>, now: Option<&Distribution>) -> Option<String> {
    let correlation = then?.correlation(now?);
    let is_changed = thresholds.least_correlation > 0.0 && correlation < thresholds.least_correlation;
    is_changed.then(|| format!("another workload, correlation {correlation:.2}"))
}

fn is_idle(outcome: &WindowOutcome) -> bool {
    outcome.requests == 0 && outcome.unfinished == 0
}

impl Controller for RoundRobin {
    fn name(&self) -> &'static str {
        SPEC.name
    }

    fn begin(&mut self, _now: Nanos, plant: &dyn Target) -> Decision {
        let known = plant.schedulers();
        self.candidates.retain(|candidate| known.iter().any(|spec| spec.name == candidate.spec.name));
        self.refused = vec![false; self.candidates.len()];
        self.select(plant.setting(), "no measurements yet")
    }

    fn window_length(&self) -> WindowLength {
        let time = match &self.phase {
            // A refused setting ends its turn immediately.
            _ if self.is_refused => Nanos(1),
            Phase::Executing { .. } => self.thresholds.check,
            _ => self.thresholds.quantum,
        };
        WindowLength { time: Some(time), requests: None }
    }

    fn event(&mut self, event: &Event) -> bool {
        self.mix.event(event);
        false
    }

    fn decide(&mut self, window: &Window, _plant: &dyn Target) -> Decision {
        let (mut distribution, score) = (self.mix.close(), (self.score)(&window.outcome));
        let mut measured = score.is_finite().then(|| Achieved::of(&window.outcome, score));
        if std::mem::take(&mut self.is_refused) {
            (distribution, measured) = (None, None);
        }
        match &self.phase {
            Phase::Selecting { .. } => self.next_turn(distribution, measured),
            Phase::Tuning { .. } => self.tune(distribution, measured, &window.setting),
            Phase::Executing { .. } => self.check(window, distribution, measured),
        }
    }

    fn refused(&mut self, setting: &Setting, _reason: &str) {
        self.is_refused = true;
        if let Some(candidate) = self.candidates.iter().position(|candidate| candidate == setting) {
            self.refused[candidate] = true;
        }
        if let Phase::Executing { measured, .. } = &mut self.phase {
            // The active setting is not the one measured: the next check selects again.
            *measured = None;
            self.is_refused = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(throughput: f64, waited_s: f64) -> Achieved {
        Achieved { score: 0.0, throughput, waited_s }
    }

    fn thresholds(change: &[(&str, i64)]) -> Thresholds {
        let value =
            |tunable: &Tunable| change.iter().find(|(name, _)| *name == tunable.name).map_or(tunable.default, |(_, value)| *value);
        Thresholds::of(&Tunables::TUNABLES.iter().map(value).collect::<Vec<_>>())
    }

    #[test]
    fn fifty_megabits_and_800_ms_are_bad_only_where_the_selection_had_better() {
        let only_paper = thresholds(&[("worse_percent", 0)]);
        let is_bad = |then, now| only_paper.deteriorated(&then, &now).is_some();
        assert!(is_bad(measured(6.3e6, 0.01), measured(6.2e6, 0.02)));
        assert!(!is_bad(measured(6.3e6, 0.01), measured(6.26e6, 0.02)), "still above 50 Mbit/s");
        assert!(!is_bad(measured(2e6, 0.01), measured(1e6, 0.02)), "it never had 50 Mbit/s");
        assert!(!is_bad(measured(7e6, 0.01), measured(1e6, 0.01)), "no stream waits longer");
        assert!(is_bad(measured(2e6, 0.7), measured(2e6, 0.81)));
        assert!(!is_bad(measured(2e6, 0.7), measured(2e6, 0.79)));
        assert!(!is_bad(measured(2e6, 0.9), measured(2e6, 1.7)), "it was above 800 ms before");
    }

    #[test]
    fn what_is_half_as_good_as_the_selection_measured_is_bad_and_both_can_be_turned_off() {
        let is_bad = |thresholds: &Thresholds, then, now| thresholds.deteriorated(&then, &now).is_some();
        let default = thresholds(&[]);
        assert!(is_bad(&default, measured(2e6, 0.01), measured(0.9e6, 0.011)));
        assert!(!is_bad(&default, measured(2e6, 0.01), measured(1.1e6, 0.011)));
        assert!(is_bad(&default, measured(2e6, 0.01), measured(2e6, 0.021)));
        assert!(!is_bad(&default, measured(2e6, 0.01), measured(2e6, 0.019)));
        let off = thresholds(&[("worse_percent", 0), ("least_mbit_per_s", 0), ("longest_response_ms", 0)]);
        assert!(!is_bad(&off, measured(2e9, 0.01), measured(1.0, 1000.0)));
    }
}
