//! Measures the service of a guaranteed unit: late requests, and rates over the time in which it has requests.

use std::collections::VecDeque;

use block::{Nanos, Request};
use observe::Event;
use observe::outstanding::Outstanding;
use statistics::count::{at_least, bearable_mean};

use super::admission::{AdmissionTrial, DEVICE_TIME, REFERENCE};
use super::reference::Shadow;
use super::{KINDS, Promise, RATES};

/// Fraction of requests that may be late under a p99.
pub(super) const LATE: f64 = 0.01;
/// Rate in requests per second from which one request may be late under a p99; below it, none may.
pub(super) const FEW: f64 = 20.0;
/// Margin of the mean rate above the guaranteed one in standard deviations, so that 97% of seconds keep it: 1.9, and half as much again
/// because the steps of a second are correlated if the device or the page cache writes in bursts.
const RATE_MARGIN: f64 = 2.8;
/// Minimum relative margin, for bursts that are rarer than a span.
const RATE_RESERVE: f64 = 0.05;
/// Significance level for more late requests than tolerable. It is tested at every step, so limits end up below the level that is just
/// tolerable.
const CHANCE: f64 = 0.1;
/// Fraction of seconds that may break the guarantee: well below the 5% that are allowed, as seconds during the search for limits also
/// count. With 3%, 8 of 20 random cases kept the guarantee, with 1.5% 12.
const BROKEN: f64 = 0.015;
/// Limits may be raised if the probability of no more late requests than observed is below this.
const ROOM: f64 = 0.3;
/// Fraction of the tolerable late requests at which a cut aims.
const AIM: f64 = 0.5;
/// There is also room if at least this number of requests all took less than this fraction of the limit.
const FAR: (f64, f64) = (100.0, 0.6);

/// A kind of requests with a guaranteed p99.
#[derive(Clone, Debug)]
struct LatencyTarget {
    name: &'static str,
    limit: Nanos,
    /// Arrivals of outstanding requests, in order.
    pending: VecDeque<Nanos>,
}

impl LatencyTarget {
    /// Removes a request that has completed.
    fn remove(&mut self, arrival: Nanos) {
        let place = self.pending.partition_point(|other| *other < arrival);
        if self.pending.get(place) == Some(&arrival) {
            self.pending.remove(place);
        }
    }

    /// Number of outstanding requests that have waited beyond the limit, counted from `from` at the earliest, and so are already late.
    fn overdue(&self, now: Nanos, from: Nanos) -> usize {
        self.pending.iter().take_while(|arrival| now - from.max(**arrival) > self.limit).count()
    }
}

/// Counters of one kind over a span.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    done: f64,
    late: f64,
    /// The longest response time, relative to the limit.
    longest: f64,
}

/// Counters over a span of time.
#[derive(Clone, Debug, Default)]
struct Span {
    kinds: [Count; KINDS],
    /// Counters of requests that arrived after the limits took effect.
    fresh: [Count; KINDS],
    /// Length in seconds.
    wall: f64,
    /// Seconds with requests or calls outstanding.
    wanted: f64,
    /// Seconds with requests or flushes outstanding, in which device time is demanded; and seconds with requests outstanding.
    asked: f64,
    requested: f64,
    rates: [Done; RATES],
    /// Number of whole seconds that broke the guarantee.
    broken: f64,
}

/// Amount of a quantity with a rate.
#[derive(Clone, Copy, Debug, Default)]
struct Done {
    sum: f64,
    /// Over the steps in which it was demanded: the sum of the squares of their rates, and their number.
    squares: f64,
    slots: f64,
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
    /// Time up to which the time with requests or calls outstanding is accounted, and that with requests outstanding.
    since: Nanos,
    asked_since: Nanos,
    /// Counters since the last step.
    slot: Span,
    /// Counters since the limits took effect.
    span: Span,
    /// Counters of the steps of the last second.
    second: VecDeque<Span>,
    /// Rates without neighbours; 0 if unknown.
    alone: [f64; RATES],
    has_calls: bool,
    /// Requests that arrived before this time do not show the effect of the limits.
    fresh_from: Nanos,
    /// Number of steps until the current whole second of the span ends.
    until_second: usize,
    /// Simulates the reference disk; `None` without one.
    shadow: Option<Shadow>,
    /// Admission of the guarantee.
    pub trial: AdmissionTrial,
}

impl Count {
    fn add(&mut self, response: Nanos, limit: Nanos) {
        self.done += 1.0;
        self.late += f64::from(u8::from(response > limit));
        self.longest = self.longest.max(response.0 as f64 / limit.0.max(1) as f64);
    }
}

const READ: usize = 0;
const WRITE: usize = 1;
const FLUSH: usize = 2;
/// Number of steps per second.
const STEPS: usize = 10;

impl Watch {
    pub fn new(promise: &Promise) -> Watch {
        let kind = |name, limit: Option<Nanos>| limit.map(|limit| LatencyTarget { name, limit, pending: VecDeque::new() });
        Watch {
            promise: promise.clone(),
            kinds: [kind("reads", promise.read_p99), kind("writes", promise.write_p99), kind("flushes", promise.flush_p99)],
            least: promise.rates(),
            since: Nanos::ZERO,
            asked_since: Nanos::ZERO,
            slot: Span::default(),
            span: Span::default(),
            second: VecDeque::new(),
            alone: [0.0; RATES],
            has_calls: false,
            fresh_from: Nanos::ZERO,
            until_second: STEPS,
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

    /// Accounts for the time with these requests or calls outstanding, up to now.
    fn is_wanting(&mut self, now: Nanos, outstanding: &Outstanding) {
        if outstanding.is_any() {
            self.slot.wanted += (now - self.since).as_secs_f64();
        }
        self.since = now;
    }

    /// Accounts for requests alone, without calls.
    fn is_asking(&mut self, now: Nanos, outstanding: &Outstanding) {
        if outstanding.requests() > 0 {
            self.slot.is_asking((now - self.asked_since).as_secs_f64());
        }
        self.asked_since = now;
    }

    /// Adds device time spent on this unit.
    pub fn worked(&mut self, time: Nanos) {
        self.slot.rates[DEVICE_TIME].sum += time.as_secs_f64();
    }

    fn done(&mut self, kind: usize, arrival: Nanos, at: Nanos) {
        let Some(kept) = &self.kinds[kind] else { return };
        let limit = kept.limit;
        self.trial.responded(kind, arrival, at - arrival);
        self.slot.kinds[kind].add(at - arrival, limit);
        if arrival >= self.fresh_from {
            self.slot.fresh[kind].add(at - arrival, limit);
        }
    }

    /// Forgets the outstanding requests, which are unknown after a loss of events.
    pub fn lost(&mut self) {
        self.kinds.iter_mut().flatten().for_each(|kind| kind.pending.clear());
        self.shadow.iter_mut().for_each(Shadow::lost);
    }

    /// Adds an event of the unit. `before`: what was outstanding before it.
    pub fn event(&mut self, event: &Event, before: &Outstanding) {
        match event {
            Event::Queued(request) => {
                self.is_wanting(request.arrival, before);
                self.is_asking(request.arrival, before);
                if let Some(shadow) = &mut self.shadow {
                    shadow.queued(request);
                }
                if let Some(kind) = Self::kind_of(request).and_then(|kind| self.kinds[kind].as_mut()) {
                    kind.pending.push_back(request.arrival);
                }
            }
            Event::Completed { request, at, .. } => {
                self.is_wanting(*at, before);
                self.is_asking(*at, before);
                if let Some(shadow) = &mut self.shadow {
                    self.slot.rates[REFERENCE].sum += shadow.completed(*at).as_secs_f64();
                }
                self.slot.rates[0].sum += 1.0;
                self.slot.rates[1].sum += if request.op.transfers() { f64::from(request.sectors) * 512.0 } else { 0.0 };
                let Some(kind) = Self::kind_of(request) else { return };
                if let Some(kind) = &mut self.kinds[kind] {
                    kind.remove(request.arrival);
                }
                self.done(kind, request.arrival, *at);
            }
            Event::Flushed { asked, at, .. } => {
                if before.requests() == 0 {
                    self.slot.asked += (*at - self.asked_since.max(*asked)).as_secs_f64();
                    self.asked_since = *at;
                }
                if !self.has_calls {
                    if !before.is_any() {
                        self.slot.wanted += (*at - self.since.max(*asked)).as_secs_f64();
                        self.since = *at;
                    }
                    self.done(FLUSH, *asked, *at);
                }
            }
            Event::Called { at, .. } => {
                self.has_calls = true;
                self.is_wanting(*at, before);
                // The type of a call is known only when it returns; until then it may be an fsync, which may wait longest.
                if let Some(kind) = &mut self.kinds[FLUSH] {
                    kind.pending.push_back(*at);
                }
            }
            Event::Returned { op, bytes, called, at, .. } => {
                self.is_wanting(*at, before);
                if let Some(kind) = &mut self.kinds[FLUSH] {
                    kind.remove(*called);
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
        self.is_wanting(now, outstanding);
        self.is_asking(now, outstanding);
        let mut slot = std::mem::take(&mut self.slot);
        slot.wall = 1.0 / STEPS as f64;
        let times = slot.times();
        for (done, time) in slot.rates.iter_mut().zip(times).filter(|(_, time)| *time > 0.05) {
            (done.squares, done.slots) = ((done.sum / time).powi(2), 1.0);
        }
        self.trial.close((from, now), is_undisturbed, std::array::from_fn(|number| (times[number], slot.rates[number].sum)));
        if self.second.len() == STEPS {
            self.second.pop_front();
        }
        if is_settled {
            self.span.add(&slot);
        }
        self.second.push_back(slot);
        let second = self.last_second();
        self.until_second = self.until_second.saturating_sub(usize::from(is_settled));
        if self.until_second == 0 {
            self.until_second = STEPS;
            self.span.broken += f64::from(u8::from(self.is_broken(&second, now)));
        }
        if is_alone && second.wanted > 0.5 {
            for (alone, (done, time)) in self.alone.iter_mut().zip(second.rates.iter().zip(second.times())) {
                let now = done.sum / time.max(1e-3);
                *alone = if *alone == 0.0 { now } else { 0.8 * *alone + 0.2 * now };
            }
        }
    }

    /// Whether this second broke the guarantee, by chance or not.
    fn is_broken(&self, second: &Span, now: Nanos) -> bool {
        let overdue = |kind: &LatencyTarget| kind.overdue(now, self.fresh_from) as f64;
        let is_late = |kind: &LatencyTarget, count: &Count| count.late + overdue(kind) > allowed(count.done);
        let late = self.kinds.iter().zip(&second.fresh).any(|(kind, count)| kind.as_ref().is_some_and(|kind| is_late(kind, count)));
        let mut done = self.least.iter().zip(second.rates.iter().zip(second.times()));
        // A rate that is too low by less than one request does not count.
        let one = |done: &Done| done.sum / second.rates[0].sum.max(1.0);
        late || done.any(|(least, (done, time))| least.is_some_and(|least| done.sum + one(done) < least * time))
    }

    fn last_second(&self) -> Span {
        let mut sum = Span::default();
        self.second.iter().for_each(|slot| sum.add(slot));
        sum
    }

    /// Starts a new span, after the limits have taken effect.
    pub fn begin_span(&mut self, now: Nanos) {
        (self.span, self.fresh_from, self.until_second) = (Span::default(), now, STEPS);
    }

    /// Length of the span, in seconds.
    pub fn wall(&self) -> f64 {
        self.span.wall
    }

    /// The state of the guarantee over the current span.
    pub fn verdict(&self, now: Nanos) -> Verdict {
        self.judge(&self.span, &self.span.fresh, (now, self.fresh_from))
    }

    /// The state of the guarantee over the last second, under any limits.
    pub fn verdict_of_second(&self, now: Nanos) -> Verdict {
        let second = self.last_second();
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
        for (number, wanted) in span.times().into_iter().enumerate() {
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

impl Span {
    fn add(&mut self, other: &Span) {
        let counts = self.kinds.iter_mut().zip(&other.kinds).chain(self.fresh.iter_mut().zip(&other.fresh));
        for (count, other) in counts {
            count.done += other.done;
            count.late += other.late;
            count.longest = count.longest.max(other.longest);
        }
        self.wall += other.wall;
        self.wanted += other.wanted;
        self.asked += other.asked;
        self.requested += other.requested;
        self.broken += other.broken;
        for (done, other) in self.rates.iter_mut().zip(&other.rates) {
            done.sum += other.sum;
            done.squares += other.squares;
            done.slots += other.slots;
        }
    }

    /// Seconds in which each rate was demanded.
    fn times(&self) -> [f64; RATES] {
        [self.wanted, self.wanted, self.asked, self.requested]
    }

    fn is_asking(&mut self, seconds: f64) {
        self.asked += seconds;
        self.requested += seconds;
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
