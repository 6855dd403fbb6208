//! Sets one thing and keeps it: what every other controller is measured against.

use block::{Nanos, Scale, Tunable, Unit};

use super::{Controller, Decision, Spec};
use crate::plant::Plant;
use crate::setting::Setting;
use crate::window::{Extent, Window};

/// Keeps what it finds.
pub static SPEC: Spec = Spec {
    name: "fixed",
    summary: "keeps what it finds, and only looks",
    source: "what every other controller is measured against",
    tunables: &[Tunable {
        name: "window_ms",
        unit: Unit::Milliseconds,
        min: 1,
        max: 3_600_000,
        default: 1000,
        scale: Scale::Logarithmic,
        doc: "How long each window is.",
    }],
    build: |_, values| Box::new(Fixed { setting: None, window: Nanos::from_millis(values[0].unsigned_abs()) }),
};

/// One setting for ever.
#[derive(Clone, Debug)]
pub struct Fixed {
    /// What; `None` is what the plant came with.
    setting: Option<Setting>,
    window: Nanos,
}

impl Fixed {
    /// Windows of this length are closed, so that they can be looked at.
    pub fn new(setting: Setting, window: Nanos) -> Fixed {
        Fixed { setting: Some(setting), window }
    }
}

impl Controller for Fixed {
    fn name(&self) -> &'static str {
        SPEC.name
    }

    fn begin(&mut self, _now: Nanos, _plant: &dyn Plant) -> Decision {
        match &self.setting {
            Some(setting) => Decision::set(setting.clone(), "asked for"),
            None => Decision::keep("fixed"),
        }
    }

    fn extent(&self) -> Extent {
        Extent { time: Some(self.window), requests: None }
    }

    fn decide(&mut self, _window: &Window, _plant: &dyn Plant) -> Decision {
        Decision::keep("fixed")
    }
}
