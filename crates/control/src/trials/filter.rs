//! Estimates the levels of settings from the scores of windows, by Kalman filters.

use super::{Observation, UNKNOWN};
use crate::ab_test::Estimate;

/// Grid of the standard deviation of the noise of one second. In the windows of the training and the validation world it is between 0.01
/// (random reads) and 1 (write-back in bursts). Choice: a finer grid costs a filter for each value; the measured range in steps of about
/// 2.5.
const NOISE: [f64; 6] = [0.01, 0.03, 0.08, 0.2, 0.5, 1.2];
/// Grid of the standard deviation of the drift in one second. Choice: as [`NOISE`]: from one of 1.5% in a minute to one of 15% in a second;
/// not varied.
const DRIFT: [f64; 3] = [0.002, 0.02, 0.15];
/// Index of the level in the state of a filter. Choice: the first, as the number of gains varies; not varied.
const LEVEL: usize = 0;
/// Initial variance of the level, which is unknown. Choice: above the square of any score, so that the first window decides; not varied.
const UNKNOWN_LEVEL: f64 = 1e4;
/// Degrees of freedom of the noise: Student's t has tails as heavy as a load that stalls occasionally, so outlying windows have less
/// influence. Choice: fewer degrees ignore real changes, many are the normal distribution; not varied.
const FREEDOM: f64 = 4.0;

/// Probability that the prior of a gain is entirely wrong, so that [`UNKNOWN`] applies: of 220 forecasts of less than 3% on random loads
/// and devices of the validation world, 16 were off by more than 10%. Derived: 16 / 220, rounded.
const WRONG: f64 = 0.07;

/// An expected gain whose error includes the probability that the expectation is entirely wrong.
pub fn stated(expected: &Estimate) -> Estimate {
    Estimate { mean: expected.mean, error: expected.error.hypot(WRONG.sqrt() * UNKNOWN.error) }
}

/// A Kalman filter with the level of the reference, and the gain over it of each observed arm, as its state.
#[derive(Clone, Debug)]
struct Filter {
    noise: f64,
    drift: f64,
    /// State: the level, and the gain of each observed arm.
    mean: Vec<f64>,
    /// Covariance of the state, by rows.
    covariance: Vec<f64>,
    /// Log-likelihood of the observations.
    likelihood: f64,
    at_s: f64,
    /// Scratch space: the covariance of the state with the score of the current window.
    column: Vec<f64>,
}

impl Filter {
    fn new(expected: &[Estimate], noise: f64, drift: f64, probability: f64) -> Filter {
        let size = expected.len() + 1;
        let mut covariance = vec![0.0; size * size];
        covariance[LEVEL] = UNKNOWN_LEVEL;
        for (place, gain) in expected.iter().enumerate() {
            covariance[(place + 1) * (size + 1)] = gain.error * gain.error;
        }
        let mean = std::iter::once(0.0).chain(expected.iter().map(|gain| gain.mean)).collect();
        Filter { noise, drift, mean, covariance, likelihood: probability.ln(), at_s: f64::NAN, column: vec![0.0; size] }
    }

    /// Updates the state by a window of the arm with this index in the state; `None` for the reference.
    fn observe(&mut self, observed: &Observation, place: Option<usize>) {
        let size = self.mean.len();
        let elapsed_s = if self.at_s.is_nan() { 0.0 } else { (observed.at_s - self.at_s).max(0.0) };
        self.at_s = observed.at_s;
        self.covariance[LEVEL] += self.drift * self.drift * elapsed_s;
        let of_arm = |row: &[f64]| place.map_or(0.0, |place| row[place]);
        for (with_score, row) in self.column.iter_mut().zip(self.covariance.chunks(size)) {
            *with_score = row[LEVEL] + of_arm(row);
        }
        let expected_variance = self.column[LEVEL] + of_arm(&self.column);
        let innovation = observed.score - self.mean[LEVEL] - of_arm(&self.mean);
        let noise = self.noise * self.noise / observed.seconds;
        let variance = expected_variance + noise;
        let squared = innovation * innovation / variance;
        self.likelihood -= 0.5 * variance.ln() + 0.5 * (FREEDOM + 1.0) * (squared / FREEDOM).ln_1p();
        let variance = variance * ((FREEDOM + squared) / (FREEDOM + 1.0)).max(1.0);
        for ((mean, row), own) in self.mean.iter_mut().zip(self.covariance.chunks_mut(size)).zip(&self.column) {
            let gain = own / variance;
            *mean += gain * innovation;
            row.iter_mut().zip(&self.column).for_each(|(covariance, other)| *covariance -= gain * other);
        }
    }

    /// `mean[a] + sign * mean[b]` and its variance; `None` counts as 0.
    fn sum(&self, a: Option<usize>, b: Option<usize>, sign: f64) -> (f64, f64) {
        let mean = |place: Option<usize>| place.map_or(0.0, |place| self.mean[place]);
        let at = |row: Option<usize>, column: Option<usize>| {
            row.zip(column).map_or(0.0, |(row, column)| self.covariance[row * self.mean.len() + column])
        };
        (mean(a) + sign * mean(b), (at(a, a) + at(b, b) + 2.0 * sign * at(a, b)).max(0.0))
    }
}

/// The estimates of the settings.
#[derive(Clone, Debug)]
pub struct Posterior {
    /// Prior of the gain of each arm over the reference.
    expected: Vec<Estimate>,
    is_observed: Vec<bool>,
    /// Index of each arm's gain in the state of the filters; `None` for the reference, and for arms without observations, of which only the
    /// prior is known.
    places: Vec<Option<usize>>,
    /// The filters with their weights.
    filters: Vec<(f64, Filter)>,
}

/// A component of the distribution of an arm's gain over another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Possibility {
    /// Its probability.
    pub weight: f64,
    /// The gain.
    pub gain: Estimate,
    /// Standard error of a trial's result.
    pub trial_error: f64,
}

impl Posterior {
    /// The estimates from these priors and these windows in order.
    pub(super) fn of<'a>(
        expected: Vec<Estimate>,
        reference: usize,
        observations: impl Iterator<Item = &'a Observation> + Clone,
    ) -> Posterior {
        let mut is_observed = vec![false; expected.len()];
        observations.clone().for_each(|observed| is_observed[observed.arm] = true);
        let mut places = vec![None; expected.len()];
        let with_state: Vec<usize> = (0..expected.len()).filter(|&arm| arm != reference && is_observed[arm]).collect();
        with_state.iter().enumerate().for_each(|(number, &arm)| places[arm] = Some(number + 1));
        let as_expected: Vec<Estimate> = with_state.iter().map(|&arm| expected[arm]).collect();
        // At most one prior of the observed arms is assumed to be wrong.
        let probability = WRONG / (as_expected.len() + 1) as f64;
        let one_wrong = (0..as_expected.len()).map(|place| {
            let mut expected = as_expected.clone();
            expected[place].error = expected[place].error.hypot(UNKNOWN.error);
            (expected, probability)
        });
        let right = (as_expected.clone(), 1.0 - probability * as_expected.len() as f64);
        let priors: Vec<(Vec<Estimate>, f64)> = std::iter::once(right).chain(one_wrong).collect();
        let pairs = NOISE.iter().flat_map(|noise| DRIFT.iter().map(move |drift| (*noise, *drift)));
        let filters = pairs
            .flat_map(|(noise, drift)| priors.iter().map(move |prior| (noise, drift, prior)))
            .map(|(noise, drift, (expected, probability))| (0.0, Filter::new(expected, noise, drift, *probability)))
            .collect();
        let mut posterior = Posterior { expected, is_observed, places, filters };
        observations.for_each(|observed| posterior.take_in(observed));
        posterior.weigh();
        posterior
    }

    /// The priors, for [`Posterior::of`].
    pub(super) fn expected(&self) -> &[Estimate] {
        &self.expected
    }

    pub(super) fn is_observed(&self, arm: usize) -> bool {
        self.is_observed[arm]
    }

    /// Changes the prior of an arm without observations.
    pub(super) fn expect(&mut self, arm: usize, gain: Estimate) {
        self.expected[arm] = gain;
    }

    /// Adds a window of an arm with earlier observations.
    pub(super) fn observe(&mut self, observed: &Observation) {
        self.take_in(observed);
        self.weigh();
    }

    fn take_in(&mut self, observed: &Observation) {
        let place = self.places[observed.arm];
        self.filters.iter_mut().for_each(|(_, filter)| filter.observe(observed, place));
    }

    /// Sets the weights of the filters from their likelihoods.
    fn weigh(&mut self) {
        let most = self.filters.iter().map(|(_, filter)| filter.likelihood).fold(f64::NEG_INFINITY, f64::max);
        self.filters.iter_mut().for_each(|(weight, filter)| *weight = (filter.likelihood - most).exp());
        let whole: f64 = self.filters.iter().map(|(weight, _)| weight).sum();
        self.filters.iter_mut().for_each(|(weight, _)| *weight /= whole);
    }

    /// Prior mean and variance of the gain of an arm without observations; 0 for others, whose gain is in the filters.
    fn unobserved(&self, arm: usize) -> (f64, f64) {
        if self.is_observed[arm] { (0.0, 0.0) } else { (self.expected[arm].mean, self.expected[arm].error.powi(2)) }
    }

    /// The gain of one arm over another by one filter, with its variance.
    fn gain_by(&self, filter: &Filter, arm: usize, over: usize) -> (f64, f64) {
        if arm == over {
            return (0.0, 0.0);
        }
        let (mean, variance) = filter.sum(self.places[arm], self.places[over], -1.0);
        let (of_arm, of_over) = (self.unobserved(arm), self.unobserved(over));
        (mean + of_arm.0 - of_over.0, variance + of_arm.1 + of_over.1)
    }

    /// The distribution of an arm's gain over another, with the error of a trial that measures each for `seconds`.
    pub(super) fn possibilities(&self, arm: usize, over: usize, seconds: f64) -> impl Iterator<Item = Possibility> {
        let wrong = if self.is_observed[arm] && self.is_observed[over] { 0.0 } else { WRONG };
        self.filters.iter().flat_map(move |(weight, filter)| {
            let (mean, variance) = self.gain_by(filter, arm, over);
            let trial_error = (2.0 * filter.noise.powi(2) / seconds + filter.drift.powi(2) * seconds).sqrt();
            let with = |share: f64, error: f64| Possibility { weight: weight * share, gain: Estimate { mean, error }, trial_error };
            let error = variance.sqrt();
            [with(1.0 - wrong, error), with(wrong, error.hypot(UNKNOWN.error))]
        })
    }

    fn mixed(&self, of: impl Fn(&Filter) -> (f64, f64)) -> Estimate {
        let mean: f64 = self.filters.iter().map(|(weight, filter)| weight * of(filter).0).sum();
        let variance = self.filters.iter().map(|(weight, filter)| {
            let (own, variance) = of(filter);
            weight * (variance + (own - mean).powi(2))
        });
        Estimate { mean, error: variance.sum::<f64>().sqrt() }
    }

    /// The gain of an arm over another.
    pub fn gain(&self, arm: usize, over: usize) -> Estimate {
        self.mixed(|filter| self.gain_by(filter, arm, over))
    }

    /// The expected score of a window of `seconds`, with an error that includes its noise.
    pub fn level(&self, arm: usize, seconds: f64) -> Estimate {
        let (expected, uncertain) = self.unobserved(arm);
        self.mixed(|filter| {
            let (mean, variance) = filter.sum(Some(LEVEL), self.places[arm], 1.0);
            (mean + expected, variance + uncertain + filter.noise.powi(2) / seconds)
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use rand::{Rng as _, SeedableRng as _};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::super::{Trials, UNKNOWN};
    use super::*;

    /// A standard normal variate, as a sum of uniform ones.
    fn normal(random: &mut Xoshiro256PlusPlus) -> f64 {
        (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0
    }

    /// The gain estimated from windows of two arms in turns of three seconds, with this gain, noise and drift.
    fn observed(gain: f64, noise: f64, drift: f64, seconds: usize, seed: u64) -> Estimate {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let (mut trials, mut level) = (Trials::new(2, 0), 5.0);
        for second in 0..seconds {
            let arm = usize::from(second % 6 >= 3);
            level += drift * normal(&mut random);
            let score = level + gain * arm as f64 + noise * normal(&mut random);
            trials.observe(Observation { arm, at_s: second as f64, seconds: 1.0, score });
        }
        trials.posterior().gain(1, 0)
    }

    #[test]
    fn the_stated_error_of_a_gain_is_the_error_that_it_has() {
        // Of 200 loads with random gains, noise and drift, nine in ten must be within the stated 90% interval.
        let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
        let mut within = 0;
        for seed in 0..200 {
            let gain = UNKNOWN.mean + UNKNOWN.error * normal(&mut random);
            let noise = 0.01 * 100f64.powf(random.random());
            let drift = 0.002 * 50f64.powf(random.random());
            let estimate = observed(gain, noise, drift, 18, seed);
            within += usize::from((estimate.mean - gain).abs() < statistics::normal::ONE_SIDED_95 * estimate.error);
        }
        assert!((170..=196).contains(&within), "{within} of 200");
    }

    #[test]
    fn noise_makes_a_gain_uncertain_and_more_windows_make_it_sure() {
        let (quiet, noisy, long) =
            (observed(0.1, 0.01, 0.002, 12, 1), observed(0.1, 0.5, 0.002, 12, 1), observed(0.1, 0.5, 0.002, 240, 1));
        assert!(quiet.error < 0.02 && noisy.error > 0.1 && long.error < 0.1, "{quiet:?} {noisy:?} {long:?}");
    }

    #[test]
    fn a_level_that_changes_between_turns_is_no_gain() {
        let mut trials = Trials::new(2, 0);
        for second in 0..9 {
            let (arm, later) = (usize::from((3..6).contains(&second)), f64::from(u8::from(second >= 3)));
            trials.observe(Observation { arm, at_s: second as f64, seconds: 1.0, score: 1.0 + 0.4 * later });
        }
        let gain = trials.posterior().gain(1, 0);
        assert!(gain.mean < 2.0 * gain.error, "{gain:?}");
    }
}
