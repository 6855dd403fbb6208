//! The variation by chance between two runs of the same load on the same disk, and significance tests.
//!
//! The load runs a second time alone on its reference disk, with other random numbers (a trace, which has none, on other sectors). A
//! guarantee is broken if a figure is beyond its bound by more than the variation between these runs:
//!
//! * throughput, by the ratio of the two runs, or by the error of the mean of its windows, whichever is more, but at most by 5%;
//! * windows in violation, if they are more than 1% and significantly more than those of reference against reference (Fisher's exact test).
//!   Windows so far below the reference that chance explains not even one also count if significantly more than 1% are (binomial test), or
//!   if their total shortfall exceeds 1% of all windows: one window of twenty that is short by a fifteenth does not say anything about a
//!   hundred, but one in which a tenant starves does;
//! * p99, by the ratio of the two runs, and by the confidence intervals of both quantiles (order statistics).

use block::Nanos;
use report::record::ChanceFigures;
use sim::run::{Responses, TenantMeasure};
use statistics::count::{fewest_significant, fisher};
use statistics::normal::ONE_SIDED_95;
use statistics::sample;

use super::service_comparison::{LEAST, ServiceComparison};

/// Significance level: the maximum probability of a false positive.
const LEVEL: f64 = 0.01;
/// The level of each of two normally distributed errors that add up: 2.326 / √2 standard deviations, [`ONE_SIDED_95`].
const EACH_LEVEL: f64 = 0.05;
/// Chance excuses no throughput below this part of the bound. On a disk with two modes (sequential reads and writes mixed, with and without
/// its read-ahead) two runs can differ by a factor of 3; nine tenths of the throughput are a violation there, too.
const LEAST_EXCUSED: f64 = 0.95;
/// A window this many standard deviations below the reference is not chance: in a normal distribution one in three million is.
const NO_CHANCE: f64 = 5.0;

/// The variation of the reference disk by chance.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Chance {
    /// Number of windows, and of those in violation.
    windows: u64,
    violated: u64,
    /// Standard deviation of the windows' ratios.
    deviation: f64,
    /// Ratio of the throughputs of both runs, at most 1.
    throughput: f64,
    /// Ratio of the p99 of both runs, at least 1.
    p99: f64,
}

impl Chance {
    /// Compares two runs alone on the reference disk, in windows of this length. The direction with more violations counts.
    pub fn new(one: &TenantMeasure, other: &TenantMeasure, window: Nanos) -> Chance {
        let compared = |here: &TenantMeasure, there: &TenantMeasure| {
            let comparison = ServiceComparison::new(here, there);
            let ratios = comparison.ratios(window);
            let violated = ratios.iter().filter(|ratio| **ratio < LEAST).count() as u64;
            (ratios.len() as u64, violated, deviation(&ratios), comparison.throughput_ratio())
        };
        let [first, second] = [compared(one, other), compared(other, one)];
        let (windows, violated, ..) = if first.1 >= second.1 { first } else { second };
        let p99 = |measure: &TenantMeasure| measure.p99().as_secs_f64();
        let at_least_1 = |ratio: f64| if ratio.is_finite() && ratio > 0.0 { ratio.max(1.0 / ratio) } else { 1.0 };
        Chance {
            windows,
            violated,
            deviation: first.2.max(second.2),
            throughput: 1.0 / at_least_1(first.3),
            p99: at_least_1(p99(one) / p99(other)),
        }
    }

    /// The figures for the report.
    pub fn figures(&self) -> ChanceFigures {
        ChanceFigures {
            throughput_ratio: self.throughput,
            p99_ratio: self.p99,
            windows: self.windows,
            violated: self.violated,
            window_deviation: self.deviation,
        }
    }
}

fn deviation(ratios: &[f64]) -> f64 {
    sample::variance(ratios).map_or(0.0, f64::sqrt)
}

/// Whether a throughput ratio is below a bound by more than chance explains, over this many windows.
pub fn is_less(ratio: f64, bound: f64, chance: &ChanceFigures, windows: u64) -> bool {
    let of_windows = |count: u64| if count > 0 { 1.0 / count as f64 } else { 0.0 };
    // Two runs may be similar by chance; the variance of their windows gives the expected difference.
    let error = chance.window_deviation * (of_windows(windows) + of_windows(chance.windows)).sqrt();
    ratio < bound * chance.throughput_ratio.min(1.0 - error).max(LEAST_EXCUSED)
}

/// Whether `violated` of `windows` windows are significantly more than those of reference against reference.
pub fn is_more_often(violated: u64, windows: u64, chance: &ChanceFigures) -> bool {
    fisher((violated, windows), (chance.violated, chance.windows)) < LEVEL
}

/// Whether `violated` of `windows` windows are significantly more than this part of them (binomial test).
pub fn is_too_often(violated: u64, windows: u64, part: f64) -> bool {
    violated >= fewest_significant(windows, part, LEVEL)
}

/// The ratio below which a window in violation cannot be explained by chance.
pub fn certain_violation(chance: &ChanceFigures) -> f64 {
    LEAST.min(1.0 - NO_CHANCE * chance.window_deviation)
}

/// The lower bound of the ratio of two p99 response times, given the errors of both quantiles: the smallest response time here that
/// significantly more than one in a hundred exceed, divided by the upper bound there. If the disk there has constant response times, only
/// the quantile here has an error. 0 if there are too few responses.
pub fn least_p99_ratio(here: &Responses, there: &Responses) -> f64 {
    let error = (0.99 * 0.01 / there.count().max(1) as f64).sqrt();
    let most = there.quantile((0.99 + ONE_SIDED_95 * error).min(1.0));
    let level = if most == there.quantile(0.99) { LEVEL } else { EACH_LEVEL };
    let count = here.count();
    let longer = fewest_significant(count, 0.01, level);
    if longer > count {
        return 0.0;
    }
    let least = here.quantile(1.0 - (longer as f64 - 0.5) / count as f64);
    least.as_secs_f64() / most.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use block::{Op, Priority, Roster};
    use sim::run::{Finished, Issue, Owner, Tenants, Transferred};

    use super::*;

    #[test]
    fn one_in_a_hundred_windows_may_be_two_of_twenty_and_not_three() {
        // Of 20 at 1% each: none with 0.818, one with 0.165, two with 0.0159, and 0.0010 of three or more.
        assert!(!is_too_often(0, 20, 0.01) && !is_too_often(2, 20, 0.01) && is_too_often(3, 20, 0.01));
        assert!(!is_too_often(1, 2, 0.01) && is_too_often(2, 2, 0.01), "one of two is 2%, two of two one in ten thousand");
        assert!(!is_too_often(16, 1_000, 0.01) && is_too_often(19, 1_000, 0.01));
        assert_eq!((fewest_significant(10_000, 0.01, LEVEL), fewest_significant(10_001, 0.01, LEVEL)), (125, 124), "either way");
    }

    #[test]
    fn one_late_response_of_three_says_nothing_about_a_hundred_and_two_do() {
        let responses = |all: &[u64]| {
            let mut tenants = Tenants::new(&Roster::default(), Owner::Stream);
            for &ms in all {
                let (op, priority, at) = (Op::Read, Priority::DEFAULT, Nanos::from_millis(ms));
                let issue = Issue { arrival: Nanos::ZERO, lba: 0, sectors: 8, op, sync: true, stream: 1, priority, token: 0 };
                tenants.issued(Nanos::ZERO, &issue);
                tenants.completed(&Finished::Transfer(Transferred { issue, bytes: 4096, dispatched: Nanos::ZERO, at }));
            }
            tenants.others().responses.clone()
        };
        let there = responses(&[10; 100]);
        let ratio = |all: &[u64]| least_p99_ratio(&responses(all), &there);
        assert!(ratio(&[30]) < 1.0 && ratio(&[10, 10, 30]) < 1.01, "one of three is 1 in 34 if each is 1 in 100");
        assert!(ratio(&[10, 30, 30]) > 2.9, "two of three are 1 in 3,356");
        let late = |count: usize| [vec![10; 200 - count], vec![30; count]].concat();
        assert!(ratio(&late(6)) < 1.01 && ratio(&late(7)) > 2.9, "of 200, seven are 1 in 225");
    }

    #[test]
    fn three_of_twenty_windows_are_chance_and_all_of_them_are_not() {
        let chance = ChanceFigures { throughput_ratio: 0.99, p99_ratio: 1.05, windows: 20, violated: 1, window_deviation: 0.03 };
        assert!(!is_more_often(3, 20, &chance));
        assert!(is_more_often(12, 20, &chance));
        assert!(!is_less(0.965, 0.97, &chance, 20), "the reference disk differs by that much from itself");
        assert!(is_less(0.90, 0.97, &chance, 20));
        assert!((certain_violation(&chance) - 0.85).abs() < 1e-9);
    }
}
