//! Limits of cgroups in front of the queue: Linux's `io.max`.
//!
//! ```text
//!             within the budget                                  budget of a direction, in bytes and in requests
//! submit ──┬───────────────────────▶ passes                      slice_start                    now     end of a slice
//!          └──▶ fifo of the group and direction ──release──▶     |------100 ms-----|------100 ms--*--|
//!                                                                allowed: rate × the slices begun
//! ```
//! Follows `block/blk-throttle.c` of Linux 6.18. A direction of a group may pass the amount that its rate allows in the slices of 100 ms
//! that have begun since `slice_start`, so small requests pass in a burst at the start of each slice. Slices start with a submission after
//! a pause and are trimmed as they are used: at most two past ones remain, so that no budget is saved up. A request that lacks bytes waits
//! until the end of the slice and then for the time that its rate needs for them. When a limit changes, a group with waiting requests keeps
//! its credit or debt (`tg_update_carryover`); any other starts from zero.
//!
//! Requests are counted before merging. A request that will be split counts once for each part, but its bytes count once.
//!
//! Simplified: a flat hierarchy; time in nanoseconds rather than jiffies; all parts of a request pass together, while in Linux the
//! remainder of a split request waits for its own budget; bytes and requests are charged together, while Linux has a queue for bytes and
//! behind it one for requests; a group passes its whole budget at once, while Linux takes turns of 8 requests among groups.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::num::NonZeroU64;

use crate::rates::Rate;
use crate::{Nanos, Op};

/// A tenth of a second (`DFL_THROTL_SLICE`).
pub const SLICE: Nanos = Nanos::from_millis(100);

/// A second in nanoseconds.
const SECOND: i128 = 1_000_000_000;

/// The charge of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge {
    /// Read, write or discard.
    pub op: Op,
    /// Transferred bytes; a sector for a discard (`throtl_bio_data_size`).
    pub bytes: u64,
    /// Requests into which it will be split; at least 1.
    pub requests: u32,
}

/// The limits of a group: of reads, and of writes and discards.
pub type Limits = [Rate; 2];

/// A limit in bytes or in requests, and its use since the start of the slice.
#[derive(Clone, Copy, Debug, Default)]
struct Budget {
    per_second: Option<NonZeroU64>,
    /// A negative value is a credit that was carried over.
    used: i128,
}

impl Budget {
    /// The amount that the rate allows in a span, in whole units; `None` without a limit.
    fn earned(&self, span: Nanos) -> Option<i128> {
        self.per_second.map(|rate| i128::from(rate.get()) * i128::from(span.0) / SECOND)
    }

    /// Time that the rate needs for the part of `amount` that is lacking at the end of a span; `None` if nothing is lacking.
    fn lacks(&self, span: Nanos, amount: u64) -> Option<Nanos> {
        let rate = i128::from(self.per_second?.get());
        let missing = (self.used + i128::from(amount)) * SECOND - rate * i128::from(span.0);
        (missing > 0).then(|| Nanos(u64::try_from((missing + rate - 1) / rate).unwrap_or(u64::MAX)))
    }

    /// Subtracts the amount that a span allows, down to zero (`throtl_trim_bps`, `throtl_trim_iops`).
    fn trim(&mut self, span: Nanos) {
        self.used = self.earned(span).map_or(0, |earned| (self.used - earned).max(0));
    }

    /// Sets the limit at `elapsed` after the start of the slice. If requests wait (`waits`), credit or debt is kept.
    fn set(&mut self, per_second: Option<NonZeroU64>, elapsed: Nanos, waits: bool) {
        self.used = self.earned(elapsed).filter(|_| waits).map_or(0, |earned| self.used - earned);
        self.per_second = per_second;
    }
}

/// The reads, or the writes and discards, of a group.
#[derive(Clone, Debug)]
struct Direction<T> {
    bytes: Budget,
    requests: Budget,
    slice_start: Nanos,
    /// End of the slice while nothing waits.
    slice_end: Nanos,
    waiting: VecDeque<(T, Charge)>,
}

impl<T> Direction<T> {
    fn new() -> Direction<T> {
        let (bytes, requests) = (Budget::default(), Budget::default());
        Direction { bytes, requests, slice_start: Nanos::ZERO, slice_end: Nanos::ZERO, waiting: VecDeque::new() }
    }

    fn is_limited(&self) -> bool {
        self.bytes.per_second.is_some() || self.requests.per_second.is_some()
    }

    fn limit(&self) -> Rate {
        Rate { iops: self.requests.per_second, bytes_per_s: self.bytes.per_second }
    }

    fn begin_slice(&mut self, now: Nanos) {
        (self.slice_start, self.slice_end) = (now, now + SLICE);
    }

    /// Length of the whole slices since `slice_start`, plus `ends` slices: 1 includes the current one.
    fn slices(&self, now: Nanos, ends: u64) -> Nanos {
        Nanos(((now - self.slice_start).0 / SLICE.0 + ends).saturating_mul(SLICE.0))
    }

    /// Starts a slice if the last one is over, since unused budget is lost; otherwise extends it. Called while nothing waits.
    fn renew_slice(&mut self, now: Nanos) {
        if now > self.slice_end {
            self.begin_slice(now);
            (self.bytes.used, self.requests.used) = (0, 0);
        } else {
            self.extend_slice(now + SLICE);
        }
    }

    fn extend_slice(&mut self, to: Nanos) {
        let slices = (to - self.slice_start).0.div_ceil(SLICE.0);
        self.slice_end = self.slice_end.max(self.slice_start + Nanos(slices.saturating_mul(SLICE.0)));
    }

    /// Drops all past slices but the last one from the budget, if there are at least two (`throtl_trim_slice`).
    fn trim_slice(&mut self, now: Nanos) {
        let past = self.slices(now, 0);
        if now > self.slice_end || past < Nanos(2 * SLICE.0) {
            return;
        }
        let span = past - SLICE;
        self.bytes.trim(span);
        self.requests.trim(span);
        self.slice_start += span;
    }

    /// Time at which a request with this charge may pass; `now` if at once (`tg_within_bps_limit`, `tg_within_iops_limit`).
    fn passes_at(&self, now: Nanos, charge: &Charge) -> Nanos {
        let elapsed = now - self.slice_start;
        let whole = Nanos(elapsed.0.div_ceil(SLICE.0).max(1).saturating_mul(SLICE.0));
        let by_bytes = self.bytes.lacks(whole, charge.bytes).filter(|_| charge.bytes > 0);
        let by_bytes = by_bytes.map_or(now, |time| now + (whole - elapsed) + time);
        // It may pass at the start of the slice that covers the missing requests.
        let begun = self.slices(now, 1);
        let by_requests = self.requests.lacks(begun, u64::from(charge.requests)).map_or(now, |time| {
            let slices = time.0.div_ceil(SLICE.0).max(1) - 1;
            now + (begun - elapsed) + Nanos(slices.saturating_mul(SLICE.0))
        });
        by_bytes.max(by_requests)
    }

    fn charge(&mut self, now: Nanos, charge: &Charge) {
        self.bytes.used += i128::from(charge.bytes);
        self.requests.used += i128::from(charge.requests);
        self.trim_slice(now);
    }

    /// Time at which the first waiting request may pass; `None` if none waits.
    fn next_at(&mut self, now: Nanos) -> Option<Nanos> {
        let (_, charge) = self.waiting.front()?;
        let at = self.passes_at(now, charge);
        self.extend_slice(at);
        Some(at)
    }

    /// Sets the limits of this direction (`tg_conf_updated`).
    fn set(&mut self, now: Nanos, limit: Rate) {
        let (elapsed, waits) = (now - self.slice_start, !self.waiting.is_empty());
        self.bytes.set(limit.bytes_per_s, elapsed, waits);
        self.requests.set(limit.iops, elapsed, waits);
        self.begin_slice(now);
    }
}

/// A group of requests that share limits.
#[derive(Clone, Debug)]
struct Group<T> {
    directions: [Direction<T>; 2],
    /// Time of the next check (`disptime`); `None` if nothing waits.
    due: Option<Nanos>,
}

impl<T> Group<T> {
    fn find_due(&mut self, now: Nanos) {
        self.due = self.directions.iter_mut().filter_map(|direction| direction.next_at(now)).min();
    }
}

/// The limits of all groups, and the requests that wait for them.
///
/// ```
/// use block::rates::Rate;
/// use block::throttle::{Charge, Throttle};
/// use block::{Nanos, Op};
///
/// let mut throttle = Throttle::new(1);
/// throttle.set(Nanos::ZERO, 0, [Rate::default(), Rate::bytes_per_s(10 << 20)]);
/// let write = Charge { op: Op::Write, bytes: 1 << 20, requests: 1 };
/// assert_eq!(throttle.submit(Nanos::ZERO, 0, write, "first"), Some("first"));
/// assert_eq!(throttle.submit(Nanos::ZERO, 0, write, "second"), None, "a slice of 100 ms allows one MiB");
/// assert_eq!(throttle.next_at(), Some(Nanos::from_millis(200)));
/// assert_eq!(throttle.release(Nanos::from_millis(200)), Some("second"));
/// ```
#[derive(Clone, Debug)]
pub struct Throttle<T> {
    groups: Vec<Group<T>>,
    waiting: usize,
    /// Earliest time of the groups' next checks.
    next_at: Option<Nanos>,
}

impl<T> Throttle<T> {
    /// `groups` groups, numbered from 0, without limits.
    pub fn new(groups: usize) -> Throttle<T> {
        let group = || Group { directions: [Direction::new(), Direction::new()], due: None };
        Throttle { groups: (0..groups).map(|_| group()).collect(), waiting: 0, next_at: None }
    }

    /// Number of waiting requests.
    pub fn len(&self) -> usize {
        self.waiting
    }

    /// Whether no request waits.
    pub fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// The limits of a group; no limits for a group that does not exist.
    pub fn limits(&self, group: usize) -> Limits {
        self.groups
            .get(group)
            .map_or([Rate::default(); 2], |Group { directions: [reads, writes], .. }| [reads.limit(), writes.limit()])
    }

    /// Sets the limits of a group. Requests that may pass now do so with the next [`release`](Throttle::release). A group that does not
    /// exist is ignored.
    pub fn set(&mut self, now: Nanos, group: usize, limits: Limits) {
        let Some(group) = self.groups.get_mut(group) else { return };
        for (direction, limit) in group.directions.iter_mut().zip(limits) {
            direction.set(now, limit);
        }
        group.find_due(now);
        self.find_next();
    }

    /// Submits a request of a group. Returns it if it may pass now, or if there is no such group; otherwise it waits.
    pub fn submit(&mut self, now: Nanos, group: usize, charge: Charge, request: T) -> Option<T> {
        let Some(group) = self.groups.get_mut(group) else { return Some(request) };
        let direction = &mut group.directions[usize::from(charge.op.is_write())];
        if direction.waiting.is_empty() {
            if !direction.is_limited() {
                return Some(request);
            }
            direction.renew_slice(now);
            if direction.passes_at(now, &charge) <= now {
                direction.charge(now, &charge);
                return Some(request);
            }
        }
        direction.waiting.push_back((request, charge));
        self.waiting += 1;
        if direction.waiting.len() == 1 {
            group.find_due(now);
            self.find_next();
        }
        None
    }

    /// Earliest time at which a waiting request may pass; `None` if none waits.
    pub fn next_at(&self) -> Option<Nanos> {
        self.next_at
    }

    /// The next request that may pass by now: by group number, reads before writes. To be called until it returns `None`.
    pub fn release(&mut self, now: Nanos) -> Option<T> {
        if self.next_at.is_none_or(|at| at > now) {
            return None;
        }
        for group in self.groups.iter_mut().filter(|group| group.due.is_some_and(|due| due <= now)) {
            for direction in &mut group.directions {
                if direction.next_at(now).is_some_and(|at| at <= now)
                    && let Some((request, charge)) = direction.waiting.pop_front()
                {
                    direction.charge(now, &charge);
                    self.waiting -= 1;
                    return Some(request);
                }
            }
            group.find_due(now);
        }
        self.find_next();
        None
    }

    fn find_next(&mut self) {
        self.next_at = self.groups.iter().filter_map(|group| group.due).min();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    const MIB: u64 = 1 << 20;

    fn ms(millis: u64) -> Nanos {
        Nanos::from_millis(millis)
    }

    fn charge(op: Op, bytes: u64) -> Charge {
        Charge { op, bytes, requests: 1 }
    }

    /// A group with this limit on writes, or on reads.
    fn limited(op: Op, limit: Rate) -> Throttle<u64> {
        let mut throttle = Throttle::new(1);
        let mut limits = [Rate::default(); 2];
        limits[usize::from(op.is_write())] = limit;
        throttle.set(ms(0), 0, limits);
        throttle
    }

    /// Submits `count` requests with this charge at once; returns the time in milliseconds at which each passes.
    fn times(throttle: &mut Throttle<u64>, from: Nanos, charge: Charge, count: u64) -> Vec<u64> {
        let mut passed: Vec<u64> =
            (0..count).filter_map(|number| throttle.submit(from, 0, charge, number)).map(|_| from.0 / 1_000_000).collect();
        while let Some(at) = throttle.next_at() {
            assert!(at > from, "a request that may pass does not wait");
            let before = passed.len();
            while throttle.release(at).is_some() {
                passed.push(at.0 / 1_000_000);
            }
            assert!(passed.len() > before || throttle.next_at() > Some(at), "time goes on");
        }
        passed
    }

    #[test]
    fn a_slice_passes_what_its_rate_allows_and_the_rest_waits_for_its_bytes() {
        let mut throttle = limited(Op::Write, Rate::bytes_per_s(10 * MIB));
        // As in Linux: the wait starts at the end of the slice, then the rate determines the pace.
        assert_eq!(times(&mut throttle, ms(0), charge(Op::Write, MIB), 5), [0, 200, 300, 400, 500]);
        assert!(throttle.is_empty());
    }

    #[test]
    fn requests_pass_in_bursts_at_the_beginning_of_a_slice() {
        let mut throttle = limited(Op::Read, Rate::iops(20));
        assert_eq!(times(&mut throttle, ms(0), charge(Op::Read, 4096), 7), [0, 0, 100, 100, 200, 200, 300]);
        let mut slow = limited(Op::Read, Rate::iops(5));
        assert_eq!(times(&mut slow, ms(0), charge(Op::Read, 4096), 3), [100, 300, 500], "a slice earns half a request");
    }

    #[test]
    fn over_a_long_time_the_rate_is_exact() {
        for (limit, per_second) in [(Rate::bytes_per_s(3 * MIB), 48), (Rate::iops(70), 70)] {
            let mut throttle = limited(Op::Write, limit);
            let passed = times(&mut throttle, ms(0), charge(Op::Write, MIB / 16), 60 * per_second);
            let seconds = *passed.last().unwrap() as f64 / 1e3;
            assert!((59.5..=60.5).contains(&seconds), "{limit:?}: {seconds} s");
        }
    }

    #[test]
    fn a_request_that_is_split_counts_once_in_bytes_and_for_each_part_in_requests() {
        let mut throttle = limited(Op::Write, Rate::iops(40));
        let split = Charge { op: Op::Write, bytes: 4 * MIB, requests: 4 };
        assert_eq!(times(&mut throttle, ms(0), split, 3), [0, 100, 200]);
    }

    #[test]
    fn directions_and_groups_do_not_wait_for_each_other() {
        let mut throttle = Throttle::new(2);
        throttle.set(ms(0), 0, [Rate::default(), Rate::bytes_per_s(MIB)]);
        assert_eq!(throttle.submit(ms(0), 0, charge(Op::Write, MIB), 1), None);
        assert_eq!(throttle.submit(ms(0), 0, charge(Op::Write, 512), 2), None, "first in, first out");
        assert_eq!(throttle.submit(ms(0), 0, charge(Op::Read, MIB), 3), Some(3));
        assert_eq!(throttle.submit(ms(0), 1, charge(Op::Write, MIB), 4), Some(4));
        assert_eq!(throttle.submit(ms(0), 7, charge(Op::Write, MIB), 5), Some(5), "no such group");
        assert_eq!(throttle.len(), 2);
    }

    #[test]
    fn a_pause_saves_no_budget_up() {
        let mut throttle = limited(Op::Read, Rate::iops(100));
        assert_eq!(times(&mut throttle, ms(0), charge(Op::Read, 512), 10), vec![0; 10]);
        let later = times(&mut throttle, ms(60_000), charge(Op::Read, 512), 30);
        assert_eq!([later[0], later[9], later[10], later[20]], [60_000, 60_000, 60_100, 60_200]);
    }

    #[test]
    fn a_changed_limit_applies_to_what_waits_and_keeps_what_was_earned() {
        let mut throttle = limited(Op::Write, Rate::bytes_per_s(MIB / 8));
        assert_eq!(throttle.submit(ms(0), 0, charge(Op::Write, MIB), 1), None);
        let next = |throttle: &Throttle<u64>| throttle.next_at().map(|at| at.0 / 1_000_000);
        assert_eq!(next(&throttle), Some(8_000));
        // Half of it was earned.
        throttle.set(ms(4_000), 0, [Rate::default(), Rate::bytes_per_s(MIB)]);
        assert_eq!(next(&throttle), Some(4_500));
        throttle.set(ms(4_200), 0, [Rate::default(), Rate::bytes_per_s(MIB / 4)]);
        assert_eq!(next(&throttle), Some(5_400));
        throttle.set(ms(5_200), 0, [Rate::default(); 2]);
        assert_eq!(throttle.next_at(), Some(ms(5_200)));
        assert_eq!(throttle.release(ms(5_200)), Some(1));
        assert_eq!((throttle.release(ms(5_200)), throttle.next_at()), (None, None));
        assert_eq!(throttle.submit(ms(5_200), 0, charge(Op::Write, MIB), 2), Some(2), "unlimited");
    }
}
