//! The decisions of a controller and their results, for the record.

use control::controller::{ControllerInput, Evidence, Prediction};
use control::{ControlLoop, DecisionRecord, Setting};
use report::record;
use statistics::percent;

/// Maximum number of decisions in a record. If there are more, only changes and refused decisions are kept.
const DECISIONS: usize = 10_000;

/// Record of a controller's decisions; `brief` is its input.
pub fn minutes(steering: &ControlLoop, brief: &ControllerInput) -> record::ControlRecord {
    let (decided, windows) = (steering.decisions(), steering.windows());
    let kept = decided.iter().filter(|one| one.window.is_some() && !one.is_change() && one.refused.is_none()).count();
    let only_changes = decided.len() > DECISIONS;
    let shown: Vec<usize> = (0..decided.len())
        .filter(|&i| !only_changes || decided[i].is_change() || decided[i].refused.is_some())
        .take(DECISIONS)
        .collect();
    record::ControlRecord {
        preference: brief.preference.to_string(),
        candidates: brief.candidates.iter().map(Setting::to_string).collect(),
        windows: windows.len() as u64,
        kept: kept as u64,
        changes: decided.iter().filter(|one| one.is_change()).count() as u64,
        left_out: (decided.len() - shown.len()) as u64,
        decisions: shown.iter().map(|&i| decision(&decided[i])).collect(),
    }
}

fn decision(one: &DecisionRecord) -> record::Decision {
    record::Decision {
        at_s: one.at.as_secs_f64(),
        window: one.window,
        from: one.from.to_string(),
        to: one.to.to_string(),
        why: one.why.clone(),
        expected_gain_percent: one.expected_gain.map(percent),
        measured_gain_percent: one.measured_gain().map(|gain| percent(gain.mean)),
        refused: one.refused.clone(),
        evidence: one.evidence.as_deref().map(evidence),
    }
}

fn evidence(evidence: &Evidence) -> record::Evidence {
    record::Evidence {
        seen: evidence.seen.clone(),
        candidates: evidence.candidates.iter().map(prediction).collect(),
        sources: evidence.sources.clone(),
    }
}

/// Converts a prediction to the units of records.
pub fn prediction(prediction: &Prediction) -> record::PredictionFigures {
    record::PredictionFigures {
        setting: prediction.setting.to_string(),
        throughput_mb_s: prediction.throughput / 1e6,
        response_ms: prediction.response_s * 1e3,
        p99_by_bound: prediction.p99_by_bound,
        gain_percent: percent(prediction.gain),
        error_percent: 100.0 * prediction.error,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use std::sync::Arc;

    use block::Nanos;

    use super::*;

    fn decided(window: Option<u64>, from: &str, to: &str) -> DecisionRecord {
        let setting = |text| Arc::new(Setting::parse(text).unwrap());
        let at = Nanos::from_millis(window.map_or(0, |window| 1000 * (window + 1)));
        DecisionRecord::new(at, window, setting(from), setting(to))
    }

    #[test]
    fn what_a_decision_rests_on_is_on_record_in_the_units_of_a_record() {
        let setting = Setting::parse("cfq").unwrap();
        let promise = Prediction { setting, throughput: 2e6, response_s: 0.003, p99_by_bound: 0.5, gain: 0.1, error: 0.02 };
        let seen = vec![("stream 1".to_owned(), "closed".to_owned())];
        let rests = Evidence { seen: seen.clone(), candidates: vec![promise], ..Evidence::default() };
        let one = DecisionRecord { evidence: Some(Arc::new(rests)), ..decided(None, "noop", "cfq") };
        let noted = decision(&one);
        let promised = noted.prediction().unwrap();
        assert_eq!((promised.throughput_mb_s, promised.response_ms, promised.error_percent), (2.0, 3.0, 2.0));
        assert!((promised.gain_percent - 10.517).abs() < 1e-3, "{promised:?}");
        assert_eq!(noted.evidence.unwrap().seen, seen);
    }
}
