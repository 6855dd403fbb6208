//! The controller's reasons, and its decisions as recommendations if they may not be applied.

use std::collections::VecDeque;

use control::controller::Prediction;
use control::{DecisionRecord, Setting};
use statistics::percent;

use crate::control_socket::PendingAdvice;
use crate::history::{Entry, EntryKind, Promised};

/// Number of reasons kept: more than one, because controllers alternate between a reason and "nothing new". Choice: fewer log alternating
/// reasons again, more hide one that returns; not varied.
const MAX_THOUGHTS: usize = 4;
/// Maximum candidates per entry. Choice: bounds the size of an entry; above the candidates without read-ahead; not varied.
const MAX_CANDIDATES: usize = 16;

/// The latest reasons, and the pending recommendation.
#[derive(Default)]
pub(super) struct AdviceLog {
    pending: Option<PendingAdvice>,
    thoughts: VecDeque<String>,
}

impl AdviceLog {
    /// The pending recommendation; `None` if the active setting is best or data do not suffice yet.
    pub fn pending(&self) -> Option<&PendingAdvice> {
        self.pending.as_ref()
    }

    /// The latest reasons without duplicates; the last belongs to the latest decision.
    pub fn thoughts(&self) -> impl Iterator<Item = &str> {
        self.thoughts.iter().map(String::as_str)
    }

    /// Adds a reason, or moves it to the end if it is known.
    pub fn add_thought(&mut self, why: &str) {
        if let Some(known) = self.thoughts.iter().position(|known| known == why) {
            let known = self.thoughts.remove(known);
            self.thoughts.extend(known);
            return;
        }
        if self.thoughts.len() >= MAX_THOUGHTS {
            self.thoughts.pop_front();
        }
        self.thoughts.push_back(why.to_owned());
    }

    /// Withdraws the recommendation.
    pub fn withdraw(&mut self) {
        self.pending = None;
    }

    /// Records a decision that was not applied; `refused` is the setting that it would have applied. Returns a history entry if the
    /// recommendation is new.
    pub fn advise(
        &mut self,
        device: &str,
        active: &Setting,
        decision: &DecisionRecord,
        refused: Option<&Setting>,
    ) -> Option<Entry> {
        let best = decision.evidence.as_deref().and_then(|evidence| evidence.best(active));
        let (setting, gain_percent, error_percent) = match (best, refused) {
            (Some(best), _) => (best.setting.to_string(), Some(percent(best.gain)), Some(100.0 * best.error)),
            // A controller that predicts nothing.
            (None, Some(refused)) => (refused.to_string(), decision.expected_gain.map(percent), None),
            (None, None) => {
                if decision.evidence.as_deref().is_some_and(|evidence| !evidence.candidates.is_empty()) {
                    self.withdraw();
                }
                return None;
            }
        };
        let mut entry = entry_of(device, EntryKind::WouldSet, decision, &setting);
        if let Some(best) = best {
            let (gain, error) = (percent(best.gain), 100.0 * best.error);
            entry.why = format!("predicted {}", report::gains::with_error(gain, error));
            (entry.predicted_percent, entry.error_percent) = (gain_percent, error_percent);
        }
        entry.from = active.to_string();
        let is_new = self.pending.as_ref().is_none_or(|known| known.id != entry.id);
        self.pending = Some(PendingAdvice { id: entry.id.clone(), setting, why: entry.why.clone(), gain_percent, error_percent });
        is_new.then_some(entry)
    }
}

/// Converts a decision to a history entry; `to` is its setting.
pub(super) fn entry_of(device: &str, kind: EntryKind, decision: &DecisionRecord, to: &str) -> Entry {
    let evidence = decision.evidence.as_deref();
    let predicted = evidence.and_then(|evidence| evidence.candidates.iter().find(|one| one.setting.to_string() == to));
    let candidates = evidence.map_or(&[][..], |evidence| &evidence.candidates);
    Entry {
        predicted_percent: predicted.map(|one| percent(one.gain)).or(decision.expected_gain.map(percent)),
        error_percent: predicted.map(|one| 100.0 * one.error),
        seen: evidence.map(|evidence| evidence.seen.clone()).unwrap_or_default(),
        candidates: candidates.iter().take(MAX_CANDIDATES).map(promised).collect(),
        sources: evidence.map(|evidence| evidence.sources.clone()).unwrap_or_default(),
        ..Entry::new(device, kind, &decision.from.to_string(), to, decision.why.clone())
    }
}

fn promised(prediction: &Prediction) -> Promised {
    Promised {
        setting: prediction.setting.to_string(),
        gain_percent: percent(prediction.gain),
        error_percent: 100.0 * prediction.error,
        starves: prediction.starves(),
    }
}
