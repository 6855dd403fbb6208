//! Requests at the device, and what they were charged.

use slab::Slab;

use crate::hash_index::HashIndex;
use crate::{Nanos, RequestId};

/// A request at the device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    /// Whose it is.
    pub(super) number: usize,
    /// What it was charged when it went there, in nanoseconds of disk time.
    pub(super) charged: u64,
    /// That stands, whatever it takes.
    pub(super) is_final: bool,
    /// When it went there.
    pub(super) since: Nanos,
}

/// All of them, by the host's number.
#[derive(Default)]
pub(super) struct Flights {
    flights: Slab<Flight>,
    charged: u64,
    by_id: HashIndex,
}

impl Flights {
    pub(super) fn len(&self) -> usize {
        self.flights.len()
    }

    /// What they were charged together, in nanoseconds.
    pub(super) fn charged(&self) -> u64 {
        self.charged
    }

    pub(super) fn begin(&mut self, id: RequestId, flight: Flight) {
        // Who gave the same number twice forgot to say that the first one is done.
        self.end(id);
        self.charged = self.charged.saturating_add(flight.charged);
        let slot = self.flights.insert(flight);
        self.by_id.insert(u64::from(id), slot as u32);
    }

    /// It is done. `None`: it never went there.
    pub(super) fn end(&mut self, id: RequestId) -> Option<Flight> {
        let slot = self.by_id.get(u64::from(id)).next()?;
        self.by_id.remove(u64::from(id), slot);
        let flight = self.flights.remove(slot as usize);
        self.charged = self.charged.saturating_sub(flight.charged);
        Some(flight)
    }
}
