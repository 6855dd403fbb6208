//! Tests of counts: how often something happened, compared with how often it would by chance.

use crate::normal;

/// Number of cases above which the binomial distribution is approximated by a normal one.
const EXACT_CASES: u64 = 10_000;
/// Expected number of events above which the Poisson distribution is approximated by a normal one, as its terms would underflow.
const EXACT_EVENTS: f64 = 500.0;

/// The binomial test: the smallest number of hits that is significant, so that if each case is a hit with probability `part`, at least as
/// many have a probability below `level`. One more than `cases` if there is none.
pub fn fewest_significant(cases: u64, part: f64, level: f64) -> u64 {
    let count = cases as f64;
    if cases > EXACT_CASES {
        return (count * part - normal::quantile(level) * (count * part * (1.0 - part)).sqrt()).ceil() as u64;
    }
    // The probability of fewer hits: term by term, each from the previous one.
    let (mut term, mut fewer) = ((1.0 - part).powf(count), 0.0);
    (0..=cases)
        .find(|&hits| {
            let at_least = 1.0 - fewer;
            fewer += term;
            term *= (count - hits as f64) / (hits + 1) as f64 * part / (1.0 - part);
            at_least < level
        })
        .unwrap_or(cases + 1)
}

/// The interval of the probability of a hit, after `hits` in `cases`, at this level (Wilson: Probable Inference, the Law of Succession, and
/// Statistical Inference, Journal of the American Statistical Association 22, 1927). 0 to 1 without cases.
pub fn wilson(hits: u64, cases: u64, level: f64) -> (f64, f64) {
    if cases == 0 {
        return (0.0, 1.0);
    }
    let (count, part) = (cases as f64, hits as f64 / cases as f64);
    let squared = normal::quantile((1.0 + level) / 2.0).powi(2);
    let middle = (part + squared / (2.0 * count)) / (1.0 + squared / count);
    let margin = (squared * (part * (1.0 - part) / count + squared / (4.0 * count * count))).sqrt() / (1.0 + squared / count);
    ((middle - margin).max(0.0), (middle + margin).min(1.0))
}

/// Fisher's exact test, one-sided: the probability of at least as many hits among the first cases if hits are distributed over both groups
/// by chance. Each group is (hits, cases).
pub fn fisher((hits, cases): (u64, u64), (other_hits, other_cases): (u64, u64)) -> f64 {
    let (all, all_hits) = (cases + other_cases, hits + other_hits);
    let factorials: Vec<f64> = [0.0]
        .into_iter()
        .chain((1..=all).scan(0.0, |sum, number| {
            *sum += (number as f64).ln();
            Some(*sum)
        }))
        .collect();
    let ways = |of: u64, chosen: u64| factorials[of as usize] - factorials[chosen as usize] - factorials[(of - chosen) as usize];
    (hits..=all_hits.min(cases))
        .filter(|first| all_hits - first <= other_cases)
        .map(|first| (ways(cases, first) + ways(other_cases, all_hits - first) - ways(all, all_hits)).exp())
        .sum()
}

/// The Poisson distribution: the probability of at least `count` events if `mean` are expected.
pub fn at_least(count: f64, mean: f64) -> f64 {
    if count <= 0.0 {
        return 1.0;
    }
    if mean > EXACT_EVENTS {
        return normal::tail((count - 0.5 - mean) / mean.sqrt());
    }
    let mut term = (-mean).exp();
    let mut below = 0.0;
    for number in 0..count.ceil().min(5_000.0) as u32 {
        below += term;
        term *= mean / f64::from(number + 1);
    }
    (1.0 - below).max(0.0)
}

/// The largest number of expected events with which the probability of at most `allowed` events is 99%.
pub fn bearable_mean(allowed: f64) -> f64 {
    if allowed > 30.0 {
        // Wilson and Hilferty, "The distribution of chi-square" (1931), to 0.1% there.
        let degrees = allowed + 1.0;
        return degrees * (1.0 - 1.0 / (9.0 * degrees) - normal::ONE_SIDED_99 / (3.0 * degrees.sqrt())).powi(3);
    }
    let (mut least, mut most) = (0.0, allowed + 1.0);
    for _ in 0..40 {
        let middle = (least + most) / 2.0;
        if at_least(allowed + 1.0, middle) <= 0.01 { least = middle } else { most = middle }
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Newcombe, Two-sided confidence intervals for the single proportion (Statistics in Medicine 17, 1998), table I, method 3.
    #[test]
    fn wilsons_intervals_are_the_published_ones() {
        for (hits, cases, low, high) in
            [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)]
        {
            let found = wilson(hits, cases, 0.95);
            assert!((found.0 - low).abs() < 5e-5 && (found.1 - high).abs() < 5e-5, "{hits} of {cases}: {found:?}");
        }
        assert_eq!(wilson(0, 0, 0.9), (0.0, 1.0));
        assert!(wilson(3, 10, 0.9).0 > wilson(3, 10, 0.95).0);
    }

    /// Fisher, The Design of Experiments (1935): all of 4 cups of 8 by chance, 1 in 70; at least 3 of them, 17 in 70.
    #[test]
    fn fishers_test_gives_the_probabilities_of_the_tea_tasting_lady() {
        let of = |hits| fisher((hits, 4), (4 - hits, 4));
        assert!((of(4) - 1.0 / 70.0).abs() < 1e-9 && (of(3) - 17.0 / 70.0).abs() < 1e-9, "{} {}", of(4), of(3));
        assert!((fisher((0, 0), (0, 20)) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn the_fewest_significant_hits_are_those_of_the_binomial_distribution() {
        // Of 20 at 1% each: none with 0.818, one with 0.165, two with 0.0159, and 0.0010 of three or more.
        assert_eq!((fewest_significant(20, 0.01, 0.01), fewest_significant(2, 0.01, 0.01)), (3, 2));
        // The sign test at 5% (Dixon and Mood, The statistical sign test, 1946): 9 of 10, 15 of 20, none of 4.
        let of_coins = |cases| fewest_significant(cases, 0.5, 0.05);
        assert_eq!((of_coins(10), of_coins(20), of_coins(4)), (9, 15, 5));
        assert_eq!((fewest_significant(10_000, 0.01, 0.01), fewest_significant(10_001, 0.01, 0.01)), (125, 124), "either way");
    }

    /// Abramowitz and Stegun, table 26.7 (Poisson and chi-squared).
    #[test]
    fn tails_of_rare_events_are_those_of_tables() {
        for (count, mean, expected) in [(1.0, 0.5, 0.393_469), (3.0, 1.0, 0.080_301), (10.0, 5.0, 0.031_828), (0.0, 3.0, 1.0)] {
            assert!((at_least(count, mean) - expected).abs() < 1e-6, "{count} of {mean}: {}", at_least(count, mean));
        }
        assert!((at_least(1_050.0, 1_000.0) - 0.0603).abs() < 0.002, "{}", at_least(1_050.0, 1_000.0));
    }

    #[test]
    fn the_bearable_mean_is_the_inverse() {
        for (allowed, expected) in [(0.0, 0.010_050), (1.0, 0.148_55), (10.0, 4.771), (100.0, 79.1)] {
            let mean = bearable_mean(allowed);
            assert!((at_least(allowed + 1.0, mean) - 0.01).abs() < 1e-3, "{allowed}");
            assert!((mean / expected - 1.0).abs() < 0.02, "{allowed}: {mean}");
        }
    }
}
