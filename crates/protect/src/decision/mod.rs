//! A controller that enforces guarantees of units (cgroups: services, containers) by limiting their neighbours (`io.max`).
//!
//! ```text
//! observe::Event of each unit ──▶ Protector ──every 100 ms──▶ Change (a unit's limit, and why)
//!                                     └────────────────────▶ Standing of each guarantee
//! ```
//! It depends on no kernel, simulator or clock: its host passes in timestamped events, calls [`Protector::step`] every [`PERIOD`], and
//! applies the changes.

mod admission;
mod demand;
mod device_time;
mod feasibility;
mod guard;
mod limits;
mod meter;
mod presence;
mod reference;
mod search;
mod settling;
mod spans;
mod watch;

use block::Nanos;
use observe::Event;

pub use admission::{Admission, Alone, Figure};
pub use device_time::DeviceTime;
use guard::Guard;
use meter::Meter;
pub(crate) use meter::SMALL_BYTES;
pub use reference::Reference;

/// Time between two calls of [`Protector::step`]. Choice: a shorter one limits sooner and costs more CPU time (39 µs a step for 50 units);
/// not varied.
pub const PERIOD: Nanos = Nanos::from_millis(100);
/// Number of steps per second. Derived: from [`PERIOD`].
const STEPS: usize = (1_000_000_000 / PERIOD.0) as usize;

/// Number of kinds of response times: reads, synchronous writes, flushes. Derived: the number of p99s in a [`Promise`].
pub const KINDS: usize = 3;
/// Number of kinds of rates: requests, bytes, seconds of device time, seconds of a reference disk's service. Derived: the number of rates
/// in a [`Promise`].
pub const RATES: usize = 4;

/// The guarantees of a unit; `None`: no such guarantee.
///
/// They hold for each second in which the unit has requests: at most 1% of its requests take longer than the p99, and it completes at least
/// this number of requests and bytes per second of the time in which it has outstanding requests. In that time it also gets at least its
/// share of the device, and service as from the reference disk.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Promise {
    /// Maximum p99 response time of reads.
    pub read_p99: Option<Nanos>,
    /// Maximum p99 response time of synchronous writes; write-back has no response time.
    pub write_p99: Option<Nanos>,
    /// Maximum p99 of calls of fsync, or of flushes if calls cannot be observed.
    pub flush_p99: Option<Nanos>,
    /// Minimum number of requests per second.
    pub least_iops: Option<f64>,
    /// Minimum throughput in bytes per second.
    pub least_bytes_per_s: Option<f64>,
    /// Minimum share of the device's time, from 0 to 1.
    pub share: Option<f64>,
    /// A reference disk, which is a lower bound of the unit's service.
    pub reference: Option<Reference>,
}

/// A cgroup whose requests are observed.
#[derive(Clone, Debug, PartialEq)]
pub struct Unit {
    /// Its name, for [`Change::why`].
    pub name: String,
    /// Its guarantees; `None` if it is only a neighbour.
    pub promise: Option<Promise>,
    /// Whether it may be limited.
    pub is_limitable: bool,
    /// Minimum limit of this unit, in bytes per second.
    pub floor_bytes_per_s: u64,
}

/// Limits as in `io.max`; `None` is `max`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limit {
    /// `rbps`.
    pub read_bytes_per_s: Option<u64>,
    /// `wbps`.
    pub write_bytes_per_s: Option<u64>,
    /// `riops`.
    pub read_iops: Option<u64>,
    /// `wiops`.
    pub write_iops: Option<u64>,
}

impl Limit {
    /// Whether nothing is limited.
    pub fn is_none(&self) -> bool {
        *self == Limit::default()
    }
}

/// A limit to be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Index of the unit.
    pub unit: usize,
    /// Its limits from now on.
    pub limit: Limit,
    /// The reason, with figures.
    pub why: String,
}

/// The state of a guarantee.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The unit has no requests, so the guarantee demands nothing.
    Idle,
    /// The guarantee is kept.
    Kept,
    /// It is broken, and limits on neighbours that keep it are being searched for.
    NotKept,
    /// It is broken even with the neighbours at their floors, or these are not the cause. Their limits were lifted, unless it is broken at
    /// least twice as severely without them.
    CannotBeKept,
    /// The device cannot keep it even for the unit alone, or not together with other guarantees: nothing is limited for it.
    Refused,
}

/// The share of a unit's waiting time behind another unit's requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Blame {
    /// Index of the other unit.
    pub unit: usize,
    /// Share from 0 to 1.
    pub share: f64,
}

/// The state of a unit's guarantees, with measurements.
#[derive(Clone, Debug, PartialEq)]
pub struct Standing {
    /// Index of the unit.
    pub unit: usize,
    /// The state.
    pub state: State,
    /// Measurements, for display.
    pub measured: String,
    /// The units behind whose requests it waited, the largest share first.
    pub blame: Vec<Blame>,
    /// Whether the guarantees were admitted, and why.
    pub admission: Admission,
}

/// Time after its last event during which a neighbour counts as active. Choice: a shorter one forgets the limits in a pause, a longer one
/// counts a neighbour that has left; not varied.
const ACTIVE: Nanos = Nanos::from_millis(2_000);
/// A neighbour without requests for this time, or for twice the interval between requests that its limit allows, leaves room that is no
/// evidence about limits. Choice: two steps, so that one without a completion is no pause; not varied.
const PAUSE: Nanos = Nanos::from_millis(200);
/// Interval between decisions on admission. Choice: more frequent decisions raise the chance of a false refusal; not varied.
const DECIDED: Nanos = Nanos::from_millis(1_000);

/// Enforces the guarantees of units.
///
/// Each guarantee has one controlled quantity: the device time per second that all neighbours together may have. It is divided among them
/// max-min fairly: neighbours that demand less than an equal part get their demand. A neighbour's part is converted to a limit by the bytes
/// or requests that it moved per second of device time while it was unlimited. While the guarantee is broken, the time is cut in proportion
/// to the violation; while it is kept with room to spare, the time is raised towards the lowest value that broke it. Levels are remembered
/// for each set of neighbours.
///
/// A neighbour without requests keeps its limit while the guaranteed unit has some: unlimited, it would fill the queue within a period when
/// it returns. While the guaranteed unit has no requests there are no limits, except on write-back that has accumulated behind one, and
/// over short pauses from which it came back to a queue that broke the guarantee. After a pause the last level is applied again.
#[derive(Debug)]
pub struct Protector {
    units: Vec<Unit>,
    meters: Vec<Meter>,
    guards: Vec<Guard>,
    /// Index of the guard of each unit's guarantee; `None` without one.
    guard_of: Vec<Option<usize>>,
    limits: Vec<Limit>,
    /// The device time of all units.
    device_time: DeviceTime,
    stepped: Nanos,
    /// Time of the last decision on admission.
    decided: Nanos,
}

impl Protector {
    /// A controller of these units, numbered in their order. Initially none is limited.
    pub fn new(units: Vec<Unit>) -> Protector {
        let mut protector = Protector {
            units: Vec::new(),
            meters: Vec::new(),
            guards: Vec::new(),
            guard_of: Vec::new(),
            limits: Vec::new(),
            device_time: DeviceTime::default(),
            stepped: Nanos::ZERO,
            decided: Nanos::ZERO,
        };
        units.into_iter().for_each(|unit| protector.add(unit));
        protector
    }

    /// Adds a unit, numbered after all others. State and limits of the others are kept.
    pub fn add(&mut self, unit: Unit) {
        let number = self.units.len();
        self.guard_of.push(unit.promise.as_ref().map(|_| self.guards.len()));
        self.guards.extend(unit.promise.as_ref().map(|promise| Guard::new(number, promise, number)));
        self.guards.iter_mut().for_each(Guard::add_unit);
        self.units.push(unit);
        self.meters.push(Meter::default());
        self.limits.push(Limit::default());
    }

    /// Sets whether a unit may be limited. The next step lifts the limit of a unit that may not.
    ///
    /// # Panics
    /// There is no such unit.
    pub fn set_limitable(&mut self, unit: usize, is_limitable: bool) {
        self.units[unit].is_limitable = is_limitable;
    }

    /// Processes an event of a unit. Events must be in order of time.
    ///
    /// # Panics
    /// There is no such unit.
    pub fn event(&mut self, unit: usize, event: &Event) {
        let meter = &mut self.meters[unit];
        let (before, charge) = (meter.outstanding, self.device_time.of(event));
        meter.outstanding.event(event);
        match event {
            Event::Queued(request) => meter.queued(request),
            Event::Completed { request, at, .. } => meter.completed(request, *at, charge.unwrap_or_default()),
            Event::Flushed { at, .. } => {
                meter.recent.seconds += charge.unwrap_or_default().as_secs_f64();
                meter.last = Some(*at);
            }
            Event::Called { at, .. } | Event::Returned { at, .. } => meter.last = Some(*at),
        }
        if let Some(charge) = charge {
            self.charge(unit, charge);
        }
        if let Some(guard) = self.guard_of[unit] {
            self.guards[guard].watch.event(event, &before);
        }
    }

    /// Handles a loss of events: the number of outstanding requests and calls is unknown and restarts at 0. Later completions still count.
    pub fn lost(&mut self) {
        self.meters.iter_mut().for_each(Meter::lost);
        self.guards.iter_mut().for_each(|guard| guard.watch.lost());
    }

    /// Charges device time to a unit. Units with outstanding requests or calls waited behind it.
    fn charge(&mut self, unit: usize, charge: Nanos) {
        for guard in &mut self.guards {
            if guard.unit == unit {
                guard.watch.worked(charge);
            }
            let meter = &self.meters[guard.unit];
            if guard.unit == unit || meter.outstanding.is_any() {
                guard.behind[unit] += charge.as_secs_f64();
            }
        }
    }

    /// Returns the limits that change. Must be called every [`PERIOD`].
    pub fn step(&mut self, now: Nanos) -> Vec<Change> {
        let period = now - self.stepped;
        self.stepped = now;
        let allowed: Vec<Option<(f64, Nanos)>> =
            self.meters.iter().zip(&self.limits).map(|(meter, limit)| limits::allowed(meter, limit)).collect();
        let gap = |unit: usize| allowed[unit].map_or(Nanos::ZERO, |(_, time)| time);
        // A limited unit may only have requests that are held back by its limit, which are not observed.
        let longest = |unit: usize| if self.limits[unit].is_none() { ACTIVE } else { gap(unit).max(Nanos(3 * ACTIVE.0)) };
        let units = 0..self.units.len();
        let active: Vec<bool> = units.clone().map(|unit| self.meters[unit].is_active(now, longest(unit))).collect();
        let present: Vec<bool> = units.map(|unit| self.meters[unit].is_active(now, gap(unit).max(PAUSE))).collect();
        let mut taken = 0.0;
        for guard in &mut self.guards {
            guard.step(now, period, &self.units, &self.meters, &active, &present);
            if now >= self.decided + DECIDED {
                taken += guard.watch.trial.decide(now, taken);
            }
        }
        self.decided = if now >= self.decided + DECIDED { now } else { self.decided };
        for (meter, allowed) in self.meters.iter_mut().zip(allowed) {
            meter.close(period, allowed);
        }
        let wanted: Vec<(Limit, Option<usize>)> = (0..self.units.len()).map(|unit| self.limit_of(unit)).collect();
        let mut changes = Vec::new();
        for (unit, (limit, because)) in wanted.into_iter().enumerate() {
            let limit = limits::lifted(&self.meters[unit], self.stepped, &self.limits[unit], limit);
            if limits::differs(&self.limits[unit], &limit) {
                self.limits[unit] = limit;
                changes.push(Change { unit, limit, why: self.why(because) });
            }
        }
        changes
    }

    /// The limit of a unit: the lowest that any guarantee needs, and the index of that guarantee's guard; `None` without a limit.
    fn limit_of(&self, unit: usize) -> (Limit, Option<usize>) {
        let mut least = (f64::INFINITY, None);
        if !self.units[unit].is_limitable {
            return (Limit::default(), None);
        }
        for (number, guard) in self.guards.iter().enumerate() {
            if let Some(cap) = guard.cap_of(unit, &self.meters)
                && cap < least.0
            {
                least = (cap, Some(number));
            }
        }
        match least {
            (cap, Some(_)) => (limits::translate(&self.units[unit], &self.meters[unit], cap), least.1),
            _ => (Limit::default(), None),
        }
    }

    fn why(&self, because: Option<usize>) -> String {
        match because.map(|number| &self.guards[number]) {
            Some(guard) => format!("{}: {}", self.units[guard.unit].name, guard.about),
            None => "no promise needs a limit".to_owned(),
        }
    }

    /// Adds a forecast of the service of a unit alone on the device. Guarantees beyond it are refused, unless measurements override it.
    pub fn forecast(&mut self, unit: usize, alone: Alone) {
        if let Some(Some(guard)) = self.guard_of.get(unit) {
            self.guards[*guard].watch.trial.forecast(alone);
        }
    }

    /// The measured service of a guaranteed unit while it was alone on the device; `None` with too few measurements.
    pub fn alone(&self, unit: usize) -> Option<Alone> {
        self.guards[(*self.guard_of.get(unit)?)?].watch.trial.measured()
    }

    /// The state of each guarantee, in the order of units.
    pub fn standings(&self) -> Vec<Standing> {
        self.guards.iter().map(Guard::standing).collect()
    }
}

#[cfg(test)]
mod tests;
