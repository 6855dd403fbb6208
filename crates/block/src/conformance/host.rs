//! A simulated host that keeps a ledger of the requests passed to a scheduler, and checks every answer against it.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use super::script::Script;
use crate::{Insertion, Merges, Nanos, Pick, Request, RequestId, Scheduler, SchedulerSpec, StarvationBound, switch};

/// Maximum number of consecutive `WaitUntil` answers while the device is idle.
const MAX_IDLE_WAITS: u32 = 64;
/// A longer wait counts as endless.
const MAX_WAIT: Nanos = Nanos::from_millis(60_000);

type Checked = Result<(), String>;

/// A request that should be queued in the scheduler.
struct Waiting {
    /// The request as it should be picked.
    request: Request,
    /// Arrival number; for merged requests the lowest.
    order: u64,
    parts: Vec<Request>,
    /// Number of requests that may still be dispatched before this one; `None` until its starvation bound applies.
    others_left: Option<u64>,
}

/// Plays a script against a scheduler.
pub(super) struct Host<'a> {
    spec: &'static SchedulerSpec,
    scheduler: Box<dyn Scheduler>,
    starvation_bound: Option<StarvationBound>,
    script: &'a Script,
    now: Nanos,
    waiting: BTreeMap<RequestId, Waiting>,
    /// By completion time and dispatch number: the request, and whether the current scheduler picked it.
    at_device: BTreeMap<(Nanos, u64), (Request, bool)>,
    free_ids: Vec<RequestId>,
    wake: Option<Nanos>,
    idle_waits: u32,
    arrived: u64,
    parts_served: u64,
    served: Vec<(Nanos, Request)>,
}

impl<'a> Host<'a> {
    /// Plays `script` with these values; `successor`, if any, takes over in the middle. Returns each dispatched request with its time.
    pub(super) fn play(
        spec: &'static SchedulerSpec,
        script: &'a Script,
        values: &[i64],
        successor: Option<&'static SchedulerSpec>,
    ) -> Result<Vec<(Nanos, Request)>, String> {
        let ids = script.arrivals.len() as RequestId;
        let mut host = Host {
            spec,
            scheduler: (spec.build)(&script.limits, values),
            starvation_bound: spec.starvation_bound.map(|starvation_bound| starvation_bound(values)),
            script,
            now: Nanos::ZERO,
            waiting: BTreeMap::new(),
            at_device: BTreeMap::new(),
            // The last id freed is reused first, so that ids recur as early as possible.
            free_ids: (0..ids).rev().collect(),
            wake: None,
            idle_waits: 0,
            arrived: 0,
            parts_served: 0,
            served: Vec::new(),
        };
        host.run(successor)?;
        Ok(host.served)
    }

    fn run(&mut self, successor: Option<&'static SchedulerSpec>) -> Checked {
        let script = self.script;
        let mut arrival_at = Nanos::ZERO;
        for (index, arrival) in script.arrivals.iter().enumerate() {
            arrival_at += Nanos::from_micros(arrival.gap_us);
            self.run_until(arrival_at)?;
            self.now = arrival_at;
            if script.change_after == Some(index) {
                self.change(successor)?;
            }
            let id = self.free_ids.pop().ok_or("the kit ran out of ids")?;
            let request = Request {
                id,
                stream: arrival.stream,
                op: arrival.op,
                sync: arrival.sync,
                priority: arrival.priority,
                sectors: arrival.sectors,
                lba: arrival.lba,
                arrival: self.now,
            };
            self.insert(request)?;
            self.fill_device()?;
        }
        self.run_until(Nanos::MAX)?;
        if self.parts_served != self.arrived {
            return Err(format!("{} requests arrived and {} were served", self.arrived, self.parts_served));
        }
        Ok(())
    }

    /// Processes completions and wake-ups up to `end`.
    fn run_until(&mut self, end: Nanos) -> Checked {
        loop {
            let completion = self.at_device.keys().next().copied();
            let next = completion.map_or(Nanos::MAX, |(at, _)| at).min(self.wake.unwrap_or(Nanos::MAX));
            if next > end || next == Nanos::MAX {
                return Ok(());
            }
            self.now = next;
            match completion {
                Some(key) if key.0 == next => self.complete(key),
                _ => {
                    self.wake = None;
                    if self.at_device.is_empty() {
                        self.idle_waits += 1;
                    }
                }
            }
            self.fill_device()?;
        }
    }

    fn insert(&mut self, request: Request) -> Checked {
        self.idle_waits = 0;
        self.waiting.insert(request.id, Waiting { request, order: self.arrived, parts: vec![request], others_left: None });
        self.arrived += 1;
        let insertion = self.scheduler.insert(self.now, request);
        self.follow(request.id, insertion)
    }

    /// Updates the ledger with the result of an insertion.
    fn follow(&mut self, id: RequestId, insertion: Insertion) -> Checked {
        let Insertion::Merged { into, absorbed } = insertion else { return Ok(()) };
        if into == id {
            return Err(format!("request {id} cannot merge into itself"));
        }
        self.join(into, id)?;
        absorbed.map_or(Ok(()), |absorbed| self.join(into, absorbed))
    }

    /// Makes `part` a part of `into`.
    fn join(&mut self, into: RequestId, part: RequestId) -> Checked {
        let part = self.waiting.remove(&part).ok_or(format!("{part} was merged but does not wait"))?;
        let whole = self.waiting.get_mut(&into).ok_or(format!("something was merged into {into}, which does not wait"))?;
        if self.script.limits.merges == Merges::Never {
            return Err(format!("{part:?} was merged, though merging is off", part = part.request));
        }
        let (a, b) = (&mut whole.request, &part.request);
        if (a.op, a.sync, a.priority) != (b.op, b.sync, b.priority) {
            return Err(format!("unequal requests were merged: {a:?} and {b:?}"));
        }
        let ends = |request: &Request| u128::from(request.lba) + u128::from(request.sectors);
        if ends(a) != u128::from(b.lba) && ends(b) != u128::from(a.lba) {
            return Err(format!("requests were merged that do not touch: {a:?} and {b:?}"));
        }
        let sectors = u64::from(a.sectors) + u64::from(b.sectors);
        if sectors > u64::from(self.script.limits.max_sectors) {
            return Err(format!("a merge made {sectors} sectors; at most {} are allowed", self.script.limits.max_sectors));
        }
        a.lba = a.lba.min(b.lba);
        a.sectors = sectors as u32;
        a.arrival = a.arrival.min(b.arrival);
        if part.order < whole.order {
            whole.order = part.order;
            whole.others_left = part.others_left;
        }
        whole.parts.extend(part.parts);
        Ok(())
    }

    fn complete(&mut self, key: (Nanos, u64)) {
        self.idle_waits = 0;
        let Some((request, picked_by_current)) = self.at_device.remove(&key) else { return };
        if picked_by_current {
            let service = self.now - self.served[key.1 as usize].0;
            self.scheduler.completed(self.now, &request, service);
        }
        self.free_ids.push(request.id);
    }

    fn fill_device(&mut self) -> Checked {
        if self.idle_waits > MAX_IDLE_WAITS {
            return Err(format!("with the device idle the scheduler answered WaitUntil {MAX_IDLE_WAITS} times in a row"));
        }
        while self.at_device.len() < self.script.depth {
            self.start_bounds();
            match self.scheduler.pick_with_cost(self.now, &mut self.script.cost()) {
                Pick::Go(request) => self.dispatch(request)?,
                Pick::WaitUntil(time) => return self.wait(time),
                Pick::Empty if self.waiting.is_empty() => {
                    self.wake = None;
                    return Ok(());
                }
                Pick::Empty => return Err(format!("answered Empty while {} wait", self.waiting.len())),
            }
        }
        Ok(())
    }

    fn wait(&mut self, time: Nanos) -> Checked {
        if self.spec.work_conserving {
            return Err(String::from("waits although it is declared work-conserving"));
        }
        if time <= self.now || time > self.now + MAX_WAIT {
            return Err(format!("at {} it waits until {time}; should be in the near future", self.now));
        }
        if self.waiting.is_empty() {
            return Err(String::from("waits although nothing is queued; should answer Empty"));
        }
        self.wake = Some(time);
        Ok(())
    }

    fn dispatch(&mut self, request: Request) -> Checked {
        self.idle_waits = 0;
        let waiting = self.waiting.remove(&request.id).ok_or(format!("{request:?} was picked but does not wait"))?;
        if waiting.request != request {
            return Err(format!("{request:?} was picked; {:?} waits", waiting.request));
        }
        tiles(&request, waiting.parts.clone())?;
        for other in self.waiting.values_mut() {
            if let Some(left) = &mut other.others_left {
                *left = left.checked_sub(1).ok_or(format!("{:?} starves in spite of its starvation bound", other.request))?;
            }
        }
        self.parts_served += waiting.parts.len() as u64;
        self.free_ids.extend(waiting.parts.iter().map(|part| part.id).filter(|&id| id != request.id));
        let number = self.served.len();
        let service = self.script.service_us[number % self.script.service_us.len()];
        self.at_device.insert((self.now + Nanos::from_micros(service), number as u64), (request, true));
        self.served.push((self.now, request));
        Ok(())
    }

    /// Starts the starvation bound of requests that have waited long enough.
    fn start_bounds(&mut self) {
        let Some(StarvationBound { expires, picks }) = self.starvation_bound else { return };
        let mut orders: Vec<u64> = self.waiting.values().map(|waiting| waiting.order).collect();
        orders.sort_unstable();
        for waiting in self.waiting.values_mut() {
            if waiting.others_left.is_none() && self.now >= waiting.request.arrival + expires {
                let older = orders.partition_point(|&order| order < waiting.order) as u64;
                waiting.others_left = Some(picks.saturating_mul(older + 1));
            }
        }
    }

    /// Sets other values, or switches to the successor.
    fn change(&mut self, successor: Option<&'static SchedulerSpec>) -> Checked {
        self.wake = None;
        let Some(spec) = successor else {
            // Queued requests keep the deadlines of the old values.
            self.starvation_bound = None;
            self.scheduler.retune(&self.script.later_values(self.spec));
            return self.fill_device();
        };
        let values = self.script.values(spec);
        let mut next = Recorder { inner: (spec.build)(&self.script.limits, &values), given: Vec::new() };
        let mut merges = Vec::new();
        switch(&mut *self.scheduler, &mut next, self.now, |request, insertion| merges.push((request.id, insertion)));
        let mut handed_over: Vec<&Waiting> = self.waiting.values().collect();
        handed_over.sort_by_key(|waiting| waiting.order);
        if !handed_over.iter().map(|waiting| &waiting.request).eq(&next.given) {
            return Err(format!("{:?} were handed over; should be all queued requests in order of arrival", next.given));
        }
        if self.scheduler.pick(self.now) != Pick::Empty || self.scheduler.pick_with_cost(self.now, &mut |_| None) != Pick::Empty {
            return Err(String::from("something still waits after drain"));
        }
        for (id, insertion) in merges {
            self.follow(id, insertion)?;
        }
        (self.spec, self.scheduler, self.starvation_bound) =
            (spec, next.inner, spec.starvation_bound.map(|starvation_bound| starvation_bound(&values)));
        self.waiting.values_mut().for_each(|waiting| waiting.others_left = None);
        self.at_device.values_mut().for_each(|(_, picked_by_current)| *picked_by_current = false);
        self.fill_device()
    }
}

/// A successor that records the requests handed over to it.
struct Recorder {
    inner: Box<dyn Scheduler>,
    given: Vec<Request>,
}

impl Scheduler for Recorder {
    fn insert(&mut self, now: Nanos, request: Request) -> Insertion {
        self.given.push(request);
        self.inner.insert(now, request)
    }

    fn pick(&mut self, now: Nanos) -> Pick {
        self.inner.pick(now)
    }

    fn retune(&mut self, values: &[i64]) {
        self.inner.retune(values);
    }

    fn drain(&mut self, out: &mut Vec<Request>) {
        self.inner.drain(out);
    }
}

/// Checks that the parts cover `request` exactly, each sector once.
fn tiles(request: &Request, mut parts: Vec<Request>) -> Checked {
    parts.sort_by_key(|part| part.lba);
    let mut reached = u128::from(request.lba);
    for part in &parts {
        if u128::from(part.lba) != reached {
            return Err(format!("{parts:?} should cover {request:?} without gap or overlap"));
        }
        reached += u128::from(part.sectors);
    }
    if reached != u128::from(request.lba) + u128::from(request.sectors) {
        return Err(format!("{parts:?} should cover {request:?} to its end"));
    }
    Ok(())
}
