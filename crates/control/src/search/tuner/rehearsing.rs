//! Searches in the twin: for the setting to apply, or for those to try first on the target.

use super::known::best_of_each_scheduler_first;
use super::{Phase, RehearsalUse, SearchTarget, Tuner, WatchedWindow};
use crate::search::ioperf::Pattern;
use crate::setting::Setting;
use crate::{Decision, Target};
use observe::performance::TrialScore;

/// Number of trials in the twin for a ranking. Choice: more cost CPU time; as the default of `trials`; not varied.
const RANKING_TRIALS: u32 = 64;
/// Maximum number of ranked settings in the initial population on the target. Derived: the default generation of eight, less the original
/// setting.
const MAX_RANKED: usize = 7;

impl Tuner {
    /// Starts the search, in the twin if that can reproduce the load. If the twin needs more windows and may have them, watching continues.
    pub(super) fn begin_search(
        &mut self,
        search_target: SearchTarget,
        windows: Option<Vec<WatchedWindow>>,
        target: &dyn Target,
    ) -> Decision {
        let SearchTarget { span, pattern } = search_target;
        self.load.pending_search = None;
        let mut remark = None;
        if let Some(rehearsal) = &mut self.rehearsal {
            match rehearsal.prepare(span, &self.original, target) {
                Ok(facts) if self.options.rehearsal_use == RehearsalUse::Ranking => return self.rank(facts, pattern, target),
                Ok(facts) => return self.rehearse(facts, pattern, target),
                Err(reason) => {
                    if let Some(windows) = windows.filter(|windows| Tuner::may_watch_longer(windows)) {
                        self.phase = Phase::Watching(windows);
                        return Decision::keep(format!("the twin needs more: {reason}"));
                    }
                    remark = Some(format!("the twin cannot reproduce the load ({reason}): trials run on the device"));
                }
            }
        }
        let space = self.space(target, false);
        let (seeds, known) = self.seeds(&space, &target.identity().device);
        self.begin_trials(space, seeds, pattern);
        self.next_trial(remark.or(known).unwrap_or_else(|| "an unknown load".to_owned()), target)
    }

    /// Runs the complete search in the twin.
    fn rehearse(&mut self, facts: Vec<(String, String)>, pattern: Pattern, target: &dyn Target) -> Decision {
        let (remark, spent) = self.search_in_twin(facts, pattern, target, self.options.trials.max(1));
        let remark = remark.map_or(String::new(), |remark| format!("{remark}; "));
        self.prove(format!("{remark}{spent} trials in the twin"), target)
    }

    /// Runs `max_trials` trials in the twin, which replace those of the load. Returns the remark on the seeds, and the number of trials.
    fn search_in_twin(
        &mut self,
        facts: Vec<(String, String)>,
        pattern: Pattern,
        target: &dyn Target,
        max_trials: u32,
    ) -> (Option<String>, u32) {
        let space = self.space(target, true);
        let (seeds, remark) = self.seeds(&space, &target.identity().device);
        let mut search = self.new_search(&space, seeds, pattern);
        let mut trials: Vec<(Setting, TrialScore)> = Vec::new();
        let mut spent = 0;
        while spent < max_trials {
            let batch = search.ask();
            if batch.is_empty() {
                break;
            }
            let settings: Vec<Setting> = batch.iter().map(|genome| space.setting(genome)).collect();
            let rated = self.rehearsal.as_mut().map_or_else(Vec::new, |rehearsal| rehearsal.rate(&settings));
            search.tell(&rated);
            spent += batch.len() as u32;
            trials.extend(settings.into_iter().zip(rated).filter_map(|(setting, rated)| Some((setting, rated?))));
        }
        self.facts = facts.into_iter().chain(search.facts()).collect();
        self.load.trials = trials;
        self.load.space = Some(space);
        (remark, spent)
    }

    /// Ranks settings in the twin, for the initial population of the search on the target.
    fn rank(&mut self, facts: Vec<(String, String)>, pattern: Pattern, target: &dyn Target) -> Decision {
        let (_, spent) = self.search_in_twin(facts, pattern, target, RANKING_TRIALS);
        let ranking: Vec<Setting> = self.ranking().into_iter().map(|ranked| ranked.setting.clone()).collect();
        let evidence = self.evidence();
        let space = self.space(target, false);
        let original = space.genome(&self.original);
        let best = best_of_each_scheduler_first(&ranking).filter(|setting| **setting != self.original);
        let seeds = original.into_iter().chain(best.filter_map(|setting| space.genome(setting)).take(MAX_RANKED)).collect();
        self.load.trials.clear();
        self.begin_trials(space, seeds, pattern);
        if let Phase::Trying(trying) = &mut self.phase {
            trying.is_settling = true;
        }
        Decision::keep(format!("{spent} trials in the twin rank what is tried first")).with_evidence(evidence)
    }
}
