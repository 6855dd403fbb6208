//! The paper's third scheme as a controller ("Self-Learning Disk Scheduling", section 3.3.3): the scheduler that learns is in force from
//! beginning to end, and all learning happens inside it ([`crate::per_request`]).

use block::{Nanos, Scale, Tunable, Unit};

use super::{Brief, Controller, Decision, Spec};
use crate::per_request;
use crate::plant::Plant;
use crate::setting::Setting;
use crate::window::{Extent, Window};

/// The scheduler, and nothing else.
pub static SPEC: Spec = Spec {
    name: "per-request",
    summary: "keeps the scheduler per-request in force: what is learned is learned request by request",
    source: "Zhang and Bhargava, Self-Learning Disk Scheduling, algorithm 3",
    tunables: &[Tunable {
        name: "window_ms",
        unit: Unit::Milliseconds,
        min: 1,
        max: 3_600_000,
        default: 1000,
        scale: Scale::Logarithmic,
        doc: "How long each window is, to be looked at: it decides nothing.",
    }],
    build: |brief, values| Box::new(PerRequest::new(brief, Nanos::from_millis(values[0].unsigned_abs()))),
};

/// One scheduler for ever.
#[derive(Clone, Debug)]
pub struct PerRequest {
    setting: Setting,
    window: Nanos,
}

impl PerRequest {
    /// The candidate with that scheduler, if there is one; else the scheduler with its defaults.
    pub fn new(brief: &Brief, window: Nanos) -> PerRequest {
        let candidate = brief.candidates.iter().find(|setting| setting.spec.name == per_request::SPEC.name);
        PerRequest { setting: candidate.cloned().unwrap_or_else(|| Setting::of(&per_request::SPEC)), window }
    }
}

impl Controller for PerRequest {
    fn name(&self) -> &'static str {
        SPEC.name
    }

    fn begin(&mut self, _now: Nanos, plant: &dyn Plant) -> Decision {
        if plant.schedulers().iter().any(|spec| spec.name == self.setting.spec.name) {
            return Decision::set(self.setting.clone(), "it learns by itself, request by request");
        }
        Decision::keep(format!("{} cannot run here: what is set is kept", self.setting.spec.name))
    }

    fn extent(&self) -> Extent {
        Extent { time: Some(self.window), requests: None }
    }

    fn decide(&mut self, window: &Window, plant: &dyn Plant) -> Decision {
        if window.setting.spec.name == self.setting.spec.name {
            return Decision::keep("the scheduler learns");
        }
        Decision::keep(format!("{} is in force, for {} was not to be had", plant.setting(), self.setting))
    }
}
