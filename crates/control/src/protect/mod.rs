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
mod meter;
mod reference;
mod watch;

use std::collections::BTreeMap;

use block::Nanos;
use observe::Event;

pub use admission::{Admission, Alone, Figure};
use meter::Meter;
pub use reference::Reference;
use watch::{Verdict, Watch};

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
    /// It is not kept even with its neighbours at their floors, or they are not the cause. Their limits were given back.
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
/// Time after its last event from which a promised unit counts as idle, so that a pause between two requests lifts no limit.
const IDLE: Nanos = Nanos::from_millis(600);
/// Time after a change of the load during which limits are sought in quick steps; …
const SEEKING: Nanos = Nanos::from_millis(5_000);
/// … from then on, least time between two changes.
const STEADY: Nanos = Nanos::from_millis(5_000);
/// Limits are not raised by a smaller factor.
const SMALL_STEP: f64 = 1.15;
/// Seconds of the unit's requests that must show room before limits are raised.
const HOLD: f64 = 0.4;
/// Time after which a level that broke the promise may be approached again.
const FORGET: Nanos = Nanos::from_millis(30_000);
/// A step down is at most to this part.
const LARGEST_CUT: f64 = 0.15;
/// Neighbours with less of the device's time than this are not the cause.
const HARMLESS: f64 = 0.01;
/// Neighbours make use of their limits if they take this part of the device time that these allow; what a device's cache takes costs less
/// than when it was measured.
const USED: f64 = 0.2;
/// Neighbours' device time that is not cut further.
const LEAST: f64 = 1e-4;
/// Time with all neighbours at their floors after which a promise cannot be kept, if most seconds break it.
const AT_FLOOR: Nanos = Nanos::from_millis(2_000);
/// Time after which it is tried again.
const RETRY: Nanos = Nanos::from_millis(60_000);
/// Requests that are queued already when limits change go on; the limits have their effect when as many are done, or after this
/// time.
const DRAIN: Nanos = Nanos::from_millis(20_000);
/// How often it is decided which promises are accepted.
const DECIDED: Nanos = Nanos::from_millis(1_000);
/// Sets of neighbours whose limits are remembered.
const REMEMBERED: usize = 64;

/// What is known about the neighbours' device time with which a promise is kept, for one set of neighbours.
#[derive(Clone, Copy, Debug)]
struct Level {
    /// Seconds of device time per second that all neighbours together may have; infinite: no limit.
    time: f64,
    /// The most with which the promise was kept, and the least with which it was broken.
    kept: f64,
    broken: f64,
    broken_at: Nanos,
}

impl Default for Level {
    fn default() -> Level {
        Level { time: f64::INFINITY, kept: 0.0, broken: f64::INFINITY, broken_at: Nanos::ZERO }
    }
}

/// A promised unit's side of the control.
#[derive(Debug)]
struct Guard {
    unit: usize,
    watch: Watch,
    /// Device time of others while this unit had requests outstanding: since the last step, and averaged over seconds.
    behind: Vec<f64>,
    state: State,
    is_idle: bool,
    neighbours: Vec<usize>,
    level: Level,
    /// By set of neighbours, and when it was last in use.
    memory: BTreeMap<Vec<usize>, (Nanos, Level)>,
    /// When the load changed: it, or a neighbour, came.
    began: Nanos,
    changed: Nanos,
    /// The limits have had their effect.
    is_settled: bool,
    /// Neighbours' requests that were queued when the limits changed and are not done.
    to_drain: u32,
    /// Device time of the neighbours in the span, and the length of the span.
    used: f64,
    span: f64,
    floor_since: Option<Nanos>,
    gave_up: Option<Nanos>,
    about: String,
}

/// The controller.
///
/// Each promise has one controlled quantity: the device time per second that all neighbours together may have. It is divided among them so
/// that those that want less than an equal part get what they want, and translated to a limit by what each moved in a second of device time
/// when it was not limited. While the promise is broken the time is cut, in proportion to how far; while it is kept with room to spare, it is
/// raised towards the least that broke it. What worked is remembered for each set of neighbours.
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
        let promised = units.iter().enumerate().filter_map(|(unit, of)| of.promise.as_ref().map(|promise| (unit, promise)));
        let guards: Vec<Guard> = promised.map(|(unit, promise)| Guard::new(unit, promise, units.len())).collect();
        let mut guard_of = vec![None; units.len()];
        guards.iter().enumerate().for_each(|(number, guard)| guard_of[guard.unit] = Some(number));
        let (meters, limits) = (vec![Meter::default(); units.len()], vec![Limit::default(); units.len()]);
        Protector {
            units,
            meters,
            guards,
            guard_of,
            limits,
            last_completion: Nanos::ZERO,
            stepped: Nanos::ZERO,
            decided: Nanos::ZERO,
        }
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

    /// The device worked for a unit; who has requests outstanding waited behind it.
    fn charge(&mut self, unit: usize, at: Nanos, charge: Nanos) {
        self.last_completion = self.last_completion.max(at);
        for guard in &mut self.guards {
            if guard.unit == unit {
                guard.watch.worked(charge);
            } else if self.meters[guard.unit].outstanding > 0 {
                guard.behind[unit] += charge.as_secs_f64();
            }
        }
    }

    /// Decides, every [`PERIOD`]. Returns the limits that change.
    pub fn step(&mut self, now: Nanos) -> Vec<Change> {
        let period = now - self.stepped;
        self.stepped = now;
        let active: Vec<bool> = (0..self.units.len()).map(|unit| self.is_active(now, unit)).collect();
        let times: Vec<f64> = self.meters.iter().map(|meter| meter.recent.seconds).collect();
        let mut taken = 0.0;
        for guard in &mut self.guards {
            guard.step(now, period, &self.units, &self.meters, &active, &times);
            if now >= self.decided + DECIDED {
                taken += guard.watch.trial.decide(now, taken);
            }
        }
        self.decided = if now >= self.decided + DECIDED { now } else { self.decided };
        for (meter, limit) in self.meters.iter_mut().zip(&self.limits) {
            meter.close(period, !limit.is_none());
        }
        let wanted: Vec<(Limit, Option<usize>)> = (0..self.units.len()).map(|unit| self.limit_of(unit)).collect();
        let mut changes = Vec::new();
        for (unit, (limit, because)) in wanted.into_iter().enumerate() {
            if differs(&self.limits[unit], &limit) {
                self.limits[unit] = limit;
                changes.push(Change { unit, limit, why: self.why(because) });
            }
        }
        changes
    }

    /// A limited unit may have nothing but requests that wait for its limit, which are not seen.
    fn is_active(&self, now: Nanos, unit: usize) -> bool {
        let limit = &self.limits[unit];
        let within = if limit.is_none() { ACTIVE } else { Nanos(3 * ACTIVE.0) };
        self.meters[unit].is_active(now, within)
    }

    /// The limit of a unit: the lowest that a promise needs, and the number of that promise's guard.
    fn limit_of(&self, unit: usize) -> (Limit, Option<usize>) {
        let mut least = (f64::INFINITY, None);
        for (number, guard) in self.guards.iter().enumerate() {
            if guard.is_limiting() && guard.neighbours.contains(&unit) {
                let cap = guard.cap(&self.units, &self.meters);
                if cap < least.0 {
                    least = (cap, Some(number));
                }
            }
        }
        match least {
            (cap, Some(_)) => (translate(&self.units[unit], &self.meters[unit], cap), least.1),
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

/// Whether limits differ by more than can be ignored.
fn differs(one: &Limit, other: &Limit) -> bool {
    let pairs = [
        (one.read_bytes_per_s, other.read_bytes_per_s),
        (one.write_bytes_per_s, other.write_bytes_per_s),
        (one.read_iops, other.read_iops),
        (one.write_iops, other.write_iops),
    ];
    pairs.into_iter().any(|pair| match pair {
        (Some(one), Some(other)) => one.abs_diff(other) as f64 > 0.03 * one as f64,
        (one, other) => one != other,
    })
}

/// The limit with which a unit takes at most `cap` seconds of device time per second: of each direction that it uses, in bytes, or in
/// requests where these are small and scattered.
fn translate(unit: &Unit, meter: &Meter, cap: f64) -> Limit {
    let mut limit = Limit::default();
    let Some(speed) = meter.known_speed() else { return limit };
    let all: f64 = speed.flows.iter().map(|flow| flow.bytes).sum();
    for (direction, flow) in speed.flows.iter().enumerate() {
        if flow.requests < 0.02 * (speed.flows[0].requests + speed.flows[1].requests) {
            continue;
        }
        let floor = unit.floor_bytes_per_s as f64 * flow.bytes / all.max(1.0);
        let bytes = (cap * flow.bytes / speed.seconds.max(1e-9)).max(floor).max(512.0);
        let (rate, per_second) = match (direction, flow.is_by_requests()) {
            (0, false) => (bytes, &mut limit.read_bytes_per_s),
            (_, false) => (bytes, &mut limit.write_bytes_per_s),
            (0, true) => (bytes / flow.mean_bytes(), &mut limit.read_iops),
            (_, true) => (bytes / flow.mean_bytes(), &mut limit.write_iops),
        };
        *per_second = Some((rate.round() as u64).max(1));
    }
    limit
}

impl Guard {
    fn new(unit: usize, promise: &Promise, units: usize) -> Guard {
        Guard {
            unit,
            watch: Watch::new(promise),
            behind: vec![0.0; units],
            state: State::Idle,
            is_idle: true,
            neighbours: Vec::new(),
            level: Level::default(),
            memory: BTreeMap::new(),
            began: Nanos::ZERO,
            changed: Nanos::ZERO,
            is_settled: true,
            to_drain: 0,
            used: 0.0,
            span: 0.0,
            floor_since: None,
            gave_up: None,
            about: String::new(),
        }
    }

    /// Whether it limits its neighbours.
    fn is_limiting(&self) -> bool {
        !self.is_idle && self.gave_up.is_none() && self.level.time.is_finite()
    }

    /// The device time that a neighbour may have: those that want less than an equal part leave the rest to the others.
    fn cap(&self, units: &[Unit], meters: &[Meter]) -> f64 {
        let _ = units;
        let mut demands: Vec<f64> = self.neighbours.iter().map(|&unit| meters[unit].demand.max(1e-3)).collect();
        demands.sort_by(f64::total_cmp);
        let (mut left, mut count) = (self.level.time, demands.len() as f64);
        for demand in demands {
            if demand * count >= left {
                break;
            }
            left -= demand;
            count -= 1.0;
        }
        // All want less than there is: what is left is room for each.
        if count < 1.0 { self.level.time } else { left / count }
    }

    fn step(&mut self, now: Nanos, period: Nanos, units: &[Unit], meters: &[Meter], active: &[bool], times: &[f64]) {
        let neighbours: Vec<usize> = (0..units.len())
            .filter(|&unit| active[unit] && unit != self.unit && units[unit].is_limitable && units[unit].promise.is_none())
            .collect();
        let is_idle = !meters[self.unit].is_active(now, IDLE);
        let outstanding: u32 = neighbours.iter().map(|&unit| meters[unit].outstanding).sum();
        let is_alone = neighbours.is_empty() && outstanding == 0;
        let is_undisturbed =
            (0..units.len()).all(|unit| unit == self.unit || (times[unit] == 0.0 && meters[unit].outstanding == 0));
        self.watch.close((now - period, now), self.is_settled && !is_alone, is_alone, is_undisturbed);
        if self.is_settled {
            self.used += neighbours.iter().map(|&unit| times[unit]).sum::<f64>();
            self.span += period.as_secs_f64();
        } else {
            self.to_drain = self.to_drain.saturating_sub(neighbours.iter().map(|&unit| meters[unit].recent_requests()).sum());
            let drained = self.to_drain == 0 || outstanding <= neighbours.len() as u32;
            self.is_settled = now - self.changed >= DRAIN || (drained && now - self.changed >= PERIOD);
            if self.is_settled {
                self.begin_span(now);
            }
        }
        // Blame fades with the time constant of ten seconds.
        let keep = (-period.as_secs_f64() / 10.0).exp();
        self.behind.iter_mut().for_each(|behind| *behind *= keep);
        if neighbours != self.neighbours {
            self.neighbours_changed(now, neighbours, outstanding);
        }
        if is_idle != self.is_idle {
            self.is_idle = is_idle;
            self.load_changed(now, outstanding);
        }
        self.decide(now, meters, units, outstanding);
    }

    fn neighbours_changed(&mut self, now: Nanos, neighbours: Vec<usize>, outstanding: u32) {
        let before = std::mem::replace(&mut self.neighbours, neighbours);
        if !before.is_empty() {
            if self.memory.len() >= REMEMBERED
                && let Some(oldest) = self.memory.iter().min_by_key(|(_, (used, _))| *used).map(|(key, _)| key.clone())
            {
                self.memory.remove(&oldest);
            }
            self.memory.insert(before, (now, self.level));
        }
        let left = Level { time: self.level.time, ..Level::default() };
        self.level = self.memory.get(&self.neighbours).map_or(left, |(_, level)| *level);
        if self.neighbours.is_empty() {
            self.level = Level::default();
        }
        self.load_changed(now, outstanding);
    }

    fn load_changed(&mut self, now: Nanos, outstanding: u32) {
        self.began = now;
        (self.floor_since, self.gave_up) = (None, None);
        self.set(now, self.level.time, outstanding);
    }

    fn begin_span(&mut self, now: Nanos) {
        self.watch.begin_span(now);
        (self.used, self.span) = (0.0, 0.0);
    }

    fn set(&mut self, now: Nanos, time: f64, outstanding: u32) {
        self.level.time = time;
        (self.changed, self.to_drain) = (now, outstanding);
        // Without a limit there is no effect to wait for.
        self.is_settled = time.is_infinite();
        self.begin_span(now);
    }

    fn decide(&mut self, now: Nanos, meters: &[Meter], units: &[Unit], outstanding: u32) {
        let second = self.watch.verdict_of_second(now);
        self.about = second.about.clone();
        if let Admission::Refused(_) = self.watch.trial.admission {
            self.state = State::Refused;
            if self.level.time.is_finite() {
                self.level = Level::default();
                self.load_changed(now, outstanding);
            }
            return;
        }
        if self.is_idle {
            self.state = State::Idle;
            return;
        }
        if let Some(since) = self.gave_up {
            self.state = State::CannotBeKept;
            if now - since >= RETRY {
                self.load_changed(now, outstanding);
            }
            return;
        }
        self.state = if second.is_broken { State::NotKept } else { State::Kept };
        if !self.is_settled || self.neighbours.is_empty() {
            return;
        }
        let is_seeking = now - self.began < SEEKING;
        let verdict = self.watch.verdict(now);
        let used = if self.span > 0.0 { self.used / self.span } else { 0.0 };
        if verdict.is_broken {
            self.broken(now, &verdict, used, is_seeking, outstanding, (meters, units));
        } else {
            self.floor_since = None;
            // Limits that are not made use of show no room.
            if used >= USED * self.level.time {
                self.kept(now, &verdict, is_seeking, outstanding);
            }
        }
    }

    fn broken(
        &mut self,
        now: Nanos,
        verdict: &Verdict,
        used: f64,
        is_seeking: bool,
        outstanding: u32,
        (meters, units): (&[Meter], &[Unit]),
    ) {
        let at_floor = self.level.time <= LEAST
            || self.neighbours.iter().all(|&unit| is_at_floor(&units[unit], &meters[unit], self.cap(units, meters)));
        if at_floor || (used < HARMLESS && self.level.time.is_infinite()) {
            let since = *self.floor_since.get_or_insert(now);
            // As long as it is kept now and then, the limits are not in vain.
            if now - since >= AT_FLOOR && verdict.is_mostly_broken {
                self.gave_up = Some(now);
                self.level = Level::default();
                self.state = State::CannotBeKept;
            }
            return;
        }
        if !is_seeking && !verdict.is_far && now - self.changed < STEADY {
            return;
        }
        if verdict.is_far && !is_seeking {
            // The load is another one.
            self.began = now;
        }
        let from = self.level.time.min(used.max(1e-3));
        if self.level.kept >= self.level.time {
            self.level.kept = 0.0;
        }
        self.level.broken = self.level.broken.min(self.level.time.min(from * 1.5));
        self.level.broken_at = now;
        let time = (from * verdict.cut.clamp(LARGEST_CUT, 0.8)).max(self.level.kept);
        self.set(now, time.max(LEAST), outstanding);
    }

    fn kept(&mut self, now: Nanos, verdict: &Verdict, is_seeking: bool, outstanding: u32) {
        if self.level.time.is_infinite() || !verdict.has_room || self.watch.wanted() < HOLD {
            return;
        }
        if !is_seeking && now - self.changed < STEADY {
            return;
        }
        self.level.kept = self.level.kept.max(self.level.time);
        if now - self.level.broken_at >= FORGET {
            (self.level.broken, self.level.broken_at) = (self.level.broken * 1.5, now);
        }
        let between = (self.level.time * self.level.broken).sqrt();
        let time = (self.level.time * verdict.raise).min(between);
        if time < SMALL_STEP * self.level.time {
            return;
        }
        self.set(now, if time >= 1.0 { f64::INFINITY } else { time }, outstanding);
    }

    fn standing(&self) -> Standing {
        let all: f64 = self.behind.iter().sum();
        let mut blame: Vec<Blame> = self
            .behind
            .iter()
            .enumerate()
            .filter(|(_, behind)| **behind > 0.0)
            .map(|(unit, behind)| Blame { unit, share: behind / all })
            .collect();
        blame.sort_by(|one, other| other.share.total_cmp(&one.share));
        let admission = self.watch.trial.admission.clone();
        Standing { unit: self.unit, state: self.state, measured: self.about.trim_end_matches("; ").to_owned(), blame, admission }
    }
}

/// Whether a unit is limited to its floor by this device time.
fn is_at_floor(unit: &Unit, meter: &Meter, cap: f64) -> bool {
    let speed = meter.known_speed().map_or(0.0, |speed| (speed.flows[0].bytes + speed.flows[1].bytes) / speed.seconds.max(1e-9));
    cap * speed <= unit.floor_bytes_per_s as f64
}

#[cfg(test)]
mod tests;
