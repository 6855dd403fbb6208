//! A simulated host whose tenants are cgroups: what each second gives them, under limits that stay or under limits that a
//! [`Protector`] sets every 100 ms.
//!
//! ```text
//! sim::run ──ServerEvent──▶ CgroupPilot ──Event, unit──▶ Protector
//!    ▲                         │  └──────▶ CgroupRecord    │ Change, every 100 ms
//!    └── io.max of a tenant ───┴───────────────────────────┘
//! ```

use block::rates::Rate;
use block::{Nanos, Op, Roster};
use control::protect::{Change, Limit, PERIOD, Protector, Standing};
use observe::Event;
use sim::run::{Pilot, ServerEvent, Steerable};
use twin::{Recording, event};

/// A request or a call of fsync whose response time counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A read.
    Read,
    /// A write that a process waited for.
    Write,
    /// A call of fsync.
    Flush,
}

/// A response.
#[derive(Clone, Copy, Debug)]
pub struct Response {
    /// Of what.
    pub kind: Kind,
    /// When it was asked for.
    pub arrival: Nanos,
    /// When it was done.
    pub at: Nanos,
}

/// What a tenant got in a second.
#[derive(Clone, Copy, Debug, Default)]
pub struct Second {
    /// Time in which it had requests or calls outstanding.
    pub wanted: Nanos,
    /// Requests completed.
    pub requests: u64,
    /// Bytes read and written.
    pub bytes: u64,
    /// Time for which the device worked for it.
    pub device: Nanos,
}

/// What one tenant got.
#[derive(Clone, Debug, Default)]
pub struct CgroupRecord {
    /// By the second of the run.
    pub seconds: Vec<Second>,
    /// All responses in the order in which they were done, if they were to be kept.
    pub responses: Vec<Response>,
    outstanding: u32,
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

    fn change(&mut self, at: Nanos, more: bool) {
        if self.outstanding > 0 {
            let mut from = self.since;
            while from < at {
                let to = Nanos((from.0 / SECOND + 1) * SECOND).min(at);
                self.second(from).wanted += to - from;
                from = to;
            }
        }
        self.since = at;
        self.outstanding = if more { self.outstanding + 1 } else { self.outstanding.saturating_sub(1) };
    }

    fn event(&mut self, event: &Event, keeps_responses: bool) {
        match event {
            Event::Queued(request) => self.change(request.arrival, true),
            Event::Completed { request, at, .. } => {
                self.change(*at, false);
                let second = self.second(*at);
                second.requests += 1;
                second.bytes += if request.op.transfers() { u64::from(request.sectors) * 512 } else { 0 };
                let kind = if request.op == Op::Read { Kind::Read } else { Kind::Write };
                if keeps_responses && request.is_sync() {
                    self.responses.push(Response { kind, arrival: request.arrival, at: *at });
                }
            }
            Event::Called { at, .. } => self.change(*at, true),
            Event::Returned { op, bytes, called, at, .. } => {
                self.change(*at, false);
                if keeps_responses && *bytes == 0 && op.is_write() {
                    self.responses.push(Response { kind: Kind::Flush, arrival: *called, at: *at });
                }
            }
            Event::Flushed { .. } => {}
        }
    }
}

/// In nanoseconds.
const SECOND: u64 = 1_000_000_000;

/// Records what tenants get, and limits them.
pub struct CgroupPilot {
    roster: Roster,
    /// Limits that stay, by tenant.
    fixed: Vec<(usize, Limit)>,
    protector: Option<Protector>,
    next: Nanos,
    /// By tenant.
    pub records: Vec<CgroupRecord>,
    /// The tenant whose responses are kept.
    followed: usize,
    /// All changes with their times.
    pub changes: Vec<(Nanos, Change)>,
    /// The latest requests of all tenants, if they are to be recorded.
    pub recording: Option<Recording>,
    /// The last completion of any tenant: device time is counted from there.
    last_completion: Nanos,
}

impl CgroupPilot {
    /// Records the tenants of a roster, and of one each response.
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
            last_completion: Nanos::ZERO,
        }
    }

    /// The same with a recording.
    #[must_use]
    pub fn with_recording(self) -> CgroupPilot {
        CgroupPilot { recording: Some(Recording::new()), ..self }
    }

    /// The same with limits that stay.
    #[must_use]
    pub fn with_limits(self, fixed: Vec<(usize, Limit)>) -> CgroupPilot {
        CgroupPilot { fixed, ..self }
    }

    /// The same with a controller, whose units are the tenants in their order.
    #[must_use]
    pub fn with_protector(self, protector: Protector) -> CgroupPilot {
        CgroupPilot { protector: Some(protector), ..self }
    }

    /// How the controller's promises stand.
    pub fn standings(&self) -> Vec<Standing> {
        self.protector.as_ref().map(Protector::standings).unwrap_or_default()
    }

    /// For how long the device worked for what completed, as the controller counts.
    fn worked(&mut self, event: &Event) -> Option<(Nanos, Nanos)> {
        let (begun, at) = match event {
            Event::Completed { dispatched, at, .. } => (*dispatched, *at),
            Event::Flushed { asked, at, .. } => (*asked, *at),
            _ => return None,
        };
        let time = at - self.last_completion.max(begun);
        self.last_completion = self.last_completion.max(at);
        Some((at, time))
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

/// A controller's limit as a pair of rates: of reads and of writes.
pub fn rates(limit: &Limit) -> [Rate; 2] {
    let rate = |iops: Option<u64>, bytes_per_s: Option<u64>| {
        let [iops, bytes_per_s] = [iops, bytes_per_s].map(|rate| rate.and_then(|rate| std::num::NonZeroU64::new(rate.max(1))));
        Rate { iops, bytes_per_s }
    };
    [rate(limit.read_iops, limit.read_bytes_per_s), rate(limit.write_iops, limit.write_bytes_per_s)]
}

/// The outcome of the largest step below `beyond` that keeps the promise, by bisection; `lowest` is that of step 0, which does.
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
            let worked = self.worked(&event);
            let Some(tenant) = self.owner(&event) else { continue };
            if let Some((at, time)) = worked {
                self.records[tenant].second(at).device += time;
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
