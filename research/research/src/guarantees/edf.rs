//! A schedule with knowledge of the future: earliest due date first, where each request is due as long after its arrival as it took on the
//! tenant's reference disk. It shows that a contract can be kept; no scheduler of a product has its knowledge.
//!
//! ```text
//! the tenant alone on its reference disk ─▶ Plan: for the k-th request of each stream, its response time, and the pause before it
//!                                              │
//! the tenants on the host ──▶ Edf: guaranteed requests by due date; a cheaper one goes first if all others stay in time;
//!                              idle if an earlier due request arrives before the next one would be done, and would be late;
//!                              best effort in the gaps
//! ```
//! Costs are means of those completed, and the device's own estimate of the way to each request.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use block::{Insertion, Limits, Nanos, Op, Pick, Request, RequestId, Room, Roster, Scheduler, StreamId, Tags};
use sim::run::{Issue, Pilot, ServerEvent};

/// Maximum requests, by due date, whose lateness and cost are compared.
const COMPARED: usize = 64;
/// Tags: more than all tenants of a contract have outstanding.
const TAGS: u32 = 8192;
/// Weight of the latest sample in a mean.
const LATEST: f64 = 1.0 / 16.0;

/// A request on the reference disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// From its arrival to its completion, and of the flush that followed it.
    pub response: Nanos,
    /// The time between the stream's previous completion and its arrival; `None` if others of the stream were outstanding.
    pub pause: Option<Nanos>,
    /// Its arrival.
    pub arrival: Nanos,
}

/// Records the requests of a tenant on its reference disk.
#[derive(Debug, Default)]
pub struct Recorder {
    streams: BTreeMap<StreamId, Vec<Step>>,
    open: BTreeMap<(StreamId, u64, Nanos), Vec<usize>>,
    /// By stream: requests outstanding, and the time of the latest completion.
    state: BTreeMap<StreamId, (usize, Nanos)>,
}

impl Recorder {
    /// The steps of each stream. A request without a completion has the response time zero.
    pub fn streams(self) -> BTreeMap<StreamId, Vec<Step>> {
        self.streams
    }
}

impl Pilot for Recorder {
    fn events(&mut self, noted: &[ServerEvent]) {
        for event in noted {
            match *event {
                ServerEvent::Issued(Issue { arrival, lba, stream, .. }) => {
                    let (outstanding, latest) = self.state.entry(stream).or_default();
                    let pause = (*outstanding == 0).then_some(arrival - *latest);
                    *outstanding += 1;
                    let steps = self.streams.entry(stream).or_default();
                    self.open.entry((stream, lba, arrival)).or_default().push(steps.len());
                    steps.push(Step { response: Nanos::ZERO, pause, arrival });
                }
                ServerEvent::Finished(done) => {
                    let Issue { arrival, lba, stream, .. } = done.issue;
                    let (outstanding, latest) = self.state.entry(stream).or_default();
                    *outstanding = outstanding.saturating_sub(1);
                    *latest = done.at;
                    let key = (stream, lba, arrival);
                    let step = self.open.get_mut(&key).and_then(Vec::pop);
                    if self.open.get(&key).is_some_and(Vec::is_empty) {
                        self.open.remove(&key);
                    }
                    if let (Some(step), Some(steps)) = (step, self.streams.get_mut(&stream)) {
                        steps[step].response = done.at - arrival;
                    }
                }
                ServerEvent::Flushed(flushed) => {
                    if let Some(step) = self.streams.get_mut(&flushed.stream).and_then(|steps| steps.last_mut()) {
                        step.response += flushed.at - flushed.arrival;
                    }
                    self.state.entry(flushed.stream).or_default().1 = flushed.at;
                }
                _ => {}
            }
        }
    }
}

/// A guaranteed tenant.
#[derive(Clone, Debug, Default)]
pub struct TenantPlan {
    /// By stream, its requests in order.
    pub streams: BTreeMap<StreamId, Vec<Step>>,
    /// The median response time, for requests of other streams, such as write-back.
    pub median: Nanos,
    /// Whether requests arrive by the clock, whenever others complete.
    pub is_clocked: bool,
}

impl TenantPlan {
    /// Of these streams.
    pub fn new(streams: BTreeMap<StreamId, Vec<Step>>, is_clocked: bool) -> TenantPlan {
        let mut responses: Vec<Nanos> = streams.values().flatten().map(|step| step.response).collect();
        responses.sort_unstable();
        let median = responses.get(responses.len() / 2).copied().unwrap_or(Nanos::ZERO);
        TenantPlan { streams, median, is_clocked }
    }
}

/// The tenants, in the roster's order; `None` for best effort.
pub type Plan = Vec<Option<TenantPlan>>;

/// The requests of tenants without a guarantee that are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BestEffort {
    /// All, in the gaps.
    All,
    /// Reads only, in the gaps: writes fill a drive's cache, and each flush waits until it is empty.
    Reads,
    /// None.
    Nothing,
}

/// Bounds of a schedule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Policy {
    /// Maximum requests at the device.
    pub depth: usize,
    /// Requests of best effort.
    pub best_effort: BestEffort,
    /// Guaranteed writes are held back for this part of the time from their arrival until they are due, so that their tenants do not get
    /// ahead and fill a cache.
    pub hold: f64,
}

/// The place of a waiting request: its due date, and its number among those inserted.
type Key = (Nanos, u64);

/// A waiting request.
#[derive(Clone, Debug)]
struct Waiting {
    request: Request,
    /// Number of arrivals that were merged into it, with itself.
    members: usize,
}

/// The state of a guaranteed stream.
#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    /// Requests so far.
    count: usize,
    outstanding: usize,
    latest: Nanos,
    /// Mean time of the flush after a request.
    flush: f64,
    /// The predicted next arrival; `None` while it is unknown.
    next: Option<(Nanos, Nanos)>,
}

/// The scheduler.
pub struct Edf {
    plan: Arc<Plan>,
    policy: Policy,
    end: Nanos,
    max_sectors: u32,
    roster: Roster,
    waiting: BTreeMap<Key, Waiting>,
    /// Ends of waiting requests that can grow.
    ends: BTreeMap<(StreamId, Op, u64), Key>,
    best_effort: VecDeque<Request>,
    number: u64,
    streams: BTreeMap<StreamId, (usize, Stream)>,
    /// At the device: stream and number of members of each request.
    flying: BTreeMap<RequestId, (StreamId, usize)>,
    completed: Nanos,
    /// Mean cost in nanoseconds, by direction and logarithm of the size.
    costs: [[f64; 16]; 2],
}

impl Edf {
    /// With nothing waiting. From `end` on, all of best effort is served: a run ends when nothing is outstanding.
    pub fn new(plan: Arc<Plan>, policy: Policy, end: Nanos) -> Edf {
        Edf {
            plan,
            policy,
            end,
            max_sectors: Limits::default().max_sectors,
            roster: Roster::default(),
            waiting: BTreeMap::new(),
            ends: BTreeMap::new(),
            best_effort: VecDeque::new(),
            number: 0,
            streams: BTreeMap::new(),
            flying: BTreeMap::new(),
            completed: Nanos::ZERO,
            costs: [[0.0; 16]; 2],
        }
    }

    fn class(request: &Request) -> (usize, usize) {
        (usize::from(request.op.is_write()), (request.sectors.max(1).ilog2() as usize).min(15))
    }

    /// The expected cost of a request in nanoseconds; that of the nearest known size of its direction before one was served.
    fn cost(&self, request: &Request) -> u64 {
        let (direction, size) = Edf::class(request);
        let known = |direction: usize| {
            let sizes = &self.costs[direction];
            (0..16).filter(|&other| sizes[other] > 0.0).min_by_key(|other| other.abs_diff(size)).map(|size| sizes[size])
        };
        known(direction).or_else(|| known(1 - direction)).unwrap_or(0.0) as u64
    }

    /// When a guaranteed request is due.
    fn due(&mut self, now: Nanos, tenant: usize, request: &Request) -> Nanos {
        let Some(Some(plan)) = self.plan.get(tenant) else { return Nanos::MAX };
        let Some(steps) = plan.streams.get(&request.stream).filter(|steps| !steps.is_empty()) else { return now + plan.median };
        let (_, stream) = self.streams.entry(request.stream).or_insert((tenant, Stream::default()));
        let step = steps[stream.count % steps.len()];
        if let (0, Some(pause), true) = (stream.outstanding, step.pause, stream.count > 0) {
            let flush = (now - stream.latest - pause).0 as f64;
            stream.flush += LATEST * (flush - stream.flush);
        }
        stream.count += 1;
        stream.outstanding += 1;
        stream.next =
            plan.is_clocked.then(|| steps.get(stream.count).map(|next| (next.arrival, next.arrival + next.response))).flatten();
        let response = if step.response == Nanos::ZERO { plan.median } else { step.response };
        now + (response - Nanos(stream.flush as u64))
    }

    /// Whether starting a request that is due then, and takes this long, makes another late that has not arrived yet: the time until which to
    /// wait.
    fn arrives_meanwhile(&self, now: Nanos, cost: u64, due: Nanos) -> Option<Nanos> {
        let end = now + Nanos(cost);
        let spoilt = self.streams.values().filter_map(|(_, stream)| stream.next).filter(|&(arrival, its_due)| {
            let own = Nanos(cost.min((its_due - arrival).0));
            arrival > now
                && arrival < end
                && its_due < due
                && end + own > its_due
                && (due == Nanos::MAX || arrival + own + Nanos(cost) <= due)
        });
        spoilt.map(|(arrival, _)| arrival).min()
    }

    fn take(&mut self, key: Key) -> Option<Request> {
        let Waiting { request, members } = self.waiting.remove(&key)?;
        self.ends.remove(&(request.stream, request.op, request.end()));
        self.flying.insert(request.id, (request.stream, members));
        Some(request)
    }

    fn is_served(&self, now: Nanos, request: &Request) -> bool {
        match self.policy.best_effort {
            _ if now >= self.end => true,
            BestEffort::All => true,
            BestEffort::Reads => request.op == Op::Read,
            BestEffort::Nothing => false,
        }
    }
}

impl Scheduler for Edf {
    fn insert(&mut self, now: Nanos, request: Request) -> Insertion {
        let tenant = self.roster.owner_at(request.lba, request.stream);
        let Some(tenant) = tenant.filter(|&tenant| self.plan.get(tenant).is_some_and(Option::is_some)) else {
            self.best_effort.push_back(request);
            return Insertion::Queued;
        };
        let due = self.due(now, tenant, &request);
        let before = (request.stream, request.op, request.lba);
        if let Some(&key) = self.ends.get(&before)
            && let Some(waiting) = self.waiting.get_mut(&key)
            && waiting.request.sectors + request.sectors <= self.max_sectors
            && request.op != Op::Discard
        {
            waiting.request.sectors += request.sectors;
            waiting.members += 1;
            let into = waiting.request.id;
            self.ends.remove(&before);
            self.ends.insert((request.stream, request.op, request.end()), key);
            return Insertion::Merged { into, absorbed: None };
        }
        self.number += 1;
        self.ends.insert((request.stream, request.op, request.end()), (due, self.number));
        self.waiting.insert((due, self.number), Waiting { request, members: 1 });
        Insertion::Queued
    }

    fn pick(&mut self, now: Nanos) -> Pick {
        self.pick_with_cost(now, &mut |_| None)
    }

    fn pick_with_cost(&mut self, now: Nanos, way: &mut dyn FnMut(&Request) -> Option<Nanos>) -> Pick {
        if self.waiting.is_empty() && self.best_effort.is_empty() {
            return Pick::Empty;
        }
        let backstop = now + block::sched::COMPLETION_BACKSTOP;
        if self.flying.len() >= self.policy.depth {
            return Pick::WaitUntil(backstop);
        }
        let (mut passed, mut slack, mut wake) = (0_u64, u64::MAX, backstop);
        let mut head: Option<Key> = None;
        let mut cheapest: Option<(Nanos, Key)> = None;
        for (&key, waiting) in self.waiting.iter().take(COMPARED) {
            let (due, request) = (key.0, &waiting.request);
            let cost = self.cost(request);
            passed += cost;
            slack = slack.min(due.0.saturating_sub(now.0 + passed));
            let from = request.arrival + Nanos(((due - request.arrival).0 as f64 * self.policy.hold) as u64);
            if request.op.is_write() && from > now {
                wake = wake.min(from);
                continue;
            }
            head = head.or(Some(key));
            if let Some(time) = way(request)
                && cheapest.is_none_or(|(least, _)| time < least)
            {
                cheapest = Some((time, key));
            }
        }
        if let Some(head) = head {
            let cheap =
                cheapest.filter(|(_, key)| self.waiting.get(key).is_some_and(|waiting| self.cost(&waiting.request) <= slack));
            let key = cheap.map_or(head, |(_, key)| key);
            let cost = self.waiting.get(&key).map_or(0, |waiting| self.cost(&waiting.request));
            match self.arrives_meanwhile(now, cost, key.0) {
                Some(until) => return Pick::WaitUntil(until),
                None => return self.take(key).map_or(Pick::Empty, Pick::Go),
            }
        }
        let candidates = self.best_effort.iter().enumerate().take(COMPARED).filter(|(_, request)| self.is_served(now, request));
        let nearest = candidates.min_by_key(|(_, request)| way(request).unwrap_or(Nanos::ZERO));
        let Some((position, request)) = nearest else {
            return Pick::WaitUntil(if now < self.end { wake.min(self.end) } else { wake });
        };
        let cost = self.cost(request);
        if cost > slack {
            return Pick::WaitUntil(wake);
        }
        if let Some(until) = self.arrives_meanwhile(now, cost, Nanos::MAX) {
            return Pick::WaitUntil(until.min(wake));
        }
        let Some(request) = self.best_effort.remove(position) else { return Pick::WaitUntil(wake) };
        self.flying.insert(request.id, (request.stream, 0));
        Pick::Go(request)
    }

    fn completed(&mut self, now: Nanos, request: &Request, service: Nanos) {
        let cost = service.min(now - self.completed).0 as f64;
        self.completed = now;
        let (direction, size) = Edf::class(request);
        let mean = &mut self.costs[direction][size];
        *mean = if *mean == 0.0 { cost } else { *mean + LATEST * (cost - *mean) };
        let Some((stream, members)) = self.flying.remove(&request.id) else { return };
        let Some((tenant, state)) = self.streams.get_mut(&stream).filter(|_| members > 0) else { return };
        state.outstanding = state.outstanding.saturating_sub(members);
        state.latest = now;
        let Some(Some(plan)) = self.plan.get(*tenant) else { return };
        if plan.is_clocked || state.outstanding > 0 {
            return;
        }
        let next = plan.streams.get(&stream).and_then(|steps| steps.get(state.count));
        state.next = next.and_then(|next| {
            let arrival = now + next.pause? + Nanos(state.flush as u64);
            Some((arrival, arrival + next.response))
        });
    }

    fn retune(&mut self, _values: &[i64]) {}

    fn tags(&self, _room: &Room) -> Option<Tags> {
        Some(Tags { depth: TAGS, wake_batch: 1 })
    }

    fn set_limits(&mut self, limits: &Limits) {
        self.max_sectors = limits.max_sectors;
    }

    fn set_roster(&mut self, roster: &Roster) {
        self.roster = roster.clone();
    }

    fn drain(&mut self, out: &mut Vec<Request>) {
        self.ends.clear();
        let waiting = std::mem::take(&mut self.waiting);
        out.extend(waiting.into_values().map(|waiting| waiting.request).chain(self.best_effort.drain(..)));
        out.sort_by_key(|request| request.arrival);
    }
}
