//! The per-request scheduler: the request with the shortest expected response time goes first.
//!
//! The paper's third scheme ("Self-Learning Disk Scheduling", section 3.3.3): a model of response times is learned, and whatever it
//! expects to be done soonest is sent. Beyond the paper:
//!
//! * the model knows where the platter stands ([`positioning`]), so that on a disk without a queue of its own requests are served in
//!   the order in which they pass under the head;
//! * what nobody waits for stands back by a bounded time;
//! * no request starves: one in `batch` picks goes to the oldest that has expired, which the paper lacks and admits.
//!
//! The knowledge outlives the scheduler: [`Shared`] is handed to the next one when the scheduler is switched away and back.

mod positioning;
mod rotation;

use std::sync::{Arc, Mutex, PoisonError};

use block::queue::{Merging, Queue, Slot};
use block::{Insertion, Limits, Nanos, Patience, Pick, Request, RequestId, Scale, Scheduler, Spec, Tunable, Unit};

pub use positioning::Positioning;
use positioning::{Anchor, Foreseen};

/// Learns response times and goes by them.
pub static SPEC: Spec = Spec {
    name: "per-request",
    summary: "learns how long requests take and where the platter stands; what is done soonest goes first",
    source: "Zhang and Bhargava, Self-Learning Disk Scheduling, 3.3.3; positions as in Lumb and others, FAST 2002",
    tunables: TUNABLES,
    work_conserving: true,
    patience: Some(patience),
    build: |limits, values| Box::new(PerRequest::new(limits, values, Shared::default())),
};

static TUNABLES: &[Tunable] = &[
    Tunable {
        name: "sync_expire",
        unit: Unit::Milliseconds,
        min: 1,
        max: 60_000,
        default: 500,
        scale: Scale::Logarithmic,
        doc: "A request that somebody waits for has expired after this time.",
    },
    Tunable {
        name: "async_expire",
        unit: Unit::Milliseconds,
        min: 1,
        max: 300_000,
        default: 5_000,
        scale: Scale::Logarithmic,
        doc: "A request that nobody waits for has expired after this time.",
    },
    Tunable {
        name: "batch",
        unit: Unit::Count,
        min: 1,
        max: 1_024,
        default: 8,
        scale: Scale::Logarithmic,
        doc: "Of so many picks one goes to the oldest request that has expired.",
    },
    Tunable {
        name: "async_delay",
        unit: Unit::Milliseconds,
        min: 0,
        max: 1_000,
        default: 8,
        scale: Scale::Linear,
        doc: "A request that nobody waits for counts as done this much later.",
    },
];

fn patience(values: &[i64]) -> Patience {
    let tuning = Tuning::new(values);
    // Synchronous and asynchronous requests take turns at being the expired one.
    Patience { expires: tuning.expire[ASYNC].max(tuning.expire[SYNC]), picks: 2 * tuning.batch }
}

const ASYNC: usize = 0;
const SYNC: usize = 1;
/// Requests of a kind that are looked at for each pick: the oldest ones, and the nearest on either side.
const LOOKED_AT: usize = 48;
/// Anchors that are kept, by the request's number; a power of two.
const ANCHORS: usize = 1_024;

/// What is known of a device, for all schedulers that follow each other on it.
#[derive(Clone, Default)]
pub struct Shared(Arc<Mutex<Positioning>>);

impl Shared {
    /// A scheduler that goes by this knowledge and adds to it. The values are those of [`SPEC`]'s tunables.
    pub fn scheduler(&self, limits: &Limits, values: &[i64]) -> Box<dyn Scheduler> {
        Box::new(PerRequest::new(limits, values, self.clone()))
    }

    /// Learns from a request that another scheduler sent. Requests are told in the order in which they were done.
    pub fn learn(&self, request: &Request, dispatched: Nanos, at: Nanos) {
        self.with(|positioning| positioning.watch(request, dispatched, at));
    }

    /// Looks at what is known.
    pub fn with<T>(&self, look: impl FnOnce(&mut Positioning) -> T) -> T {
        // Whatever panicked elsewhere, what was learned is still as good as before.
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

struct Tuning {
    expire: [Nanos; 2],
    batch: u64,
    async_delay_ns: f64,
}

impl Tuning {
    fn new(values: &[i64]) -> Tuning {
        let number = |index: usize| values.get(index).map_or(TUNABLES[index].default, |&value| value).unsigned_abs();
        Tuning {
            expire: [Nanos::from_millis(number(1)), Nanos::from_millis(number(0))],
            batch: number(2).max(1),
            async_delay_ns: number(3) as f64 * 1e6,
        }
    }
}

#[derive(Clone, Copy)]
struct Remembered {
    id: RequestId,
    end: u64,
    generation: u32,
    anchor: Anchor,
}

struct PerRequest {
    tuning: Tuning,
    queue: Queue,
    shared: Shared,
    anchors: Vec<Remembered>,
    /// Where the last request that left ends.
    head: u64,
    /// Requests at the device, and of one that is there alone what was foreseen.
    at_device: u32,
    alone: Option<(RequestId, Foreseen)>,
    since_expired: u64,
    /// The kind whose oldest went last because it had expired.
    expired_kind: usize,
}

impl PerRequest {
    fn new(limits: &Limits, values: &[i64], shared: Shared) -> PerRequest {
        let nothing = Remembered { id: 0, end: u64::MAX, generation: 0, anchor: None };
        PerRequest {
            tuning: Tuning::new(values),
            queue: Queue::new(*limits, Merging { front: true, within_stream: false }),
            shared,
            anchors: vec![nothing; ANCHORS],
            head: 0,
            at_device: 0,
            alone: None,
            since_expired: 0,
            expired_kind: ASYNC,
        }
    }

    /// The oldest request that has expired, of either kind in turn.
    fn expired(&mut self, now: Nanos) -> Option<Slot> {
        for kind in [1 - self.expired_kind, self.expired_kind] {
            if let Some(slot) = self.queue.oldest(kind)
                && self.queue.expires(slot) <= now
            {
                self.expired_kind = kind;
                return Some(slot);
            }
        }
        None
    }

    /// The request that should be done soonest, and what is foreseen of it.
    fn soonest(&mut self, now: Nanos) -> Option<(Slot, Foreseen)> {
        let PerRequest { queue, shared, anchors, head, tuning, .. } = self;
        shared.with(|positioning| {
            let mut best: Option<(Slot, Foreseen, f64)> = None;
            for kind in [SYNC, ASYNC] {
                let delay = if kind == ASYNC { tuning.async_delay_ns } else { 0.0 };
                let mut consider = |slot: Slot| {
                    let request = queue.request(slot);
                    let anchor = remembered(anchors, positioning, request);
                    let (foreseen, cost) = positioning.foresee(now, *head, request, anchor);
                    let cost = cost + delay;
                    if best.as_ref().is_none_or(|&(.., least)| cost < least) {
                        best = Some((slot, foreseen, cost));
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
            }
            best.map(|(slot, foreseen, _)| (slot, foreseen))
        })
    }

    fn send(&mut self, slot: Slot, foreseen: Foreseen) -> Request {
        let request = self.queue.take(slot);
        self.head = request.end();
        self.alone = (self.at_device == 0).then_some((request.id, foreseen));
        self.at_device += 1;
        request
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
    fn insert(&mut self, now: Nanos, request: Request) -> Insertion {
        let kind = usize::from(request.is_sync());
        let _ = now;
        self.queue.insert(kind, request.arrival + self.tuning.expire[kind], request).into()
    }

    fn pick(&mut self, now: Nanos) -> Pick {
        if self.queue.is_empty() {
            return Pick::Empty;
        }
        self.since_expired += 1;
        if self.since_expired >= self.tuning.batch
            && let Some(slot) = self.expired(now)
        {
            self.since_expired = 0;
            let request = *self.queue.request(slot);
            let (anchors, head) = (&mut self.anchors, self.head);
            let (foreseen, _) = self.shared.with(|positioning| {
                let anchor = remembered(anchors, positioning, &request);
                positioning.foresee(now, head, &request, anchor)
            });
            return Pick::Go(self.send(slot, foreseen));
        }
        match self.soonest(now) {
            Some((slot, foreseen)) => Pick::Go(self.send(slot, foreseen)),
            None => Pick::Empty,
        }
    }

    fn completed(&mut self, now: Nanos, request: &Request, service: Nanos) {
        self.at_device = self.at_device.saturating_sub(1);
        let foreseen = self.alone.take_if(|(id, _)| *id == request.id).map(|(_, foreseen)| foreseen);
        self.shared.with(|positioning| positioning.learn(request, now - service, now, foreseen));
    }

    fn retune(&mut self, values: &[i64]) {
        self.tuning = Tuning::new(values);
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
