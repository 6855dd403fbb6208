//! The queue's device: passes each dispatched request on to the threads that move data.

use std::sync::{Arc, Mutex, PoisonError};

use block::{Nanos, Request, RequestId};
use sim::device::{Completion, Device};

use backing::Backing;

/// A device and its data.
pub struct StoreDevice {
    /// Model that determines completion times; `None`: a request completes when its data has been moved.
    pub(super) model: Option<Box<dyn Device>>,
    /// Its data.
    pub(super) backing: Arc<dyn Backing>,
    pub(super) sectors: u64,
    /// Maximum requests at the device.
    pub(super) depth: usize,
    pub(super) is_rotational: bool,
    /// Disables io_uring.
    pub(super) uses_threads: bool,
}

impl StoreDevice {
    /// A medium of `sectors` sectors, which takes up to `depth` requests at once.
    pub fn real(backing: Arc<dyn Backing>, sectors: u64, depth: usize, is_rotational: bool) -> StoreDevice {
        StoreDevice { model: None, backing, sectors, depth: depth.max(1), is_rotational, uses_threads: false }
    }

    /// Data whose replies are timed by a disk model.
    pub fn emulated(model: Box<dyn Device>, backing: Arc<dyn Backing>) -> StoreDevice {
        let (sectors, depth, is_rotational) = (model.capacity_sectors(), model.queue_depth(), model.is_rotational());
        StoreDevice { model: Some(model), backing, sectors, depth, is_rotational, uses_threads: false }
    }

    /// Moves data by threads even if io_uring is available.
    #[must_use]
    pub fn with_threads(self) -> StoreDevice {
        StoreDevice { uses_threads: true, ..self }
    }
}

/// Messages between the queue's device and the thread that drives the queue.
#[derive(Default)]
pub(super) struct Passed {
    /// Dispatched requests, not yet turned into jobs.
    pub submitted: Vec<Request>,
    /// A flush to start.
    pub flush: Option<RequestId>,
    /// Completed requests, not yet reported to the queue.
    pub done: Vec<RequestId>,
}

/// The queue's device.
pub(super) struct Hand {
    model: Option<Box<dyn Device>>,
    sectors: u64,
    depth: usize,
    is_rotational: bool,
    passed: Arc<Mutex<Passed>>,
    at_device: usize,
    busy: Nanos,
    busy_since: Nanos,
}

impl Hand {
    pub(super) fn new(device: &mut StoreDevice, passed: Arc<Mutex<Passed>>) -> Hand {
        let StoreDevice { model, sectors, depth, is_rotational, .. } = device;
        Hand {
            model: model.take(),
            sectors: *sectors,
            depth: *depth,
            is_rotational: *is_rotational,
            passed,
            at_device: 0,
            busy: Nanos::ZERO,
            busy_since: Nanos::ZERO,
        }
    }
}

impl Device for Hand {
    fn capacity_sectors(&self) -> u64 {
        self.sectors
    }

    fn queue_depth(&self) -> usize {
        self.depth
    }

    fn is_rotational(&self) -> bool {
        self.is_rotational
    }

    fn has_write_cache(&self) -> bool {
        self.model.as_ref().is_none_or(|model| model.has_write_cache())
    }

    fn queues_flushes(&self) -> bool {
        // The real medium flushes in a thread of its own.
        self.model.is_some()
    }

    fn submit(&mut self, now: Nanos, request: &Request) {
        self.passed.lock().unwrap_or_else(PoisonError::into_inner).submitted.push(*request);
        match &mut self.model {
            Some(model) => model.submit(now, request),
            None => {
                if self.at_device == 0 {
                    self.busy_since = now;
                }
                self.at_device += 1;
            }
        }
    }

    fn flush(&mut self, now: Nanos, id: RequestId) -> bool {
        match &mut self.model {
            Some(model) => model.flush(now, id),
            None => {
                self.passed.lock().unwrap_or_else(PoisonError::into_inner).flush = Some(id);
                true
            }
        }
    }

    fn time_to_reach(&mut self, now: Nanos, request: &Request) -> Option<Nanos> {
        self.model.as_mut()?.time_to_reach(now, request)
    }

    fn wake_at(&self) -> Option<Nanos> {
        self.model.as_ref()?.wake_at()
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        if let Some(model) = &mut self.model {
            model.advance(now, done);
            return;
        }
        let mut passed = self.passed.lock().unwrap_or_else(PoisonError::into_inner);
        for id in passed.done.drain(..) {
            if id != RequestId::MAX {
                self.at_device = self.at_device.saturating_sub(1);
                if self.at_device == 0 {
                    self.busy += now - self.busy_since;
                }
            }
            let (seek, rotation) = (Nanos::ZERO, Nanos::ZERO);
            done.push(Completion { id, at: now, seek, rotation, seek_cylinders: 0, cache_hit: false, work: None });
        }
    }

    fn busy(&self) -> Nanos {
        self.model.as_ref().map_or(self.busy, |model| model.busy())
    }
}
