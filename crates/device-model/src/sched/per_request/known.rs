//! Knowledge of a device and its streams, shared by successive schedulers, and the cost of a request by it.

use std::sync::{Arc, Mutex, PoisonError};

use block::{Knowledge, Limits, Nanos, Op, Request, RequestId, Scheduler, StreamId};

use super::positioning::{Anchor, Foreseen, Positioning};
use super::streams::Streams;
use super::{PerRequest, REMEMBERED};

/// Knowledge shared by successive schedulers of a device.
#[derive(Clone, Default)]
pub(super) struct Shared(Arc<Mutex<Known>>);

/// Knowledge of a device and its streams.
#[derive(Default)]
pub(super) struct Known {
    pub positioning: Positioning,
    pub streams: Streams,
}

impl Knowledge for Shared {
    fn learn(&mut self, request: &Request, dispatched: Nanos, at: Nanos) {
        self.with(|known| {
            let is_from_memory = known.streams.is_from_memory(request, at - dispatched);
            known.positioning.watch(request, dispatched, at, is_from_memory);
            known.streams.done(request, dispatched, at);
        });
    }

    fn set_rotation(&mut self, turn: Option<Nanos>) {
        self.with(|known| known.positioning.turns(turn));
    }

    fn scheduler(&self, limits: &Limits, values: &[i64]) -> Box<dyn Scheduler> {
        Box::new(PerRequest::new(limits, values, self.clone()))
    }
}

impl Shared {
    pub fn with<T>(&self, look: impl FnOnce(&mut Known) -> T) -> T {
        // The state is consistent even if another thread panicked while holding the lock.
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Known {
    /// Learns from a completed request, with its prediction if it was alone at the device.
    pub fn learn(&mut self, request: &Request, dispatched: Nanos, at: Nanos, foreseen: Option<Foreseen>) {
        let is_from_memory = self.streams.is_from_memory(request, at - dispatched);
        self.positioning.learn(request, dispatched, at, foreseen, is_from_memory);
        self.streams.done(request, dispatched, at);
    }

    /// The prediction for a request dispatched now, and its cost in nanoseconds. A sequential stream is expected to continue for `run` requests.
    #[inline]
    pub fn foresee(&self, now: Nanos, last: &Sent, request: &Request, anchors: &mut Anchors, run: f64) -> (Foreseen, f64) {
        let anchor = anchors.get(&self.positioning, request);
        let (foreseen, cost_ns) = self.positioning.foresee(now, (last.end, last.op), request, anchor);
        let goes_on = request.is_sync() && self.streams.is_next(request);
        // A sequential request was read ahead by the device, or follows directly under the head.
        let cost_ns = if !goes_on {
            self.streams.memory_ns(request.stream).filter(|_| request.is_sync()).unwrap_or(cost_ns)
        } else if last.stream == Some(request.stream) {
            // Going elsewhere now would cost the way back.
            let running_ns = self.streams.running_ns(request.stream);
            running_ns - (self.streams.switching_ns().unwrap_or(cost_ns) - running_ns).max(0.0)
        } else {
            // Switching there pays off over a run, whose further requests are fast.
            let switching_ns = self.streams.switching_ns().unwrap_or(cost_ns);
            let staying_ns =
                self.streams.staying_ns(request.stream).map_or(switching_ns, |staying_ns| staying_ns.min(switching_ns));
            staying_ns + (switching_ns - staying_ns) / run
        };
        (foreseen, cost_ns)
    }
}

/// The last dispatched request.
#[derive(Clone, Copy)]
pub(super) struct Sent {
    /// The sector after it.
    pub end: u64,
    pub op: Op,
    /// `None` before the first.
    pub stream: Option<StreamId>,
}

/// Anchors of queued requests by id: each is computed once per generation of the knowledge.
pub(super) struct Anchors(Vec<Remembered>);

#[derive(Clone, Copy)]
struct Remembered {
    id: RequestId,
    end: u64,
    generation: u32,
    anchor: Anchor,
}

impl Anchors {
    pub fn new() -> Anchors {
        Anchors(vec![Remembered { id: 0, end: u64::MAX, generation: 0, anchor: None }; REMEMBERED])
    }

    fn get(&mut self, positioning: &Positioning, request: &Request) -> Anchor {
        let (id, end, generation) = (request.id, request.end(), positioning.generation());
        let place = &mut self.0[id as usize % REMEMBERED];
        if place.id != id || place.end != end || place.generation != generation {
            *place = Remembered { id, end, generation, anchor: positioning.anchor(end) };
        }
        place.anchor
    }
}
