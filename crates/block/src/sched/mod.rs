//! Every I/O scheduler, one file each. A new one is a file with a `SPEC` and a line in [`ALL`].

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::{Nanos, Request, RequestId, Tunable};

mod noop;

/// What a scheduler did with a request it was given. The host must know of merges, for one completion then ends several requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Insertion {
    /// It waits in the queue under its own id.
    Queued,
    /// It became part of the queued request `into`, whose completion completes it too.
    Merged {
        /// The request that grew.
        into: RequestId,
        /// A queued request that `into` now touches and has swallowed as well, with all its parts.
        absorbed: Option<RequestId>,
    },
}

/// A scheduler's answer to "what goes to the device next?".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    /// This one, which leaves the queue.
    Go(Request),
    /// Something waits, but leaving the device alone until then serves better. Ask again at that time (always later than
    /// `now`), or as soon as a request arrives or completes.
    WaitUntil(Nanos),
    /// Nothing waits.
    Empty,
}

/// Decides which request goes to the device next.
///
/// The host calls [`insert`](Scheduler::insert) as requests arrive, [`pick`](Scheduler::pick) whenever the device has room, and
/// [`completed`](Scheduler::completed) when one is done. `now` never runs backwards.
pub trait Scheduler: Send {
    /// Takes a request in.
    fn insert(&mut self, now: Nanos, request: Request) -> Insertion;

    /// Says what goes to the device next.
    fn pick(&mut self, now: Nanos) -> Pick;

    /// Learns that a request it picked is done; `service` is the time since the device took it.
    fn completed(&mut self, now: Nanos, request: &Request, service: Nanos) {
        let _ = (now, request, service);
    }

    /// Takes new values for its tunables, in the order of [`Spec::tunables`] and within their ranges.
    fn retune(&mut self, values: &[i64]);

    /// Hands every queued request over to a successor, in the order in which it would have taken them in.
    /// Requests at the device are the host's affair; their [`completed`](Scheduler::completed) no longer comes here.
    fn drain(&mut self, out: &mut Vec<Request>);
}

/// A scheduler as the rest of the program sees it before there is one.
#[derive(Debug)]
pub struct Spec {
    /// What a person types.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// The paper or kernel file it follows.
    pub source: &'static str,
    /// Its parameters.
    pub tunables: &'static [Tunable],
    /// Makes one; the values stand in the order of `tunables`.
    pub build: fn(&[i64]) -> Box<dyn Scheduler>,
}

/// All schedulers.
pub static ALL: &[&Spec] = &[&noop::SPEC];
