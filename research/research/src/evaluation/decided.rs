//! A run's decisions: its changes of setting, each a trial, a return or a change to stay, and its forecasts.

use std::sync::Arc;

use control::DecisionRecord;
use control::controller::Evidence;

use crate::report::evaluation::DecisionKind;

/// The decisions of a run, to be judged.
#[derive(Clone, Debug)]
pub struct Decided {
    /// Decisions that changed the active or the permanent setting.
    pub changes: Vec<Change>,
    /// Distinct forecasts: time, active setting, and evidence.
    pub forecasts: Vec<(f64, String, Arc<Evidence>)>,
}

/// A decision that changed the active or the permanent setting.
#[derive(Clone, Debug)]
pub struct Change {
    pub at_s: f64,
    pub kind: DecisionKind,
    pub from: String,
    pub to: String,
    pub why: String,
    pub expected_gain: Option<f64>,
}

impl Decided {
    /// From the decisions of a run, in order.
    pub fn of(decisions: &[DecisionRecord]) -> Decided {
        let mut decided = Decided { changes: Vec::new(), forecasts: Vec::new() };
        let mut stays: Option<&DecisionRecord> = None;
        for one in decisions {
            let at_s = one.at.as_secs_f64();
            let before = stays.replace(one).map_or(&one.from, |before| &before.stays);
            let is_trial = one.to != one.stays;
            let kind = match one.is_change() {
                _ if *before != one.stays => Some(DecisionKind::Change),
                true if is_trial => Some(DecisionKind::Trial),
                true => Some(DecisionKind::Return),
                false => None,
            };
            if let Some(kind) = kind {
                let (from, to) = if kind == DecisionKind::Change { (before, &one.stays) } else { (&one.from, &one.to) };
                let (from, to, why) = (from.to_string(), to.to_string(), one.why.clone());
                decided.changes.push(Change { at_s, kind, from, to, why, expected_gain: one.expected_gain });
            }
            // Later decisions may be based on the same forecast.
            if let Some(evidence) = &one.evidence
                && !evidence.candidates.is_empty()
                && decided.forecasts.last().is_none_or(|(.., latest)| latest.candidates != evidence.candidates)
            {
                decided.forecasts.push((at_s, one.from.to_string(), evidence.clone()));
            }
        }
        decided
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use block::Nanos;
    use control::Setting;

    use super::*;

    fn record(second: u64, from: &str, to: &str, stays: &str) -> DecisionRecord {
        let setting = |text| Arc::new(Setting::parse(text).unwrap());
        let at = Nanos::from_millis(1000 * second);
        DecisionRecord { stays: setting(stays), ..DecisionRecord::new(at, Some(second), setting(from), setting(to)) }
    }

    #[test]
    fn trials_returns_and_changes_are_distinguished() {
        let decided = Decided::of(&[
            record(0, "mq-deadline", "mq-deadline", "mq-deadline"),
            record(1, "mq-deadline", "bfq", "mq-deadline"),
            record(2, "bfq", "bfq", "mq-deadline"),
            record(3, "bfq", "mq-deadline", "mq-deadline"),
            record(4, "mq-deadline", "bfq", "mq-deadline"),
            record(5, "bfq", "bfq", "bfq"),
            record(6, "bfq", "none", "none"),
        ]);
        let told: Vec<(f64, DecisionKind, &str, &str)> =
            decided.changes.iter().map(|one| (one.at_s, one.kind, one.from.as_str(), one.to.as_str())).collect();
        assert_eq!(
            told,
            [
                (1.0, DecisionKind::Trial, "mq-deadline", "bfq"),
                (3.0, DecisionKind::Return, "bfq", "mq-deadline"),
                (4.0, DecisionKind::Trial, "mq-deadline", "bfq"),
                (5.0, DecisionKind::Change, "mq-deadline", "bfq"),
                (6.0, DecisionKind::Change, "bfq", "none"),
            ]
        );
    }
}
