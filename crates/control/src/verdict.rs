//! The comparison that decided whether a setting stays. It is the only gain that is shown, stored and shared as measured.

use crate::ab_test::{Comparison, Estimate};
use crate::setting::Setting;

/// The comparison behind a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Test {
    /// Turns on the target, weighed with the expected gain ([`trials`](crate::trials)).
    Trial,
    /// Alternating pairs of turns ([`AbTest`](crate::ab_test::AbTest)).
    AbTest,
    /// Scores before and after the change.
    BeforeAfter,
    /// Counters before and after the change; requests are not traced.
    Counters,
    /// A prediction alone: nothing was measured.
    Forecast,
}

impl Test {
    /// Name in output.
    pub fn name(self) -> &'static str {
        match self {
            Test::Trial => "trial",
            Test::AbTest => "A/B test",
            Test::BeforeAfter => "before and after",
            Test::Counters => "counters",
            Test::Forecast => "forecast",
        }
    }
}

/// What became of the setting that was judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// It stays.
    Kept,
    /// It was kept or applied by a forecast, and is taken back.
    TakenBack,
    /// It was on trial and does not stay: a trial is no outcome.
    NotAdopted,
}

/// The comparison that decided about a setting.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The setting that was judged.
    pub setting: Setting,
    /// The setting that it was compared with.
    pub over: Setting,
    /// The gain of `setting` over `over`, as a difference of scores with its standard error.
    pub gain: Estimate,
    /// Half-width of the interval on which the decision rests, in standard errors.
    pub critical: f64,
    /// Number of scores of `setting` and of `over`; 0 for a forecast.
    pub samples: [u32; 2],
    /// The test.
    pub by: Test,
    /// The decision.
    pub ruling: Ruling,
}

impl Verdict {
    /// The interval of the gain.
    pub fn interval(&self) -> [f64; 2] {
        let margin = self.critical * self.gain.error;
        [self.gain.mean - margin, self.gain.mean + margin]
    }

    /// Whether the gain was measured rather than predicted.
    pub fn is_measured(&self) -> bool {
        self.by != Test::Forecast
    }

    /// Whether it is the measured outcome of a change: of a setting that stays, or that is taken back after it was to stay. A trial that
    /// was not adopted is none, nor is the return from it.
    pub fn is_outcome(&self) -> bool {
        self.is_measured() && self.ruling != Ruling::NotAdopted
    }

    /// The verdict of an A/B test; `gain` is the estimate that it decided by.
    pub fn of_ab_test(setting: Setting, over: Setting, gain: Estimate, comparison: &Comparison, ruling: Ruling) -> Verdict {
        let pairs = u32::try_from(comparison.pairs.unwrap_or_default()).unwrap_or(u32::MAX);
        Verdict { setting, over, gain, critical: comparison.critical, samples: [pairs; 2], by: Test::AbTest, ruling }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::*;

    #[test]
    fn only_a_measured_change_that_was_to_stay_is_an_outcome() {
        let verdict = |by, ruling| Verdict {
            setting: Setting::parse("kyber").unwrap(),
            over: Setting::parse("noop").unwrap(),
            gain: Estimate { mean: 0.2, error: 0.05 },
            critical: 2.0,
            samples: [4, 3],
            by,
            ruling,
        };
        assert!(verdict(Test::Trial, Ruling::Kept).is_outcome() && verdict(Test::Counters, Ruling::TakenBack).is_outcome());
        assert!(!verdict(Test::Trial, Ruling::NotAdopted).is_outcome() && !verdict(Test::Forecast, Ruling::Kept).is_outcome());
        let [low, high] = verdict(Test::Trial, Ruling::Kept).interval();
        assert!((low - 0.1).abs() < 1e-12 && (high - 0.3).abs() < 1e-12);
    }
}
