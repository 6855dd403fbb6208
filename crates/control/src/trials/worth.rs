//! The value of a trial, and the condition for adopting its arm.

use super::Posterior;
use super::filter::Possibility;
use statistics::normal;

use crate::ab_test::Estimate;

/// Gain, as a difference of scores, below which a setting is left as it is. Choice: users hardly notice less, and the settings of a device
/// in production are not changed for less; not varied.
pub const WORTHWHILE: f64 = 0.05;
/// Minimum probability that an adopted arm is better: at most one change in ten may be for the worse. Choice: a higher one takes more
/// trials, a lower one adopts losses; not varied.
const SURE: f64 = 0.9;
/// The quantile of the normal distribution for that, in standard errors. Derived: the normal quantile at `SURE`.
pub const SURE_DEVIATIONS: f64 = normal::ONE_SIDED_90;
/// Weight of expected losses relative to gains: users notice harm sooner than gain. Choice: a higher one tries fewer settings; not varied.
const RISK_AVERSION: f64 = 2.0;

/// Cost of a trial.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// Time in which the arm is measured, in seconds.
    pub measured_s: f64,
    /// Time in which the arm serves without being measured, while it settles, in seconds.
    pub settling_s: f64,
    /// Cost of both switches, in seconds of the active setting's service, during which the device stops.
    pub switching_s: f64,
}

/// Numbers of turns that are considered: several turns may show a gain that one cannot. Choice: more values cost CPU time; eight turns take
/// most of a minute; not varied.
const TURNS: [f64; 3] = [2.0, 4.0, 8.0];

/// The value of trying `arm` instead of `active`, in seconds of the active setting's service: the expected gain in the remaining `lasts_s`
/// seconds of the load if the arm is then adopted, less the expected cost of the trial. Negative if the trial is not worth it. The number
/// of turns with the highest value counts (Frazier and Powell: Paradoxes in Learning and the Marginal Value of Information, 2010).
pub fn worth(posterior: &Posterior, arm: usize, active: usize, lasts_s: f64, cost: &Cost) -> f64 {
    let takes_s = cost.measured_s + cost.settling_s;
    let (mut gains, mut loses, mut goes_on) = ([0.0; TURNS.len()], 0.0, 0.0);
    for Possibility { weight, gain, trial_error } in posterior.possibilities(arm, active, cost.measured_s) {
        let after = |turns: f64| {
            let trial_error = trial_error / turns.sqrt();
            let both = gain.error.hypot(trial_error).max(f64::MIN_POSITIVE);
            // The standard deviation of the change of the estimate, and the remaining error.
            (gain.error.powi(2) / both, gain.error * trial_error / both)
        };
        for (gains, turns) in gains.iter_mut().zip(TURNS) {
            let (moves, error) = after(turns);
            *gains += weight * expectation_above(WORTHWHILE.max(SURE_DEVIATIONS * error), gain.mean, moves);
        }
        loses += weight * expected_excess(-gain.mean, gain.error);
        goes_on += weight * normal::cdf(gain.mean / after(1.0).0.max(f64::MIN_POSITIVE));
    }
    let of_turns = gains.into_iter().zip(TURNS).map(|(gains, turns)| {
        // Later turns follow only if the first one looked good. Between them the active setting serves, without the gain.
        let tried = 1.0 + (turns - 1.0) * goes_on;
        gains * (lasts_s - (turns - 1.0) * takes_s).max(0.0) - tried * (RISK_AVERSION * loses * takes_s + cost.switching_s)
    });
    of_turns.fold(f64::NEG_INFINITY, f64::max)
}

/// The probability that the gain of `arm` over `active` is worthwhile.
pub fn chance(posterior: &Posterior, arm: usize, active: usize) -> f64 {
    // The error of a trial has no part in it.
    let possibilities = posterior.possibilities(arm, active, f64::INFINITY);
    possibilities.map(|one| one.weight * chance_of(&one.gain)).sum()
}

/// The probability that this gain is worthwhile.
pub fn chance_of(gain: &Estimate) -> f64 {
    normal::cdf((gain.mean - WORTHWHILE) / gain.error.max(f64::MIN_POSITIVE))
}

/// Whether a gain is certain and large enough for its arm to be adopted.
pub fn is_adopted(gain: &Estimate) -> bool {
    gain.mean > WORTHWHILE && probability_positive(gain) >= SURE
}

fn probability_positive(gain: &Estimate) -> f64 {
    normal::cdf(gain.mean / gain.error.max(f64::MIN_POSITIVE))
}

/// The expectation of a normal variable restricted to values above `least`, with 0 for others.
fn expectation_above(least: f64, mean: f64, deviation: f64) -> f64 {
    if deviation <= 0.0 {
        return if mean > least { mean } else { 0.0 };
    }
    let z = (mean - least) / deviation;
    deviation * normal::density(z) + mean * normal::cdf(z)
}

/// The expectation of the positive part of a normal variable.
fn expected_excess(mean: f64, deviation: f64) -> f64 {
    expectation_above(0.0, mean, deviation)
}

#[cfg(test)]
mod tests {
    use super::super::{Observation, Trials};
    use super::*;

    /// Cost of a trial. Choice: about a trial of the twin's controller on a fast disk; not varied.
    const COST: Cost = Cost { measured_s: 2.0, settling_s: 1.0, switching_s: 0.01 };

    /// A reference observed for ten seconds with this noise, and an arm with this prior.
    fn watched(expected: Estimate, noise: f64) -> Posterior {
        let mut trials = Trials::new(2, 0);
        trials.expect([(1, expected)]);
        for second in 0..10 {
            let score = noise * [0.3, -1.4, 0.9, -0.2, 1.7, -0.8, 0.1, -0.6, 1.1, -1.0][second];
            trials.observe(Observation { arm: 0, at_s: second as f64, seconds: 1.0, score });
        }
        trials.posterior().clone()
    }

    #[test]
    fn a_trial_pays_where_much_is_open_and_the_load_goes_on() {
        let open = watched(Estimate { mean: 0.0, error: 0.2 }, 0.02);
        assert!(worth(&open, 1, 0, 100.0, &COST) > 1.0);
        assert!(worth(&open, 1, 0, 4.0, &COST) < 0.0, "the load is about to end");
        let hopeless = watched(Estimate { mean: -0.3, error: 0.1 }, 0.02);
        assert!(worth(&hopeless, 1, 0, 100.0, &COST) < 0.0);
        let noisy = watched(Estimate { mean: 0.0, error: 0.05 }, 2.0);
        assert!(worth(&noisy, 1, 0, 20.0, &COST) < 0.0, "a trial would show nothing");
    }

    #[test]
    fn an_arm_stays_if_nine_in_ten_like_it_are_better() {
        assert!(is_adopted(&Estimate { mean: 0.1, error: 0.07 }));
        assert!(!is_adopted(&Estimate { mean: 0.1, error: 0.09 }));
        assert!(!is_adopted(&Estimate { mean: 0.04, error: 0.0 }), "not worth a change");
    }

    #[test]
    fn a_small_forecast_has_hardly_a_chance_and_the_unknown_has_one() {
        let chance = |expected| chance(&watched(expected, 0.02), 1, 0);
        assert!(chance(Estimate { mean: 0.0, error: 0.03 }) < 0.1);
        assert!(chance(Estimate { mean: 0.3, error: 0.1 }) > 0.9);
        assert!((0.3..0.5).contains(&chance(super::super::UNKNOWN)));
    }

    #[test]
    fn the_expected_excess_is_that_of_the_normal_distribution() {
        assert!((expected_excess(0.0, 1.0) - 0.398_942_3).abs() < 1e-6 && expected_excess(2.0, 0.0) == 2.0);
    }
}
