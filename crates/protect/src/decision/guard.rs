//! The control loop of one guarantee: the device time of all neighbours together.

use block::Nanos;

use super::feasibility::{Feasibility, Without};
use super::meter::Meter;
use super::presence::Presence;
use super::search::{FORGET, LEAST, Search};
use super::settling::Settling;
use super::watch::{Verdict, Watch};
use super::{Admission, Blame, Promise, Standing, State, Unit, limits};

/// Share of the device's time below which neighbours are not the cause. Choice: a higher one overlooks neighbours with few slow requests, a
/// lower one cuts bystanders; not varied.
const HARMLESS: f64 = 0.01;
/// Neighbours count as using their limits if one of them moves at least this fraction of its allowance. Choice: a higher one sees no room
/// under bursty neighbours, a lower one counts idle limits as evidence; not varied.
const USED: f64 = 0.5;
/// A cut starts from at least this fraction of their limits. Choice: bounds the cut after a pause of the neighbours; not varied.
const LEAST_USED: f64 = 0.1;

/// Device time of the neighbours over a span, in which they use their limits.
#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    /// Device time, and the length of the span, in seconds.
    used: f64,
    span: f64,
}

impl Usage {
    /// Device time used per second; 0 without a span.
    fn rate(&self) -> f64 {
        if self.span > 0.0 { self.used / self.span } else { 0.0 }
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
    presence: Presence,
    neighbours: Vec<usize>,
    search: Search,
    settling: Settling,
    feasibility: Feasibility,
    /// Device time of each unit when it was last active; infinite without a limit.
    left: Vec<f64>,
    /// Device time of the neighbours since the last step; infinite without a limit.
    applied: f64,
    usage: Usage,
    pub about: String,
}

impl Guard {
    pub fn new(unit: usize, promise: &Promise, units: usize) -> Guard {
        Guard {
            unit,
            watch: Watch::new(promise),
            behind: vec![0.0; units],
            state: State::Idle,
            presence: Presence::new(),
            neighbours: Vec::new(),
            search: Search::default(),
            settling: Settling::new(),
            feasibility: Feasibility::default(),
            left: vec![f64::INFINITY; units],
            applied: f64::INFINITY,
            usage: Usage::default(),
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
        !self.presence.is_idle() && !self.feasibility.has_given_up() && self.search.time().is_finite()
    }

    /// The device time that a unit may have per second; `None` without a limit. A unit without requests keeps its last value, so that it
    /// does not fill the queue when it returns.
    pub fn cap_of(&self, unit: usize, meters: &[Meter]) -> Option<f64> {
        if self.is_limiting() && self.neighbours.contains(&unit) {
            return Some(self.cap(meters));
        }
        (!self.presence.is_idle() && !self.feasibility.has_given_up() && self.left[unit].is_finite()).then_some(self.left[unit])
    }

    /// The device time that a neighbour may have per second.
    fn cap(&self, meters: &[Meter]) -> f64 {
        if self.settling.is_at_floors() { 0.0 } else { shares(self.search.time(), &self.demands(meters)).0 }
    }

    /// Device time that each neighbour demands per second, in ascending order.
    fn demands(&self, meters: &[Meter]) -> Vec<f64> {
        let mut demands: Vec<f64> = self.neighbours.iter().map(|&unit| meters[unit].demand.unwrap_or(1.0).max(1e-3)).collect();
        demands.sort_by(f64::total_cmp);
        demands
    }

    pub fn step(&mut self, now: Nanos, period: Nanos, units: &[Unit], meters: &[Meter], active: &[bool], present: &[bool]) {
        let neighbours: Vec<usize> = (0..units.len())
            .filter(|&unit| active[unit] && unit != self.unit && units[unit].is_limitable && units[unit].promise.is_none())
            .collect();
        let outstanding: u32 = neighbours.iter().map(|&unit| meters[unit].outstanding.requests()).sum();
        let is_alone = neighbours.is_empty() && outstanding == 0;
        let time = neighbours.iter().map(|&unit| meters[unit].recent.seconds).sum::<f64>();
        // Limits that are not used up are no evidence of room.
        let is_used = self.search.time().is_infinite() || neighbours.iter().any(|&unit| present[unit] && meters[unit].used >= USED);
        let is_undisturbed = (0..units.len())
            .all(|unit| unit == self.unit || (meters[unit].recent.seconds == 0.0 && meters[unit].outstanding.requests() == 0));
        let own = &meters[self.unit].outstanding;
        let is_evidence = self.settling.is_settled() && !is_alone && is_used && !self.presence.is_quiet();
        self.watch.close((now - period, now), own, is_evidence, is_alone, is_undisturbed);
        if self.settling.is_settled() {
            self.usage.used += if is_used { time } else { 0.0 };
            self.usage.span += if is_used { period.as_secs_f64() } else { 0.0 };
        } else {
            let done = neighbours.iter().map(|&unit| meters[unit].recent_requests()).sum();
            // Only writes stay in the device after they have completed.
            let has_written = neighbours.iter().any(|&unit| meters[unit].has_written());
            let waits = |time| has_written && self.watch.waits_since_before(time);
            if self.settling.drain(now, done, outstanding, neighbours.len(), waits) {
                self.begin_span(now);
            }
        }
        // Blame decays with a time constant of ten seconds.
        let keep = (-period.as_secs_f64() / 10.0).exp();
        self.behind.iter_mut().for_each(|behind| *behind *= keep);
        if neighbours != self.neighbours {
            self.neighbours_changed(now, neighbours, outstanding);
        }
        let second = self.watch.verdict_of_second(now);
        if let Some(pause) = self.presence.step(now, &meters[self.unit], second.severity) {
            self.unit_returned(now, pause, outstanding);
        }
        if self.presence.is_quiet() {
            self.search.wait(period);
        }
        self.decide(now, second, meters, units, outstanding);
        self.settling.end_step(now);
        self.applied = if self.is_limiting() { self.search.time() } else { f64::INFINITY };
        if !self.presence.is_idle() && !self.settling.is_at_floors() {
            let cap = if self.is_limiting() { self.cap(meters) } else { f64::INFINITY };
            self.neighbours.iter().for_each(|&unit| self.left[unit] = cap);
        }
    }

    fn neighbours_changed(&mut self, now: Nanos, neighbours: Vec<usize>, outstanding: u32) {
        let before = std::mem::replace(&mut self.neighbours, neighbours);
        self.search.switch(now, before, &self.neighbours);
        self.load_changed(now, outstanding);
    }

    /// Continues with the limits from before a pause; searches for them anew only if none worked, or if the pause was long.
    fn unit_returned(&mut self, now: Nanos, pause: Nanos, outstanding: u32) {
        if self.search.is_known() && pause < FORGET {
            self.set(now, self.search.time(), outstanding, true);
        } else {
            self.load_changed(now, outstanding);
        }
    }

    fn load_changed(&mut self, now: Nanos, outstanding: u32) {
        self.search.begin(now);
        self.feasibility.begin();
        self.set(now, self.search.time(), outstanding, true);
    }

    fn begin_span(&mut self, now: Nanos) {
        self.watch.begin_span(now);
        self.usage = Usage::default();
    }

    fn set(&mut self, now: Nanos, time: f64, outstanding: u32, is_new_load: bool) {
        self.search.set(now, time);
        let is_tighter = time < self.applied && (is_new_load || self.search.is_seeking(now));
        self.settling.begin(now, time, outstanding, self.neighbours.len(), is_tighter);
        self.begin_span(now);
    }

    fn decide(&mut self, now: Nanos, second: Verdict, meters: &[Meter], units: &[Unit], outstanding: u32) {
        self.about = second.about.clone();
        if let Admission::Refused(_) = self.watch.trial.admission {
            self.state = State::Refused;
            self.left.fill(f64::INFINITY);
            if self.search.time().is_finite() {
                self.search.reset();
                self.load_changed(now, outstanding);
            }
            return;
        }
        if self.presence.is_quiet() {
            self.state = State::Idle;
            return;
        }
        if let Some(without) = self.feasibility.without(now, &second) {
            self.state = State::CannotBeKept;
            match without {
                Without::Useful => {
                    self.search.set(now, LEAST);
                    self.load_changed(now, outstanding);
                    self.feasibility.keep_limits();
                }
                Without::Retry => self.load_changed(now, outstanding),
                Without::Wait => {}
            }
            return;
        }
        self.state = match second.is_broken {
            true if self.feasibility.is_hopeless() => State::CannotBeKept,
            true => State::NotKept,
            false => State::Kept,
        };
        if !self.settling.is_settled() || self.neighbours.is_empty() {
            return;
        }
        let verdict = self.watch.verdict(now);
        let used = self.usage.rate();
        let is_at_floor = self.search.time() <= LEAST
            || self.neighbours.iter().all(|&unit| limits::is_at_floor(&units[unit], &meters[unit], self.cap(meters)))
            || (self.search.time().is_infinite() && used < HARMLESS);
        if self.feasibility.gives_up(now, is_at_floor, &second) {
            self.search.reset();
            self.left.fill(f64::INFINITY);
            self.state = State::CannotBeKept;
            return;
        }
        let time = if !verdict.is_broken {
            let demands = self.demands(meters);
            self.search.raise(now, &verdict, self.watch.wall(), |time| shares(time, &demands))
        } else if !is_at_floor {
            // Writes into the device's cache cost less device time than when they were measured, so use is measured in bytes.
            let used_part = self.neighbours.iter().map(|&unit| meters[unit].used).fold(LEAST_USED, f64::max).min(1.0);
            self.search.cut(now, &verdict, used, used_part)
        } else {
            None
        };
        if let Some(time) = time {
            self.set(now, time, outstanding, false);
        }
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

/// Max-min fair division of device time among these demands, which are in ascending order: the part of each neighbour that demands at least
/// that much, and the number of these neighbours. Neighbours that demand less leave the rest to the others.
fn shares(time: f64, demands: &[f64]) -> (f64, f64) {
    let (mut left, mut count) = (time, demands.len() as f64);
    for demand in demands {
        if demand * count >= left {
            break;
        }
        left -= demand;
        count -= 1.0;
    }
    // All demands are met; the rest is headroom for each.
    if count < 1.0 { (time, 1.0) } else { (left / count, count) }
}
