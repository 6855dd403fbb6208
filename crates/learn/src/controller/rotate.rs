//! Puts each candidate in force in turn, whatever comes of it: what changing costs by itself.

use block::{Nanos, Scale, Tunable, Unit};

use super::{Brief, Controller, Decision, Spec};
use crate::plant::Plant;
use crate::setting::Setting;
use crate::window::{Extent, Window};

/// Blind changes.
pub static SPEC: Spec = Spec {
    name: "rotate",
    summary: "puts each candidate in force in turn, whatever comes of it",
    source: "shows what changing costs by itself",
    tunables: &[Tunable {
        name: "window_ms",
        unit: Unit::Milliseconds,
        min: 1,
        max: 3_600_000,
        default: 5000,
        scale: Scale::Logarithmic,
        doc: "How long each is in force.",
    }],
    build: |brief, values| Box::new(Rotate::new(brief, Nanos::from_millis(values[0].unsigned_abs()))),
};

/// One candidate after the other.
#[derive(Clone, Debug)]
pub struct Rotate {
    candidates: Vec<Setting>,
    next: usize,
    window: Nanos,
}

impl Rotate {
    /// Each is in force for a window of this length.
    pub fn new(brief: &Brief, window: Nanos) -> Rotate {
        Rotate { candidates: brief.candidates.clone(), next: 0, window }
    }

    fn turn(&mut self) -> Decision {
        let count = self.candidates.len();
        let Some(setting) = self.candidates.get(self.next).cloned() else { return Decision::keep("there are no candidates") };
        self.next = (self.next + 1) % count;
        let place = if self.next == 0 { count } else { self.next };
        Decision::set(setting, format!("its turn: {place} of {count}"))
    }
}

impl Controller for Rotate {
    fn name(&self) -> &'static str {
        SPEC.name
    }

    fn begin(&mut self, _now: Nanos, _plant: &dyn Plant) -> Decision {
        self.turn()
    }

    fn extent(&self) -> Extent {
        Extent { time: Some(self.window), requests: None }
    }

    fn decide(&mut self, _window: &Window, _plant: &dyn Plant) -> Decision {
        self.turn()
    }
}
