//! A setting that was adopted is confirmed: the one before serves for a turn, and a gain that is not seen then was none.
//!
//! ```text
//! before │ tried │ before │ tried │ adopted …  │ before │ adopted …    it is confirmed, or the one before stays
//! before │ tried, a multiple in each half second … │ before │ adopted …    one turn was enough to adopt it
//! ```
//! A load that changes in the moment of a trial looks like a gain once; it does not also get worse in the moment of the way back.

use std::sync::Arc;

use block::Nanos;
use control::ab_test::Estimate;
use control::trials::{WORTHWHILE, is_adopted};
use control::{Decision, Ruling};

use super::arm::NEVER;
use super::trying::{ArmTrial, CONFIRM_AFTER, Origin, Unconfirmed};
use super::{TwinController, percent};

/// Gain that each half second of a turn must have over each one before for the setting to be adopted after that turn, as a difference of
/// scores. Derived: half more, between noise, of which a few percent are usual, and a doubled rate, which should not wait for a second turn.
const MULTIPLE: f64 = 0.405;
/// Error of the expectation of a setting that looks like a multiple, before it is confirmed. Derived: a factor of e either way, as
/// forecasts count no further.
const MULTIPLE_ERROR: f64 = 1.0;
/// Time before a turn that it is compared with. Choice: the length of a turn with its settling; a longer one holds more of a bursty load's
/// best moments; not varied.
const COMPARED: Nanos = Nanos::from_millis(3_000);
/// Number of confirmations that may be unsure. Choice: as many as turns that are needed to adopt a setting; not varied.
const MAX_UNSURE: u32 = 2;

impl TwinController {
    /// Whether the load was served better in each half second of this turn than in each one before the trial, by [`MULTIPLE`].
    pub(super) fn is_multiple(&self, trial: &ArmTrial, now: Nanos) -> bool {
        let scores = |from: Nanos, to: Nanos| -> Vec<f64> {
            let buckets = self.seen.buckets.between(from.as_secs_f64(), to.as_secs_f64());
            buckets.map(|bucket| bucket.score(&self.preference)).collect()
        };
        let before = scores(trial.measured_from.max(Nanos(trial.began.0.saturating_sub(COMPARED.0))), trial.began);
        let turn = scores(self.timeline.measured_from, now);
        let best_before = before.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let worst = turn.iter().copied().fold(f64::INFINITY, f64::min);
        let is_known = best_before.is_finite() && turn.len() >= 3 && before.len() >= 3;
        is_known && worst >= best_before + MULTIPLE
    }

    /// Forgets measurements and expectations from before the active arm was adopted as a multiple: should the load have changed in that moment,
    /// earlier windows would pass for the setting before.
    pub(super) fn expect_multiple(&mut self) {
        self.trying.trials.restart();
        self.trying.trials.expect([(self.active, Estimate { mean: 0.0, error: MULTIPLE_ERROR })]);
    }

    /// The arm to try in order to confirm the active one; `None` if it is confirmed, or was adopted a moment ago.
    pub(super) fn to_confirm(&self, now: Nanos) -> Option<usize> {
        let unconfirmed = self.trying.unconfirmed.filter(|one| one.due <= now)?;
        let over = self.with_active_read_ahead(unconfirmed.over);
        (over != self.active && self.arms[over].blocked_until <= now).then_some(over)
    }

    /// Ends a turn of the arm that served before the active one was adopted: the adopted one returns, confirmed or to be tried once more,
    /// or this arm stays.
    pub(super) fn end_confirmation(&mut self, trial: ArmTrial, now: Nanos) -> Decision {
        let is_measured = self.is_measured(&trial);
        let gain = self.trying.trials.posterior().gain(trial.from, self.active);
        let unconfirmed = self.trying.unconfirmed.take();
        let (adopted, before) = (self.arms[trial.from].setting.to_string(), self.setting().to_string());
        let verdict = |ruling| self.verdict_of_turns([trial.from, self.active], gain, ruling);
        let result = format!("{adopted} is {} ± {:.0}% than {before}", percent(gain.mean), 100.0 * gain.error);
        let is_from = |origin| unconfirmed.is_some_and(|one| one.origin == origin);
        if is_measured && (is_adopted(&gain) || is_from(Origin::EarlierRuns) && gain.mean > 0.0) {
            let verdict = verdict(Ruling::Kept);
            return self.end_trial(trial, now, format!("{result}, as before: back to it")).with_verdict(verdict);
        }
        let again = unconfirmed.filter(|one| gain.mean > WORTHWHILE && one.unsure < MAX_UNSURE);
        if let Some(one) = again {
            self.trying.unconfirmed = Some(Unconfirmed { due: now + CONFIRM_AFTER, unsure: one.unsure + 1, ..one });
            return self.end_trial(trial, now, format!("{result}, which is not sure: back to it for now"));
        }
        let verdict = is_measured.then(|| Arc::new(verdict(Ruling::TakenBack)));
        if is_from(Origin::LoadBefore) {
            self.stay_with_tried();
            return Decision { verdict, ..Decision::keep(format!("{before} stays: {result}, which served the load before")) };
        }
        self.arms[trial.from].blocked_until = NEVER;
        self.timeline.be_silent(now);
        self.stay_with_tried();
        Decision { verdict, ..Decision::keep(format!("{before} stays: {result}, which was seen before and is not now")) }
    }

    /// The loss by the arm that served before is so large that nothing more has to be measured: the adopted one returns.
    pub(super) fn confirm_by_loss(&mut self, trial: ArmTrial, now: Nanos) -> Decision {
        self.trying.unconfirmed = None;
        let gain = self.trying.trials.posterior().gain(trial.from, self.active);
        let (adopted, before) = (&self.arms[trial.from].setting, self.setting());
        let why = format!("{before} is far worse than {adopted} in its first moments, as before: back to {adopted}");
        let verdict = is_adopted(&gain).then(|| Arc::new(self.verdict_of_turns([trial.from, self.active], gain, Ruling::Kept)));
        Decision { verdict, ..self.end_trial(trial, now, why) }
    }
}
