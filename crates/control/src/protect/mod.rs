//! A controller that keeps promises to units (cgroups: services, containers) by limiting their neighbours (`io.max`).
//!
//! ```text
//! observe::Event of each unit ──▶ Protector ──every 100 ms──▶ Change (a unit's limit, and why)
//!                                     └────────────────────▶ Standing of each promise
//! ```
//! It knows no kernel, simulator or clock: its host passes in events with their times, calls [`Protector::step`] every [`PERIOD`], and
//! applies the changes.

use block::Nanos;
use observe::Event;

/// Time between two calls of [`Protector::step`].
pub const PERIOD: Nanos = Nanos::from_millis(100);

/// What a unit is promised. Every field that is `None` promises nothing.
///
/// A promise holds for each second in which the unit has requests: at most 1% of its requests take longer than the p99, and it completes at
/// least as many requests and bytes per second of the time in which it has some outstanding.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
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
    /// It is not kept even with its neighbours at their floors, or they are not the cause. Their limits were given back.
    CannotBeKept,
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
}

/// The controller.
#[derive(Debug)]
pub struct Protector {
    units: Vec<Unit>,
}

impl Protector {
    /// A controller of these units, which are numbered in their order. None is limited at first.
    pub fn new(units: Vec<Unit>) -> Protector {
        Protector { units }
    }

    /// Takes note of an event of a unit. Events come in order of time.
    ///
    /// # Panics
    /// There is no such unit.
    pub fn event(&mut self, unit: usize, event: &Event) {
        let _ = (&self.units[unit], event);
    }

    /// Decides, every [`PERIOD`]. Returns the limits that change.
    pub fn step(&mut self, now: Nanos) -> Vec<Change> {
        let _ = now;
        Vec::new()
    }

    /// How each promise stands, in the order of units.
    pub fn standings(&self) -> Vec<Standing> {
        let promised = self.units.iter().enumerate().filter(|(_, unit)| unit.promise.is_some());
        let idle = |(unit, _)| Standing { unit, state: State::Idle, measured: String::new(), blame: Vec::new() };
        promised.map(idle).collect()
    }
}
