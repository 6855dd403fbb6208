//! What a plant tells while it runs.

use block::{Nanos, Request};

/// Something happened to a request of the block layer. Events come in the order of their times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A request reached the queue at its [`arrival`](Request::arrival), before it was merged or split.
    Queued(Request),
    /// A request as it was queued is done.
    Completed {
        /// As it was queued; its id means nothing.
        request: Request,
        /// When its last part went to the device.
        dispatched: Nanos,
        /// When its last part was done.
        at: Nanos,
    },
    /// A process asked for something, above the block layer: it called read, write or fsync. A plant that cannot see that tells
    /// neither this nor [`Event::Returned`]; windows are judged by requests then.
    Called(Nanos),
    /// It has what it asked for.
    Returned {
        /// What was read or written for it.
        bytes: u64,
        /// When.
        at: Nanos,
    },
}

impl Event {
    /// When it happened.
    pub fn at(&self) -> Nanos {
        match self {
            Event::Queued(request) => request.arrival,
            Event::Completed { at, .. } | Event::Called(at) | Event::Returned { at, .. } => *at,
        }
    }
}
