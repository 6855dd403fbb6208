//! The measured gain of the latest change: windows before it compared with those after it.

use std::collections::VecDeque;

use control::Setting;
use control::ab_test::Comparison;
use observe::Preference;
use observe::merit::Scored;

/// Windows before and after a change that are compared.
const COMPARED: usize = 8;

/// Scores of the latest windows under the active setting, and those before the latest change while its gain is being measured.
#[derive(Default)]
pub(super) struct Verification {
    scores: VecDeque<Scored>,
    /// `None` if there was no change, or its gain has been measured.
    trial: Option<Trial>,
    /// Number of queue tags under this setting.
    tags: Option<(Setting, u32)>,
}

struct Trial {
    before: Vec<Scored>,
    after: Vec<Scored>,
}

impl Verification {
    /// Discards the scores, and an unfinished measurement.
    pub fn reset(&mut self) {
        self.scores.clear();
        self.trial = None;
    }

    /// Number of queue tags under the active setting; read once.
    pub fn tags(&mut self, active: &Setting, read: impl FnOnce() -> u32) -> u32 {
        match &self.tags {
            Some((setting, tags)) if setting == active => *tags,
            _ => self.tags.insert((active.clone(), read())).1,
        }
    }

    /// Starts to measure the gain of a change, unless the change takes effect with delay.
    pub fn begin(&mut self, has_effect_at_once: bool) {
        let before = Vec::from(std::mem::take(&mut self.scores));
        self.trial = (has_effect_at_once && !before.is_empty()).then(|| Trial { before, after: Vec::new() });
    }

    /// Adds the score of a window under the active setting. Returns the gain of the latest change once enough windows followed it.
    pub fn add(&mut self, score: Scored, preference: &Preference) -> Option<Comparison> {
        if self.scores.len() >= COMPARED {
            self.scores.pop_front();
        }
        self.scores.push_back(score);
        let trial = self.trial.as_mut()?;
        trial.after.push(score);
        if trial.after.len() < COMPARED {
            return None;
        }
        self.finish(preference)
    }

    /// Ends the measurement of the latest change. Returns its gain; `None` if none was being measured, or no window followed the change.
    pub fn finish(&mut self, preference: &Preference) -> Option<Comparison> {
        let Trial { before, after } = self.trial.take()?;
        // The first window has requests queued under the previous setting; it is used only if it is the only one.
        let settling = usize::from(after.len() > 1);
        Comparison::of_scores(&before, &after[settling..], preference)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(verification: &mut Verification, score: f64, count: usize) -> Option<Comparison> {
        (0..count).filter_map(|_| verification.add(Scored::plain(score), &Preference::default())).last()
    }

    #[test]
    fn a_gain_is_measured_over_the_windows_around_a_change_without_the_first() {
        let mut verification = Verification::default();
        assert_eq!(add(&mut verification, 1.0, 20), None, "nothing was changed");
        verification.begin(true);
        assert_eq!(add(&mut verification, 9.0, 1), None, "the window of the change");
        let comparison = add(&mut verification, 1.5, COMPARED - 1);
        assert!(comparison.is_some_and(|one| (one.gain.mean - 0.5).abs() < 1e-9 && one.gain.error < 0.02), "{comparison:?}");
        assert_eq!(verification.finish(&Preference::default()), None, "it is measured once");
    }

    #[test]
    fn a_change_without_effect_at_once_or_without_windows_before_is_not_measured() {
        let mut verification = Verification::default();
        verification.begin(true);
        assert_eq!(add(&mut verification, 1.0, COMPARED), None);
        verification.begin(false);
        assert_eq!(add(&mut verification, 2.0, COMPARED), None);
    }
}
