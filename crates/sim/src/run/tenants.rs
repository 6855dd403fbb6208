//! What each tenant asked for and got, as its processes see it.
//!
//! ```text
//! wall clock    0 s        1 s        2 s        3 s
//! outstanding   ██████████████▌                ▐█████████     its requests, from when they are issued until they are done
//! own clock     0 s        1 s  1.35           1.35   2 s     runs only meanwhile
//! ```
//! A tenant that thinks, or whose load is over, is not served because it asks for nothing. So its service is measured by its own clock,
//! which runs while it has something outstanding: by that clock two disks that serve it equally fast look the same, however its pauses
//! fall.

use block::{Nanos, Roster, StreamId};

use super::timeline::Timeline;
use super::{Finished, Issue, Responses};

/// The step of a tenant's own clock at which its progress is kept.
pub const STEP: Nanos = Nanos::from_millis(10);
/// Who asked for nothing for so long was silent, and returns.
pub const SILENCE: Nanos = Nanos::from_millis(1_000);
/// Bins of the wall clock, to begin with: eight of them are a second.
pub const BIN: Nanos = Nanos::from_millis(125);
/// Returns that are remembered.
const RETURNS: usize = 10_000;

/// What tenants did, of one run.
#[derive(Clone, Debug)]
pub struct Tenants {
    roster: Roster,
    by: Owner,
    /// In the roster's order, and behind them all who are not on it.
    tenants: Vec<TenantMeasure>,
    /// Of those on the roster: how many have something outstanding, and since when all have.
    wanting: usize,
    all_since: Nanos,
    /// Nanoseconds in which all on the roster had something outstanding, by the wall clock.
    all_active: Timeline<u64>,
}

/// How it is told whose a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// By the process, as for system calls: where they lead is known only later.
    Stream,
    /// By the sectors first, as the schedulers do: for requests.
    Sectors,
}

/// Work as a source issues it, as far as it matters whose it is.
pub trait Attributed {
    /// Who asks, and from which sector on, if that is said; `None` if nobody is ever told that it is done.
    fn issuer(&self) -> Option<(StreamId, Option<u64>)>;
}

impl Attributed for Issue {
    fn issuer(&self) -> Option<(StreamId, Option<u64>)> {
        Some((self.stream, Some(self.lba)))
    }
}

/// What came together in a step or a bin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Bytes read and written.
    pub bytes: u64,
    /// Requests done, fsyncs among them.
    pub requests: u64,
}

impl std::ops::AddAssign for Served {
    fn add_assign(&mut self, other: Served) {
        self.bytes += other.bytes;
        self.requests += other.requests;
    }
}

/// One tenant's return from silence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Return {
    /// By the wall clock.
    pub at: Nanos,
    /// By its own.
    pub own: Nanos,
}

/// What one tenant asked for and got. A ramp counts as the rest does: promises hold from the first request on.
#[derive(Clone, Debug)]
pub struct TenantMeasure {
    /// Response times of all that it waited for, fsyncs among them.
    pub responses: Responses,
    /// What was done for it in all.
    pub served: Served,
    /// Time in which it had something outstanding: where its own clock stands.
    pub wanted: Nanos,
    /// What was done in each [`STEP`] of its own clock.
    pub steps: Vec<Served>,
    /// What was done, by the wall clock.
    pub timeline: Timeline<Served>,
    /// Nanoseconds in which it had something outstanding, by the wall clock.
    pub wanting: Timeline<u64>,
    /// Its returns from silence, the first request among them; the first 10,000.
    pub returns: Vec<Return>,
    outstanding: u64,
    since: Nanos,
    /// Its latest completion: a host reports those of one instant of its own in any order.
    latest: Nanos,
    /// When it last had something outstanding.
    silent_from: Option<Nanos>,
}

impl TenantMeasure {
    fn new() -> TenantMeasure {
        TenantMeasure {
            responses: Responses::new(3),
            served: Served::default(),
            wanted: Nanos::ZERO,
            steps: Vec::new(),
            timeline: Timeline::new(BIN),
            wanting: Timeline::new(BIN),
            returns: Vec::new(),
            outstanding: 0,
            since: Nanos::ZERO,
            latest: Nanos::ZERO,
            silent_from: None,
        }
    }

    /// It asks for something. True if it wanted nothing before.
    fn asks(&mut self, now: Nanos) -> bool {
        self.outstanding += 1;
        if self.outstanding > 1 {
            return false;
        }
        self.since = now;
        if self.silent_from.is_none_or(|from| now - from >= SILENCE) && self.returns.len() < RETURNS {
            self.returns.push(Return { at: now, own: self.wanted });
        }
        true
    }

    /// It gets something. True if it wants nothing now.
    fn gets(&mut self, finished: &Finished) -> bool {
        let at = finished.at().max(self.since).max(self.latest);
        self.latest = at;
        let own = self.wanted + (at - self.since);
        let served = Served { bytes: finished.transfer().map_or(0, |done| super::measure::moved(&done.issue)), requests: 1 };
        self.responses.record(finished.at() - finished.arrival());
        self.served += served;
        let step = (own.0 / STEP.0) as usize;
        if step >= self.steps.len() {
            self.steps.resize(step + 1, Served::default());
        }
        self.steps[step] += served;
        self.timeline.add(at, served);
        self.outstanding = self.outstanding.saturating_sub(1);
        let is_over = self.outstanding == 0;
        if is_over {
            self.rests(at);
        }
        is_over
    }

    fn rests(&mut self, at: Nanos) {
        self.wanted += at - self.since;
        self.wanting.add_span(self.since, at);
        self.silent_from = Some(at);
    }
}

impl Tenants {
    /// Nothing was asked yet.
    pub fn new(roster: &Roster, by: Owner) -> Tenants {
        let tenants = (0..=roster.tenants().len()).map(|_| TenantMeasure::new()).collect();
        let (wanting, all_since, all_active) = (0, Nanos::ZERO, Timeline::new(BIN));
        Tenants { roster: roster.clone(), by, tenants, wanting, all_since, all_active }
    }

    /// The roster.
    pub fn roster(&self) -> &Roster {
        &self.roster
    }

    /// What those on the roster got, in its order.
    pub fn on_roster(&self) -> &[TenantMeasure] {
        &self.tenants[..self.roster.tenants().len()]
    }

    /// What all others got, together.
    pub fn others(&self) -> &TenantMeasure {
        &self.tenants[self.roster.tenants().len()]
    }

    /// Nanoseconds in which all on the roster had something outstanding, by the wall clock.
    pub fn all_active(&self) -> &Timeline<u64> {
        &self.all_active
    }

    fn number(&self, stream: StreamId, lba: Option<u64>) -> usize {
        let owner = match (self.by, lba) {
            (Owner::Sectors, Some(lba)) => self.roster.owner_at(lba, stream),
            _ => self.roster.owner_of_stream(stream),
        };
        owner.unwrap_or(self.tenants.len() - 1)
    }

    /// Something is issued.
    pub fn asked(&mut self, now: Nanos, work: &impl Attributed) {
        let Some((stream, lba)) = work.asker() else { return };
        let number = self.number(stream, lba);
        if self.tenants[number].asks(now) && number + 1 < self.tenants.len() {
            self.wanting += 1;
            self.all_since = now;
        }
    }

    /// Something is done.
    pub fn got(&mut self, finished: &Finished) {
        let number = self.number(finished.stream(), finished.transfer().map(|done| done.issue.lba));
        let all_active = self.wanting + 1 == self.tenants.len();
        if self.tenants[number].gets(finished) && number + 1 < self.tenants.len() {
            if all_active {
                self.all_active.add_span(self.all_since, finished.at());
            }
            self.wanting = self.wanting.saturating_sub(1);
        }
    }

    /// The run is over at `at`; what is still outstanding never comes.
    pub(super) fn finish(&mut self, at: Nanos) {
        if self.wanting + 1 == self.tenants.len() && self.wanting > 0 {
            self.all_active.add_span(self.all_since, at);
        }
        for tenant in self.tenants.iter_mut().filter(|tenant| tenant.outstanding > 0) {
            tenant.rests(at.max(tenant.since));
        }
    }
}
