//! Guarantees to units that share a device, kept by limiting their neighbours.
//!
//! ```text
//! events ─▶ Attribution: process ─▶ cgroup ─▶ member ─▶ Protector ──every 100 ms──▶ AppliedLimits ─▶ Limiter: the applier, io.max
//!                          Members: promised units, neighbours          └─▶ Told, PromiseStatus, LimitStatus
//! ```
//! A neighbour is limited as a whole. A slice that contains a unit with a guarantee, or this program, is not: its children are limited
//! instead.

mod applied_limits;
mod attribution;
mod forecast;
mod held_back;
mod limiter;
mod members;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use crate::decision::{Admission, Limit, PERIOD, Promise, Protector, State};
use applier::ApplierError;
use applier::sysfs::Sysfs;
use block::Nanos;
use linux::cgroups::{CgroupError, Cgroups, Processes};
use linux::events::EventSource;
use linux::topology::Device;
use observe::Event;
use observe::units::MOST_UNITS;
use report::number::three_digits;
use serde::{Deserialize, Serialize};

use applied_limits::AppliedLimits;
use attribution::Attribution;
use forecast::Forecasts;
pub use limiter::{ByApplier, Limiter};
use members::{Lookup, Members};

/// Interval at which limits are verified, and applied to neighbours that have come back. Choice: a shorter one reads more files, a longer
/// one leaves a restarted service without its limit; not varied.
const CHECK_INTERVAL: Nanos = Nanos::from_millis(1_000);
/// Interval of scans for new units. Choice: a shorter one reads all folders more often, a longer one finds a new unit late; not varied.
const SCAN_INTERVAL: Nanos = Nanos::from_millis(2_000);

/// Guarantees on a device, and the units that may be limited to keep them.
#[derive(Clone, Debug, Default)]
pub struct Terms {
    /// The guarantees, each with its unit, container or cgroup as [`linux::cgroups::Cgroups::find`] takes it.
    pub promises: Vec<(String, Promise)>,
    /// Units, slices and paths of cgroups that may be limited.
    pub neighbours: Vec<String>,
    /// Minimum limit, in bytes per second.
    pub floor_bytes_per_s: u64,
}

/// An event to report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// The state of a guarantee has changed.
    Promise(String),
    /// A limit was set or removed.
    Limited(String),
    /// A limit was changed.
    Moved(String),
    /// Another program sets the limits of a unit, which is left alone from now on.
    Conflict(String),
    /// An operation failed.
    Trouble(String),
}

impl Told {
    /// The event as a sentence.
    pub fn text(&self) -> &str {
        match self {
            Told::Promise(text) | Told::Limited(text) | Told::Moved(text) | Told::Conflict(text) | Told::Trouble(text) => text,
        }
    }
}

/// State of a guarantee.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PromiseStatus {
    /// The unit, as the configuration names it.
    pub unit: String,
    /// The guarantee.
    pub promise: String,
    /// `idle`, `kept`, `not kept`, `cannot be kept` or `refused`.
    pub state: String,
    /// The measured performance.
    pub measured: String,
    /// Units whose requests it waited behind, worst first, with their share of its waiting time (0 to 1).
    pub because_of: Vec<(String, f64)>,
    /// Why the guarantee was admitted or refused, or that it is on trial.
    #[serde(default)]
    pub admission: String,
}

/// A unit that may be limited.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitStatus {
    /// The unit.
    pub unit: String,
    /// Its limit, such as `writes 20 MB/s`; `None` if it is not limited now.
    pub limit: Option<String>,
    /// Limits of reads and of writes, in bytes per second; `None` if unlimited.
    pub bytes_per_s: (Option<u64>, Option<u64>),
    /// Why it is limited, or why it cannot be.
    pub why: String,
}

/// Names of the states, in order. Derived: the variants of [`State`].
pub const STATES: [(State, &str); 5] = [
    (State::Idle, "idle"),
    (State::Kept, "kept"),
    (State::NotKept, "not kept"),
    (State::CannotBeKept, "cannot be kept"),
    (State::Refused, "refused"),
];

fn word(state: State) -> &'static str {
    STATES.iter().find(|(known, _)| *known == state).map_or("idle", |(_, word)| word)
}

/// Keeps the guarantees on one device.
pub struct Protection {
    device: DeviceId,
    terms: Terms,
    lookup: Lookup,
    members: Members,
    attribution: Attribution,
    forecasts: Forecasts,
    protector: Protector,
    applied: AppliedLimits,
    /// Latest state of each guarantee.
    states: BTreeMap<usize, State>,
    due: Due,
}

/// The device on which guarantees are kept.
struct DeviceId {
    name: String,
    /// Major and minor number, such as `8:0`.
    number: String,
    capacity_sectors: u64,
}

/// Times of the next step, check of the limits, and scan for units.
struct Due {
    step: Nanos,
    check: Nanos,
    scan: Nanos,
}

impl Protection {
    /// Starts keeping guarantees on a device of this machine.
    ///
    /// # Errors
    /// cgroup v2 is not mounted.
    pub fn begin(
        now: Nanos,
        sysfs: &Sysfs,
        device: &Device,
        terms: Terms,
        limiter: Box<dyn Limiter>,
    ) -> Result<Protection, CgroupError> {
        let cgroups = Cgroups::mounted(sysfs)?;
        let own = std::fs::read_to_string(sysfs.proc().join("self/cgroup")).unwrap_or_default();
        let number = format!("{}:{}", device.number.0, device.number.1);
        let own = own.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("/").to_owned();
        Ok(Protection::new(now, (&device.name, &number, device.size_sectors), terms, (cgroups, own), limiter))
    }

    /// Starts keeping guarantees on a device. `own` is the cgroup of this program.
    pub fn new(
        now: Nanos,
        (device, number, capacity_sectors): (&str, &str, u64),
        terms: Terms,
        (cgroups, own): (Cgroups, String),
        limiter: Box<dyn Limiter>,
    ) -> Protection {
        Protection {
            device: DeviceId { name: device.to_owned(), number: number.to_owned(), capacity_sectors },
            applied: AppliedLimits::new(device, terms.floor_bytes_per_s, limiter),
            terms,
            lookup: Lookup::new(cgroups, own),
            members: Members::default(),
            attribution: Attribution::new(),
            forecasts: Forecasts::default(),
            protector: Protector::new(Vec::new()),
            states: BTreeMap::new(),
            due: Due { step: now, check: now + CHECK_INTERVAL, scan: now },
        }
    }

    /// Time of the next call of [`step`](Protection::step).
    pub fn next(&self) -> Nanos {
        self.due.step
    }

    /// Processes events of the device. `processes`: the units of its processes, which must not be counted by slice, as limits are per unit.
    pub fn observe(&mut self, events: &[Event], source: &dyn EventSource, processes: &mut Processes) {
        if self.members.is_empty() {
            return;
        }
        for event in events {
            let member = self.attribution.of_event(event, source, processes, &self.members);
            self.protector.event(member, event);
            self.forecasts.event(member, event.stream(), event);
        }
        if self.attribution.has_lost(source) {
            self.protector.lost();
        }
    }

    /// If due, runs the controller and applies limits. Returns events to report.
    pub fn step(&mut self, now: Nanos) -> Vec<Told> {
        let mut told = Vec::new();
        if now < self.due.step {
            return told;
        }
        self.due.step = now + PERIOD;
        if now >= self.due.scan {
            self.due.scan = now + SCAN_INTERVAL;
            self.scan(now, &mut told);
        }
        self.forecast(now);
        for change in self.protector.step(now) {
            let path = self.members.path(change.unit).filter(|path| !self.applied.left_alone().contains_key(path));
            let Some(path) = path else { continue };
            self.apply(&path, change.limit, change.why.trim_end_matches([';', ' ']), &mut told);
        }
        if now >= self.due.check {
            self.due.check = now + CHECK_INTERVAL;
            for (path, limit, why) in self.applied.active() {
                self.apply(&path, limit, &why, &mut told);
            }
        }
        let limited = self.applied.paths().filter_map(|path| Some((self.members.number(path)?, self.lookup.folder(path))));
        self.attribution.look(&limited.collect::<Vec<_>>(), &self.device.number);
        self.tell_states(&mut told);
        told
    }

    /// Forecasts the performance of units alone, until it can be measured.
    fn forecast(&mut self, now: Nanos) {
        let (members, protector) = (&self.members, &self.protector);
        self.forecasts.add(now, &members.promised());
        let promise = |member: usize| members.promise(member).filter(|_| protector.alone(member).is_none());
        if let Some((member, alone)) = self.forecasts.step(now, self.device.capacity_sectors, promise) {
            self.protector.forecast(member, alone);
        }
    }

    /// Scans for new units.
    fn scan(&mut self, now: Nanos, told: &mut Vec<Told>) {
        let (mut members, missing) = self.lookup.find(&self.terms);
        for path in members.limitable().into_iter().filter(|path| !self.members.has(path)) {
            self.applied.check(&path, told);
        }
        members.leave_alone(self.applied.left_alone());
        told.extend(missing.into_iter().map(Told::Trouble));
        let known = self.members.len();
        let limitable = self.members.take_over(&members, |path| self.lookup.folder(path).is_dir());
        // Above the maximum of `top`, units that are gone are dropped; all limits are lifted for a moment then.
        let is_crowded = self.members.len() > known.max(MOST_UNITS) && members.len() < self.members.len();
        self.attribution.scanned();
        match limitable {
            Some(limitable) if known > 0 && !is_crowded => {
                let added = self.members.units(&self.terms).split_off(1 + known);
                added.into_iter().for_each(|unit| self.protector.add(unit));
                limitable.into_iter().for_each(|(unit, is_limitable)| self.protector.set_limitable(unit, is_limitable));
            }
            _ => {
                self.members = members;
                self.begin_again(now, told);
            }
        }
    }

    /// Restarts the controller with the current members, after removing all limits, which it does not know.
    fn begin_again(&mut self, now: Nanos, told: &mut Vec<Told>) {
        for (path, ..) in self.applied.active() {
            self.apply(&path, Limit::default(), "the units on the device are others now", told);
        }
        self.members.leave_alone(self.applied.left_alone());
        self.attribution.begin();
        self.states.clear();
        self.protector = Protector::new(self.members.units(&self.terms));
        self.forecasts = Forecasts::begin(now, &self.members.promised());
    }

    /// Applies a limit.
    fn apply(&mut self, path: &str, limit: Limit, why: &str, told: &mut Vec<Told>) {
        if self.applied.apply(path, limit, why, told) {
            return;
        }
        self.members.leave_alone(self.applied.left_alone());
        if let Some(number) = self.members.number(path) {
            self.protector.set_limitable(number, false);
        }
    }

    fn tell_states(&mut self, told: &mut Vec<Told>) {
        for standing in self.protector.standings() {
            let before = self.states.insert(standing.unit, standing.state);
            let is_news = match (before, standing.state) {
                (before, now) if before == Some(now) => false,
                // Do not report guarantees that are met or idle from the start, or become idle.
                (None | Some(State::Idle | State::Kept), State::Idle | State::Kept) => false,
                (_, State::Idle) => false,
                _ => true,
            };
            if is_news {
                let status = self.status_of(&standing);
                let because = match standing.state {
                    State::Kept | State::Idle | State::Refused => String::new(),
                    State::NotKept | State::CannotBeKept => blamed(&status.because_of),
                };
                let PromiseStatus { unit, promise, state, measured, admission, .. } = status;
                let measured = if standing.state == State::Refused { admission } else { measured };
                let measured = if measured.is_empty() { measured } else { format!("; {measured}") };
                told.push(Told::Promise(format!("the promise to {unit} ({promise}) is {}{measured}{because}", is_word(&state))));
            }
        }
    }

    fn status_of(&self, standing: &crate::decision::Standing) -> PromiseStatus {
        PromiseStatus {
            unit: self.members.name(standing.unit),
            promise: self.members.promise(standing.unit).map_or_else(String::new, |promise| promise_text(&promise)),
            state: word(standing.state).to_owned(),
            measured: standing.measured.clone(),
            because_of: standing.blame.iter().map(|blame| (self.members.name(blame.unit), blame.share)).collect(),
            admission: match &standing.admission {
                Admission::OnTrial => {
                    format!("on trial: what {} gives it with nothing else there is not known yet", self.device.name)
                }
                Admission::Admitted(why) | Admission::Refused(why) => format!("on {}, {why}", self.device.name),
            },
        }
    }

    /// State of each guarantee.
    pub fn promises(&self) -> Vec<PromiseStatus> {
        self.protector.standings().iter().map(|standing| self.status_of(standing)).collect()
    }

    /// Units that may be limited, and named units that cannot be.
    pub fn limits(&self) -> Vec<LimitStatus> {
        let left_alone = self.applied.left_alone().keys().cloned();
        let all: BTreeSet<String> = self.members.limitable().into_iter().chain(left_alone).collect();
        all.into_iter().map(|path| self.applied.status(path)).collect()
    }

    /// Resumes limiting a cgroup. Returns false if it was not left alone.
    ///
    /// # Errors
    /// The applier refuses.
    pub fn resume(&mut self, path: &str) -> Result<bool, ApplierError> {
        let is_resumed = self.applied.resume(path)?;
        if is_resumed {
            // The next scan makes it limitable again.
            self.due.scan = Nanos(0);
        }
        Ok(is_resumed)
    }

    /// Restores all limits.
    pub fn end(&mut self) -> Vec<Told> {
        let told = self.applied.end();
        self.members = Members::default();
        self.protector = Protector::new(Vec::new());
        self.due.scan = Nanos::MAX;
        told
    }
}

/// The state as a predicate in a sentence.
fn is_word(state: &str) -> String {
    match state.strip_prefix("cannot ") {
        Some(rest) => format!("one that cannot {rest}"),
        None => state.to_owned(),
    }
}

fn blamed(because_of: &[(String, f64)]) -> String {
    if because_of.is_empty() {
        return String::new();
    }
    let shares = because_of.iter().take(3).map(|(unit, share)| format!("{unit} ({:.0}% of its waiting)", 100.0 * share));
    format!("; because of {}", shares.collect::<Vec<_>>().join(", "))
}

/// A limit as text.
pub fn text(limit: &Limit) -> String {
    let mb = |bytes: Option<u64>, what: &str| bytes.map(|bytes| format!("{what} {} MB/s", three_digits(bytes as f64 / 1e6)));
    let iops = |count: Option<u64>, what: &str| count.map(|count| format!("{what} {count} requests/s"));
    let parts = [
        mb(limit.read_bytes_per_s, "reads"),
        mb(limit.write_bytes_per_s, "writes"),
        iops(limit.read_iops, "reads"),
        iops(limit.write_iops, "writes"),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { "no limit".to_owned() } else { parts.join(", ") }
}

/// A guarantee as text.
pub fn promise_text(promise: &Promise) -> String {
    let p99 = |time: Option<Nanos>, of: &str| time.map(|time| format!("{of} p99 {} ms", three_digits(time.as_secs_f64() * 1e3)));
    let parts = [
        p99(promise.read_p99, "read"),
        p99(promise.write_p99, "write"),
        p99(promise.flush_p99, "fsync"),
        promise.least_iops.map(|iops| format!("at least {} requests/s", three_digits(iops))),
        promise.least_bytes_per_s.map(|bytes| format!("at least {} MB/s", three_digits(bytes / 1e6))),
        promise.share.map(|share| format!("at least {}% of the device's time", three_digits(100.0 * share))),
        promise.reference.as_ref().map(|reference| format!("as on {}", reference.name)),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}
