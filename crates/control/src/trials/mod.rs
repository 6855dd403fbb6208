//! Trials on the target: which setting to try next, whether that is worth its cost, and what a trial has shown.
//!
//! *Model.* The log merit of a window is the level of its setting, plus a drift that all settings share, plus noise. The drift is a random
//! walk, the noise is independent from window to window, and how large both are is learned from the windows themselves: a grid of pairs is
//! weighted by how well each predicted them (Bayesian model averaging over Kalman filters). So a load whose windows differ much needs many
//! trials, or none that pays, and a change of the load in the middle of a trial is not taken for a gain.
//!
//! *Worth.* The knowledge gradient (Frazier, Powell, Dayanik: A Knowledge-Gradient Policy for Sequential Information Collection, 2008): what a
//! setting is expected to gain in the time that the load goes on if trials of it make its gain sure, less what the trials are expected to lose.
//!
//! ```
//! use block::Nanos;
//! use control::ab_test::Estimate;
//! use control::trials::{Observation, Trials};
//!
//! let mut trials = Trials::new(2, 0);
//! trials.expect(1, Estimate { mean: 0.0, error: 0.1 });
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

pub use filter::Posterior;
pub use worth::{Cost, is_adopted, worth};

/// Observations that are kept: four minutes of windows.
const MAX_OBSERVATIONS: usize = 240;

/// The score of a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observation {
    /// The setting that was active.
    pub arm: usize,
    /// When the window ended, in seconds.
    pub at_s: f64,
    /// Its length.
    pub seconds: f64,
    /// Its score ([`observe::merit`]); a number.
    pub score: f64,
}

/// What is known of the settings under one load.
#[derive(Clone, Debug)]
pub struct Trials {
    /// The expected gain of each arm over the reference, before any window.
    expected: Vec<Estimate>,
    reference: usize,
    observations: VecDeque<Observation>,
}

/// What is expected of a setting of which nothing is known: measured over the training and the validation world (`seekwise-lab twin`), where
/// gains of the kernel's schedulers over the default have a mean of -0.01 and a standard deviation of 0.22.
pub const UNKNOWN: Estimate = Estimate { mean: -0.01, error: 0.22 };

impl Trials {
    /// This number of settings, of which nothing is known. Gains are over the setting `reference`.
    pub fn new(arms: usize, reference: usize) -> Trials {
        let mut trials = Trials { expected: vec![UNKNOWN; arms], reference, observations: VecDeque::new() };
        trials.expect(reference, UNKNOWN);
        trials
    }

    /// What is expected of an arm before any window: its gain over the reference.
    pub fn expect(&mut self, arm: usize, gain: Estimate) {
        self.expected[arm] = if arm == self.reference { Estimate { mean: 0.0, error: 0.0 } } else { gain };
    }

    /// Adds a window.
    pub fn observe(&mut self, observation: Observation) {
        if observation.score.is_finite() {
            self.observations.push_back(observation);
            if self.observations.len() > MAX_OBSERVATIONS {
                self.observations.pop_front();
            }
        }
    }

    /// Forgets the windows: they are of another load.
    pub fn restart(&mut self) {
        self.observations.clear();
    }

    /// What is known now.
    pub fn posterior(&self) -> Posterior {
        let is_observed = |arm| self.observations.iter().any(|observed| observed.arm == arm);
        let is_observed = (0..self.expected.len()).map(is_observed).collect();
        Posterior::of(&self.expected, is_observed, self.observations.iter())
    }
}
