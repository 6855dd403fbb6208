//! Between a plant and a controller: folds events into windows, asks when one ends, sets what is said and keeps the minutes.

use std::sync::Arc;

use block::Nanos;

use crate::controller::{Controller, Decision};
use crate::event::Event;
use crate::plant::Plant;
use crate::setting::Setting;
use crate::window::{Extent, Extractor, Tally, Window};

/// A decision and what became of it.
#[derive(Clone, Debug)]
pub struct Decided {
    /// When.
    pub at: Nanos,
    /// The window it was made on; `None` of the first, which nothing came before.
    pub window: Option<u64>,
    /// What was in force.
    pub from: Arc<Setting>,
    /// What is in force since.
    pub to: Arc<Setting>,
    /// For a person.
    pub why: String,
    /// By how much it should become better, as a difference of scores.
    pub expected_gain: Option<f64>,
    /// Why it could not be set, if so: `to` is `from` then.
    pub refused: Option<String>,
}

impl Decided {
    /// Whether something else is in force than before.
    pub fn is_change(&self) -> bool {
        self.from != self.to
    }
}

/// Drives one controller on one plant.
pub struct Steering {
    controller: Box<dyn Controller>,
    extractor: Extractor,
    tally: Tally,
    setting: Option<Arc<Setting>>,
    number: u64,
    from: Nanos,
    extent: Extent,
    /// The controller asked for the end of the window, or the requests are enough.
    is_due: bool,
    decided: Vec<Decided>,
    windows: Vec<Window>,
}

impl Steering {
    /// Nothing is set before [`begin`](Steering::begin).
    pub fn new(controller: Box<dyn Controller>) -> Steering {
        Steering {
            extent: controller.extent(),
            controller,
            extractor: Extractor::new(),
            tally: Tally::new(),
            setting: None,
            number: 0,
            from: Nanos::ZERO,
            is_due: false,
            decided: Vec::new(),
            windows: Vec::new(),
        }
    }

    /// Sets what the controller begins with.
    pub fn begin(&mut self, now: Nanos, plant: &mut dyn Plant) {
        let decision = self.controller.begin(now, plant);
        self.from = now;
        self.tally.begin(now);
        self.put_in_force(now, None, decision, plant);
        self.extent = self.controller.extent();
    }

    /// Takes an event in. Allocates nothing but room for streams not seen before.
    pub fn event(&mut self, event: &Event) {
        self.is_due |= self.controller.event(event);
        self.extractor.event(event);
        self.tally.event(event);
        self.is_due |= self.extent.requests.is_some_and(|requests| self.extractor.requests() >= requests);
    }

    /// When [`look`](Steering::look) is to be called if nothing happens before; `Some` of a past time: now.
    pub fn next_look(&self) -> Option<Nanos> {
        if self.is_due { Some(self.from) } else { self.extent.time.map(|time| self.from + time) }
    }

    /// Ends the window if its time has come, and sets what the controller says.
    pub fn look(&mut self, now: Nanos, plant: &mut dyn Plant) {
        if now <= self.from || self.next_look().is_none_or(|at| at > now) {
            return;
        }
        let duration = now - self.from;
        let setting = self.setting.clone().unwrap_or_else(|| Arc::new(plant.setting()));
        let window = Window {
            number: self.number,
            from: self.from,
            to: now,
            setting,
            features: self.extractor.close(duration),
            outcome: self.tally.close(duration),
        };
        self.number += 1;
        self.from = now;
        self.is_due = false;
        let decision = self.controller.decide(&window, plant);
        self.put_in_force(now, Some(window.number), decision, plant);
        self.extent = self.controller.extent();
        self.windows.push(window);
    }

    fn put_in_force(&mut self, now: Nanos, window: Option<u64>, decision: Decision, plant: &mut dyn Plant) {
        let from = self.setting.clone().unwrap_or_else(|| Arc::new(plant.setting()));
        let Decision { setting, why, expected_gain } = decision;
        let (to, refused) = match setting {
            Some(setting) if setting != *from => match plant.apply(now, &setting) {
                Ok(()) => (Arc::new(setting), None),
                Err(error) => {
                    self.controller.refused(&setting, &error.reason);
                    (from.clone(), Some(error.to_string()))
                }
            },
            _ => (from.clone(), None),
        };
        self.setting = Some(to.clone());
        self.decided.push(Decided { at: now, window, from, to, why, expected_gain, refused });
    }

    /// Every decision so far.
    pub fn decided(&self) -> &[Decided] {
        &self.decided
    }

    /// Every window so far.
    pub fn windows(&self) -> &[Window] {
        &self.windows
    }

    /// The controller.
    pub fn controller(&self) -> &dyn Controller {
        &*self.controller
    }
}
