//! Windows: time spans under one setting.
//!
//! The paper's scheduling window ("Self-Learning Disk Scheduling", section 4.3): by time (its SWZ) or by number of requests (its X).

use std::sync::Arc;

use block::Nanos;
use observe::WindowOutcome;
use observe::window::Features;

use crate::setting::Setting;

/// Length of a window, which ends when either bound is reached; `None`: not bounded that way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowLength {
    /// Maximum time.
    pub time: Option<Nanos>,
    /// Maximum number of requests queued.
    pub requests: Option<u64>,
}

/// Summary of a time span under one setting.
#[derive(Clone, Debug)]
pub struct Window {
    /// Index in the run, from 0.
    pub number: u64,
    /// Start.
    pub from: Nanos,
    /// End.
    pub to: Nanos,
    /// The active setting.
    pub setting: Arc<Setting>,
    /// Features of the requests queued.
    pub features: Features,
    /// Performance of the requests completed.
    pub outcome: WindowOutcome,
}

impl Window {
    /// Its length.
    pub fn duration(&self) -> Nanos {
        self.to - self.from
    }
}
