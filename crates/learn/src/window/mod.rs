//! Windows: a span of time's requests, folded into features (what was asked) and an outcome (how it was served).
//!
//! The paper's scheduling window ("Self-Learning Disk Scheduling", section 4.3): by time (its SWZ) or by number of requests (its X).

mod arrival;
mod bursts;
mod extractor;
mod features;
mod moments;
mod outcome;
mod page;
mod places;
mod quantiles;
mod streams;
mod table;

use std::sync::Arc;

use block::Nanos;

pub use arrival::{History, PREVIOUS, Previous, REQUEST_FEATURES, RequestFeatures};
pub use extractor::Extractor;
pub use features::{FEATURES, Features};
pub use outcome::{Calls, Tally, WindowOutcome};
pub use page::features_page;
pub use table::Feature;

use crate::setting::Setting;

/// How long a window is: it ends as soon as either bound is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// At most this long.
    pub time: Option<Nanos>,
    /// At most this many requests queued.
    pub requests: Option<u64>,
}

/// What happened in a span of time under one setting.
#[derive(Clone, Debug)]
pub struct Window {
    /// Counts up from 0.
    pub number: u64,
    /// Where it begins.
    pub from: Nanos,
    /// Where it ends.
    pub to: Nanos,
    /// What was in force.
    pub setting: Arc<Setting>,
    /// What was asked.
    pub features: Features,
    /// How it was served.
    pub outcome: WindowOutcome,
}

impl Window {
    /// How long it is.
    pub fn duration(&self) -> Nanos {
        self.to - self.from
    }
}
