//! The per-request scheduler: dispatches the request with the shortest expected response time.
//!
//! The paper's third scheme ("Self-Learning Disk Scheduling", section 3.3.3): a model of response times is learned, and the request with
//! the shortest prediction is dispatched. Beyond the paper:
//!
//! * the model knows the angle of the platter (`positioning`), so that on a disk without its own queue requests are served in
//!   the order in which they pass under the head;
//! * anticipation (`streams`): the device idles briefly if a stream's next request should complete sooner than the queued ones; a
//!   sequential stream has turns (`turn`);
//! * asynchronous requests are delayed for a bounded time, unless they are larger;
//! * no request starves: one in `batch` picks goes to the oldest expired request, which the paper lacks, as it says.
//!
//! The knowledge outlives the scheduler (`known`). Each constant states how it was chosen: by physics, a bound of memory or time, or a sweep
//! on random job files on nine disks and arrays, mostly in one direction. A few constants of [`crate::rotation`] were never swept.

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

/// Specification.
pub static SPEC: SchedulerSpec = SchedulerSpec {
    name: "per-request",
    summary: "learns service times, the angle of the platter and think times; the request with the shortest expected time goes first",
    source: "Zhang and Bhargava, Self-Learning Disk Scheduling, 3.3.3; positions as in Lumb and others, FAST 2002; waiting as in Iyer and Druschel, SOSP 2001",
    tunables: Tuning::TUNABLES,
    work_conserving: false,
    starvation_bound: Some(starvation_bound),
    knowledge: Some(|| Box::new(Shared::default())),
    build: |limits, values| Shared::default().scheduler(limits, values),
};

tunables! {
    /// Tunables.
    struct Tuning {
        /// A synchronous request expires after this time, one of a sequential stream after four times as long.
        sync_expire: Nanos = Tunable::new(Unit::Milliseconds, 1..=60_000, 500).logarithmic(),
        /// An asynchronous request expires after this time.
        async_expire: Nanos = Tunable::new(Unit::Milliseconds, 1..=300_000, 5_000).logarithmic(),
        /// One in this many picks goes to the oldest expired request.
        batch: u64 = Tunable::new(Unit::Count, 1..=1_024, 16).logarithmic(),
        /// Asynchronous requests go after a pause of this length in synchronous ones, or in their turn.
        async_delay: Nanos = Tunable::new(Unit::Milliseconds, 0..=1_000, 2),
        /// A stream in service may continue for this long although requests of others have expired.
        turn: Nanos = Tunable::new(Unit::Milliseconds, 1..=10_000, 100).logarithmic(),
        /// Longest time that the device idles for a process that should continue at once. 0 never waits.
        longest_wait: Nanos = Tunable::new(Unit::Milliseconds, 0..=100, 8),
    }
}

fn starvation_bound(values: &[i64]) -> StarvationBound {
    let tuning = Tuning::of(values);
    // Synchronous and asynchronous requests alternate as the expired one, and each other pick may begin a turn.
    StarvationBound {
        expires: tuning.async_expire.max(Nanos(SHARE * tuning.sync_expire.0)),
        picks: 2 * tuning.batch * (1 + TURN_PICKS),
    }
}

impl Tuning {
    /// The time after which a request of this kind expires.
    fn expire(&self, kind: usize) -> Nanos {
        if kind == SYNC { self.sync_expire } else { self.async_expire }
    }
}

const ASYNC: usize = 0;
const SYNC: usize = 1;
/// Synchronous requests of streams with a low load, which go first.
const PROMPT: usize = 2;
/// Factor of the expiry time of requests of sequential streams, since each gets a whole turn; and ratio of the time for synchronous requests
/// to that for asynchronous ones, or the inverse if the latter are large. A factor of 1 loses 6% in the first case; twice or half of it changes
/// less than 1% in the others.
const SHARE: u64 = 4;
/// Size of the tables of streams, waiting requests and ends of requests, which bounds memory; a power of two. Entries with the same index
/// replace each other.
const REMEMBERED: usize = 1_024;

struct PerRequest {
    tuning: Tuning,
    queue: Queue,
    shared: Shared,
    anchors: Anchors,
    turn: Option<Turn>,
    last: Sent,
    /// Number of requests at the device, and of synchronous ones among them.
    at_device: u32,
    sync_at_device: u32,
    /// Recent mean sizes by kind, in sectors.
    sectors: [Mean; 2],
    /// When the last synchronous request completed.
    sync_done: Nanos,
    /// Start of the next turn of asynchronous requests.
    next_async_turn: Nanos,
    /// The prediction for a request that is alone at the device.
    alone: Option<(RequestId, Foreseen)>,
    since_expired: u64,
    /// Number of expired requests that may go before the next turn.
    round: u64,
    /// The kind of the last request dispatched because it had expired.
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
            // Prompt requests do not change the turn.
            self.take_turn(now, &request);
        }
        Pick::Go(request)
    }

    /// The oldest expired request; `None` if it is not due.
    fn next_expired(&mut self, now: Nanos, goes_on: bool) -> Option<Candidate> {
        self.since_expired += 1;
        if !goes_on && self.turn.is_some_and(|turn| turn.is_local) {
            // After a turn, a batch of requests that expired in the meantime goes first.
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
            // All orders cost the same: use the order of arrival, which is fair.
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
            // Only asynchronous requests are queued, and they are still delayed.
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
    fn it_conforms_to_the_contract_of_schedulers() {
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
