//! A host in virtual time that keeps a ledger of what a scheduler was given, and compares.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use super::script::Script;
use crate::{Insertion, Merges, Nanos, Pick, Request, RequestId, Scheduler, SchedulerSpec, StarvationBound, switch};

/// With nothing at the device, a scheduler may put its host off so often in a row.
const PUT_OFF_MAX: u32 = 64;
/// A wait this long is one for ever.
const LONG: Nanos = Nanos::from_millis(60_000);

type Checked = Result<(), String>;

/// What should be waiting in the scheduler.
struct Waiting {
    /// As it should be picked.
    request: Request,
    /// When it came, counted in arrivals; of merged requests the earliest.
    order: u64,
    parts: Vec<Request>,
    /// Once its patience is at its end: how many more may leave before it.
    others_left: Option<u64>,
}

/// Plays a script to a scheduler.
pub(super) struct Host<'a> {
    spec: &'static SchedulerSpec,
    scheduler: Box<dyn Scheduler>,
    patience: Option<StarvationBound>,
    script: &'a Script,
    now: Nanos,
    waiting: BTreeMap<RequestId, Waiting>,
    /// By the time it is done and the order of dispatch; whether the present scheduler picked it.
    at_device: BTreeMap<(Nanos, u64), (Request, bool)>,
    free_ids: Vec<RequestId>,
    wake: Option<Nanos>,
    put_off: u32,
    arrived: u64,
    parts_served: u64,
    served: Vec<(Nanos, Request)>,
}

impl<'a> Host<'a> {
    /// Plays `script` with these values; in the middle, `successor` takes over. Says what left when.
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
            patience: spec.patience.map(|patience| patience(values)),
            script,
            now: Nanos::ZERO,
            waiting: BTreeMap::new(),
            at_device: BTreeMap::new(),
            // The last number freed is used first: numbers come again as soon as they may.
            free_ids: (0..ids).rev().collect(),
            wake: None,
            put_off: 0,
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
            let id = self.free_ids.pop().ok_or("the kit ran out of numbers")?;
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
            return Err(format!("{} requests came and {} were served", self.arrived, self.parts_served));
        }
        Ok(())
    }

    /// Lets completions and wake-ups happen up to `end`.
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
                        self.put_off += 1;
                    }
                }
            }
            self.fill_device()?;
        }
    }

    fn insert(&mut self, request: Request) -> Checked {
        self.put_off = 0;
        self.waiting.insert(request.id, Waiting { request, order: self.arrived, parts: vec![request], others_left: None });
        self.arrived += 1;
        let insertion = self.scheduler.insert(self.now, request);
        self.follow(request.id, insertion)
    }

    /// Does in the ledger what the scheduler says it did.
    fn follow(&mut self, id: RequestId, insertion: Insertion) -> Checked {
        let Insertion::Merged { into, absorbed } = insertion else { return Ok(()) };
        if into == id {
            return Err(format!("request {id} cannot merge into itself"));
        }
        self.join(into, id)?;
        absorbed.map_or(Ok(()), |absorbed| self.join(into, absorbed))
    }

    /// `part` becomes part of `into`.
    fn join(&mut self, into: RequestId, part: RequestId) -> Checked {
        let part = self.waiting.remove(&part).ok_or(format!("{part} was merged but does not wait"))?;
        let whole = self.waiting.get_mut(&into).ok_or(format!("something was merged into {into}, which does not wait"))?;
        if self.script.limits.merges == Merges::Never {
            return Err(format!("{part:?} was merged, though nothing may be", part = part.request));
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
        self.put_off = 0;
        let Some((request, ours)) = self.at_device.remove(&key) else { return };
        if ours {
            let service = self.now - self.served[key.1 as usize].0;
            self.scheduler.completed(self.now, &request, service);
        }
        self.free_ids.push(request.id);
    }

    fn fill_device(&mut self) -> Checked {
        if self.put_off > PUT_OFF_MAX {
            return Err(format!("with the device idle the host was put off {PUT_OFF_MAX} times in a row"));
        }
        while self.at_device.len() < self.script.depth {
            self.end_patience();
            match self.scheduler.pick_with_cost(self.now, &mut self.script.cost()) {
                Pick::Go(request) => self.dispatch(request)?,
                Pick::WaitUntil(time) => return self.wait(time),
                Pick::Empty if self.waiting.is_empty() => {
                    self.wake = None;
                    return Ok(());
                }
                Pick::Empty => return Err(format!("said Empty while {} wait", self.waiting.len())),
            }
        }
        Ok(())
    }

    fn wait(&mut self, time: Nanos) -> Checked {
        if self.spec.work_conserving {
            return Err(String::from("waits although it is declared work-conserving"));
        }
        if time <= self.now || time > self.now + LONG {
            return Err(format!("at {} it waits until {time}; only the near future would be right", self.now));
        }
        if self.waiting.is_empty() {
            return Err(String::from("waits although nothing is queued; Empty would be right"));
        }
        self.wake = Some(time);
        Ok(())
    }

    fn dispatch(&mut self, request: Request) -> Checked {
        self.put_off = 0;
        let waiting = self.waiting.remove(&request.id).ok_or(format!("{request:?} was picked but does not wait"))?;
        if waiting.request != request {
            return Err(format!("{request:?} was picked; {:?} waits", waiting.request));
        }
        tiles(&request, waiting.parts.clone())?;
        for other in self.waiting.values_mut() {
            if let Some(left) = &mut other.others_left {
                *left = left.checked_sub(1).ok_or(format!("{:?} starves in spite of the promise", other.request))?;
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

    /// Notes for whom the promise against starvation has begun.
    fn end_patience(&mut self) {
        let Some(StarvationBound { expires, picks }) = self.patience else { return };
        let mut orders: Vec<u64> = self.waiting.values().map(|waiting| waiting.order).collect();
        orders.sort_unstable();
        for waiting in self.waiting.values_mut() {
            if waiting.others_left.is_none() && self.now >= waiting.request.arrival + expires {
                let older = orders.partition_point(|&order| order < waiting.order) as u64;
                waiting.others_left = Some(picks.saturating_mul(older + 1));
            }
        }
    }

    /// Sets new values, or lets the successor take over.
    fn change(&mut self, successor: Option<&'static SchedulerSpec>) -> Checked {
        self.wake = None;
        let Some(spec) = successor else {
            // The times already noted in the queue are those of the old values.
            self.patience = None;
            self.scheduler.retune(&self.script.later_values(self.spec));
            return self.fill_device();
        };
        let values = self.script.values(spec);
        let mut next = Newcomer { inner: (spec.build)(&self.script.limits, &values), given: Vec::new() };
        let mut merges = Vec::new();
        switch(&mut *self.scheduler, &mut next, self.now, |request, insertion| merges.push((request.id, insertion)));
        let mut handed_over: Vec<&Waiting> = self.waiting.values().collect();
        handed_over.sort_by_key(|waiting| waiting.order);
        if !handed_over.iter().map(|waiting| &waiting.request).eq(&next.given) {
            return Err(format!("{:?} were handed over, not all that wait in the order of arrival", next.given));
        }
        if self.scheduler.pick(self.now) != Pick::Empty || self.scheduler.pick_with_cost(self.now, &mut |_| None) != Pick::Empty {
            return Err(String::from("something still waits after drain"));
        }
        for (id, insertion) in merges {
            self.follow(id, insertion)?;
        }
        (self.spec, self.scheduler, self.patience) = (spec, next.inner, spec.patience.map(|patience| patience(&values)));
        self.waiting.values_mut().for_each(|waiting| waiting.others_left = None);
        self.at_device.values_mut().for_each(|(_, ours)| *ours = false);
        self.fill_device()
    }
}

/// A scheduler that takes over, and a list of what it was given.
struct Newcomer {
    inner: Box<dyn Scheduler>,
    given: Vec<Request>,
}

impl Scheduler for Newcomer {
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

/// The parts cover `request` exactly, each sector once.
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
