//! Applies one setting and keeps it: the baseline for every other controller.

use block::{Nanos, Tunable, Unit, tunables};

use super::{Controller, ControllerSpec, Decision};
use crate::setting::Setting;
use crate::target::Target;
use crate::{Window, WindowLength};

/// Specification.
pub static SPEC: ControllerSpec = ControllerSpec {
    name: "fixed",
    summary: "keeps what it finds, and only looks",
    source: "the baseline of every other controller",
    tunables: Tunables::TUNABLES,
    build: |_, values| Box::new(Fixed { setting: None, window: Tunables::of(values).window_ms }),
};

tunables! {
    /// The tunables.
    struct Tunables {
        /// Length of a window.
        window_ms: Nanos = Tunable::new(Unit::Milliseconds, 1..=3_600_000, 1000).logarithmic(),
    }
}

/// A constant setting.
#[derive(Clone, Debug)]
pub struct Fixed {
    /// The setting; `None` keeps the active one.
    setting: Option<Setting>,
    window: Nanos,
}

impl Fixed {
    /// Applies this setting, and records windows of this length.
    pub fn new(setting: Setting, window: Nanos) -> Fixed {
        Fixed { setting: Some(setting), window }
    }
}

impl Fixed {
    /// Keeps the active setting, and records windows of this length.
    pub fn keeping(window: Nanos) -> Fixed {
        Fixed { setting: None, window }
    }
}

impl Controller for Fixed {
    fn name(&self) -> &'static str {
        SPEC.name
    }

    fn begin(&mut self, _now: Nanos, _target: &dyn Target) -> Decision {
        match &self.setting {
            Some(setting) => Decision::set(setting.clone(), "asked for"),
            None => Decision::keep("fixed"),
        }
    }

    fn window_length(&self) -> WindowLength {
        WindowLength { time: Some(self.window), requests: None }
    }

    fn decide(&mut self, _window: &Window, _target: &dyn Target) -> Decision {
        Decision::keep("fixed")
    }
}
