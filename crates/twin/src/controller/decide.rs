//! Decisions after a forecast: changes of the read-ahead, the time of the next forecast, and the evidence.

use block::Nanos;
use control::ab_test::Estimate;
use control::controller::{Evidence, Prediction};
use control::trials::stated;
use control::{Decision, Setting, Target};
use observe::merit::TOLERANCE;

use super::consult::FittedDevice;
use super::phase::Pending;
use super::read_ahead::UNMEASURED;
use super::{EARLY_REFIT, MIN_LOAD_S, REFIT, STREAM_START_GAP, TwinController, WINDOW, percent};
use crate::forecast::{Forecast, differ_by_read_ahead, rank};

/// Maximum number of streams listed in the evidence. Choice: completeness against the length of an explanation; not varied.
const MAX_STREAMS: usize = 8;

impl TwinController {
    /// Forecasts every arm. A read-ahead for files opened later is chosen by the forecast alone; for all other settings the forecast
    /// provides expected gains.
    pub(super) fn decide_by_new_forecast(&mut self, now: Nanos, target: &dyn Target) -> Decision {
        let before_ns = self.cpu.credit_ns;
        match self.forecast(now, target) {
            Ok(forecast) => {
                self.timeline.next_forecast = self.next_forecast_at(&forecast, now, before_ns);
                self.expect(&forecast);
                self.model.no_forecast = None;
                self.decide_read_ahead(forecast, now, target)
            }
            Err(reason) => {
                self.expect_nothing();
                let why = format!("no forecast: {reason}");
                self.model.no_forecast = Some(reason);
                Decision::keep(why)
            }
        }
    }

    /// Changes to the read-ahead with the largest gain, if that outweighs the cost of the change over the expected rest of the load.
    fn decide_read_ahead(&mut self, forecast: Forecast, now: Nanos, target: &dyn Target) -> Decision {
        let lasts_s = (now - self.present.load.from).as_secs_f64().max(MIN_LOAD_S);
        let evidence = self.trying.evidence.clone();
        let active = self.setting();
        let pays = |prediction: &Prediction| {
            let costs_s = target.switching_time(active, &prediction.setting).as_secs_f64();
            let sure = if self.is_free_to_try(&prediction.setting) { prediction.gain } else { prediction.sure_gain() };
            let arm = self.arm_of(&prediction.setting).filter(|&arm| self.arms[arm].blocked_until <= now && arm != self.active)?;
            let is_sure = prediction.gain > TOLERANCE && sure * lasts_s > costs_s;
            let is_longer = self.read_ahead_of(arm) > self.read_ahead.original_kib;
            let is_limited = || self.model.device.as_ref().is_some_and(FittedDevice::is_limited);
            (is_sure && !(is_longer && is_limited()) && !prediction.starves() && differ_by_read_ahead(&prediction.setting, active))
                .then_some((arm, sure))
        };
        let best = forecast.predictions.iter().filter_map(|prediction| Some((pays(prediction)?, prediction)));
        match best.max_by(|a, b| a.0.1.total_cmp(&b.0.1)) {
            Some(((arm, _), prediction)) => {
                // Open files keep their read-ahead, so the best scheduler for them is forecast soon.
                self.timeline.next_forecast = now + WINDOW;
                let setting = &prediction.setting;
                let why = format!("{setting} for files that are opened from now on: this load reads ahead, and {UNMEASURED}");
                self.phase.verify(Pending { from: self.active, prediction: prediction.clone() });
                Decision { evidence, ..self.change_to(now, arm, why) }
            }
            None => {
                let candidates = evidence.iter().flat_map(|evidence| &evidence.candidates);
                let other = candidates.into_iter().find(|one| !one.starves() && one.setting != *active);
                let other = other.map_or(String::new(), |other| {
                    let gain = percent(other.gain);
                    format!("; the best other is expected to be {gain} ± {:.0}%: {}", 100.0 * other.error, other.setting)
                });
                let why = format!("leave {active} alone: no trial is worth its cost{other}");
                Decision { evidence, ..Decision::keep(why) }
            }
        }
    }

    /// Time of the next forecast: when the age of the load has doubled, or earlier if an expected gain is uncertain and enough credit is
    /// left for another forecast like this one. `had_ns`: the credit before this one.
    pub(super) fn next_forecast_at(&self, forecast: &Forecast, now: Nanos, had_ns: f64) -> Nanos {
        let can_be_tried = |one: &Prediction| self.arm_of(&one.setting).is_some_and(|arm| self.arms[arm].blocked_until <= now);
        let is_unsure = |one: &Prediction| one.gain > TOLERANCE && one.sure_gain() <= 0.0 && !one.starves() && can_be_tried(one);
        let is_open = forecast.predictions.iter().any(is_unsure) && self.cpu.credit_ns >= had_ns / 2.0;
        let more = if is_open { EARLY_REFIT } else { REFIT };
        now + Nanos::from_secs_f64((more - 1.0) * (now - self.present.load.from).as_secs_f64()).max(WINDOW)
    }

    /// Whether to delay the switch to a scheduler that classifies processes by their start, because some have just started, and it would
    /// misclassify those that already run. No delay for a load whose processes keep starting, nor for one in which many start.
    pub(super) fn must_wait_for_streams(&self, setting: &Setting, now: Nanos) -> bool {
        let many = setting.spec.live_switch().min_readers as usize;
        let begins = setting.spec.name != self.setting().spec.name && (now - self.present.load.from).as_secs_f64() < MIN_LOAD_S;
        many > 0 && begins && (1..many).contains(&self.seen.recording.newcomers(now - STREAM_START_GAP))
    }

    pub(super) fn evidence_of(&self, forecast: &Forecast) -> Evidence {
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
        let findings = self.model.device.iter().flat_map(|device| &device.findings);
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
        let expected = self.expected(&forecast.predictions);
        let is_expectation = expected.is_some();
        let mut candidates = expected.unwrap_or_else(|| forecast.predictions.clone());
        // A read-ahead for files that are opened later is chosen by the forecast, and no gain is stated before it can be measured.
        candidates.retain(|one| !differ_by_read_ahead(&one.setting, self.setting()));
        Evidence { seen, candidates, is_expectation, sources: Vec::new() }
    }

    /// The predictions with the expected gain of each over the active arm, the best first. `None` if there are no expectations
    /// for the original or the active arm.
    fn expected(&self, predictions: &[Prediction]) -> Option<Vec<Prediction>> {
        let active = self.setting();
        let over_original = self.expected_over_original(predictions)?;
        let of_active = over_original(predictions.iter().find(|one| one.setting == *active)?);
        let expected = predictions.iter().map(|one| {
            if one.setting == *active {
                return one.clone();
            }
            let own = over_original(one);
            let gain = Estimate { mean: own.mean - of_active.mean, error: own.error.hypot(of_active.error) };
            let Estimate { mean: gain, error } = stated(&gain);
            Prediction { gain, error, ..one.clone() }
        });
        let mut expected: Vec<Prediction> = expected.collect();
        rank(&mut expected);
        Some(expected)
    }
}
