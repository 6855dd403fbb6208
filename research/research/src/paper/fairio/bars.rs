//! Targets.

use crate::report::paper::Bar;

use super::cycles::ADAPTIVE;
use super::results::Results;
use super::shares::Outcome;
use crate::paper::aims::at_most;

/// Classes can use their shares if each has requests outstanding for this percentage of the time.
pub const ABLE_PERCENT: f64 = 99.0;

/// Only times in which all classes are busy count: share left by a class without requests costs the others nothing, and with requests of tens of
/// megabytes, idle times are random: they differ by two points between cycles of nearly the same length.
const ADAPTIVE_CYCLE: &str = "error above that of the best fixed cycle while all classes are busy, worst workload";

/// All targets.
pub fn all(results: &Results) -> Vec<Bar> {
    let trials = results.trials();
    let adaptive: Vec<(&str, Option<&Outcome>)> =
        trials.iter().map(|(trial, name)| (name.as_str(), results.get(*trial, ADAPTIVE))).collect();
    let throughput = trials.iter().map(|(trial, name)| {
        let against = results.against_unshared(*trial, ADAPTIVE);
        (name.clone(), against.map(|percent| 100.0 - percent))
    });
    let regret = trials.iter().map(|(trial, name)| {
        let (ours, best) = (results.get(*trial, ADAPTIVE).and_then(Outcome::error_together), results.best_together(*trial));
        (name.clone(), ours.zip(best).map(|(ours, best)| ours - best.1))
    });
    vec![
        share_error(&adaptive),
        at_most("throughput", "throughput below that of the unshared scheduler, worst workload", 2.0, throughput.collect(), ""),
        at_most("adaptive-cycle", ADAPTIVE_CYCLE, 0.5, regret.collect(), ""),
    ]
}

/// Share error over the workloads that can use their shares.
fn share_error(outcomes: &[(&str, Option<&Outcome>)]) -> Bar {
    let is_able = |outcome: &Outcome| outcome.wanting_percent >= ABLE_PERCENT;
    let able = outcomes.iter().filter(|(_, outcome)| outcome.is_none_or(is_able));
    let errors = able.map(|(name, outcome)| ((*name).to_owned(), outcome.map(Outcome::error))).collect();
    let unable: Vec<String> = outcomes
        .iter()
        .filter_map(|(name, outcome)| outcome.filter(|outcome| !is_able(outcome)).map(|it| format!("{name} {:.1}%", it.error())))
        .collect();
    let detail =
        if unable.is_empty() { String::new() } else { format!("; not enough load for their shares: {}", unable.join(", ")) };
    at_most(
        "share-error",
        "error of shares, worst workload with enough load for its shares (the report: 3.9%)",
        1.0,
        errors,
        &detail,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(error: f64, wanting_percent: f64) -> Outcome {
        Outcome {
            errors: vec![error, -error],
            errors_until_done: vec![error, -error],
            errors_together: None,
            wanting_percent,
            throughput_mb_s: 1.0,
            whole_mb_s: 1.0,
            service_ms: 1.0,
            services_ms: vec![1.0; 2],
            responses_ms: [1.0; 4],
            window_errors: [None; 3],
            idle_percent: 0.0,
        }
    }

    #[test]
    fn the_worst_workload_that_can_use_its_shares_decides() {
        let (good, bad, silent) = (outcome(0.9, 99.5), outcome(1.2, 99.0), outcome(9.0, 80.0));
        let met = share_error(&[("a", Some(&good)), ("b", Some(&silent))]);
        assert_eq!((met.met, met.detail.as_str()), (Some(true), "a; not enough load for their shares: b 9.0%"));
        assert_eq!(share_error(&[("a", Some(&good)), ("b", Some(&bad))]).met, Some(false));
        assert_eq!(share_error(&[("a", Some(&good)), ("b", None)]).met, None, "a bar without a run is not met");
    }
}
