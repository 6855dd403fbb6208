//! Algorithm 2, feedback learning, and with a per-request scheduler among its candidates Algorithm 4, two-layer learning.
//!
//! ```text
//! While (Size(CollectedRequest) <= X) Collect(request)      a window, of seconds as in section 5 (definition 2)
//! NS = Model(Workload); If (NS != CS) { CS = NS; Load(CS) } the classifier's choice, always: no bound on its confidence
//! Log(ResponseTime, Throughput); Append(TotalRequest, …)    a row in the log, with its features and its scheduler
//! If (Size(TotalRequest) mod Y == 0) Model = Run_LearningAlgorithm()
//! ```
//! Requests are appended a window at a time, so the last line is reached when a multiple of Y is passed. Without Y nothing is learned online
//! (the paper's TCLO).

use std::sync::Arc;

use block::Nanos;
use control::controller::{Controller, Decision};
use control::{Setting, Target, Window, WindowLength};

use super::log::{Achieved, Classifier, FEATURES, Ranking, Row, achieved, features};
use crate::model::{Learner, Scratch};

/// The decision and feedback phases.
pub struct Feedback {
    settings: Vec<Setting>,
    window: Nanos,
    online: Option<Online>,
    classifier: Arc<Classifier>,
    scratch: Scratch,
}

/// State of online learning.
pub struct Online {
    /// Y.
    pub requests: u64,
    /// Rows logged before the run.
    pub offline: Arc<Vec<Row>>,
    /// The rule that assigns classes.
    pub ranking: Ranking,
    /// Whether the performance of processes' calls is logged, instead of the block layer's.
    pub by_calls: bool,
    /// The learner.
    pub learner: &'static dyn Learner,
    /// Seed of its random numbers.
    pub seed: u64,
    /// Requests so far, and the rows logged for them.
    pub total: u64,
    /// See `total`.
    pub logged: Vec<Row>,
}

impl Online {
    /// State with an empty log.
    pub fn new(requests: u64, offline: Arc<Vec<Row>>, ranking: Ranking, learner: &'static dyn Learner, seed: u64) -> Online {
        Online { requests, offline, ranking, by_calls: false, learner, seed, total: 0, logged: Vec::new() }
    }
}

impl Feedback {
    /// Chooses among these settings, indexed as in the log, at the end of each window.
    pub fn new(settings: Vec<Setting>, window: Nanos, classifier: Arc<Classifier>, online: Option<Online>) -> Feedback {
        Feedback { settings, window, online, classifier, scratch: Scratch::default() }
    }

    /// One turn of the loop: the index of the next setting, and whether the model was retrained.
    fn step(
        &mut self,
        features: [f64; FEATURES.len()],
        requests: u64,
        setting: usize,
        achieved: Achieved,
    ) -> (Option<usize>, bool) {
        let next = self.classifier.choose(&features, &mut self.scratch);
        let Some(online) = &mut self.online else { return (next, false) };
        let before = online.total / online.requests;
        online.total += requests;
        online.logged.push(Row { workload: None, setting, features, achieved });
        if online.total / online.requests == before {
            return (next, false);
        }
        let rows = [online.offline.as_slice(), &online.logged].concat();
        // If training fails, the previous model remains.
        let again = Classifier::learn(&rows, online.ranking, self.settings.len(), online.learner, online.seed);
        let is_learned = again.is_ok();
        if let Ok(classifier) = again {
            self.classifier = Arc::new(classifier);
        }
        (next, is_learned)
    }
}

impl Controller for Feedback {
    fn name(&self) -> &'static str {
        "feedback-as-printed"
    }

    fn begin(&mut self, _now: Nanos, _target: &dyn Target) -> Decision {
        Decision::keep("collecting the first window")
    }

    fn window_length(&self) -> WindowLength {
        WindowLength { time: Some(self.window), requests: None }
    }

    fn decide(&mut self, window: &Window, _target: &dyn Target) -> Decision {
        let Some(setting) = self.settings.iter().position(|setting| *setting == *window.setting) else {
            return Decision::keep("the active setting is no candidate");
        };
        if window.outcome.requests == 0 {
            return Decision::keep("no requests");
        }
        let achieved = achieved(window, self.online.as_ref().is_some_and(|online| online.by_calls));
        let (next, is_learned) = self.step(features(window), window.outcome.requests, setting, achieved);
        let learned = if is_learned { "; learned again" } else { "" };
        match next {
            Some(next) if next != setting => Decision::set(self.settings[next].clone(), format!("the model’s choice{learned}")),
            _ => Decision::keep(format!("the model’s choice{learned}")),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::super::log::tests::{PRINTED, row};
    use super::*;
    use crate::model::learner;

    /// Workload 0, of 1 process, is best under 0; workload 1, of 9 processes, under 1. Ten windows of each under both.
    fn log() -> Vec<Row> {
        let of = |workload, processes, throughputs: [f64; 2]| {
            (0..20).map(move |number| row(Some(workload), number % 2, processes, throughputs[number % 2]))
        };
        of(0, 1.0, [50.0, 40.0]).chain(of(1, 9.0, [40.0, 50.0])).collect()
    }

    fn feedback(online: Option<Online>) -> Feedback {
        let settings = ["noop", "cfq"].map(|name| Setting::parse(name).unwrap()).to_vec();
        let classifier = Classifier::learn(&log(), PRINTED, 2, learner("c4.5").unwrap(), 1).unwrap();
        Feedback::new(settings, Nanos::from_millis(1000), Arc::new(classifier), online)
    }

    #[test]
    fn each_window_gets_the_models_choice_and_y_requests_later_the_model_is_learned_again() {
        let online = Online::new(1000, Arc::new(log()), PRINTED, learner("c4.5").unwrap(), 1);
        let mut feedback = feedback(Some(online));
        let features = |processes| row(None, 0, processes, 1.0).features;
        let achieved = |throughput| Achieved { throughput, response_s: 1.0, fairness: 1.0 };
        // NS = Model(Workload): 1 process wants 0, 9 processes want 1. 600 requests are no multiple of Y = 1000, 1200 pass one, 1800 none.
        assert_eq!(feedback.step(features(1.0), 600, 0, achieved(50.0)), (Some(0), false));
        assert_eq!(feedback.step(features(9.0), 600, 0, achieved(40.0)), (Some(1), true));
        assert_eq!(feedback.step(features(9.0), 600, 1, achieved(50.0)), (Some(1), false));
        // From now on 9 processes achieve 200 under 0; the log has 50 under 1. Twenty such windows outvote its twenty, at 30000 requests.
        for _ in 0..40 {
            feedback.step(features(9.0), 600, 0, achieved(200.0));
        }
        assert_eq!(feedback.step(features(9.0), 600, 1, achieved(50.0)).0, Some(0));
    }

    #[test]
    fn without_y_nothing_is_learned_online() {
        let mut feedback = feedback(None);
        let features = row(None, 0, 9.0, 1.0).features;
        for _ in 0..40 {
            let achieved = Achieved { throughput: 200.0, response_s: 1.0, fairness: 1.0 };
            assert_eq!(feedback.step(features, 600, 0, achieved), (Some(1), false));
        }
    }
}
