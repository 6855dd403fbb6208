//! Gives a guarantee up that is broken even with all neighbours at their floors, if limits have no use.

use block::Nanos;

use super::watch::Verdict;

/// Time with all neighbours at their floors after which a guarantee counts as infeasible, if most steps break it. Choice: a drive that
/// destages its cache is slow for several seconds, in which giving up would be premature; not varied.
const AT_FLOOR: Nanos = Nanos::from_millis(10_000);
/// Time without limits, draining included, after which their benefit is judged. Choice: a shorter one is decided by the queue that drains,
/// a longer one harms the unit longer; not varied.
const WITHOUT: Nanos = Nanos::from_millis(4_000);
/// Limits were useful if the violation is at least this many times as severe without them. Choice: a lower one takes chance for a benefit;
/// not varied.
const USEFUL: f64 = 2.0;
/// Time after which limits are tried again. Choice: a shorter one interrupts the neighbours in vain, a longer one misses a device that has
/// recovered; not varied.
const RETRY: Nanos = Nanos::from_millis(60_000);

/// Statistics on a guarantee while all neighbours are at their floors.
#[derive(Clone, Copy, Debug, Default)]
struct AtFloor {
    since: Option<Nanos>,
    steps: u32,
    broken: u32,
    /// Sum over the steps.
    severity: f64,
}

impl AtFloor {
    /// Adds a step. Returns the mean severity if most steps over [`AT_FLOOR`] broke the guarantee with all neighbours at their floors; as
    /// long as the guarantee is kept at times, the limits are worthwhile.
    fn hopeless(&mut self, now: Nanos, is_at_floor: bool, second: &Verdict) -> Option<f64> {
        if !is_at_floor {
            *self = AtFloor::default();
            return None;
        }
        let since = *self.since.get_or_insert(now);
        (self.steps, self.broken) = (self.steps + 1, self.broken + u32::from(second.is_broken));
        self.severity += second.severity;
        if now - since < AT_FLOOR {
            return None;
        }
        let AtFloor { steps, broken, severity, .. } = std::mem::take(self);
        (2 * broken > steps).then_some(severity / f64::from(steps))
    }
}

/// A guarantee that was broken even with all neighbours at their floors, so that their limits were lifted.
#[derive(Clone, Copy, Debug)]
struct GivenUp {
    since: Nanos,
    /// Mean severity with limits, and the sum of the severity without, over the steps.
    with: f64,
    without: f64,
    steps: u32,
}

impl GivenUp {
    /// Adds a step without limits. Returns whether the limits were useful after all.
    fn were_useful(&mut self, now: Nanos, second: &Verdict) -> bool {
        (self.without, self.steps) = (self.without + second.severity, self.steps + 1);
        now - self.since >= WITHOUT && self.without >= USEFUL * self.with * f64::from(self.steps)
    }
}

/// The result of a step without limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Without {
    /// Nothing is known yet.
    Wait,
    /// The violation is more severe without limits: they come back.
    Useful,
    /// It is time to try limits again.
    Retry,
}

/// Whether the guarantee can be kept.
#[derive(Debug, Default)]
pub(super) struct Feasibility {
    at_floor: AtFloor,
    gave_up: Option<GivenUp>,
    /// Whether the guarantee is broken with all neighbours at their floors, but more severely without limits.
    is_hopeless: bool,
}

impl Feasibility {
    /// Whether the limits were lifted because the guarantee was broken all the same.
    pub fn has_given_up(&self) -> bool {
        self.gave_up.is_some()
    }

    /// Whether the guarantee is broken with all neighbours at their floors, but more severely without limits.
    pub fn is_hopeless(&self) -> bool {
        self.is_hopeless
    }

    /// Starts over after a change of the load.
    pub fn begin(&mut self) {
        *self = Feasibility::default();
    }

    /// Keeps limits that were useful, although the guarantee is broken.
    pub fn keep_limits(&mut self) {
        self.is_hopeless = true;
    }

    /// Adds a step without limits; `None` if the guarantee is not given up.
    pub fn without(&mut self, now: Nanos, second: &Verdict) -> Option<Without> {
        let given_up = self.gave_up.as_mut()?;
        Some(if given_up.were_useful(now, second) {
            Without::Useful
        } else if now - given_up.since >= RETRY {
            Without::Retry
        } else {
            Without::Wait
        })
    }

    /// Adds a step with limits. Returns whether the guarantee is given up with it. `is_at_floor`: all neighbours are at their floors.
    pub fn gives_up(&mut self, now: Nanos, is_at_floor: bool, second: &Verdict) -> bool {
        self.is_hopeless &= is_at_floor;
        let Some(with) = self.at_floor.hopeless(now, is_at_floor, second).filter(|_| !self.is_hopeless) else { return false };
        self.gave_up = Some(GivenUp { since: now, with, without: 0.0, steps: 0 });
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_lifted_after_ten_seconds_in_vain_and_come_back_if_they_were_useful() {
        let at = |tenths: u64| Nanos::from_millis(100 * tenths);
        let broken = |severity: f64| Verdict { is_broken: true, severity, ..Verdict::default() };
        for (severity, result) in [(3.0, Without::Useful), (1.5, Without::Retry)] {
            let mut feasibility = Feasibility::default();
            let gave_up = (0..=100).find(|&tenths| feasibility.gives_up(at(tenths), true, &broken(1.0)));
            assert!(gave_up == Some(100) && feasibility.has_given_up());
            let ends = (101..).find_map(|tenths| {
                let result = feasibility.without(at(tenths), &broken(severity));
                result.filter(|result| *result != Without::Wait).map(|result| (tenths, result))
            });
            assert_eq!(ends, Some((if result == Without::Useful { 140 } else { 700 }, result)));
        }
        let mut feasibility = Feasibility::default();
        feasibility.keep_limits();
        assert!((0..300).all(|tenths| !feasibility.gives_up(at(tenths), true, &broken(1.0))) && feasibility.is_hopeless());
        assert!(!feasibility.gives_up(at(300), false, &broken(1.0)) && !feasibility.is_hopeless());
    }
}
