//! Promises to units that share a device, kept by limits on their neighbours.
//!
//! ```text
//! events ─▶ Processes: process ─▶ cgroup ─▶ member ─▶ Protector ──every 100 ms──▶ Limiter: the applier, io.max
//!                        Members: promised units, neighbours          └─▶ Told, PromiseStatus, LimitStatus
//! ```
//! A neighbour is limited as a whole. A slice in which a promised unit or this program runs is not: what is below it is, each by itself.

mod forecast;
mod held_back;
mod limiter;
mod members;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use applier::sysfs::Sysfs;
use applier::{ApplierError, Kind};
use block::{Nanos, StreamId};
use control::protect::{Admission, Limit, PERIOD, Promise, Protector, State};
use linux::cgroups::{CgroupError, Cgroups, Processes, Role, Source};
use linux::events::EventSource;
use linux::topology::Device;
use observe::Event;
use observe::units::UnitId;
use report::number::three_digits;
use serde::{Deserialize, Serialize};

use forecast::Forecasts;
use held_back::HeldBack;
pub use limiter::{ByApplier, Limiter};
use members::{Members, OTHERS};

use crate::configuration::{Configuration, Promised};

/// How often limits are compared with what is active, and neighbours that came back are limited again: within a second.
const CHECK_INTERVAL: Nanos = Nanos::from_millis(1_000);
/// How often it is looked for units that came.
const SCAN_INTERVAL: Nanos = Nanos::from_millis(2_000);
/// Members from which on those that are gone are forgotten, for which all limits are lifted for a moment: as many as `top` tells apart.
const MAX_MEMBERS: usize = 255;
/// Units whose member is remembered at most; as many as [`Processes`] knows.
const MAX_UNITS: usize = 1_024;

/// What is to be kept on a device, and who may be limited for it.
#[derive(Clone, Debug, Default)]
pub struct Terms {
    /// What is promised.
    pub promises: Vec<Promised>,
    /// Units, slices and paths of cgroups that may be limited.
    pub neighbours: Vec<String>,
    /// The lowest limit.
    pub floor_bytes_per_s: u64,
}

impl Terms {
    /// Those of the configuration that are about a device.
    pub fn of(configuration: &Configuration, device: &Device) -> Terms {
        let promises = configuration.promises.iter().filter(|promised| promised.is_about(device)).cloned().collect();
        let limits = &configuration.limits;
        Terms { promises, neighbours: limits.neighbours.clone(), floor_bytes_per_s: limits.floor_mb_s.saturating_mul(1_000_000) }
    }
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// A promise is kept, or not any more, or cannot be kept.
    Promise(String),
    /// A unit is limited from now on, or not any more.
    Limited(String),
    /// A limit was moved.
    Moved(String),
    /// Another program sets a unit's limits: it is left alone.
    Conflict(String),
    /// Something could not be done.
    Trouble(String),
}

impl Told {
    /// As a sentence.
    pub fn text(&self) -> &str {
        match self {
            Told::Promise(text) | Told::Limited(text) | Told::Moved(text) | Told::Conflict(text) | Told::Trouble(text) => text,
        }
    }
}

/// How a promise stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PromiseStatus {
    /// The unit, as the configuration names it.
    pub unit: String,
    /// What it is promised.
    pub promise: String,
    /// `idle`, `kept`, `not kept`, `cannot be kept` or `refused`.
    pub state: String,
    /// What was measured.
    pub measured: String,
    /// Units behind whose requests it waited, the worst first, with their share of its waiting from 0 to 1.
    pub because_of: Vec<(String, f64)>,
    /// Why it was accepted or refused, or that it is on trial.
    #[serde(default)]
    pub admission: String,
}

/// A unit that may be limited.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitStatus {
    /// The unit.
    pub unit: String,
    /// Its limit, as in `writes 20 MB/s`; `None` if it has none now.
    pub limit: Option<String>,
    /// In bytes per second, of reading and of writing; `None` if there is none.
    pub bytes_per_s: (Option<u64>, Option<u64>),
    /// Why it is limited, or why it may not be.
    pub why: String,
}

/// The states, in their order, as they are written.
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

/// A limit that is active.
struct Active {
    limit: Limit,
    why: String,
}

/// The promises on one device.
pub struct Protection {
    device: String,
    /// Its major and minor number, as in `8:0`.
    number: String,
    capacity_sectors: u64,
    terms: Terms,
    cgroups: Cgroups,
    /// The cgroup of this program.
    own: String,
    members: Members,
    /// The paths of named units.
    paths: BTreeMap<String, String>,
    /// Why units that are named are not there.
    missing: BTreeSet<String>,
    processes: Processes,
    /// The members of units of processes; `None` for what workers of the kernel send, which may have been held back.
    member_of: BTreeMap<UnitId, Option<usize>>,
    held_back: HeldBack,
    /// Events lost before.
    lost: u64,
    forecasts: Forecasts,
    protector: Protector,
    limiter: Box<dyn Limiter>,
    /// By path.
    active: BTreeMap<String, Active>,
    /// Cgroups that are left alone, and why: others set them, or they cannot be limited.
    left_alone: BTreeMap<String, String>,
    /// The latest state of each promise.
    states: BTreeMap<usize, State>,
    next: Nanos,
    next_check: Nanos,
    next_scan: Nanos,
}

impl Protection {
    /// Begins to keep promises on a device of this machine.
    ///
    /// # Errors
    /// There is no unified hierarchy of cgroups.
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
        Ok(Protection::new(now, (&device.name, &number, device.size_sectors), terms, (cgroups, sysfs, own), limiter))
    }

    /// Begins to keep promises on a device. `own` is the cgroup of this program.
    pub fn new(
        now: Nanos,
        (device, number, capacity_sectors): (&str, &str, u64),
        terms: Terms,
        (cgroups, sysfs, own): (Cgroups, &Sysfs, String),
        limiter: Box<dyn Limiter>,
    ) -> Protection {
        Protection {
            device: device.to_owned(),
            number: number.to_owned(),
            capacity_sectors,
            terms,
            cgroups,
            own,
            members: Members::default(),
            paths: BTreeMap::new(),
            missing: BTreeSet::new(),
            processes: Processes::new(sysfs, false),
            member_of: BTreeMap::new(),
            held_back: HeldBack::default(),
            lost: 0,
            forecasts: Forecasts::default(),
            protector: Protector::new(Vec::new()),
            limiter,
            active: BTreeMap::new(),
            left_alone: BTreeMap::new(),
            states: BTreeMap::new(),
            next: now,
            next_check: now + CHECK_INTERVAL,
            next_scan: now,
        }
    }

    /// When it wants to be called next.
    pub fn next(&self) -> Nanos {
        self.next
    }

    /// Takes note of events that the source of the device has just returned.
    pub fn observe(&mut self, now: Nanos, events: &[Event], source: &dyn EventSource) {
        if self.members.is_empty() {
            return;
        }
        for event in events {
            let stream = event.stream();
            let member = match self.member(now, stream, source.name(stream)) {
                Some(member) => {
                    self.held_back.sent_itself(member, event);
                    member
                }
                None => self.held_back.member(event).unwrap_or(OTHERS),
            };
            self.protector.event(member, event);
            self.forecasts.event(member, stream, event);
        }
        if source.lost() > self.lost {
            self.lost = source.lost();
            self.protector.lost();
        }
    }

    /// The member of a process; `None` of a worker of the kernel that sends what was held back.
    fn member(&mut self, now: Nanos, stream: StreamId, name: Option<&str>) -> Option<usize> {
        let unit = self.processes.unit(stream, name, now);
        if let Some(member) = self.member_of.get(&unit) {
            return *member;
        }
        let member = match self.processes.source(unit) {
            Some(Source::Kernel(Role::Worker)) => None,
            Some(Source::Unit(unit)) => Some(self.members.of(&unit.path)),
            _ => Some(OTHERS),
        };
        if self.member_of.len() >= MAX_UNITS {
            self.member_of.clear();
        }
        self.member_of.insert(unit, member);
        member
    }

    /// Decides and applies, if it is time. Returns what happened.
    pub fn step(&mut self, now: Nanos) -> Vec<Told> {
        let mut told = Vec::new();
        if now < self.next {
            return told;
        }
        self.next = now + PERIOD;
        if now >= self.next_scan {
            self.next_scan = now + SCAN_INTERVAL;
            self.scan(now, &mut told);
        }
        self.forecast(now);
        for change in self.protector.step(now) {
            let path = self.members.path(change.unit).filter(|path| !self.left_alone.contains_key(path));
            let Some(path) = path else { continue };
            self.apply(&path, change.limit, change.why.trim_end_matches([';', ' ']), &mut told);
        }
        if now >= self.next_check {
            self.next_check = now + CHECK_INTERVAL;
            let active: Vec<(String, Limit, String)> =
                self.active.iter().map(|(path, active)| (path.clone(), active.limit, active.why.clone())).collect();
            for (path, limit, why) in active {
                self.apply(&path, limit, &why, &mut told);
            }
        }
        let limited = self.active.keys().filter_map(|path| Some((self.members.number(path)?, self.cgroups.folder(path))));
        self.held_back.look(&limited.collect::<Vec<_>>(), &self.number);
        self.tell_states(&mut told);
        told
    }

    /// Has forecast what units get alone, as long as that cannot be measured.
    fn forecast(&mut self, now: Nanos) {
        let (members, protector) = (&self.members, &self.protector);
        self.forecasts.add(now, &members.promised());
        let promise = |member: usize| members.promise(member).filter(|_| protector.alone(member).is_none());
        if let Some((member, alone)) = self.forecasts.step(now, self.capacity_sectors, promise) {
            self.protector.forecast(member, alone);
        }
    }

    /// Looks for units that came.
    fn scan(&mut self, now: Nanos, told: &mut Vec<Told>) {
        let (mut members, missing) = Members::find(&self.cgroups, &mut self.paths, &self.terms, &self.own);
        for path in members.limitable() {
            if !self.members.has(&path)
                && !self.left_alone.contains_key(&path)
                && let Err(error) = self.limiter.check(&path)
            {
                told.push(Told::Trouble(format!("{path} cannot be limited: {error}")));
                self.left_alone.insert(path, error.to_string());
            }
        }
        members.leave_alone(&self.left_alone);
        told.extend(missing.difference(&self.missing).cloned().map(Told::Trouble));
        self.missing = missing;
        let known = self.members.len();
        let limitable = self.members.take_over(&members, |path| self.cgroups.folder(path).is_dir());
        let is_crowded = self.members.len() > known.max(MAX_MEMBERS) && members.len() < self.members.len();
        // What a new unit's processes did before was of its parent, or of others.
        self.member_of.clear();
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

    /// A new controller, of the members as they are now. It knows of no limits, so there are none.
    fn begin_again(&mut self, now: Nanos, told: &mut Vec<Told>) {
        for path in self.active.keys().cloned().collect::<Vec<_>>() {
            self.apply(&path, Limit::default(), "the units on the device are others now", told);
        }
        self.members.leave_alone(&self.left_alone);
        self.member_of.clear();
        self.held_back.forget();
        self.states.clear();
        self.protector = Protector::new(self.members.units(&self.terms));
        self.forecasts = Forecasts::begin(now, &self.members.promised());
    }

    /// Applies a limit.
    fn apply(&mut self, path: &str, limit: Limit, why: &str, told: &mut Vec<Told>) {
        let floored = |limit: Option<u64>| limit.map(|bytes| bytes.max(self.terms.floor_bytes_per_s));
        // Of a unit that reads and writes the controller divides the floor; the applier wants it of each.
        let limit = Limit {
            read_bytes_per_s: floored(limit.read_bytes_per_s),
            write_bytes_per_s: floored(limit.write_bytes_per_s),
            ..limit
        };
        let before = self.active.get(path).map(|active| active.limit);
        match self.limiter.limit(path, &self.device, &limit, why) {
            Ok(()) if limit.is_none() => {
                if self.active.remove(path).is_some() {
                    told.push(Told::Limited(format!("{path} is not limited any more: {why}")));
                }
            }
            Ok(()) => {
                self.active.insert(path.to_owned(), Active { limit, why: why.to_owned() });
                match before {
                    None => told.push(Told::Limited(format!("{path} is limited to {}: {why}", text(&limit)))),
                    Some(before) if before != limit => told.push(Told::Moved(format!("{path}: {} now: {why}", text(&limit)))),
                    Some(_) => {}
                }
            }
            // It may come back; then it is limited again.
            Err(error) if error.kind == Kind::NoDevice && !limit.is_none() => {
                self.active.insert(path.to_owned(), Active { limit, why: why.to_owned() });
            }
            Err(error) if error.kind == Kind::NoDevice => drop(self.active.remove(path)),
            Err(error) => self.refused(path, &error, told),
        }
    }

    fn refused(&mut self, path: &str, error: &ApplierError, told: &mut Vec<Told>) {
        if matches!(error.kind, Kind::Unreachable | Kind::Journal) {
            // Tried again at the next check.
            let trouble = Told::Trouble(error.to_string());
            if !told.contains(&trouble) {
                told.push(trouble);
            }
            return;
        }
        self.active.remove(path);
        self.left_alone.insert(path.to_owned(), error.to_string());
        self.members.leave_alone(&self.left_alone);
        if let Some(number) = self.members.number(path) {
            self.protector.set_limitable(number, false);
        }
        if matches!(error.kind, Kind::Foreign | Kind::Stale) {
            let released = self.limiter.release(path).err().map_or_else(String::new, |error| format!(" ({error})"));
            told.push(Told::Conflict(format!("{path} is left alone until `seekwise-agent resume {path}`: {error}{released}")));
        } else {
            told.push(Told::Trouble(format!("{path} cannot be limited: {error}")));
        }
    }

    fn tell_states(&mut self, told: &mut Vec<Told>) {
        for standing in self.protector.standings() {
            let before = self.states.insert(standing.unit, standing.state);
            let is_news = match (before, standing.state) {
                (before, now) if before == Some(now) => false,
                // What is kept or idle at first, or comes to rest, is as it should be.
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

    fn status_of(&self, standing: &control::protect::Standing) -> PromiseStatus {
        PromiseStatus {
            unit: self.members.name(standing.unit),
            promise: self.members.promise(standing.unit).map_or_else(String::new, |promise| promise_text(&promise)),
            state: word(standing.state).to_owned(),
            measured: standing.measured.clone(),
            because_of: standing.blame.iter().map(|blame| (self.members.name(blame.unit), blame.share)).collect(),
            admission: match &standing.admission {
                Admission::OnTrial => format!("on trial: what {} gives it with nothing else there is not known yet", self.device),
                Admission::Admitted(why) | Admission::Refused(why) => format!("on {}, {why}", self.device),
            },
        }
    }

    /// How each promise stands.
    pub fn promises(&self) -> Vec<PromiseStatus> {
        self.protector.standings().iter().map(|standing| self.status_of(standing)).collect()
    }

    /// Units that may be limited, or may not although they are named.
    pub fn limits(&self) -> Vec<LimitStatus> {
        let limit = |path: String| {
            let active = self.active.get(&path);
            let why = active.map(|active| active.why.clone()).or_else(|| self.left_alone.get(&path).cloned()).unwrap_or_default();
            let limit = active.map(|active| active.limit);
            LimitStatus {
                unit: path,
                limit: limit.map(|limit| text(&limit)),
                bytes_per_s: limit.map_or((None, None), |limit| (limit.read_bytes_per_s, limit.write_bytes_per_s)),
                why,
            }
        };
        let left_alone = self.left_alone.keys().cloned();
        let all: BTreeSet<String> = self.members.limitable().into_iter().chain(left_alone).collect();
        all.into_iter().map(limit).collect()
    }

    /// May limit a cgroup again that was left alone. Whether it was.
    ///
    /// # Errors
    /// The applier refuses.
    pub fn resume(&mut self, path: &str) -> Result<bool, ApplierError> {
        if !self.left_alone.contains_key(path) {
            return Ok(false);
        }
        self.limiter.resume(path)?;
        self.left_alone.remove(path);
        // The scan finds that it may be limited.
        self.next_scan = Nanos(0);
        Ok(true)
    }

    /// Puts all limits back.
    pub fn end(&mut self) -> Vec<Told> {
        let paths: Vec<String> = std::mem::take(&mut self.active).into_keys().collect();
        let mut told = Vec::new();
        for path in paths {
            told.push(match self.limiter.restore(&path) {
                Ok(restored) => Told::Limited(format!("{path}: {restored}")),
                Err(error) => Told::Trouble(format!("{path}: its limits could not be put back: {error}")),
            });
        }
        self.members = Members::default();
        self.protector = Protector::new(Vec::new());
        self.next_scan = Nanos::MAX;
        told
    }
}

/// As in `not kept`, with what may stand before it in a sentence.
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

/// A limit in words.
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

/// A promise in words.
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
