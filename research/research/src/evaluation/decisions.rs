//! Gains and costs of a controller's decisions, measured by runs of the same load under the settings before and after each decision.
//!
//! ```text
//! decisions of a run ─┬─▶ a trial: service lost in it and in the return, against the setting before
//!                     ├─▶ another setting stays: its gain in the rest of the phase, against the one before
//!                     └─▶ a forecast: the gain of each candidate in the rest of the phase, against the active setting
//! ```

use std::collections::BTreeMap;

use observe::Preference;
use observe::merit::TOLERANCE;
use observe::starvation;
use observe::starvation::Tails;
use statistics::normal::ONE_SIDED_95;
use statistics::percent;

use super::case::EvaluationCase;
use super::decided::Decided;
use super::run::Run;
use super::scores::of_phase;
use crate::report::evaluation::{DecisionKind, DecisionScores, DecisionSummary, ForecastScores};
use statistics::median;

/// Minimum remaining duration of a phase in seconds for a gain to be measured: a trial alone takes three.
const LEAST_REST_S: f64 = 4.0;
/// Seconds after a return that count as part of the trial, while requests queued during it complete.
const RETURN_S: f64 = 1.0;
/// The cost of a trial is given as a share of this duration, in seconds.
const FIRST_MINUTE_S: f64 = 60.0;
/// Gains are limited to a factor of 20, as the logarithm is infinite for a setting that serves nothing for a while.
const MAX_GAIN: f64 = 3.0;

/// Judges decisions of runs of one case.
pub struct Judge<'a> {
    case: &'a EvaluationCase,
    /// Runs under fixed settings, by the settings' names.
    fixed: &'a BTreeMap<String, &'a Run>,
    preference: &'a Preference,
    end_s: f64,
}

impl<'a> Judge<'a> {
    /// A judge with these runs under fixed settings.
    pub fn new(case: &'a EvaluationCase, fixed: &'a BTreeMap<String, &'a Run>, preference: &'a Preference) -> Judge<'a> {
        let end_s = fixed.values().map(|run| run.ended_s).fold(0.0, f64::max);
        Judge { case, fixed, preference, end_s }
    }

    /// The phase of the load at a time in seconds, and the end of that phase in seconds.
    fn phase_at(&self, at_s: f64) -> (usize, f64) {
        let ends = &self.case.phase_ends_s;
        let phase = ends.iter().position(|end_s| at_s < *end_s).unwrap_or(ends.len().saturating_sub(1));
        (phase, ends.get(phase).map_or(self.end_s, |end_s| end_s.min(self.end_s)))
    }

    fn score(&self, run: &Run, from_s: f64, to_s: f64) -> f64 {
        run.served(from_s, to_s).map_or(f64::NEG_INFINITY, |served| served.score(self.preference))
    }

    /// Gain of a fixed setting over another in the rest of the phase, as a difference of scores. `None` if one of them was not run, little time is
    /// left, or neither serves anything.
    fn gain(&self, to: &str, from: &str, at_s: f64) -> Option<f64> {
        let (to, from) = (self.fixed.get(to)?, self.fixed.get(from)?);
        let (_, end_s) = self.phase_at(at_s);
        let score = |run: &Run| self.score(run, at_s, end_s);
        let gain = score(to) - score(from);
        (end_s - at_s >= LEAST_REST_S && !gain.is_nan()).then(|| gain.clamp(-MAX_GAIN, MAX_GAIN))
    }

    /// Whether a fixed setting starves a stream of the phase that another one serves.
    fn starves(&self, to: &str, from: &str, at_s: f64) -> bool {
        let (phase, _) = self.phase_at(at_s);
        let tails = |run: &&Run| -> Tails { of_phase(self.case, &run.tails, Some(phase)) };
        self.fixed.get(to).zip(self.fixed.get(from)).is_some_and(|(to, from)| starvation::starves(&tails(to), &tails(from)))
    }

    /// Service lost by `run` between two times, in seconds of service under `from`.
    fn lost_s(&self, run: &Run, from: &str, from_s: f64, to_s: f64) -> Option<f64> {
        let fixed = self.fixed.get(from)?;
        let gain = self.score(run, from_s, to_s) - self.score(fixed, from_s, to_s);
        (!gain.is_nan()).then(|| -gain.clamp(-MAX_GAIN, MAX_GAIN).exp_m1() * (to_s - from_s))
    }

    /// Scores of each decision and forecast of a run.
    pub fn judge(&self, run: &Run) -> (Vec<DecisionScores>, Vec<ForecastScores>) {
        let Decided { changes, forecasts } = &run.decided;
        let decisions = changes.iter().enumerate().map(|(place, one)| {
            let is_change = one.kind == DecisionKind::Change;
            let cost_percent = (one.kind == DecisionKind::Trial).then(|| {
                // A trial ends with the next decision: a return, which takes time to settle, or another permanent setting.
                let next = changes.get(place + 1);
                let settles_s = if next.is_some_and(|next| next.to == one.from) { RETURN_S } else { 0.0 };
                let end_s = next.map_or(self.end_s, |next| next.at_s + settles_s).min(self.end_s);
                Some(100.0 * self.lost_s(run, &one.from, one.at_s, end_s)? / FIRST_MINUTE_S)
            });
            DecisionScores {
                at_s: one.at_s,
                kind: one.kind,
                from: one.from.clone(),
                to: one.to.clone(),
                reason: one.why.clone(),
                expected_gain_percent: one.expected_gain.map(percent),
                true_gain_percent: self.gain(&one.to, &one.from, one.at_s).filter(|_| is_change).map(percent),
                starves: is_change && self.starves(&one.to, &one.from, one.at_s),
                cost_percent: cost_percent.flatten(),
            }
        });
        let forecasts = forecasts.iter().flat_map(|(at_s, active, evidence)| {
            let others = evidence.candidates.iter().filter(move |one| one.setting.to_string() != *active);
            others.filter_map(move |one| {
                let setting = one.setting.to_string();
                Some(ForecastScores {
                    at_s: *at_s,
                    true_gain_percent: percent(self.gain(&setting, active, *at_s)?),
                    setting,
                    over: active.clone(),
                    gain_percent: percent(one.gain),
                    error_percent: 100.0 * one.error,
                })
            })
        });
        (decisions.collect(), forecasts.collect())
    }
}

/// Summary over all decisions and forecasts.
pub fn summary<'a>(all: impl Iterator<Item = (&'a [DecisionScores], &'a [ForecastScores])>) -> DecisionSummary {
    let (decisions, forecasts): (Vec<_>, Vec<_>) = all.unzip();
    let decisions: Vec<&DecisionScores> = decisions.into_iter().flatten().collect();
    // The logarithm is also infinite for a setting that is forecast to serve nothing.
    let logarithm = |percent: f64| statistics::gain::of_percent(percent).clamp(-MAX_GAIN, MAX_GAIN);
    let gains: Vec<(f64, bool)> =
        decisions.iter().filter_map(|one| Some((logarithm(one.true_gain_percent?), one.starves))).collect();
    let below = |least: f64| gains.iter().filter(|(gain, starves)| *gain < least || *starves).count() as u64;
    let costs: Vec<f64> = decisions.iter().filter_map(|one| one.cost_percent).collect();
    // Forecast gain, its standard error, and the measured gain.
    let forecasts: Vec<(f64, f64, f64)> = forecasts
        .into_iter()
        .flatten()
        .map(|one| (logarithm(one.gain_percent), one.error_percent / 100.0, logarithm(one.true_gain_percent)))
        .collect();
    let within = forecasts.iter().filter(|(gain, error, measured)| (measured - gain).abs() <= ONE_SIDED_95 * error).count();
    DecisionSummary {
        changes: gains.len() as u64,
        worse: below((1.0 - TOLERANCE).ln()),
        below: below(0.0),
        trials: costs.len() as u64,
        trial_cost_median_percent: median(costs),
        forecasts: forecasts.len() as u64,
        within_percent: (!forecasts.is_empty()).then(|| 100.0 * within as f64 / forecasts.len() as f64),
        slope: slope(forecasts.iter().map(|(gain, _, measured)| (*gain, *measured))),
    }
}

/// Slope of a least-squares line; `None` if all x are equal.
fn slope(points: impl Iterator<Item = (f64, f64)> + Clone) -> Option<f64> {
    let count = points.clone().count() as f64;
    let (x, y) = points.clone().fold((0.0, 0.0), |(x, y), point| (x + point.0 / count, y + point.1 / count));
    let (both, squares) = points.fold((0.0, 0.0), |(both, squares), point| {
        let from_mean = point.0 - x;
        (both + from_mean * (point.1 - y), squares + from_mean * from_mean)
    });
    (squares > 0.0).then(|| both / squares)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::*;

    #[test]
    fn the_figures_are_of_changes_trials_and_forecasts() {
        let decision = |kind, true_gain_percent, cost_percent, starves| DecisionScores {
            at_s: 1.0,
            kind,
            from: "mq-deadline".to_owned(),
            to: "bfq".to_owned(),
            reason: String::new(),
            expected_gain_percent: None,
            true_gain_percent,
            starves,
            cost_percent,
        };
        let forecast = |gain_percent, true_gain_percent| ForecastScores {
            at_s: 1.0,
            setting: "bfq".to_owned(),
            over: "mq-deadline".to_owned(),
            gain_percent,
            error_percent: 5.0,
            true_gain_percent,
        };
        let decisions = [
            decision(DecisionKind::Change, Some(10.0), None, false),
            decision(DecisionKind::Change, Some(-1.0), None, false),
            decision(DecisionKind::Change, Some(-3.0), None, false),
            decision(DecisionKind::Change, Some(50.0), None, true),
            decision(DecisionKind::Change, None, None, false),
            decision(DecisionKind::Trial, None, Some(1.0), false),
            decision(DecisionKind::Trial, None, Some(3.0), false),
            decision(DecisionKind::Return, None, None, false),
        ];
        let forecasts = [forecast(0.0, 0.0), forecast(10.0, 20.0)];
        let summary = summary([(&decisions[..], &forecasts[..])].into_iter());
        assert_eq!((summary.changes, summary.worse, summary.below), (4, 2, 3));
        assert_eq!((summary.trials, summary.trial_cost_median_percent), (2, Some(2.0)));
        assert_eq!((summary.forecasts, summary.within_percent), (2, Some(50.0)));
        assert!((summary.slope.unwrap() - 1.2f64.ln() / 1.1f64.ln()).abs() < 1e-9, "{summary:?}");
        let nothing = [forecast(0.0, 0.0), forecast(-100.0, -90.0)];
        let slope = super::summary([(&decisions[..], &nothing[..])].into_iter()).slope.unwrap();
        assert!((0.7..0.8).contains(&slope), "a setting that serves nothing counts as a factor of 20: {slope}");
    }
}
