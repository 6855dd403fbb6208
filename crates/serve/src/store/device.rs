//! What the queue takes for its device: it hands each request on to those who move the data.

use std::sync::{Arc, Mutex, PoisonError};

use block::{Nanos, Request, RequestId};
use sim::device::{Completion, Device};

use crate::backing::Backing;

/// A device with data behind it.
pub struct StoreDevice {
    /// A model that says when a request is done; `None`: it is done when the data was moved.
    pub(super) model: Option<Box<dyn Device>>,
    /// The data.
    pub(super) backing: Arc<dyn Backing>,
    pub(super) sectors: u64,
    /// Requests that the data is moved for at the same time.
    pub(super) depth: usize,
    pub(super) is_rotational: bool,
    /// Never io_uring.
    pub(super) uses_threads: bool,
}

impl StoreDevice {
    /// Real data on a medium with this number of sectors, which takes `depth` requests at the same time.
    pub fn real(backing: Arc<dyn Backing>, sectors: u64, depth: usize, is_rotational: bool) -> StoreDevice {
        StoreDevice { model: None, backing, sectors, depth: depth.max(1), is_rotational, uses_threads: false }
    }

    /// Data whose replies take as long as a model of a disk says.
    pub fn emulated(model: Box<dyn Device>, backing: Arc<dyn Backing>) -> StoreDevice {
        let (sectors, depth, is_rotational) = (model.capacity_sectors(), model.queue_depth(), model.is_rotational());
        StoreDevice { model: Some(model), backing, sectors, depth, is_rotational, uses_threads: false }
    }

    /// The same, with data that is moved by threads also where io_uring could.
    #[must_use]
    pub fn with_threads(self) -> StoreDevice {
        StoreDevice { uses_threads: true, ..self }
    }
}

/// What passes between the queue's device and the thread that owns the queue.
#[derive(Default)]
pub(super) struct Passed {
    /// Picked, and not yet given to those who move the data.
    pub submitted: Vec<Request>,
    /// A flush was asked for.
    pub flush: Option<RequestId>,
    /// Data was moved; not yet told to the queue.
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
