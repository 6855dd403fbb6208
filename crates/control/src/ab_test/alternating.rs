//! Alternating turns of a candidate and a baseline, until one is significantly better.
//!
//! ```text
//! turn       0          1         2         3          4          5
//!            candidate  baseline  baseline  candidate  candidate  baseline   …   at least 3 and at most 5 pairs
//! ```
//! The order alternates from pair to pair, so that drift favours neither.

use statistics::normal;

use super::{Comparison, Estimate, MIN_GAIN, MIN_PAIRS, Outcome};
use crate::setting::Setting;

/// Maximum number of pairs of turns. Choice: more show smaller gains and keep the worse setting longer; five take 100 s with the default
/// turns; not varied.
const MAX_PAIRS: usize = 5;
/// Host tunables with an immediate effect. Others, which concern memory, take minutes, so turns are too short for them. Choice: the
/// tunables of the request queue; not varied.
const IMMEDIATE: [&str; 2] = ["nr_requests", "read_ahead_kb"];

/// A setting that challenges the baseline.
#[derive(Clone, Debug)]
pub struct Challenger {
    /// The setting.
    pub setting: Setting,
    /// The gain over the baseline predicted from other loads; `None` without a prediction.
    pub expected: Option<Estimate>,
}

impl Challenger {
    /// A challenger without a prediction.
    pub fn unpredicted(setting: Setting) -> Challenger {
        Challenger { setting, expected: None }
    }
}

/// The result of a test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Winner {
    /// The candidate replaces the baseline, with this gain.
    Candidate(Estimate),
    /// The baseline stays.
    Baseline,
}

/// A test of a candidate against a baseline.
///
/// The host applies the setting whose turn it is, waits while the test settles, and reports the score of each turn.
///
/// ```
/// use control::Setting;
/// use control::ab_test::{AbTest, Challenger, Winner};
///
/// let (candidate, baseline) = (Setting::parse("kyber")?, Setting::parse("mq-deadline")?);
/// let mut test = AbTest::new(Challenger::unpredicted(candidate), &baseline);
/// let winner = loop {
///     test.settled();
///     test.record(if test.is_candidates_turn() { 1.2 } else { 1.0 });
///     if let Some(winner) = test.comparison().and_then(|comparison| test.winner(&comparison)) {
///         break winner;
///     }
/// };
/// assert!(matches!(winner, Winner::Candidate(gain) if (gain.mean - 0.2).abs() < 1e-9));
/// # Ok::<(), block::SettingError>(())
/// ```
#[derive(Clone, Debug)]
pub struct AbTest {
    candidate: Setting,
    expected: Option<Estimate>,
    /// Whether requests from before the change are still being served.
    is_settling: bool,
    /// Whether the settings differ in tunables whose effect is too slow for turns.
    is_slow: bool,
    /// Number of completed turns.
    turns: usize,
    /// Scores of the turns of the candidate, and of the baseline.
    scores: [Vec<f64>; 2],
}

impl AbTest {
    /// A test that starts with the candidate's turn.
    pub fn new(challenger: Challenger, baseline: &Setting) -> AbTest {
        let Challenger { setting: candidate, expected } = challenger;
        let slow = |setting: &Setting| {
            setting.host.iter().filter(|(name, _)| !IMMEDIATE.contains(&name.as_str())).cloned().collect::<Vec<_>>()
        };
        let is_slow = slow(&candidate) != slow(baseline);
        AbTest { candidate, expected, is_slow, turns: 0, is_settling: true, scores: Default::default() }
    }

    /// The setting under test.
    pub fn candidate(&self) -> &Setting {
        &self.candidate
    }

    /// The gain predicted from other loads; `None` without a prediction.
    pub fn expected(&self) -> Option<&Estimate> {
        self.expected.as_ref()
    }

    /// Whether the setting has just changed and its turn has not started.
    pub fn is_settling(&self) -> bool {
        self.is_settling
    }

    /// Starts the turn, after the change has settled.
    pub fn settled(&mut self) {
        self.is_settling = false;
    }

    /// Whether it is the candidate's turn; otherwise it is the baseline's.
    pub fn is_candidates_turn(&self) -> bool {
        matches!(self.turns % 4, 0 | 3)
    }

    /// Ends a turn with its score.
    pub fn record(&mut self, score: f64) {
        let was_candidates = self.is_candidates_turn();
        self.scores[usize::from(!was_candidates)].push(score);
        self.turns += 1;
        self.is_settling = self.is_candidates_turn() != was_candidates;
    }

    /// Whether the baseline has had a turn: the load may have just started when the baseline was first measured.
    pub fn has_baseline(&self) -> bool {
        !self.scores[1].is_empty()
    }

    /// The comparison at the end of a pair; `None` within a pair, and before the end of the third pair.
    pub fn comparison(&self) -> Option<Comparison> {
        self.whole_pairs().filter(|_| self.turns.is_multiple_of(2))
    }

    fn whole_pairs(&self) -> Option<Comparison> {
        let [candidate, baseline] = &self.scores;
        Comparison::of_pairs(candidate, baseline)
    }

    /// Whether the candidate would win if the test had to end now. Without enough pairs the prediction alone decides; without a prediction,
    /// false.
    pub fn is_likely_better(&self) -> bool {
        let wins = |comparison: Comparison| matches!(self.judge(&comparison, true), Some(Winner::Candidate(_)));
        self.expected.is_some() && self.whole_pairs().is_none_or(wins)
    }

    /// The winner; `None` while more pairs are needed.
    pub fn winner(&self, comparison: &Comparison) -> Option<Winner> {
        self.judge(comparison, comparison.pairs.unwrap_or(MIN_PAIRS) >= MAX_PAIRS)
    }

    fn judge(&self, comparison: &Comparison, is_last: bool) -> Option<Winner> {
        let Estimate { mean, error } = comparison.gain;
        let outcome = comparison.outcome(MIN_GAIN);
        let (gain, is_better, is_worse) = match &self.expected {
            // The prediction holds unless the turns show a loss, or no gain together with it. The spread of a few pairs is itself
            // uncertain, so their error is widened by Student's t; for an effect that takes minutes they are no evidence.
            Some(expected) => {
                let few = Estimate { mean, error: error * comparison.critical / normal::ONE_SIDED_95 };
                let gain = if self.is_slow { *expected } else { expected.combined(&few) };
                let is_worse = outcome == Outcome::Worse;
                (gain, !is_worse && (mean > 0.0 || is_last && gain.mean > MIN_GAIN), is_worse)
            }
            None => (comparison.gain, outcome == Outcome::Better, matches!(outcome, Outcome::Worse | Outcome::NotBetter)),
        };
        if is_better { Some(Winner::Candidate(gain)) } else { (is_worse || is_last).then_some(Winner::Baseline) }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::*;

    #[test]
    fn turns_alternate_and_are_compared_after_three_pairs() {
        let baseline = Setting::of(block::ALL[0]);
        let expected = Some(Estimate { mean: 0.1, error: 0.1 });
        let mut test = AbTest::new(Challenger { setting: baseline.clone(), expected }, &baseline);
        let mut order = String::new();
        for turn in 0..6 {
            assert_eq!(test.comparison(), None, "after {turn} turns");
            order.push(if test.is_candidates_turn() { 'c' } else { 'b' });
            test.record(if test.is_candidates_turn() { 0.1 } else { 0.3 + f64::from(turn) * 0.001 });
        }
        assert_eq!(order, "cbbccb");
        let comparison = test.comparison().unwrap();
        assert!(comparison.pairs == Some(3) && comparison.gain.mean < -0.2 && !test.is_likely_better(), "{comparison:?}");
    }

    #[test]
    fn a_predicted_gain_stays_unless_turns_show_a_loss() {
        let baseline = Setting::of(block::ALL[0]);
        let test = |expected| AbTest::new(Challenger { setting: baseline.clone(), expected }, &baseline);
        let known = test(Some(Estimate { mean: 0.1, error: 0.1 }));
        let winner = |test: &AbTest, pairs: usize, mean: f64, error: f64| {
            test.winner(&Comparison::of_gain_in_pairs(Estimate { mean, error }, pairs))
        };
        assert!(matches!(winner(&known, 3, 0.001, 0.05), Some(Winner::Candidate(gain)) if gain.mean > 0.0));
        assert_eq!(winner(&known, 3, -0.01, 0.05), None);
        assert!(matches!(winner(&known, 5, -0.01, 0.05), Some(Winner::Candidate(_))));
        assert_eq!(winner(&known, 5, -0.02, 0.01), Some(Winner::Baseline), "that says more than other loads do");
        assert_eq!(winner(&known, 3, -0.2, 0.05), Some(Winner::Baseline));
        let of_memory = Challenger { setting: Setting::parse("noop swappiness=0").unwrap(), expected: known.expected };
        let slow = AbTest::new(of_memory, &baseline);
        assert_eq!(winner(&slow, 3, -0.02, 0.01), None);
        let expected = Some(Winner::Candidate(Estimate { mean: 0.1, error: 0.1 }));
        assert_eq!(winner(&slow, 5, -0.02, 0.01), expected, "turns are too short");
        assert_eq!(winner(&slow, 5, -0.03, 0.01), Some(Winner::Baseline), "it does harm");
        let unknown = test(None);
        assert!(known.is_likely_better() && !unknown.is_likely_better());
        assert_eq!(winner(&unknown, 3, 0.01, 0.05), None);
        assert_eq!(winner(&unknown, 5, 0.01, 0.05), Some(Winner::Baseline));
        assert_eq!(winner(&unknown, 3, 0.2, 0.05), Some(Winner::Candidate(Estimate { mean: 0.2, error: 0.05 })));
        assert_eq!(winner(&unknown, 3, f64::NAN, 0.05), Some(Winner::Baseline));
        assert_eq!(winner(&known, 3, f64::NAN, 0.05), Some(Winner::Baseline));
    }
}
