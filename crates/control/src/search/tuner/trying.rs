//! Tries each genome of the search on the target, for a window.

use super::{Phase, Tuner};
use crate::search::fingerprint::Fingerprint;
use crate::search::ioperf::Pattern;
use crate::search::{Genome, Search, Space, Start};
use crate::{Decision, Target, Window};
use observe::performance::TrialScore;

use super::ranking::text;

/// A search on the target.
pub(super) struct Trying {
    pub search: Box<dyn Search>,
    /// The latest genomes of the search, and the scores of those tried so far; `None` for a refused one.
    pub batch: Vec<Genome>,
    pub rated: Vec<Option<TrialScore>>,
    /// Number of trials so far.
    pub spent: u32,
    /// Whether the current window includes the time of the twin's ranking.
    pub is_settling: bool,
}

impl Tuner {
    pub(super) fn new_search(&self, space: &Space, seeds: Vec<Genome>, pattern: Pattern) -> Box<dyn Search> {
        let seed = self.seed.wrapping_add(self.loads);
        (self.options.make)(Start { space, seeds, preference: self.preference, pattern, seed })
    }

    pub(super) fn begin_trials(&mut self, space: Space, seeds: Vec<Genome>, pattern: Pattern) {
        let mut search = self.new_search(&space, seeds, pattern);
        let batch = search.ask();
        self.load.space = Some(space);
        self.phase = Phase::Trying(Trying { search, batch, rated: Vec::new(), spent: 0, is_settling: false });
    }

    /// Applies the next genome.
    pub(super) fn next_trial(&mut self, remark: String, target: &dyn Target) -> Decision {
        let Phase::Trying(Trying { batch, rated, spent, .. }) = &self.phase else { return Decision::keep(remark) };
        let next = self.load.space.as_ref().zip(batch.get(rated.len())).map(|(space, genome)| space.setting(genome));
        match next {
            Some(setting) => Decision::set(setting, format!("{remark}; trial {}", spent + 1)),
            None => self.challenge(remark, target),
        }
    }

    /// Ends a trial.
    pub(super) fn end_trial(&mut self, window: &Window, fingerprint: Option<&Fingerprint>, target: &dyn Target) -> Decision {
        if let Phase::Trying(Trying { is_settling: is_settling @ true, .. }) = &mut self.phase {
            *is_settling = false;
            return self.next_trial("trying what the twin ranked".to_owned(), target);
        }
        let result = if self.was_refused { None } else { self.score(std::slice::from_ref(window)) };
        let is_original = *window.setting == self.original && !self.was_refused;
        self.was_refused = false;
        if is_original && self.is_another_load(fingerprint) {
            return self.watch_new_load(window.to, target, "another load: its gene pool is kept");
        }
        let setting = (*window.setting).clone();
        self.load.trials.extend(result.map(|rated| (setting.clone(), rated)));
        let remark = match result {
            Some(rated) => format!("{setting}: {}", text(&rated)),
            None => format!("{setting}: no request completed"),
        };
        let Phase::Trying(Trying { search, batch, rated, spent, .. }) = &mut self.phase else { return Decision::keep(remark) };
        rated.push(result);
        *spent += 1;
        if rated.len() == batch.len() {
            search.tell(&std::mem::take(rated));
            self.facts = search.facts();
            *batch = search.ask();
        }
        if self.options.trials > 0 && *spent >= self.options.trials {
            return self.challenge(remark, target).with_evidence(self.evidence());
        }
        let is_new_batch = rated.is_empty();
        let decision = self.next_trial(remark, target);
        if is_new_batch { decision.with_evidence(self.evidence()) } else { decision }
    }
}
