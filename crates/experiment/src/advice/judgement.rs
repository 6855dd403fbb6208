//! Forecasts for every phase, and for the whole load.

use control::Setting;
use control::controller::Prediction;
use observe::Preference;
use observe::merit::TOLERANCE;
use statistics::percent;
use testbed::pool::Workers;
use twin::device::Residual;

use super::asked::{self, Brain, Judged, MOST_JUDGED, Sample};
use super::confirm::{ConfirmedRun, FullRun};
use super::linux;
use super::observed::Observed;
use super::phases::{Phase, Seconds};
use crate::comparison::prediction as on_record;

/// Maximum number of streams listed for a phase.
pub(super) const MOST_STREAMS: usize = 3;

/// Maximum number of schedulers that are simulated in full after the forecast.
pub(super) const MOST_RUN: usize = 3;

/// Maximum number of phases that are forecast, the longest first.
pub(super) const MOST_PHASES: usize = 8;

/// Forecasts for every phase, and for the whole load.
pub(super) struct Judgement {
    pub(super) samples: Vec<Sample>,
    pub(super) answers: Vec<Result<Judged, twin::ForecastError>>,
    /// By phase; empty without a forecast.
    pub(super) by_phase: Vec<Vec<Prediction>>,
    pub(super) overall: Vec<Prediction>,
    /// The reason if no forecast was attempted.
    unanswered: Option<String>,
}

impl Judgement {
    pub(super) fn of(brain: &Brain, phases: &[Phase], seconds: &Seconds, workers: Workers) -> anyhow::Result<Judgement> {
        let asked = phases.iter().enumerate().take(MOST_PHASES);
        let samples: Vec<Sample> = asked.flat_map(|(number, phase)| asked::samples(number, phase, seconds)).collect();
        let answers = brain.ask(&samples, workers)?;
        let by_phase: Vec<Vec<Prediction>> = (0..phases.len())
            .map(|number| {
                let of_phase = samples.iter().zip(&answers).filter(|(sample, _)| sample.phase == number);
                let judged: Vec<&Judged> = of_phase.filter_map(|(_, answer)| answer.as_ref().ok()).collect();
                asked::of_phase(&judged, brain.active)
            })
            .collect();
        let answered: Vec<(f64, &[Prediction])> = phases
            .iter()
            .zip(&by_phase)
            .filter(|(_, predictions)| !predictions.is_empty())
            .map(|(phase, predictions)| (phase.seconds() as f64, predictions.as_slice()))
            .collect();
        let overall = asked::of_all(&answered);
        Ok(Judgement { samples, answers, by_phase, overall, unanswered: None })
    }

    /// Why no phase has a forecast, from the first sample that failed; `None` if any has one.
    pub(super) fn reason(&self) -> Option<String> {
        if !self.overall.is_empty() {
            return None;
        }
        let of_sample = || self.answers.iter().find_map(|answer| answer.as_ref().err()).map(ToString::to_string);
        self.unanswered.clone().or_else(of_sample)
    }

    /// The other candidates under which no stream starves, the best first.
    pub(super) fn others(&self, active: &Setting) -> impl Iterator<Item = &Prediction> {
        self.overall.iter().filter(move |prediction| prediction.setting != *active && !prediction.starves())
    }

    /// Settings to simulate in full: the best of each of the best schedulers, even if the gain is not significant, and Linux's schedulers
    /// with their defaults.
    pub(super) fn worth_a_run(&self, active: &Setting) -> Vec<Setting> {
        let mut worth: Vec<&Prediction> = Vec::new();
        for prediction in self.others(active).filter(|prediction| prediction.gain > 0.0) {
            let is_first = worth.iter().all(|other| other.setting.spec.name != prediction.setting.spec.name);
            if is_first && worth.len() < MOST_RUN {
                worth.push(prediction);
            }
        }
        // The settings that a user would try on Linux, even if no gain is predicted.
        let plain = |prediction: &&Prediction| {
            linux::has(&prediction.setting) && prediction.setting == Setting::of(prediction.setting.spec)
        };
        let of_linux: Vec<&Prediction> =
            self.others(active).filter(plain).filter(|prediction| !worth.contains(prediction)).collect();
        worth.extend(of_linux);
        worth.into_iter().map(|prediction| prediction.setting.clone()).collect()
    }

    /// No forecast, for the given reason.
    pub(super) fn unanswered(phases: &[Phase], reason: String) -> Judgement {
        let by_phase = vec![Vec::new(); phases.len()];
        Judgement { samples: Vec::new(), answers: Vec::new(), by_phase, overall: Vec::new(), unanswered: Some(reason) }
    }

    pub(super) fn is_answered(&self, phase: usize) -> bool {
        !self.by_phase[phase].is_empty()
    }

    /// Evaluates the run of a setting.
    pub(super) fn confirmed(
        &self,
        before: &Observed,
        seconds_before: &Seconds,
        phases: &[Phase],
        (setting, run): (Setting, FullRun),
        preference: &Preference,
    ) -> ConfirmedRun {
        let prediction = self.overall.iter().find(|prediction| prediction.setting == setting).cloned();
        let answered = phases.iter().enumerate().filter(|(number, _)| self.is_answered(*number)).map(|(_, phase)| phase);
        ConfirmedRun::new((setting, prediction), run, (before, seconds_before), answered, preference)
    }

    pub(super) fn sure(&self, phases: &[Phase], residual: &Residual, active: &Setting) -> Vec<String> {
        let busy: u64 = phases.iter().map(Phase::seconds).sum();
        let answered = phases.iter().enumerate().filter(|(number, _)| self.is_answered(*number)).map(|(_, phase)| phase.seconds());
        let good: Vec<f64> = self.answers.iter().flatten().map(|judged| judged.off.abs()).collect();
        let worst = good.iter().copied().fold(0.0, f64::max);
        vec![
            format!(
                "Samples spread over the phases: {}, of each phase about {MOST_JUDGED} requests at most; {:.0}% of the busy time has an answer.",
                self.samples.len(),
                100.0 * answered.sum::<u64>() as f64 / busy.max(1) as f64
            ),
            format!(
                "Under {active} the twin reproduces {} of {} samples, the worst of them to {:.0}%: errors are at least as wide as that.",
                good.len(),
                self.answers.len(),
                percent(worst)
            ),
            format!(
                "The fitted device takes {:.3} ms a request where the real one took {:.3}, on {} accesses held out.",
                residual.mean_ms + residual.mean_error_ms,
                residual.mean_ms,
                residual.accesses
            ),
        ]
    }

    pub(super) fn phases(
        &self,
        phases: &[Phase],
        seconds: &Seconds,
        shown: Option<&Setting>,
        observed: &Observed,
        confirmed: Option<&ConfirmedRun>,
        preference: &Preference,
    ) -> Vec<report::advice::Phase> {
        let one = |(number, phase): (usize, &Phase)| {
            let predictions = &self.by_phase[number];
            let prediction = predictions.iter().find(|prediction| Some(&prediction.setting) == shown);
            let least = prediction.map_or(0.0, |prediction| prediction.gain.max(0.0));
            let wants = predictions.first().filter(|best| !best.starves() && best.sure_gain() > least + TOLERANCE);
            let of_phase =
                || self.samples.iter().zip(&self.answers).filter(|(sample, _)| sample.phase == number).map(|(_, answer)| answer);
            let off = of_phase().flatten().map(|judged| judged.off).max_by(|a, b| a.abs().total_cmp(&b.abs()));
            let reason = || match of_phase().find_map(|answer| answer.as_ref().err()) {
                Some(reason) => reason.to_string(),
                None => "too small a part of the load".to_owned(),
            };
            let streams = of_phase().flatten().next().map_or(Vec::new(), |judged| streams(judged, observed));
            report::advice::Phase {
                number: number as u32 + 1,
                spans_s: phase.stretches.iter().map(|stretch| (stretch.from as f64, stretch.to as f64)).collect(),
                lasts_s: phase.seconds() as f64,
                requests: phase.requests(seconds),
                streams,
                wants: wants.filter(|wants| Some(&wants.setting) != shown).map(on_record),
                prediction: prediction.map(on_record),
                measured_percent: confirmed
                    .and_then(|confirmed| confirmed.gain_in(observed, seconds, phase, preference))
                    .map(percent),
                off_percent: off.map(percent),
                unanswered: (!self.is_answered(number)).then(reason),
            }
        };
        phases.iter().enumerate().map(one).collect()
    }
}

pub(super) fn streams(judged: &Judged, observed: &Observed) -> Vec<String> {
    let mut streams = judged.streams.clone();
    streams.sort_by_key(|stream| (std::cmp::Reverse(stream.requests), stream.stream));
    let more = streams.len().saturating_sub(MOST_STREAMS);
    let one = |stream: &twin::load::Understood| {
        format!(
            "stream {}: {}, {} in flight, {:.1} requests/s",
            observed.name(stream.stream),
            stream.pace.name(),
            stream.in_flight,
            stream.rate
        )
    };
    let mut texts: Vec<String> = streams.iter().take(MOST_STREAMS).map(one).collect();
    if more > 0 {
        texts.push(format!("and {more} more streams"));
    }
    texts
}
