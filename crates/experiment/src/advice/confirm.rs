//! The best candidates run in full, and what these runs measured.

use control::controller::Prediction;
use control::experience::WINDOW;
use observe::Preference;
use observe::merit;
use observe::merit::TOLERANCE;
use observe::performance::Performance;
use observe::window::Tally;
use report::advice::Measured;

use super::judgement::Judgement;
use super::observed::Observed;
use super::phases::{self, Phase, Seconds};
use crate::bench::tails;
use crate::comparison::percent;

/// Two runs whose lengths differ by less, as a share, are compared second by second.
pub(super) const ALIKE: f64 = 0.05;

/// A candidate that was run in full, with its result.
pub(super) struct ConfirmedRun {
    pub(super) observed: Observed,
    pub(super) seconds: Seconds,
    pub(super) promise: Prediction,
    pub(super) gain: f64,
    pub(super) p99_by_bound: f64,
}

impl Judgement {
    /// What came of running the promise.
    pub(super) fn confirmed(
        &self,
        before: &Observed,
        seconds_before: &Seconds,
        phases: &[Phase],
        observed: Observed,
        promise: Prediction,
        preference: &Preference,
    ) -> ConfirmedRun {
        let seconds = phases::seconds(&observed);
        let p99_by_bound = merit::max_wait_ratio(&tails(observed.streams.iter()), &tails(before.streams.iter()));
        let mut confirmed = ConfirmedRun { observed, seconds, promise, gain: 0.0, p99_by_bound };
        // As the promise is added up, where both runs do the same at the same time.
        let (mut sum, mut whole) = (0.0, 0.0);
        for (_, phase) in phases.iter().enumerate().filter(|(number, _)| self.is_answered(*number)) {
            if let Some(gain) = confirmed.gain_in(before, seconds_before, phase, preference) {
                sum += gain * phase.seconds() as f64;
                whole += phase.seconds() as f64;
            }
        }
        let score = |seconds: &Seconds| whole_run(seconds).map_or(f64::NAN, |served| served.score(preference));
        confirmed.gain = if whole > 0.0 { sum / whole } else { score(&confirmed.seconds) - score(seconds_before) };
        confirmed
    }
}

impl ConfirmedRun {
    /// Whether it gains and no stream starves.
    pub(super) fn is_better(&self) -> bool {
        self.gain > TOLERANCE && self.p99_by_bound <= 1.0
    }

    /// By how much it serves a phase better, where both runs do the same at the same time.
    pub(super) fn gain_in(&self, before: &Observed, seconds: &Seconds, phase: &Phase, preference: &Preference) -> Option<f64> {
        let (was, is) = (before.lasts().as_secs_f64(), self.observed.lasts().as_secs_f64());
        if (is - was).abs() > ALIKE * was {
            return None;
        }
        // A second in which nothing was done still passes.
        let nothing = Tally::new().close(WINDOW);
        let score = |seconds: &Seconds| {
            let numbers = phase.stretches.iter().flat_map(|stretch| stretch.from..stretch.to);
            let outcomes: Vec<_> = numbers.map(|number| seconds.get(&number).map_or(nothing, |second| second.outcome)).collect();
            Some(Performance::of(&outcomes)?.score(preference))
        };
        Some(score(&self.seconds)? - score(seconds)?).filter(|gain| gain.is_finite())
    }

    pub(super) fn measured(&self, before: &Seconds) -> Measured {
        let figures = |seconds: &Seconds| {
            whole_run(seconds)
                .map_or((f64::NAN, f64::NAN), |served| (f64::from(served.throughput) / 1e6, 1e3 * f64::from(served.response_s)))
        };
        let (was, is) = (figures(before), figures(&self.seconds));
        Measured {
            setting: self.promise.setting.to_string(),
            promised_percent: percent(self.promise.gain),
            error_percent: 100.0 * self.promise.error,
            gain_percent: percent(self.gain),
            throughput_mb_s: (was.0, is.0),
            response_ms: (was.1, is.1),
            p99_by_bound: self.p99_by_bound,
        }
    }
}

/// The performance over all seconds; `None` if no request completed.
pub(super) fn whole_run(seconds: &Seconds) -> Option<Performance> {
    Performance::of(seconds.values().map(|second| &second.outcome))
}
