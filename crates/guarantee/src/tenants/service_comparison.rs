//! A tenant's service compared with that of the same load alone on its reference disk.
//!
//! ```text
//! bytes done                 reference R      here H
//!                          ·´                ·´
//!            at this place ├────w────┤   ·´
//!                      ··´           ··´ ├──w──┤ a window: here it did less than the reference
//!                 ···´         ··´                in w from the same place on
//!            ─────────────────────────────────── the tenant's own clock
//! ```
//! On the host the load may be ahead of its progress on the reference disk, or behind, and its next part may be harder or easier. Therefore
//! the comparison starts from the same point of the load. Parts of a load that begin by the clock (`startdelay`) are ahead of that point,
//! however, so the comparison at the same time counts as well: a window is in violation only if both find it short.
//!
//! The work of a completion is spread evenly over the time since the previous completion. Otherwise a window would be short of a request
//! that completes just after it, on a disk that serves fourteen a second by 7%, and of several if some complete at once.

use block::Nanos;
use sim::run::{STEP, Served, TenantMeasure};

/// A window is in violation below this ratio to the reference disk's progress.
pub const LEAST: f64 = 0.95;
/// Minimum service after a return, in steps, that can be judged.
const JUDGED: usize = (100_000_000 / STEP.0) as usize;
/// Steps per second.
const SECOND: usize = (1_000_000_000 / STEP.0) as usize;

/// Results over windows of one length.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Windows {
    /// Number of windows.
    pub windows: u64,
    /// Number of windows with less than [`LEAST`] of the reference disk's progress.
    pub violated: u64,
    /// The lowest ratio of any window; `None` without windows.
    pub worst: Option<f64>,
}

/// Time until a tenant is served like on its reference disk, after it returns from a pause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Number of returns that can be judged.
    pub returns: u64,
    /// Number of these without recovery before the next pause.
    pub never: u64,
    /// The longest recovery, by the tenant's own clock; `None` if there was none.
    pub longest: Option<Nanos>,
}

/// A tenant's service on the host and alone on its reference disk.
pub struct ServiceComparison {
    here: Progress,
    there: Progress,
    returns: Vec<usize>,
}

impl ServiceComparison {
    /// Compares service `here` and `there`. Counts bytes, or requests for a load that moves none.
    pub fn new(here: &TenantMeasure, there: &TenantMeasure) -> ServiceComparison {
        let count: fn(&Served) -> u64 = if there.served.bytes > 0 { |served| served.bytes } else { |served| served.requests };
        let returns = here.returns.iter().map(|returned| (returned.own.0 / STEP.0) as usize).collect();
        ServiceComparison { here: Progress::new(here, count), there: Progress::new(there, count), returns }
    }

    /// Throughput here relative to there, each while the tenant had requests outstanding.
    pub fn throughput_ratio(&self) -> f64 {
        self.here.rate() / self.there.rate()
    }

    /// The most time lost over any stretch: the additional time that a part of the load took here, compared with the reference disk. Beyond
    /// the end of the reference run, that disk's mean pace is assumed.
    pub fn lost(&self) -> Nanos {
        if self.there.rate() <= 0.0 {
            return Nanos::ZERO;
        }
        let (mut most_ahead, mut lost) = (0.0, 0.0);
        // At completions only: between them, progress within the next request is unknown.
        for &step in self.here.completions.iter().take_while(|step| **step <= self.here.steps()) {
            let behind = step as f64 - self.there.time_at_pace(self.here.done(step));
            most_ahead = f64::min(most_ahead, behind);
            lost = f64::max(lost, behind - most_ahead);
        }
        Nanos((lost * STEP.0 as f64) as u64)
    }

    /// Consecutive windows of this length by the tenant's own clock.
    pub fn windows(&self, length: Nanos) -> Windows {
        let mut windows = Windows::default();
        for ratio in self.ratios(length) {
            windows.windows += 1;
            windows.violated += u64::from(ratio < LEAST);
            windows.worst = Some(windows.worst.map_or(ratio, |worst| worst.min(ratio)));
        }
        windows
    }

    /// The ratio to the reference disk's progress in each of these windows; windows without expected progress are left out.
    pub fn ratios(&self, length: Nanos) -> Vec<f64> {
        let length = ((length.0 / STEP.0) as usize).max(1);
        let begins = (0..).step_by(length).take_while(|begin| begin + length <= self.here.steps());
        begins.filter_map(|begin| self.ratio(begin, length)).collect()
    }

    /// Recovery after each return: the time until the first second that is no violation. If the tenant pauses sooner, its active time takes
    /// the place of the second.
    pub fn recovery(&self) -> Recovery {
        let mut recovery = Recovery::default();
        let ends = self.returns.iter().skip(1).copied().chain([self.here.steps()]);
        for (&begin, end) in self.returns.iter().zip(ends) {
            if begin + JUDGED > end {
                continue;
            }
            recovery.returns += 1;
            let length = SECOND.min(end - begin);
            let served = (begin..=end - length).find(|&from| self.ratio(from, length).is_none_or(|ratio| ratio >= LEAST));
            match served {
                Some(from) => {
                    let took = Nanos((from - begin) as u64 * STEP.0);
                    recovery.longest = Some(recovery.longest.map_or(took, |longest| longest.max(took)));
                }
                None => recovery.never += 1,
            }
        }
        recovery
    }

    /// Progress here in `length` steps from `begin` on, relative to the reference disk's: from the same point of the load, or at the same
    /// time, whichever is less. `None` if no progress is expected.
    fn ratio(&self, begin: usize, length: usize) -> Option<f64> {
        let done = self.here.done(begin + length) - self.here.done(begin);
        let from_place = self.there.time_of(self.here.done(begin)).and_then(|from| self.there.from(from, length as f64));
        let at_time = self.there.from(begin as f64, length as f64);
        let expected = match (from_place, at_time) {
            (Some(place), Some(time)) => place.min(time),
            (Some(one), None) | (None, Some(one)) => one,
            // The reference run was over before: assume its mean pace.
            (None, None) => self.there.rate() * length as f64,
        };
        (expected > 0.0).then(|| done / expected)
    }
}

/// Cumulative progress by a tenant's own clock, in steps.
struct Progress {
    /// At the end of each step, interpolated between completions; the first entry is the beginning.
    sums: Vec<f64>,
    /// Steps by whose end something was completed.
    completions: Vec<usize>,
    /// The clock at the end of the run, in steps; it lies within the last step.
    wanted: f64,
}

impl Progress {
    fn new(measure: &TenantMeasure, count: fn(&Served) -> u64) -> Progress {
        let (mut sums, mut completions) = (vec![0.0], Vec::new());
        let (mut last, mut sum) = (0, 0.0);
        for (step, served) in measure.steps.iter().enumerate().filter(|(_, served)| count(served) > 0) {
            let (end, amount) = (step + 1, count(served) as f64);
            sums.extend((last + 1..=end).map(|at| sum + amount * (at - last) as f64 / (end - last) as f64));
            (last, sum) = (end, sum + amount);
            completions.push(end);
        }
        sums.resize(measure.steps.len() + 1, sum);
        Progress { sums, completions, wanted: measure.wanted.0 as f64 / STEP.0 as f64 }
    }

    /// The number of whole steps.
    fn steps(&self) -> usize {
        (self.wanted as usize).min(self.sums.len() - 1)
    }

    /// Progress by the end of this step.
    fn done(&self, step: usize) -> f64 {
        self.sums[step.min(self.sums.len() - 1)]
    }

    /// Mean progress per step; 0 if the tenant never had requests outstanding.
    fn rate(&self) -> f64 {
        let all = self.done(usize::MAX);
        if self.wanted > 0.0 { all / self.wanted } else { 0.0 }
    }

    /// The time at which this amount was reached, in steps; `None` if it never was.
    fn time_of(&self, amount: f64) -> Option<f64> {
        let step = self.sums.partition_point(|&sum| sum < amount);
        let after = *self.sums.get(step)?;
        let Some(before) = step.checked_sub(1).map(|step| self.sums[step]) else { return Some(0.0) };
        Some((step - 1) as f64 + (amount - before) / (after - before))
    }

    /// Like [`Progress::time_of`], extrapolated at the mean pace beyond the end.
    fn time_at_pace(&self, amount: f64) -> f64 {
        let beyond = || self.wanted + (amount - self.done(usize::MAX)) / self.rate();
        self.time_of(amount).unwrap_or_else(beyond)
    }

    /// Progress in `length` steps from `from` on. If the run ends within them, but after at least half, it is extrapolated at that pace;
    /// `None` if it ends sooner.
    fn from(&self, from: f64, length: f64) -> Option<f64> {
        let lasts = (self.wanted - from).min(length);
        if lasts < length / 2.0 {
            return None;
        }
        Some((self.at(from + lasts) - self.at(from)) * length / lasts)
    }

    /// Progress by this time, interpolated within a step.
    fn at(&self, time: f64) -> f64 {
        let step = time as usize;
        let (before, after) = (self.done(step), self.done(step + 1));
        before + (after - before) * (time - step as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use block::{Op, Priority, Roster};
    use sim::run::{Finished, Issue, Owner, Tenants, Transferred};

    /// A tenant that always has one 4 KiB request outstanding, completed after each of these times.
    fn served(gaps_ms: impl IntoIterator<Item = u64>) -> TenantMeasure {
        let mut tenants = Tenants::new(&Roster::default(), Owner::Stream);
        let mut now = Nanos::ZERO;
        for gap in gaps_ms {
            let (op, priority) = (Op::Read, Priority::DEFAULT);
            let issue = Issue { arrival: now, lba: 0, sectors: 8, op, sync: true, stream: 1, priority, token: 0 };
            tenants.issued(now, &issue);
            now += Nanos::from_millis(gap);
            tenants.completed(&Finished::Transfer(Transferred { issue, bytes: issue.bytes(), dispatched: issue.arrival, at: now }));
        }
        tenants.others().clone()
    }

    #[test]
    fn equal_service_is_no_violation_and_half_always_is() {
        let there = served([10; 2000]);
        let same = ServiceComparison::new(&there, &there);
        assert_eq!(same.windows(Nanos::from_millis(1_000)), Windows { windows: 20, violated: 0, worst: Some(1.0) });
        assert_eq!((same.lost(), same.throughput_ratio()), (Nanos::ZERO, 1.0));
        let half = ServiceComparison::new(&served([20; 1000]), &there);
        let windows = half.windows(Nanos::from_millis(1_000));
        assert_eq!((windows.windows, windows.violated), (20, 20));
        assert!((half.throughput_ratio() - 0.5).abs() < 1e-9);
        assert!((Nanos::from_millis(9_980)..=Nanos::from_millis(10_000)).contains(&half.lost()), "{}", half.lost());
    }

    #[test]
    fn requests_that_complete_together_are_worth_the_time_since_those_before() {
        // Eight at a time, as fast as one at a time there; later half as fast.
        let there = served([69; 300]);
        let together = |ms: u64, times: usize| [ms, 0, 0, 0, 0, 0, 0, 0].into_iter().cycle().take(8 * times);
        let here = ServiceComparison::new(&served(together(8 * 69, 20).chain(together(16 * 69, 8))), &there);
        let windows = here.windows(Nanos::from_millis(1_000));
        assert_eq!((windows.windows, windows.violated), (19, 8), "the last eight are half as fast: {windows:?}");
    }

    #[test]
    fn a_tenant_ahead_that_reaches_the_hard_part_early_is_not_served_worse() {
        // An easy and a hard part, there one after the other; here the easy one is twice as fast.
        let there = served([10; 1000].into_iter().chain([50; 200]));
        let here = served([5; 1000].into_iter().chain([50; 200]));
        assert_eq!(ServiceComparison::new(&here, &there).windows(Nanos::from_millis(1_000)).violated, 0);
    }

    #[test]
    fn a_starved_second_shows_in_its_window_and_as_time_lost() {
        let there = served([10; 1000]);
        let here = served([10; 300].into_iter().chain([1000]).chain([10; 699]));
        let comparison = ServiceComparison::new(&here, &there);
        let windows = comparison.windows(Nanos::from_millis(1_000));
        assert!(windows.violated == 1 && windows.worst.unwrap() < 0.05, "{windows:?}");
        assert_eq!(comparison.lost(), Nanos::from_millis(990));
        // A tenant that was ahead before has still lost the time.
        let ahead = served([5; 300].into_iter().chain([1000]).chain([10; 699]));
        assert_eq!(ServiceComparison::new(&ahead, &there).lost(), Nanos::from_millis(990));
        let far_ahead = served([5; 2500].into_iter().chain([1000]).chain([10; 699]));
        let lost = ServiceComparison::new(&far_ahead, &there).lost();
        assert!((Nanos::from_millis(970)..Nanos::from_millis(1_010)).contains(&lost), "{lost}");
        assert_eq!(comparison.windows(Nanos::from_millis(10_000)).violated, 1);
    }

    #[test]
    fn a_returning_tenant_recovers_when_its_first_wait_is_over() {
        let there = served([10; 1000]);
        let here = served([500].into_iter().chain([10; 950]));
        let recovery = ServiceComparison::new(&here, &there).recovery();
        assert_eq!((recovery.returns, recovery.never), (1, 0));
        let took = recovery.longest.unwrap();
        assert!((Nanos::from_millis(430)..=Nanos::from_millis(500)).contains(&took), "{took}");
        assert_eq!(ServiceComparison::new(&served([20; 400]), &there).recovery().never, 1);
    }
}
