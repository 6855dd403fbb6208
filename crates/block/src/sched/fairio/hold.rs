//! Who had its share is held while others may come back for theirs, but only as far as that helps them and costs the disks nothing.

use super::Fairio;
use crate::Nanos;

/// A process that asks again after its request was done does so within this time, or it is not waited for: CFQ's `slice_idle`.
const LINGER: Nanos = Nanos::from_millis(8);

/// Those who may come back have so many times the time to use their share, while others are held, that all disks would need for the cycle
/// and for what is at the device.
const PATIENCE: u64 = 2;

/// Where somebody got ahead, this part fewer is kept at the device.
const FEWER: u32 = 8;

/// Those who had their share are held, because others may come back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hold {
    since: Nanos,
    /// When these had enough time.
    until: Nanos,
    /// What they were charged meanwhile, in nanoseconds.
    others: u64,
    /// Somebody who had its share could have gone.
    has_refused: bool,
    /// Somebody got far ahead.
    is_unfair: bool,
}

impl Fairio {
    /// A request went to the device. If it is of somebody who had so much already that others will not soon come to as much, they wait for
    /// it in the device: fewer will do.
    pub(super) fn count_while_held(&mut self, number: usize, has_share: bool, charged: u64) {
        let (least, at_device) = (self.least_floor(), u32::try_from(self.flights.len()).unwrap_or(u32::MAX));
        let Some(hold) = &mut self.hold else { return };
        if has_share {
            hold.others += charged;
        } else if self.accounts.is_far_ahead(number) {
            hold.is_unfair = true;
            let floor = self.floor.min(at_device);
            self.floor = floor.saturating_sub(floor / FEWER + 1).max(least);
        }
    }

    /// Somebody who had its share is not let to the device.
    pub(super) fn refuse(&mut self) {
        if let Some(hold) = &mut self.hold {
            hold.has_refused = true;
        }
    }

    /// The cycle is over. Where nobody got ahead, one request more can be kept at the device the next time.
    pub(super) fn end_hold(&mut self) {
        let is_too_low = match self.hold.take() {
            Some(hold) => hold.has_refused && !hold.is_unfair,
            None => self.floor < self.set.storage_load_threshold,
        };
        self.floor = self.floor.saturating_add(u32::from(is_too_low));
    }

    /// One request for each disk keeps them at work, if one is lucky.
    fn least_floor(&self) -> u32 {
        self.disks().min(self.set.storage_load_threshold)
    }

    /// Holds those who had their share, from now on if they are not held yet.
    pub(super) fn hold(&mut self, now: Nanos) {
        self.hold = Some(self.hold.unwrap_or_else(|| self.hold_from(now)));
    }

    /// How long those have who may come back, from `now` on.
    fn hold_from(&self, now: Nanos) -> Hold {
        let service = self.accounts.service().saturating_add(self.flights.charged()) / u64::from(self.disks());
        let until = now + Nanos(service.saturating_mul(PATIENCE));
        Hold { since: now, until, others: 0, has_refused: false, is_unfair: false }
    }

    /// Whether somebody with share left and nothing waiting is worth waiting for, and until when.
    pub(super) fn is_about_to_come_back(&mut self, now: Nanos) -> Option<Nanos> {
        while let Some(number) = self.accounts.away_with_share() {
            let limit = self.hold.unwrap_or_else(|| self.hold_from(now)).until;
            if now >= limit {
                if !self.waits_on(now, number) {
                    self.give_up_waiting();
                }
                continue;
            }
            let class = self.accounts.class_mut(number);
            if class.at_device > 0 {
                return Some(limit);
            }
            let back_by = class.last_seen + LINGER;
            if now < back_by {
                return Some(back_by.min(limit));
            }
            if self.accounts.used_less_than_half(number) {
                self.accounts.could_not_use_its_share(number, self.set.window_cycles);
            }
            self.accounts.leave(number);
        }
        None
    }

    /// Those who may come back had enough time. Whether they get some more: because fewer requests of others can be kept at the device, or
    /// because they use the disks as much as their weights ask for, and so will come to their share.
    fn waits_on(&mut self, now: Nanos, number: usize) -> bool {
        let Some(hold) = self.hold else { return false };
        let least = self.least_floor();
        let elapsed = (now - hold.since).0.saturating_mul(u64::from(self.disks()));
        if self.floor <= least && hold.others < self.accounts.part_of(number, elapsed) {
            return false;
        }
        self.floor = (self.floor / 2).max(least);
        self.hold = Some(self.hold_from(now));
        true
    }

    /// Those who could have come back did not use their share though they had time.
    fn give_up_waiting(&mut self) {
        while let Some(number) = self.accounts.away_with_share() {
            self.accounts.could_not_use_its_share(number, self.set.window_cycles);
            self.accounts.leave(number);
        }
    }
}
