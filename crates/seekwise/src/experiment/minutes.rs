//! What a controller decided, and what became of it, for the record.

use learn::{Decided, Preference, Steering, Window};
use report::record;

/// Windows before and after a change by which its gain is measured: enough to even out chance, few enough that the workload is
/// still the same.
const JUDGED_WINDOWS: usize = 4;

/// Decisions kept in a record. Of more, those that changed nothing are left out first.
const DECISIONS: usize = 10_000;

/// The minutes of a run.
pub fn minutes(steering: &Steering, preference: &Preference) -> record::Steering {
    let (decided, windows) = (steering.decided(), steering.windows());
    let kept = decided.iter().filter(|one| one.window.is_some() && !one.is_change() && one.refused.is_none()).count();
    let only_changes = decided.len() > DECISIONS;
    let shown: Vec<usize> = (0..decided.len())
        .filter(|&i| !only_changes || decided[i].is_change() || decided[i].refused.is_some())
        .take(DECISIONS)
        .collect();
    record::Steering {
        preference: preference.to_string(),
        windows: windows.len() as u64,
        kept: kept as u64,
        changes: decided.iter().filter(|one| one.is_change()).count() as u64,
        left_out: (decided.len() - shown.len()) as u64,
        decisions: shown.iter().map(|&i| decision(decided, i, windows, preference)).collect(),
    }
}

fn decision(decided: &[Decided], i: usize, windows: &[Window], preference: &Preference) -> record::Decision {
    let one = &decided[i];
    let measured = if one.is_change() { measured_gain(decided, i, windows, preference) } else { None };
    record::Decision {
        at_s: one.at.as_secs_f64(),
        window: one.window,
        from: one.from.to_string(),
        to: one.to.to_string(),
        why: one.why.clone(),
        expected_gain_percent: one.expected_gain.map(percent),
        measured_gain_percent: measured.map(percent),
        refused: one.refused.clone(),
    }
}

/// By how much the windows after the change are better than those before it, as a difference of scores: on each side the nearest
/// ones, as far as nothing else was changed between.
fn measured_gain(decided: &[Decided], i: usize, windows: &[Window], preference: &Preference) -> Option<f64> {
    let is_change = |one: &&Decided| one.is_change();
    // The number of the first window behind a decision.
    let behind = |one: &Decided| one.window.map_or(0, |window| window as usize + 1);
    let here = behind(&decided[i]);
    let from = decided[..i].iter().rev().find(is_change).map_or(0, behind);
    let to = decided[i + 1..].iter().find(is_change).map_or(windows.len(), behind);
    let score = |window: &Window| Some(window.outcome.score(preference)).filter(|score| score.is_finite());
    let before = mean(windows[from..here].iter().rev().filter_map(score).take(JUDGED_WINDOWS))?;
    let after = mean(windows[here..to].iter().filter_map(score).take(JUDGED_WINDOWS))?;
    Some(after - before)
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    (count > 0.0).then(|| sum / count)
}

/// A difference of scores, which are logarithms.
fn percent(difference: f64) -> f64 {
    difference.exp_m1() * 100.0
}
