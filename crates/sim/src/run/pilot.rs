//! Who steers a run from inside: told what happens in virtual time, and asked what shall be set.

use block::{Limits, Nanos, Scheduler, SettingError, Tunable};

use crate::host::Noted;

/// What can be set in the middle of a run, and what can be seen: a [`Queue`](crate::host::Queue), a [`Host`](crate::host::Host).
pub trait Steerable {
    /// From now on notes down what happens to each issue.
    fn note(&mut self);

    /// Appends what was noted down since it was last taken, in the order in which it happened.
    fn take_notes(&mut self, into: &mut Vec<Noted>);

    /// What a scheduler must keep to.
    fn limits(&self) -> Limits;

    /// How long at least the device is left alone when its scheduler is exchanged.
    fn switch_time(&self) -> Nanos;

    /// Exchanges the scheduler, which takes its [time](Steerable::switch_time).
    fn switch(&mut self, now: Nanos, scheduler: Box<dyn Scheduler>);

    /// Gives the scheduler's tunables new values, in their order and within their ranges; takes no time.
    fn retune(&mut self, values: &[i64]);

    /// What else can be set.
    fn tunables(&self) -> &'static [Tunable];

    /// The value in force of the tunable at `index` of these; `None` if there is none.
    fn value(&self, index: usize) -> Option<i64>;

    /// Sets the tunable at `index` of these.
    ///
    /// # Errors
    /// There is no such tunable, or the value is out of its range; nothing changes then.
    fn set(&mut self, now: Nanos, index: usize, value: i64) -> Result<(), SettingError>;
}

/// Steers a run.
pub trait Pilot {
    /// The run is about to begin: nothing was issued yet.
    fn begin(&mut self, plant: &mut dyn Steerable);

    /// Learns what happened, in the order in which it did.
    fn events(&mut self, noted: &[Noted]);

    /// When it wants to have a look; `Some` of a time that is over: after whatever happens next.
    fn next_look(&self) -> Option<Nanos>;

    /// The time has come. True if it set anything: otherwise the run goes on as if nobody had looked.
    fn look(&mut self, now: Nanos, plant: &mut dyn Steerable) -> bool;
}

/// A pilot at work; or nobody, at no cost.
pub(super) struct Steered<'a> {
    pilot: Option<&'a mut dyn Pilot>,
    notes: Vec<Noted>,
}

impl<'a> Steered<'a> {
    /// Begins to steer `plant`. What cannot be steered is left alone.
    pub fn new(pilot: Option<&'a mut dyn Pilot>, plant: Option<&mut dyn Steerable>) -> Steered<'a> {
        let pilot = match (pilot, plant) {
            (Some(pilot), Some(plant)) => {
                plant.note();
                pilot.begin(plant);
                Some(pilot)
            }
            _ => None,
        };
        Steered { pilot, notes: Vec::new() }
    }

    /// When the next look is to come if nothing happens before. One that is overdue waits for something to happen: time does not
    /// stand still for it.
    pub fn next_look(&self, now: Nanos) -> Option<Nanos> {
        self.pilot.as_ref()?.next_look().filter(|&at| at > now)
    }

    /// Passes on what happened by `now`, and has the pilot look if it wants to. True if it set anything.
    pub fn turn(&mut self, now: Nanos, plant: Option<&mut dyn Steerable>) -> bool {
        let (Some(pilot), Some(plant)) = (&mut self.pilot, plant) else { return false };
        plant.take_notes(&mut self.notes);
        if !self.notes.is_empty() {
            pilot.events(&self.notes);
            self.notes.clear();
        }
        pilot.next_look().is_some_and(|at| at <= now) && pilot.look(now, plant)
    }
}
