//! The disk time that each tenant received by weight, and which tenants have share left.
//!
//! ```text
//! ready    has requests, below the line         by the order of service
//! upheld   has requests, at the line            by disk time received
//! away     none queued, may return              by disk time received
//! gone     none queued, or at its limit         in no list; takes no part in cycles
//! ```
//! Every change takes logarithmic time in the number of tenants, and the start of a cycle touches only tenants that become ready in it.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::cycle::{STEP, round_up};
use super::stability::Stability;
use crate::Nanos;
use crate::cost::Cost;
use crate::sorted::SortedList;
use crate::tenants::ServiceTime;

/// Disk time by weight, with 32 fraction bits: nanoseconds of a tenant with a weight of 1.
type Virtual = u128;
const BITS: u32 = 32;

/// Maximum automatic cycle. Two such cycles are a second, over which users expect shares to hold; accounts are settled over all cycles, so
/// longer ones make no share more exact.
const LONGEST: u64 = 500_000_000;

/// A tenant is too far ahead if it has used this fraction (one in …) of the next share.
const AHEAD: u128 = 4;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Gone,
    Ready(u128),
    Upheld(u128),
    Away(u128),
}

/// The account of a tenant.
#[derive(Default)]
pub(super) struct Class {
    weight: u64,
    /// The disk time it received in all; and the last cycle in which it received some, with that amount.
    given: Virtual,
    given_in: (u64, Virtual),
    place: Place,
    pub(super) at_device: u32,
    /// Completion time of its last request.
    pub(super) last_seen: Nanos,
    /// Number of times in a row that it did not use its share, and the cycle from which on it is waited for again.
    failures: u32,
    waited_for_from: u64,
    pub(super) cost: Cost,
    stability: Stability,
    pub(super) model: Option<Box<dyn ServiceTime>>,
}

/// The accounts of all tenants, by number.
#[derive(Default)]
pub(super) struct Accounts {
    classes: Vec<Class>,
    ready: SortedList,
    upheld: SortedList,
    away: SortedList,
    /// Sum of the weights of active tenants.
    weight: u64,
    /// The average disk time received; the line up to which tenants may be served; and the sum of the weights when the line was set.
    now: Virtual,
    line: Virtual,
    line_weight: u64,
    /// The average when the line was set.
    began: Virtual,
    /// The service of this cycle in nanoseconds, its length with all disks busy, and its number.
    service: u64,
    length: u64,
    cycle: u64,
    /// The longest cycle service by weight that a tenant served in this cycle needs, and the same for the previous cycle.
    asked: [f64; 2],
}

fn by_weight(time: u64, weight: u64) -> Virtual {
    (u128::from(time) << BITS) / u128::from(weight.max(1))
}

fn key(given: Virtual, number: usize) -> u128 {
    // 96 bits hold 584 years of a tenant with a weight of 1.
    given.min((1 << 96) - 1) << 32 | number as u128
}

impl Accounts {
    pub(super) fn len(&self) -> usize {
        self.classes.len()
    }

    pub(super) fn class_mut(&mut self, number: usize) -> &mut Class {
        &mut self.classes[number]
    }

    /// Total disk time of this cycle, in nanoseconds.
    pub(super) fn service(&self) -> u64 {
        self.service
    }

    /// Number of a tenant's requests in flight.
    pub(super) fn at_device(&self, number: usize) -> u64 {
        self.classes.get(number).map_or(0, |class| u64::from(class.at_device))
    }

    /// Sum of the weights of the active tenants, including this one.
    pub(super) fn weight_with(&self, number: usize, weight: u64) -> u64 {
        let takes_part = self.classes.get(number).is_some_and(|class| class.place != Place::Gone);
        self.weight.saturating_add(if takes_part { 0 } else { weight })
    }

    /// Opens accounts up to this number.
    pub(super) fn open(&mut self, number: usize) {
        if self.classes.len() <= number {
            self.classes.resize_with(number + 1, Class::default);
        }
    }

    /// Gives accounts new numbers and weights, and forgets all others. `kept`: old number, new number and weight. Tenants with queued
    /// requests count as about to return until these are inserted again.
    pub(super) fn renumber(&mut self, kept: Vec<(usize, usize, u64)>) {
        let mut before = core::mem::take(&mut self.classes);
        (self.ready, self.upheld, self.away) = Default::default();
        self.weight = 0;
        for (from, to, weight) in kept {
            let Some(class) = before.get_mut(from).map(core::mem::take) else { continue };
            self.open(to);
            let is_active = class.place != Place::Gone;
            self.classes[to] = Class { weight: weight.max(1), place: Place::Gone, model: None, ..class };
            if is_active {
                self.weight = self.weight.saturating_add(weight.max(1));
                self.move_to(to, Place::Away(self.key(to)));
            }
        }
        self.line_weight = self.weight;
    }

    /// Registers an arrival, or that a tenant's limits allow a request again. `at_device`: charge of all requests in flight, in
    /// nanoseconds.
    pub(super) fn arrives(&mut self, number: usize, weight: u64, at_device: u64) {
        self.open(number);
        let class = &mut self.classes[number];
        if class.place != Place::Gone {
            return;
        }
        class.weight = weight.max(1);
        // Time that it did not request is lost, but requests in flight are not done yet; an excess remains.
        let done = self.now.saturating_sub(by_weight(at_device, self.weight));
        class.given = class.given.max(done);
        self.weight = self.weight.saturating_add(class.weight);
        // It takes part in the rest of the cycle, which must not become a multiple of its length.
        if self.weight / 2 > self.line_weight {
            let left = self.line.saturating_sub(self.now);
            self.line = self.now + left / u128::from(self.weight) * u128::from(self.line_weight);
            self.line_weight = self.weight;
        }
    }

    /// Moves a tenant to its list. `next`: the sort key of its next request; `None` if none is queued. It is served while its share is
    /// worth more than `least` requests.
    pub(super) fn settle(&mut self, number: usize, next: Option<u128>, least: u32) {
        let class = &self.classes[number];
        let place = match (next, class.place) {
            (Some(next), Place::Ready(_)) if class.given < self.line => Place::Ready(next),
            (Some(next), _) => {
                let threshold = class.cost.mean().map_or(0, |mean| (mean * f64::from(least)) as u64);
                let served_from = class.given + by_weight(threshold, class.weight);
                if served_from < self.line { Place::Ready(next) } else { Place::Upheld(key(served_from, number)) }
            }
            (None, Place::Gone) => Place::Gone,
            (None, _) if self.cycle < class.waited_for_from => return self.leave(number),
            (None, _) => Place::Away(key(class.given, number)),
        };
        self.move_to(number, place);
    }

    fn move_to(&mut self, number: usize, place: Place) {
        let before = core::mem::replace(&mut self.classes[number].place, place);
        if before == place {
            return;
        }
        match before {
            Place::Gone => {}
            Place::Ready(key) => self.ready.remove(key),
            Place::Upheld(key) => self.upheld.remove(key),
            Place::Away(key) => self.away.remove(key),
        }
        match place {
            Place::Gone => {}
            Place::Ready(key) => self.ready.insert(key, number as u32),
            Place::Upheld(key) => self.upheld.insert(key, number as u32),
            Place::Away(key) => self.away.insert(key, number as u32),
        }
    }

    /// Removes a tenant without queued requests, or at its limit, from the cycles.
    pub(super) fn leave(&mut self, number: usize) {
        if self.classes[number].place != Place::Gone {
            self.move_to(number, Place::Gone);
            self.weight -= self.classes[number].weight;
        }
    }

    /// Forgets the requests of a tenant after they were drained.
    pub(super) fn forget_requests(&mut self, number: usize) {
        self.classes[number].at_device = 0;
        self.leave(number);
    }

    /// Records that a tenant had time to use its share and did not: the number of cycles in which it is not waited for doubles each time,
    /// up to `window` of the shortest automatic cycle, so that a share is not forgone for longer if cycles are long.
    pub(super) fn record_unused_share(&mut self, number: usize, window: u32) {
        let in_time = u64::from(window).saturating_mul(STEP.0) / self.length.max(1);
        let most = u32::try_from(in_time).unwrap_or(u32::MAX).clamp(1, window);
        let class = &mut self.classes[number];
        let cycles = 1_u32.checked_shl(class.failures).unwrap_or(u32::MAX).min(most);
        class.failures = class.failures.saturating_add(1);
        class.waited_for_from = self.cycle + 1 + u64::from(cycles);
    }

    /// Charges disk time to a tenant; a negative time is a refund.
    pub(super) fn charge(&mut self, number: usize, time: i64) {
        let class = &mut self.classes[number];
        let (own, all) = (by_weight(time.unsigned_abs(), class.weight), by_weight(time.unsigned_abs(), self.weight));
        if time < 0 {
            class.given = class.given.saturating_sub(own);
            self.now = self.now.saturating_sub(all);
        } else {
            class.given += own;
            let before = if class.given_in.0 == self.cycle { class.given_in.1 } else { 0 };
            class.given_in = (self.cycle, before + own);
            self.now = (self.now + all).min(self.line.max(self.now));
        }
        if class.failures > 0 && !self.used_less_than_half(number) {
            // It can use its share after all, so its failures are reset.
            let class = &mut self.classes[number];
            (class.failures, class.waited_for_from) = (0, 0);
        }
    }

    pub(super) fn dispatched(&mut self, number: usize) {
        self.classes[number].at_device += 1;
    }

    /// Records a completion after `took` nanoseconds of disk time. An automatic cycle should have room for `least` such requests.
    pub(super) fn completed(&mut self, number: usize, now: Nanos, sectors: u32, took: u64, least: u32) {
        let class = &mut self.classes[number];
        class.at_device = class.at_device.saturating_sub(1);
        class.last_seen = now;
        class.cost.learn(sectors, took);
        class.stability.learn(took as f32);
        if let Some(mean) = class.cost.mean() {
            let asked = mean * f64::from(class.stability.requests(mean as f32).max(least)) / class.weight as f64;
            self.asked[0] = self.asked[0].max(asked);
        }
    }

    /// A tenant's share by weight of a disk time.
    pub(super) fn part_of(&self, number: usize, time: u64) -> u64 {
        let part = u128::from(time) * u128::from(self.classes[number].weight) / u128::from(self.weight.max(1));
        u64::try_from(part).unwrap_or(u64::MAX)
    }

    /// Whether a tenant received less than half of a whole share in this cycle.
    pub(super) fn used_less_than_half(&self, number: usize) -> bool {
        let (cycle, given) = self.classes[number].given_in;
        cycle != self.cycle || given < self.line.saturating_sub(self.began) / 2
    }

    /// A tenant's sort key by disk time received.
    pub(super) fn key(&self, number: usize) -> u128 {
        key(self.classes[number].given, number)
    }

    pub(super) fn has_share(&self, number: usize) -> bool {
        self.classes[number].given < self.line
    }

    /// Whether a tenant has also used a large part of the next cycle's share.
    pub(super) fn is_far_ahead(&self, number: usize) -> bool {
        self.classes[number].given > self.line + self.line.saturating_sub(self.began) / AHEAD
    }

    /// The tenant with share left whose request is next.
    pub(super) fn first_ready(&self) -> Option<usize> {
        self.ready.first().map(|(_, number)| number as usize)
    }

    /// The tenant that received least among those that used their share.
    pub(super) fn first_upheld(&self) -> Option<usize> {
        self.upheld.first().map(|(_, number)| number as usize)
    }

    /// The next tenant that was upheld and has share left again.
    pub(super) fn first_below_line(&self) -> Option<usize> {
        self.upheld.first().filter(|(key, _)| key >> 32 < self.line).map(|(_, number)| number as usize)
    }

    /// The tenant that received least among those with share left and nothing queued.
    pub(super) fn away_with_share(&self) -> Option<usize> {
        self.away.first().filter(|(key, _)| key >> 32 < self.line).map(|(_, number)| number as usize)
    }

    /// Sets the next line. `fixed`: the cycle's service in nanoseconds; `None`: room for as many requests of each tenant as are needed for
    /// a stable mean, and for batches.
    pub(super) fn begin_cycle(&mut self, fixed: Option<u64>, disks: u32) {
        self.cycle += 1;
        self.service = fixed.unwrap_or_else(|| {
            let asked = self.asked[0].max(self.asked[1]) * self.weight as f64;
            let length = (asked / f64::from(disks)) as u64;
            round_up(length.min(LONGEST)).0.saturating_mul(u64::from(disks))
        });
        self.length = self.service / u64::from(disks.max(1));
        self.asked = [0.0, self.asked[0]];
        let least = self.upheld.first().map_or(0, |(key, _)| key >> 32);
        self.now = self.line.max(least);
        self.began = self.now;
        self.line = self.now + by_weight(self.service, self.weight).max(1);
        self.line_weight = self.weight;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_that_was_not_used_is_forgone_for_as_long_with_long_cycles_as_with_short_ones() {
        let cycles = |length_ms: u64| {
            let mut accounts = Accounts::default();
            accounts.arrives(0, 1, 0);
            accounts.begin_cycle(Some(8 * 1_000_000 * length_ms), 8);
            (0..10).for_each(|_| accounts.record_unused_share(0, 20));
            accounts.classes[0].waited_for_from - accounts.cycle - 1
        };
        // 20 cycles of 100 ms are 2 s; shorter cycles also count 20.
        assert_eq!([50, 100, 500, 1_000, 5_000].map(cycles), [20, 20, 4, 2, 1]);
    }
}
