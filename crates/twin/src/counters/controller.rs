//! A controller for devices that only have counters.
//!
//! It samples counters, draws hypotheses within its budget, and changes a setting only if they agree. Then it compares the counters with
//! those before, and reverts the change if they are worse.

use std::collections::VecDeque;
use std::sync::Arc;

use block::Nanos;
use control::ab_test::{CRITICAL_VALUE, Estimate};
use control::controller::{ControllerInput, Evidence};
use control::experience::WINDOW;
use control::{Controller, Decision, Ruling, Setting, Target, Test, Verdict, Window, WindowLength};
use observe::counters::Sample;
use observe::merit;
use observe::merit::TOLERANCE;

use super::counted::Counted;
use super::ensemble::Ensemble;
use super::hypothesis::Known;
use super::judgement::{Judgement, Judges};

/// Maximum number of samples kept, one per second. Choice: precision of the mean rates against notice of slow changes; not varied.
const KEPT: usize = 120;
/// Minimum busy time before hypotheses are drawn, in seconds. Choice: rates that vary by their mean each second have an error of 22%; a
/// longer time delays advice; not varied.
const ENOUGH_S: f64 = 20.0;
/// Busy time over which a change is judged, in seconds, to which [`SETTLES_S`] is added. Choice: half of [`ENOUGH_S`], as a harmful change
/// should not stay for long; not varied.
const JUDGED_S: f64 = 10.0;
/// Further busy time before a change is judged, in seconds. It dilutes requests from before the change: only the window of the change
/// itself is left out. Choice: most queues are served by then; not varied.
const SETTLES_S: f64 = 2.0;
/// A load counts as a different one if its rate or its sizes differ by this factor, or its fraction of reads by one minus its inverse.
/// Choice: above the usual variation of a load, below differences that change the best setting; not varied.
const ANOTHER: f64 = 1.5;
/// CPU time per simulated request in nanoseconds, including the construction of devices and loads. Choice: half as much again as the 2,000
/// measured for trials of one load, for the construction; not varied.
const REQUEST_NS: f64 = 3_000.0;
/// CPU budget that can be banked, in nanoseconds: enough for one decision. Derived: 144 hypotheses, 13 rounds and 1,200 requests of
/// [`REQUEST_NS`] are 6.7 s, and the rest is for candidates.
const MAX_SAVED_NS: f64 = 8e9;

/// State of the controller.
enum State {
    /// Samples counters, too few so far.
    Sampling,
    /// Moves hypotheses towards the counters, one round per window.
    Drawing(Box<Reasoning>),
    /// Has decided for the load with these counters.
    Decided(Counted),
    /// Verifies a change.
    Verifying(SettingTrial),
}

/// A decision in progress.
struct Reasoning {
    counted: Counted,
    known: Known,
    ensemble: Ensemble,
}

/// A change that is being verified.
struct SettingTrial {
    before: Setting,
    counted: Counted,
}

/// The controller.
pub struct ByCounters {
    brief: ControllerInput,
    known: Known,
    active: Option<Setting>,
    samples: VecDeque<Sample>,
    state: State,
    /// Settings that failed verification under this load.
    refuted: Vec<Setting>,
    budget: f64,
    credit_ns: f64,
}

impl ByCounters {
    /// Chooses among the candidates of the input, with a CPU budget in thousandths of a core. The bank starts full, so that the first
    /// decision is made as soon as there are enough samples.
    pub fn new(brief: &ControllerInput, known: &Known, budget_permille: i64) -> ByCounters {
        ByCounters {
            brief: brief.clone(),
            known: known.clone(),
            active: None,
            samples: VecDeque::new(),
            state: State::Sampling,
            refuted: Vec::new(),
            budget: budget_permille as f64 / 1_000.0,
            credit_ns: MAX_SAVED_NS,
        }
    }

    fn current_counters(&self) -> Option<Counted> {
        let samples: Vec<Sample> = self.samples.iter().copied().collect();
        Counted::of(&samples).ok()
    }

    fn score(&self, counted: &Counted) -> f64 {
        // Counters do not distinguish streams, so fairness is constant.
        merit::score(&self.brief.preference, 1e6 * counted.mb_per_s(), counted.response().as_secs_f64(), 1.0)
    }

    fn restart(&mut self) {
        self.state = State::Sampling;
        let last = self.samples.pop_back();
        self.samples.clear();
        self.samples.extend(last);
    }

    fn sample_counters(&mut self) -> Decision {
        let Some(counted) = self.current_counters().filter(|counted| counted.busy_s >= ENOUGH_S) else {
            return Decision::keep("sampling counters; too few requests yet");
        };
        let Some(active) = self.active.clone() else { return Decision::keep("the active setting is not known") };
        let ensemble = Ensemble::new(&counted, &self.known, &active, 1);
        self.state = State::Drawing(Box::new(Reasoning { counted, known: self.known.clone(), ensemble }));
        Decision::keep("drawing hypotheses of load and device")
    }

    fn draw_hypotheses(&mut self, mut reasoning: Box<Reasoning>) -> Decision {
        if !reasoning.ensemble.is_done() {
            // One round at a time, so that events are not delayed.
            let before = reasoning.ensemble.requests();
            if self.credit_ns > 0.0 {
                reasoning.ensemble.round();
                self.credit_ns -= (reasoning.ensemble.requests() - before) as f64 * REQUEST_NS;
            }
            self.state = State::Drawing(reasoning);
            return Decision::keep("moving hypotheses towards the counters");
        }
        let Reasoning { counted, known, ensemble } = *reasoning;
        self.state = State::Decided(counted);
        let Some(active) = self.active.clone() else { return Decision::keep("the active setting is not known") };
        let judges = Judges {
            counted: &counted,
            known: &known,
            active: &active,
            candidates: &self.brief.candidates,
            preference: self.brief.preference,
        };
        let judgement = match judges.judge(&ensemble) {
            Ok(judgement) => judgement,
            Err(unlike) => return Decision::keep(format!("no advice from counters: {unlike}")),
        };
        self.credit_ns -= (judgement.requests - ensemble.requests()) as f64 * REQUEST_NS;
        self.decide_by(&judgement, &active, counted)
    }

    fn decide_by(&mut self, judgement: &Judgement, active: &Setting, counted: Counted) -> Decision {
        let evidence = Evidence {
            candidates: judgement
                .predictions
                .iter()
                .filter(|prediction| !self.refuted.contains(&prediction.setting))
                .cloned()
                .collect(),
            ..judgement.evidence()
        };
        let hypotheses = judgement.hypotheses;
        let Some(prediction) = judgement.sure(active).filter(|prediction| !self.refuted.contains(&prediction.setting)) else {
            let why = format!(
                "counters alone leave {active} alone: {hypotheses} hypotheses that count alike agree on nothing that is better"
            );
            return Decision::keep(why).with_evidence(evidence);
        };
        let why = format!("{hypotheses} hypotheses that count alike agree, by counters alone, on {}", prediction.setting);
        self.state = State::Verifying(SettingTrial { before: active.clone(), counted });
        let verdict = Verdict {
            setting: prediction.setting.clone(),
            over: active.clone(),
            gain: Estimate { mean: prediction.gain, error: prediction.error },
            critical: 1.0,
            samples: [0, 0],
            by: Test::Forecast,
            ruling: Ruling::Kept,
        };
        let decision = Decision { expected_gain: Some(prediction.gain), ..Decision::set(prediction.setting.clone(), why) };
        decision.with_evidence(evidence).with_verdict(verdict)
    }

    /// Compares the counters after a change with those before.
    fn verify(&mut self, trial: SettingTrial) -> Decision {
        let counted = self.current_counters().filter(|counted| counted.busy_s >= JUDGED_S + SETTLES_S);
        let Some(after) = counted else {
            self.state = State::Verifying(trial);
            return Decision::keep("measuring the change");
        };
        let gain = self.score(&after) - self.score(&trial.counted);
        // The rate of the load itself varies.
        let by_chance = after.rate_error().hypot(trial.counted.rate_error());
        self.state = State::Decided(after);
        let change = Estimate { mean: gain, error: by_chance };
        let stays = gain.is_finite() && !change.is_significant_loss(TOLERANCE);
        let verdict = self.active.clone().filter(|_| gain.is_finite()).map(|setting| {
            Arc::new(Verdict {
                setting,
                over: trial.before.clone(),
                gain: change,
                critical: CRITICAL_VALUE,
                samples: [after.intervals, trial.counted.intervals],
                by: Test::Counters,
                ruling: if stays { Ruling::Kept } else { Ruling::TakenBack },
            })
        });
        if stays {
            let why = format!("the change stays: {:+.1}% by the counters", statistics::percent(gain));
            return Decision { verdict, ..Decision::keep(why) };
        }
        let why = format!("{:+.1}% by the counters, less than predicted: back to {}", statistics::percent(gain), trial.before);
        self.refuted.extend(self.active.replace(trial.before.clone()));
        self.restart();
        Decision { verdict, ..Decision::set(trial.before, why) }
    }

    /// Restarts sampling if the load has changed.
    fn detect_other_load(&mut self, counted: Counted) -> Decision {
        let now = self.current_counters();
        match now.filter(|now| now.busy_s >= ENOUGH_S && is_another(now, &counted)) {
            Some(_) => {
                self.refuted.clear();
                self.restart();
                Decision::keep("another load")
            }
            None => {
                self.state = State::Decided(counted);
                Decision::keep("no change of the load")
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

    fn begin(&mut self, _now: Nanos, target: &dyn Target) -> Decision {
        self.active = Some(target.setting());
        Decision::keep("only counters are available")
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
        self.credit_ns = (self.credit_ns + self.budget * window.duration().0 as f64).min(MAX_SAVED_NS);
        if self.active.as_ref() != Some(&*window.setting) {
            // The controller changed it one window ago, or it was changed externally.
            self.active = Some((*window.setting).clone());
            let state = std::mem::replace(&mut self.state, State::Sampling);
            self.restart();
            if let State::Verifying(trial) = state {
                self.state = State::Verifying(trial);
            }
        }
        match std::mem::replace(&mut self.state, State::Sampling) {
            State::Sampling => self.sample_counters(),
            State::Drawing(reasoning) => self.draw_hypotheses(reasoning),
            State::Decided(counted) => self.detect_other_load(counted),
            // In read-only mode the change was not applied.
            State::Verifying(trial) if self.active.as_ref() == Some(&trial.before) => self.detect_other_load(trial.counted),
            State::Verifying(trial) => self.verify(trial),
        }
    }

    fn refused(&mut self, _setting: &Setting, _reason: &str) {
        if let State::Verifying(trial) = std::mem::replace(&mut self.state, State::Sampling) {
            self.state = State::Decided(trial.counted);
        }
    }

    fn overruled(&mut self, _now: Nanos, setting: &Setting, reason: &str) -> Decision {
        self.refuted.extend(self.active.replace(setting.clone()));
        self.restart();
        Decision::set(setting.clone(), reason)
    }
}
