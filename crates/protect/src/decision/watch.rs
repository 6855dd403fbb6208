//! Measures the service of a guaranteed unit: late requests, and rates over the time in which it has requests.

use std::collections::VecDeque;

use block::{Nanos, Request};
use observe::Event;
use observe::outstanding::Outstanding;
use statistics::count::{at_least, bearable_mean};

use super::admission::{AdmissionTrial, DEVICE_TIME, REFERENCE};
use super::demand::Demand;
use super::reference::Shadow;
use super::spans::{Count, Done, Span, Spans};
use super::{KINDS, Promise, RATES, STEPS};

/// Fraction of requests that may be late under a p99. Derived: 1 - 0.99, the definition of a p99.
pub(super) const LATE: f64 = 0.01;
/// Rate in requests per second from which one request may be late under a p99; below it, none may. Choice: a lower one allows one late
/// request among a few, a higher one none among many; not varied.
pub(super) const FEW: f64 = 20.0;
/// Margin of the mean rate above the guaranteed one in standard deviations, so that 97% of seconds keep it: 1.9, and half as much again
/// because the steps of a second are correlated if the device or the page cache writes in bursts. Derived: 1.5 times the normal quantile at
/// 97%, rounded.
const RATE_MARGIN: f64 = 2.8;
/// Minimum relative margin, for bursts that are rarer than a span. Choice: a larger one costs the neighbours throughput; not varied.
const RATE_RESERVE: f64 = 0.05;
/// Significance level for more late requests than tolerable. It is tested at every step, so limits end up below the level that is just
/// tolerable. Choice: a lower level notices violations later, a higher one cuts by chance; not varied.
const CHANCE: f64 = 0.1;
/// Fraction of seconds that may break the guarantee: well below the 5% that are allowed, as seconds during the search for limits also
/// count. Choice: with 3%, and with late requests that 97 instead of 99% of seconds bear, 8 of 20 random cases kept the guarantee instead
/// of 12.
const BROKEN: f64 = 0.015;
/// Limits may be raised if the probability of no more late requests than observed is below this. Choice: a higher level raises limits on
/// less evidence; three times [`CHANCE`], as a raise is small; not varied.
const ROOM: f64 = 0.3;
/// Fraction of the tolerable late requests at which a cut aims. Choice: a lower aim costs the neighbours more, a higher one needs a second
/// cut; not varied.
const AIM: f64 = 0.5;
/// There is also room if at least this number of requests all took less than this fraction of the limit. Choice: fewer requests have no
/// p99, a fraction nearer to 1 leaves no distance for a raise; not varied.
const FAR: (f64, f64) = (100.0, 0.6);

/// Arrivals of outstanding requests, in order.
#[derive(Clone, Debug, Default)]
struct Pending(VecDeque<Nanos>);

impl Pending {
    fn add(&mut self, arrival: Nanos) {
        self.0.push_back(arrival);
    }

    /// Removes a request that has completed.
    fn remove(&mut self, arrival: Nanos) {
        let place = self.0.partition_point(|other| *other < arrival);
        if self.0.get(place) == Some(&arrival) {
            self.0.remove(place);
        }
    }
}

/// A kind of requests with a guaranteed p99.
#[derive(Clone, Debug)]
struct LatencyTarget {
    name: &'static str,
    limit: Nanos,
    pending: Pending,
}

impl LatencyTarget {
    /// Number of outstanding requests that have waited beyond the limit, counted from `from` at the earliest, and so are already late.
    fn overdue(&self, now: Nanos, from: Nanos) -> usize {
        self.pending.0.iter().take_while(|arrival| now - from.max(**arrival) > self.limit).count()
    }
}

/// A guaranteed rate.
struct Rate {
    promised: f64,
    done: Done,
    /// Seconds in which it was demanded.
    wanted: f64,
    /// Rate without neighbours; 0 if unknown.
    alone: f64,
}

/// The state of the guarantee over a span.
#[derive(Clone, Debug, Default)]
pub(super) struct Verdict {
    /// Whether it is broken, beyond chance.
    pub is_broken: bool,
    /// Whether it is broken far beyond chance and the precision of limits.
    pub is_far: bool,
    /// Whether neighbours may have more, as far as a span of this length can show.
    pub has_room: bool,
    /// The larger of two ratios: the fraction of late requests to the tolerable one, and the guaranteed rate to the measured one.
    pub severity: f64,
    /// Factor on the device time of neighbours if the guarantee is broken.
    pub cut: f64,
    /// Factor on the device time of neighbours if there is room.
    pub raise: f64,
    /// Measurements, for display.
    pub about: String,
}

/// The measurements of a unit with guarantees.
#[derive(Debug)]
pub(super) struct Watch {
    promise: Promise,
    kinds: [Option<LatencyTarget>; KINDS],
    least: [Option<f64>; RATES],
    /// Outstanding requests and calls for which it waits, of all kinds.
    waits: Pending,
    demand: Demand,
    spans: Spans,
    /// Rates without neighbours; 0 if unknown.
    alone: [f64; RATES],
    /// Whether calls are observed, so that flushes are part of them.
    has_calls: bool,
    /// Simulates the reference disk; `None` without one.
    shadow: Option<Shadow>,
    /// Admission of the guarantee.
    pub trial: AdmissionTrial,
}

/// Index of reads. Derived: the order of the [`KINDS`].
const READ: usize = 0;
/// Index of synchronous writes. Derived: the order of the [`KINDS`].
const WRITE: usize = 1;
/// Index of flushes and of calls of fsync. Derived: the order of the [`KINDS`].
const FLUSH: usize = 2;

impl Watch {
    pub fn new(promise: &Promise) -> Watch {
        let kind = |name, limit: Option<Nanos>| limit.map(|limit| LatencyTarget { name, limit, pending: Pending::default() });
        Watch {
            promise: promise.clone(),
            kinds: [kind("reads", promise.read_p99), kind("writes", promise.write_p99), kind("flushes", promise.flush_p99)],
            least: promise.rates(),
            waits: Pending::default(),
            demand: Demand::default(),
            spans: Spans::new(),
            alone: [0.0; RATES],
            has_calls: false,
            shadow: promise.reference.as_ref().map(Shadow::new),
            trial: AdmissionTrial::new(promise),
        }
    }

    /// The kind of a request; `None` for write-back, which has no response time.
    fn kind_of(request: &Request) -> Option<usize> {
        match request.op.is_write() {
            false => Some(READ),
            true => request.sync.then_some(WRITE),
        }
    }

    /// Adds device time spent on this unit.
    pub fn worked(&mut self, time: Nanos) {
        self.spans.did(DEVICE_TIME, time.as_secs_f64());
    }

    fn done(&mut self, kind: usize, arrival: Nanos, at: Nanos) {
        let Some(kept) = &self.kinds[kind] else { return };
        let limit = kept.limit;
        self.trial.responded(kind, arrival, at - arrival);
        self.spans.responded(kind, arrival, at, limit);
    }

    /// Forgets the outstanding requests, which are unknown after a loss of events.
    pub fn lost(&mut self) {
        self.kinds
            .iter_mut()
            .flatten()
            .map(|kind| &mut kind.pending)
            .chain([&mut self.waits])
            .for_each(|pending| pending.0.clear());
        self.shadow.iter_mut().for_each(Shadow::lost);
    }

    /// Adds an event of the unit. `before`: the outstanding requests and calls before it.
    pub fn event(&mut self, event: &Event, before: &Outstanding) {
        match event {
            Event::Queued(request) => {
                self.demand.request(request.arrival, before);
                if let Some(shadow) = &mut self.shadow {
                    shadow.queued(request);
                }
                let Some(kind) = Self::kind_of(request) else { return };
                self.waits.add(request.arrival);
                if let Some(kind) = &mut self.kinds[kind] {
                    kind.pending.add(request.arrival);
                }
            }
            Event::Completed { request, at, .. } => {
                self.demand.request(*at, before);
                if let Some(shadow) = &mut self.shadow {
                    self.spans.did(REFERENCE, shadow.completed(*at).as_secs_f64());
                }
                self.spans.did(0, 1.0);
                self.spans.did(1, if request.op.transfers() { f64::from(request.sectors) * 512.0 } else { 0.0 });
                let Some(kind) = Self::kind_of(request) else { return };
                self.waits.remove(request.arrival);
                if let Some(kind) = &mut self.kinds[kind] {
                    kind.pending.remove(request.arrival);
                }
                self.done(kind, request.arrival, *at);
            }
            Event::Flushed { asked, at, .. } => {
                self.demand.flushed((*asked, *at), self.has_calls, before);
                if !self.has_calls {
                    self.done(FLUSH, *asked, *at);
                }
            }
            Event::Called { at, .. } => {
                self.has_calls = true;
                self.demand.call(*at, before);
                // The type of a call is known only when it returns; until then it may be an fsync, which may wait longest.
                self.waits.add(*at);
                if let Some(kind) = &mut self.kinds[FLUSH] {
                    kind.pending.add(*at);
                }
            }
            Event::Returned { op, bytes, called, at, .. } => {
                self.demand.call(*at, before);
                self.waits.remove(*called);
                if let Some(kind) = &mut self.kinds[FLUSH] {
                    kind.pending.remove(*called);
                }
                if op.is_write() && *bytes == 0 {
                    self.done(FLUSH, *called, *at);
                }
            }
        }
    }

    /// Ends a step. `is_settled`: the limits have taken effect, so the step counts for the span. `is_alone`: no neighbour was active.
    /// `is_undisturbed`: no other unit used the device.
    pub fn close(
        &mut self,
        (from, now): (Nanos, Nanos),
        outstanding: &Outstanding,
        is_settled: bool,
        is_alone: bool,
        is_undisturbed: bool,
    ) {
        let step = self.spans.end_step(self.demand.end_step(now, outstanding));
        let times = step.demanded.seconds();
        self.trial.close((from, now), is_undisturbed, std::array::from_fn(|number| (times[number], step.rates[number].sum)));
        let ends_second = self.spans.add(step, is_settled);
        let second = self.spans.last_second();
        if ends_second {
            self.spans.judged(self.is_broken(&second, now));
        }
        if is_alone && second.demanded.wanted > 0.5 {
            for (alone, (done, time)) in self.alone.iter_mut().zip(second.rates.iter().zip(second.demanded.seconds())) {
                let now = done.sum / time.max(1e-3);
                *alone = if *alone == 0.0 { now } else { 0.8 * *alone + 0.2 * now };
            }
        }
    }

    /// Whether this second broke the guarantee, by chance or not.
    fn is_broken(&self, second: &Span, now: Nanos) -> bool {
        let overdue = |kind: &LatencyTarget| kind.overdue(now, self.spans.fresh_from()) as f64;
        let is_late = |kind: &LatencyTarget, count: &Count| count.late + overdue(kind) > allowed(count.done);
        let late = self.kinds.iter().zip(&second.fresh).any(|(kind, count)| kind.as_ref().is_some_and(|kind| is_late(kind, count)));
        let mut done = self.least.iter().zip(second.rates.iter().zip(second.demanded.seconds()));
        // A rate that is too low by less than one request does not count.
        let one = |done: &Done| done.sum / second.rates[0].sum.max(1.0);
        late || done.any(|(least, (done, time))| least.is_some_and(|least| done.sum + one(done) < least * time))
    }

    /// Whether it still waits for a request or call from before this time.
    pub fn waits_since_before(&self, time: Nanos) -> bool {
        self.waits.0.front().is_some_and(|arrival| *arrival < time)
    }

    /// Starts a new span, after the limits have taken effect.
    pub fn begin_span(&mut self, now: Nanos) {
        self.spans.begin(now);
    }

    /// Length of the span, in seconds.
    pub fn wall(&self) -> f64 {
        self.spans.settled().wall
    }

    /// The state of the guarantee over the current span.
    pub fn verdict(&self, now: Nanos) -> Verdict {
        let span = self.spans.settled();
        self.judge(span, &span.fresh, (now, self.spans.fresh_from()))
    }

    /// The state of the guarantee over the last second, under any limits.
    pub fn verdict_of_second(&self, now: Nanos) -> Verdict {
        let second = self.spans.last_second();
        self.judge(&second, &second.kinds, (now, Nanos::ZERO))
    }

    fn judge(&self, span: &Span, counts: &[Count; KINDS], (now, from): (Nanos, Nanos)) -> Verdict {
        let mut verdict = Verdict { has_room: true, cut: f64::INFINITY, raise: f64::INFINITY, ..Verdict::default() };
        let seconds = span.wall.max(1e-3);
        for (kind, count) in self.kinds.iter().zip(counts) {
            if let Some(kind) = kind {
                late(kind, count, seconds, (now, from), &mut verdict);
            }
        }
        // Late requests come in groups, and rates fall for longer than a step, so broken seconds are counted separately.
        let expected = BROKEN * seconds;
        if span.broken > 0.0 && at_least(span.broken, expected) < CHANCE {
            verdict.is_broken = true;
        }
        verdict.has_room &= span.broken <= expected;
        verdict.cut = verdict.cut.min((AIM * expected + 0.5) / (span.broken + 0.5));
        for (number, wanted) in span.demanded.seconds().into_iter().enumerate() {
            if let Some(promised) = self.least[number] {
                let rate = Rate { promised, done: span.rates[number], wanted, alone: self.alone[number] };
                if let Some(mean) = rate.judge(&mut verdict) {
                    let [mean, promised] = [mean, promised].map(|rate| self.promise.rate_text(number, rate));
                    verdict.about += &format!("{mean}, {promised} are promised; ");
                }
            }
        }
        verdict
    }
}

/// Number of late requests that a p99 tolerates in a second with this many requests.
fn allowed(requests: f64) -> f64 {
    if requests < FEW { 0.0 } else { (LATE * requests).floor().max(1.0) }
}

fn late(kind: &LatencyTarget, count: &Count, seconds: f64, (now, from): (Nanos, Nanos), verdict: &mut Verdict) {
    let overdue = kind.overdue(now, from) as f64;
    let oldest = kind
        .pending
        .0
        .iter()
        .find(|arrival| **arrival >= from)
        .map_or(0.0, |arrival| (now - from.max(*arrival)).0 as f64 / kind.limit.0.max(1) as f64);
    let (late, longest) = (count.late + overdue, count.longest.max(oldest));
    let rate = count.done / seconds;
    // Mean number of late requests per second with which nearly all seconds keep the guarantee.
    let bearable = bearable_mean(allowed(rate));
    let expected = bearable * seconds;
    verdict.severity = verdict.severity.max(late / (count.done + overdue).max(1.0) / LATE);
    // The guarantee is per second: one late request at the start of a span proves little.
    let chance = at_least(late, bearable * seconds.max(1.0));
    if late > 0.0 && chance < CHANCE {
        verdict.is_broken = true;
        verdict.is_far |= chance < 1e-6 && late > 5.0 * expected;
    }
    let is_far_below = count.done >= FAR.0 && longest < FAR.1;
    verdict.has_room &= is_far_below || 1.0 - at_least(late + 1.0, expected) < ROOM;
    // Without late requests, the longest response time shows the distance to the limit.
    let raise = if late > 0.0 { (expected + 0.5) / (late + 0.5) } else { (1.0 / longest.max(0.1)).powi(2).clamp(1.2, 4.0) };
    verdict.cut = verdict.cut.min((AIM * expected + 0.5) / (late + 0.5));
    verdict.raise = verdict.raise.min(raise);
    verdict.about += &format!(
        "{} of {} {} in {seconds:.1} s took over {} ms; ",
        late,
        count.done + overdue,
        kind.name,
        kind.limit.as_millis_f64()
    );
}

impl Rate {
    /// Judges the rate, and returns the measured one; `None` if it was demanded for too short a time.
    fn judge(&self, verdict: &mut Verdict) -> Option<f64> {
        let Rate { promised, done, wanted, alone } = *self;
        if wanted < 0.05 {
            verdict.has_room = false;
            return None;
        }
        let mean = done.sum / wanted;
        verdict.severity = verdict.severity.max(promised / mean.max(LATE * promised));
        let variance = if done.slots >= 3.0 { (done.squares / done.slots - mean * mean).max(0.0) } else { (0.3 * mean).powi(2) };
        // Standard deviations of the mean over a second of ten steps, and over the span.
        let of_second = (variance / STEPS as f64).sqrt();
        let of_span = (variance / done.slots.max(1.0)).sqrt();
        let target = promised * (1.0 + (RATE_MARGIN * of_second / promised.max(1e-9)).clamp(RATE_RESERVE, 0.2));
        if mean + 1.5 * of_span < target && mean < 1.02 * promised.max(target) {
            verdict.is_broken |= mean + of_span < promised || wanted > 1.0;
            verdict.is_far |= mean < 0.6 * promised && wanted > 0.2;
        }
        verdict.has_room &= mean > target;
        let alone = if alone > 1.02 * target { alone } else { 1.4 * target };
        let factor = ((alone - target) / (alone - mean).max(0.02 * alone)).clamp(0.0, 4.0);
        (verdict.cut, verdict.raise) = (verdict.cut.min(factor), verdict.raise.min(factor));
        Some(mean)
    }
}
