//! The tags of a queue: the number of requests that may be queued or in flight, and how many of them are open to each request.

/// The sizes of a queue and its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// The queue's setting (`/sys/block/*/queue/nr_requests`); at least 1.
    pub nr_requests: u32,
    /// Queue depth of the device; at least 1.
    pub device: u32,
}

/// The tags of a queue of Linux's multi-queue layer: a request holds one from its arrival until its completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tags {
    /// Number of tags; at least 1.
    pub depth: u32,
    /// Number of tags that must be freed before waiters are woken, and the number of waiters then woken (`sbq_calc_wake_batch` in
    /// `lib/sbitmap.c`). Until then other requests may take the free tags.
    pub wake_batch: u32,
}

/// The [`Tags::wake_batch`] of a queue with at least `depth` tags open to all requests.
pub(crate) fn wake_batch(depth: u32) -> u32 {
    (depth / 8).clamp(1, 8)
}

/// Number of tags that are open to a tenant that holds `held` of them; `weights` is the sum of the weights of tenants with requests. All
/// tags while it holds less than its share of one half, otherwise only one half. So a tenant that floods the queue leaves tags for the
/// others, but can use half of the queue if it is alone.
pub(crate) fn tags_open_to_tenant(depth: u32, held: u64, weight: u64, weights: u64) -> u32 {
    let half = depth.div_ceil(2);
    let is_modest = u128::from(held) * u128::from(weights.max(weight)) < u128::from(half) * u128::from(weight);
    if is_modest { depth } else { half }
}
