//! The per-request scheduler: the request with the shortest expected response time goes first.
//!
//! The paper's third scheme ("Self-Learning Disk Scheduling", section 3.3.3): a model of response times is learned, and whatever it
//! expects to be done soonest is sent. Beyond the paper:
//!
//! * the model knows where the platter stands ([`positioning`]), so that on a disk without a queue of its own requests are served in
//!   the order in which they pass under the head;
//! * what a stream will ask for next counts as well ([`streams`]): the device is kept for it for a moment if that should be done sooner than
//!   what waits; a stream that goes on in order has turns;
//! * what nobody waits for stands back for a bounded time, unless it does more in its time;
//! * no request starves: one in `batch` picks goes to the oldest that has expired, which the paper lacks and admits.
//!
//! The knowledge outlives the scheduler: [`Shared`] is handed to the next one when the scheduler is switched away and back.

mod positioning;
mod rotation;
mod streams;

use std::sync::{Arc, Mutex, PoisonError};

use block::queue::{Merging, Queue, Slot};
use block::sched::COMPLETION_BACKSTOP;
use block::{
    Insertion, Knowledge, Limits, Nanos, Op, Patience, Pick, Request, RequestId, Scheduler, SchedulerSpec, StreamId, Tunable, Unit,
    tunables,
};

use positioning::Positioning;
use positioning::{Anchor, Foreseen};
use streams::Streams;

/// Learns response times and goes by them.
pub static SPEC: SchedulerSpec = SchedulerSpec {
    name: "per-request",
    summary: "learns how long requests take, where the platter stands and who comes back; what is done soonest goes first",
    source: "Zhang and Bhargava, Self-Learning Disk Scheduling, 3.3.3; positions as in Lumb and others, FAST 2002; waiting as in Iyer and Druschel, SOSP 2001",
    tunables: Tuning::TUNABLES,
    work_conserving: false,
    patience: Some(patience),
    knowledge: Some(|| Box::new(Shared::default())),
    build: |limits, values| Shared::default().scheduler(limits, values),
};

tunables! {
    /// What can be set.
    struct Tuning {
        /// A request that somebody waits for has expired after this time, one of a stream in order after four times as long.
        sync_expire: Nanos = Tunable::new(Unit::Milliseconds, 1..=60_000, 500).logarithmic(),
        /// A request that nobody waits for has expired after this time.
        async_expire: Nanos = Tunable::new(Unit::Milliseconds, 1..=300_000, 5_000).logarithmic(),
        /// Of so many picks one goes to the oldest request that has expired.
        batch: u64 = Tunable::new(Unit::Count, 1..=1_024, 16).logarithmic(),
        /// Requests that nobody waits for go after a pause of this length of those that somebody waits for, or in their turn.
        async_delay: Nanos = Tunable::new(Unit::Milliseconds, 0..=1_000, 2),
        /// Who is served goes on to be served for this long while others' requests have expired.
        turn: Nanos = Tunable::new(Unit::Milliseconds, 1..=10_000, 100).logarithmic(),
        /// The device is left alone for at most this long, for a process that should be back at once. 0 never waits.
        longest_wait: Nanos = Tunable::new(Unit::Milliseconds, 0..=100, 8),
    }
}

fn patience(values: &[i64]) -> Patience {
    let tuning = Tuning::of(values);
    // Synchronous and asynchronous requests take turns at being the expired one, and each other pick may begin a turn.
    Patience {
        expires: tuning.async_expire.max(Nanos(IN_ORDER * tuning.sync_expire.0)),
        picks: 2 * tuning.batch * (1 + TURN_PICKS),
    }
}

const ASYNC: usize = 0;
const SYNC: usize = 1;
/// Of those that somebody waits for, those of streams that ask for little: they get it at once.
const PROMPT: usize = 2;
/// Requests of streams that go on in order, as far as is known, expire after so many times as long: each time they get a whole turn.
const IN_ORDER: u64 = 4;
/// Requests of a kind that are looked at for each pick: the oldest ones, and the nearest on either side.
const LOOKED_AT: usize = 48;
/// Anchors that are kept, by the request's number; a power of two.
const ANCHORS: usize = 1_024;
/// Requests of a turn while others have expired, however short they are.
const TURN_PICKS: u64 = 256;
/// Whoever goes on in order is expected to go on for so many requests.
const RUN: f64 = 16.0;
/// So many requests that have expired go between two turns.
const ROUND: u64 = 8;
/// While others are waited for, requests that nobody waits for have a turn after so many turns' time.
const SYNC_SHARE: u64 = 4;
/// Unless they are so many times as large.
const BULK: f64 = 2.0;
/// Large ones that nobody waits for have another turn after this part of a turn.
const BULK_SHARE: u64 = 4;

/// What is known of a device, for all schedulers that follow each other on it.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Known>>);

/// What is known of a device, and of those who use it.
#[derive(Default)]
struct Known {
    positioning: Positioning,
    streams: Streams,
}

impl Knowledge for Shared {
    fn learn(&mut self, request: &Request, dispatched: Nanos, at: Nanos) {
        self.with(|known| {
            known.positioning.watch(request, dispatched, at);
            known.streams.done(request, dispatched, at);
        });
    }

    fn scheduler(&self, limits: &Limits, values: &[i64]) -> Box<dyn Scheduler> {
        Box::new(PerRequest::new(limits, values, self.clone()))
    }
}

impl Shared {
    fn with<T>(&self, look: impl FnOnce(&mut Known) -> T) -> T {
        // Whatever panicked elsewhere, what was learned is still as good as before.
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Tuning {
    /// After what time a request of this kind has expired.
    fn expire(&self, kind: usize) -> Nanos {
        if kind == SYNC { self.sync_expire } else { self.async_expire }
    }
}

#[derive(Clone, Copy)]
struct Remembered {
    id: RequestId,
    end: u64,
    generation: u32,
    anchor: Anchor,
}

/// Who is served, and waited for.
#[derive(Clone, Copy)]
struct Turn {
    /// Of the synchronous request that left last; `None`: asynchronous requests have their turn.
    stream: Option<StreamId>,
    began: Nanos,
    picks: u64,
    /// Its requests at the device.
    at_device: u32,
    /// When the last of them was done.
    idle_since: Nanos,
    /// Where its last request ended, and whether that went on where the one before ended.
    end: u64,
    is_running: bool,
    /// It goes on where it ended, as far as is known, and that takes less than to go to another stream.
    is_local: bool,
    /// It was waited for in vain.
    is_over: bool,
}

struct PerRequest {
    tuning: Tuning,
    queue: Queue,
    shared: Shared,
    anchors: Vec<Remembered>,
    turn: Option<Turn>,
    /// Where the last request that left ends, whose it was and which way it went.
    head: u64,
    last_sent: Option<(StreamId, Op)>,
    /// Requests at the device, and of one that is there alone what was foreseen.
    at_device: u32,
    sync_at_device: u32,
    /// By kind, how large they are, lately.
    sectors: [f64; 2],
    /// When the last request was done that somebody waited for.
    sync_done: Nanos,
    /// Before this those that nobody waits for have no other turn.
    next_async_turn: Nanos,
    alone: Option<(RequestId, Foreseen)>,
    since_expired: u64,
    /// Requests that have expired and may go before the next turn.
    round: u64,
    /// The kind whose oldest went last because it had expired.
    expired_kind: usize,
}

/// A request that may go next.
struct Candidate {
    slot: Slot,
    is_prompt: bool,
    foreseen: Foreseen,
    cost_ns: f64,
}

impl PerRequest {
    fn new(limits: &Limits, values: &[i64], shared: Shared) -> PerRequest {
        let nothing = Remembered { id: 0, end: u64::MAX, generation: 0, anchor: None };
        PerRequest {
            tuning: Tuning::of(values),
            queue: Queue::new(*limits, Merging { front: true, within_stream: true }),
            shared,
            anchors: vec![nothing; ANCHORS],
            turn: None,
            head: 0,
            last_sent: None,
            at_device: 0,
            sync_at_device: 0,
            sectors: [0.0; 2],
            sync_done: Nanos::ZERO,
            next_async_turn: Nanos::ZERO,
            alone: None,
            since_expired: 0,
            round: 0,
            expired_kind: ASYNC,
        }
    }

    /// Something waits that somebody waits for.
    fn sync_waits(&self) -> bool {
        self.queue.oldest(SYNC).is_some() || self.queue.oldest(PROMPT).is_some()
    }

    /// The oldest request that has expired, of either kind in turn.
    fn expired(&self, now: Nanos) -> Option<(usize, Slot)> {
        [1 - self.expired_kind, self.expired_kind].into_iter().find_map(|kind| {
            let slot = self.queue.oldest(kind)?;
            let from = if kind == ASYNC { self.async_expires(slot).max(self.next_async_turn) } else { self.queue.expires(slot) };
            (from <= now).then_some((kind, slot))
        })
    }

    /// The request of a kind that should be done soonest.
    fn soonest(&mut self, now: Nanos, kind: usize) -> Option<Candidate> {
        let PerRequest { queue, shared, anchors, head, last_sent, .. } = self;
        shared.with(|known| {
            let mut best: Option<Candidate> = None;
            let mut consider = |slot: Slot| {
                let (foreseen, cost_ns) = known.foresee(now, *head, *last_sent, queue.request(slot), anchors);
                if best.as_ref().is_none_or(|best| cost_ns < best.cost_ns) {
                    best = Some(Candidate { slot, is_prompt: kind == PROMPT, foreseen, cost_ns });
                }
            };
            let mut oldest = queue.oldest(kind);
            for _ in 0..LOOKED_AT {
                let Some(slot) = oldest else { break };
                consider(slot);
                oldest = queue.newer(slot);
            }
            // With more than that waiting, the nearest ones are worth a look, whenever they came.
            if oldest.is_some()
                && let Some(slot) = queue.nearest(kind, *head, u64::MAX, 1)
            {
                consider(slot);
                let mut place = queue.place(slot);
                for _ in 0..LOOKED_AT / 2 {
                    place.sequence += 1;
                    let Some(slot) = queue.from(kind, place) else { break };
                    consider(slot);
                    place = queue.place(slot);
                }
            }
            best
        })
    }

    /// A candidate, whatever it costs.
    fn candidate(&mut self, now: Nanos, slot: Slot) -> Candidate {
        let PerRequest { queue, shared, anchors, head, last_sent, .. } = self;
        let (foreseen, cost_ns) = shared.with(|known| known.foresee(now, *head, *last_sent, queue.request(slot), anchors));
        Candidate { slot, is_prompt: false, foreseen, cost_ns }
    }

    /// What the device is given where it holds others already and finds the order itself: the oldest that somebody waits for.
    fn oldest(&mut self, now: Nanos) -> Option<Candidate> {
        let goes_on = self.queue.nearest(SYNC, self.head, 0, 1).filter(|&slot| {
            let stream = self.queue.request(slot).stream;
            self.turn.is_some_and(|turn| turn.stream == Some(stream)) && self.shared.with(|known| known.streams.is_local(stream))
        });
        let slot = goes_on.or_else(|| self.queue.oldest(SYNC))?;
        Some(self.candidate(now, slot))
    }

    /// When what nobody waits for may go, as far as can be said now: after a pause of those that somebody waits for, or in its turn.
    fn async_from(&self, now: Nanos) -> Option<Nanos> {
        let oldest = self.queue.oldest(ASYNC)?;
        let in_turn = self.async_expires(oldest).max(self.next_async_turn);
        let in_pause = self.sync_done + self.tuning.async_delay;
        let is_busy = self.sync_at_device > 0 || self.sync_waits();
        Some(if self.is_async_turn(now) {
            now
        } else if is_busy {
            in_turn
        } else {
            in_turn.min(in_pause)
        })
    }

    /// Large ones do more in their time than those that somebody waits for, and are not held back.
    fn async_expires(&self, slot: Slot) -> Nanos {
        if self.is_bulk() { self.queue.request(slot).arrival + self.tuning.async_delay } else { self.queue.expires(slot) }
    }

    fn is_bulk(&self) -> bool {
        self.sectors[ASYNC] > BULK * self.sectors[SYNC]
    }

    /// Requests that nobody waits for have their turn.
    fn is_async_turn(&self, now: Nanos) -> bool {
        self.turn.is_some_and(|turn| turn.stream.is_none()) && self.turn_goes_on(now)
    }

    /// Whether the turn goes on although others have expired.
    fn turn_goes_on(&self, now: Nanos) -> bool {
        self.turn
            .is_some_and(|turn| turn.is_local && !turn.is_over && turn.picks < TURN_PICKS && now < turn.began + self.tuning.turn)
    }

    /// Until when to leave the device alone, because whoever was served last should be back with something that is done sooner
    /// than this candidate.
    fn wait_until(&mut self, now: Nanos, best: &Candidate) -> Option<Nanos> {
        let turn = self.turn?;
        let stream = turn.stream.filter(|_| !turn.is_over && self.tuning.longest_wait > Nanos::ZERO)?;
        let request = self.queue.request(best.slot);
        if request.is_sync() && request.stream == stream {
            return None;
        }
        let at_device = self.at_device;
        // A device that takes several at once serves them better together, if they lie apart.
        if at_device > 0 && !turn.is_running {
            return None;
        }
        let wait_ns = self.shared.with(|known| {
            // With others at the device, what is foreseen of one alone says little.
            let of_others = known.streams.switching_ns().filter(|_| at_device > 0);
            known.streams.wait_ns(stream, of_others.unwrap_or(best.cost_ns))
        });
        if wait_ns == 0.0 {
            return None;
        }
        if turn.at_device > 0 {
            return Some(now + COMPLETION_BACKSTOP);
        }
        let until = turn.idle_since + Nanos(wait_ns as u64).min(self.tuning.longest_wait);
        if until > now {
            return Some(until);
        }
        if let Some(turn) = &mut self.turn {
            turn.is_over = true;
        }
        self.shared.with(|known| known.streams.stayed_away(stream));
        None
    }

    fn send(&mut self, now: Nanos, candidate: Candidate) -> Pick {
        let request = self.queue.take(candidate.slot);
        self.head = request.end();
        self.last_sent = Some((request.stream, request.op));
        self.alone = (self.at_device == 0).then_some((request.id, candidate.foreseen));
        self.at_device += 1;
        let stream = request.is_sync().then_some(request.stream);
        self.sync_at_device += u32::from(stream.is_some());
        if candidate.is_prompt {
            // Whoever has the turn keeps it.
            return Pick::Go(request);
        }
        let (is_local, is_next) =
            self.shared.with(|known| (stream.is_none_or(|stream| known.streams.is_local(stream)), known.streams.is_next(&request)));
        let others_wait = self.sync_at_device > 0 || self.sync_waits();
        let rest = if self.is_bulk() { Nanos(self.tuning.turn.0 / BULK_SHARE) } else { Nanos(SYNC_SHARE * self.tuning.turn.0) };
        let turn = match &mut self.turn {
            Some(turn) if turn.stream == stream => turn,
            turn => turn.insert(Turn {
                stream,
                began: now,
                picks: 0,
                at_device: 0,
                idle_since: now,
                end: 0,
                is_running: false,
                is_local,
                is_over: false,
            }),
        };
        turn.picks += 1;
        turn.at_device += 1;
        let sectors = &mut self.sectors[usize::from(stream.is_some())];
        *sectors += (f64::from(request.sectors) - *sectors) / 32.0;
        if stream.is_none() && others_wait {
            // Of the time in which both wait, those that somebody waits for get the larger part.
            self.next_async_turn = now + rest;
        }
        turn.is_running = is_next || request.lba == turn.end;
        turn.end = request.end();
        (turn.is_local, turn.is_over) = (is_local, false);
        Pick::Go(request)
    }
}

impl Known {
    /// What is foreseen of a request that is sent now, and what it costs.
    #[inline]
    fn foresee(
        &self,
        now: Nanos,
        head: u64,
        last_sent: Option<(StreamId, Op)>,
        request: &Request,
        anchors: &mut [Remembered],
    ) -> (Foreseen, f64) {
        let anchor = remembered(anchors, &self.positioning, request);
        let (foreseen, cost_ns) = self.positioning.foresee(now, (head, last_sent.map_or(Op::Read, |(_, op)| op)), request, anchor);
        // What goes on where its stream ended was read ahead by the device, or passes the head anyway.
        let goes_on = request.is_sync() && self.streams.is_next(request);
        let cost_ns = if !goes_on {
            let turning_ns = match last_sent {
                Some((stream, op)) if op != request.op => self.streams.turning_ns(request, stream),
                _ => 0.0,
            };
            turning_ns + self.streams.memory_ns(request.stream).filter(|_| request.is_sync()).unwrap_or(cost_ns)
        } else if last_sent.is_some_and(|(stream, _)| stream == request.stream) {
            // Whoever goes elsewhere now must come back for it.
            let running_ns = self.streams.running_ns(request.stream);
            running_ns - (self.streams.switching_ns().unwrap_or(cost_ns) - running_ns).max(0.0)
        } else {
            // Going there is the first step of a run, all of which is quick.
            let switching_ns = self.streams.switching_ns().unwrap_or(cost_ns);
            let staying_ns =
                self.streams.staying_ns(request.stream).map_or(switching_ns, |staying_ns| staying_ns.min(switching_ns));
            staying_ns + (switching_ns - staying_ns) / RUN
        };
        (foreseen, cost_ns)
    }
}

/// The anchor of a request, looked up once as long as nothing new is known.
fn remembered(anchors: &mut [Remembered], positioning: &Positioning, request: &Request) -> Anchor {
    let (id, end, generation) = (request.id, request.end(), positioning.generation());
    let place = &mut anchors[id as usize % ANCHORS];
    if place.id != id || place.end != end || place.generation != generation {
        *place = Remembered { id, end, generation, anchor: positioning.anchor(end) };
    }
    place.anchor
}

impl Scheduler for PerRequest {
    fn insert(&mut self, _now: Nanos, request: Request) -> Insertion {
        let kind = usize::from(request.is_sync());
        let (is_prompt, may_go_on) = self.shared.with(|known| {
            let streams = &known.streams;
            (streams.asks_for_little(request.stream, request.arrival), streams.may_go_on(request.stream))
        });
        let lane = if request.is_sync() && is_prompt { PROMPT } else { kind };
        let times = if request.is_sync() && may_go_on { IN_ORDER } else { 1 };
        self.queue.insert(lane, request.arrival + Nanos(times * self.tuning.expire(kind).0), request).into()
    }

    fn pick(&mut self, now: Nanos) -> Pick {
        if self.queue.is_empty() {
            return Pick::Empty;
        }
        if self.shared.with(|known| known.streams.nothing_seeks()) {
            // No order is better than that of arrival.
            let oldest = [SYNC, PROMPT, ASYNC].into_iter().filter_map(|kind| self.queue.oldest(kind));
            let Some(slot) = oldest.min_by_key(|&slot| self.queue.request(slot).arrival) else { return Pick::Empty };
            let candidate = self.candidate(now, slot);
            return self.send(now, candidate);
        }
        let goes_on = self.turn_goes_on(now);
        self.since_expired += 1;
        if !goes_on && self.turn.is_some_and(|turn| turn.is_local) {
            self.round = ROUND;
        }
        if !goes_on
            && (self.since_expired >= self.tuning.batch || self.round > 0)
            && let Some((kind, slot)) = self.expired(now)
        {
            (self.since_expired, self.round) = (0, self.round.saturating_sub(1));
            self.expired_kind = kind;
            let candidate = self.candidate(now, slot);
            return self.send(now, candidate);
        }
        if let Some(best) = self.soonest(now, PROMPT) {
            return self.send(now, best);
        }
        if let Some(from) = self.async_from(now)
            && from <= now
            && let Some(slot) = self.queue.next_in_sweep(ASYNC, self.head)
        {
            let best = self.candidate(now, slot);
            return self.send(now, best);
        }
        let best = if self.at_device > 0 { self.oldest(now) } else { self.soonest(now, SYNC) };
        let Some(best) = best else {
            // Only what nobody waits for is there, and its time is still to come.
            let until = self.async_from(now).unwrap_or(now).min(now + COMPLETION_BACKSTOP);
            return Pick::WaitUntil(until.max(now + Nanos(1)));
        };
        let may_wait = goes_on || self.expired(now).is_none();
        if may_wait && let Some(until) = self.wait_until(now, &best) {
            return Pick::WaitUntil(until);
        }
        self.send(now, best)
    }

    fn completed(&mut self, now: Nanos, request: &Request, service: Nanos) {
        self.at_device = self.at_device.saturating_sub(1);
        if request.is_sync() {
            self.sync_at_device = self.sync_at_device.saturating_sub(1);
            self.sync_done = now;
        }
        let stream = request.is_sync().then_some(request.stream);
        if let Some(turn) = &mut self.turn
            && turn.stream == stream
        {
            turn.at_device = turn.at_device.saturating_sub(1);
            turn.idle_since = now;
        }
        let foreseen = self.alone.take_if(|(id, _)| *id == request.id).map(|(_, foreseen)| foreseen);
        self.shared.with(|known| {
            known.positioning.learn(request, now - service, now, foreseen);
            known.streams.done(request, now - service, now);
        });
    }

    fn retune(&mut self, values: &[i64]) {
        self.tuning = Tuning::of(values);
    }

    fn set_limits(&mut self, limits: &Limits) {
        self.queue.set_limits(limits);
    }

    fn drain(&mut self, out: &mut Vec<Request>) {
        self.queue.drain(out);
    }
}

#[cfg(test)]
mod tests {
    use super::SPEC;
    use block::conformance::{assert_conforms, assert_switches};

    #[test]
    fn it_keeps_what_every_scheduler_promises() {
        assert_conforms(&SPEC, 300);
    }

    #[test]
    fn it_can_be_switched_to_and_from() {
        for other in block::ALL {
            assert_switches(other, &SPEC, 30);
            assert_switches(&SPEC, other, 30);
        }
    }
}
