//! The evidence for a decision.

use std::cmp::Ordering;

use crate::ab_test::weighted_by_precision;
use crate::setting::Setting;
use observe::merit::TOLERANCE;

/// Facts and predictions behind a decision.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evidence {
    /// Facts with their names: the load, the device, and how well both reproduce the measurements.
    pub seen: Vec<(String, String)>,
    /// The candidates, the best first.
    pub candidates: Vec<Prediction>,
    /// Whether gains and errors are calibrated by the accuracy of earlier predictions; such a gain is hardly ever significant before it is
    /// measured. If false, they are as predicted.
    pub is_expectation: bool,
    /// The contribution of each source of knowledge: its name, and a statement.
    pub sources: Vec<(String, String)>,
}

impl Evidence {
    /// The candidate to recommend instead of the active setting: the largest gain if calibrated, otherwise the largest sure gain. `None` if
    /// no gain is worth a change.
    pub fn best(&self, active: &Setting) -> Option<&Prediction> {
        let others = self.candidates.iter().filter(|one| one.setting != *active && !one.starves());
        if self.is_expectation {
            return others.filter(|one| one.gain > TOLERANCE).max_by(|a, b| a.gain.total_cmp(&b.gain));
        }
        others.filter(|one| one.is_sure()).min_by(|a, b| a.surest_first(b))
    }
}

/// Predicted performance of a candidate.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// The candidate.
    pub setting: Setting,
    /// Throughput in bytes per second.
    pub throughput: f64,
    /// Mean response time in seconds.
    pub response_s: f64,
    /// The largest ratio of a stream's p99 response time to its bound; above 1 the stream starves.
    pub p99_by_bound: f64,
    /// The gain over the active setting, as a difference of scores.
    pub gain: f64,
    /// The standard error of `gain`.
    pub error: f64,
}

impl Prediction {
    /// Whether a stream waits for longer than its [bound](observe::merit).
    pub fn starves(&self) -> bool {
        self.p99_by_bound > 1.0
    }

    /// The gain less its standard error.
    pub fn sure_gain(&self) -> f64 {
        self.gain - self.error
    }

    /// Whether it starves no stream and its sure gain exceeds [`TOLERANCE`].
    pub fn is_sure(&self) -> bool {
        !self.starves() && self.sure_gain() > TOLERANCE
    }

    /// Orders by sure gain, the largest first, with predictions that starve a stream last.
    pub fn surest_first(&self, other: &Prediction) -> Ordering {
        self.starves().cmp(&other.starves()).then(other.sure_gain().total_cmp(&self.sure_gain()))
    }

    /// The expected gain given a measured one with this standard error: their mean, weighted by precision.
    pub fn with(&self, measured: f64, error: f64) -> f64 {
        weighted_by_precision((self.gain, self.error), (measured, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_advised_is_the_surest_prediction_or_the_largest_gain_to_expect() {
        let prediction = |name: &str, gain: f64, error: f64, p99_by_bound: f64| {
            let Ok(setting) = Setting::parse(name) else { panic!("there is {name}") };
            Prediction { setting, throughput: 1.0, response_s: 1.0, p99_by_bound, gain, error }
        };
        let candidates = vec![
            prediction("bfq", 0.9, 0.1, 2.0),
            prediction("kyber", 0.3, 0.4, 0.0),
            prediction("none", 0.1, 0.02, 0.0),
            prediction("mq-deadline", 0.0, 0.0, 0.0),
        ];
        let evidence = Evidence { candidates, ..Evidence::default() };
        let best = |evidence: &Evidence, active: &str| {
            let Ok(active) = Setting::parse(active) else { panic!("there is {active}") };
            evidence.best(&active).map(|best| best.setting.to_string())
        };
        assert_eq!(best(&evidence, "mq-deadline").as_deref(), Some("none"), "bfq starves a stream, and kyber is not sure");
        assert_eq!(best(&evidence, "none"), None);
        let expected = Evidence { is_expectation: true, ..evidence };
        assert_eq!(best(&expected, "mq-deadline").as_deref(), Some("kyber"));
        let nothing = Evidence { candidates: vec![prediction("kyber", 0.01, 0.001, 0.0)], ..expected };
        assert_eq!(best(&nothing, "mq-deadline"), None, "not worth a change");
    }

    #[test]
    fn a_measurement_counts_more_the_smaller_its_error() {
        let Some(spec) = block::find("deadline") else { panic!("there is deadline") };
        let setting = Setting::of(spec);
        let promise = Prediction { setting, throughput: 1.0, response_s: 1.0, p99_by_bound: 0.0, gain: 0.3, error: 0.1 };
        assert!((promise.with(-0.1, 0.1) - 0.1).abs() < 1e-12);
        assert!(promise.with(-0.1, 0.05) < 0.0);
        assert!((promise.with(-0.1, 0.0) + 0.1).abs() < 1e-9);
    }
}
