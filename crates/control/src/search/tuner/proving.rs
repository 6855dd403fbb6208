//! Applies the twin's choice at once and compares it with the baseline: one change instead of many turns.

use super::{Phase, Tuner};
use crate::ab_test::{CRITICAL_VALUE, Challenger, Estimate, MIN_GAIN, percent};
use crate::setting::Setting;
use crate::{Decision, Ruling, Target, Test, Verdict, Window};

/// Number of windows compared with the baseline. Choice: as `WINDOWS_FOR_TWIN` of the baseline; not varied.
const WINDOWS: usize = 8;

/// The comparison of the twin's choice with the baseline.
pub(super) struct Proving {
    pub best: Setting,
    pub windows: Vec<Window>,
    pub is_settling: bool,
}

impl Tuner {
    /// Applies the best setting of the trials in the twin.
    pub(super) fn prove(&mut self, remark: String, target: &dyn Target) -> Decision {
        let evidence = self.evidence();
        self.find_challengers();
        match self.load.challengers.pop_front() {
            Some(Challenger { setting: best, .. }) => {
                self.phase = Phase::Proving(Proving { best: best.clone(), windows: Vec::new(), is_settling: true });
                Decision::set(best, remark)
            }
            None => self.next_challenger(remark, target),
        }
        .with_evidence(evidence)
    }

    /// Ends a window under the twin's choice.
    pub(super) fn continue_proving(&mut self, window: &Window, target: &dyn Target) -> Decision {
        let Phase::Proving(Proving { best, windows, is_settling }) = &mut self.phase else { return Decision::keep("") };
        if std::mem::take(is_settling) {
            return Decision::keep("settling");
        }
        windows.push(window.clone());
        if windows.len() < WINDOWS {
            return Decision::keep("comparing with the original setting");
        }
        let (best, windows) = (best.clone(), std::mem::take(windows));
        if self.score(&windows).is_none_or(|rated| rated.starves()) {
            return self.next_challenger(format!("a stream starves under {best}"), target);
        }
        let now = Estimate::of_windows(windows.iter(), &self.preference);
        let Some((now, baseline)) = now.zip(self.load.baseline.as_ref()) else {
            return self.next_challenger(format!("{best}: no request completed"), target);
        };
        let gain = now.over(&baseline.score);
        let ruling = if gain.is_significant_gain(MIN_GAIN) { Ruling::Kept } else { Ruling::NotAdopted };
        let verdict = Verdict {
            setting: best.clone(),
            over: self.original.clone(),
            gain,
            critical: CRITICAL_VALUE,
            samples: [windows.len() as u32, baseline.windows],
            by: Test::BeforeAfter,
            ruling,
        };
        let measured =
            format!("{best} is {} than {} was, give or take {:.0}%", percent(gain.mean), self.original, 100.0 * gain.error);
        if ruling == Ruling::Kept {
            return self.keep(best, Some(gain), format!("{measured}: it stays")).with_verdict(verdict);
        }
        // An A/B test would disturb the load for minutes, for a small gain at best.
        self.keep(self.original.clone(), None, format!("{measured}; {} stays", self.original)).with_verdict(verdict)
    }
}
