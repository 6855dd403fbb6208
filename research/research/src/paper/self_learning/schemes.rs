//! The schemes of the paper as printed, and our variants.

use std::sync::Arc;

use anyhow::Context;
use block::Nanos;
use control::Setting;
use control::controller::{Controller, ControllerChoice, ControllerInput};
use observe::{Preference, WindowOutcome};

use super::plan::Plan;
use super::printed::{Achieved, Classifier, Feedback, Online, RankedBy, Ranking, Row, SPEC, SPEC_LOGISTIC};
use crate::controller::RoundRobin;

/// The five schedulers that the paper compares with; its FIFO is `noop`.
pub const FIVE: &[&str] = &["noop", "sstf", "deadline", "anticipatory", "cfq"];
/// The setting with which every scheme begins: Linux's default for a disk while it had the five. Starvation of a stream is judged relative
/// to it.
pub const FOUND: &str = "deadline";
/// The default scheduler of Linux 2.6.13, the "regular" one of the paper's system.
pub const REGULAR: &str = "anticipatory";
/// Every setting that is measured by itself: the five, the paper's per-request scheduler, ours, and one more that `seekwise` may choose.
pub const SETTINGS: &[&str] = &["noop", "sstf", "deadline", "anticipatory", "cfq", RESPONSE_TIME, PER_REQUEST, "clook"];
/// Candidates of the paper's schemes, in the order of their logs: the five, then Algorithm 3.
pub const LEARNED: &[&str] = &["noop", "sstf", "deadline", "anticipatory", "cfq", RESPONSE_TIME];
/// Algorithm 3 as printed, with a support vector machine and with logistic regression.
pub const RESPONSE_TIME: &str = "response-time";
pub const RESPONSE_TIME_LOGISTIC: &str = "response-time-logistic";
/// Our variant of Algorithm 3.
pub const PER_REQUEST: &str = "per-request";
/// Learners by name, and their names in the paper.
pub const LEARNERS: &[(&str, &str)] = &[
    ("c4.5", "C4.5"),
    ("logistic", "logistic regression"),
    ("naive-bayes", "naive Bayes"),
    ("perceptron", "neural network"),
    ("svm", "SVM"),
];
/// Logistic regression and the support vector machine among them.
pub const LOGISTIC: &str = "logistic";
pub const SVM: &str = "svm";

/// The only preference that the paper ranks by in its text (section 3.3.1).
pub const UP: (u8, u8, u8) = (3, 2, 2);
/// The paper's Y (section 3.3.2).
pub const UPDATE_REQUESTS: u64 = 1_000_000;

/// The setting of this name, including the paper's Algorithm 3.
///
/// # Errors
/// The name is unknown.
pub fn setting(name: &str) -> anyhow::Result<Setting> {
    match name {
        RESPONSE_TIME => Ok(Setting::of(&SPEC)),
        RESPONSE_TIME_LOGISTIC => Ok(Setting::of(&SPEC_LOGISTIC)),
        name => Ok(Setting::parse(name)?),
    }
}

/// Training data of a scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Training {
    /// Nothing.
    None,
    /// The workloads of Table 3 only.
    Offline,
    /// Those and further workloads ([`ONLINE`](super::plan::ONLINE)); continues to learn while it runs.
    Online,
    /// As online, plus the workloads of Table 4 with other random numbers: every kind of load on which it is tested.
    Seen,
    /// All batches except this one; continues to learn while it runs if the second is true.
    AllBut(u32, bool),
}

/// A kind of scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SchemeKind {
    /// Algorithm 1, without and with tuning.
    RoundRobin { tunes: bool },
    /// Algorithm 2.
    Workload,
    /// Algorithm 4.
    TwoLayer,
    /// Our variant of Algorithm 4: guards against uncertain choices and evaluates each change.
    Guarded,
    /// The `seekwise` controller, which needs no training.
    Seekwise,
}

/// A scheme as configured for one of the paper's figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Scheme {
    /// The algorithm.
    pub kind: SchemeKind,
    /// One of the [`LEARNERS`] by name.
    pub learner: &'static str,
    /// Its training data.
    pub training: Training,
    /// Window length, in seconds of the paper.
    pub window_s: u32,
    /// Whether the run has the paper's duration.
    pub is_long: bool,
    /// UP(t, r, q).
    pub preference: (u8, u8, u8),
    /// Y, in requests of the paper.
    pub update_requests: u64,
    /// Whether the performance of processes' calls is logged, instead of the block layer's.
    pub by_calls: bool,
    /// Schedulers within this many percent of the best share a class.
    pub tolerance_percent: u8,
}

impl Scheme {
    /// Change-sensing round-robin, without training.
    pub const CRRN: Scheme = Scheme::of(SchemeKind::RoundRobin { tunes: false }, Training::None, 100);
    /// The same with tuning by doubling of tunables.
    pub const CRRN_TUNED: Scheme = Scheme::of(SchemeKind::RoundRobin { tunes: true }, Training::None, 100);
    /// Two-layer combined learning, trained offline only, as in section 5.2.1.
    pub const TCLO: Scheme = Scheme::of(SchemeKind::TwoLayer, Training::Offline, 100);
    /// The same, trained online too.
    pub const TCLOO: Scheme = Scheme::of(SchemeKind::TwoLayer, Training::Online, 100);
    /// Workload-level learning: without the per-request scheduler among the candidates.
    pub const WORKLOAD_LEVEL: Scheme = Scheme::of(SchemeKind::Workload, Training::Online, 100);
    /// The paper's final configuration (section 5.3.1): TCLOO with windows of 60 s.
    pub const TWO_LAYER: Scheme = Scheme::of(SchemeKind::TwoLayer, Training::Online, 60);
    /// Our variant of TCLOO.
    pub const GUARDED: Scheme = Scheme::of(SchemeKind::Guarded, Training::Online, 100);
    /// The `seekwise` controller, without prior training.
    pub const SEEKWISE: Scheme = Scheme::of(SchemeKind::Seekwise, Training::None, 0);

    const fn of(kind: SchemeKind, training: Training, window_s: u32) -> Scheme {
        let (is_long, by_calls, tolerance_percent) = (false, false, 0);
        Scheme {
            kind,
            learner: SVM,
            training,
            window_s,
            is_long,
            preference: UP,
            update_requests: UPDATE_REQUESTS,
            by_calls,
            tolerance_percent,
        }
    }

    /// The same scheme trained with every kind of load on which it is tested.
    pub fn with_all_seen(self) -> Scheme {
        Scheme { training: Training::Seen, ..self }
    }

    /// The same scheme with another learner.
    pub fn with_learner(self, learner: &'static str) -> Scheme {
        Scheme { learner, ..self }
    }

    /// The same scheme in a run of the paper's duration, with windows of this length in seconds of the paper.
    pub fn with_window(self, window_s: u32) -> Scheme {
        Scheme { window_s, is_long: true, ..self }
    }

    /// The same scheme trained on the other batches.
    pub fn for_batch(self, number: u32) -> Scheme {
        let training = match self.training {
            Training::None => Training::None,
            training => Training::AllBut(number, training != Training::Offline),
        };
        Scheme { training, ..self }
    }

    /// Whether it is trained with a log of windows, as printed.
    pub fn is_classified(&self) -> bool {
        matches!(self.kind, SchemeKind::Workload | SchemeKind::TwoLayer)
    }

    /// The criterion by which it ranks schedulers.
    ///
    /// # Errors
    /// Its preference is invalid.
    fn ranked_by(&self) -> anyhow::Result<RankedBy> {
        Ok(RankedBy::of(&self.preference()?))
    }

    /// The rule that assigns classes to windows.
    ///
    /// # Errors
    /// Its preference is invalid.
    pub fn ranking(&self) -> anyhow::Result<Ranking> {
        Ok(Ranking { by: self.ranked_by()?, tolerance: f64::from(self.tolerance_percent) / 100.0 })
    }

    fn preference(&self) -> anyhow::Result<Preference> {
        let (throughput, response, fairness) = self.preference;
        Ok(Preference::new(throughput, response, fairness)?)
    }

    /// The number of candidates: the first this many of [`LEARNED`].
    pub fn candidates(&self) -> usize {
        if self.kind == SchemeKind::Workload { FIVE.len() } else { LEARNED.len() }
    }

    /// The controller, with times scaled by the plan. `trained` is required if the scheme is [classified](Scheme::is_classified).
    ///
    /// # Errors
    /// The learner or a setting is unknown.
    pub fn build(&self, plan: &Plan, brief: &ControllerInput, trained: Option<&Trained>) -> anyhow::Result<Box<dyn Controller>> {
        let time = |paper_s: f64| Nanos::from_millis(plan.scaled_ms(paper_s, self.is_long).unsigned_abs());
        let settings = |names: &[&str]| names.iter().map(|name| setting(name)).collect::<anyhow::Result<Vec<_>>>();
        match self.kind {
            SchemeKind::RoundRobin { tunes } => {
                let (candidates, preference) = (settings(FIVE)?, self.preference()?);
                let brief = ControllerInput { candidates, preference, ..brief.clone() };
                algorithm_1(&brief, time(QUANTUM_S).max(LEAST_QUANTUM), time(CHECK_S), tunes)
            }
            SchemeKind::Workload | SchemeKind::TwoLayer => {
                let trained = trained.context("a scheme that was not trained")?;
                let goes_on = matches!(self.training, Training::Online | Training::Seen | Training::AllBut(_, true));
                let learner = crate::model::learner(self.learner)?;
                let requests = plan.scaled_requests(self.update_requests, self.is_long);
                let (log, by_calls) = (Arc::clone(&trained.log), self.by_calls);
                let online = Online { by_calls, ..Online::new(requests, log, trained.ranking, learner, brief.seed) };
                let online = goes_on.then_some(online);
                let settings = settings(&LEARNED[..self.candidates()])?;
                Ok(Box::new(Feedback::new(settings, time(f64::from(self.window_s)), Arc::clone(&trained.classifier), online)))
            }
            SchemeKind::Guarded | SchemeKind::Seekwise => {
                let names = SETTINGS.iter().filter(|name| **name != RESPONSE_TIME);
                let names = names.filter(|name| self.kind == SchemeKind::Seekwise || **name != "clook");
                let brief = ControllerInput { candidates: settings(&names.copied().collect::<Vec<_>>())?, ..brief.clone() };
                Ok(self.choice(plan)?.build(&brief))
            }
        }
    }

    /// Our scheme as a controller of this program.
    fn choice(&self, plan: &Plan) -> anyhow::Result<ControllerChoice> {
        if self.kind == SchemeKind::Seekwise {
            return Ok(crate::controller::parse("seekwise")?);
        }
        let window_ms = plan.scaled_ms(f64::from(self.window_s), self.is_long);
        Ok(crate::controller::parse(&format!("two-layer:window_ms={window_ms},learner={}", self.learner))?)
    }
}

/// Algorithm 1 as printed, over the input's candidates: `quantum` per candidate in phase 1, then a check every `check`.
///
/// # Errors
/// None if the preference is valid.
pub fn algorithm_1(brief: &ControllerInput, quantum: Nanos, check: Nanos, tunes: bool) -> anyhow::Result<Box<dyn Controller>> {
    let by = RankedBy::of(&brief.preference);
    let score = Box::new(move |outcome: &WindowOutcome| logarithm(by, outcome));
    Ok(Box::new(RoundRobin::printed(brief, score, quantum, check, tunes)))
}

/// Training data and classifier of a classified scheme.
pub struct Trained {
    /// The rule by which classes were assigned.
    pub ranking: Ranking,
    /// The logged windows.
    pub log: Arc<Vec<Row>>,
    /// The trained classifier.
    pub classifier: Arc<Classifier>,
}

/// The logarithm of the ranking criterion, since the tuner compares ratios.
fn logarithm(by: RankedBy, outcome: &WindowOutcome) -> f64 {
    let achieved = Achieved { throughput: outcome.throughput(), response_s: outcome.waited_s, fairness: outcome.fairness };
    match by.rank(&achieved) {
        rank if rank < 0.0 => -(-rank).ln(),
        rank => rank.ln(),
    }
}

/// The time of each scheduler in phase 1, and T_select, in seconds (section 3.3.1).
const QUANTUM_S: f64 = 2.0;
const CHECK_S: f64 = 60.0;

/// Minimum quantum: changing the scheduler alone takes 35 ms, so that shorter measurements are noise.
const LEAST_QUANTUM: Nanos = Nanos::from_millis(500);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::*;

    #[test]
    fn the_program_has_every_learner_of_the_paper() {
        for name in LEARNERS.iter().map(|(name, _)| *name).chain([LOGISTIC, SVM]) {
            assert!(crate::model::NAMES.contains(&name), "{name}");
        }
    }

    #[test]
    fn every_setting_that_is_measured_can_be_set() {
        for text in SETTINGS.iter().chain(LEARNED).chain([&RESPONSE_TIME_LOGISTIC]) {
            assert_eq!(setting(text).unwrap().to_string(), *text);
        }
    }

    #[test]
    fn ours_gets_the_papers_window_and_learner_scaled_with_the_runs() {
        let plan = Plan::new(false, 1).unwrap();
        let chosen = Scheme::GUARDED.with_learner(LOGISTIC).choice(&plan).unwrap();
        let value = |name: &str| {
            let index = chosen.spec.tunables.iter().position(|tunable| tunable.name == name).unwrap();
            chosen.spec.tunables[index].text(chosen.values[index])
        };
        assert_eq!((value("window_ms"), value("learner"), value("training")), ("10000".into(), "logistic".into(), "both".into()));
    }

    #[test]
    fn a_scheme_for_a_batch_learns_from_the_others_and_goes_on_if_it_did() {
        assert_eq!(Scheme::TCLO.for_batch(3).training, Training::AllBut(3, false));
        assert_eq!(Scheme::TCLOO.for_batch(3).training, Training::AllBut(3, true));
        assert_eq!(Scheme::CRRN.for_batch(3), Scheme::CRRN);
    }
}
