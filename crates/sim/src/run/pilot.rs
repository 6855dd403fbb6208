//! ControlLoop a run from inside: a pilot is told what happens in virtual time, and changes settings at times of its choosing.

use block::{Limits, Nanos, Scheduler, SettingError, Tunable};

use super::ServerEvent;

/// A server whose scheduler and settings can be changed in the middle of a run, and whose events can be recorded.
pub trait Steerable {
    /// Starts recording what happens to each issue.
    fn note(&mut self);

    /// Appends what was recorded since the last call, in the order in which it happened.
    fn take_events(&mut self, into: &mut Vec<ServerEvent>);

    /// The device's size in 512-byte sectors.
    fn capacity_sectors(&self) -> u64;

    /// The limits that a scheduler must keep to.
    fn limits(&self) -> Limits;

    /// Requests of a kind that may be queued or at the device at once.
    fn nr_requests(&self) -> u32;

    /// How long nothing goes to the device when its scheduler is exchanged, at least.
    fn switch_time(&self) -> Nanos;

    /// Exchanges the scheduler, which takes its [time](Steerable::switch_time).
    fn switch(&mut self, now: Nanos, scheduler: Box<dyn Scheduler>);

    /// Gives the scheduler's tunables new values, in their order and within their ranges. Takes no time.
    fn retune(&mut self, values: &[i64]);

    /// The tunables beside the scheduler's.
    fn tunables(&self) -> &'static [Tunable];

    /// The value in force of the tunable at `index` of these; `None` if there is none.
    fn value(&self, index: usize) -> Option<i64>;

    /// Sets the tunable at `index` of these.
    ///
    /// # Errors
    /// There is no such tunable, or the value is out of its range; nothing changes then.
    fn set(&mut self, now: Nanos, index: usize, value: i64) -> Result<(), SettingError>;
}

/// Steers a run, or only watches it: then what happens is all that it needs to take in.
pub trait Pilot {
    /// The run is about to begin; nothing has been issued yet.
    fn begin(&mut self, plant: &mut dyn Steerable) {
        let _ = plant;
    }

    /// What happened since the last call, in the order in which it happened.
    fn events(&mut self, noted: &[ServerEvent]);

    /// When its next step is due. A time that has passed: right after the next event.
    fn next_step(&self) -> Option<Nanos> {
        None
    }

    /// Its step. Returns whether it changed anything: a step that changes nothing has no effect on the run.
    fn step(&mut self, now: Nanos, plant: &mut dyn Steerable) -> bool {
        let _ = (now, plant);
        false
    }
}

/// A run's pilot, if it has one; none costs nothing.
pub(super) struct Piloted<'a> {
    pilot: Option<&'a mut dyn Pilot>,
    notes: Vec<ServerEvent>,
}

impl<'a> Piloted<'a> {
    /// Has `pilot` begin with `plant`. A run without a plant has no pilot.
    pub fn new(pilot: Option<&'a mut dyn Pilot>, plant: Option<&mut dyn Steerable>) -> Piloted<'a> {
        let pilot = match (pilot, plant) {
            (Some(pilot), Some(plant)) => {
                plant.record_events();
                pilot.begin(plant);
                Some(pilot)
            }
            _ => None,
        };
        Piloted { pilot, notes: Vec::new() }
    }

    /// When the pilot's next step is due if nothing happens before. One that is overdue waits for the next event: otherwise a pilot
    /// that is always overdue would stop time.
    pub fn next_step(&self, now: Nanos) -> Option<Nanos> {
        self.pilot.as_ref()?.next_step().filter(|&at| at > now)
    }

    /// Passes on what happened by `now`, and lets the pilot take its step if that is due. Returns whether it changed anything.
    pub fn turn(&mut self, now: Nanos, plant: Option<&mut dyn Steerable>) -> bool {
        let (Some(pilot), Some(plant)) = (&mut self.pilot, plant) else { return false };
        plant.take_events(&mut self.notes);
        if !self.notes.is_empty() {
            pilot.events(&self.notes);
            self.notes.clear();
        }
        pilot.next_step().is_some_and(|at| at <= now) && pilot.step(now, plant)
    }
}
