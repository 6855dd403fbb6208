//! The paper's third scheme as a controller ("Self-Learning Disk Scheduling", section 3.3.3): keeps the learning scheduler
//! active throughout; all learning happens inside it ([`device_model::sched::per_request`]).

use block::{Nanos, Tunable, Unit, tunables};

use super::{Controller, ControllerInput, ControllerSpec, Decision};
use control::setting::Setting;
use control::target::Target;
use control::{Window, WindowLength};
use device_model::sched::per_request;

/// The specification of the controller.
pub static SPEC: ControllerSpec = ControllerSpec {
    name: "per-request",
    summary: "selects the scheduler per-request, which learns with every request",
    source: "Zhang and Bhargava, Self-Learning Disk Scheduling, algorithm 3",
    tunables: Tunables::TUNABLES,
    build: |brief, values| Box::new(PerRequest::new(brief, Tunables::of(values).window_ms)),
};

tunables! {
    /// Tunables of the controller.
    struct Tunables {
        /// Length of a window, for reports only: no decisions are made.
        window_ms: Nanos = Tunable::new(Unit::Milliseconds, 1..=3_600_000, 1000).logarithmic(),
    }
}

/// Keeps one scheduler for the whole run.
#[derive(Clone, Debug)]
pub struct PerRequest {
    setting: Setting,
    window: Nanos,
}

impl PerRequest {
    /// Uses the candidate whose scheduler learns, if there is one, else the scheduler `per-request` with its defaults.
    pub fn new(brief: &ControllerInput, window: Nanos) -> PerRequest {
        let candidate = brief.candidates.iter().find(|setting| setting.spec.learns());
        PerRequest { setting: candidate.cloned().unwrap_or_else(|| Setting::of(&per_request::SPEC)), window }
    }
}

impl Controller for PerRequest {
    fn name(&self) -> &'static str {
        SPEC.name
    }

    fn begin(&mut self, _now: Nanos, plant: &dyn Target) -> Decision {
        if plant.schedulers().iter().any(|spec| spec.name == self.setting.spec.name) {
            return Decision::set(self.setting.clone(), "it learns with every request");
        }
        Decision::keep(format!("{} is not available here: keeping the active setting", self.setting.spec.name))
    }

    fn window_length(&self) -> WindowLength {
        WindowLength { time: Some(self.window), requests: None }
    }

    fn decide(&mut self, window: &Window, plant: &dyn Target) -> Decision {
        if window.setting.spec.name == self.setting.spec.name {
            return Decision::keep("the scheduler learns");
        }
        Decision::keep(format!("{} is active because {} is not available", plant.setting(), self.setting))
    }
}
