//! What to choose, from the predictions and the runs.

use control::Setting;
use control::controller::Prediction;
use observe::merit::TOLERANCE;
use report::advice::Verdict;
use report::effects::Aimed;

use super::aim::ResolvedAim;
use super::confirm::ConfirmedRun;
use super::effects::shortfall;
use super::judgement::Judgement;
use super::linux;
use super::observed::Observed;
use super::text::{leave_alone, text_of, text_with_error};

/// The nearest to an aim is worth a change if it comes nearer than the active setting by this factor, as a logarithm: a tenth.
const NEARER: f64 = 0.1;

/// What to choose, from promises and runs.
pub(super) struct Choice<'a> {
    pub(super) active: &'a Setting,
    pub(super) observed: &'a Observed,
    pub(super) judgement: &'a Judgement,
    pub(super) runs: &'a [ConfirmedRun],
    /// What was not run is not chosen where things are run.
    pub(super) is_run: bool,
    /// What streams are to get, before anything else.
    pub(super) aims: &'a [ResolvedAim<'a>],
}

/// The part of a forecast's error that is a candidate's own: what is wrong with the device or the load, which all of them meet, is wrong for
/// all alike.
const OWN_ERROR: f64 = 0.5;

/// How much has to be changed: the scheduler first, then the number of tunables.
fn changes(setting: &Setting, active: &Setting) -> (bool, usize) {
    let is_other = setting.spec.name != active.spec.name;
    let from = if is_other { setting.spec.defaults() } else { active.values.clone() };
    let values = setting.values.iter().zip(&from).filter(|(value, from)| value != from).count();
    (is_other, values + setting.host.iter().filter(|one| !active.host.contains(one)).count())
}

/// A candidate under which no stream starves.
#[derive(Clone, Copy)]
struct Candidate<'a> {
    setting: &'a Setting,
    gain: f64,
    /// Gains that differ by less are not told apart.
    slack: f64,
    /// Whether it is better than the active setting as a whole, surely.
    is_better: bool,
    /// By how much it misses the aims.
    shortfall: f64,
}

impl<'a> Choice<'a> {
    /// The setting to use; `None` leaves the active one alone.
    pub(super) fn best(&self) -> Option<&'a Setting> {
        self.best_of(|_| true)
    }

    /// The same among what Linux has.
    pub(super) fn best_of_linux(&self) -> Option<&'a Setting> {
        self.best_of(linux::has)
    }

    fn best_of(&self, counts: impl Fn(&Setting) -> bool) -> Option<&'a Setting> {
        let candidates = self.candidates().into_iter().filter(|candidate| counts(candidate.setting));
        let is_met = |candidate: &Candidate| candidate.shortfall <= 0.0;
        let missed = self.missed();
        if missed <= 0.0 {
            return self.least_change(candidates.filter(|one| one.is_better && is_met(one)).collect());
        }
        let nearer: Vec<Candidate> = candidates.filter(|one| is_met(one) || one.shortfall < missed - NEARER).collect();
        let met = self.least_change(nearer.iter().copied().filter(is_met).collect());
        met.or_else(|| nearer.iter().min_by(|a, b| a.shortfall.total_cmp(&b.shortfall)).map(|one| one.setting))
    }

    /// Of those that are as good as the best, as far as that can be told, the one that changes least: so that the same load gets the same
    /// answer, however chance orders what is alike.
    fn least_change(&self, candidates: Vec<Candidate<'a>>) -> Option<&'a Setting> {
        let best = candidates.iter().max_by(|a, b| a.gain.total_cmp(&b.gain))?;
        let alike = candidates.iter().filter(|one| best.gain - one.gain <= best.slack);
        let least = alike
            .min_by(|a, b| changes(a.setting, self.active).cmp(&changes(b.setting, self.active)).then(b.gain.total_cmp(&a.gain)));
        least.map(|one| one.setting)
    }

    fn candidates(&self) -> Vec<Candidate<'a>> {
        let Choice { active, judgement, runs, is_run, .. } = *self;
        if is_run {
            let of_run = |run: &'a ConfirmedRun| Candidate {
                setting: &run.setting,
                gain: run.gain,
                slack: TOLERANCE,
                is_better: run.is_better(),
                shortfall: self.shortfall_of(&run.setting),
            };
            return runs.iter().filter(|run| !run.starves()).map(of_run).collect();
        }
        // What promises most for sure is the best, not what promises most.
        let of_promise = |promise: &'a Prediction| Candidate {
            setting: &promise.setting,
            gain: promise.sure_gain(),
            slack: TOLERANCE.max(OWN_ERROR * promise.error),
            is_better: promise.is_sure(),
            shortfall: self.shortfall_of(&promise.setting),
        };
        judgement.others(active).map(of_promise).collect()
    }

    /// By how much the active setting misses the aims.
    fn missed(&self) -> f64 {
        shortfall(self.aims.iter().map(|aim| (aim.aim, aim.observed(self.observed))))
    }

    fn shortfall_of(&self, setting: &Setting) -> f64 {
        shortfall(self.aims.iter().map(|aim| (aim.aim, self.value(aim, setting))))
    }

    /// The value of an aim's quantity under a setting; not a number where nothing tells it.
    fn value(&self, aim: &ResolvedAim, setting: &Setting) -> f64 {
        if setting == self.active {
            return aim.observed(self.observed);
        }
        match self.runs.iter().find(|run| run.setting == *setting) {
            Some(run) => aim.in_run(run),
            None => aim.forecast(self.judgement, setting, self.active, self.observed).unwrap_or(f64::INFINITY),
        }
    }

    /// What becomes of the aims.
    pub(super) fn aimed(&self) -> Vec<Aimed> {
        let to_use = self.best().unwrap_or(self.active);
        let one = |aim: &ResolvedAim| {
            let recommended = self.value(aim, to_use);
            Aimed {
                aim: aim.aim.to_string(),
                unit: aim.aim.unit().to_owned(),
                active: aim.observed(self.observed),
                recommended,
                is_met: aim.aim.shortfall(recommended) <= 0.0,
            }
        };
        self.aims.iter().map(one).collect()
    }

    /// What is best, or comes nearest to being so.
    pub(super) fn shown(&self) -> Option<&'a Setting> {
        let run = || self.runs.first().map(|confirmed| &confirmed.setting);
        let promised = || self.judgement.others(self.active).next().map(|promise| &promise.setting);
        self.best().or_else(run).or_else(promised)
    }

    pub(super) fn verdict(&self) -> Verdict {
        let active = self.active;
        let Some(best) = self.best() else { return self.no_change() };
        let promise = self.judgement.overall.iter().find(|promise| promise.setting == *best);
        let run = self.runs.iter().find(|confirmed| confirmed.setting == *best).map(|confirmed| text_of(confirmed.gain));
        let why = match (run, promise) {
            (None, None) => String::new(),
            (None, Some(promise)) => format!("predicted {}.", text_with_error(promise)),
            (Some(gain), None) => format!("measured {gain}."),
            (Some(gain), Some(promise)) if promise.is_sure() => {
                format!("predicted {}, measured {gain}.", text_with_error(promise))
            }
            (Some(gain), Some(promise)) => {
                format!("measured {gain}; the prediction alone was not sure ({}).", text_with_error(promise))
            }
        };
        let text = if self.missed() <= 0.0 {
            format!("Use {best} instead of {active}: {why}")
        } else if self.shortfall_of(best) <= 0.0 {
            format!("Use {best} instead of {active}: it meets {}. As a whole: {why}", self.named_aims())
        } else {
            format!(
                "Use {best} instead of {active}: no candidate meets {}, and this comes nearest. As a whole: {why}",
                self.named_aims()
            )
        };
        Verdict { setting: best.to_string(), is_change: true, text, cost: Vec::new() }
    }

    fn named_aims(&self) -> String {
        let named: Vec<String> = self.aims.iter().map(|aim| aim.aim.to_string()).collect();
        named.join(" and ")
    }

    fn no_change(&self) -> Verdict {
        let active = self.active;
        if !self.aims.is_empty() && self.missed() > 0.0 {
            return leave_alone(active, format!("no candidate meets {} or comes nearer to it.", self.named_aims()));
        }
        if let Some(run) = self.runs.iter().find(|run| run.is_better()) {
            let gain = text_of(run.gain);
            return leave_alone(active, format!("{} measured {gain}, but does not meet {}.", run.setting, self.named_aims()));
        }
        let Some(best) = self.judgement.others(active).next() else {
            return match self.judgement.reason() {
                _ if !self.runs.is_empty() => leave_alone(active, "nothing that was simulated in full is better.".to_owned()),
                Some(reason) => leave_alone(active, format!("there is no advice for any phase: {reason}.")),
                None => leave_alone(active, "a stream starves under every other candidate.".to_owned()),
            };
        };
        let promised = text_with_error(best);
        let sure = self.runs.iter().find_map(|run| Some((run, run.promise.as_ref().filter(|promise| promise.is_sure())?)));
        if let Some((confirmed, promise)) = sure {
            let came = if confirmed.starves() { "a stream starves".to_owned() } else { text_of(confirmed.gain) };
            let promised = text_with_error(promise);
            return leave_alone(active, format!("{} was predicted {promised}, but measured {came}.", confirmed.setting));
        }
        if self.judgement.overall.iter().all(|promise| promise.gain.abs() < TOLERANCE) {
            return leave_alone(active, format!("no candidate is {:.0}% better or worse by the twin.", 100.0 * TOLERANCE));
        }
        leave_alone(active, format!("nothing is sure to be better. The best other is {}: {promised}.", best.setting))
    }
}
