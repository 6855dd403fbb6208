//! Requests in flight, and their charges.

use crate::by_request::ByRequest;
use crate::{Nanos, RequestId};

/// A request in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    /// The tenant.
    pub(super) number: usize,
    /// Charge on dispatch, in nanoseconds of disk time.
    pub(super) charged: u64,
    /// The charge is final and does not depend on the request's actual time.
    pub(super) is_final: bool,
    /// Dispatch time.
    pub(super) since: Nanos,
}

/// All requests in flight, by the host's id.
#[derive(Default)]
pub(super) struct Flights {
    flights: ByRequest<Flight>,
    charged: u64,
}

impl Flights {
    pub(super) fn len(&self) -> usize {
        self.flights.len()
    }

    /// Total charge, in nanoseconds.
    pub(super) fn charged(&self) -> u64 {
        self.charged
    }

    pub(super) fn begin(&mut self, id: RequestId, flight: Flight) {
        // A host that reuses an id did not report the first request's completion.
        self.end(id);
        self.charged = self.charged.saturating_add(flight.charged);
        self.flights.insert(id, flight);
    }

    /// Renumbers tenants, and forgets the requests of those without a new number.
    pub(super) fn renumber(&mut self, number: impl Fn(usize) -> Option<usize>) {
        for (id, flight) in core::mem::take(self).flights.into_entries() {
            if let Some(number) = number(flight.number) {
                self.begin(id, Flight { number, ..flight });
            }
        }
    }

    /// Removes a completed request; `None` if it is unknown.
    pub(super) fn end(&mut self, id: RequestId) -> Option<Flight> {
        let flight = self.flights.remove(id)?;
        self.charged = self.charged.saturating_sub(flight.charged);
        Some(flight)
    }
}
