//! The seam to what decides: given what was observed, what shall be set now, and why?

mod fixed;
mod seekwise;

use block::Nanos;

pub use fixed::Fixed;
pub use seekwise::Seekwise;

use crate::event::Event;
use crate::plant::Plant;
use crate::setting::Setting;
use crate::window::{Extent, Window};

/// Decides, window by window, what is set.
pub trait Controller: Send {
    /// What a person types.
    fn name(&self) -> &'static str;

    /// What to begin with, before anything was seen; asked once.
    fn begin(&mut self, now: Nanos, plant: &dyn Plant) -> Decision;

    /// How long the window shall be that begins now.
    fn extent(&self) -> Extent;

    /// Learns of each event, before the window does. True ends the window here: the workload is another one now.
    fn event(&mut self, event: &Event) -> bool {
        let _ = event;
        false
    }

    /// Says what shall be in force from the end of this window on.
    fn decide(&mut self, window: &Window, plant: &dyn Plant) -> Decision;

    /// Learns that what it decided could not be set; what was before is in force.
    fn refused(&mut self, setting: &Setting, reason: &str) {
        let _ = (setting, reason);
    }
}

/// What a controller says.
#[derive(Clone, Debug)]
pub struct Decision {
    /// What shall be set; `None` keeps what is.
    pub setting: Option<Setting>,
    /// For a person.
    pub why: String,
    /// By how much it should become better, as the difference of [`Outcome::score`](crate::Outcome::score)s.
    pub expected_gain: Option<f64>,
}

impl Decision {
    /// Everything stays as it is.
    pub fn keep(why: impl Into<String>) -> Decision {
        Decision { setting: None, why: why.into(), expected_gain: None }
    }

    /// This shall be set.
    pub fn set(setting: Setting, why: impl Into<String>) -> Decision {
        Decision { setting: Some(setting), why: why.into(), expected_gain: None }
    }
}
