//! What can be set of the schemes that classify.

use block::{Nanos, Scale, Tunable, Unit};

use crate::controller::LEAST_CORRELATION;
use crate::model::{self, Learner};

/// The tunables of feedback learning and of two-layer learning, with the paper's defaults where it has any.
pub static TUNABLES: &[Tunable] = &[
    Tunable {
        name: "training",
        unit: Unit::Count,
        min: 0,
        max: 2,
        default: 2,
        scale: Scale::Linear,
        doc: "What is learned from. 0: offline only, the experience of others (the paper's TCLO); nothing that is measured counts. 1: online \
              only, what is measured here. 2: both (TCLOO).",
    },
    Tunable {
        name: "learner",
        unit: Unit::Count,
        min: 0,
        max: 4,
        default: 4,
        scale: Scale::Linear,
        doc: "What learns: 0 c4.5, 1 logistic, 2 naive-bayes, 3 perceptron, 4 svm.",
    },
    Tunable {
        name: "window_requests",
        unit: Unit::Count,
        min: 50,
        max: 100_000_000,
        default: 3000,
        scale: Scale::Logarithmic,
        doc: "Requests in a window (the paper's X).",
    },
    Tunable {
        name: "window_ms",
        unit: Unit::Milliseconds,
        min: 0,
        max: 86_400_000,
        default: 0,
        scale: Scale::Logarithmic,
        doc: "How long a window is, however many requests that are (the paper's SWZ, which it finds best at 60,000 ms); 0 goes by their \
              number.",
    },
    Tunable {
        name: "first_window_ms",
        unit: Unit::Milliseconds,
        min: 0,
        max: 3_600_000,
        default: 1000,
        scale: Scale::Logarithmic,
        doc: "The longest that the first window may be, the first of another workload, and those in which a change is judged, so that \
              neither ignorance nor a bad choice lasts; 0 is off, as in the paper.",
    },
    Tunable {
        name: "retrain_requests",
        unit: Unit::Count,
        min: 1000,
        max: 1_000_000_000_000,
        default: 1_000_000,
        scale: Scale::Logarithmic,
        doc: "After so many requests all is learned once more, with what was measured here (the paper's Y).",
    },
    LEAST_CORRELATION,
    Tunable {
        name: "least_confidence",
        unit: Unit::Percent,
        min: 0,
        max: 100,
        default: 50,
        scale: Scale::Linear,
        doc: "A classifier that is less sure changes nothing: what it says is likelier wrong than right. 0 always follows it, as in the \
              paper.",
    },
    Tunable {
        name: "losses",
        unit: Unit::Count,
        min: 0,
        max: 1000,
        default: 2,
        scale: Scale::Linear,
        doc: "After so many windows in a row that are worse than before a change, the change is undone and remembered as an error; after as \
              many without a loss it stays. 0 is off.",
    },
    Tunable {
        name: "loss_percent",
        unit: Unit::Percent,
        min: 0,
        max: 99,
        default: 5,
        scale: Scale::Linear,
        doc: "A window is worse if its score is by more than this below.",
    },
    Tunable {
        name: "quantum_ms",
        unit: Unit::Milliseconds,
        min: 1,
        max: 3_600_000,
        default: 2000,
        scale: Scale::Logarithmic,
        doc: "How long each candidate is in force where nothing is known and all are tried.",
    },
    Tunable {
        name: "explore_windows",
        unit: Unit::Count,
        min: 0,
        max: 1_000_000,
        default: 0,
        scale: Scale::Logarithmic,
        doc: "After so many windows, one is spent under another candidate to see how it serves; 0 is never, as in the paper.",
    },
];

/// What is learned from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lessons {
    /// The experience of others.
    Offline,
    /// What is measured here.
    Online,
    /// Both.
    Both,
}

/// The tunables' values.
#[derive(Clone, Copy, Debug)]
pub struct Knobs {
    pub lessons: Lessons,
    pub learner: &'static dyn Learner,
    pub window_requests: u64,
    /// `None` goes by requests.
    pub window: Option<Nanos>,
    pub first_window: Option<Nanos>,
    pub retrain_requests: u64,
    /// `None` if no change of the workload is sensed.
    pub least_correlation: Option<f64>,
    /// In percent.
    pub least_confidence: f64,
    pub losses: u64,
    /// A difference of scores.
    pub loss: f64,
    pub quantum: Nanos,
    pub explore_windows: u64,
}

impl Knobs {
    /// In the order of [`TUNABLES`].
    pub fn of(values: &[i64]) -> Knobs {
        let whole = |index: usize| values[index].unsigned_abs();
        let milliseconds = |index: usize| Some(Nanos::from_millis(whole(index))).filter(|time| *time > Nanos::ZERO);
        Knobs {
            lessons: match values[0] {
                0 => Lessons::Offline,
                1 => Lessons::Online,
                _ => Lessons::Both,
            },
            learner: model::ALL[values[1].unsigned_abs() as usize % model::ALL.len()],
            window_requests: whole(2),
            window: milliseconds(3),
            first_window: milliseconds(4),
            retrain_requests: whole(5),
            least_correlation: (values[6] > 0).then_some(values[6] as f64 / 100.0),
            least_confidence: values[7] as f64,
            losses: whole(8),
            loss: -(1.0 - values[9] as f64 / 100.0).ln(),
            quantum: Nanos::from_millis(whole(10)),
            explore_windows: whole(11),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_learners_are_those_that_the_page_names() {
        let tunable = TUNABLES.iter().find(|tunable| tunable.name == "learner").unwrap();
        let known: Vec<String> =
            model::ALL.iter().enumerate().map(|(number, learner)| format!("{number} {}", learner.name())).collect();
        assert_eq!(tunable.doc, format!("What learns: {}.", known.join(", ")));
        assert_eq!(tunable.max, model::ALL.len() as i64 - 1);
        assert_eq!(model::ALL[tunable.default as usize].name(), "svm");
    }
}
