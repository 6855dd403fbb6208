//! Predictions from counters alone, if single requests cannot be observed.
//!
//! ```text
//! samples ─▶ Counted: rates, sizes, merges, times ─┐  compared with the counters under each hypothesis
//! sysfs ───▶ Known: kind, size, depth ─────────────┤
//!                                                  ▼
//!   prior ─▶ hypotheses: streams, order, places, pace, device ─▶ those that reproduce the counters ─▶ every candidate ─▶ predictions
//!            (Hypothesis)                       (Ensemble)                                       (Judgement)
//! ```
//! Counters show neither the access pattern, nor the number of streams, nor whether these wait for completions. Many loads on many devices
//! have the same counters, and their best settings differ. So no load is inferred: hypotheses are drawn, each is simulated under the active
//! setting and counted as by the kernel, and those close to the counters are accepted (approximate Bayesian computation; Sisson, Fan,
//! Tanaka: Sequential Monte Carlo without likelihoods, PNAS 104, 2007). Every candidate is simulated on all accepted hypotheses. Its
//! prediction is the mean, and its error covers their spread.

mod controller;
mod counted;
mod counter;
mod draws;
mod ensemble;
mod hypothesis;
mod judgement;

pub use controller::ByCounters;
pub use counted::{Counted, Side, TooFew};
pub use counter::Counter;
pub use ensemble::{Ensemble, Unlike};
pub use hypothesis::{Hypothesis, Known};
pub use judgement::{Judgement, Judges};
