//! Predictions with error bars, and their ranking.

use control::Setting;
use control::controller::Prediction;
use observe::Preference;
use observe::starvation;
use observe::starvation::Tails;

use crate::recording::ObservedRequest;
use crate::trial::{TrialLength, TrialResult};

/// Relative error of a gain if the twin has no replay error: a model error affects all settings alike. Source: measured on the training
/// world by `seekwise-lab twin --learn-world --fit-device` (root mean square error 0.25 with replay errors of 2 to 5%, commit 18b59db7).
pub(crate) const GAIN_ERROR: f64 = 0.25;
/// Factor on the replay error, which is added to [`GAIN_ERROR`]. Source: as [`GAIN_ERROR`].
const REPLAY_ERROR_SHARE: f64 = 2.0;
/// Error of a gain of 0: chance. Choice: half of [`merit::TOLERANCE`], below which settings count as equal; 0.015 before commit 3b9a2787.
const MIN_ERROR: f64 = 0.01;
/// Sampling error of means as a fraction of their standard error, if both settings have the same random draws. Choice: common random
/// numbers cancel most of the sampling error of a difference; 0.5 before commit 22cf8611.
const SAME_DRAWS: f64 = 0.2;
/// Streams with fewer requests in a trial are not judged by their waits. Choice: the longest of four waits is no p99; a larger number would
/// miss starvation in short trials; not varied.
const MIN_JUDGED_REQUESTS: u64 = 5;

/// The reference for the trials of candidates.
pub(super) struct Comparison<'a> {
    pub preference: &'a Preference,
    /// The trial of the active setting.
    pub active: &'a TrialResult,
    /// Tails of the streams under the original setting.
    pub original: &'a Tails,
    pub replay_error: f64,
    /// Sampling error of a score.
    pub chance: f64,
    /// See [`judged_requests`].
    pub judged_requests: u64,
    /// Factor on error bars.
    pub error_scale: f64,
}

/// The score of a trial; minus infinity if no request completed.
pub(super) fn score(result: &TrialResult, preference: &Preference) -> f64 {
    result.calls.map_or(f64::NEG_INFINITY, |calls| calls.score(preference))
}

impl Comparison<'_> {
    /// The prediction of a setting from its trial.
    pub fn predict(&self, setting: &Setting, result: &TrialResult) -> Prediction {
        let gain = score(result, self.preference) - score(self.active, self.preference);
        let replay_error = REPLAY_ERROR_SHARE * self.replay_error.abs();
        let error = self.error_scale * (MIN_ERROR + gain.abs() * (GAIN_ERROR + replay_error) + self.chance.min(gain.abs()));
        let calls = result.calls;
        Prediction {
            setting: setting.clone(),
            throughput: calls.map_or(0.0, |calls| calls.throughput.into()),
            response_s: calls.map_or(f64::INFINITY, |calls| calls.response_s.into()),
            p99_by_bound: (1.0 + replay_error) * starvation::max_wait_ratio_of(&result.tails, self.original, self.judged_requests),
            gain,
            error,
        }
    }
}

/// Sorts predictions by decreasing gain, with those that starve a stream after all others.
pub(crate) fn rank(predictions: &mut [Prediction]) {
    predictions.sort_by(|a, b| a.starves().cmp(&b.starves()).then(b.gain.total_cmp(&a.gain)));
}

/// The prediction with the error bar of a twin whose replay error is larger by `replay_error`.
pub(crate) fn widened(prediction: Prediction, replay_error: f64) -> Prediction {
    Prediction { error: prediction.error + REPLAY_ERROR_SHARE * replay_error * prediction.gain.abs(), ..prediction }
}

/// Repeats the trial of the best prediction until the best one has been repeated. The effect of a live switch can depend on its timing: bfq
/// merges queues or not depending on which stream comes first. A single trial then shows a possible outcome, not the expected one.
pub(super) fn repeat_best(predictions: &mut [Prediction], active: &Setting, mut again: impl FnMut(&Setting) -> Option<Prediction>) {
    let mut repeated: Vec<Setting> = Vec::new();
    loop {
        let sure_ones = predictions.iter_mut().filter(|one| one.setting != *active && one.is_sure());
        let best = sure_ones.min_by(|a, b| a.surest_first(b));
        let Some(first) = best.filter(|one| !repeated.contains(&one.setting)) else { break };
        repeated.push(first.setting.clone());
        if let Some(second) = again(&first.setting) {
            *first = mean_of_both(first, &second);
        }
    }
    rank(predictions);
}

/// The mean of two predictions for one setting. Its error includes their difference.
fn mean_of_both(first: &Prediction, second: &Prediction) -> Prediction {
    let mean = |of: fn(&Prediction) -> f64| (of(first) + of(second)) / 2.0;
    Prediction {
        setting: first.setting.clone(),
        throughput: mean(|one| one.throughput),
        response_s: mean(|one| one.response_s),
        p99_by_bound: first.p99_by_bound.max(second.p99_by_bound),
        gain: mean(|one| one.gain),
        error: mean(|one| one.error).hypot((first.gain - second.gain) / 2.0),
    }
}

/// Minimum number of requests with which a stream is judged by its p99 in a trial of this length, from a rate of [`starvation::LEAST_REQUESTS`]
/// per minute.
pub(crate) fn judged_requests(length: TrialLength) -> u64 {
    let judged = (starvation::LEAST_REQUESTS as f64 * length.judged.as_secs_f64() / 60.0) as u64;
    judged.clamp(MIN_JUDGED_REQUESTS, starvation::LEAST_REQUESTS)
}

/// Sampling error of a score in a trial that repeats these requests.
pub(super) fn error_by_chance<'a>(seen: impl Iterator<Item = &'a ObservedRequest>, requests: usize) -> f64 {
    SAME_DRAWS * variation(seen) * (requests as f64).sqrt().recip()
}

/// Coefficient of variation of response times, at least 1: with many cache hits, a few requests determine the mean.
fn variation<'a>(seen: impl Iterator<Item = &'a ObservedRequest>) -> f64 {
    let (mut number, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for seen in seen.filter(|seen| !seen.is_flush()) {
        let response_s = (seen.completed - seen.request.arrival).as_secs_f64();
        number += 1.0;
        sum += response_s;
        squares += response_s * response_s;
    }
    (number * squares / (sum * sum) - 1.0).sqrt().max(1.0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::*;

    #[test]
    fn the_best_prediction_is_repeated_and_not_chosen_for_a_single_trial() {
        let prediction = |setting: &str, gain: f64| {
            let setting = Setting::parse(setting).unwrap();
            Prediction { setting, throughput: 1.0, response_s: 1.0, p99_by_bound: 0.0, gain, error: 0.05 }
        };
        let mut predictions =
            vec![prediction("cfq", 0.6), prediction("noop", 0.2), prediction("sstf", 0.19), prediction("deadline", 0.0)];
        let active = predictions[3].setting.clone();
        let mut repeated = Vec::new();
        repeat_best(&mut predictions, &active, |setting| {
            repeated.push(setting.to_string());
            Some(prediction(&setting.to_string(), if setting.spec.name == "cfq" { -0.04 } else { 0.22 }))
        });
        assert_eq!(repeated, ["cfq", "noop"]);
        let of = |name: &str| predictions.iter().find(|one| one.setting.spec.name == name).unwrap();
        assert!((of("cfq").gain - 0.28).abs() < 1e-9 && of("cfq").error > 0.32, "{predictions:?}");
        assert!((of("noop").gain - 0.21).abs() < 1e-9 && of("noop").error < 0.06, "{predictions:?}");
        assert_eq!(of("sstf").gain, 0.19, "it would not be chosen");
    }
}
