//! The requests of a scheduler that is defined outside of the workspace: no answer of it loses one or dispatches one twice.

use alloc::vec::Vec;

use crate::{Nanos, Pick, Request, RequestId};

/// Maximum number of consecutive waits; more count as an endless wait. At a microsecond each, ten times the longest idling of a Linux
/// scheduler (`slice_idle` of bfq, 8 ms).
pub const MAX_WAITS: u32 = 100_000;

#[derive(Debug)]
struct Known<T> {
    request: Request,
    with: T,
    /// Number of requests inserted before it.
    sequence: u64,
    is_queued: bool,
}

/// Requests that are queued or in flight, each with a value of the adapter.
#[derive(Debug)]
pub struct Held<T> {
    /// By id, which hosts reuse.
    known: Vec<Option<Known<T>>>,
    queued: usize,
    sequence: u64,
    /// Number of waits since the last arrival, dispatch or completion.
    waits: u32,
}

impl<T> Default for Held<T> {
    fn default() -> Held<T> {
        Held { known: Vec::new(), queued: 0, sequence: 0, waits: 0 }
    }
}

impl<T> Held<T> {
    /// Queues a request.
    pub fn insert(&mut self, request: Request, with: T) {
        let slot = request.id as usize;
        if self.known.len() <= slot {
            self.known.resize_with(slot + 1, || None);
        }
        self.known[slot] = Some(Known { request, with, sequence: self.sequence, is_queued: true });
        self.queued += 1;
        self.sequence += 1;
        self.waits = 0;
    }

    /// Number of queued requests.
    pub fn queued(&self) -> usize {
        self.queued
    }

    /// The value of a queued request; `None` if it is not queued.
    pub fn get(&self, id: RequestId) -> Option<&T> {
        self.known.get(id as usize)?.as_ref().filter(|known| known.is_queued).map(|known| &known.with)
    }

    /// Dispatches a queued request; `None` if it is not queued.
    pub fn dispatch(&mut self, id: RequestId) -> Option<Request> {
        let known = self.known.get_mut(id as usize)?.as_mut().filter(|known| known.is_queued)?;
        known.is_queued = false;
        self.queued -= 1;
        self.waits = 0;
        Some(known.request)
    }

    /// Waits until a later time; `None` if the scheduler has done so [`MAX_WAITS`] times in a row.
    pub fn wait_until(&mut self, until: Nanos) -> Option<Pick> {
        self.waits = self.waits.checked_add(1).filter(|waits| *waits <= MAX_WAITS)?;
        Some(Pick::WaitUntil(until))
    }

    /// Dispatches the oldest request, in place of a scheduler that failed; `Empty` if none is queued.
    pub fn oldest(&mut self) -> Pick {
        let queued = self.known.iter().flatten().filter(|known| known.is_queued);
        let oldest = queued.min_by_key(|known| known.sequence).map(|known| known.request.id);
        oldest.and_then(|id| self.dispatch(id)).map_or(Pick::Empty, Pick::Go)
    }

    /// Number of requests inserted before this one; `None` if it is not known.
    pub fn sequence(&self, id: RequestId) -> Option<u64> {
        self.known.get(id as usize)?.as_ref().map(|known| known.sequence)
    }

    /// Forgets a request that has completed; `None` if it is not known.
    pub fn complete(&mut self, id: RequestId) -> Option<T> {
        self.waits = 0;
        self.known.get_mut(id as usize)?.take().map(|known| known.with)
    }

    /// Removes all queued requests in order of arrival, for another scheduler.
    pub fn drain(&mut self, out: &mut Vec<Request>) {
        let mut queued: Vec<Known<T>> = self.known.iter_mut().filter_map(|known| known.take_if(|known| known.is_queued)).collect();
        queued.sort_by_key(|known| known.sequence);
        self.queued = 0;
        out.extend(queued.iter().map(|known| known.request));
    }
}
