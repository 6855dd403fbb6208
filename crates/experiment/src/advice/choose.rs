//! What to choose, from the predictions and the runs.

use control::Setting;
use control::controller::Prediction;
use observe::merit::TOLERANCE;
use report::advice::Verdict;

use super::confirm::ConfirmedRun;
use super::judgement::Judgement;
use super::observed::Observed;
use super::text::{leave_alone, text_of, text_with_error};

/// What to choose, from promises and runs.
pub(super) struct Choice<'a> {
    pub(super) active: &'a Setting,
    pub(super) judgement: &'a Judgement,
    pub(super) runs: &'a [ConfirmedRun],
    /// What was not run is not chosen where things are run.
    pub(super) is_run: bool,
}

impl Choice<'_> {
    /// The best candidate if it is better than the active setting.
    pub(super) fn best(&self) -> Option<&Prediction> {
        self.best_of(|_| true)
    }

    pub(super) fn best_of(&self, counts: impl Fn(&Setting) -> bool) -> Option<&Prediction> {
        if self.is_run {
            let good = self.runs.iter().filter(|confirmed| confirmed.is_better() && counts(&confirmed.promise.setting));
            return good.max_by(|a, b| a.gain.total_cmp(&b.gain)).map(|confirmed| &confirmed.promise);
        }
        self.judgement.others(self.active).find(|promise| counts(&promise.setting)).filter(|promise| promise.is_sure())
    }

    /// What is best, or comes nearest to being so.
    pub(super) fn shown(&self) -> Option<&Setting> {
        let run = || self.runs.first().map(|confirmed| &confirmed.promise);
        let promised = || self.judgement.others(self.active).next();
        self.best().or_else(run).or_else(promised).map(|promise| &promise.setting)
    }

    pub(super) fn verdict(&self) -> Verdict {
        let active = self.active;
        if let Some(best) = self.best() {
            let promised = text_with_error(best);
            let run = self.runs.iter().find(|confirmed| confirmed.promise.setting == best.setting);
            let why = match run.map(|confirmed| text_of(confirmed.gain)) {
                None => format!("predicted {promised}."),
                Some(gain) if best.is_sure() => format!("predicted {promised}, measured {gain}."),
                Some(gain) => format!("measured {gain}; the prediction alone was not sure ({promised})."),
            };
            let text = format!("Use {} instead of {active}: {why}", best.setting);
            return Verdict { setting: best.setting.to_string(), is_change: true, text, cost: Vec::new() };
        }
        let Some(best) = self.judgement.others(active).next() else {
            return match self.judgement.reason() {
                Some(reason) => leave_alone(active, format!("there is no advice for any phase: {reason}.")),
                None => leave_alone(active, "a stream starves under every other candidate.".to_owned()),
            };
        };
        let promised = text_with_error(best);
        let sure = self.runs.iter().find(|confirmed| confirmed.promise.is_sure());
        if let Some(confirmed) = sure {
            let came = if confirmed.p99_by_bound > 1.0 { "a stream starves".to_owned() } else { text_of(confirmed.gain) };
            let promised = text_with_error(&confirmed.promise);
            return leave_alone(active, format!("{} was predicted {promised}, but measured {came}.", confirmed.promise.setting));
        }
        if self.judgement.overall.iter().all(|promise| promise.gain.abs() < TOLERANCE) {
            return leave_alone(active, format!("no candidate is {:.0}% better or worse by the twin.", 100.0 * TOLERANCE));
        }
        leave_alone(active, format!("nothing is sure to be better. The best other is {}: {promised}.", best.setting))
    }

    /// Who pays for the change.
    pub(super) fn cost(&self, verdict: &Verdict, observed: &Observed) -> Vec<String> {
        let confirmed = self.runs.iter().find(|confirmed| confirmed.promise.setting.to_string() == verdict.setting);
        self.judgement.cost(verdict, self.active, observed, confirmed)
    }
}
