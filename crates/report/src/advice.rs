//! Advice for a load: the setting to use, its gain with the error, and the streams that slow down.

use schemars::JsonSchema;
use serde::Serialize;

use crate::effects::{self, Aimed, Effect};
use crate::gains::{self, signed, with_error};
use crate::number::{grouped, three_digits};
use crate::record::{Kind, PredictionFigures};
use crate::text::{paragraph, printable};

/// The basis of a device parameter that cannot be inferred from the requests.
pub const NOT_TOLD: &str = "not told by these requests: usual value";
/// Candidates in the table of a terminal.
const CANDIDATES: usize = 8;
/// Full simulations in the text of a terminal.
const MEASURED: usize = 8;
/// Phases in the table of a terminal.
const PHASES: usize = 12;

/// The recommendation, and its basis.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Advise")]
pub struct Advice {
    /// Version of the layout.
    pub schema: u32,
    /// `advise`.
    #[schemars(extend("const" = "advise"))]
    pub kind: Kind,
    /// The program's version.
    pub seekwise_version: String,
    /// Name of the trace or job file.
    pub load: String,
    /// Source of the response times, as text: a trace, or a simulated disk.
    pub source: String,
    /// Whether the response times are simulated.
    pub is_simulated: bool,
    /// Number of requests.
    pub requests: u64,
    /// Seconds from the first request to the last completion.
    pub lasts_s: f64,
    /// Seconds of it with enough requests to judge by.
    pub busy_s: f64,
    /// The active setting.
    pub in_force: String,
    /// Weights of throughput, response time and fairness, such as `2,3,1`.
    pub preference: String,
    /// The recommendation.
    pub verdict: Verdict,
    /// Present if requests arrived faster than the simulated disk served them under the active setting: the figures then hold for an
    /// overloaded disk only.
    pub overload: Option<Overload>,
    /// The aims that were named, and whether each is met.
    pub aims: Vec<Aimed>,
    /// The recommendation's effect on each stream and kind of request; empty where nothing was simulated or forecast.
    pub effects: Vec<Effect>,
    /// The prediction for each candidate for the whole load, the best first.
    pub candidates: Vec<PredictionFigures>,
    /// Results of the candidates that were simulated in full.
    pub measured: Vec<Measured>,
    /// The load's phases, the longest first.
    pub phases: Vec<Phase>,
    /// The inferred device: parameter, value and basis.
    pub device: Vec<(String, String, String)>,
    /// Statements about errors and confidence, as sentences.
    pub sure: Vec<String>,
    /// Lines of a udev rule that applies the setting on Linux, with comments.
    pub udev: Vec<String>,
    /// Notes, as sentences.
    pub notes: Vec<String>,
}

/// The recommendation.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Verdict {
    /// The recommended setting; the active one if no change is recommended.
    pub setting: String,
    /// Whether it differs from the active setting.
    pub is_change: bool,
    /// The recommendation in one or two sentences.
    pub text: String,
    /// The streams that slow down, as sentences; empty if none does.
    pub cost: Vec<String>,
}

/// An open replay whose requests arrive faster than the disk serves them.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Overload {
    /// Requests that arrive per second.
    pub offered_iops: f64,
    /// The replay speed at which the disk would keep up.
    pub sustainable_speed: f64,
    /// Both as a sentence, with the option to give.
    pub text: String,
}

impl Overload {
    /// The warning about recommendations for such a replay.
    pub(crate) fn warning(&self) -> String {
        format!("Overloaded: {} Its queue grows throughout, so the gains hold for an overloaded disk only.", self.text)
    }
}

/// Result of a full simulation of the load under a candidate.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Measured {
    /// The candidate.
    pub setting: String,
    /// Predicted gain in percent; `None` without a prediction.
    pub predicted_percent: Option<f64>,
    /// Standard error of the prediction in percent.
    pub error_percent: Option<f64>,
    /// Gain of the full simulation in percent.
    pub gain_percent: f64,
    /// 10^6 bytes per second, under the active setting and under this one.
    pub throughput_mb_s: (f64, f64),
    /// Mean response time, likewise.
    pub response_ms: (f64, f64),
    /// The longest p99 response time of a stream relative to its bound; above 1 the stream starves.
    pub p99_by_bound: f64,
}

/// A part of the load in which its behaviour is constant.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Phase {
    /// Its number, from 1.
    pub number: u32,
    /// The times at which it occurs: from and to, in seconds.
    pub spans_s: Vec<(f64, f64)>,
    /// Total length in seconds.
    pub lasts_s: f64,
    /// Number of completed requests.
    pub requests: u64,
    /// Description of each stream.
    pub streams: Vec<String>,
    /// The best setting for it; `None` unless it is significantly better than the recommendation for the whole load.
    pub wants: Option<PredictionFigures>,
    /// The prediction for the recommended setting, or for the best candidate if none is recommended.
    pub prediction: Option<PredictionFigures>,
    /// The gain of that setting in a full simulation, in percent; `None` without one.
    pub measured_percent: Option<f64>,
    /// Replay error of the worst sample, in percent; `None` if there is none.
    pub off_percent: Option<f64>,
    /// Why there is no recommendation for it; `None` if there is one.
    pub unanswered: Option<String>,
}

impl Advice {
    /// As JSON.
    ///
    /// # Errors
    /// Never, for numbers and names.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// As text for a terminal of this width, or for a pipe.
    pub fn text(&self, width: Option<usize>) -> String {
        let width = width.map(|width| width.max(40));
        let mut text = String::new();
        let say = |text: &mut String, sentence: &str| paragraph(text, &printable(sentence), width);
        say(&mut text, &self.verdict.text);
        self.overload.iter().for_each(|overload| say(&mut text, &overload.warning()));
        effects::sentences(&self.aims, &self.effects, self.verdict.is_change).iter().for_each(|sentence| say(&mut text, sentence));
        self.verdict.cost.iter().for_each(|sentence| say(&mut text, sentence));
        text.push('\n');
        say(&mut text, &self.summary());
        if self.candidates.len() > 1 {
            text.push('\n');
            for line in gains::lines(&self.shown(), |prediction| self.note(prediction), width) {
                text += line.trim_end();
                text.push('\n');
            }
            if self.candidates.len() > self.shown().len() {
                text += &format!("and {} with lower predicted gain\n", self.candidates.len() - self.shown().len());
            }
        }
        if !self.measured.is_empty() {
            text.push('\n');
            self.measured.iter().take(MEASURED).for_each(|measured| say(&mut text, &measured.text()));
            if self.measured.len() > MEASURED {
                text += &format!("and {} more that were simulated in full (--json)\n", self.measured.len() - MEASURED);
            }
        }
        if !self.phases.is_empty() {
            text.push('\n');
            text += &self.phase_table(width);
        }
        if !self.device.is_empty() {
            text += "\nThe device, inferred from the times of its requests:\n";
            // Assumed parameters are not findings; they are listed separately.
            let (told, assumed): (Vec<_>, Vec<_>) = self.device.iter().partition(|(.., basis)| basis != NOT_TOLD);
            for (name, value, _) in told {
                say(&mut text, &format!("{name}: {value}"));
            }
            if !assumed.is_empty() {
                let named: Vec<&str> = assumed.into_iter().map(|(name, ..)| name.as_str()).collect();
                say(&mut text, &format!("Not told by these requests, so that usual values were assumed: {}.", named.join(", ")));
            }
        }
        if !self.sure.is_empty() {
            text.push('\n');
            self.sure.iter().for_each(|sentence| say(&mut text, sentence));
        }
        self.notes.iter().for_each(|note| say(&mut text, &format!("Note: {note}")));
        text.push('\n');
        for line in &self.udev {
            text += &printable(line);
            text.push('\n');
        }
        text
    }

    pub(crate) fn summary(&self) -> String {
        let Advice { requests, lasts_s, busy_s, in_force, .. } = self;
        format!(
            "{}: {} requests in {} s, {} s of them busy; {}; active setting: {in_force}. Gains are in merit, which weights throughput, response time and fairness {}; wait is what a process waits for a request or call, also of fsync; p99 by bound is the longest p99 response time of a stream relative to its bound: above 1 (!) the stream starves.",
            self.load,
            grouped(*requests),
            three_digits(*lasts_s),
            three_digits(*busy_s),
            self.source,
            self.preference,
        )
    }

    fn shown(&self) -> Vec<&PredictionFigures> {
        let place = |(place, prediction): (usize, &'_ PredictionFigures)| place < CANDIDATES || !self.note(prediction).is_empty();
        self.candidates.iter().enumerate().filter(|&one| place(one)).map(|(_, prediction)| prediction).collect()
    }

    pub(crate) fn note(&self, prediction: &PredictionFigures) -> &'static str {
        match &prediction.setting {
            setting if *setting == self.verdict.setting && self.verdict.is_change => "use",
            setting if *setting == self.in_force => "active",
            _ => "",
        }
    }

    fn phase_table(&self, width: Option<usize>) -> String {
        let mut text = format!(
            "{:>5}{:>9}{:>12}{:>17}{:>10}  {}\n",
            "phase", "lasts s", "requests", "predicted", "simulated", "better setting"
        );
        for phase in self.phases.iter().take(PHASES) {
            let [number, lasts, requests, prediction, measured, wants] = phase.cells();
            paragraph_row(
                &mut text,
                &format!("{number:>5}{lasts:>9}{requests:>12}{prediction:>17}{measured:>10}  "),
                &wants,
                width,
            );
            for stream in &phase.streams {
                paragraph_row(&mut text, &" ".repeat(7), &printable(stream), width);
            }
        }
        if self.phases.len() > PHASES {
            text += &format!("and {} shorter phases\n", self.phases.len() - PHASES);
        }
        text
    }
}

/// A line that begins with `first`; if `rest` is too long, it continues in a column to the right of `first`.
fn paragraph_row(text: &mut String, first: &str, rest: &str, width: Option<usize>) {
    let indent = first.chars().count();
    let room = width.map_or(usize::MAX, |width| width.saturating_sub(indent).max(16));
    for (number, line) in crate::text::wrapped(rest, room).iter().enumerate() {
        let begins = if number == 0 { first.to_owned() } else { " ".repeat(indent) };
        text.push_str(format!("{begins}{line}").trim_end());
        text.push('\n');
    }
}

impl Measured {
    pub(crate) fn text(&self) -> String {
        let Measured { setting, throughput_mb_s, response_ms, p99_by_bound, .. } = self;
        let starves = if *p99_by_bound > 1.0 {
            format!("; starves a stream (p99 {} of its bound)", three_digits(*p99_by_bound))
        } else {
            String::new()
        };
        let predicted = match (self.predicted_percent, self.error_percent) {
            (Some(predicted), Some(error)) => format!(" (predicted {})", with_error(predicted, error)),
            _ => String::new(),
        };
        format!(
            "Simulated in full, {setting}: {}{predicted}, {} MB/s instead of {}, mean response {} ms instead of {}{starves}.",
            signed(self.gain_percent),
            three_digits(throughput_mb_s.1),
            three_digits(throughput_mb_s.0),
            three_digits(response_ms.1),
            three_digits(response_ms.0),
        )
    }
}

impl Phase {
    /// Cells of the table: number, length, requests, predicted gain, measured gain, better setting.
    pub(crate) fn cells(&self) -> [String; 6] {
        let prediction =
            self.prediction.as_ref().map_or_else(|| "–".to_owned(), |one| with_error(one.gain_percent, one.error_percent));
        let wants = match (&self.wants, &self.unanswered) {
            (Some(wants), _) => format!("{}: {}", wants.setting, with_error(wants.gain_percent, wants.error_percent)),
            (None, Some(reason)) => format!("no recommendation: {reason}"),
            (None, None) => "–".to_owned(),
        };
        [
            self.number.to_string(),
            three_digits(self.lasts_s),
            grouped(self.requests),
            prediction,
            self.measured_percent.map_or_else(|| "–".to_owned(), signed),
            printable(&wants),
        ]
    }
}
