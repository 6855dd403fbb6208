//! The capacity of a device, and the part of it that a guarantee needs. `guarantee`, `place`, the report of tenants and the randomly
//! generated contracts share this definition. [`need`] has its three parts: work, time, and the wait for one request of a neighbour. The
//! work:
//!
//! ```text
//!                 work of the host's units for the load, at the pace at which its reference disk serves it
//!  work  =  ───────────────────────────────────────────────────────────────────────────────────────────────────
//!                       work that these units do at most, saturated with such requests
//! ```
//! A *unit* serves one thing at a time: the arm of a disk, a member of an array, a die, a channel, the port of a limited volume. Units
//! are not counted. Instead, their total work ([`Completion::work`](sim::device::Completion::work)) is measured while the host is
//! saturated with requests like those of the load: with one request outstanding, with four, with sixteen, and so on until work stops
//! growing. Therefore:
//!
//! * A load that saturates a device needs all of it, never more, however many units the device has.
//! * One request at a time on eight disks or on sixteen dies needs the part of one unit.
//! * Requests that are cheaper in batches are charged their cost at the load's own depth: a reader of one request at a time makes the
//!   arm seek for each, and needs all of the arm, though 32 of its requests in the order of their sectors would take half the time.
//! * The bottleneck is the part that saturates: a link, a channel, the parity of an array, or the rate of a limited volume need no special rule.
//!
//! Bottlenecks that report no work (a link, the rate of a limited volume) show in the request rate: a load needs its part of the units'
//! work or its part of the maximum request rate, whichever is larger. For a device that reports no work only the latter counts.
//!
//! The maximum is taken with and without merging in the queue: merged sequential requests become so large at depth that a link is
//! saturated before dies that a single one keeps at work.
//!
//! A load that shares the device is charged the cost of its requests between a neighbour's ([`serve_with_neighbour`]), if that is higher than alone.

pub mod need;
mod recorded;
mod serve;

pub use need::{Need, Needs, Service};
pub use recorded::{Again, Recorded};
pub use serve::{Extent, Rates, Wanted, serve, serve_with_neighbour};

use std::sync::atomic::AtomicBool;

use block::Merges;
use progress::monitor::Interrupted;
use sim::host::{Queue, QueueSettings};
use sim::profile::{DeviceOptions, Profile};

use crate::reference_disk::spec;

/// Outstanding requests to measure with: up to the capacity of Linux's queue (`nr_requests` of a disk with a scheduler).
const DEPTHS: [usize; 5] = [1, 4, 16, 64, 256];
/// A device is saturated when the next depth brings less than this factor of growth.
const GROWTH: f64 = 1.02;

/// The maximum service of a device with requests of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Saturation {
    /// Seconds of its units' work per second; 0 if the device does not report work.
    work: f64,
    /// Requests per second.
    requests: f64,
}

/// Measures the saturation of a device that `build` makes behind a queue with the given merging, with requests that `wanted` makes, the
/// same ones at every depth. `own` is the device's service of the load itself, which may exceed that at every depth.
///
/// # Errors
/// The measurement was interrupted.
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
    /// The part of the device that a load needs with `pace` requests per second and `work` seconds of its units' work for each (0 if they
    /// do not report it).
    pub fn need(&self, pace: f64, work: f64) -> f64 {
        let part = |of: f64, most: f64| if most > 0.0 { of / most } else { 0.0 };
        part(pace * work, self.work).max(part(pace, self.requests))
    }
}

/// A disk at rest behind the queue that is used to compare loads with their reference disks.
pub fn host(profile: &Profile, options: DeviceOptions, settings: QueueSettings) -> Queue {
    let scheduler = (spec().build)(&settings.limits(), &spec().defaults());
    Queue::new(scheduler, profile.build(options), settings)
}

#[cfg(test)]
mod tests;
