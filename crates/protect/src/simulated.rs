//! A simulated host whose tenants are cgroups: records the service of each second, under static limits or under limits that a
//! [`Protector`] sets every 100 ms.
//!
//! ```text
//! sim::run ──ServerEvent──▶ CgroupPilot ──Event, unit──▶ Protector
//!    ▲                         │  └──────▶ CgroupRecord    │ Change, every 100 ms
//!    └── io.max of a tenant ───┴───────────────────────────┘
//! ```

use block::rates::Rate;
use block::{Nanos, Op, Roster};
use observe::Event;
use observe::outstanding::Outstanding;
use sim::run::{Pilot, ServerEvent, Steerable};
use twin::{Recording, event};

use crate::decision::{Change, DeviceTime, Limit, PERIOD, Protector, Standing};

/// The kind of a recorded response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseKind {
    /// A read.
    Read,
    /// A synchronous write.
    Write,
    /// A call of fsync.
    Flush,
}

/// A response.
#[derive(Clone, Copy, Debug)]
pub struct Response {
    /// Its kind.
    pub kind: ResponseKind,
    /// Arrival of the request, or start of the call.
    pub arrival: Nanos,
    /// Completion time.
    pub at: Nanos,
}

/// A tenant's service in a second.
#[derive(Clone, Copy, Debug, Default)]
pub struct Second {
    /// Time during which it had requests or calls outstanding.
    pub wanted: Nanos,
    /// Requests completed.
    pub requests: u64,
    /// Bytes read and written.
    pub bytes: u64,
    /// Device time spent on its requests.
    pub device: Nanos,
}

/// A tenant's service over a run.
#[derive(Clone, Debug, Default)]
pub struct CgroupRecord {
    /// By second of the run.
    pub seconds: Vec<Second>,
    /// All responses by completion, if the tenant is followed; otherwise empty.
    pub responses: Vec<Response>,
    outstanding: Outstanding,
    since: Nanos,
}

impl CgroupRecord {
    fn second(&mut self, at: Nanos) -> &mut Second {
        let number = (at.0 / SECOND) as usize;
        if number >= self.seconds.len() {
            self.seconds.resize(number + 1, Second::default());
        }
        &mut self.seconds[number]
    }

    /// Accounts for the time with requests or calls outstanding, up to now.
    fn is_wanting(&mut self, at: Nanos) {
        if self.outstanding.is_any() {
            let mut from = self.since;
            while from < at {
                let to = Nanos((from.0 / SECOND + 1) * SECOND).min(at);
                self.second(from).wanted += to - from;
                from = to;
            }
        }
        self.since = at;
    }

    fn event(&mut self, event: &Event, keeps_responses: bool) {
        if !matches!(event, Event::Flushed { .. }) {
            self.is_wanting(event.at());
            self.outstanding.event(event);
        }
        match event {
            Event::Queued(_) | Event::Called { .. } | Event::Flushed { .. } => {}
            Event::Completed { request, at, .. } => {
                let second = self.second(*at);
                second.requests += 1;
                second.bytes += if request.op.transfers() { u64::from(request.sectors) * 512 } else { 0 };
                let kind = if request.op == Op::Read { ResponseKind::Read } else { ResponseKind::Write };
                if keeps_responses && request.is_sync() {
                    self.responses.push(Response { kind, arrival: request.arrival, at: *at });
                }
            }
            Event::Returned { op, bytes, called, at, .. } => {
                if keeps_responses && *bytes == 0 && op.is_write() {
                    self.responses.push(Response { kind: ResponseKind::Flush, arrival: *called, at: *at });
                }
            }
        }
    }
}

/// A second in nanoseconds. Derived: 10⁹ nanoseconds.
const SECOND: u64 = 1_000_000_000;

/// Records the service of tenants, and limits them.
pub struct CgroupPilot {
    roster: Roster,
    /// Static limits, by tenant.
    fixed: Vec<(usize, Limit)>,
    protector: Option<Protector>,
    next: Nanos,
    /// By tenant.
    pub records: Vec<CgroupRecord>,
    /// The tenant whose responses are recorded.
    followed: usize,
    /// All changes with their times.
    pub changes: Vec<(Nanos, Change)>,
    /// The latest requests of all tenants; `None` if they are not recorded.
    pub recording: Option<Recording>,
    /// Device time, counted as by the controller but also without one.
    device_time: DeviceTime,
}

impl CgroupPilot {
    /// Records the tenants of a roster, and the responses of the tenant `followed`.
    pub fn new(roster: &Roster, followed: usize) -> CgroupPilot {
        let records = vec![CgroupRecord::default(); roster.tenants().len()];
        let (fixed, changes) = (Vec::new(), Vec::new());
        CgroupPilot {
            roster: roster.clone(),
            fixed,
            protector: None,
            next: PERIOD,
            records,
            followed,
            changes,
            recording: None,
            device_time: DeviceTime::default(),
        }
    }

    /// Also records the latest requests of all tenants.
    #[must_use]
    pub fn with_recording(self) -> CgroupPilot {
        CgroupPilot { recording: Some(Recording::new()), ..self }
    }

    /// Sets static limits by tenant.
    #[must_use]
    pub fn with_limits(self, fixed: Vec<(usize, Limit)>) -> CgroupPilot {
        CgroupPilot { fixed, ..self }
    }

    /// Adds a controller, whose units are the tenants in their order.
    #[must_use]
    pub fn with_protector(self, protector: Protector) -> CgroupPilot {
        CgroupPilot { protector: Some(protector), ..self }
    }

    /// The state of the controller's guarantees; empty without a controller.
    pub fn standings(&self) -> Vec<Standing> {
        self.protector.as_ref().map(Protector::standings).unwrap_or_default()
    }

    fn owner(&self, event: &Event) -> Option<usize> {
        match event {
            Event::Queued(request) | Event::Completed { request, .. } => self.roster.owner(request),
            Event::Flushed { stream, .. } | Event::Called { stream, .. } | Event::Returned { stream, .. } => {
                self.roster.owner_of_stream(*stream)
            }
        }
    }
}

/// Converts a controller's limit to rates of reads and of writes.
pub fn rates(limit: &Limit) -> [Rate; 2] {
    let rate = |iops: Option<u64>, bytes_per_s: Option<u64>| {
        let [iops, bytes_per_s] = [iops, bytes_per_s].map(|rate| rate.and_then(|rate| std::num::NonZeroU64::new(rate.max(1))));
        Rate { iops, bytes_per_s }
    };
    [rate(limit.read_iops, limit.read_bytes_per_s), rate(limit.write_iops, limit.write_bytes_per_s)]
}

/// The outcome of the largest step below `beyond` that keeps the guarantee, by bisection. `lowest` is the outcome of step 0,
/// which must keep it.
///
/// # Errors
/// A step cannot be run.
pub fn largest_kept<T>(
    lowest: T,
    beyond: u32,
    mut run: impl FnMut(u32) -> anyhow::Result<T>,
    is_kept: impl Fn(&T) -> bool,
) -> anyhow::Result<T> {
    let (mut best, mut kept, mut broken) = (lowest, 0, beyond);
    while broken - kept > 1 {
        let middle = u32::midpoint(kept, broken);
        let outcome = run(middle)?;
        if is_kept(&outcome) {
            (kept, best) = (middle, outcome);
        } else {
            broken = middle;
        }
    }
    Ok(best)
}

impl Pilot for CgroupPilot {
    fn begin(&mut self, plant: &mut dyn Steerable) {
        for (tenant, limit) in &self.fixed {
            plant.set_io_max(Nanos::ZERO, *tenant, rates(limit));
        }
    }

    fn events(&mut self, noted: &[ServerEvent]) {
        for event in noted.iter().map(event) {
            if let Some(recording) = &mut self.recording {
                recording.event(&event);
            }
            let time = self.device_time.of(&event);
            let Some(tenant) = self.owner(&event) else { continue };
            if let Some(time) = time {
                self.records[tenant].second(event.at()).device += time;
            }
            self.records[tenant].event(&event, tenant == self.followed);
            if let Some(protector) = &mut self.protector {
                protector.event(tenant, &event);
            }
        }
    }

    fn next_step(&self, _quiet_until: Nanos) -> Option<Nanos> {
        self.protector.as_ref().map(|_| self.next)
    }

    fn step(&mut self, now: Nanos, plant: &mut dyn Steerable) -> bool {
        let Some(protector) = &mut self.protector else { return false };
        self.next = Nanos((now.0 / PERIOD.0 + 1) * PERIOD.0);
        let changes = protector.step(now);
        for change in &changes {
            plant.set_io_max(now, change.unit, rates(&change.limit));
        }
        let has_changed = !changes.is_empty();
        self.changes.extend(changes.into_iter().map(|change| (now, change)));
        has_changed
    }
}
