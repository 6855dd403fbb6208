//! How many requests may be at the device at once, and how long before its due time a request must be dispatched.
//!
//! A request at the device cannot be preempted: one at its latest start waits there behind all earlier ones. But a device with a short
//! queue has less throughput. The limit is learned from requests that complete later than on their reference disk: those that spent most of
//! the time at the device lower it; those that waited to be dispatched, of volumes that are behind, raise it. It is at least one request
//! per disk.

use super::charges::Charge;
use crate::decay::DecayingMean;
use crate::{Nanos, Request};

/// Sectors that count as one request; a larger one counts several times. A disk transfers them in about the time of a seek.
const SECTORS_PER_REQUEST: u32 = 256;
/// Fraction of a request in which the limit is kept.
const PARTS: u64 = 1 << 20;
/// Ratio of its steps down to its steps up; it settles where about one in a hundred requests is late.
const CAUTION: u64 = 128;
/// Upper bound of the limit.
const MOST: u64 = 1_024;
/// Rate of change of the limit, per second of a reference disk.
const PARTS_PER_S: u64 = 8 * PARTS;
const SECOND: u64 = 1_000_000_000;
/// Decayed sums of times are halved beyond this.
const ENOUGH: u64 = 1 << 30;

pub(super) struct Pacing {
    /// The configured limit; 0: learned.
    set: u32,
    /// Disks in the device; `None` without a roster.
    disks: Option<u32>,
    /// The learned limit, in [`PARTS`].
    learned: u64,
    in_flight: u32,
    /// Requests in flight, and the expected time for which they keep the device busy.
    count: u32,
    work: Nanos,
    /// Volume and time of the last completion, and of the last one of another volume.
    done: [(usize, Nanos); 2],
    last_completion: Nanos,
    response: DecayingMean,
    busy: DecayingMean,
    /// Time on the reference disks and on this device for the same requests, decayed.
    reference_time: u64,
    device_time: u64,
}

impl Pacing {
    pub(super) fn new(set: u32, disks: Option<u32>) -> Pacing {
        Pacing {
            set,
            disks,
            learned: 2 * u64::from(disks.unwrap_or(1)) * PARTS,
            in_flight: 0,
            count: 0,
            work: Nanos::ZERO,
            done: [(usize::MAX, Nanos::ZERO); 2],
            last_completion: Nanos::ZERO,
            response: DecayingMean::default(),
            busy: DecayingMean::default(),
            reference_time: 0,
            device_time: 0,
        }
    }

    pub(super) fn set(&mut self, set: u32) {
        self.set = set;
    }

    /// The load of a request, in requests.
    pub(super) fn load_of(request: &Request) -> u32 {
        if request.op.transfers() { 1 + request.sectors / SECTORS_PER_REQUEST } else { 1 }
    }

    /// Largest load in flight.
    fn limit(&self) -> u32 {
        match self.disks {
            None => u32::MAX,
            Some(_) if self.set > 0 => self.set,
            Some(_) => (self.learned / PARTS) as u32,
        }
    }

    /// Whether another request may be dispatched.
    pub(super) fn has_room(&self) -> bool {
        self.in_flight < self.limit()
    }

    /// Whether the device has no requests.
    pub(super) fn is_idle(&self) -> bool {
        self.in_flight == 0
    }

    /// How long before its due time a request should be dispatched: the service time of a disk. With several disks that is the time of the
    /// device times their number, if all are busy.
    pub(super) fn lead(&self) -> Nanos {
        Nanos(self.response.mean().min(self.busy.mean() * u64::from(self.disks.unwrap_or(1))))
    }

    /// Whether another volume had requests there since then; this one has `at_device` now.
    pub(super) fn had_others(&self, since: Nanos, volume: usize, at_device: u32) -> bool {
        let other = self.done[usize::from(self.done[0].0 == volume)];
        self.count > at_device || other.1 > since
    }

    /// Number of requests in flight.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// Expected time for which the device is busy with the requests in flight.
    pub(super) fn work(&self) -> Nanos {
        self.work
    }

    /// The part of a request's time at the device that was not spent behind earlier ones: without their work or, if that is unknown, in
    /// proportion to those likely to be on the same disk.
    pub(super) fn own_part(&self, at_device: Nanos, (work, count): (Nanos, u32)) -> Nanos {
        let disks = u64::from(self.disks.unwrap_or(1));
        (at_device - work).min(Nanos(at_device.0 / (disks + u64::from(count)) * disks))
    }

    pub(super) fn sent(&mut self, load: u32, work: Nanos) {
        self.in_flight = self.in_flight.saturating_add(load);
        self.count += 1;
        self.work += work;
    }

    /// Records a completion, and returns how long the device was busy with the request: since the previous completion, as concurrent ones
    /// are not counted twice.
    pub(super) fn completed(&mut self, now: Nanos, charge: &Charge, dispatched: Nanos) -> Nanos {
        self.in_flight = self.in_flight.saturating_sub(charge.load);
        self.count = self.count.saturating_sub(1);
        self.work = self.work - charge.work;
        if self.done[0].0 != charge.volume {
            self.done[1] = self.done[0];
        }
        self.done[0] = (charge.volume, now);
        let since = self.last_completion.max(dispatched);
        self.last_completion = now;
        now - since
    }

    /// Adjusts the limit after a completion of a volume with a guarantee.
    pub(super) fn learn(&mut self, now: Nanos, dispatched: Nanos, charge: &Charge, is_behind: bool, device_time: Nanos) {
        let (waited, response) = ((dispatched - charge.arrival).0, (now - dispatched).0);
        let least = u64::from(self.disks.unwrap_or(1)) * PARTS;
        // Weighted by reference time, so that all volumes have the same influence, however small their requests.
        let step = charge.service.0.min(SECOND) * PARTS_PER_S / SECOND;
        if waited + response > charge.allowed.0 {
            if response >= waited {
                self.learned = self.learned.saturating_sub(step);
            } else if is_behind {
                self.learned += step;
            }
        } else if response < charge.allowed.0 / 4 && 2 * u64::from(self.in_flight + 1) * PARTS >= self.learned {
            // A limit that is not reached shows nothing about a higher one.
            self.learned += step / CAUTION;
        }
        self.learned = self.learned.clamp(least, MOST * PARTS);
        self.response.add(response);
        self.busy.add(device_time.0);
        self.reference_time = self.reference_time.saturating_add(charge.service.0);
        self.device_time = self.device_time.saturating_add(device_time.0);
        if self.device_time > ENOUGH {
            (self.reference_time, self.device_time) = (self.reference_time / 2, self.device_time / 2);
        }
    }

    /// Time on the reference disks for work that takes `device_time` on this device.
    pub(super) fn in_reference_time(&self, device_time: Nanos) -> Nanos {
        if self.device_time == 0 {
            return device_time;
        }
        let time = u128::from(device_time.0) * u128::from(self.reference_time) / u128::from(self.device_time);
        Nanos(u64::try_from(time).unwrap_or(u64::MAX))
    }
}
