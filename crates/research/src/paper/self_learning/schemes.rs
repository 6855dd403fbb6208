//! The paper's schemes as controllers of this program.

use control::controller::ControllerChoice;

use super::plan::Plan;

/// The five schedulers that the paper compares with; its FIFO is `noop`.
pub const FIVE: &[&str] = &["noop", "sstf", "deadline", "anticipatory", "cfq"];
/// What every scheme finds active: what Linux gave a disk as long as it had the five. A scheduler that starves a stream does so by its
/// standard.
pub const FOUND: &str = "deadline";
/// Every setting that is measured by itself: those, the one that learns request by request, and one more that `seekwise` may choose.
pub const SETTINGS: &[&str] = &["noop", "sstf", "deadline", "anticipatory", "cfq", PER_REQUEST, "clook"];
/// The scheduler that learns.
pub const PER_REQUEST: &str = "per-request";
/// Learners by name and as the paper writes them.
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

/// What a scheme has learned from before it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Training {
    /// Nothing.
    None,
    /// The workloads of Table 3, and nothing more.
    Offline,
    /// Those, and what was run afterwards; and it goes on learning.
    Online,
    /// All batches but this one; it goes on learning if the second is true.
    AllBut(u32, bool),
}

/// A scheme, set up as for one of the paper's figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Scheme {
    /// The controller that it is.
    pub controller: &'static str,
    /// One of the [`LEARNERS`] by name.
    pub learner: &'static str,
    /// What it has learned from.
    pub training: Training,
    /// Length of a window, in seconds of the paper.
    pub window_s: u32,
    /// Exactly the paper: the first window is no shorter than the others; and the run is a long one.
    pub is_exact: bool,
}

impl Scheme {
    /// Change-sensing round-robin.
    pub const CRRN: Scheme = Scheme::of("round-robin", Training::None, 100);
    /// Two-layer combined learning, trained offline only, as in section 5.2.1.
    pub const TCLO: Scheme = Scheme::of("two-layer", Training::Offline, 100);
    /// The same, trained online too.
    pub const TCLOO: Scheme = Scheme::of("two-layer", Training::Online, 100);
    /// Request-level learning.
    pub const REQUEST_LEVEL: Scheme = Scheme::of("per-request", Training::None, 100);
    /// Workload-level learning: without the per-request scheduler among the candidates.
    pub const WORKLOAD_LEVEL: Scheme = Scheme::of("feedback", Training::Online, 100);
    /// What the paper ends with (section 5.3.1): TCLOO with windows of 60 s.
    pub const TWO_LAYER: Scheme = Scheme::of("two-layer", Training::Online, 60);
    /// Ours, which learns from nothing beforehand.
    pub const SEEKWISE: Scheme = Scheme::of("seekwise", Training::None, 0);

    const fn of(controller: &'static str, training: Training, window_s: u32) -> Scheme {
        Scheme { controller, learner: SVM, training, window_s, is_exact: false }
    }

    /// With another learner.
    pub fn with_learner(self, learner: &'static str) -> Scheme {
        Scheme { learner, ..self }
    }

    /// Exactly the paper's, with windows of this length.
    pub fn with_window(self, window_s: u32) -> Scheme {
        Scheme { window_s, is_exact: true, ..self }
    }

    /// Trained on the other batches.
    pub fn for_batch(self, number: u32) -> Scheme {
        let training = match self.training {
            Training::None => Training::None,
            training => Training::AllBut(number, training == Training::Online),
        };
        Scheme { training, ..self }
    }

    /// Whether this program has it.
    pub fn is_there(&self) -> bool {
        crate::controller::all().any(|spec| spec.name == self.controller)
    }

    /// The controller with its tunables as the paper sets them, times scaled by the plan.
    pub fn chosen(&self, plan: &Plan) -> anyhow::Result<ControllerChoice> {
        let mut chosen = crate::controller::parse(self.controller)?;
        for (tunable, value) in chosen.spec.tunables.iter().zip(&mut chosen.values) {
            match self.tunable(tunable.name, plan) {
                Some(TunableValue::Number(wanted)) => *value = wanted.clamp(tunable.min, tunable.max),
                Some(TunableValue::Word(wanted)) => *value = tunable.read(chosen.spec.name, wanted)?,
                None => {}
            }
        }
        Ok(chosen)
    }

    /// What a tunable shall be; `None` leaves its default.
    fn tunable(&self, name: &str, plan: &Plan) -> Option<TunableValue> {
        let scaled = |paper_s: f64| plan.scaled_ms(paper_s, self.is_exact);
        match (self.controller, name) {
            ("round-robin", "check_ms") => Some(TunableValue::Number(scaled(60.0))),
            ("round-robin", "quantum_ms") => Some(TunableValue::Number(scaled(2.0).max(LEAST_QUANTUM_MS))),
            ("two-layer" | "feedback", "window_ms") => Some(TunableValue::Number(scaled(f64::from(self.window_s)))),
            ("two-layer" | "feedback", "learner") => Some(TunableValue::Word(self.learner)),
            ("two-layer" | "feedback", "training") => Some(TunableValue::Word(match self.training {
                Training::None => "online",
                Training::Offline | Training::AllBut(_, false) => "offline",
                Training::Online | Training::AllBut(_, true) => "both",
            })),
            ("two-layer" | "feedback", "first_window_ms") if self.is_exact => Some(TunableValue::Number(0)),
            _ => None,
        }
    }
}

/// What a tunable shall be.
enum TunableValue {
    Number(i64),
    Word(&'static str),
}

/// A shorter quantum than this tells chance, for a change of scheduler alone takes 35 ms.
const LEAST_QUANTUM_MS: i64 = 500;

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
        for text in SETTINGS {
            assert_eq!(control::Setting::parse(text).unwrap().to_string(), *text);
        }
    }

    #[test]
    fn a_scheme_gets_the_papers_window_learner_and_training_scaled_with_the_runs() {
        let plan = Plan::new(false, 1).unwrap();
        let value = |scheme: Scheme, name: &str| {
            let chosen = scheme.chosen(&plan).unwrap();
            let index = chosen.spec.tunables.iter().position(|tunable| tunable.name == name).unwrap();
            chosen.spec.tunables[index].text(chosen.values[index])
        };
        for scheme in [Scheme::CRRN, Scheme::TCLO, Scheme::REQUEST_LEVEL, Scheme::WORKLOAD_LEVEL, Scheme::SEEKWISE] {
            assert!(scheme.is_there(), "there is no {}", scheme.controller);
        }
        for (scheme, name, expected) in [
            (Scheme::CRRN, "check_ms", "6000"),
            (Scheme::CRRN, "quantum_ms", "500"),
            (Scheme::TCLO, "training", "offline"),
            (Scheme::TCLOO, "training", "both"),
            (Scheme::WORKLOAD_LEVEL, "learner", "svm"),
            (Scheme::TWO_LAYER, "window_ms", "6000"),
            (Scheme::TWO_LAYER.with_learner(LOGISTIC), "learner", "logistic"),
            (Scheme::TCLOO.with_window(300), "window_ms", "300000"),
            (Scheme::TCLOO.with_window(300), "first_window_ms", "0"),
            (Scheme::TCLO.for_batch(3), "training", "offline"),
        ] {
            assert_eq!(value(scheme, name), expected, "{name} of {}", scheme.controller);
        }
    }
}
