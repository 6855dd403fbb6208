//! What a device is expected to take for a request.

use crate::{Nanos, Request};

/// Knowledge about a device: a request in, its expected service time out.
///
/// A scheduler that plans ahead or shares a device by time asks it about requests that it might send; the learned device takes it for
/// its own behaviour. Asking changes nothing, so the same knowledge may be asked about many requests before one of them goes.
pub trait ServiceTime: Send {
    /// How long the device is expected to take for `request` if `previous` is what it served before and nothing else is in it; `None`:
    /// it has served nothing yet.
    fn expected(&self, previous: Option<&Request>, request: &Request) -> Nanos;
}

/// Every request takes the same.
impl ServiceTime for Nanos {
    fn expected(&self, _previous: Option<&Request>, _request: &Request) -> Nanos {
        *self
    }
}
