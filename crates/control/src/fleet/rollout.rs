//! A staged rollout of a setting: first to a few devices of a kind, compared with the others, then to more, or rolled back.
//!
//! ```text
//! device i of the stage:  scores before ─▶ scores with the setting    change d_i
//! device j of the others: scores before ─▶ scores at the same time    change d_j       gain = mean d_i − mean d_j
//! ```
//! The change of the other devices is the control: a busier hour must not count for or against the setting.

use std::fmt;
use std::str::FromStr;

use statistics::Rank;

use crate::ab_test::{Comparison, Estimate, MIN_GAIN, Outcome};

/// Minimum scores per device before and after a change: with fewer, one unusual hour decides. Choice: more delay a rollout by hours;
/// not varied.
pub const MIN_SCORES: usize = 3;

/// The size of a stage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stage {
    /// Number of devices.
    Devices(u32),
    /// Percentage of the participating devices, rounded up.
    Percent(u32),
}

impl Stage {
    /// The number of devices in this stage, given the number of participating devices.
    pub fn of(self, taking_part: usize) -> usize {
        match self {
            Stage::Devices(count) => (count as usize).min(taking_part),
            Stage::Percent(percent) => (taking_part * percent as usize).div_ceil(100),
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Stage::Devices(count) => write!(f, "{count}"),
            Stage::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

/// The stages of a rollout.
#[derive(Clone, Debug, PartialEq)]
pub struct Stages(pub Vec<Stage>);

impl FromStr for Stages {
    type Err = String;

    /// Parses numbers of devices and percentages, as in `1,5,25%,100%`.
    fn from_str(text: &str) -> Result<Stages, String> {
        let stage = |word: &str| {
            let (number, is_percent) = word.strip_suffix('%').map_or((word, false), |number| (number, true));
            let number: Option<u32> = number.parse().ok().filter(|number| *number > 0 && (!is_percent || *number <= 100));
            let number =
                number.ok_or_else(|| format!("'{word}' should be a number of devices or 1% to 100%, as in 1,5,25%,100%"))?;
            Ok(if is_percent { Stage::Percent(number) } else { Stage::Devices(number) })
        };
        text.split(',').map(|word| stage(word.trim())).collect::<Result<Vec<_>, String>>().map(Stages)
    }
}

impl fmt::Display for Stages {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let words: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&words.join(","))
    }
}

/// A score of a device over some time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimedScore {
    /// Arrival time by the server's clock, in seconds.
    pub at_s: f64,
    /// Whether the setting was active.
    pub is_treated: bool,
    /// The mean score of its windows.
    pub score: f64,
}

/// Result of comparing scores.
#[derive(Clone, Debug, PartialEq)]
pub enum Judgement {
    /// Too few devices have scores before and after the change.
    TooLittle(String),
    /// The comparison.
    Compared {
        /// The gain relative to the other devices, or to the time before if there are no others.
        comparison: Comparison,
        /// Number of compared devices with the setting.
        treated: usize,
        /// Number of compared devices without the setting.
        others: usize,
    },
}

impl Judgement {
    /// Whether the setting is better, worse or neither; `None` without a comparison.
    pub fn outcome(&self) -> Option<Outcome> {
        match self {
            Judgement::TooLittle(_) => None,
            Judgement::Compared { comparison, .. } => Some(comparison.outcome(MIN_GAIN)),
        }
    }
}

/// Compares the devices chosen for the setting, which should have it by now, with the others.
pub fn judge(chosen: &[Vec<TimedScore>], others: &[Vec<TimedScore>]) -> Judgement {
    let is_sound = |score: &&TimedScore| score.score.is_finite() && score.at_s.is_finite();
    let mut began = Vec::new();
    let treated: Vec<(Vec<f64>, Vec<f64>)> = chosen
        .iter()
        .filter_map(|scores| {
            let first = scores.iter().filter(is_sound).filter(|score| score.is_treated).map(|score| score.at_s).reduce(f64::min)?;
            let of = |is_treated: bool| -> Vec<f64> {
                let kept = |score: &&TimedScore| score.is_treated == is_treated && (is_treated || score.at_s < first);
                scores.iter().filter(is_sound).filter(kept).map(|score| score.score).collect()
            };
            let (before, after) = (of(false), of(true));
            let is_enough = before.len() >= MIN_SCORES && after.len() >= MIN_SCORES;
            is_enough.then(|| {
                began.push(first);
                (before, after)
            })
        })
        .collect();
    let Some(middle) = Rank::Above.of(&mut began, 0.5) else {
        return Judgement::TooLittle(format!("no device has {MIN_SCORES} scores before and {MIN_SCORES} with the setting yet"));
    };
    if treated.len() < chosen.len() {
        return Judgement::TooLittle(format!("{} of {} devices have enough scores", treated.len(), chosen.len()));
    }
    let untreated: Vec<(Vec<f64>, Vec<f64>)> = others
        .iter()
        .filter_map(|scores| {
            let of = |is_after: bool| -> Vec<f64> {
                let kept = |score: &&TimedScore| !score.is_treated && (score.at_s >= middle) == is_after;
                scores.iter().filter(is_sound).filter(kept).map(|score| score.score).collect()
            };
            let (before, after) = (of(false), of(true));
            (before.len() >= MIN_SCORES && after.len() >= MIN_SCORES).then_some((before, after))
        })
        .collect();
    let Some(gain) = change(&treated) else { return Judgement::TooLittle("scores do not differ from each other".to_owned()) };
    let gain = match change(&untreated) {
        Some(anyway) => Estimate { mean: gain.mean - anyway.mean, error: gain.error.hypot(anyway.error) },
        None => gain,
    };
    let (treated, others) = (treated.len(), untreated.len());
    Judgement::Compared { comparison: Comparison::of_gain_in_pairs(gain, treated + others), treated, others }
}

/// The mean change over devices; for a single device, its error comes from its own scores. `None` without devices.
fn change(devices: &[(Vec<f64>, Vec<f64>)]) -> Option<Estimate> {
    if let [(before, after)] = devices {
        return Comparison::of_series(before, after).map(|comparison| comparison.gain);
    }
    let mean = |scores: &[f64]| statistics::mean(scores.iter().copied()).unwrap_or(f64::NAN);
    let changes: Vec<f64> = devices.iter().map(|(before, after)| mean(after) - mean(before)).collect();
    Estimate::of_values(&changes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::*;

    /// Hourly scores of a device, four before and four after: a step of `anyway`, and one of the setting if it is treated.
    fn device(number: usize, setting: Option<f64>, anyway: f64) -> Vec<TimedScore> {
        let noise = |hour: usize| 0.01 * ((number * 7 + hour * 3) % 5) as f64;
        (0..8)
            .map(|hour| {
                let is_after = hour >= 4;
                let gain = if is_after { anyway + setting.unwrap_or(0.0) } else { 0.0 };
                let score = number as f64 + gain + noise(hour);
                TimedScore { at_s: 3600.0 * hour as f64, is_treated: is_after && setting.is_some(), score }
            })
            .collect()
    }

    fn judged(treated: usize, gain: f64, others: usize, anyway: f64) -> Judgement {
        let chosen: Vec<_> = (0..treated).map(|number| device(number, Some(gain), anyway)).collect();
        let others: Vec<_> = (0..others).map(|number| device(10 + number, None, anyway)).collect();
        judge(&chosen, &others)
    }

    #[test]
    fn what_happens_to_all_devices_counts_neither_for_nor_against_the_setting() {
        assert_eq!(judged(4, 0.2, 6, -0.5).outcome(), Some(Outcome::Better));
        assert_eq!(judged(4, -0.2, 6, 0.5).outcome(), Some(Outcome::Worse));
        assert_ne!(judged(4, 0.0, 6, 0.5).outcome(), Some(Outcome::Better));
        assert_eq!(judged(1, 0.3, 6, 0.0).outcome(), Some(Outcome::Better), "one device");
        assert_eq!(judged(3, 0.3, 0, 0.0).outcome(), Some(Outcome::Better), "all devices");
    }

    #[test]
    fn nothing_is_judged_before_every_chosen_device_has_scores() {
        let mut chosen: Vec<_> = (0..3).map(|number| device(number, Some(0.5), 0.0)).collect();
        chosen[2].truncate(5);
        assert_eq!(judge(&chosen, &[]), Judgement::TooLittle("2 of 3 devices have enough scores".into()));
        assert_eq!(judge(&[], &[]).outcome(), None);
        let broken = vec![vec![TimedScore { at_s: 0.0, is_treated: true, score: f64::NAN }; 9]];
        assert_eq!(judge(&broken, &[]).outcome(), None);
    }

    #[test]
    fn stages_are_numbers_of_devices_or_percentages() {
        let stages: Stages = "1, 5,25%,100%".parse().unwrap();
        assert_eq!(stages.to_string(), "1,5,25%,100%");
        assert_eq!(stages.0.iter().map(|stage| stage.of(10)).collect::<Vec<_>>(), [1, 5, 3, 10]);
        for wrong in ["", "0", "1,,2", "101%", "-1", "many"] {
            let error = wrong.parse::<Stages>().unwrap_err();
            assert!(error.contains("as in 1,5,25%,100%"), "{error}");
        }
    }
}
