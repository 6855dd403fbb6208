//! Holds back tenants that used their share while others may return, as far as that helps the others.

use super::Fairio;
use crate::Nanos;

/// A process is waited for until this time after its last completion, as in CFQ's `slice_idle`.
const LINGER: Nanos = Nanos::from_millis(8);

/// Tenants that may return get this multiple of the time that the device needs for the cycle and for the requests in flight.
const PATIENCE: u64 = 2;

/// Lower bound of the limit, so that the device is not idle while requests wait.
const LEAST: u32 = 1;

/// The limit is lowered by one part in this many when a tenant gets ahead.
const FEWER: u32 = 8;

/// A period in which tenants that used their share are held back because others may return.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hold {
    since: Nanos,
    /// End of the time granted to the others.
    until: Nanos,
    /// The tenant that is furthest behind, and its charges during the hold in nanoseconds.
    awaited: usize,
    charged: u64,
    /// The limit before the first hold of this cycle.
    floor: u32,
    /// Whether a tenant that used its share was refused.
    has_refused: bool,
    /// Whether a tenant that used its share got far ahead.
    is_unfair: bool,
}

impl Hold {
    pub(super) fn has_refused(&self) -> bool {
        self.has_refused
    }
}

impl Fairio {
    /// Accounts for a dispatch during a hold. If the tenant has no share left and is far ahead of others, these have to wait for its
    /// requests in flight, so the limit is lowered.
    pub(super) fn count_while_held(&mut self, number: usize, has_share: bool, charged: u64) {
        let at_device = u32::try_from(self.flights.len()).unwrap_or(u32::MAX);
        let Some(hold) = &mut self.hold else { return };
        if number == hold.awaited {
            hold.charged = hold.charged.saturating_add(charged);
        }
        if !has_share && self.accounts.is_far_ahead(number) {
            hold.is_unfair = true;
            let floor = self.floor.min(at_device);
            self.floor = floor.saturating_sub(floor / FEWER + 1).max(LEAST);
        }
    }

    /// Records that a tenant without share left was refused.
    pub(super) fn refuse(&mut self) {
        if let Some(hold) = &mut self.hold {
            hold.has_refused = true;
        }
    }

    /// Ends the hold with the cycle. If no tenant got ahead, the limit is raised by one.
    pub(super) fn end_hold(&mut self) {
        let is_too_low = match self.hold.take() {
            Some(hold) => hold.has_refused && !hold.is_unfair,
            None => self.floor < self.set.storage_load_threshold,
        };
        self.floor = self.floor.saturating_add(u32::from(is_too_low));
    }

    /// A hold for a tenant from `now` on.
    fn hold_from(&self, now: Nanos, awaited: usize) -> Hold {
        let work = self.accounts.service().saturating_add(self.flights.charged());
        let until = now + Nanos(self.rate.time_for(work.saturating_mul(PATIENCE)));
        let floor = self.hold.map_or(self.floor, |hold| hold.floor);
        Hold { since: now, until, awaited, charged: 0, floor, has_refused: false, is_unfair: false }
    }

    /// The time until which to wait for a tenant with share left and nothing queued; `None` if none is worth waiting for.
    pub(super) fn await_return(&mut self, now: Nanos) -> Option<Nanos> {
        while let Some(number) = self.accounts.away_with_share() {
            let limit = self.hold.get_or_insert(self.hold_from(now, number)).until;
            if now >= limit {
                if !self.extend_hold(now, number) {
                    self.accounts.record_unused_share(number, self.set.window_cycles);
                    self.accounts.leave(number);
                    // Others may use the share.
                    self.hold = None;
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
                self.accounts.record_unused_share(number, self.set.window_cycles);
            }
            self.accounts.leave(number);
        }
        None
    }

    /// Extends the hold beyond its end, with half the limit, unless that is at its minimum already and the awaited tenant still received
    /// less than its share of the usual disk time. Returns whether the hold was extended.
    fn extend_hold(&mut self, now: Nanos, number: usize) -> bool {
        let Some(hold) = self.hold else { return false };
        let usual = self.rate.work_in((now - hold.since).0);
        if self.floor <= LEAST && hold.awaited == number && hold.charged < self.accounts.part_of(number, usual) {
            // The hold did not help.
            self.floor = hold.floor;
            return false;
        }
        self.floor = (self.floor / 2).max(LEAST);
        self.hold = Some(self.hold_from(now, number));
        true
    }
}
