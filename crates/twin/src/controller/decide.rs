//! Decides by a forecast: what to change, when to ask again, and the evidence for it.

use block::Nanos;
use control::controller::{Evidence, Prediction};
use control::{Decision, Setting, Target};
use observe::merit::TOLERANCE;

use super::phase::{Origin, Pending};
use super::{EARLY_REFIT, MIN_LOAD_S, REFIT, STREAM_START_GAP, TwinController, WINDOW, percent};
use crate::forecast::{Forecast, differ_by_read_ahead};

/// Streams that are listed in the evidence.
const MAX_STREAMS: usize = 8;

impl TwinController {
    /// Changes to the arm with the largest sure gain, if that pays for the change while the load lasts.
    pub(super) fn decide_by_forecast(&mut self, forecast: Forecast, now: Nanos, target: &dyn Target) -> Decision {
        let lasts_s = (now - self.load.from).as_secs_f64().max(MIN_LOAD_S);
        let evidence = self.evidence_of(&forecast);
        let active = self.setting();
        let pays = |prediction: &Prediction| {
            let costs_s = target.switching_time(active, &prediction.setting).as_secs_f64();
            let sure = if self.is_free_to_try(&prediction.setting) { prediction.gain } else { prediction.sure_gain() };
            let arm = self.arm_of(&prediction.setting).filter(|&arm| self.arms[arm].blocked_until <= now && arm != self.active)?;
            let is_sure = prediction.gain > TOLERANCE && sure * lasts_s > costs_s;
            (is_sure && !prediction.starves()).then_some((arm, sure))
        };
        let best = forecast.predictions.iter().filter_map(|prediction| Some((pays(prediction)?, prediction)));
        match best.max_by(|a, b| a.0.1.total_cmp(&b.0.1)) {
            Some((_, prediction)) if self.must_wait_for_streams(&prediction.setting, now) => {
                self.next_forecast = now + WINDOW;
                Decision::keep(format!("waiting to switch to {} until all streams have started", prediction.setting))
                    .with_evidence(evidence)
            }
            Some(((arm, _), prediction)) => {
                let gain = percent(prediction.gain);
                let is_for_files = differ_by_read_ahead(&prediction.setting, active);
                let files = if is_for_files { ", in files that are opened from now on" } else { "" };
                // Open files are read as before, and perhaps not by the best scheduler.
                self.next_forecast = if is_for_files { now + WINDOW } else { self.next_forecast };
                let why = format!("{} is predicted to be {gain} ± {:.0}%{files}", prediction.setting, 100.0 * prediction.error);
                self.phase.verify(Pending { from: self.active, prediction: prediction.clone() });
                Decision { expected_gain: Some(prediction.gain), ..self.change_to(now, arm, why) }.with_evidence(evidence)
            }
            None => {
                let other = forecast.predictions.iter().find(|one| !one.starves() && one.setting != *active);
                let other = other.map_or(String::new(), |other| {
                    let gain = percent(other.gain);
                    format!("; the best other is {}: {gain} ± {:.0}%", other.setting, 100.0 * other.error)
                });
                Decision::keep(format!("leave {active} alone: nothing is sure to be better{other}")).with_evidence(evidence)
            }
        }
    }

    /// When to forecast again after this forecast, before which the credit was `had_ns`: when twice as much of the load was observed. Earlier
    /// if an arm is expected to gain but not sure to, and the credit is enough for another forecast like this one.
    pub(super) fn next_forecast_at(&self, forecast: &Forecast, now: Nanos, had_ns: f64) -> Nanos {
        let can_be_tried = |one: &Prediction| self.arm_of(&one.setting).is_some_and(|arm| self.arms[arm].blocked_until <= now);
        let is_unsure = |one: &Prediction| one.gain > TOLERANCE && one.sure_gain() <= 0.0 && !one.starves() && can_be_tried(one);
        let is_open = forecast.predictions.iter().any(is_unsure) && self.credit_ns >= had_ns / 2.0;
        let more = if is_open { EARLY_REFIT } else { REFIT };
        now + Nanos::from_secs_f64((more - 1.0) * (now - self.load.from).as_secs_f64()).max(WINDOW)
    }

    /// Whether a scheduler that judges processes by how they begin would meet some that begin late, and misjudge those that run already. A
    /// load whose processes keep beginning is not waited for, nor one in which many do.
    fn must_wait_for_streams(&self, setting: &Setting, now: Nanos) -> bool {
        let many = setting.spec.live_switch().min_readers as usize;
        let begins = setting.spec.name != self.setting().spec.name && (now - self.load.from).as_secs_f64() < MIN_LOAD_S;
        many > 0 && begins && (1..many).contains(&self.recording.newcomers(now - STREAM_START_GAP))
    }

    /// Without a valid forecast of the active setting: changes to an arm that was not tried yet, and for which the last valid forecast
    /// predicted more than was gained since.
    pub(super) fn decide_by_last_forecast(&mut self, now: Nanos) -> Option<Decision> {
        let (then, predictions) = self.last_forecast.as_ref().filter(|(then, _)| *then != self.active)?;
        // Only the load can have changed since a speculative read-ahead was set.
        if differ_by_read_ahead(&self.arms[*then].setting, self.setting()) {
            return None;
        }
        let (gained, _) = self.arms[self.active].measured?.over(&self.arms[*then].measured?, &self.preference);
        let error_scale = self.track_record.error_scale();
        let more = predictions.iter().filter_map(|prediction| {
            let arm = self.arm_of(&prediction.setting)?;
            let is_untried = arm != self.active && self.arms[arm].measured.is_none() && self.arms[arm].blocked_until <= now;
            let prediction = self.track_record.corrected(prediction, true);
            let (gain, error) = (prediction.gain - gained, prediction.error * error_scale);
            let prediction = Prediction { gain, error, ..prediction };
            (is_untried && prediction.is_sure()).then_some((arm, prediction))
        });
        let (arm, prediction) = more.min_by(|a, b| a.1.surest_first(&b.1))?;
        let why = format!(
            "{} was predicted to be {} ± {:.0}% under {}, and was not tried",
            prediction.setting,
            percent(prediction.gain + gained),
            100.0 * prediction.error,
            self.arms[*then].setting,
        );
        let expected_gain = Some(prediction.gain);
        self.phase.verify(Pending { from: self.active, prediction });
        Some(Decision { expected_gain, ..self.change_to(now, arm, why) })
    }

    /// Goes back to the original setting if the active one was chosen for another load, and the twin does not reproduce this one under it.
    pub(super) fn revert_unmodeled_load(&mut self, now: Nanos) -> Option<Decision> {
        let is_justified =
            self.active == self.original || self.origin == Origin::Recalled || self.arms[self.original].measured.is_some();
        let back = self.original_for_new_load();
        (self.mismatch.is_some() && !is_justified && back != self.active).then(|| {
            let setting = &self.arms[back].setting;
            let why = format!("another load, and the twin does not reproduce it under {}: back to {setting}", self.setting());
            self.next_forecast = now + WINDOW;
            self.change_to(now, back, why)
        })
    }

    fn evidence_of(&self, forecast: &Forecast) -> Evidence {
        let mut seen = Vec::new();
        for stream in forecast.streams.iter().take(MAX_STREAMS) {
            let thought = stream.thought.map_or(String::new(), |thought| format!(", {:.2} ms of thought", thought.as_millis_f64()));
            seen.push((
                format!("stream {}", stream.stream),
                format!("{}, {} in flight{thought}, {:.1} requests/s", stream.pace.name(), stream.in_flight, stream.rate),
            ));
        }
        if forecast.streams.len() > MAX_STREAMS {
            seen.push(("streams".to_owned(), format!("{} more", forecast.streams.len() - MAX_STREAMS)));
        }
        let findings = self.device.iter().flat_map(|device| &device.findings);
        seen.extend(findings.map(|finding| (finding.name.to_owned(), format!("{} ({})", finding.text(), finding.rests_on()))));
        seen.push((
            "twin".to_owned(),
            format!(
                "{:.3} MB/s and {:.3} ms under {}; its score is {} than measured",
                f64::from(forecast.active.throughput) / 1e6,
                1e3 * f64::from(forecast.active.response_s),
                self.setting(),
                percent(forecast.replay_error)
            ),
        ));
        Evidence { seen, candidates: forecast.predictions.clone() }
    }
}
