//! Pilots: observe a run in virtual time and change settings while it runs.

use block::{Limits, Nanos, Rate, Scheduler, SettingError, Tunable};

use super::ServerEvent;

/// A server whose scheduler and settings can be changed in the middle of a run, and whose events can be recorded.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use block::{Limits, Nanos};
/// use sim::host::{Queue, QueueSettings};
/// use sim::profile::{DeviceOptions, load};
/// use sim::run::Steerable;
///
/// let scheduler = |text| block::parse(text).map(|(spec, values)| (spec.build)(&Limits::default(), &values));
/// let device = load("atlas10k")?.build(DeviceOptions::default());
/// let mut queue = Queue::new(scheduler("noop")?, device, QueueSettings::default());
/// queue.switch(Nanos::ZERO, scheduler("mq-deadline")?);
/// Steerable::set(&mut queue, Nanos::ZERO, 0, 128)?;
/// assert_eq!(queue.nr_requests(), 128);
/// # Ok(())
/// # }
/// ```
pub trait Steerable {
    /// Starts recording events.
    fn record_events(&mut self);

    /// Appends the events since the last call, in the order in which they happened.
    fn take_events(&mut self, into: &mut Vec<ServerEvent>);

    /// The device's size in 512-byte sectors.
    fn capacity_sectors(&self) -> u64;

    /// The limits that a scheduler must observe.
    fn limits(&self) -> Limits;

    /// Requests, of synchronous and asynchronous each, that may be queued or at the device at once.
    fn nr_requests(&self) -> u32;

    /// Minimum time without dispatch when the scheduler is replaced.
    fn switch_time(&self) -> Nanos;

    /// Replaces the scheduler, which takes at least [`switch_time`](Steerable::switch_time).
    fn switch(&mut self, now: Nanos, scheduler: Box<dyn Scheduler>);

    /// Sets the scheduler's tunables, in their order and within their ranges. Takes no time.
    fn retune(&mut self, values: &[i64]);

    /// Sets the limits of a tenant of the roster on its reads and on its writes, as `io.max` of a cgroup. Those of a tenant that is not on
    /// the roster are ignored.
    fn set_io_max(&mut self, now: Nanos, tenant: usize, limits: [Rate; 2]);

    /// The tunables of the server, apart from the scheduler's.
    fn tunables(&self) -> &'static [Tunable];

    /// The current value of the tunable at `index` of [`tunables`](Steerable::tunables); `None` if there is none.
    fn value(&self, index: usize) -> Option<i64>;

    /// Sets the tunable at `index` of [`tunables`](Steerable::tunables).
    ///
    /// # Errors
    /// There is no such tunable, or the value is out of its range; nothing changes then.
    fn set(&mut self, now: Nanos, index: usize, value: i64) -> Result<(), SettingError>;
}

/// Observes a run and may steer it; a pure observer needs only [`events`](Pilot::events).
///
/// ```
/// use block::Nanos;
/// use sim::run::{Pilot, ServerEvent, Steerable};
///
/// /// Counts events, and halves `nr_requests` after one second.
/// struct Halve {
///     events: usize,
///     done: bool,
/// }
///
/// impl Pilot for Halve {
///     fn events(&mut self, events: &[ServerEvent]) {
///         self.events += events.len();
///     }
///
///     fn next_step(&self, _quiet_until: Nanos) -> Option<Nanos> {
///         (!self.done).then_some(Nanos::from_millis(1_000))
///     }
///
///     fn step(&mut self, now: Nanos, plant: &mut dyn Steerable) -> bool {
///         self.done = true;
///         let index = plant.tunables().iter().position(|tunable| tunable.name == "nr_requests");
///         index.is_some_and(|index| plant.set(now, index, i64::from(plant.nr_requests() / 2)).is_ok())
///     }
/// }
/// # let _ = Halve { events: 0, done: false }.next_step(Nanos::MAX);
/// ```
pub trait Pilot {
    /// Called once before anything is issued.
    fn begin(&mut self, plant: &mut dyn Steerable) {
        let _ = plant;
    }

    /// Called with the events since the last call, in the order in which they happened.
    fn events(&mut self, noted: &[ServerEvent]);

    /// When its next step is due; a time in the past means right after the next event, `None` never. Nothing happens before
    /// `quiet_until`, so a pilot can put off steps that would observe nothing.
    fn next_step(&self, quiet_until: Nanos) -> Option<Nanos> {
        let _ = quiet_until;
        None
    }

    /// Called when the step is due. Returns whether it changed a setting; a step that returns false has no effect on the run.
    fn step(&mut self, now: Nanos, plant: &mut dyn Steerable) -> bool {
        let _ = (now, plant);
        false
    }
}

/// A run's pilot, if it has one.
pub(super) struct Piloted<'a> {
    pilot: Option<&'a mut dyn Pilot>,
    notes: Vec<ServerEvent>,
}

impl<'a> Piloted<'a> {
    /// Begins `pilot` with `plant`; a server that is not steerable has no pilot.
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

    /// When the pilot's next step is due if it comes before the next event, which is at `event`. An overdue step waits for that event,
    /// or a pilot that is always overdue would stop time.
    pub fn next_step(&self, now: Nanos, event: Nanos) -> Option<Nanos> {
        self.pilot.as_ref()?.next_step(event).filter(|&at| at > now && at < event)
    }

    /// Passes on the events up to `now` and takes the pilot's step if it is due. Returns whether it changed a setting.
    pub fn turn(&mut self, now: Nanos, plant: Option<&mut dyn Steerable>) -> bool {
        let (Some(pilot), Some(plant)) = (&mut self.pilot, plant) else { return false };
        plant.take_events(&mut self.notes);
        if !self.notes.is_empty() {
            pilot.events(&self.notes);
            self.notes.clear();
        }
        pilot.next_step(now).is_some_and(|at| at <= now) && pilot.step(now, plant)
    }
}
