//! Windows: the requests of a span of time, summarized as features (the requests issued) and an outcome (the performance).
//!
//! The paper's scheduling window ("Self-Learning Disk Scheduling", section 4.3): by time (its SWZ) or by number of requests (its X).

mod ahead;
mod arrival;
mod bursts;
mod extractor;
mod features;
mod moments;
mod outcome;
mod page;
mod places;
mod quantiles;
mod sums;
mod table;

pub use arrival::{History, PREVIOUS, Previous, REQUEST_FEATURES, RequestFeatures};
pub use extractor::Extractor;
pub use features::{FEATURES, Features};
pub use outcome::{Calls, Tally, WindowOutcome, depth};
pub use page::features_page;
pub(crate) use quantiles::Quantiles;
pub use table::Feature;
