//! Full runs of the best candidates, and their results.

use std::collections::BTreeMap;

use block::{Nanos, StreamId};
use control::Setting;
use control::controller::Prediction;
use observe::merit::TOLERANCE;
use observe::starvation;
use observe::{Event, Preference};
use progress::Monitor;
use report::advice::Measured;
use report::record::ServiceFigures;
use sim::run::{Pilot, ServerEvent, StreamMeasure};
use statistics::percent;
use testbed::load::Load;
use testbed::world::World;
use twin::ObservedRequest;

use super::observed::{self, Observed};
use super::phases::{self, Phase, RunSeconds, Seconds};
use super::requests::in_trace;
use crate::bench::tails;
use crate::comparison::service;

/// Two runs are compared second by second if their lengths differ by at most this share.
pub(super) const ALIKE: f64 = 0.05;

/// Result of a full run of a candidate. Requests are not kept: those of many runs would not fit into memory.
pub(super) struct FullRun {
    seconds: Seconds,
    streams: BTreeMap<StreamId, StreamMeasure>,
    whole: (f64, f64),
    lasts: Nanos,
}

impl FullRun {
    /// Runs `load` under `setting`.
    ///
    /// # Errors
    /// The run failed or was interrupted.
    pub(super) fn simulated(load: &dyn Load, world: &World, setting: &Setting, monitor: &dyn Monitor) -> anyhow::Result<FullRun> {
        // The requests of a trace need not be stored for sorting, as it has no process calls.
        if load.expected_requests().is_some() {
            let mut recorder = SecondsRecorder(RunSeconds::new());
            let outcome = observed::run(load, world, setting, monitor, &mut recorder)?;
            if let Some((seconds, lasts)) = recorder.0.finish() {
                return Ok(FullRun { seconds, lasts, whole: observed::whole(&outcome.measure), streams: outcome.measure.streams });
            }
        }
        let observed = Observed::simulated(load, world, setting, monitor)?;
        let seconds = phases::outcomes(&observed, monitor)?;
        Ok(FullRun { seconds, lasts: observed.lasts(), whole: observed.whole, streams: observed.streams })
    }
}

/// Records the per-second results of a run.
struct SecondsRecorder(RunSeconds);

impl Pilot for SecondsRecorder {
    fn events(&mut self, noted: &[ServerEvent]) {
        for event in noted {
            match event {
                ServerEvent::Issued(issue) => self.0.issued(issue.arrival),
                ServerEvent::Finished(_) => {
                    if let Event::Completed { request, dispatched, at } = twin::event(event) {
                        // Through the trace format, as requests of the other runs are.
                        let seen = in_trace(&ObservedRequest { request, dispatched, completed: at });
                        self.0.completed(ObservedRequest::recorded(&seen, seen.response.unwrap_or_default()));
                    }
                }
                _ => {}
            }
        }
    }
}

/// A candidate that was run in full, with its result.
pub(super) struct ConfirmedRun {
    pub(super) setting: Setting,
    /// The prediction; `None` if there is none.
    pub(super) prediction: Option<Prediction>,
    run: FullRun,
    pub(super) gain: f64,
    pub(super) p99_by_bound: f64,
}

impl ConfirmedRun {
    /// Evaluates the run of a setting, with its prediction. Its gain is that over `phases`, those with a prediction.
    pub(super) fn new<'a>(
        (setting, prediction): (Setting, Option<Prediction>),
        run: FullRun,
        (before, seconds_before): (&Observed, &Seconds),
        phases: impl Iterator<Item = &'a Phase>,
        preference: &Preference,
    ) -> ConfirmedRun {
        let p99_by_bound = starvation::max_wait_ratio(&tails(run.streams.iter()), &tails(before.streams.iter()));
        let mut confirmed = ConfirmedRun { setting, prediction, run, gain: 0.0, p99_by_bound };
        // Weighted like the predictions, over the phases in which both runs do the same at the same time.
        let (mut sum, mut whole) = (0.0, 0.0);
        for phase in phases {
            if let Some(gain) = confirmed.gain_in(before, seconds_before, phase, preference) {
                sum += gain * phase.seconds() as f64;
                whole += phase.seconds() as f64;
            }
        }
        let score = |seconds: &Seconds| seconds.performance().map_or(f64::NAN, |served| served.score(preference));
        confirmed.gain = if whole > 0.0 { sum / whole } else { score(&confirmed.run.seconds) - score(seconds_before) };
        confirmed
    }

    /// Whether a stream starves: its p99 response time exceeds the bound.
    pub(super) fn starves(&self) -> bool {
        self.p99_by_bound > 1.0
    }

    /// Whether the gain exceeds the tolerance and no stream starves.
    pub(super) fn is_better(&self) -> bool {
        self.gain > TOLERANCE && !self.starves()
    }

    /// Service of these streams together.
    pub(super) fn service(&self, streams: &[StreamId]) -> ServiceFigures {
        service(streams.iter().filter_map(|stream| self.run.streams.get(stream)))
    }

    /// Gain in a phase. `None` if the lengths of the runs differ too much for the same seconds to hold the same load.
    pub(super) fn gain_in(&self, before: &Observed, seconds: &Seconds, phase: &Phase, preference: &Preference) -> Option<f64> {
        let (was, is) = (before.lasts().as_secs_f64(), self.run.lasts.as_secs_f64());
        if (is - was).abs() > ALIKE * was {
            return None;
        }
        let score = |seconds: &Seconds| Some(seconds.performance_in(&phase.stretches)?.score(preference));
        Some(score(&self.run.seconds)? - score(seconds)?).filter(|gain| gain.is_finite())
    }

    pub(super) fn measured(&self, before: &Observed) -> Measured {
        let (was, is) = (before.whole, self.run.whole);
        Measured {
            setting: self.setting.to_string(),
            predicted_percent: self.prediction.as_ref().map(|prediction| percent(prediction.gain)),
            error_percent: self.prediction.as_ref().map(|prediction| 100.0 * prediction.error),
            gain_percent: percent(self.gain),
            throughput_mb_s: (was.0, is.0),
            response_ms: (was.1, is.1),
            p99_by_bound: self.p99_by_bound,
        }
    }
}
