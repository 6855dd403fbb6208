//! Accuracy of predictions that rest on counters alone.

use serde::Serialize;

use ::report::gains::{signed, with_error};
use ::report::text::{paragraph, printable};
use control::ab_test::CRITICAL_VALUE;
use statistics::percent;

/// The version of the JSON's layout.
pub const SCHEMA: u32 = 1;
/// Smallest relevant gain, as a difference of scores: 2%.
const WORTH: f64 = 0.02;

/// Evaluation of predictions from counters.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The program's version.
    pub seekwise_version: String,
    /// The command that reproduces it.
    pub command: String,
    /// The distribution that loads and devices were drawn from.
    pub world: String,
    /// Number of loads on devices.
    pub loads: u64,
    /// Every load under each setting that was active.
    pub asked: Vec<Asked>,
}

/// A load on a device under the active setting.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Asked {
    /// The load.
    pub load: String,
    /// The active setting.
    pub in_force: String,
    /// The recommended setting; `None`: no change.
    pub advised: Option<String>,
    /// Why there is no recommendation; `None` if there is one.
    pub unanswered: Option<String>,
    /// Facts common to all hypotheses: names and values.
    pub facts: Vec<(String, String)>,
    /// Requests simulated for it.
    pub requests: u64,
    /// Predictions for the other settings.
    pub promised: Vec<Promised>,
}

/// Prediction and result for one setting. Gains are differences of scores.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Promised {
    /// The setting.
    pub setting: String,
    /// The predicted gain.
    pub gain: f64,
    /// Its standard error.
    pub error: f64,
    /// Whether it was predicted to starve a stream.
    pub starves: bool,
    /// The measured gain by requests.
    pub of_requests: f64,
    /// The measured gain by processes.
    pub of_processes: f64,
    /// Whether a stream starved under it.
    pub starved: bool,
    /// `of_requests` in percent.
    pub gained_percent: f64,
}

impl Promised {
    fn is_within(&self, gained: f64) -> bool {
        (gained - self.gain).abs() <= CRITICAL_VALUE * self.error
    }
}

impl Asked {
    /// The prediction for the recommended setting; `None` if no change was recommended.
    pub fn advice(&self) -> Option<&Promised> {
        self.promised.iter().find(|one| Some(&one.setting) == self.advised.as_ref())
    }
}

impl Report {
    /// The report as JSON.
    ///
    /// # Errors
    /// None for these types.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    fn promised(&self) -> impl Iterator<Item = &Promised> {
        self.asked.iter().flat_map(|asked| &asked.promised)
    }

    /// Share of measured gains within two standard errors of the prediction, 0 to 1: by requests, and by processes.
    pub fn coverage(&self) -> (f64, f64) {
        let count = self.promised().count().max(1) as f64;
        let share = |of: fn(&Promised) -> f64| self.promised().filter(|one| one.is_within(of(one))).count() as f64 / count;
        (share(|one| one.of_requests), share(|one| one.of_processes))
    }

    /// Counts of recommendations: all, those that lose more than 2% by requests, by processes, and those that starve a stream.
    pub fn advice(&self) -> (u64, u64, u64, u64) {
        let advice: Vec<&Promised> = self.asked.iter().filter_map(Asked::advice).collect();
        let count = |of: &dyn Fn(&Promised) -> bool| advice.iter().filter(|one| of(one)).count() as u64;
        (
            advice.len() as u64,
            count(&|one| one.of_requests < -WORTH),
            count(&|one| one.of_processes < -WORTH),
            count(&|one| one.starved),
        )
    }

    /// The report as text for a terminal of this width, or a pipe.
    pub fn text(&self, width: Option<usize>) -> String {
        let mut text = String::new();
        for asked in &self.asked {
            let what = format!("{} under {}", asked.load, asked.in_force);
            let said = match (asked.advice(), &asked.unanswered) {
                (_, Some(reason)) => format!("no recommendation: {reason}"),
                (None, None) => {
                    let best = asked.promised.iter().map(|one| one.of_requests).fold(0.0, f64::max);
                    format!("keep it; gain of the best {}", signed(percent(best)))
                }
                (Some(one), None) => format!(
                    "use {}: predicted {}, measured by requests {}, by processes {}{}",
                    one.setting,
                    with_error(percent(one.gain), 100.0 * one.error),
                    signed(percent(one.of_requests)),
                    signed(percent(one.of_processes)),
                    if one.starved { "; a stream starves" } else { "" }
                ),
            };
            paragraph(&mut text, &printable(&format!("{what}: {said}.")), width);
        }
        text.push('\n');
        let (requests, processes) = self.coverage();
        let (advised, lose, lose_processes, starve) = self.advice();
        let gains: Vec<f64> = self.asked.iter().filter_map(Asked::advice).map(|one| one.of_requests).collect();
        let mean = statistics::mean(gains).unwrap_or(0.0);
        let unanswered = self.asked.iter().filter(|asked| asked.unanswered.is_some()).count();
        let gainable =
            self.asked.iter().filter(|one| one.promised.iter().any(|one| one.of_requests > WORTH && !one.starved)).count();
        let summary = format!(
            "Of {} loads on devices of the world {}, asked {} times: {unanswered} without an answer, {advised} with advice; {gainable} had \
             something to gain. Within two errors lie {:.1}% of {} gains of requests, {:.1}% of processes. Of the advice {lose} lost more \
             than 2% of requests' merit, {lose_processes} of processes', {starve} let a stream starve; it gained {} in the mean.",
            self.loads,
            self.world,
            self.asked.len(),
            100.0 * requests,
            self.promised().count(),
            100.0 * processes,
            signed(percent(mean)),
        );
        paragraph(&mut text, &printable(&summary), width);
        text + &format!("\nCommand: {}\n", printable(&self.command))
    }
}
