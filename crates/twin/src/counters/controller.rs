//! A controller that sees nothing but counters.
//!
//! It looks until it has seen enough, thinks within its budget, and changes something only where the hypotheses agree. Then it compares
//! what is counted with what was counted before, and goes back where that is worse.

use std::collections::VecDeque;

use block::Nanos;
use control::controller::{ControllerInput, Evidence};
use control::{Controller, Decision, Setting, Target, Window, WindowLength};
use observe::counters::Sample;
use observe::merit;
use observe::merit::TOLERANCE;

use super::counted::Counted;
use super::ensemble::Ensemble;
use super::hypothesis::Known;
use super::judgement::{Judgement, Judges};

/// How often it is asked.
const WINDOW: Nanos = Nanos::from_millis(1_000);
/// Samples that are kept: those of so many seconds, about.
const KEPT: usize = 120;
/// Busy time before it thinks, in seconds.
const ENOUGH_S: f64 = 20.0;
/// Busy time after a change before that is judged, and what of it is left out first: requests are served that were queued before.
const JUDGED_S: f64 = 10.0;
const SETTLES_S: f64 = 2.0;
/// A load is another one where its rate, its sizes or its share of reads differ by such a factor.
const ANOTHER: f64 = 1.5;
/// What a simulated request costs, in nanoseconds of processor time, devices and loads that are built included.
const REQUEST_NS: f64 = 3_000.0;
/// Processor time that can be saved up, in nanoseconds: enough for all of a decision.
const MOST_SAVED_NS: f64 = 8e9;

/// What it is at.
enum State {
    /// Too little was counted yet.
    Looks,
    /// Hypotheses are on their way.
    Thinks(Box<Thought>),
    /// It knows what it thinks of the load that was counted so.
    Knows(Counted),
    /// Something else was put in force.
    Tries(Trial),
}

/// What it thinks about.
struct Thought {
    counted: Counted,
    known: Known,
    ensemble: Ensemble,
}

/// A change that is to be judged.
struct Trial {
    before: Setting,
    counted: Counted,
}

/// The controller.
pub struct ByCounters {
    brief: ControllerInput,
    known: Known,
    in_force: Option<Setting>,
    samples: VecDeque<Sample>,
    state: State,
    /// What was worse than promised of the load that was counted so.
    refuted: Vec<Setting>,
    budget: f64,
    credit_ns: f64,
}

impl ByCounters {
    /// Chooses among the candidates of the brief, for a device of which this is known, with so many thousandths of a core. The first
    /// decision is made as soon as enough was counted; it is paid for later.
    pub fn new(brief: &ControllerInput, known: &Known, budget_permille: i64) -> ByCounters {
        ByCounters {
            brief: brief.clone(),
            known: known.clone(),
            in_force: None,
            samples: VecDeque::new(),
            state: State::Looks,
            refuted: Vec::new(),
            budget: budget_permille as f64 / 1_000.0,
            credit_ns: MOST_SAVED_NS,
        }
    }

    fn so_far(&self) -> Option<Counted> {
        let samples: Vec<Sample> = self.samples.iter().copied().collect();
        Counted::of(&samples).ok()
    }

    fn score(&self, counted: &Counted) -> f64 {
        // Who got how much is not counted: nobody's share is known to change.
        merit::score(&self.brief.preference, 1e6 * counted.mb_per_s(), counted.response().as_secs_f64(), 1.0)
    }

    fn begin_anew(&mut self) {
        self.state = State::Looks;
        let last = self.samples.pop_back();
        self.samples.clear();
        self.samples.extend(last);
    }

    fn look(&mut self) -> Decision {
        let Some(counted) = self.so_far().filter(|counted| counted.busy_s >= ENOUGH_S) else {
            return Decision::keep("counters are looked at; too little was done yet");
        };
        let Some(in_force) = self.in_force.clone() else { return Decision::keep("what is in force is not known") };
        let ensemble = Ensemble::new(&counted, &self.known, &in_force, 1);
        self.state = State::Thinks(Box::new(Thought { counted, known: self.known.clone(), ensemble }));
        Decision::keep("hypotheses are drawn of what may have been counted")
    }

    fn think(&mut self, mut thought: Box<Thought>) -> Decision {
        if !thought.ensemble.is_done() {
            // One round at a time, so that whoever watches is not kept waiting.
            let before = thought.ensemble.requests();
            if self.credit_ns > 0.0 {
                thought.ensemble.round();
                self.credit_ns -= (thought.ensemble.requests() - before) as f64 * REQUEST_NS;
            }
            self.state = State::Thinks(thought);
            return Decision::keep("hypotheses are moved to what was counted");
        }
        let Thought { counted, known, ensemble } = *thought;
        self.state = State::Knows(counted);
        let Some(in_force) = self.in_force.clone() else { return Decision::keep("what is in force is not known") };
        let judges = Judges {
            counted: &counted,
            known: &known,
            in_force: &in_force,
            candidates: &self.brief.candidates,
            preference: self.brief.preference,
        };
        let judgement = match judges.judge(&ensemble) {
            Ok(judgement) => judgement,
            Err(unlike) => return Decision::keep(format!("no advice from counters: {unlike}")),
        };
        self.credit_ns -= (judgement.requests - ensemble.requests()) as f64 * REQUEST_NS;
        self.decide_by(&judgement, &in_force, counted)
    }

    fn decide_by(&mut self, judgement: &Judgement, in_force: &Setting, counted: Counted) -> Decision {
        let evidence = Evidence {
            candidates: judgement.promises.iter().filter(|promise| !self.refuted.contains(&promise.setting)).cloned().collect(),
            ..judgement.evidence()
        };
        let hypotheses = judgement.hypotheses;
        let Some(promise) = judgement.sure(in_force).filter(|promise| !self.refuted.contains(&promise.setting)) else {
            let why = format!(
                "counters alone leave {in_force} alone: {hypotheses} hypotheses that count alike agree on nothing that is better"
            );
            return Decision::keep(why).with_evidence(evidence);
        };
        let why = format!("{hypotheses} hypotheses that count alike agree, by counters alone, on {}", promise.setting);
        self.state = State::Tries(Trial { before: in_force.clone(), counted });
        let decision = Decision { expected_gain: Some(promise.gain), ..Decision::set(promise.setting.clone(), why) };
        decision.with_evidence(evidence)
    }

    /// What came of a change.
    fn judge(&mut self, trial: Trial) -> Decision {
        let counted = self.so_far().filter(|counted| counted.busy_s >= JUDGED_S + SETTLES_S);
        let Some(after) = counted else {
            self.state = State::Tries(trial);
            return Decision::keep("what was changed is looked at");
        };
        let gain = self.score(&after) - self.score(&trial.counted);
        // The load itself goes up and down.
        let by_chance = after.rate_error().hypot(trial.counted.rate_error());
        self.state = State::Knows(after);
        if gain >= -TOLERANCE.max(2.0 * by_chance) {
            return Decision::keep(format!("it is kept: {:+.1}% by what is counted", 100.0 * gain.exp_m1()));
        }
        let why = format!("{:+.1}% by what is counted, and more was promised: back to {}", 100.0 * gain.exp_m1(), trial.before);
        self.refuted.extend(self.in_force.replace(trial.before.clone()));
        self.begin_anew();
        Decision::set(trial.before, why)
    }

    /// Whether the load is still as it was.
    fn watch(&mut self, counted: Counted) -> Decision {
        let now = self.so_far();
        match now.filter(|now| now.busy_s >= ENOUGH_S && is_another(now, &counted)) {
            Some(_) => {
                self.refuted.clear();
                self.begin_anew();
                Decision::keep("the load is another one")
            }
            None => {
                self.state = State::Knows(counted);
                Decision::keep("nothing new is counted")
            }
        }
    }
}

fn is_another(now: &Counted, then: &Counted) -> bool {
    let differ = |a: f64, b: f64| a.max(b) > ANOTHER * a.min(b).max(1e-9);
    let share = |counted: &Counted| counted.read.requests_per_s / counted.requests_per_s().max(1e-9);
    let bytes = |counted: &Counted| counted.mb_per_s() / counted.requests_per_s().max(1e-9);
    differ(now.requests_per_s(), then.requests_per_s())
        || differ(bytes(now), bytes(then))
        || (share(now) - share(then)).abs() > 1.0 - 1.0 / ANOTHER
}

impl Controller for ByCounters {
    fn name(&self) -> &'static str {
        "counters"
    }

    fn begin(&mut self, _now: Nanos, plant: &dyn Target) -> Decision {
        self.in_force = Some(plant.setting());
        Decision::keep("only counters are to be had")
    }

    fn window_length(&self) -> WindowLength {
        WindowLength { time: Some(WINDOW), requests: None }
    }

    fn counted(&mut self, sample: &Sample) {
        if self.samples.len() >= KEPT {
            self.samples.pop_front();
        }
        self.samples.push_back(*sample);
    }

    fn decide(&mut self, window: &Window, _plant: &dyn Target) -> Decision {
        self.credit_ns = (self.credit_ns + self.budget * window.duration().0 as f64).min(MOST_SAVED_NS);
        if self.in_force.as_ref() != Some(&*window.setting) {
            // It was set a window ago, or somebody else did.
            self.in_force = Some((*window.setting).clone());
            let state = std::mem::replace(&mut self.state, State::Looks);
            self.begin_anew();
            if let State::Tries(trial) = state {
                self.state = State::Tries(trial);
            }
        }
        match std::mem::replace(&mut self.state, State::Looks) {
            State::Looks => self.look(),
            State::Thinks(thought) => self.think(thought),
            State::Knows(counted) => self.watch(counted),
            // In a mode that only watches nothing was set: what is in force stays so.
            State::Tries(trial) if self.in_force.as_ref() == Some(&trial.before) => self.watch(trial.counted),
            State::Tries(trial) => self.judge(trial),
        }
    }

    fn refused(&mut self, _setting: &Setting, _reason: &str) {
        if let State::Tries(trial) = std::mem::replace(&mut self.state, State::Looks) {
            self.state = State::Knows(trial.counted);
        }
    }

    fn overruled(&mut self, _now: Nanos, setting: &Setting, reason: &str) -> Decision {
        self.refuted.extend(self.in_force.replace(setting.clone()));
        self.begin_anew();
        Decision::set(setting.clone(), reason)
    }
}
