//! What a decision rests on, for people to check.

use std::cmp::Ordering;

use crate::ab_test::weighted_by_precision;
use crate::setting::Setting;
use observe::merit::TOLERANCE;

/// What was seen, and what each candidate promises.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evidence {
    /// Facts with their names: the load, the device, how well both reproduce what was measured.
    pub seen: Vec<(String, String)>,
    /// The candidates, the most promising first.
    pub candidates: Vec<Prediction>,
}

/// What a candidate promises.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// The candidate.
    pub setting: Setting,
    /// Bytes a second.
    pub throughput: f64,
    /// Mean response time in seconds.
    pub response_s: f64,
    /// The largest p99 response time of a stream by its bound; above 1 it starves.
    pub p99_by_bound: f64,
    /// The gain over what is in force, as a difference of scores, and its standard error.
    pub gain: f64,
    /// See `gain`.
    pub error: f64,
}

impl Prediction {
    /// Whether it lets a stream wait longer than [merit](observe::merit) allows.
    pub fn starves(&self) -> bool {
        self.p99_by_bound > 1.0
    }

    /// What it gains if it is off by its error.
    pub fn sure_gain(&self) -> f64 {
        self.gain - self.error
    }

    /// Whether it starves nobody, and surely gains more than nothing.
    pub fn is_sure(&self) -> bool {
        !self.starves() && self.sure_gain() > TOLERANCE
    }

    /// What surely gains the most first, and those that starve a stream behind all others.
    pub fn surest_first(&self, other: &Prediction) -> Ordering {
        self.starves().cmp(&other.starves()).then(other.sure_gain().total_cmp(&self.sure_gain()))
    }

    /// The gain that is to be expected after this much was measured, with this standard error: the mean of both, each with the weight
    /// of its precision.
    pub fn with(&self, measured: f64, error: f64) -> f64 {
        weighted_by_precision((self.gain, self.error), (measured, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_measured_counts_the_more_the_surer_it_is() {
        let Some(spec) = block::find("deadline") else { panic!("there is deadline") };
        let setting = Setting::of(spec);
        let promise = Prediction { setting, throughput: 1.0, response_s: 1.0, p99_by_bound: 0.0, gain: 0.3, error: 0.1 };
        assert!((promise.with(-0.1, 0.1) - 0.1).abs() < 1e-12);
        assert!(promise.with(-0.1, 0.05) < 0.0);
        assert!((promise.with(-0.1, 0.0) + 0.1).abs() < 1e-9);
    }
}
