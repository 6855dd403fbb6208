//! Trials on the target: which setting to try next, whether that is worth its cost, and the result of a trial.
//!
//! *Model.* The log merit of a window is the level of its setting, plus a drift that all settings share, plus noise. The drift is a random
//! walk, the noise is independent between windows, and the magnitudes of both are learned from the windows: a grid of pairs is weighted by
//! how well each pair predicted them (Bayesian model averaging over Kalman filters). So a load whose windows vary much needs many trials,
//! or none is worth its cost, and a change of the load during a trial does not count as a gain.
//!
//! *Value.* The knowledge gradient (Frazier, Powell, Dayanik: A Knowledge-Gradient Policy for Sequential Information Collection, 2008): the
//! expected gain over the remaining time of the load if trials make it certain, less the expected loss during the trials.
//!
//! ```
//! use block::Nanos;
//! use control::ab_test::Estimate;
//! use control::trials::{Observation, Trials};
//!
//! let mut trials = Trials::new(2, 0);
//! trials.expect([(1, Estimate { mean: 0.0, error: 0.1 })]);
//! for second in 0..12 {
//!     // The other arm is 30% better, and both get slower all the time.
//!     let arm = usize::from(second % 6 >= 3);
//!     let score = 1.0 + 0.262 * arm as f64 - 0.01 * f64::from(second);
//!     trials.observe(Observation { arm, at_s: f64::from(second), seconds: 1.0, score });
//! }
//! let gain = trials.posterior().gain(1, 0);
//! assert!((gain.mean - 0.262).abs() < 0.05 && gain.mean > 3.0 * gain.error, "{gain:?}");
//! ```

mod filter;
mod worth;

use std::collections::VecDeque;

use crate::ab_test::Estimate;

pub use filter::{Posterior, stated};
pub use worth::{Cost, SURE_DEVIATIONS, WORTHWHILE, chance, chance_of, is_adopted, worth};

/// Maximum number of observations kept: eight minutes of windows of two seconds. Choice: more cost CPU time at each decision, fewer forget
/// early trials; not varied.
const MAX_OBSERVATIONS: usize = 240;

/// The score of a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observation {
    /// Index of the active setting.
    pub arm: usize,
    /// End of the window, in seconds.
    pub at_s: f64,
    /// Length in seconds.
    pub seconds: f64,
    /// The score ([`observe::merit`]).
    pub score: f64,
}

/// Estimates of the settings under one load.
#[derive(Clone, Debug)]
pub struct Trials {
    reference: usize,
    /// The latest windows, from which the posterior is recomputed if a prior changes, or on the first observation of an arm.
    observations: VecDeque<Observation>,
    posterior: Posterior,
}

/// Prior of the gain of a setting without information. Source: `seekwise-lab twin` over the training and the validation world, in which
/// gains of the kernel's schedulers over the default have a mean of -0.01 and a standard deviation of 0.22.
pub const UNKNOWN: Estimate = Estimate { mean: -0.01, error: 0.22 };

impl Trials {
    /// Estimates for `arms` settings, with the prior [`UNKNOWN`]. Gains are over the setting `reference`.
    pub fn new(arms: usize, reference: usize) -> Trials {
        let mut expected = vec![UNKNOWN; arms];
        if let Some(own) = expected.get_mut(reference) {
            *own = Estimate { mean: 0.0, error: 0.0 };
        }
        Trials { reference, observations: VecDeque::new(), posterior: Posterior::of(expected, reference, std::iter::empty()) }
    }

    /// Sets the priors of arms: the expected gain of each over the reference, before any window.
    pub fn expect(&mut self, gains: impl IntoIterator<Item = (usize, Estimate)>) {
        let mut is_observed = false;
        for (arm, gain) in gains.into_iter().filter(|(arm, _)| *arm != self.reference) {
            is_observed |= self.posterior.is_observed(arm) && self.posterior.expected()[arm] != gain;
            self.posterior.expect(arm, gain);
        }
        if is_observed {
            self.work_out();
        }
    }

    /// Adds a window. A window without a finite score is ignored.
    pub fn observe(&mut self, observation: Observation) {
        if !observation.score.is_finite() {
            return;
        }
        if self.observations.len() == MAX_OBSERVATIONS {
            self.observations.pop_front();
        }
        self.observations.push_back(observation);
        if self.posterior.is_observed(observation.arm) {
            self.posterior.observe(&observation);
        } else {
            self.work_out();
        }
    }

    /// Discards the windows, which belong to a previous load.
    pub fn restart(&mut self) {
        self.observations.clear();
        self.work_out();
    }

    /// The current estimates.
    pub fn posterior(&self) -> &Posterior {
        &self.posterior
    }

    /// The gain of the arm of the latest window over `arm`, from that window alone; `None` without a window, or if it was of `arm`.
    pub fn last_gain_over(&self, arm: usize) -> Option<f64> {
        let last = self.observations.back().filter(|last| last.arm != arm)?;
        Some(last.score - self.posterior.level(arm, last.seconds).mean)
    }

    /// Number of windows of this arm on which the estimates rest.
    pub fn windows(&self, arm: usize) -> u32 {
        self.observations.iter().filter(|observation| observation.arm == arm).count() as u32
    }

    fn work_out(&mut self) {
        let expected = self.posterior.expected().to_vec();
        self.posterior = Posterior::of(expected, self.reference, self.observations.iter());
    }
}
