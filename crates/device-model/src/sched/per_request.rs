//! The per-request scheduler: the request with the shortest expected response time goes first.
//!
//! The paper's third scheme ("Self-Learning Disk Scheduling", section 3.3.3): a model of response times is learned, and whatever it
//! expects to be done soonest is sent. Beyond the paper:
//!
//! * the model knows where the platter stands ([`positioning`]), so that on a disk without a queue of its own requests are served in
//!   the order in which they pass under the head;
//! * what a stream will ask for next counts as well ([`streams`]): the device is kept for it for a moment if that should be done sooner than
//!   what waits; a stream that goes on in order has turns ([`turn`]);
//! * what nobody waits for stands back for a bounded time, unless it does more in its time;
//! * no request starves: one in `batch` picks goes to the oldest that has expired, which the paper lacks and admits.
//!
//! The knowledge outlives the scheduler ([`known`]). Each constant says what chose it: physics, a bound of memory or time, or a sweep on
//! job files drawn at random on nine disks and arrays, mostly in one direction. A few constants of [`crate::rotation`] were never swept.

mod choose;
mod known;
mod mean;
mod positioning;
mod streams;
mod thinking;
mod turn;

use block::queue::{Merging, Queue};
use block::sched::COMPLETION_BACKSTOP;
use block::tunables;
use block::{
    Insertion, Knowledge, Limits, Nanos, Op, Pick, Request, RequestId, Scheduler, SchedulerSpec, StarvationBound, Tunable, Unit,
};

use choose::Candidate;
use known::{Anchors, Sent, Shared};
use mean::Mean;
use positioning::Foreseen;
use turn::{TURN_PICKS, Turn};

/// Learns response times and goes by them.
pub static SPEC: SchedulerSpec = SchedulerSpec {
    name: "per-request",
    summary: "learns how long requests take, where the platter stands and who comes back; what is done soonest goes first",
    source: "Zhang and Bhargava, Self-Learning Disk Scheduling, 3.3.3; positions as in Lumb and others, FAST 2002; waiting as in Iyer and Druschel, SOSP 2001",
    tunables: Tuning::TUNABLES,
    work_conserving: false,
    starvation_bound: Some(starvation_bound),
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

fn starvation_bound(values: &[i64]) -> StarvationBound {
    let tuning = Tuning::of(values);
    // Synchronous and asynchronous requests take turns at being the expired one, and each other pick may begin a turn.
    StarvationBound {
        expires: tuning.async_expire.max(Nanos(SHARE * tuning.sync_expire.0)),
        picks: 2 * tuning.batch * (1 + TURN_PICKS),
    }
}

impl Tuning {
    /// After what time a request of this kind has expired.
    fn expire(&self, kind: usize) -> Nanos {
        if kind == SYNC { self.sync_expire } else { self.async_expire }
    }
}

const ASYNC: usize = 0;
const SYNC: usize = 1;
/// Of those that somebody waits for, those of streams that ask for little: they get it at once.
const PROMPT: usize = 2;
/// Requests of streams in order wait so many times as long before they have expired, for each time they get a whole turn; so many turns
/// of those that somebody waits for go between two turns of the others, or so many turns of the others in one if they are large. As much
/// time for all as for one loses 6% in the first case; twice or half as much changes less than 1% in the others.
const SHARE: u64 = 4;
/// Streams, waiting requests and ends of requests that are remembered, which bounds memory; a power of two. Two that fall on the same
/// place push each other out.
const REMEMBERED: usize = 1_024;

struct PerRequest {
    tuning: Tuning,
    queue: Queue,
    shared: Shared,
    anchors: Anchors,
    turn: Option<Turn>,
    last: Sent,
    /// Requests at the device, and those of them that somebody waits for.
    at_device: u32,
    sync_at_device: u32,
    /// By kind, how large they are, lately, in sectors.
    sectors: [Mean; 2],
    /// When the last request was done that somebody waited for.
    sync_done: Nanos,
    /// Before this those that nobody waits for have no other turn.
    next_async_turn: Nanos,
    /// Of a request that is alone at the device what was foreseen.
    alone: Option<(RequestId, Foreseen)>,
    since_expired: u64,
    /// Requests that have expired and may go before the next turn.
    round: u64,
    /// The kind whose oldest went last because it had expired.
    expired_kind: usize,
}

impl PerRequest {
    fn new(limits: &Limits, values: &[i64], shared: Shared) -> PerRequest {
        PerRequest {
            tuning: Tuning::of(values),
            queue: Queue::new(*limits, Merging { front: true, within_stream: true }),
            shared,
            anchors: Anchors::new(),
            turn: None,
            last: Sent { end: 0, op: Op::Read, stream: None },
            at_device: 0,
            sync_at_device: 0,
            sectors: [Mean::default(); 2],
            sync_done: Nanos::ZERO,
            next_async_turn: Nanos::ZERO,
            alone: None,
            since_expired: 0,
            round: 0,
            expired_kind: ASYNC,
        }
    }

    fn send(&mut self, now: Nanos, candidate: Candidate) -> Pick {
        let request = self.queue.take(candidate.slot);
        self.last = Sent { end: request.end(), op: request.op, stream: Some(request.stream) };
        self.alone = (self.at_device == 0).then_some((request.id, candidate.foreseen));
        self.at_device += 1;
        self.sync_at_device += u32::from(request.is_sync());
        if !candidate.is_prompt {
            // Else whoever has the turn keeps it.
            self.take_turn(now, &request);
        }
        Pick::Go(request)
    }

    /// The oldest request that has expired, if it is its time.
    fn next_expired(&mut self, now: Nanos, goes_on: bool) -> Option<Candidate> {
        self.since_expired += 1;
        if !goes_on && self.turn.is_some_and(|turn| turn.is_local) {
            // After a turn those that expired meanwhile go, a batch of them.
            self.round = self.tuning.batch;
        }
        if goes_on || self.since_expired < self.tuning.batch && self.round == 0 {
            return None;
        }
        let (kind, slot) = self.expired(now)?;
        (self.since_expired, self.round) = (0, self.round.saturating_sub(1));
        self.expired_kind = kind;
        Some(self.candidate(now, slot))
    }
}

impl Scheduler for PerRequest {
    fn insert(&mut self, _now: Nanos, request: Request) -> Insertion {
        let kind = usize::from(request.is_sync());
        let (is_prompt, may_go_on) = self.shared.with(|known| {
            let streams = &known.streams;
            (streams.asks_for_little(request.stream), streams.may_go_on(request.stream))
        });
        let lane = if request.is_sync() && is_prompt { PROMPT } else { kind };
        let times = if request.is_sync() && may_go_on { SHARE } else { 1 };
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
        if let Some(expired) = self.next_expired(now, goes_on) {
            return self.send(now, expired);
        }
        if let Some(best) = self.soonest(now, PROMPT) {
            return self.send(now, best);
        }
        if let Some(from) = self.async_from(now)
            && from <= now
            && let Some(slot) = self.queue.next_in_sweep(ASYNC, self.last.end)
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
        self.end_of_one(now, request);
        let foreseen = self.alone.take_if(|(id, _)| *id == request.id).map(|(_, foreseen)| foreseen);
        self.shared.with(|known| known.learn(request, now - service, now, foreseen));
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
