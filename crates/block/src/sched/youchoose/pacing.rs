//! How much may be at the device at once, and how long before its due time a request must go there.
//!
//! What a device took cannot be called back: a request at its last moment waits there behind all that went before. But a device with
//! little to do serves less. How much it should have is learned from requests that are done later than their reference disk would have
//! been: those that spent most of the time at the device ask for less, and those that waited to get there, of volumes that are behind,
//! ask for more. Never is it less than one for each disk.

use super::charges::Charge;
use crate::decay::DecayingMean;
use crate::{Nanos, Request};

/// What counts as one request; a larger one counts more often. Disks transfer so much in about the time that they need to get there.
const SECTORS_OF_ONE: u32 = 256;
/// The limit is kept in parts of a request.
const PARTS: u64 = 1 << 20;
/// It grows by so much less where all are in time as it moves where they are not: that about one in a hundred is late is what it settles at.
const CAUTION: u64 = 128;
/// The largest limit.
const MOST: u64 = 1_024;
/// By how many parts of a request the limit may move in a second of a reference disk.
const PARTS_PER_S: u64 = 8 * PARTS;
const SECOND: u64 = 1_000_000_000;
/// Decayed sums of times are halved at this one.
const ENOUGH: u64 = 1 << 30;

pub(super) struct Pacing {
    /// As it was set; 0: learned.
    set: u32,
    /// Disks in the device; `None`: nobody is on the roster.
    disks: Option<u32>,
    /// The limit that was learned, in [`PARTS`].
    learned: u64,
    in_flight: u32,
    /// Requests in flight, and for how long the device will be busy with them.
    count: u32,
    work: Nanos,
    /// The last volume of which something was done, and when; and the same of the last other one.
    done: [(usize, Nanos); 2],
    last_completion: Nanos,
    response: DecayingMean,
    busy: DecayingMean,
    /// Time of reference disks and of this device for the same requests, decayed.
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

    /// As how many requests a request counts.
    pub(super) fn load_of(request: &Request) -> u32 {
        if request.op.transfers() { 1 + request.sectors / SECTORS_OF_ONE } else { 1 }
    }

    /// How many may be in flight.
    fn limit(&self) -> u32 {
        match self.disks {
            None => u32::MAX,
            Some(_) if self.set > 0 => self.set,
            Some(_) => (self.learned / PARTS) as u32,
        }
    }

    /// Whether one more may go.
    pub(super) fn has_room(&self) -> bool {
        self.in_flight < self.limit()
    }

    /// Whether nothing is there.
    pub(super) fn is_idle(&self) -> bool {
        self.in_flight == 0
    }

    /// How long before its due time a request should go to the device: what a disk needs for one. Where several work side by side, and all
    /// have to, that is as many times what the device needs.
    pub(super) fn lead(&self) -> Nanos {
        Nanos(self.response.mean().min(self.busy.mean() * u64::from(self.disks.unwrap_or(1))))
    }

    /// Whether anything of another volume was there since then; this one has so many requests there.
    pub(super) fn had_others(&self, since: Nanos, volume: usize, at_device: u32) -> bool {
        let other = self.done[usize::from(self.done[0].0 == volume)];
        self.count > at_device || other.1 > since
    }

    /// Requests there.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// For how long the device will be busy with what is there.
    pub(super) fn work(&self) -> Nanos {
        self.work
    }

    /// What of the time that a request was at the device it was there for itself, and not behind the others that it found: at least their
    /// work was before it, or if that is not known as many of them as are likely to be at the same disk.
    pub(super) fn of_one(&self, at_device: Nanos, (work, count): (Nanos, u32)) -> Nanos {
        let disks = u64::from(self.disks.unwrap_or(1));
        (at_device - work).min(Nanos(at_device.0 / (disks + u64::from(count)) * disks))
    }

    pub(super) fn sent(&mut self, load: u32, work: Nanos) {
        self.in_flight = self.in_flight.saturating_add(load);
        self.count += 1;
        self.work += work;
    }

    /// A request is done. Says for how long the device was busy with it: of what it does side by side, each counts from when the one before
    /// was done.
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

    /// A request of a volume with a promise is done.
    pub(super) fn learn(&mut self, now: Nanos, dispatched: Nanos, charge: &Charge, is_behind: bool, device_time: Nanos) {
        let (waited, response) = ((dispatched - charge.arrival).0, (now - dispatched).0);
        let least = u64::from(self.disks.unwrap_or(1)) * PARTS;
        // Each volume has as much say as the other, however small its requests are.
        let step = charge.service.0.min(SECOND) * PARTS_PER_S / SECOND;
        if waited + response > charge.allowed.0 {
            if response >= waited {
                self.learned = self.learned.saturating_sub(step);
            } else if is_behind {
                self.learned += step;
            }
        } else if response < charge.allowed.0 / 4 && 2 * u64::from(self.in_flight + 1) * PARTS >= self.learned {
            // A limit that nobody comes near is no evidence that more would do no harm.
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

    /// What reference disks take for what this device does in so much time.
    pub(super) fn in_reference_time(&self, device_time: Nanos) -> Nanos {
        if self.device_time == 0 {
            return device_time;
        }
        let time = u128::from(device_time.0) * u128::from(self.reference_time) / u128::from(self.device_time);
        Nanos(u64::try_from(time).unwrap_or(u64::MAX))
    }
}
