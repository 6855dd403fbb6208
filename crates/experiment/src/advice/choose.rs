//! Chooses a setting from predictions and full runs.

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

/// A setting that misses an aim is worth a change if its shortfall, a logarithm, is smaller than that of the active setting by this: a
/// tenth.
const NEARER: f64 = 0.1;

/// The choice of a setting, from predictions and runs.
pub(super) struct Choice<'a> {
    pub(super) active: &'a Setting,
    pub(super) observed: &'a Observed,
    pub(super) judgement: &'a Judgement,
    pub(super) runs: &'a [ConfirmedRun],
    /// Whether candidates were run. If so, only these are chosen.
    pub(super) is_run: bool,
    /// Aims of single streams, which come first.
    pub(super) aims: &'a [ResolvedAim<'a>],
}

/// Share of a prediction's error that is the candidate's own. The rest, wrong device or load, affects all candidates alike.
const OWN_ERROR: f64 = 0.5;

/// Amount of change, for ordering: whether the scheduler changes, then the number of tunables that do.
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
    /// Gains closer than this to each other count as equal.
    slack: f64,
    /// Whether it is significantly better than the active setting as a whole.
    is_better: bool,
    /// By how much it misses the aims; 0 if it meets them.
    shortfall: f64,
}

impl<'a> Choice<'a> {
    /// The setting to use; `None` leaves the active one alone.
    pub(super) fn best(&self) -> Option<&'a Setting> {
        self.best_of(|_| true)
    }

    /// As [`best`](Choice::best), limited to schedulers of mainline Linux.
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

    /// Of the settings that are as good as the best, within the error, the one that changes least. This keeps the answer stable where
    /// chance decides the order of equals.
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
        // Ranked by the gain less its error, not by the expected gain.
        let of_prediction = |prediction: &'a Prediction| Candidate {
            setting: &prediction.setting,
            gain: prediction.sure_gain(),
            slack: TOLERANCE.max(OWN_ERROR * prediction.error),
            is_better: prediction.is_sure(),
            shortfall: self.shortfall_of(&prediction.setting),
        };
        judgement.others(active).map(of_prediction).collect()
    }

    /// By how much the active setting misses the aims; 0 if it meets them.
    fn missed(&self) -> f64 {
        shortfall(self.aims.iter().map(|aim| (aim.aim, aim.observed(self.observed))))
    }

    fn shortfall_of(&self, setting: &Setting) -> f64 {
        shortfall(self.aims.iter().map(|aim| (aim.aim, self.value(aim, setting))))
    }

    /// The value of an aim's quantity under a setting: as run, else as forecast; the worst if there is neither.
    fn value(&self, aim: &ResolvedAim, setting: &Setting) -> f64 {
        if setting == self.active {
            return aim.observed(self.observed);
        }
        match self.runs.iter().find(|run| run.setting == *setting) {
            Some(run) => aim.in_run(run),
            None => aim.forecast(self.judgement, setting, self.active, self.observed).unwrap_or(aim.aim.worst()),
        }
    }

    /// The values of the aims under the active and the recommended setting.
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

    /// The setting to report on: the best, else the first that was run, else the best prediction.
    pub(super) fn shown(&self) -> Option<&'a Setting> {
        let run = || self.runs.first().map(|confirmed| &confirmed.setting);
        let predicted = || self.judgement.others(self.active).next().map(|prediction| &prediction.setting);
        self.best().or_else(run).or_else(predicted)
    }

    pub(super) fn verdict(&self) -> Verdict {
        let active = self.active;
        let Some(best) = self.best() else { return self.no_change() };
        let prediction = self.judgement.overall.iter().find(|prediction| prediction.setting == *best);
        let run = self.runs.iter().find(|confirmed| confirmed.setting == *best).map(|confirmed| text_of(confirmed.gain));
        let why = match (run, prediction) {
            (None, None) => String::new(),
            (None, Some(prediction)) => format!("predicted {}.", text_with_error(prediction)),
            (Some(gain), None) => format!("simulated in full {gain}."),
            (Some(gain), Some(prediction)) if prediction.is_sure() => {
                format!("predicted {}, simulated in full {gain}.", text_with_error(prediction))
            }
            (Some(gain), Some(prediction)) => {
                format!("simulated in full {gain}; the prediction alone was not sure ({}).", text_with_error(prediction))
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
            return leave_alone(
                active,
                format!("{} gains {gain} when simulated in full, but does not meet {}.", run.setting, self.named_aims()),
            );
        }
        let Some(best) = self.judgement.others(active).next() else {
            return match self.judgement.reason() {
                _ if !self.runs.is_empty() => leave_alone(active, "nothing that was simulated in full is better.".to_owned()),
                Some(reason) => leave_alone(active, format!("there is no advice for any phase: {reason}.")),
                None => leave_alone(active, "a stream starves under every other candidate.".to_owned()),
            };
        };
        let predicted = text_with_error(best);
        let sure = self.runs.iter().find_map(|run| Some((run, run.prediction.as_ref().filter(|prediction| prediction.is_sure())?)));
        if let Some((confirmed, prediction)) = sure {
            let came = if confirmed.starves() { "a stream starves".to_owned() } else { text_of(confirmed.gain) };
            let predicted = text_with_error(prediction);
            return leave_alone(active, format!("{} was predicted {predicted}, but simulated in full {came}.", confirmed.setting));
        }
        if self.judgement.overall.iter().all(|prediction| prediction.gain.abs() < TOLERANCE) {
            return leave_alone(active, format!("no candidate is {:.0}% better or worse by the twin.", 100.0 * TOLERANCE));
        }
        leave_alone(active, format!("nothing is sure to be better. The best other is {}: {predicted}.", best.setting))
    }
}
