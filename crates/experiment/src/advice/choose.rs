//! What to choose, from the predictions and the runs.

use control::Setting;
use control::controller::Promise;
use observe::merit::TOLERANCE;
use report::advice::Verdict;

use super::confirm::Tried;
use super::judgement::Judgement;
use super::observed::Observed;
use super::text::{leave_alone, text_of, text_with_error};

/// What to choose, from promises and runs.
pub(super) struct Choice<'a> {
    pub(super) in_force: &'a Setting,
    pub(super) judgement: &'a Judgement,
    pub(super) runs: &'a [Tried],
    /// What was not run is not chosen where things are run.
    pub(super) is_run: bool,
}

impl Choice<'_> {
    /// What is better than what is in force, if anything is.
    pub(super) fn best(&self) -> Option<&Promise> {
        self.best_of(|_| true)
    }

    pub(super) fn best_of(&self, counts: impl Fn(&Setting) -> bool) -> Option<&Promise> {
        if self.is_run {
            let good = self.runs.iter().filter(|tried| tried.is_better() && counts(&tried.promise.setting));
            return good.max_by(|a, b| a.gain.total_cmp(&b.gain)).map(|tried| &tried.promise);
        }
        self.judgement.others(self.in_force).find(|promise| counts(&promise.setting)).filter(|promise| promise.is_sure())
    }

    /// What is best, or comes nearest to being so.
    pub(super) fn shown(&self) -> Option<&Setting> {
        let run = || self.runs.first().map(|tried| &tried.promise);
        let promised = || self.judgement.others(self.in_force).next();
        self.best().or_else(run).or_else(promised).map(|promise| &promise.setting)
    }

    pub(super) fn verdict(&self) -> Verdict {
        let in_force = self.in_force;
        if let Some(best) = self.best() {
            let promised = text_with_error(best);
            let run = self.runs.iter().find(|tried| tried.promise.setting == best.setting);
            let why = match run.map(|tried| text_of(tried.gain)) {
                None => format!("it promises {promised}."),
                Some(gain) if best.is_sure() => format!("it promises {promised}, and gains {gain} when it is run."),
                Some(gain) => format!("it gains {gain} when it is run; the twin alone was not sure of it ({promised})."),
            };
            let text = format!("Use {} instead of {in_force}: {why}", best.setting);
            return Verdict { setting: best.setting.to_string(), is_change: true, text, cost: Vec::new() };
        }
        let Some(best) = self.judgement.others(in_force).next() else {
            return match self.judgement.reason() {
                Some(reason) => leave_alone(in_force, format!("there is no advice for any phase: {reason}.")),
                None => leave_alone(in_force, "every other candidate lets a stream starve.".to_owned()),
            };
        };
        let promised = text_with_error(best);
        let sure = self.runs.iter().find(|tried| tried.promise.is_sure());
        if let Some(tried) = sure {
            let came =
                if tried.p99_by_bound > 1.0 { "lets a stream starve".to_owned() } else { format!("gains {}", text_of(tried.gain)) };
            let promised = text_with_error(&tried.promise);
            return leave_alone(in_force, format!("{} promised {promised}, but {came} when it is run.", tried.promise.setting));
        }
        if self.judgement.overall.iter().all(|promise| promise.gain.abs() < TOLERANCE) {
            return leave_alone(in_force, format!("no candidate is {:.0}% better or worse by the twin.", 100.0 * TOLERANCE));
        }
        leave_alone(in_force, format!("nothing is sure to be better. The best other is {}: {promised}.", best.setting))
    }

    /// Who pays for the change.
    pub(super) fn cost(&self, verdict: &Verdict, observed: &Observed) -> Vec<String> {
        let tried = self.runs.iter().find(|tried| tried.promise.setting.to_string() == verdict.setting);
        self.judgement.cost(verdict, self.in_force, observed, tried)
    }
}
