//! The paper's algorithms as printed in section 3.3.
//!
//! ```text
//! runs under each scheduler ──windows──▶ log ──labels──▶ Classifier ──▶ feedback: Algorithms 2 and 4
//! runs under anticipatory ──requests──▶ samples ────────▶ ResponseTimes ──▶ per_request: Algorithm 3
//! ```
//! Gaps in the paper are noted where they are filled. Our variants of the same schemes are in [`crate::controller`] (with a guard
//! against uncertain choices, and an evaluation of each change) and in [`device_model::sched::per_request`] (with a model of the disk).

mod feedback;
mod log;
mod per_request;

pub use feedback::{Feedback, Online};
pub use log::{Achieved, Classifier, RankedBy, Ranking, Row, achieved, features};
pub use per_request::{Known, RequestLogger, ResponseTimes, SPEC, SPEC_LOGISTIC, Sample};
