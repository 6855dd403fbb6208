//! The device behind the queue: requests at it, and its totals.

use block::{Nanos, Request, RequestId};

use crate::device::{Completion, Device};

/// Totals reported by the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceTally {
    /// Requests completed by the device, after splitting and merging.
    pub requests: u64,
    /// Number of these that needed mechanical access.
    pub mechanical: u64,
    /// Time for which the arm moved.
    pub seek: Nanos,
    /// Rotational latency.
    pub rotation: Nanos,
    /// Cylinders crossed by the arm.
    pub seek_cylinders: u64,
    /// Nanoseconds in the queue and at the device, summed over requests; a merged request counts from its first part. Divided by the
    /// length of the run it is the mean queue size, `aqu-sz` of iostat(1).
    pub in_queue_ns: u128,
}

impl DeviceTally {
    #[inline]
    fn add(&mut self, completion: &Completion, in_queue: Nanos) {
        self.requests += 1;
        self.in_queue_ns += u128::from(in_queue.0);
        if !completion.cache_hit {
            self.mechanical += 1;
            self.seek += completion.seek;
            self.rotation += completion.rotation;
            self.seek_cylinders += u64::from(completion.seek_cylinders);
        }
    }
}

/// A device, and the requests at it.
pub(super) struct Port {
    pub(super) device: Box<dyn Device>,
    /// Requests at the device at once: [`Device::queue_depth`], unless it was set lower.
    depth: usize,
    at_device: usize,
    /// Whether a flush is at the device that takes one of these.
    flushes: bool,
    /// A request picked from the scheduler that waits for room at the device.
    pub(super) picked: Option<Request>,
    completions: Vec<Completion>,
    pub(super) busy_at_completion: Nanos,
    pub(super) tally: DeviceTally,
}

impl Port {
    pub(super) fn new(device: Box<dyn Device>) -> Port {
        Port {
            depth: device.queue_depth(),
            device,
            at_device: 0,
            flushes: false,
            picked: None,
            completions: Vec::new(),
            busy_at_completion: Nanos::ZERO,
            tally: DeviceTally::default(),
        }
    }

    pub(super) fn depth(&self) -> usize {
        self.depth
    }

    pub(super) fn set_depth(&mut self, depth: usize) {
        self.depth = depth.clamp(1, self.device.queue_depth());
    }

    /// Number of requests at the device, without a flush.
    #[inline]
    pub(super) fn at_device(&self) -> usize {
        self.at_device
    }

    /// Whether the device takes another request.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.at_device + usize::from(self.flushes) < self.depth
    }

    /// Whether flushes need room at the device.
    pub(super) fn queues_flushes(&self) -> bool {
        self.device.queues_flushes() && self.device.has_write_cache()
    }

    /// Whether the device takes a flush.
    pub(super) fn has_room_for_flush(&self) -> bool {
        !self.device.queues_flushes() || self.has_room()
    }

    /// Starts a flush; false if the device has nothing to flush. Call it only when there is room, and while no other is at the device.
    pub(super) fn flush(&mut self, now: Nanos, id: RequestId) -> bool {
        let begins = self.device.flush(now, id);
        self.flushes = begins && self.device.queues_flushes();
        begins
    }

    /// Counts a completed flush.
    pub(super) fn flush_completed(&mut self) {
        self.flushes = false;
    }

    #[inline]
    pub(super) fn submit(&mut self, now: Nanos, request: &Request) {
        self.at_device += 1;
        self.device.submit(now, request);
    }

    /// Advances the device to `now`. Returns its completions in a buffer to be [returned](Port::return_buffer).
    pub(super) fn advance(&mut self, now: Nanos) -> Vec<Completion> {
        let mut completions = std::mem::take(&mut self.completions);
        self.device.advance(now, &mut completions);
        if !completions.is_empty() {
            self.busy_at_completion = self.device.busy();
        }
        completions
    }

    /// Takes back an empty buffer, so that none is allocated for the next completions.
    pub(super) fn return_buffer(&mut self, completions: Vec<Completion>) {
        self.completions = completions;
    }

    /// Counts a completed request, which has been in the queue and at the device for `in_queue`.
    #[inline]
    pub(super) fn completed(&mut self, completion: &Completion, in_queue: Nanos) {
        self.at_device -= 1;
        self.tally.add(completion, in_queue);
    }
}
