//! The charge of each request to its volume, from arrival to completion.

use crate::by_request::ByRequest;
use crate::{Nanos, RequestId};

/// The charge of a request, including all requests merged into it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Charge {
    pub(super) volume: usize,
    /// Its time on the reference disk.
    pub(super) service: Nanos,
    /// Number of requests merged into it, itself included.
    pub(super) parts: u32,
    /// Number of earlier arrivals; the lowest for merged requests.
    pub(super) sequence: u64,
    /// Dispatch time; `None` while queued.
    pub(super) dispatched: Option<Nanos>,
    /// Arrival time, the first one for merged requests; and the time that the reference disk needed then to complete all requests.
    pub(super) arrival: Nanos,
    pub(super) allowed: Nanos,
    /// Completion time on the reference disk, if all earlier requests had been completed in time.
    pub(super) reference_done: Nanos,
    /// Expected time for which it keeps the device busy.
    pub(super) work: Nanos,
    /// Number of requests in flight when it was dispatched, including it.
    pub(super) at_device: u32,
    /// Total work of other volumes that the device had done before its dispatch.
    pub(super) others_done: Nanos,
}

impl Charge {
    pub(super) fn new(volume: usize, service: Nanos, arrival: Nanos, allowed: Nanos, reference_done: Nanos) -> Charge {
        Charge {
            volume,
            service,
            parts: 1,
            sequence: 0,
            dispatched: None,
            arrival,
            allowed,
            reference_done,
            work: Nanos::ZERO,
            at_device: 0,
            others_done: Nanos::ZERO,
        }
    }
}

/// The charges of all requests from arrival to completion.
#[derive(Default)]
pub(super) struct Charges {
    charges: ByRequest<Charge>,
    arrived: u64,
}

impl Charges {
    pub(super) fn find(&self, id: RequestId) -> Option<&Charge> {
        self.charges.get(id)
    }

    pub(super) fn find_mut(&mut self, id: RequestId) -> Option<&mut Charge> {
        self.charges.get_mut(id)
    }

    /// Adds the charge of an arriving request, and returns its sequence number.
    pub(super) fn add(&mut self, id: RequestId, charge: Charge) -> u64 {
        let sequence = self.arrived;
        self.charges.insert(id, Charge { sequence, ..charge });
        self.arrived += 1;
        sequence
    }

    /// Merges an arriving request into a queued one, with the new completion time on the reference disk.
    pub(super) fn merge(&mut self, into: RequestId, service: Nanos, reference_done: Nanos) {
        if let Some(charge) = self.find_mut(into) {
            charge.service += service;
            charge.parts += 1;
            charge.reference_done = charge.reference_done.max(reference_done);
        }
    }

    /// Merges a queued request into another one, which gets the lower sequence number; returns the higher one.
    pub(super) fn absorb(&mut self, into: RequestId, absorbed: RequestId) -> Option<u64> {
        let absorbed = self.remove(absorbed)?;
        let charge = self.find_mut(into)?;
        charge.service += absorbed.service;
        charge.parts += absorbed.parts;
        let later = charge.sequence.max(absorbed.sequence);
        charge.sequence = charge.sequence.min(absorbed.sequence);
        charge.reference_done = charge.reference_done.max(absorbed.reference_done);
        Some(later)
    }

    /// All charges, in no particular order.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Charge> {
        self.charges.values_mut()
    }

    pub(super) fn remove(&mut self, id: RequestId) -> Option<Charge> {
        self.charges.remove(id)
    }
}
