//! The control loop of one guarantee: the device time of all neighbours together.

use std::collections::BTreeMap;

use block::Nanos;

use super::meter::Meter;
use super::watch::{Verdict, Watch};
use super::{Admission, Blame, PERIOD, Promise, Standing, State, Unit, limits};

/// Time after its last event from which a guaranteed unit counts as idle, so that a pause between two requests does not lift limits.
const IDLE: Nanos = Nanos::from_millis(600);
/// Time after a change of the load during which limits are searched in quick steps.
const SEEKING: Nanos = Nanos::from_millis(5_000);
/// Minimum time between two changes after that.
const STEADY: Nanos = Nanos::from_millis(5_000);
/// Minimum factor by which limits are raised.
const SMALL_STEP: f64 = 1.1;
/// Maximum relative raise of a limit in a steady load, small enough to be reverted without a noticeable effect.
const STEADY_STEP: f64 = 0.19;
/// Seconds of evidence of room before limits are raised. With 0.4, 203 of 240 random cases kept the guarantee; with 0.8, 207.
const HOLD: f64 = 0.8;
/// Time after which a level that broke the guarantee may be approached again.
const FORGET: Nanos = Nanos::from_millis(30_000);
/// Factor on the first cut for unknown neighbours, so that the cut is deeper than late requests suggest.
const FIRST_CUT: f64 = 0.3;
/// Range of the first cut, as a fraction; limits rise from there in quick steps.
const FIRST: (f64, f64) = (0.03, 0.3);
/// Minimum factor of any other cut.
const LARGEST_CUT: f64 = 0.15;
/// Share of the device's time below which neighbours are not the cause.
const HARMLESS: f64 = 0.01;
/// Neighbours count as using their limits if one of them moves at least this fraction of its allowance.
const USED: f64 = 0.5;
/// A cut starts from at least this fraction of their limits.
const LEAST_USED: f64 = 0.1;
/// Minimum device time of the neighbours, below which it is not cut.
const LEAST: f64 = 1e-4;
/// Time with all neighbours at their floors after which a guarantee counts as infeasible, if most steps break it.
const AT_FLOOR: Nanos = Nanos::from_millis(10_000);
/// Time without limits, draining included, after which their benefit is judged.
const WITHOUT: Nanos = Nanos::from_millis(4_000);
/// Limits were useful if the violation is at least this many times as severe without them.
const USEFUL: f64 = 2.0;
/// Time after which limits are tried again.
const RETRY: Nanos = Nanos::from_millis(60_000);
/// Requests already queued when limits change are not affected. The limits take effect once these have completed, or after this time.
const DRAIN: Nanos = Nanos::from_millis(20_000);
/// Maximum time for which neighbours are held at their floors after a change of the load, to drain the queue.
const DIP: Nanos = Nanos::from_millis(1_000);
/// Maximum number of sets of neighbours whose levels are remembered.
const REMEMBERED: usize = 64;

/// The state of the search for the neighbours' device time, for one set of neighbours.
#[derive(Clone, Copy, Debug)]
struct Level {
    /// Seconds of device time per second that all neighbours together may have; infinite without a limit.
    time: f64,
    /// Highest value that kept the guarantee, and lowest value that broke it.
    kept: f64,
    broken: f64,
    broken_at: Nanos,
}

impl Default for Level {
    fn default() -> Level {
        Level { time: f64::INFINITY, kept: 0.0, broken: f64::INFINITY, broken_at: Nanos::ZERO }
    }
}

/// Statistics on a guarantee while all neighbours are at their floors.
#[derive(Clone, Copy, Debug, Default)]
struct AtFloor {
    since: Option<Nanos>,
    steps: u32,
    broken: u32,
    /// Sum over the steps.
    severity: f64,
}

impl AtFloor {
    /// Adds a step. Returns the mean severity if most steps over [`AT_FLOOR`] broke the guarantee with all neighbours at their floors; as
    /// long as the guarantee is kept at times, the limits are worthwhile.
    fn hopeless(&mut self, now: Nanos, is_at_floor: bool, second: &Verdict) -> Option<f64> {
        if !is_at_floor {
            *self = AtFloor::default();
            return None;
        }
        let since = *self.since.get_or_insert(now);
        (self.steps, self.broken) = (self.steps + 1, self.broken + u32::from(second.is_broken));
        self.severity += second.severity;
        if now - since < AT_FLOOR {
            return None;
        }
        let AtFloor { steps, broken, severity, .. } = std::mem::take(self);
        (2 * broken > steps).then_some(severity / f64::from(steps))
    }
}

/// A guarantee that was broken even with all neighbours at their floors, so that their limits were lifted.
#[derive(Clone, Copy, Debug)]
struct GivenUp {
    since: Nanos,
    /// Mean severity with limits, and the sum of the severity without, over the steps.
    with: f64,
    without: f64,
    steps: u32,
}

impl GivenUp {
    /// Adds a step without limits. Returns whether the limits were useful after all.
    fn were_useful(&mut self, now: Nanos, second: &Verdict) -> bool {
        (self.without, self.steps) = (self.without + second.severity, self.steps + 1);
        now - self.since >= WITHOUT && self.without >= USEFUL * self.with * f64::from(self.steps)
    }
}

/// The control loop of one guaranteed unit.
#[derive(Debug)]
pub(super) struct Guard {
    pub unit: usize,
    pub watch: Watch,
    /// Recent device time of each unit, including this one, while this one had requests or calls outstanding.
    pub behind: Vec<f64>,
    state: State,
    is_idle: bool,
    neighbours: Vec<usize>,
    level: Level,
    /// Levels by set of neighbours, with the time of last use.
    memory: BTreeMap<Vec<usize>, (Nanos, Level)>,
    /// Time of the last change of the load: this unit or a neighbour appeared or left.
    began: Nanos,
    changed: Nanos,
    /// Whether the limits have taken effect.
    is_settled: bool,
    /// Whether limits were raised in a steady load and there is no evidence yet that they keep the guarantee.
    is_tried: bool,
    /// Number of neighbours' requests that were queued at the change of the limits and have not completed.
    to_drain: u32,
    /// Time until which neighbours are held at their floors, so that the queue drains sooner.
    floors_until: Nanos,
    is_at_floors: bool,
    /// Device time of each unit when it was last active; infinite without a limit.
    left: Vec<f64>,
    /// Device time of the neighbours since the last step; infinite without a limit.
    applied: f64,
    /// Device time used by the neighbours in the span, and the length of the span, in seconds.
    used: f64,
    span: f64,
    at_floor: AtFloor,
    gave_up: Option<GivenUp>,
    /// Whether the guarantee is broken with all neighbours at their floors, but more severely without limits.
    is_hopeless: bool,
    pub about: String,
}

impl Guard {
    pub fn new(unit: usize, promise: &Promise, units: usize) -> Guard {
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
            is_tried: false,
            to_drain: 0,
            floors_until: Nanos::ZERO,
            is_at_floors: false,
            left: vec![f64::INFINITY; units],
            applied: f64::INFINITY,
            used: 0.0,
            span: 0.0,
            at_floor: AtFloor::default(),
            gave_up: None,
            is_hopeless: false,
            about: String::new(),
        }
    }

    /// Adds a unit, numbered after the others.
    pub fn add_unit(&mut self) {
        self.behind.push(0.0);
        self.left.push(f64::INFINITY);
    }

    /// Whether it limits its neighbours.
    fn is_limiting(&self) -> bool {
        !self.is_idle && self.gave_up.is_none() && self.level.time.is_finite()
    }

    /// The device time that a unit may have per second; `None` without a limit. A unit without requests keeps its last value, so that it
    /// does not fill the queue when it returns.
    pub fn cap_of(&self, unit: usize, meters: &[Meter]) -> Option<f64> {
        if self.is_limiting() && self.neighbours.contains(&unit) {
            return Some(self.cap(meters));
        }
        (!self.is_idle && self.gave_up.is_none() && self.left[unit].is_finite()).then_some(self.left[unit])
    }

    /// The device time that a neighbour may have per second.
    fn cap(&self, meters: &[Meter]) -> f64 {
        if self.is_at_floors { 0.0 } else { self.shares(meters).0 }
    }

    /// Max-min fair division: the device time of each neighbour that demands at least that much, and the number of these neighbours.
    /// Neighbours that demand less leave the rest to the others.
    fn shares(&self, meters: &[Meter]) -> (f64, f64) {
        let mut demands: Vec<f64> = self.neighbours.iter().map(|&unit| meters[unit].demand.unwrap_or(1.0).max(1e-3)).collect();
        demands.sort_by(f64::total_cmp);
        let (mut left, mut count) = (self.level.time, demands.len() as f64);
        for demand in demands {
            if demand * count >= left {
                break;
            }
            left -= demand;
            count -= 1.0;
        }
        // All demands are met; the rest is headroom for each.
        if count < 1.0 { (self.level.time, 1.0) } else { (left / count, count) }
    }

    pub fn step(&mut self, now: Nanos, period: Nanos, units: &[Unit], meters: &[Meter], active: &[bool], present: &[bool]) {
        let neighbours: Vec<usize> = (0..units.len())
            .filter(|&unit| active[unit] && unit != self.unit && units[unit].is_limitable && units[unit].promise.is_none())
            .collect();
        let is_idle = !meters[self.unit].is_active(now, IDLE);
        let outstanding: u32 = neighbours.iter().map(|&unit| meters[unit].outstanding.requests()).sum();
        let is_alone = neighbours.is_empty() && outstanding == 0;
        let time = neighbours.iter().map(|&unit| meters[unit].recent.seconds).sum::<f64>();
        // Limits that are not used up are no evidence of room.
        let is_used = self.level.time.is_infinite() || neighbours.iter().any(|&unit| present[unit] && meters[unit].used >= USED);
        let is_undisturbed = (0..units.len())
            .all(|unit| unit == self.unit || (meters[unit].recent.seconds == 0.0 && meters[unit].outstanding.requests() == 0));
        let own = &meters[self.unit].outstanding;
        self.watch.close((now - period, now), own, self.is_settled && !is_alone && is_used, is_alone, is_undisturbed);
        if self.is_settled {
            self.used += if is_used { time } else { 0.0 };
            self.span += if is_used { period.as_secs_f64() } else { 0.0 };
        } else {
            self.to_drain = self.to_drain.saturating_sub(neighbours.iter().map(|&unit| meters[unit].recent_requests()).sum());
            let drained = self.to_drain == 0 || outstanding <= neighbours.len() as u32;
            self.is_settled = now - self.changed >= DRAIN || (drained && now - self.changed >= PERIOD);
            if self.is_settled {
                self.begin_span(now);
            }
        }
        // Blame decays with a time constant of ten seconds.
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
        self.is_at_floors = !self.is_settled && now < self.floors_until;
        self.applied = if self.is_limiting() { self.level.time } else { f64::INFINITY };
        if !self.is_idle && !self.is_at_floors {
            let cap = if self.is_limiting() { self.cap(meters) } else { f64::INFINITY };
            self.neighbours.iter().for_each(|&unit| self.left[unit] = cap);
        }
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
        (self.at_floor, self.gave_up, self.is_hopeless) = (AtFloor::default(), None, false);
        self.set(now, self.level.time, outstanding);
    }

    fn begin_span(&mut self, now: Nanos) {
        self.watch.begin_span(now);
        (self.used, self.span) = (0.0, 0.0);
    }

    fn set(&mut self, now: Nanos, time: f64, outstanding: u32) {
        self.level.time = time;
        let is_tighter = time < self.applied && now - self.began < SEEKING;
        self.floors_until = if is_tighter && outstanding > 2 * self.neighbours.len() as u32 { now + DIP } else { now };
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
            self.left.fill(f64::INFINITY);
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
        if let Some(given_up) = &mut self.gave_up {
            self.state = State::CannotBeKept;
            if given_up.were_useful(now, &second) {
                self.level.time = LEAST;
                self.load_changed(now, outstanding);
                self.is_hopeless = true;
            } else if now - given_up.since >= RETRY {
                self.load_changed(now, outstanding);
            }
            return;
        }
        self.state = match second.is_broken {
            true if self.is_hopeless => State::CannotBeKept,
            true => State::NotKept,
            false => State::Kept,
        };
        if !self.is_settled || self.neighbours.is_empty() {
            return;
        }
        let is_seeking = now - self.began < SEEKING;
        let verdict = self.watch.verdict(now);
        let used = if self.span > 0.0 { self.used / self.span } else { 0.0 };
        let is_at_floor = self.level.time <= LEAST
            || self.neighbours.iter().all(|&unit| limits::is_at_floor(&units[unit], &meters[unit], self.cap(meters)))
            || (self.level.time.is_infinite() && used < HARMLESS);
        self.is_hopeless &= is_at_floor;
        if let Some(with) = self.at_floor.hopeless(now, is_at_floor, &second).filter(|_| !self.is_hopeless) {
            self.gave_up = Some(GivenUp { since: now, with, without: 0.0, steps: 0 });
            self.level = Level::default();
            self.left.fill(f64::INFINITY);
            self.state = State::CannotBeKept;
        } else if !verdict.is_broken {
            self.kept(now, &verdict, is_seeking, outstanding, meters);
        } else if !is_at_floor {
            self.broken(now, &verdict, used, is_seeking, outstanding, meters);
        }
    }

    fn broken(&mut self, now: Nanos, verdict: &Verdict, used: f64, is_seeking: bool, outstanding: u32, meters: &[Meter]) {
        let was_raised = std::mem::take(&mut self.is_tried) && self.level.kept > 0.0;
        if !is_seeking && !verdict.is_far && !was_raised && now - self.changed < STEADY {
            return;
        }
        if verdict.is_far && !is_seeking {
            // The load has changed.
            self.began = now;
        }
        // Writes into the device's cache cost less device time than when they were measured, so use is measured in bytes.
        let used_part = self.neighbours.iter().map(|&unit| meters[unit].used).fold(LEAST_USED, f64::max).min(1.0);
        let from = if self.level.time.is_infinite() { used.max(1e-3) } else { self.level.time * used_part };
        let is_first = self.level.broken.is_infinite() && !was_raised;
        if self.level.kept >= self.level.time {
            self.level.kept = 0.0;
        }
        self.level.broken = self.level.broken.min(self.level.time.min(from * 1.5));
        self.level.broken_at = now;
        let cut = if is_first { (FIRST_CUT * verdict.cut).clamp(FIRST.0, FIRST.1) } else { verdict.cut.clamp(LARGEST_CUT, 0.8) };
        let time = (from * cut).max(self.level.kept);
        self.set(now, time.max(LEAST), outstanding);
    }

    fn kept(&mut self, now: Nanos, verdict: &Verdict, is_seeking: bool, outstanding: u32, meters: &[Meter]) {
        if self.level.time.is_infinite() || !verdict.has_room || self.watch.wall() < HOLD {
            return;
        }
        if !is_seeking && now - self.changed < STEADY {
            return;
        }
        self.level.kept = self.level.kept.max(self.level.time);
        self.is_tried = false;
        if now - self.level.broken_at >= FORGET {
            (self.level.broken, self.level.broken_at) = (self.level.broken * 1.5, now);
        }
        let between = (self.level.time * self.level.broken).sqrt();
        let (cap, count) = self.shares(meters);
        let most = if is_seeking { f64::INFINITY } else { self.level.time + STEADY_STEP * cap * count };
        let wanted = (self.level.time * verdict.raise).min(between);
        if wanted < SMALL_STEP * self.level.time {
            return;
        }
        let time = wanted.min(most);
        self.is_tried = !is_seeking;
        self.set(now, if time >= 1.0 { f64::INFINITY } else { time }, outstanding);
    }

    /// The state of the guarantee.
    pub fn standing(&self) -> Standing {
        let all: f64 = self.behind.iter().sum();
        let mut blame: Vec<Blame> = self
            .behind
            .iter()
            .enumerate()
            .filter(|(unit, behind)| *unit != self.unit && **behind > 0.0)
            .map(|(unit, behind)| Blame { unit, share: behind / all })
            .collect();
        blame.sort_by(|one, other| other.share.total_cmp(&one.share));
        let admission = self.watch.trial.admission.clone();
        Standing { unit: self.unit, state: self.state, measured: self.about.trim_end_matches("; ").to_owned(), blame, admission }
    }
}
