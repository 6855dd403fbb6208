//! The decisions of a controller and their results, for the record.

use control::ab_test::Comparison;
use control::controller::{ControllerInput, Evidence, Prediction};
use control::{ControlLoop, DecisionRecord, Setting, Window};
use observe::Preference;
use observe::merit::Scored;
use report::record;
use statistics::percent;

/// Windows before and after a change by which its gain is measured: enough to even out chance, few enough that the workload is
/// still the same.
const JUDGED_WINDOWS: usize = 4;

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
        decisions: shown.iter().map(|&i| decision(decided, i, windows, &brief.preference)).collect(),
    }
}

fn decision(decided: &[DecisionRecord], i: usize, windows: &[Window], preference: &Preference) -> record::Decision {
    let one = &decided[i];
    let measured = measured_gain(decided, i, windows, preference);
    record::Decision {
        at_s: one.at.as_secs_f64(),
        window: one.window,
        from: one.from.to_string(),
        to: one.to.to_string(),
        why: one.why.clone(),
        expected_gain_percent: one.expected_gain.map(percent),
        measured_gain_percent: measured.map(percent),
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

/// Measured gain of a change, as a difference of scores: of the nearest windows after it and before it, up to the neighbouring changes.
/// `None` if the decision changed nothing, or without windows to compare.
pub fn measured_gain(decided: &[DecisionRecord], i: usize, windows: &[Window], preference: &Preference) -> Option<f64> {
    let is_change = |one: &&DecisionRecord| one.is_change();
    if !decided[i].is_change() {
        return None;
    }
    // Index of the first window after a decision.
    let behind = |one: &DecisionRecord| one.window.map_or(0, |window| window as usize + 1);
    let here = behind(&decided[i]);
    let from = decided[..i].iter().rev().find(is_change).map_or(0, behind);
    let to = decided[i + 1..].iter().find(is_change).map_or(windows.len(), behind);
    let score = |window: &Window| Some(window.outcome.score(preference)).filter(|score| score.is_finite()).map(Scored::plain);
    let before: Vec<Scored> = windows[from..here].iter().rev().filter_map(score).take(JUDGED_WINDOWS).collect();
    let after: Vec<Scored> = windows[here..to].iter().filter_map(score).take(JUDGED_WINDOWS).collect();
    Comparison::of_scores(&before, &after, preference).map(|comparison| comparison.gain.mean)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use std::sync::Arc;

    use block::Nanos;
    use observe::window::{Extractor, Tally};

    use super::*;

    /// A window of one second in which this many MB are transferred.
    fn window(number: u64, megabytes: u64) -> Window {
        let duration = Nanos::from_millis(1000);
        let setting = Arc::new(Setting::parse("noop").unwrap());
        let outcome = observe::WindowOutcome {
            requests: megabytes,
            bytes: megabytes << 20,
            waited_s: 1.0,
            fairness: 1.0,
            ..Tally::new().close(duration)
        };
        let from = Nanos::from_millis(1000 * number);
        Window { number, from, to: from + duration, setting, features: Extractor::new().close(duration), outcome }
    }

    fn decided(window: Option<u64>, from: &str, to: &str) -> DecisionRecord {
        let setting = |text| Arc::new(Setting::parse(text).unwrap());
        let at = Nanos::from_millis(window.map_or(0, |window| 1000 * (window + 1)));
        DecisionRecord::new(at, window, setting(from), setting(to))
    }

    #[test]
    fn a_gain_is_measured_between_the_nearest_windows_before_and_after_a_change() {
        let preference: Preference = "2,2,2".parse().unwrap();
        // Eight windows of 1, 8 MB under noop at first; from the third on 27 MB under cfq, and 1 after it was changed back.
        let windows: Vec<Window> = [1, 8, 27, 27, 27, 27, 1, 0].iter().enumerate().map(|(n, &mb)| window(n as u64, mb)).collect();
        let decided = [
            decided(None, "noop", "noop"),
            decided(Some(0), "noop", "noop"),
            decided(Some(1), "noop", "cfq"),
            decided(Some(2), "cfq", "cfq"),
            decided(Some(3), "cfq", "cfq"),
            decided(Some(4), "cfq", "cfq"),
            decided(Some(5), "cfq", "noop"),
            decided(Some(6), "noop", "noop"),
            decided(Some(7), "noop", "deadline"),
        ];
        let gain = |i: usize| measured_gain(&decided, i, &windows, &preference).map(percent);
        // A third of the preference is throughput: 27 MB count three times as much as 1 MB, and 8 MB twice.
        assert!((gain(2).unwrap() - (3.0 / 2f64.sqrt() - 1.0) * 100.0).abs() < 1e-9, "{:?}", gain(2));
        // The idle window does not count.
        assert!((gain(6).unwrap() - (1.0 / 3.0 - 1.0) * 100.0).abs() < 1e-9, "{:?}", gain(6));
        assert_eq!(gain(8), None, "nothing came after it");
        assert_eq!(gain(0), None, "nothing came before it");
    }

    #[test]
    fn what_a_decision_rests_on_is_on_record_in_the_units_of_a_record() {
        let setting = Setting::parse("cfq").unwrap();
        let promise = Prediction { setting, throughput: 2e6, response_s: 0.003, p99_by_bound: 0.5, gain: 0.1, error: 0.02 };
        let seen = vec![("stream 1".to_owned(), "closed".to_owned())];
        let rests = Evidence { seen: seen.clone(), candidates: vec![promise], ..Evidence::default() };
        let one = DecisionRecord { evidence: Some(Arc::new(rests)), ..decided(None, "noop", "cfq") };
        let noted = decision(&[one], 0, &[], &Preference::default());
        let promised = noted.prediction().unwrap();
        assert_eq!((promised.throughput_mb_s, promised.response_ms, promised.error_percent), (2.0, 3.0, 2.0));
        assert!((promised.gain_percent - 10.517).abs() < 1e-3, "{promised:?}");
        assert_eq!(noted.evidence.unwrap().seen, seen);
    }

    #[test]
    fn only_the_nearest_windows_count() {
        let preference: Preference = "2,2,2".parse().unwrap();
        let windows: Vec<Window> = (0..20).map(|n| window(n, if (6..14).contains(&n) { 8 } else { 1000 })).collect();
        let decided = [decided(None, "noop", "noop"), decided(Some(9), "noop", "cfq")];
        let gain = measured_gain(&decided, 1, &windows, &preference).unwrap();
        assert!(gain.abs() < 1e-12, "{gain}");
    }
}
