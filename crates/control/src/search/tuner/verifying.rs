//! Verifies the best settings one after the other, each by an A/B test against the original setting.

use super::{MAX_CHALLENGERS, Phase, Tuner, streams};
use crate::ab_test::{AbTest, Challenger, Winner, percent};
use crate::{Decision, Ruling, Target, Verdict, Window};

/// A running A/B test.
pub(super) struct Verifying {
    pub test: AbTest,
    /// A turn of the candidate in which a stream starved, by the waits known so far under the original setting.
    pub suspect: Option<Box<Window>>,
}

impl Tuner {
    /// Ends the search, and tests its best settings against the original one.
    pub(super) fn challenge(&mut self, remark: String, target: &dyn Target) -> Decision {
        self.find_challengers();
        let evidence = self.evidence();
        self.next_challenger(remark, target).with_evidence(evidence)
    }

    /// Selects the best settings as challengers, if they rank above the original one.
    pub(super) fn find_challengers(&mut self) {
        let best = self.ranking().into_iter().take_while(|ranked| *ranked.setting != self.original);
        let promising = best.filter(|ranked| !ranked.first.starves()).map(|ranked| ranked.setting.clone());
        self.challengers = promising.take(MAX_CHALLENGERS).map(Challenger::unpredicted).collect();
    }

    /// Tests the next challenger. If there is none, starts a pending search, otherwise keeps the original setting.
    pub(super) fn next_challenger(&mut self, remark: String, target: &dyn Target) -> Decision {
        match (self.challengers.pop_front(), self.pending_search) {
            (Some(challenger), _) => {
                let test = AbTest::new(challenger, &self.original);
                let prediction = test.expected().map_or_else(String::new, |gain| {
                    format!(", predicted {}, give or take {:.0}%,", percent(gain.mean), 100.0 * gain.error)
                });
                let candidate = test.candidate().clone();
                let why = format!("{remark}; {candidate}{prediction} and {} serve in turns", self.original);
                self.phase = Phase::Verifying(Verifying { test, suspect: None });
                Decision::set(candidate, why)
            }
            (None, Some(search_target)) => self.begin_search(search_target, None, target),
            (None, None) => {
                let why = format!("{remark}; {} stays: no significant improvement", self.original);
                self.keep(self.original.clone(), None, why)
            }
        }
    }

    /// Ends a turn, or its settling time.
    pub(super) fn end_turn(&mut self, window: &Window, target: &dyn Target) -> Decision {
        let Phase::Verifying(Verifying { test, suspect }) = &mut self.phase else { return Decision::keep("") };
        if test.is_settling() {
            test.settled();
            return Decision::keep("settling before its turn");
        }
        let is_candidates = test.is_candidates_turn();
        let suspect = if is_candidates { Some(Box::new(window.clone())) } else { suspect.take() };
        if let Some(baseline) = self.baseline.as_mut().filter(|_| !is_candidates) {
            baseline.longest_s = baseline.longest_s.max(window.outcome.max_response_s);
            baseline.streams = baseline.streams.min(streams(window));
        }
        let starving = suspect.filter(|suspect| self.starves(suspect));
        let Phase::Verifying(Verifying { test, suspect }) = &mut self.phase else { return Decision::keep("") };
        test.record(window.outcome.score(&self.preference));
        let candidate = test.candidate().clone();
        if starving.is_some() && test.has_baseline() {
            return self.next_challenger(format!("a stream starves under {candidate}"), target);
        }
        *suspect = starving;
        let next = if test.is_candidates_turn() { candidate.clone() } else { self.original.clone() };
        let Some(comparison) = test.comparison() else {
            return Decision::set(next, "the other setting's turn");
        };
        let measured = format!(
            "{candidate} was {} than {}, give or take {:.0}%, in {} pairs of turns",
            percent(comparison.gain.mean),
            self.original,
            100.0 * comparison.gain.error,
            comparison.pairs.unwrap_or_default()
        );
        let winner = test.winner(&comparison);
        let over = self.original.clone();
        match winner {
            Some(Winner::Candidate(gain)) => {
                let verdict = Verdict::of_ab_test(candidate.clone(), over, gain, &comparison, Ruling::Kept);
                let decision = self.keep(candidate, Some(gain), format!("{measured}: it stays"));
                if let Phase::Keeping(keeping) = &mut self.phase {
                    keeping.proved = Some(gain.mean);
                }
                decision.with_verdict(verdict)
            }
            Some(Winner::Baseline) => {
                let was_kept = self.chosen.as_ref().is_some_and(|(chosen, _)| *chosen == candidate);
                let ruling = if was_kept { Ruling::TakenBack } else { Ruling::NotAdopted };
                let verdict = Verdict::of_ab_test(candidate, over, comparison.gain, &comparison, ruling);
                self.next_challenger(measured, target).with_verdict(verdict)
            }
            None => Decision::set(next, measured + ": not sure yet"),
        }
    }
}
