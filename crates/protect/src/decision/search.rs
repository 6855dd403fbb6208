//! The search for the device time that neighbours may have: the highest with which the guarantee is kept.

use std::collections::BTreeMap;

use block::Nanos;

use super::watch::Verdict;

/// Time after a change of the load during which limits are searched in quick steps. Choice: a shorter one ends before a level is found, a
/// longer one lets limits oscillate; not varied.
const SEEKING: Nanos = Nanos::from_millis(5_000);
/// Minimum time between two changes after that. Choice: a shorter one breaks the guarantee more often, a longer one leaves room unused;
/// not varied.
const STEADY: Nanos = Nanos::from_millis(5_000);
/// Minimum factor by which limits are raised. Choice: smaller raises have no effect beyond the noise; not varied.
const SMALL_STEP: f64 = 1.1;
/// Maximum relative raise of a limit in a steady load, small enough to be reverted without a noticeable effect. Choice: larger raises break
/// the guarantee for seconds, smaller ones find room late; below a fifth; not varied.
const STEADY_STEP: f64 = 0.19;
/// The same after raises that kept the guarantee with room to spare: each doubles the next up to this one. Choice: a level that is ten times
/// too low is found in 25 s instead of 65; not varied.
const LARGEST_STEP: f64 = 1.0;
/// Seconds of evidence of room before limits are raised. With 0.4, 203 of 240 random cases kept the guarantee; with 0.8, 207. Choice: the
/// better of these two, on seeds 3 to 6 of `seekwise-lab protect`.
const HOLD: f64 = 0.8;
/// Time after which a level that broke the guarantee may be approached again. Choice: a shorter one repeats the violation, a longer one
/// keeps limits after the device has recovered; not varied.
pub(super) const FORGET: Nanos = Nanos::from_millis(30_000);
/// Factor on the first cut for unknown neighbours, so that the cut is deeper than late requests suggest. Choice: a second with limits too
/// low costs less than three with limits too high; not varied.
const FIRST_CUT: f64 = 0.3;
/// Range of the first cut, as a fraction; limits rise from there in quick steps. Choice: the lower end keeps some work to measure, the
/// upper end drains the queue; not varied.
const FIRST: (f64, f64) = (0.03, 0.3);
/// Minimum factor of any other cut. Choice: a deeper cut costs the neighbours more than a second cut; not varied.
const LARGEST_CUT: f64 = 0.15;
/// Minimum device time of the neighbours, below which it is not cut. Choice: below the least floor of the configuration, 1 MB/s, up to a
/// device of 10 GB/s, so that floors apply; not varied.
pub(super) const LEAST: f64 = 1e-4;
/// Maximum number of sets of neighbours whose levels are remembered. Choice: bounds the memory; six neighbours have 64 sets; not varied.
const REMEMBERED: usize = 64;

/// The state of the search for the neighbours' device time, for one set of neighbours.
#[derive(Clone, Copy, Debug)]
struct Level {
    /// Seconds of device time per second that all neighbours together may have; infinite without a limit.
    time: f64,
    /// Highest value that kept the guarantee, and lowest value that broke it.
    kept: f64,
    broken: f64,
    broken_at: Nanos,
}

impl Default for Level {
    fn default() -> Level {
        Level { time: f64::INFINITY, kept: 0.0, broken: f64::INFINITY, broken_at: Nanos::ZERO }
    }
}

/// The search, with the results for other sets of neighbours.
#[derive(Debug)]
pub(super) struct Search {
    level: Level,
    /// Levels by set of neighbours, with the time of last use.
    memory: BTreeMap<Vec<usize>, (Nanos, Level)>,
    /// Time of the last change of the load: the unit or a neighbour appeared or left.
    began: Nanos,
    /// Time of the last change of the level.
    changed: Nanos,
    /// Whether limits were raised in a steady load and there is no evidence yet that they keep the guarantee.
    is_tried: bool,
    /// Maximum relative raise in a steady load; see [`LARGEST_STEP`].
    step: f64,
}

impl Default for Search {
    fn default() -> Search {
        let (level, memory) = (Level::default(), BTreeMap::new());
        Search { level, memory, began: Nanos::ZERO, changed: Nanos::ZERO, is_tried: false, step: STEADY_STEP }
    }
}

impl Search {
    /// Seconds of device time per second that all neighbours together may have; infinite without a limit.
    pub fn time(&self) -> f64 {
        self.level.time
    }

    pub fn set(&mut self, now: Nanos, time: f64) {
        if time != self.level.time {
            self.changed = now;
        }
        self.level.time = time;
    }

    /// Whether a level is known that kept the guarantee.
    pub fn is_known(&self) -> bool {
        self.level.kept > 0.0
    }

    /// A pause of the unit, which shows nothing: the search goes on after it.
    pub fn wait(&mut self, period: Nanos) {
        (self.began, self.changed) = (self.began + period, self.changed + period);
    }

    /// Forgets the level of these neighbours, which are not limited any more.
    pub fn reset(&mut self) {
        self.level = Level::default();
    }

    /// Starts over with quick steps.
    pub fn begin(&mut self, now: Nanos) {
        self.began = now;
    }

    /// Whether limits are searched in quick steps.
    pub fn is_seeking(&self, now: Nanos) -> bool {
        now - self.began < SEEKING
    }

    /// Stores the level of the neighbours from before, and continues with that of the new ones.
    pub fn switch(&mut self, now: Nanos, before: Vec<usize>, neighbours: &[usize]) {
        if !before.is_empty() {
            if self.memory.len() >= REMEMBERED
                && let Some(oldest) = self.memory.iter().min_by_key(|(_, (used, _))| *used).map(|(key, _)| key.clone())
            {
                self.memory.remove(&oldest);
            }
            self.memory.insert(before, (now, self.level));
        }
        let left = Level { time: self.level.time, ..Level::default() };
        self.level = self.memory.get(neighbours).map_or(left, |(_, level)| *level);
        if neighbours.is_empty() {
            self.level = Level::default();
        }
    }

    /// The new level after a violation; `None` if it is too soon for a change. `used`: the device time that the neighbours used per second;
    /// `used_part`: the part of their limits that they use.
    pub fn cut(&mut self, now: Nanos, verdict: &Verdict, used: f64, used_part: f64) -> Option<f64> {
        let is_seeking = self.is_seeking(now);
        let was_raised = std::mem::take(&mut self.is_tried) && self.level.kept > 0.0;
        if !is_seeking && !verdict.is_far && !was_raised && now - self.changed < STEADY {
            return None;
        }
        if verdict.is_far && !is_seeking && (self.level.kept <= 0.0 || self.level.kept >= self.level.time) {
            // The load has changed: limits that kept the guarantee do not any more. Above them, it is enough to return to them.
            self.began = now;
        }
        let from = if self.level.time.is_infinite() { used.max(1e-3) } else { self.level.time * used_part };
        let is_first = self.level.broken.is_infinite() && !was_raised;
        if self.level.kept >= self.level.time {
            self.level.kept = 0.0;
        }
        self.level.broken = self.level.broken.min(self.level.time.min(from * 1.5));
        self.level.broken_at = now;
        self.step = STEADY_STEP;
        let cut = if is_first { (FIRST_CUT * verdict.cut).clamp(FIRST.0, FIRST.1) } else { verdict.cut.clamp(LARGEST_CUT, 0.8) };
        let time = (from * cut).max(self.level.kept);
        Some(time.max(LEAST))
    }

    /// The new level, after `wall_s` seconds in which the guarantee was kept; `None` if it stays. `shares` returns the device time of each
    /// neighbour that demands at least that much, and the number of these neighbours.
    pub fn raise(&mut self, now: Nanos, verdict: &Verdict, wall_s: f64, shares: impl Fn(f64) -> (f64, f64)) -> Option<f64> {
        let is_seeking = self.is_seeking(now);
        if self.level.time.is_infinite() || !verdict.has_room || wall_s < HOLD {
            return None;
        }
        if !is_seeking && now - self.changed < STEADY {
            return None;
        }
        self.level.kept = self.level.kept.max(self.level.time);
        self.is_tried = false;
        if now - self.level.broken_at >= FORGET {
            (self.level.broken, self.level.broken_at) = (self.level.broken * 1.5, now);
        }
        let between = (self.level.time * self.level.broken).sqrt();
        let (cap, count) = shares(self.level.time);
        let most = if is_seeking { f64::INFINITY } else { self.level.time + self.step * cap * count };
        let wanted = (self.level.time * verdict.raise).min(between);
        if wanted < SMALL_STEP * self.level.time {
            return None;
        }
        let time = wanted.min(most);
        self.is_tried = !is_seeking;
        if !is_seeking {
            self.step = (2.0 * self.step).min(LARGEST_STEP);
        }
        Some(if time >= 1.0 { f64::INFINITY } else { time })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::*;

    #[test]
    fn a_level_that_is_ten_times_too_low_is_left_in_half_a_minute_by_raises_that_double_until_a_cut() {
        let at = |seconds: u64| Nanos::from_millis(1_000 * seconds);
        let room = Verdict { has_room: true, raise: 4.0, ..Verdict::default() };
        let broken = Verdict { is_broken: true, cut: 0.5, ..Verdict::default() };
        let shares = |time: f64| (time, 1.0);
        let mut search = Search::default();
        search.set(at(1), 0.01);
        let mut levels = Vec::new();
        for second in (10..=35).step_by(5) {
            let raised = search.raise(at(second), &room, 5.0, shares).unwrap();
            levels.push(raised / search.time());
            search.set(at(second), raised);
        }
        assert!(levels[0] < 1.2 && levels.is_sorted() && levels.iter().all(|level| *level <= 2.0), "{levels:?}");
        assert!(search.time() > 0.1, "{}", search.time());
        let cut = search.cut(at(36), &broken, 0.1, 1.0).unwrap();
        search.set(at(36), cut);
        let raised = search.raise(at(70), &room, 5.0, shares).unwrap();
        assert!(raised < 1.2 * cut, "{raised} {cut}");
    }

    #[test]
    fn a_violation_above_a_level_that_was_kept_leads_back_to_it() {
        let at = |seconds: u64| Nanos::from_millis(1_000 * seconds);
        let far = Verdict { is_broken: true, is_far: true, cut: 0.2, ..Verdict::default() };
        let room = Verdict { has_room: true, raise: 1.5, ..Verdict::default() };
        let mut search = Search::default();
        search.begin(at(1));
        search.switch(at(1), Vec::new(), &[2]);
        search.set(at(1), 0.2);
        let raised = search.raise(at(20), &room, 1.0, |time| (time, 1.0)).unwrap();
        search.set(at(20), raised);
        let back = search.cut(at(22), &far, raised, 1.0).unwrap();
        assert_eq!(back, 0.2);
        search.set(at(22), back);
        assert!(!search.is_seeking(at(22)), "one bad moment is no new load");
        assert!(search.cut(at(24), &far, back, 1.0).unwrap() < 0.2);
        assert!(search.is_seeking(at(24)), "the level that was kept is broken");
    }

    #[test]
    fn a_level_is_cut_raised_and_found_again_when_the_neighbours_return() {
        let at = |seconds: u64| Nanos::from_millis(1_000 * seconds);
        let broken = Verdict { is_broken: true, cut: 0.5, ..Verdict::default() };
        let room = Verdict { has_room: true, raise: 2.0, ..Verdict::default() };
        let mut search = Search::default();
        search.begin(at(1));
        search.switch(at(1), Vec::new(), &[2]);
        // The first cut goes to 15% of the device time in use.
        let cut = search.cut(at(2), &broken, 0.8, 1.0).unwrap();
        assert!((cut - 0.8 * 0.15).abs() < 1e-9, "{cut}");
        search.set(at(2), cut);
        let shares = |time: f64| (time, 1.0);
        assert_eq!(search.raise(at(3), &room, 0.5, shares), None, "there is too little evidence of room");
        let raised = search.raise(at(3), &room, 1.0, shares).unwrap();
        assert!(raised > cut && raised < 0.8, "{raised}");
        search.set(at(6), raised);
        assert_eq!(search.cut(at(7), &broken, 0.2, 1.0), None, "a steady load is left alone for some seconds");
        search.switch(at(8), vec![2], &[]);
        assert!(search.time().is_infinite());
        search.switch(at(9), Vec::new(), &[2]);
        assert_eq!(search.time(), raised);
    }
}
