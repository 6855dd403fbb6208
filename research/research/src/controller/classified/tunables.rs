//! Tunables of the classifying controllers.

use block::{Nanos, Tunable, Unit, tunables, words};

use crate::controller::LEAST_CORRELATION;
use crate::model;
use crate::model::Learner;

words! {
    /// The training data.
    pub enum Lessons {
        /// Only the shipped or given experience.
        Offline = "offline",
        /// Only measurements on this device.
        Online = "online",
        /// Both.
        Both = "both",
    }
}

tunables! {
    /// Tunables of feedback and two-layer learning, with the paper's defaults where it has any.
    #[derive(Clone, Copy, Debug)]
    pub struct Tunables {
        /// Training data: `offline`, only the given experience (the paper's TCLO), without measurements; `online`, only measurements on
        /// this device; or `both` (TCLOO).
        pub training: Lessons = Tunable::one_of(Lessons::WORDS, "both"),
        /// The learner.
        pub learner: &'static dyn Learner = Tunable::one_of(model::NAMES, "svm"),
        /// Requests in a window (the paper's X).
        pub window_requests: u64 = Tunable::new(Unit::Count, 50..=100_000_000, 3000).logarithmic(),
        /// Length of a window (the paper's SWZ, which it finds best at 60,000 ms). 0: windows end after `window_requests`.
        pub window_ms: Option<Nanos> = Tunable::new(Unit::Milliseconds, 0..=86_400_000, 0).logarithmic(),
        /// Maximum length of the first window of a workload and of windows that judge a change, which limits the time without a decision or
        /// with a bad one. 0: off, as in the paper.
        pub first_window_ms: Option<Nanos> = Tunable::new(Unit::Milliseconds, 0..=3_600_000, 1000).logarithmic(),
        /// Requests until the model is retrained with the latest measurements (the paper's Y).
        pub retrain_requests: u64 = Tunable::new(Unit::Count, 1000..=1_000_000_000_000, 1_000_000).logarithmic(),
        pub least_correlation_percent: Option<f64> = LEAST_CORRELATION,
        /// Minimum confidence of the classifier for a change. 0: always follows it, as in the paper.
        pub least_confidence: f64 = Tunable::new(Unit::Percent, 0..=100, 50),
        /// Consecutive windows worse than before a change after which it is reverted and recorded as an error; after as many without a loss
        /// it is kept. 0: off.
        pub losses: u64 = Tunable::new(Unit::Count, 0..=1000, 2),
        /// Loss of score above which a window counts as worse.
        pub loss_percent: f64 = Tunable::new(Unit::Percent, 0..=99, 5),
        /// Time for each candidate if there is no training data.
        pub quantum_ms: Nanos = Tunable::new(Unit::Milliseconds, 1..=3_600_000, 2000).logarithmic(),
        /// Windows after which another candidate is tried for one window. 0: never, as in the paper.
        pub explore_windows: u64 = Tunable::new(Unit::Count, 0..=1_000_000, 0).logarithmic(),
    }
}

impl Tunables {
    /// The difference of scores below which a window counts as worse.
    pub fn loss(&self) -> f64 {
        -(1.0 - self.loss_percent).ln()
    }
}
