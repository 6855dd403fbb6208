//! Predictions from counters alone, where single requests cannot be observed.
//!
//! ```text
//! samples ─▶ Counted: rates, sizes, merges, times ─┐  compared with what each would have counted
//! sysfs ───▶ Known: kind, size, depth ─────────────┤
//!                                                  ▼
//!   prior ─▶ hypotheses: streams, order, places, pace, device ─▶ those that reproduce the counters ─▶ every candidate ─▶ predictions
//!            (Hypothesis)                       (Ensemble)                                       (Judgement)
//! ```
//! Counters do not say whether accesses are random, how many streams there are, nor whether these wait for answers. Many loads on many
//! devices count alike, and their best settings differ. So no load is inferred: hypotheses are drawn, each is simulated under
//! the active setting and counted as the kernel counts, and those that come near to the counters are kept (approximate Bayesian
//! computation; Sisson, Fan, Tanaka: Sequential Monte Carlo without likelihoods, PNAS 104, 2007). Every candidate is simulated
//! on all that are kept. Its prediction is the mean, and its error covers how far they disagree.

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
