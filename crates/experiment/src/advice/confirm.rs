//! The best candidates run in full, and what these runs measured.

use std::collections::BTreeMap;

use block::{Nanos, StreamId};
use control::Setting;
use control::controller::Prediction;
use control::experience::WINDOW;
use observe::Preference;
use observe::merit;
use observe::merit::TOLERANCE;
use observe::performance::Performance;
use observe::window::Tally;
use progress::Monitor;
use report::advice::Measured;
use report::record::ServiceFigures;
use sim::run::StreamMeasure;

use super::judgement::Judgement;
use super::observed::Observed;
use super::phases::{self, Phase, Seconds};
use crate::bench::tails;
use crate::comparison::{percent, service};

/// Two runs whose lengths differ by less, as a share, are compared second by second.
pub(super) const ALIKE: f64 = 0.05;

/// A full run of a candidate, without its requests: of many runs these would not fit into memory.
pub(super) struct FullRun {
    seconds: Seconds,
    streams: BTreeMap<StreamId, StreamMeasure>,
    whole: (f64, f64),
    lasts: Nanos,
}

impl FullRun {
    /// Of what was observed.
    ///
    /// # Errors
    /// As of [`phases::seconds`].
    pub(super) fn of(observed: Observed, monitor: &dyn Monitor) -> anyhow::Result<FullRun> {
        let seconds = phases::seconds(&observed, monitor)?;
        Ok(FullRun { seconds, lasts: observed.lasts(), whole: observed.whole, streams: observed.streams })
    }
}

/// A candidate that was run in full, with its result.
pub(super) struct ConfirmedRun {
    pub(super) setting: Setting,
    /// What was predicted, if anything was.
    pub(super) promise: Option<Prediction>,
    run: FullRun,
    pub(super) gain: f64,
    pub(super) p99_by_bound: f64,
}

impl Judgement {
    /// What came of running a setting.
    pub(super) fn confirmed(
        &self,
        before: &Observed,
        seconds_before: &Seconds,
        phases: &[Phase],
        (setting, run): (Setting, FullRun),
        preference: &Preference,
    ) -> ConfirmedRun {
        let p99_by_bound = merit::max_wait_ratio(&tails(run.streams.iter()), &tails(before.streams.iter()));
        let promise = self.overall.iter().find(|promise| promise.setting == setting).cloned();
        let mut confirmed = ConfirmedRun { setting, promise, run, gain: 0.0, p99_by_bound };
        // As the promise is added up, where both runs do the same at the same time.
        let (mut sum, mut whole) = (0.0, 0.0);
        for (_, phase) in phases.iter().enumerate().filter(|(number, _)| self.is_answered(*number)) {
            if let Some(gain) = confirmed.gain_in(before, seconds_before, phase, preference) {
                sum += gain * phase.seconds() as f64;
                whole += phase.seconds() as f64;
            }
        }
        let score = |seconds: &Seconds| whole_run(seconds).map_or(f64::NAN, |served| served.score(preference));
        confirmed.gain = if whole > 0.0 { sum / whole } else { score(&confirmed.run.seconds) - score(seconds_before) };
        confirmed
    }
}

impl ConfirmedRun {
    /// Whether a stream starves.
    pub(super) fn starves(&self) -> bool {
        self.p99_by_bound > 1.0
    }

    /// Whether it gains and no stream starves.
    pub(super) fn is_better(&self) -> bool {
        self.gain > TOLERANCE && !self.starves()
    }

    /// What these streams got.
    pub(super) fn service(&self, streams: &[StreamId]) -> ServiceFigures {
        service(streams.iter().filter_map(|stream| self.run.streams.get(stream)))
    }

    /// By how much it serves a phase better, where both runs do the same at the same time.
    pub(super) fn gain_in(&self, before: &Observed, seconds: &Seconds, phase: &Phase, preference: &Preference) -> Option<f64> {
        let (was, is) = (before.lasts().as_secs_f64(), self.run.lasts.as_secs_f64());
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
        Some(score(&self.run.seconds)? - score(seconds)?).filter(|gain| gain.is_finite())
    }

    pub(super) fn measured(&self, before: &Observed) -> Measured {
        let (was, is) = (before.whole, self.run.whole);
        Measured {
            setting: self.setting.to_string(),
            promised_percent: self.promise.as_ref().map(|promise| percent(promise.gain)),
            error_percent: self.promise.as_ref().map(|promise| 100.0 * promise.error),
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
