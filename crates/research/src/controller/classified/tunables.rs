//! What can be set of the schemes that classify.

use block::{Nanos, Tunable, Unit, tunables, words};

use crate::controller::LEAST_CORRELATION;
use crate::model;
use crate::model::Learner;

words! {
    /// What is learned from.
    pub enum Lessons {
        /// The experience of others.
        Offline = "offline",
        /// What is measured here.
        Online = "online",
        /// Both.
        Both = "both",
    }
}

tunables! {
    /// What can be set of feedback learning and of two-layer learning, with the paper's defaults where it has any.
    #[derive(Clone, Copy, Debug)]
    pub struct Tunables {
        /// What is learned from: `offline`, only the experience of others (the paper's TCLO), and nothing that is measured counts; `online`,
        /// only what is measured here; or `both` (TCLOO).
        pub training: Lessons = Tunable::one_of(Lessons::WORDS, "both"),
        /// What learns.
        pub learner: &'static dyn Learner = Tunable::one_of(model::NAMES, "svm"),
        /// Requests in a window (the paper's X).
        pub window_requests: u64 = Tunable::new(Unit::Count, 50..=100_000_000, 3000).logarithmic(),
        /// How long a window is, however many requests that are (the paper's SWZ, which it finds best at 60,000 ms); 0 goes by
        /// their number.
        pub window_ms: Option<Nanos> = Tunable::new(Unit::Milliseconds, 0..=86_400_000, 0).logarithmic(),
        /// The longest that the first window may be, the first of another workload, and those in which a change is judged, so
        /// that neither ignorance nor a bad choice lasts; 0 is off, as in the paper.
        pub first_window_ms: Option<Nanos> = Tunable::new(Unit::Milliseconds, 0..=3_600_000, 1000).logarithmic(),
        /// After this many requests all is learned once more, with what was measured here (the paper's Y).
        pub retrain_requests: u64 = Tunable::new(Unit::Count, 1000..=1_000_000_000_000, 1_000_000).logarithmic(),
        pub least_correlation_percent: Option<f64> = LEAST_CORRELATION,
        /// A classifier that is less sure changes nothing: what it says is likelier wrong than right. 0 always follows it, as in
        /// the paper.
        pub least_confidence: f64 = Tunable::new(Unit::Percent, 0..=100, 50),
        /// After this many windows in a row that are worse than before a change, the change is undone and remembered as an error;
        /// after as many without a loss it stays. 0 is off.
        pub losses: u64 = Tunable::new(Unit::Count, 0..=1000, 2),
        /// A window is worse if its score is by more than this below.
        pub loss_percent: f64 = Tunable::new(Unit::Percent, 0..=99, 5),
        /// How long each candidate is tried where nothing is known.
        pub quantum_ms: Nanos = Tunable::new(Unit::Milliseconds, 1..=3_600_000, 2000).logarithmic(),
        /// After this many windows, one is spent under another candidate to see how it serves; 0 is never, as in the paper.
        pub explore_windows: u64 = Tunable::new(Unit::Count, 0..=1_000_000, 0).logarithmic(),
    }
}

impl Tunables {
    /// How much a score must fall for a window to be worse.
    pub fn loss(&self) -> f64 {
        -(1.0 - self.loss_percent).ln()
    }
}
