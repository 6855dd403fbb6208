//! Compares a new load with remembered ones.
//!
//! The trials of a load of this run are kept with it, and continue when it returns: programs work in phases, and a trial of one phase need
//! not be repeated.

use std::sync::Arc;

use block::Nanos;
use control::Decision;
use control::ab_test::Estimate;
use control::experience::Experience;
use observe::similarity::{ANOTHER, Point, load_distance};

use super::known_loads::KnownLoad;
use super::trying::{Origin, Trying, Unconfirmed};
use super::{MIN_LOAD_S, STREAM_START_GAP, TwinController, WINDOW};
use super::{known_loads, sources};
use crate::forecast::differ_by_read_ahead;

/// Maximum number of remembered loads of this run. Choice: each new load is compared with all of them; more than the distinct loads of most
/// machines; not varied.
const MAX_PAST_LOADS: usize = 64;

/// Time for which an arm is not tried that did worse under similar loads of earlier runs. Choice: a forecast is there long before; a wrong
/// result costs this time; not varied.
const RECALLED_BLOCK: Nanos = Nanos::from_millis(20_000);

/// Time after which a load counts as complete, although processes still start. Choice: longer ones delay a known setting under loads whose
/// processes start all the time; not varied.
const COMPLETE_AFTER: Nanos = Nanos::from_millis(4_000);

/// Loads that are known from this run and from earlier ones.
pub(super) struct Memory {
    pub experience: Arc<Experience>,
    /// Loads of the device in the experience.
    pub known_loads: Vec<KnownLoad>,
    /// Loads of this run that have ended.
    pub past: Vec<PastLoad>,
    /// How long the present load lasted before it was interrupted, in seconds.
    pub lasted_before_s: f64,
    /// Summary of the experience with loads like the present one, for display.
    pub says: String,
}

impl Memory {
    /// This experience, and no load of this run.
    pub fn new(experience: Arc<Experience>) -> Memory {
        let says = "the load was not seen yet".to_owned();
        Memory { experience, known_loads: Vec::new(), past: Vec::new(), lasted_before_s: 0.0, says }
    }
}

/// A load of this run that ended.
pub(super) struct PastLoad {
    pub point: Point,
    /// The arm that was active at its end, or would have stayed.
    pub arm: usize,
    /// Total time that it lasted, in seconds.
    pub lasted_s: f64,
    pub trying: Trying,
    /// Time until which each arm is blocked.
    pub blocked_until: Vec<Nanos>,
}

/// A summary of the number of similar loads among the known ones, for display.
fn memory_says(alike: usize, known: usize) -> String {
    match (alike, known) {
        (_, 0) => "no known load of this device".to_owned(),
        (0, known) => format!("no similar load of {known} known"),
        (alike, known) => format!("{alike} of {known} known loads are similar"),
    }
}

impl TwinController {
    /// Starts another load, which began at `began`.
    pub(super) fn begin_load(&mut self, began: Nanos, now: Nanos) -> Decision {
        self.remember_load(began);
        self.present.load.begin_load(began);
        self.fleet.begin_load();
        self.timeline.note_change(began);
        if let Some(device) = &mut self.model.device {
            device.of_load = 0;
        }
        self.phase.take_pending();
        (self.model.mismatch, self.read_ahead.change, self.model.no_forecast) = (None, None, None);
        self.model.track_record.begin_load();
        self.arms.iter_mut().for_each(|arm| arm.measured = None);
        self.resume_trials(&self.present.load.recent_point());
        (self.timeline.measured_from, self.timeline.next_forecast) = (self.observed_from(), self.observed_from() + WINDOW);
        match self.recall(&self.present.load.recent_point(), now) {
            Some(arm) if arm != self.active => {
                let why = format!("another load, like one that {} served best", self.arms[arm].setting);
                self.change_to(now, arm, why)
            }
            None if self.original_for_new_load() != self.active => {
                let back = self.original_for_new_load();
                let (active, original) = (self.setting(), &self.arms[back].setting);
                if differ_by_read_ahead(active, original) {
                    let why = format!("another load: back to {original}");
                    return self.change_to(now, back, why);
                }
                // The best setting for the previous load may be wrong for this one, and what looks like another load may be the same.
                let why = format!("another load: {active} is to be compared with {original}");
                self.trying.unconfirmed = Some(Unconfirmed::at_once(self.original, Origin::LoadBefore));
                Decision::keep(why)
            }
            _ => Decision::keep("another load"),
        }
    }

    /// Stores the load that ended at `began`, with its trials.
    fn remember_load(&mut self, began: Nanos) {
        let point = self.present.load.mean_point();
        let lasted_s = self.lasted_s(began);
        let arm = self.incumbent();
        let trying = std::mem::replace(&mut self.trying, Trying::new(self.arms.len(), self.original)).interrupted();
        let blocked_until = self.arms.iter_mut().map(|arm| std::mem::take(&mut arm.blocked_until)).collect();
        self.memory.past.retain(|past| load_distance(&past.point, &point) >= ANOTHER);
        // A load without a complete window would match any other.
        if !point.iter().all(|value| value.is_nan()) {
            self.memory.past.push(PastLoad { point, arm, lasted_s, trying, blocked_until });
        }
        if self.memory.past.len() > MAX_PAST_LOADS {
            self.memory.past.remove(0);
        }
    }

    /// Continues the trials of a past load like this one, if there is one.
    pub(super) fn resume_trials(&mut self, point: &Point) {
        self.memory.lasted_before_s = 0.0;
        if let Some(index) = self.nearest_past(point) {
            let mut past = self.memory.past.remove(index);
            self.memory.lasted_before_s = past.lasted_s;
            std::mem::swap(&mut self.trying, &mut past.trying);
            self.arms.iter_mut().zip(&past.blocked_until).for_each(|(arm, until)| arm.blocked_until = *until);
            self.memory.past.push(past);
        }
    }

    /// Age of the load at `now` in seconds, including the time before it was interrupted.
    pub(super) fn lasted_s(&self, now: Nanos) -> f64 {
        self.memory.lasted_before_s + (now - self.present.load.from).as_secs_f64()
    }

    /// The index of the past load of this run that is most similar; `None` if none is similar.
    fn nearest_past(&self, point: &Point) -> Option<usize> {
        let apart = self.memory.past.iter().map(|past| load_distance(&past.point, point)).enumerate();
        apart.filter(|(_, apart)| *apart < ANOTHER).min_by(|a, b| a.1.total_cmp(&b.1)).map(|(index, _)| index)
    }

    /// Whether the present load may be recognised. Its processes often start one after another, and one of several readers looks like
    /// another load, and waits less than it will. Not once another setting was tried.
    pub(super) fn may_be_recognised(&self, now: Nanos) -> bool {
        let from = self.present.load.from;
        let is_complete = now >= from + COMPLETE_AFTER || self.seen.recording.newcomers(now - STREAM_START_GAP) == 0;
        let is_young = is_complete && now <= from + Nanos::from_secs_f64(MIN_LOAD_S);
        let is_untried = self.trying.trial.is_none() && self.trying.unconfirmed.is_none() && self.trying.tried().next().is_none();
        self.present.is_known && is_young && is_untried && self.active == self.original && !self.memory.known_loads.is_empty()
    }

    /// Changes to the best setting of a remembered load that is like the first one; `None` if there is none, or it is active.
    pub(super) fn recognise(&mut self, now: Nanos) -> Option<Decision> {
        let arm = self.recall(&self.present.load.recent_point(), now).filter(|arm| *arm != self.active)?;
        Some(self.change_to(now, arm, format!("a known load, which {} served best", self.arms[arm].setting)))
    }

    /// The best arm under a load like this one: from this run, or else from the device's history. `None` if no similar load is known.
    pub(super) fn recall(&mut self, point: &Point, now: Nanos) -> Option<usize> {
        let recalled = match self.nearest_past(point) {
            Some(index) => {
                let arm = self.memory.past[index].arm;
                self.memory.says = format!("this load came before, and {} served it then", self.arms[arm].setting);
                Some(arm)
            }
            None => self.recall_known(point, now),
        };
        recalled.map(|arm| self.with_active_read_ahead(arm))
    }

    /// The arm with a significant gain over the active one under similar known loads, or the active one; `None` without such loads. Arms
    /// that did significantly worse are not tried for [`RECALLED_BLOCK`]; the original one is, to confirm the recalled one.
    fn recall_known(&mut self, point: &Point, now: Nanos) -> Option<usize> {
        let active = self.setting().to_string();
        let alike = known_loads::alike(&self.memory.known_loads, point, &active);
        let gains = known_loads::gains(&alike, &active, self.arms.iter().map(|arm| arm.setting.to_string()));
        self.memory.says = memory_says(alike.len(), self.memory.known_loads.len());
        let better = gains
            .iter()
            .enumerate()
            .filter_map(|(arm, known)| known.filter(known_loads::is_significant).map(|(gain, _)| (arm, gain)));
        let best = better.max_by(|a, b| a.1.total_cmp(&b.1)).map_or(self.active, |(arm, _)| arm);
        let (most, unsure) = gains[best]?;
        if best != self.active {
            let gain = sources::gain(&Estimate { mean: most, error: unsure });
            self.memory.says += &format!(": {} {gain}", self.arms[best].setting);
        }
        self.trying.unconfirmed = (best != self.original).then(|| Unconfirmed::at_once(self.original, Origin::EarlierRuns));
        let others = self.arms.iter_mut().zip(&gains).enumerate().filter(|(arm, _)| *arm != self.original);
        for (_, (arm, known)) in others {
            if known.is_some_and(|(gain, error)| known_loads::is_significant(&(most - gain, error.hypot(unsure)))) {
                arm.blocked_until = now + RECALLED_BLOCK;
            }
        }
        Some(best)
    }
}
