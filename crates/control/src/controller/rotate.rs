//! Applies each candidate in turn regardless of results, to measure the cost of changes.

use block::{Nanos, Tunable, Unit, tunables};

use super::{Controller, ControllerInput, ControllerSpec, Decision};
use crate::setting::Setting;
use crate::target::Target;
use crate::{Window, WindowLength};

/// Specification.
pub static SPEC: ControllerSpec = ControllerSpec {
    name: "rotate",
    summary: "applies each candidate in turn, regardless of the results",
    source: "shows the cost of changes alone",
    tunables: Tunables::TUNABLES,
    build: |input, values| Box::new(Rotate::new(input, Tunables::of(values).window_ms)),
};

tunables! {
    /// The tunables.
    struct Tunables {
        /// Time for which each is active.
        window_ms: Nanos = Tunable::new(Unit::Milliseconds, 1..=3_600_000, 5000).logarithmic(),
    }
}

/// One candidate after the other.
#[derive(Clone, Debug)]
pub struct Rotate {
    candidates: Vec<Setting>,
    next: usize,
    window: Nanos,
}

impl Rotate {
    /// Keeps each candidate for a window of this length.
    pub fn new(input: &ControllerInput, window: Nanos) -> Rotate {
        Rotate { candidates: input.candidates.clone(), next: 0, window }
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

    fn begin(&mut self, _now: Nanos, _target: &dyn Target) -> Decision {
        self.turn()
    }

    fn window_length(&self) -> WindowLength {
        WindowLength { time: Some(self.window), requests: None }
    }

    fn decide(&mut self, _window: &Window, _target: &dyn Target) -> Decision {
        self.turn()
    }
}
