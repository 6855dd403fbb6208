//! The capacity of a device, and the part of it that a guarantee needs: the one notion behind `guarantee`, `place`, the report of tenants and
//! the contracts that are drawn. [`need`] has its three parts: work, time, and the wait for one request of a neighbour. The work:
//!
//! ```text
//!                 work of the host's units for the load, at the pace at which its reference disk serves it
//!  work  =  ───────────────────────────────────────────────────────────────────────────────────────────────────
//!                       work that these units do at most, saturated with such requests
//! ```
//! A *unit* is what serves one thing at a time: the arm of a disk, a member of an array, a die, a channel, the port of a limited volume. How
//! many there are is not counted. It is measured how much work they do ([`Completion::work`](sim::device::Completion::work)) while the
//! host is saturated with requests like those of the load: at one outstanding request, at four, at sixteen, and so on until they do no
//! more. Therefore:
//!
//! * A device needs all of itself for a load that saturates it, however many units it has, and never more.
//! * One request at a time on eight disks or on sixteen dies needs the part of one unit.
//! * Requests that are cheaper together are charged what they cost at the load's own depth: a reader of one request at a time makes the
//!   arm seek for each, and has all of the arm, though 32 of its requests in the order of their sectors would take half the time.
//! * What limits is what saturates: a link, a channel, the parity of an array, or the rate of a limited volume need no rule of their own.
//!
//! What units do not report (a link, the rate of a limited volume) shows in the requests that are served: a load needs the part that it has of
//! the units' work, or of the requests that are served at most, whichever is more. Of a device that reports no work the second counts alone.
//!
//! The units' most is taken over requests as they are and over those that the queue has merged: sequential requests become so large at a
//! depth that a link is saturated before dies that a single one keeps at work.
//!
//! A load that shares the device is charged what its requests cost beside a neighbour's ([`serve_beside`]), where that is more than alone.

pub mod need;
mod recorded;
mod serve;

pub use need::{Need, Needs, Service};
pub use recorded::{Again, Recorded};
pub use serve::{Extent, Rates, Wanted, serve, serve_beside};

use std::sync::atomic::AtomicBool;

use block::Merges;
use progress::monitor::Interrupted;
use sim::host::{Queue, QueueSettings};
use sim::profile::{DeviceOptions, Profile};

use crate::reference_disk::spec;

/// Outstanding requests at which a device is tried: up to what Linux's queue holds (`nr_requests` of a disk with a scheduler).
const DEPTHS: [usize; 5] = [1, 4, 16, 64, 256];
/// A device is saturated when this many times as much outstanding brings less than this growth.
const GROWTH: f64 = 1.02;

/// The most that a device does of such requests.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Saturation {
    /// Seconds of its units' work for each second; 0 if it does not report work.
    work: f64,
    /// Requests for each second.
    requests: f64,
}

/// Saturates a device that `build` makes, behind a queue that merges so, with requests that `wanted` makes, the same ones at every depth.
/// `own` is what it does of the load itself, which may be more than at any of the depths.
///
/// # Errors
/// It was interrupted.
pub fn saturation<W: Wanted>(
    build: impl Fn(Merges) -> Queue,
    wanted: impl Fn() -> W,
    own: &Rates,
    extent: Extent,
    stop: &AtomicBool,
) -> Result<Saturation, Interrupted> {
    let mut most = Saturation { work: own.work, requests: own.requests };
    for merges in [Merges::All, Merges::Never] {
        // Apart from the load's own rates, which shallower queues do not reach.
        let mut deepest = Saturation::default();
        for depth in DEPTHS {
            let here = serve(build(merges), wanted(), depth, extent, stop)?;
            let grows = here.work > GROWTH * deepest.work || here.requests > GROWTH * deepest.requests;
            deepest = Saturation { work: deepest.work.max(here.work), requests: deepest.requests.max(here.requests) };
            if !grows {
                break;
            }
        }
        most = Saturation { work: most.work.max(deepest.work), requests: most.requests.max(deepest.requests) };
    }
    Ok(most)
}

impl Saturation {
    /// The part of the device's work that a load needs with `pace` requests per second and `work` seconds of its units' work for each (0 if
    /// they do not report it).
    pub fn need(&self, pace: f64, work: f64) -> f64 {
        let part = |of: f64, most: f64| if most > 0.0 { of / most } else { 0.0 };
        part(pace * work, self.work).max(part(pace, self.requests))
    }
}

/// A disk at rest behind the queue in which loads are compared with their reference disks.
pub fn host(profile: &Profile, options: DeviceOptions, settings: QueueSettings) -> Queue {
    let scheduler = (spec().build)(&settings.limits(), &spec().defaults());
    Queue::new(scheduler, profile.build(options), settings)
}

#[cfg(test)]
mod tests;
