//! Two lanes for each tenant in a queue, for schedulers with limits: reads and writes are separated if they have separate limits, so that
//! one does not wait for the other's limit.

use crate::queue::{Queue, Slot};
use crate::rates::Limiter;
use crate::{Nanos, Request};

/// The lanes of a tenant: of all its requests, or of its reads; and of its writes.
pub(crate) fn lanes_of(number: usize) -> [usize; 2] {
    [2 * number, 2 * number + 1]
}

/// The lane of a tenant's request.
pub(crate) fn lane_for(number: usize, limiter: Option<&Limiter>, request: &Request) -> usize {
    let is_apart = limiter.is_some_and(Limiter::is_by_direction) && request.op.is_write();
    2 * number + usize::from(is_apart)
}

/// Number of a tenant's queued requests.
pub(crate) fn queued(queue: &Queue, number: usize) -> usize {
    lanes_of(number).into_iter().map(|lane| queue.lane_len(lane)).sum()
}

/// A tenant's next request, and the earliest time at which its limits allow it: the oldest of those allowed at once, or the first to
/// become allowed. `candidate` selects the next request of a lane. `None`: none is queued.
pub(crate) fn next_within_limits(
    queue: &Queue,
    number: usize,
    limiter: Option<&Limiter>,
    now: Nanos,
    candidate: impl Fn(usize) -> Option<Slot>,
) -> Option<(Slot, Nanos)> {
    let ready = |slot: Slot| limiter.map_or(now, |limiter| limiter.ready_at(now, queue.request(slot)));
    let candidates = lanes_of(number).into_iter().filter_map(candidate).map(|slot| (slot, ready(slot)));
    candidates.min_by_key(|&(slot, ready_at)| (ready_at, queue.request(slot).arrival, queue.place(slot).sequence))
}
