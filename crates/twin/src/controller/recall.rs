//! A new load: is it like one that is remembered?

use block::Nanos;
use control::Decision;
use observe::similarity::{ANOTHER, Point, load_distance};

use super::arm::NEVER;
use super::known_loads;
use super::{TwinController, WINDOW};

/// Loads of this run that are remembered.
const MAX_PAST_LOADS: usize = 64;

impl TwinController {
    /// Starts with another load, which began at `began`.
    pub(super) fn begin_load(&mut self, began: Nanos, now: Nanos) -> Decision {
        let ended = self.load.mean_point();
        self.past.retain(|(past, _)| load_distance(past, &ended) >= ANOTHER);
        self.past.push((ended, self.incumbent()));
        if self.past.len() > MAX_PAST_LOADS {
            self.past.remove(0);
        }
        self.load.begin_load(began);
        self.note_change(began);
        if let Some(device) = &mut self.device {
            device.of_load = 0;
        }
        self.phase.take_pending();
        (self.mismatch, self.read_ahead_change) = (None, None);
        self.track_record.begin_load();
        self.arms.iter_mut().for_each(|arm| (arm.blocked_until, arm.measured) = (Nanos::ZERO, None));
        self.forget_trials();
        (self.measured_from, self.next_forecast) = (self.observed_from(), self.observed_from() + WINDOW);
        match self.recall(&self.load.recent_point()) {
            Some(arm) if arm != self.active => {
                let why = format!("another load, like one that {} served best", self.arms[arm].setting);
                self.change_to(now, arm, why)
            }
            // What was best for the load before says nothing of this one.
            None if self.original_for_new_load() != self.active => {
                let back = self.original_for_new_load();
                let why = format!("another load: back to {}", self.arms[back].setting);
                self.change_to(now, back, why)
            }
            _ => Decision::keep("another load"),
        }
    }

    /// The best setting of a load that is like the first one; `None` if none is remembered, or it is active.
    pub(super) fn recognise(&mut self, now: Nanos) -> Option<Decision> {
        let arm = self.recall(&self.load.recent_point()).filter(|arm| *arm != self.active)?;
        Some(self.change_to(now, arm, format!("a known load, which {} served best", self.arms[arm].setting)))
    }

    /// The best arm under a load like this one: of this run, or else of the device's history.
    pub(super) fn recall(&mut self, point: &Point) -> Option<usize> {
        let past = self.past.iter().map(|(past, arm)| (load_distance(past, point), *arm));
        let nearest = past.filter(|(apart, _)| *apart < ANOTHER).min_by(|a, b| a.0.total_cmp(&b.0));
        let recalled = nearest.map(|(_, arm)| arm).or_else(|| self.recall_known(point));
        recalled.map(|arm| self.with_active_read_ahead(arm))
    }

    /// The arm that served known loads like this one significantly better than the active one. Blocks arms that served them worse.
    fn recall_known(&mut self, point: &Point) -> Option<usize> {
        let active = self.setting().to_string();
        let gains = known_loads::gains(&self.known_loads, point, &active, self.arms.iter().map(|arm| arm.setting.to_string()));
        let better = gains
            .iter()
            .enumerate()
            .filter_map(|(arm, known)| known.filter(known_loads::is_significant).map(|(gain, _)| (arm, gain)));
        let best = better.max_by(|a, b| a.1.total_cmp(&b.1)).map_or(self.active, |(arm, _)| arm);
        let (most, unsure) = gains[best]?;
        for (arm, known) in self.arms.iter_mut().zip(&gains) {
            if known.is_some_and(|(gain, error)| known_loads::is_significant(&(most - gain, error.hypot(unsure)))) {
                arm.blocked_until = NEVER;
            }
        }
        Some(best)
    }
}
