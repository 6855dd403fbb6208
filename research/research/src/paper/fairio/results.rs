//! Results of the runs, and the measures by which the report's statements are judged.

use block::sched::fairio::Stable;
use statistics::Rank;

use super::array::DISKS;
use super::cases::{BENCHMARKS, FOUR, FairioCase, MADBENCH2, TWO, every_trial};
use super::cycles::{ADAPTIVE, CYCLES, DEMAND_CYCLES, benchmark_cycles, equation_3, fixed, printed, strict};
use super::plan::Plan;
use super::runs::{Run, Runs, SetUp, UNSHARED, USUAL, demand_run};
use super::shares::Outcome;
use crate::paper::stated::{Measures, Stated};
use crate::stage::Actor;

/// Results of all runs.
pub struct Results<'a> {
    pub plan: Plan,
    pub runs: &'a Runs,
    /// The report's statements.
    pub stated: &'a Stated,
}

/// Mean and range of a value over repetitions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    pub mean: f64,
    pub least: f64,
    pub most: f64,
}

impl Spread {
    /// `None` if there are no values.
    pub fn of(values: impl Iterator<Item = f64>) -> Option<Spread> {
        let values: Vec<f64> = values.collect();
        let (least, most) =
            values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), it| (least.min(*it), most.max(*it)));
        (!values.is_empty()).then(|| Spread { mean: values.iter().sum::<f64>() / values.len() as f64, least, most })
    }

    /// Difference of the largest and the smallest value.
    pub fn range(&self) -> f64 {
        self.most - self.least
    }
}

/// The cycle with the lowest mean, and those whose difference from it is within the larger of the two ranges over repetitions.
fn best_cycles(values: &[(u32, Spread)]) -> Vec<u32> {
    let Some((_, best)) = values.iter().min_by(|a, b| a.1.mean.total_cmp(&b.1.mean)) else { return Vec::new() };
    let is_tie = |spread: &Spread| spread.mean - best.mean <= spread.range().max(best.range());
    values.iter().filter(|(_, spread)| is_tie(spread)).map(|(ms, _)| *ms).collect()
}

/// Spearman's rank correlation of `values` with their index. All values must be different.
fn rank_correlation(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = |value: &f64| sorted.partition_point(|other| other < value) as f64;
    let squares: f64 = values.iter().enumerate().map(|(place, value)| (place as f64 - rank(value)).powi(2)).sum();
    let count = values.len() as f64;
    1.0 - 6.0 * squares / (count * (count * count - 1.0)).max(1.0)
}

impl Results<'_> {
    /// The result of a run in the usual set-up; `None` if it was not run.
    pub fn get(&self, trial: FairioCase, under: &str) -> Option<&Outcome> {
        self.runs.get(&Run::new(trial, under))
    }

    /// Results of all repetitions of a run.
    pub fn repetitions(&self, trial: FairioCase, under: &str) -> Vec<&Outcome> {
        let run = |repetition| self.runs.get(&Run::new(trial, under).with(SetUp { repetition, ..USUAL }));
        (0..self.plan.repetitions()).filter_map(run).collect()
    }

    /// The workloads that were run, with their names.
    pub fn trials(&self) -> Vec<(FairioCase, String)> {
        let name = |trial: FairioCase| match trial {
            FairioCase::Illustration(number) => format!("Illustration {number}"),
            FairioCase::Benchmark(place) | FairioCase::Trace(place) => BENCHMARKS[place].0.to_owned(),
            FairioCase::Drawn(number) => format!("drawn {}", number + 1),
        };
        let known = every_trial().filter(|trial| self.get(*trial, UNSHARED).is_some());
        known.map(|trial| (trial, name(trial))).collect()
    }

    /// The cycle of equation 3 in ms: for a benchmark with the number of requests that the report chose for it, for a generated workload with
    /// that of each class's type. `None` for an illustration.
    pub fn heuristic_ms(&self, trial: FairioCase) -> Option<u32> {
        let unshared = self.get(trial, UNSHARED)?;
        match trial {
            FairioCase::Illustration(_) => None,
            FairioCase::Benchmark(place) | FairioCase::Trace(place) => {
                let requests = self.stated.number("table-5", BENCHMARKS[place].0, "requests")?;
                Some(equation_3(FOUR.map(|weight| (weight, unshared.service_ms, requests as u32))))
            }
            FairioCase::Drawn(number) => {
                let requests = |actor: &Actor| if actor.phases.len() == 1 { Stable::Yes } else { Stable::No }.requests();
                let actors = self.plan.classes(number);
                let classes = actors.iter().zip(&unshared.services_ms);
                Some(equation_3(classes.map(|(actor, service)| (actor.tenant.weight, *service, requests(actor)))))
            }
        }
    }

    /// The cycle of equation 3 with the number of requests of unstable classes, in ms.
    pub fn unstable_ms(&self, trial: FairioCase) -> Option<u32> {
        let service_ms = self.get(trial, UNSHARED)?.service_ms;
        Some(equation_3(FOUR.map(|weight| (weight, service_ms, Stable::No.requests()))))
    }

    /// The scheduler as printed, with the heuristic's cycle, or for an illustration with the report's best.
    pub fn by_heuristic(&self, trial: FairioCase) -> Option<&Outcome> {
        let ms = match trial {
            FairioCase::Illustration(number) => [BEST_1, BEST_2][usize::from(number == 2)],
            _ => self.heuristic_ms(trial)?,
        };
        self.get(trial, &printed(ms))
    }

    /// Our scheduler: the fixed cycle in ms with the smallest error, and that error.
    pub fn best_fixed(&self, trial: FairioCase) -> Option<(u32, f64)> {
        self.best_by(trial, |outcome| Some(outcome.error()))
    }

    /// The same, with errors over times in which all classes had requests outstanding.
    pub fn best_together(&self, trial: FairioCase) -> Option<(u32, f64)> {
        self.best_by(trial, Outcome::error_together)
    }

    fn best_by(&self, trial: FairioCase, error: impl Fn(&Outcome) -> Option<f64>) -> Option<(u32, f64)> {
        self.best_among(trial, benchmark_cycles(&self.plan), fixed, error)
    }

    /// The cycle in ms with the smallest error among `cycles`, and that error.
    pub fn best_among(
        &self,
        trial: FairioCase,
        cycles: &[u32],
        under: impl Fn(u32) -> String,
        error: impl Fn(&Outcome) -> Option<f64>,
    ) -> Option<(u32, f64)> {
        let errors = cycles.iter().filter_map(|&ms| Some((ms, error(self.get(trial, &under(ms))?)?)));
        errors.min_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// Throughput of a whole run under a scheduler relative to that without shares, in percent.
    pub fn against_unshared(&self, trial: FairioCase, under: &str) -> Option<f64> {
        Some(100.0 * self.get(trial, under)?.whole_mb_s / self.get(trial, UNSHARED)?.whole_mb_s)
    }

    /// A value of an illustration at each cycle length.
    fn by_cycle(&self, trial: FairioCase, under: impl Fn(u32) -> String, value: impl Fn(&Outcome) -> f64) -> Vec<(u32, Spread)> {
        let at = |&ms: &u32| Some((ms, Spread::of(self.repetitions(trial, &under(ms)).into_iter().map(&value))?));
        CYCLES.iter().filter_map(at).collect()
    }

    /// Results by which statements are judged.
    pub fn measures(&self) -> Measures {
        let mut measures = Measures::default();
        self.measure_illustration(&mut measures, 1, &NAMES_1);
        self.measure_illustration(&mut measures, 2, &NAMES_2);
        let best = |number| best_cycles(&self.by_cycle(FairioCase::Illustration(number), printed, Outcome::error));
        if let (Some(&first), Some(&last)) = (best(1).first(), best(2).last()) {
            let text = format!("{} against {}", in_words(&best(1)), in_words(&best(2)));
            measures.printed_words("stable-longer", text, first > last);
        }
        self.measure_benchmarks(&mut measures);
        measures
    }

    fn measure_illustration(&self, measures: &mut Measures, number: u8, names: &Names) {
        let trial = FairioCase::Illustration(number);
        let errors = self.by_cycle(trial, printed, Outcome::error);
        let of_ours = self.by_cycle(trial, fixed, Outcome::error);
        if errors.is_empty() {
            return;
        }
        let at = |errors: &[(u32, Spread)], of: u32| errors.iter().find(|(ms, _)| *ms == of).map(|(_, spread)| spread.mean);
        let within = |errors: &[(u32, Spread)], from: u32, to: u32| {
            let means: Vec<f64> = errors.iter().filter(|(ms, _)| (from..=to).contains(ms)).map(|(_, spread)| spread.mean).collect();
            Spread::of(means.into_iter())
        };
        let throughput = |under: &dyn Fn(u32) -> String| {
            let means = self.by_cycle(trial, under, |outcome| outcome.throughput_mb_s);
            Spread::of(means.iter().map(|(_, spread)| spread.mean))
        };
        let (speed, our_speed) = (throughput(&printed), throughput(&fixed));
        let percent = |speed: Spread| 100.0 * (speed.most / speed.least - 1.0);
        measures.printed(names.spread, speed.map(percent));
        measures.ours(names.spread, our_speed.map(percent));
        measures.printed(names.slowest, speed.map(|speed| speed.least));
        measures.ours(names.slowest, our_speed.map(|speed| speed.least));
        measures.printed(names.fastest, speed.map(|speed| speed.most));
        measures.ours(names.fastest, our_speed.map(|speed| speed.most));
        let means: Vec<f64> = errors.iter().map(|(_, spread)| spread.mean).collect();
        measures.printed(names.trend, Some(rank_correlation(&means)));
        for (errors, is_ours) in [(&errors, false), (&of_ours, true)] {
            let mut put = |name: &'static str, value: Option<f64>| {
                if is_ours { measures.ours(name, value) } else { measures.printed(name, value) }
            };
            put(names.error_100, at(errors, 100));
            put(names.least_error, within(errors, 0, u32::MAX).map(|errors| errors.least));
            put(names.largest_error, within(errors, 0, u32::MAX).map(|errors| errors.most));
            put(names.least_to_800, within(errors, 0, 800).map(|errors| errors.least));
            put(names.most_from_900, within(errors, 900, u32::MAX).map(|errors| errors.most));
        }
        let best = best_cycles(&errors);
        let of_report = [BEST_1, BEST_2][usize::from(number == 2)];
        measures.printed_words(names.best_cycle, in_words(&best), best.contains(&of_report) && best.len() < CYCLES.len());
        // Whether the error exceeds the minimum by more than repetitions differ; for Illustration 1 at both of "the last two cycle lengths".
        let rises = !best.contains(&3000) && (number == 2 || !best.contains(&2500));
        let end: Vec<String> =
            errors[errors.len() - 3..].iter().map(|(ms, spread)| format!("{:.2} at {ms} ms", spread.mean)).collect();
        measures.printed_words(names.rises, end.join(", "), rises);
        let requests = self.get(trial, UNSHARED).and_then(|outcome| outcome.services_ms.first()).map(|service| {
            // Equation 3 solved for the requests of class 1, the lightest.
            let (weights, own) = (TWO.iter().sum::<u32>(), TWO[0]);
            f64::from(of_report * DISKS * own) / f64::from(weights) / service
        });
        measures.printed(names.requests, requests);
    }

    fn measure_benchmarks(&self, measures: &mut Measures) {
        let (mut errors, mut changes, mut of_ours) = (Vec::new(), Vec::new(), Vec::new());
        for ((trial, name), names) in
            (0..BENCHMARKS.len()).map(|place| (FairioCase::Trace(place), BENCHMARKS[place].0)).zip(BENCHMARK_NAMES)
        {
            let (Some(unshared), Some(by_heuristic)) = (self.get(trial, UNSHARED), self.by_heuristic(trial)) else { continue };
            let ours = self.get(trial, ADAPTIVE).map(Outcome::error);
            let [service, cycle, error] = names;
            measures.printed(service, Some(unshared.service_ms));
            measures.printed(cycle, self.heuristic_ms(trial).map(f64::from));
            measures.printed(error, Some(by_heuristic.error()));
            measures.ours(error, ours);
            errors.push(by_heuristic.error());
            of_ours.extend(ours);
            changes.push(100.0 * (by_heuristic.service_ms / unshared.service_ms - 1.0).abs());
            if name == "IOR2" {
                let fewer = self.unstable_ms(trial).and_then(|ms| self.get(trial, &printed(ms)));
                measures.printed("ior2-fewer", fewer.map(|fewer| fewer.error() - by_heuristic.error()));
            }
        }
        self.measure_demand(measures);
        let worst = |errors: &[f64]| errors.iter().copied().max_by(f64::total_cmp);
        // All traces have enough requests to use their shares.
        for name in ["worst-able", "worst"] {
            measures.printed(name, worst(&errors));
            measures.ours(name, worst(&of_ours));
        }
        measures.printed("service-change", Rank::Above.of(&mut changes, 0.5));
    }

    /// Tests the report's explanation of MADbench2's large error (section IV): its heavier classes had too few requests.
    fn measure_demand(&self, measures: &mut Measures) {
        let Some(ms) = self.heuristic_ms(MADBENCH2) else { return };
        let error = |demand_percent, ms| self.runs.get(&demand_run(demand_percent, printed(ms))).map(Outcome::error);
        let short = DEMAND_CYCLES[0];
        if let (Some(full), Some(few), Some(few_short)) = (error(None, ms), error(Some(80), ms), error(Some(80), short)) {
            let text = format!(
                "{few:.1} points at 80% of the rate for their shares ({few_short:.1} with {short} ms), {full:.1} as recorded"
            );
            measures.printed_words("madbench2-demand", text, few > full);
        }
        let throughput = |under| self.runs.get(&demand_run(Some(80), under)).map(|outcome| outcome.throughput_mb_s);
        let lost = throughput(strict(ms)).zip(throughput(printed(ms))).map(|(strict, usual)| 100.0 * (1.0 - strict / usual));
        measures.printed("madbench2-strict", lost);
        let few = self.runs.get(&demand_run(Some(80), printed(ms)));
        measures.printed("madbench2-lighter", few.and_then(|few| few.errors[..2].iter().copied().min_by(f64::total_cmp)));
    }
}

/// The report's cycles with the smallest error in ms (section II).
const BEST_1: u32 = 2000;
const BEST_2: u32 = 900;

/// Names of an illustration's measures.
struct Names {
    best_cycle: &'static str,
    rises: &'static str,
    trend: &'static str,
    error_100: &'static str,
    least_error: &'static str,
    largest_error: &'static str,
    least_to_800: &'static str,
    most_from_900: &'static str,
    slowest: &'static str,
    fastest: &'static str,
    spread: &'static str,
    requests: &'static str,
}

const NAMES_1: Names = Names {
    best_cycle: "best-cycle-1",
    rises: "rises-1",
    trend: "trend-1",
    error_100: "error-100-1",
    least_error: "least-error-1",
    largest_error: "largest-error-1",
    least_to_800: "least-to-800-1",
    most_from_900: "most-from-900-1",
    slowest: "slowest-1",
    fastest: "fastest-1",
    spread: "spread-1",
    requests: "requests-1",
};

const NAMES_2: Names = Names {
    best_cycle: "best-cycle-2",
    rises: "rises-2",
    trend: "trend-2",
    error_100: "error-100-2",
    least_error: "least-error-2",
    largest_error: "largest-error-2",
    least_to_800: "least-to-800-2",
    most_from_900: "most-from-900-2",
    slowest: "slowest-2",
    fastest: "fastest-2",
    spread: "spread-2",
    requests: "requests-2",
};

/// Names of the measures for disk time, cycle and error, in the order of [`BENCHMARKS`].
const BENCHMARK_NAMES: [[&str; 3]; 6] = [
    ["service-btio", "cycle-btio", "error-btio"],
    ["service-madbench2", "cycle-madbench2", "error-madbench2"],
    ["service-varmail", "cycle-varmail", "error-varmail"],
    ["service-ior1", "cycle-ior1", "error-ior1"],
    ["service-ior2", "cycle-ior2", "error-ior2"],
    ["service-ior3", "cycle-ior3", "error-ior3"],
];

/// Describes the cycles with the smallest error.
fn in_words(cycles: &[u32]) -> String {
    let list: Vec<String> = cycles.iter().map(u32::to_string).collect();
    if list.len() < 2 { format!("{} ms", list.concat()) } else { format!("a tie of {} ms", list.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(mean: f64, range: f64) -> Spread {
        Spread { mean, least: mean - range / 2.0, most: mean + range / 2.0 }
    }

    #[test]
    fn cycles_that_differ_by_less_than_repetitions_tie() {
        let values = [(100, spread(5.0, 0.2)), (900, spread(1.1, 0.4)), (2000, spread(0.8, 0.1)), (3000, spread(1.0, 0.1))];
        // 900 ms is worse by 0.3, which is less than its range of 0.4; 3000 ms is worse by 0.2, more than the ranges of 0.1.
        assert_eq!(best_cycles(&values), [900, 2000]);
        assert_eq!(in_words(&best_cycles(&values)), "a tie of 900, 2000 ms");
        assert_eq!((best_cycles(&values[..1]), best_cycles(&[])), (vec![100], vec![]));
    }

    #[test]
    fn the_rank_correlation_of_falling_values_is_minus_one() {
        assert_eq!((rank_correlation(&[9.0, 4.0, 1.0]), rank_correlation(&[1.0, 4.0, 9.0])), (-1.0, 1.0));
        // Ranks 2 0 1 at places 0 1 2: squares 4 + 1 + 1 = 6; 1 - 6 * 6 / (3 * 8) = -0.5.
        assert_eq!(rank_correlation(&[9.0, 1.0, 4.0]), -0.5);
    }
}
