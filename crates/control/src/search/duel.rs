//! Settings compared: what is known of a gain, and turns that a setting and the one that was found serve in, until it is known which is better.

use crate::Window;
use crate::controller::by_precision;
use crate::setting::Setting;
use observe::preference::Preference;
use observe::served::Served;

/// Pairs of turns after which a verification may end, and after which it has to.
const PAIRS: (usize, usize) = (3, 5);
/// By how many standard errors a mean of 3, 4, … pairs is significant: Student's t, 95% on one side; and one of many.
const SURE_OF_PAIRS: [f64; 3] = [2.92, 2.35, 2.13];
const SURE_OF_MANY: f64 = 1.645;
/// A difference of this many standard errors is significant (95%).
pub(super) const SURE: f64 = 2.0;
/// What two spans of a load differ by, whatever serves it.
const DRIFT: f64 = 0.01;
/// Tunables of the host that work at once. What the others bring, those of memory, shows after minutes, and turns are too short for it.
const AT_ONCE: [&str; 2] = ["nr_requests", "read_ahead_kb"];
/// A gain below this is not worth a change.
pub(super) const LEAST_GAIN: f64 = 0.005;
/// Known loads from which on it is known what other loads gain.
const FEWEST_KNOWN: usize = 3;

/// A score, or a gain as a difference of scores, and its standard error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Estimate {
    pub(super) mean: f64,
    pub(super) error: f64,
}

impl Estimate {
    /// Of all windows as one: a mean of their scores would be the lower the shorter they are. `None` of fewer than two.
    pub(super) fn of<'a>(windows: impl Iterator<Item = &'a Window> + Clone, preference: &Preference) -> Option<Estimate> {
        let scores: Vec<f64> = windows.clone().map(|window| window.outcome.score(preference)).collect();
        let whole = Served::of(windows.map(|window| &window.outcome))?;
        Some(Estimate { mean: whole.score(preference), ..Estimate::of_values(&scores)? })
    }

    /// The mean of some; `None` of fewer than two.
    pub(super) fn of_values(values: &[f64]) -> Option<Estimate> {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
        (values.len() > 1).then(|| Estimate { mean, error: (variance / count).sqrt() })
    }

    /// The same thing told by two that know nothing of each other.
    pub(super) fn with(&self, other: &Estimate) -> Estimate {
        let mean = by_precision((self.mean, self.error), (other.mean, other.error));
        Estimate { mean, error: self.error * other.error / self.error.hypot(other.error).max(f64::MIN_POSITIVE) }
    }

    /// The difference from another. Loads drift meanwhile.
    pub(super) fn over(&self, other: &Estimate) -> Estimate {
        let error = (self.error.powi(2) + other.error.powi(2) + DRIFT.powi(2)).sqrt();
        Estimate { mean: self.mean - other.mean, error }
    }

    /// Of gains that are known with these weights, what another one is to be expected to be; `None` of fewer than [`FEWEST_KNOWN`]. Where one
    /// weighs most of all, its spread is not known, and the error is large.
    pub(super) fn expected(known: &[(f64, f64)]) -> Option<Estimate> {
        let whole: f64 = known.iter().map(|(weight, _)| weight).sum();
        // So many that weigh alike would tell as much.
        let count = whole.powi(2) / known.iter().map(|(weight, _)| weight.powi(2)).sum::<f64>();
        let mean = known.iter().map(|(weight, gain)| weight * gain).sum::<f64>() / whole;
        let spread = known.iter().map(|(weight, gain)| weight * (gain - mean).powi(2)).sum::<f64>() / whole;
        let error = (spread * count / (count - 1.0) * (1.0 + 1.0 / count)).sqrt();
        (known.len() >= FEWEST_KNOWN && error.is_finite()).then_some(Estimate { mean, error })
    }
}

/// A setting that is to be verified, and what is expected of it if that is known of other loads.
#[derive(Clone, Debug)]
pub(super) struct Challenger {
    pub(super) setting: Setting,
    pub(super) expected: Option<Estimate>,
}

impl Challenger {
    /// Of which only trials tell.
    pub(super) fn tried(setting: Setting) -> Challenger {
        Challenger { setting, expected: None }
    }
}

/// A verification.
#[derive(Clone, Debug)]
pub(super) struct Duel {
    pub(super) best: Setting,
    pub(super) expected: Option<Estimate>,
    /// What was queued under the other one is served.
    pub(super) is_settling: bool,
    /// Turns are too short for all that tells the two apart.
    is_slow: bool,
    /// Turns that were begun.
    turns: usize,
    /// Scores of the best, and of what was found.
    scores: [Vec<f64>; 2],
    /// A turn of the best in which a stream starved by what was known then of waits under what was found.
    pub(super) suspect: Option<Box<Window>>,
}

impl Duel {
    pub(super) fn new(challenger: Challenger, found: &Setting) -> Duel {
        let Challenger { setting: best, expected } = challenger;
        let slow = |setting: &Setting| {
            setting.host.iter().filter(|(name, _)| !AT_ONCE.contains(&name.as_str())).cloned().collect::<Vec<_>>()
        };
        let is_slow = slow(&best) != slow(found);
        Duel { best, expected, is_slow, turns: 0, is_settling: true, scores: Default::default(), suspect: None }
    }

    /// The gain of the best over what was found, over pairs that are whole, and how many these are; `None` while they are too few to tell.
    fn gain(&self) -> Option<(usize, Estimate)> {
        let gains: Vec<f64> = self.scores[0].iter().zip(&self.scores[1]).map(|(best, found)| best - found).collect();
        Estimate::of_values(&gains).filter(|_| gains.len() >= PAIRS.0).map(|gain| (gains.len(), gain))
    }

    /// Whose turn it is. Which of a pair goes first changes from pair to pair, so that drifts tell for neither.
    pub(super) fn is_bests_turn(&self) -> bool {
        matches!(self.turns % 4, 0 | 3)
    }

    /// A turn is over, with this score.
    pub(super) fn take(&mut self, score: f64) {
        let was_best = self.is_bests_turn();
        self.scores[usize::from(!was_best)].push(score);
        self.turns += 1;
        self.is_settling = self.is_bests_turn() != was_best;
    }

    /// Whether it is known how long streams wait under what was found once memory is full, and not only when the load began.
    pub(super) fn knows_waits(&self) -> bool {
        !self.scores[1].is_empty()
    }

    /// The same at the end of a pair, when it may be decided.
    pub(super) fn measured(&self) -> Option<(usize, Estimate)> {
        self.gain().filter(|_| self.turns.is_multiple_of(2))
    }

    /// Whether the best would stay if it had to end now. Without whole pairs, other loads tell alone.
    pub(super) fn is_likely(&self) -> bool {
        let stays = |(pairs, measured)| matches!(self.judged(pairs, measured, true), Some(Verdict::Better(_)));
        self.expected.is_some() && self.gain().is_none_or(stays)
    }

    /// What comes of it after so many pairs; `None` where that is not sure yet.
    pub(super) fn verdict(&self, pairs: usize, measured: Estimate) -> Option<Verdict> {
        self.judged(pairs, measured, pairs >= PAIRS.1)
    }

    fn judged(&self, pairs: usize, measured: Estimate, is_last: bool) -> Option<Verdict> {
        let Estimate { mean, error } = measured;
        let sure_of = SURE_OF_PAIRS.get(pairs - PAIRS.0).copied().unwrap_or(SURE);
        let sure = error * sure_of;
        let (gain, is_better, is_worse) = match &self.expected {
            // What other loads of the device gained stays unless turns say that it does harm, or as much as tells the contrary. How far a few
            // pairs differ tells little of how far they may be off; and of a gain that comes slowly they tell nothing: what was swapped or
            // written under one setting is there under the other.
            Some(expected) => {
                let few = Estimate { mean, error: error * sure_of / SURE_OF_MANY };
                let gain = if self.is_slow { *expected } else { expected.with(&few) };
                let does_harm = mean.is_nan() || mean + sure < 0.0;
                (gain, !does_harm && (mean > 0.0 || is_last && gain.mean > LEAST_GAIN), does_harm)
            }
            None => (measured, mean > LEAST_GAIN.max(sure), mean.is_nan() || mean + sure < LEAST_GAIN),
        };
        if is_better { Some(Verdict::Better(gain)) } else { (is_worse || is_last).then_some(Verdict::NotBetter) }
    }
}

/// What comes of a verification.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Verdict {
    /// By so much.
    Better(Estimate),
    /// Or not for sure.
    NotBetter,
}

/// A difference of scores, in words.
pub(super) fn percent(gain: f64) -> String {
    let percent = 100.0 * gain.exp_m1();
    if percent < 0.0 { format!("{:.1}% worse", -percent) } else { format!("{percent:.1}% better") }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::*;

    #[test]
    fn what_near_loads_gained_is_expected_more_than_what_far_ones_did() {
        let alike = Estimate::expected(&[(1.0, 0.1), (1.0, 0.2), (1.0, 0.3)]).unwrap();
        // The spread of another one, and that of the mean of three.
        assert!((alike.mean - 0.2).abs() < 1e-12 && (alike.error - 0.1 * (1.0 + 1.0 / 3.0_f64).sqrt()).abs() < 1e-12, "{alike:?}");
        let near = Estimate::expected(&[(1.0, 0.3), (1.0, 0.3), (1.0, 0.3), (0.5, -0.1), (0.5, -0.1)]).unwrap();
        assert!(near.mean > 0.19 && near.error > 0.1, "{near:?}");
        let one = Estimate::expected(&[(1.0, 0.3), (0.01, 0.1), (0.01, 0.1)]).unwrap();
        assert!(one.mean > 0.29 && one.error > 0.1, "one load is most of what is known: {one:?}");
        assert_eq!(Estimate::expected(&[(1.0, 0.3), (1.0, 0.3)]), None, "two loads");
        assert_eq!(Estimate::expected(&[]), None);
    }

    #[test]
    fn turns_take_turns_and_tell_when_enough_pairs_are_whole() {
        let found = Setting::of(block::ALL[0]);
        let mut duel = Duel::new(Challenger { setting: found.clone(), expected: Some(Estimate { mean: 0.1, error: 0.1 }) }, &found);
        let mut order = String::new();
        for turn in 0..6 {
            assert_eq!(duel.measured(), None, "after {turn} turns");
            order.push(if duel.is_bests_turn() { 'b' } else { 'f' });
            duel.take(if duel.is_bests_turn() { 0.1 } else { 0.3 + f64::from(turn) * 0.001 });
        }
        assert_eq!(order, "bffbbf");
        let (pairs, measured) = duel.measured().unwrap();
        assert!(pairs == 3 && measured.mean < -0.2 && !duel.is_likely(), "{measured:?}");
    }

    #[test]
    fn what_served_other_loads_stays_unless_turns_say_that_it_does_harm() {
        let found = Setting::of(block::ALL[0]);
        let duel = |expected| Duel::new(Challenger { setting: found.clone(), expected }, &found);
        let known = duel(Some(Estimate { mean: 0.1, error: 0.1 }));
        let measured = |mean: f64, error: f64| Estimate { mean, error };
        assert!(matches!(known.verdict(3, measured(0.001, 0.05)), Some(Verdict::Better(gain)) if gain.mean > 0.0));
        assert_eq!(known.verdict(3, measured(-0.01, 0.05)), None);
        assert!(matches!(known.verdict(5, measured(-0.01, 0.05)), Some(Verdict::Better(_))));
        assert_eq!(known.verdict(5, measured(-0.02, 0.01)), Some(Verdict::NotBetter), "that says more than other loads do");
        assert_eq!(known.verdict(3, measured(-0.2, 0.05)), Some(Verdict::NotBetter));
        let of_memory = Challenger { setting: Setting::parse("noop swappiness=0").unwrap(), expected: known.expected };
        let slow = Duel::new(of_memory, &found);
        assert_eq!(slow.verdict(3, measured(-0.02, 0.01)), None);
        assert_eq!(
            slow.verdict(5, measured(-0.02, 0.01)),
            Some(Verdict::Better(Estimate { mean: 0.1, error: 0.1 })),
            "turns are too short"
        );
        assert_eq!(slow.verdict(5, measured(-0.03, 0.01)), Some(Verdict::NotBetter), "it does harm");
        let unknown = duel(None);
        assert!(known.is_likely() && !unknown.is_likely());
        assert_eq!(unknown.verdict(3, measured(0.01, 0.05)), None);
        assert_eq!(unknown.verdict(5, measured(0.01, 0.05)), Some(Verdict::NotBetter));
        assert_eq!(unknown.verdict(3, measured(0.2, 0.05)), Some(Verdict::Better(measured(0.2, 0.05))));
        assert_eq!(unknown.verdict(3, measured(f64::NAN, 0.05)), Some(Verdict::NotBetter));
        assert_eq!(known.verdict(3, measured(f64::NAN, 0.05)), Some(Verdict::NotBetter));
    }
}
