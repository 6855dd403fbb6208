//! A controller that keeps promises to units (cgroups: services, containers) by limiting their neighbours (`io.max`).
//!
//! ```text
//! observe::Event of each unit ──▶ Protector ──every 100 ms──▶ Change (a unit's limit, and why)
//!                                     └────────────────────▶ Standing of each promise
//! ```
//! It knows no kernel, simulator or clock: its host passes in events with their times, calls [`Protector::step`] every [`PERIOD`], and
//! applies the changes.

mod admission;
mod chance;
mod guard;
mod limits;
mod meter;
mod reference;
mod watch;

use block::Nanos;
use observe::Event;

pub use admission::{Admission, Alone, Figure};
use guard::Guard;
use meter::Meter;
pub use reference::Reference;

/// Time between two calls of [`Protector::step`].
pub const PERIOD: Nanos = Nanos::from_millis(100);

/// Kinds of response times: of reads, of writes that are waited for, of flushes.
pub const KINDS: usize = 3;
/// Rates: requests, bytes, seconds of device time, seconds of a reference disk's service.
pub const RATES: usize = 4;

/// What a unit is promised. Every field that is `None` promises nothing.
///
/// A promise holds for each second in which the unit has requests: at most 1% of its requests take longer than the p99, and it completes at
/// least as many requests and bytes per second of the time in which it has some outstanding. In that time, the device works for it at least
/// for its share, and it is served as by the reference disk.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Promise {
    /// Largest 99th percentile of the response times of reads.
    pub read_p99: Option<Nanos>,
    /// The same for writes that a process waits for; write-back has no response time.
    pub write_p99: Option<Nanos>,
    /// The same for calls of fsync, or flushes where calls cannot be observed.
    pub flush_p99: Option<Nanos>,
    /// Requests per second, at least.
    pub least_iops: Option<f64>,
    /// Bytes per second, at least.
    pub least_bytes_per_s: Option<f64>,
    /// Part of the device's time, at least.
    pub share: Option<f64>,
    /// A disk that serves it no better.
    pub reference: Option<Reference>,
}

/// A cgroup whose requests are observed.
#[derive(Clone, Debug, PartialEq)]
pub struct Unit {
    /// Its name, for [`Change::why`].
    pub name: String,
    /// What it is promised; `None`: it is only a neighbour.
    pub promise: Option<Promise>,
    /// Whether it may be limited.
    pub is_limitable: bool,
    /// It is never limited to less than this.
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
    /// Number of the unit.
    pub unit: usize,
    /// Its limits from now on.
    pub limit: Limit,
    /// The reason, with figures.
    pub why: String,
}

/// How a promise stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The unit asks for nothing, so that it is owed nothing.
    Idle,
    /// The promise is kept.
    Kept,
    /// It is not, and limits on neighbours are being sought with which it is.
    NotKept,
    /// It is not kept even with its neighbours at their floors, or they are not the cause. Their limits were given back, unless it is broken at
    /// least twice as badly without them.
    CannotBeKept,
    /// The device cannot keep it even with nothing else there, or not beside other promises: nothing is limited for it.
    Refused,
}

/// The part of a unit's waiting that was behind another unit's requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Blame {
    /// Number of the other unit.
    pub unit: usize,
    /// From 0 to 1.
    pub share: f64,
}

/// How the promise of a unit stands, with what was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Standing {
    /// Number of the unit.
    pub unit: usize,
    /// In a word.
    pub state: State,
    /// Figures, for people.
    pub measured: String,
    /// The units behind whose requests it waited, the worst first.
    pub blame: Vec<Blame>,
    /// Whether it was accepted, and why.
    pub admission: Admission,
}

/// Time after its last event during which a neighbour counts as active.
const ACTIVE: Nanos = Nanos::from_millis(2_000);
/// A neighbour that asks for nothing for this long, or for twice the time between two requests that its limit allows, leaves room that says
/// nothing about limits.
const PAUSE: Nanos = Nanos::from_millis(200);
/// How often it is decided which promises are accepted.
const DECIDED: Nanos = Nanos::from_millis(1_000);

/// The controller.
///
/// Each promise has one controlled quantity: the device time per second that all neighbours together may have. It is divided among them so
/// that those that want less than an equal part get what they want, and translated to a limit by what each moved in a second of device time
/// when it was not limited. While the promise is broken the time is cut, in proportion to how far; while it is kept with room to spare, it is
/// raised towards the least that broke it. What worked is remembered for each set of neighbours.
///
/// A neighbour that asks for nothing keeps its limit while the promised unit asks: without one it would fill the queue within a period when it
/// comes back. While the promised unit asks for nothing there are no limits, but for write-back that has piled up in front of one.
#[derive(Debug)]
pub struct Protector {
    units: Vec<Unit>,
    meters: Vec<Meter>,
    guards: Vec<Guard>,
    /// By unit, the guard of its promise.
    guard_of: Vec<Option<usize>>,
    limits: Vec<Limit>,
    /// The last completion of any unit: device time is counted from there.
    last_completion: Nanos,
    stepped: Nanos,
    /// When it was last decided which promises are accepted.
    decided: Nanos,
}

impl Protector {
    /// A controller of these units, which are numbered in their order. None is limited at first.
    pub fn new(units: Vec<Unit>) -> Protector {
        let mut protector = Protector {
            units: Vec::new(),
            meters: Vec::new(),
            guards: Vec::new(),
            guard_of: Vec::new(),
            limits: Vec::new(),
            last_completion: Nanos::ZERO,
            stepped: Nanos::ZERO,
            decided: Nanos::ZERO,
        };
        units.into_iter().for_each(|unit| protector.add(unit));
        protector
    }

    /// Adds a unit, numbered after all others. What is known of these is kept, and so are their limits.
    pub fn add(&mut self, unit: Unit) {
        let number = self.units.len();
        self.guard_of.push(unit.promise.as_ref().map(|_| self.guards.len()));
        self.guards.extend(unit.promise.as_ref().map(|promise| Guard::new(number, promise, number)));
        self.guards.iter_mut().for_each(Guard::add_unit);
        self.units.push(unit);
        self.meters.push(Meter::default());
        self.limits.push(Limit::default());
    }

    /// Sets whether a unit may be limited. The next step lifts the limit of one that may not.
    ///
    /// # Panics
    /// There is no such unit.
    pub fn set_limitable(&mut self, unit: usize, is_limitable: bool) {
        self.units[unit].is_limitable = is_limitable;
    }

    /// Takes note of an event of a unit. Events come in order of time.
    ///
    /// # Panics
    /// There is no such unit.
    pub fn event(&mut self, unit: usize, event: &Event) {
        let meter = &mut self.meters[unit];
        match event {
            Event::Queued(request) => meter.queued(request),
            Event::Completed { request, dispatched, at } => {
                let charge = *at - self.last_completion.max(*dispatched);
                meter.completed(request, *at, charge);
                self.charge(unit, *at, charge);
            }
            Event::Flushed { asked, at, .. } => {
                let charge = *at - self.last_completion.max(*asked);
                meter.recent.seconds += charge.as_secs_f64();
                meter.last = Some(*at);
                self.charge(unit, *at, charge);
            }
            Event::Called { at, .. } => {
                meter.calls += 1;
                meter.last = Some(*at);
            }
            Event::Returned { at, .. } => {
                meter.calls = meter.calls.saturating_sub(1);
                meter.last = Some(*at);
            }
        }
        if let Some(guard) = self.guard_of[unit] {
            self.guards[guard].watch.event(event);
        }
    }

    /// Events were lost: which requests and calls are outstanding is not known any more. Those that complete later count all the same.
    pub fn lost(&mut self) {
        self.meters.iter_mut().for_each(Meter::lost);
        self.guards.iter_mut().for_each(|guard| guard.watch.lost());
    }

    /// The device worked for a unit; who has requests or calls outstanding waited behind it.
    fn charge(&mut self, unit: usize, at: Nanos, charge: Nanos) {
        self.last_completion = self.last_completion.max(at);
        for guard in &mut self.guards {
            if guard.unit == unit {
                guard.watch.worked(charge);
            }
            let meter = &self.meters[guard.unit];
            if guard.unit == unit || meter.outstanding > 0 || meter.calls > 0 {
                guard.behind[unit] += charge.as_secs_f64();
            }
        }
    }

    /// Decides, every [`PERIOD`]. Returns the limits that change.
    pub fn step(&mut self, now: Nanos) -> Vec<Change> {
        let period = now - self.stepped;
        self.stepped = now;
        let allowed: Vec<Option<(f64, Nanos)>> =
            self.meters.iter().zip(&self.limits).map(|(meter, limit)| limits::allowed(meter, limit)).collect();
        let gap = |unit: usize| allowed[unit].map_or(Nanos::ZERO, |(_, time)| time);
        // A limited unit may have nothing but requests that wait for its limit, which are not seen.
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

    /// The limit of a unit: the lowest that a promise needs, and the number of that promise's guard.
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

    /// Takes a forecast of what a unit gets with nothing else there: its promise is refused if that is less, until it is measured.
    pub fn forecast(&mut self, unit: usize, alone: Alone) {
        if let Some(Some(guard)) = self.guard_of.get(unit) {
            self.guards[*guard].watch.trial.forecast(alone);
        }
    }

    /// What was measured of a unit with a promise while nothing else used the device; `None` as long as that is too little.
    pub fn alone(&self, unit: usize) -> Option<Alone> {
        self.guards[(*self.guard_of.get(unit)?)?].watch.trial.measured()
    }

    /// How each promise stands, in the order of units.
    pub fn standings(&self) -> Vec<Standing> {
        self.guards.iter().map(Guard::standing).collect()
    }
}

#[cfg(test)]
mod tests;
