//! Per-tenant service as the tenant's processes see it.
//!
//! ```text
//! wall clock    0 s        1 s        2 s        3 s
//! outstanding   ██████████████▌                ▐█████████     its requests, from when they are issued until they are done
//! own clock     0 s        1 s  1.35           1.35   2 s     runs only meanwhile
//! ```
//! A tenant that is idle is not served because it issues nothing. Service is therefore measured by the tenant's own clock, which
//! runs only while it has requests outstanding: by that clock two equally fast disks give the same result, wherever the pauses are.

use block::{Nanos, Rates, Roster, StreamId};

use super::timeline::Timeline;
use super::{Finished, Issue, Responses, Transferred};

/// Resolution of a tenant's own clock in [`TenantMeasure::steps`].
pub const STEP: Nanos = Nanos::from_millis(10);
/// A tenant idle for at least this long counts as returning with its next request.
pub const IDLE_GAP: Nanos = Nanos::from_millis(1_000);
/// Initial width of bins of the wall clock: an eighth of a second.
pub const BIN: Nanos = Nanos::from_millis(125);
/// Maximum number of recorded returns.
const RETURNS: usize = 10_000;

/// Measures of all tenants in one run.
#[derive(Clone, Debug)]
pub struct Tenants {
    roster: Roster,
    by: Owner,
    /// In the roster's order; the last one is for all streams not on it.
    tenants: Vec<TenantMeasure>,
    /// Number of tenants on the roster with requests outstanding, and the time since which all have some.
    wanting: usize,
    all_since: Nanos,
    /// Nanoseconds in which all tenants on the roster had requests outstanding, by the wall clock.
    all_active: Timeline<u64>,
}

/// The attribution of requests to tenants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// By its process, as for system calls, whose sectors are known only later.
    Stream,
    /// By its sectors first, then its process, as the schedulers do.
    Sectors,
}

/// Work that can be attributed to a tenant.
///
/// ```
/// use block::StreamId;
/// use sim::run::Attributed;
///
/// /// Work of a process on sectors that are not known yet.
/// struct Call {
///     process: StreamId,
/// }
///
/// impl Attributed for Call {
///     fn issuer(&self) -> Option<(StreamId, Option<u64>)> {
///         Some((self.process, None))
///     }
/// }
///
/// assert_eq!(Call { process: 3 }.issuer(), Some((3, None)));
/// ```
pub trait Attributed {
    /// The issuing stream and, if known, the first sector; `None` if no completion is reported for it.
    fn issuer(&self) -> Option<(StreamId, Option<u64>)>;
}

impl Attributed for Issue {
    fn issuer(&self) -> Option<(StreamId, Option<u64>)> {
        Some((self.stream, Some(self.lba)))
    }
}

/// Totals of a step or a bin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Bytes read and written.
    pub bytes: u64,
    /// Requests, fsyncs among them.
    pub requests: u64,
    /// Like `requests`, with large requests counted as several ([`Rates::units`]).
    pub units: u64,
    /// Bytes of writes, discards and fsyncs.
    pub written_bytes: u64,
    /// Units of writes, discards and fsyncs.
    pub written_units: u64,
    /// Bytes of the largest request.
    pub largest: u64,
}

impl Served {
    /// One request of this many bytes, as a tenant with these rates counts it.
    pub(crate) fn of(rates: &Rates, is_write: bool, bytes: u64) -> Served {
        let units = rates.units(bytes);
        let (written_bytes, written_units) = if is_write { (bytes, units) } else { (0, 0) };
        Served { bytes, requests: 1, units, written_bytes, written_units, largest: bytes }
    }
}

impl std::ops::AddAssign for Served {
    fn add_assign(&mut self, other: Served) {
        self.bytes += other.bytes;
        self.requests += other.requests;
        self.units += other.units;
        self.written_bytes += other.written_bytes;
        self.written_units += other.written_units;
        self.largest = self.largest.max(other.largest);
    }
}

/// One tenant's return from idleness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Return {
    /// Time by the wall clock.
    pub at: Nanos,
    /// Time by the tenant's own clock.
    pub own: Nanos,
}

/// Measures of one tenant. The ramp is included: guarantees hold from the first request on.
#[derive(Clone, Debug)]
pub struct TenantMeasure {
    /// Response times of its requests and fsyncs.
    pub responses: Responses,
    /// Totals.
    pub served: Served,
    /// Time with requests outstanding: its own clock.
    pub wanted: Nanos,
    /// Totals in each [`STEP`] of its own clock.
    pub steps: Vec<Served>,
    /// Totals by the wall clock.
    pub timeline: Timeline<Served>,
    /// Nanoseconds with requests outstanding, by the wall clock.
    pub wanting: Timeline<u64>,
    /// Its returns from idleness, including the first request; at most 10,000.
    pub returns: Vec<Return>,
    rates: Rates,
    outstanding: u64,
    since: Nanos,
    /// Its latest completion: a host may report completions of the same instant in any order.
    latest: Nanos,
    /// Start of its current idle time; `None` before its first request.
    idle_from: Option<Nanos>,
}

impl TenantMeasure {
    /// The 99th percentile of its response times.
    pub fn p99(&self) -> Nanos {
        self.responses.quantile(0.99)
    }

    /// Requests per second of its own clock.
    pub fn iops(&self) -> f64 {
        self.served.requests as f64 / self.wanted.as_secs_f64()
    }

    fn new(rates: Rates) -> TenantMeasure {
        TenantMeasure {
            rates,
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
            idle_from: None,
        }
    }

    /// Records an issued request. Returns whether the tenant was idle.
    fn request_issued(&mut self, now: Nanos) -> bool {
        self.outstanding += 1;
        if self.outstanding > 1 {
            return false;
        }
        self.since = now;
        if self.idle_from.is_none_or(|from| now - from >= IDLE_GAP) && self.returns.len() < RETURNS {
            self.returns.push(Return { at: now, own: self.wanted });
        }
        true
    }

    /// Records a completed request. Returns whether the tenant is idle now.
    fn request_completed(&mut self, finished: &Finished) -> bool {
        let at = finished.at().max(self.since).max(self.latest);
        self.latest = at;
        let own = self.wanted + (at - self.since);
        let bytes = finished.transfer().map_or(0, Transferred::moved);
        let is_write = finished.transfer().is_none_or(|done| done.issue.op.is_write());
        let served = Served::of(&self.rates, is_write, bytes);
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
            self.become_idle(at);
        }
        is_over
    }

    fn become_idle(&mut self, at: Nanos) {
        self.wanted += at - self.since;
        self.wanting.add_span(self.since, at);
        self.idle_from = Some(at);
    }
}

impl Tenants {
    /// Starts without requests.
    pub fn new(roster: &Roster, by: Owner) -> Tenants {
        let tenants =
            roster.tenants().iter().map(|tenant| tenant.rates).chain([Rates::default()]).map(TenantMeasure::new).collect();
        let (wanting, all_since, all_active) = (0, Nanos::ZERO, Timeline::new(BIN));
        Tenants { roster: roster.clone(), by, tenants, wanting, all_since, all_active }
    }

    /// The roster.
    pub fn roster(&self) -> &Roster {
        &self.roster
    }

    /// The measures of the tenants on the roster, in its order.
    pub fn on_roster(&self) -> &[TenantMeasure] {
        &self.tenants[..self.roster.tenants().len()]
    }

    /// The measures of all other streams together.
    pub fn others(&self) -> &TenantMeasure {
        &self.tenants[self.roster.tenants().len()]
    }

    /// Nanoseconds in which all tenants on the roster had requests outstanding, by the wall clock.
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

    /// Records issued work.
    pub fn issued(&mut self, now: Nanos, work: &impl Attributed) {
        let Some((stream, lba)) = work.issuer() else { return };
        let number = self.number(stream, lba);
        if self.tenants[number].request_issued(now) && number + 1 < self.tenants.len() {
            self.wanting += 1;
            self.all_since = now;
        }
    }

    /// Records completed work.
    pub fn completed(&mut self, finished: &Finished) {
        let number = self.number(finished.stream(), finished.transfer().map(|done| done.issue.lba));
        let all_active = self.wanting + 1 == self.tenants.len();
        if self.tenants[number].request_completed(finished) && number + 1 < self.tenants.len() {
            if all_active {
                self.all_active.add_span(self.all_since, finished.at());
            }
            self.wanting = self.wanting.saturating_sub(1);
        }
    }

    /// Ends the run at `at`; outstanding requests never complete.
    pub(super) fn finish(&mut self, at: Nanos) {
        if self.wanting + 1 == self.tenants.len() && self.wanting > 0 {
            self.all_active.add_span(self.all_since, at);
        }
        for tenant in self.tenants.iter_mut().filter(|tenant| tenant.outstanding > 0) {
            tenant.become_idle(at.max(tenant.since));
        }
    }
}
