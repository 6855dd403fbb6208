//! Sets one thing and keeps it: what every other controller is measured against.

use block::Nanos;

use super::{Controller, Decision};
use crate::plant::Plant;
use crate::setting::Setting;
use crate::window::{Extent, Window};

/// One setting for ever.
#[derive(Clone, Debug)]
pub struct Fixed {
    setting: Setting,
    window: Nanos,
}

impl Fixed {
    /// Windows of this length are closed, so that they can be looked at.
    pub fn new(setting: Setting, window: Nanos) -> Fixed {
        Fixed { setting, window }
    }
}

impl Controller for Fixed {
    fn name(&self) -> &'static str {
        "fixed"
    }

    fn begin(&mut self, _now: Nanos, _plant: &dyn Plant) -> Decision {
        Decision::set(self.setting.clone(), "asked for")
    }

    fn extent(&self) -> Extent {
        Extent { time: Some(self.window), requests: None }
    }

    fn decide(&mut self, _window: &Window, _plant: &dyn Plant) -> Decision {
        Decision::keep("fixed")
    }
}
