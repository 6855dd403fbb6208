//! What each request costs its volume, from its arrival to its completion.

use slab::Slab;

use crate::hash_index::HashIndex;
use crate::{Nanos, RequestId};

/// What is known of a request. It is one for all that were merged into it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Charge {
    pub(super) volume: usize,
    /// How long the reference disk would be busy with it.
    pub(super) service: Nanos,
    /// How many requests it was when they came.
    pub(super) parts: u32,
    /// Counts the requests that came before, of merged ones before the first.
    pub(super) sequence: u64,
    /// Since when it is at the device.
    pub(super) dispatched: Option<Nanos>,
    /// When it came, of merged ones the first; and how long the reference disk would have taken from then to have all done.
    pub(super) arrival: Nanos,
    pub(super) allowed: Nanos,
    /// When the reference disk is done with it, were all that came before answered in time.
    pub(super) reference_done: Nanos,
    /// How much it adds to what is in flight.
    pub(super) load: u32,
    /// For how long the device will be busy with it, as far as is known.
    pub(super) work: Nanos,
    /// For how long it was with what was there before, and how many those were.
    pub(super) before: (Nanos, u32),
    /// Of other volumes, nothing was.
    pub(super) is_alone: bool,
    /// It went though others could not wait for so long.
    pub(super) is_intrusion: bool,
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
            load: 0,
            work: Nanos::ZERO,
            before: (Nanos::ZERO, 0),
            is_alone: false,
            is_intrusion: false,
        }
    }
}

/// The charges of all requests that are not done.
#[derive(Default)]
pub(super) struct Charges {
    charges: Slab<(RequestId, Charge)>,
    by_id: HashIndex,
    came: u64,
}

impl Charges {
    fn key(&self, id: RequestId) -> Option<u32> {
        self.by_id.get(u64::from(id)).next()
    }

    pub(super) fn find(&self, id: RequestId) -> Option<&Charge> {
        self.key(id).map(|key| &self.charges[key as usize].1)
    }

    pub(super) fn find_mut(&mut self, id: RequestId) -> Option<&mut Charge> {
        self.key(id).map(|key| &mut self.charges[key as usize].1)
    }

    /// A request that came.
    pub(super) fn add(&mut self, id: RequestId, charge: Charge) {
        let key = self.charges.insert((id, Charge { sequence: self.came, ..charge }));
        self.came += 1;
        self.by_id.insert(u64::from(id), key as u32);
    }

    /// A request that came became part of a waiting one, with which the reference disk is done then.
    pub(super) fn merge(&mut self, into: RequestId, service: Nanos, reference_done: Nanos) {
        if let Some(charge) = self.find_mut(into) {
            charge.service += service;
            charge.parts += 1;
            charge.reference_done = charge.reference_done.max(reference_done);
        }
    }

    /// A waiting request became part of another.
    pub(super) fn absorb(&mut self, into: RequestId, absorbed: RequestId) {
        let Some(absorbed) = self.remove(absorbed) else { return };
        if let Some(charge) = self.find_mut(into) {
            charge.service += absorbed.service;
            charge.parts += absorbed.parts;
            charge.sequence = charge.sequence.min(absorbed.sequence);
            charge.reference_done = charge.reference_done.max(absorbed.reference_done);
        }
    }

    pub(super) fn remove(&mut self, id: RequestId) -> Option<Charge> {
        let key = self.key(id)?;
        self.by_id.remove(u64::from(id), key);
        Some(self.charges.remove(key as usize).1)
    }
}
