//! Measures the active setting, and verifies a change.

use std::sync::Arc;

use block::Nanos;
use control::ab_test::{CRITICAL_VALUE, Estimate};
use control::{Decision, Ruling, Test, Verdict};
use observe::WindowOutcome;
use observe::merit::Scored;
use observe::performance::Performance;
use observe::window::depth;

use super::arm::{Arm, Measured, NEVER, is_significant_gain};
use super::{TwinController, WINDOW, percent};
use crate::score_buckets::BUCKET;

/// Minimum and maximum time over which a change is judged, in seconds. Choice: a first judgement soon after harm, a last one by the time
/// that [`super::MIN_LOAD_S`] expects of a load; not varied.
const JUDGED_S: (f64, f64) = (2.0, 8.0);
/// Minimum number of buckets per jackknife block; more if there would be more than [`MAX_BLOCKS`] blocks. Derived: a second of [`BUCKET`].
const BLOCK: usize = (Nanos::from_millis(1_000).0 / BUCKET.0) as usize;
/// Maximum number of jackknife blocks. Choice: processor time in proportion to the number, every second (commit a9de788d), against the
/// precision of the error; not varied.
const MAX_BLOCKS: usize = 30;

impl TwinController {
    /// The score of the active setting since it became active under the load, with its variance; `None` if no request completed.
    fn measure(&self, now: Nanos, tags: u32) -> Option<Measured> {
        let buckets: Vec<&WindowOutcome> =
            self.seen.buckets.between(self.timeline.measured_from.as_secs_f64(), now.as_secs_f64()).collect();
        let score = |buckets: &mut dyn Iterator<Item = &WindowOutcome>| {
            Performance::of(buckets).map(|served| served.score(&self.preference))
        };
        let whole = score(&mut buckets.iter().copied())?;
        let block = BLOCK.max(buckets.len().div_ceil(MAX_BLOCKS));
        let without = |left_out: usize| {
            let others = buckets.iter().enumerate().filter(|(number, _)| number / block != left_out);
            score(&mut others.map(|(_, bucket)| *bucket))
        };
        // The jackknife (Quenouille, Tukey): the variance of scores without one block each.
        let scores: Vec<f64> = (0..buckets.len().div_ceil(block)).filter_map(without).filter(|score| score.is_finite()).collect();
        let count = scores.len() as f64;
        let mean = scores.iter().sum::<f64>() / count;
        let squares: f64 = scores.iter().map(|score| (score - mean).powi(2)).sum();
        // With a single block, a coefficient of variation of response times of 1 is assumed.
        let requests: u64 = buckets.iter().map(|bucket| bucket.requests).sum();
        let variance = if scores.len() < 2 { 1.0 / requests.max(1) as f64 } else { (count - 1.0) / count * squares };
        let scored = Scored::of(whole, depth(buckets.iter().copied()), tags);
        whole.is_finite().then_some(Measured { scored, variance, buckets: buckets.len() as u32 })
    }

    /// Decides by measured scores: back to a setting with a significantly better score, or keeps the active one while it is being verified.
    /// `None` if a forecast may decide.
    pub(super) fn compare(&mut self, now: Nanos, tags: u32) -> Option<Decision> {
        if let Some(change) = self.read_ahead.change
            && self.are_files_reopened(now, change)
        {
            self.read_ahead.change = None;
            self.restart_measurement(now);
            self.seen.streams.restart_measurement();
            return Some(Decision::keep(format!("files are read ahead by {} KiB from now on", change.1)));
        }
        let seconds = (now - self.timeline.measured_from).as_secs_f64();
        let pending = self.phase.pending().cloned().filter(|pending| self.is_comparable_to(&self.arms[pending.from]));
        let measured = self.measure(now, tags);
        let latest = measured.or(self.arms[self.active].measured);
        for arm in 0..self.arms.len() {
            // Arms that measurements cannot distinguish from the active one get its score.
            if arm == self.active || !self.is_comparable_to(&self.arms[arm]) {
                self.arms[arm].measured = latest;
            }
        }
        self.phase.pending()?;
        let Some(measured) = measured.filter(|_| seconds >= JUDGED_S.0) else {
            return pending.map(|_| Decision::keep(format!("measuring {}", self.setting())));
        };
        let can_be = |arm: usize, other: &Arm| arm != self.active && other.blocked_until != NEVER && self.is_comparable_to(other);
        let others = self.arms.iter().enumerate().filter(|(arm, other)| can_be(*arm, other));
        let gains = others.filter_map(|(arm, other)| {
            let (gain, error) = other.measured?.over(&measured, &self.preference);
            let is_missed = pending
                .as_ref()
                .filter(|pending| pending.from == arm)
                .is_some_and(|pending| seconds >= JUDGED_S.1 && gain > 0.0 || pending.prediction.with(-gain, error) < 0.0);
            (is_significant_gain(gain, error) || is_missed).then_some((arm, gain))
        });
        if let Some((arm, gain)) = gains.max_by(|a, b| a.1.total_cmp(&b.1)) {
            let predicted = pending.map_or(String::new(), |pending| {
                let actual = self.arms[pending.from].measured.map_or(0.0, |from| measured.over(&from, &self.preference).0);
                self.model.track_record.note(&pending.prediction, actual);
                format!(", predicted {}", percent(pending.prediction.gain))
            });
            let (was, is) = (self.setting().to_string(), self.arms[arm].setting.to_string());
            self.arms[self.active].blocked_until = now + (now - self.present.load.from);
            self.phase.take_pending();
            self.timeline.next_forecast = now + WINDOW;
            let why = format!("{was} is {} than {is}{predicted}: back to {is}", percent(-gain));
            let verdict = self.verdict_over(arm, &measured, Ruling::TakenBack);
            return Some(Decision { verdict, ..self.change_to(now, arm, why) });
        }
        let pending = pending?;
        let (gain, error) = measured.over(&self.arms[pending.from].measured?, &self.preference);
        let result = format!(
            "{} ± {:.0}% than {}, predicted {}",
            percent(gain),
            100.0 * error,
            self.arms[pending.from].setting,
            percent(pending.prediction.gain)
        );
        // A gain far below the prediction requires another forecast.
        let is_less = gain > 0.0 && gain + error < pending.prediction.sure_gain();
        if gain > CRITICAL_VALUE * error || is_less || seconds >= JUDGED_S.1 {
            self.model.track_record.note(&pending.prediction, gain);
            self.phase.take_pending();
            self.timeline.next_forecast = if is_less { now } else { self.timeline.next_forecast };
            return (!is_less).then(|| Decision {
                verdict: self.verdict_over(pending.from, &measured, Ruling::Kept),
                ..Decision::keep(format!("{} stays: {result}", self.setting()))
            });
        }
        Some(Decision::keep(format!("{} is {result}: not significant yet", self.setting())))
    }

    /// The verdict on the active setting, with this score, over the latest score of another; `None` if that was not measured.
    fn verdict_over(&self, arm: usize, measured: &Measured, ruling: Ruling) -> Option<Arc<Verdict>> {
        let other = self.arms[arm].measured.as_ref()?;
        let (mean, error) = measured.over(other, &self.preference);
        Some(Arc::new(Verdict {
            setting: self.setting().clone(),
            over: self.arms[arm].setting.clone(),
            gain: Estimate { mean, error },
            critical: CRITICAL_VALUE,
            samples: [measured.buckets, other.buckets],
            by: Test::BeforeAfter,
            ruling,
        }))
    }

    /// Records that the change that was being verified was harmful.
    pub(super) fn note_harm(&mut self) {
        if let Some(pending) = self.phase.take_pending() {
            self.model.track_record.note_harm(&pending.prediction);
        }
    }
}
