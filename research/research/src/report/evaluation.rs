//! The report of an evaluation: controllers on unseen loads and devices, compared with every constant policy.
//!
//! Table, page and JSON show only data of a [`Report`], so they always agree.

use askama::Template;
use serde::Serialize;

use ::report::number::{MISSING, three_digits};
use ::report::text::{paragraph, printable};

/// The version of the JSON's layout.
pub const SCHEMA: u32 = 2;

/// The results of an evaluation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The program's version.
    pub seekwise_version: String,
    /// The command that repeats the evaluation.
    pub command: String,
    /// Parameters: name and value.
    pub setup: Vec<(String, String)>,
    /// Every policy: constant settings first, then controllers.
    pub standings: Vec<Standing>,
    /// How each controller compares with the best constant policy.
    pub verdicts: Vec<Verdict>,
    /// Every question under every policy.
    pub questions: Vec<CaseScores>,
    /// Effect of a knowledge base on a controller; `None` unless it was evaluated.
    pub memory: Option<Memory>,
    /// Accuracy of learners on devices and load families held out of their training data.
    pub cross_validation: Vec<CrossValidation>,
}

/// A figure with its 95% confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// The figure.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// Whether the two intervals overlap.
    pub fn overlaps(&self, other: &Interval) -> bool {
        self.low <= other.high && other.low <= self.high
    }
}

/// A policy's results over all questions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Standing {
    /// The constant setting, or the controller.
    pub policy: String,
    /// Whether it is a constant setting.
    pub is_constant: bool,
    /// Share of the time with a correct setting active, in percent.
    pub correct_percent: Option<Interval>,
    /// The same, in phases in which candidates differ.
    pub deciding_percent: Option<Interval>,
    /// Its distance below the best constant candidate.
    #[serde(flatten)]
    pub regret: RegretFigures,
    /// Its gain over the default setting.
    #[serde(flatten)]
    pub over_default: DefaultComparison,
    /// Number of questions.
    pub questions: u64,
    /// Number of questions in which a stream starved.
    pub starves: u64,
    /// Mean number of setting changes per question.
    pub changes_mean: f64,
    /// How fast it decides.
    #[serde(flatten)]
    pub speed: DecisionSpeed,
    /// The worst stream's p99 response time relative to the default's, median of the questions.
    pub worst_p99_ratio_median: Option<f64>,
    /// The maximum of the same.
    pub worst_p99_ratio: Option<f64>,
    /// Processor time of scheduler and controller in nanoseconds per request, median of the questions.
    pub cpu_ns_per_request: Option<f64>,
    /// Quality of its decisions; `None` for a constant setting.
    pub decisions: Option<DecisionSummary>,
}

/// Regret of a policy over all questions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RegretFigures {
    /// Mean regret: distance below the best constant candidate, in percent.
    pub regret_mean_percent: Option<Interval>,
    /// Median regret.
    pub regret_median_percent: Option<f64>,
    /// Largest regret.
    pub regret_worst_percent: Option<f64>,
    /// The question with the worst regret.
    pub worst_question: String,
}

/// Gain of a policy over the default setting.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DefaultComparison {
    /// Mean gain over the default setting, in percent.
    pub over_default_mean_percent: Option<Interval>,
    /// Smallest gain over the default.
    pub over_default_worst_percent: Option<f64>,
    /// Questions in which it is more than 2% below the default.
    pub below_default: u64,
}

/// Time until decisions of a policy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DecisionSpeed {
    /// Seconds from a phase's beginning until a correct setting was active for good; median of the phases that reached one.
    pub decided_median_s: Option<f64>,
    /// Number of phases that never reached a correct setting.
    pub never_decided: u64,
    /// Number of phases in which candidates differ.
    pub phases_worth_deciding: u64,
}

/// Quality of decisions over all questions. Gains are from runs of the same load under fixed settings.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DecisionSummary {
    /// Permanent changes of the setting with a known gain.
    pub changes: u64,
    /// Changes that lose more than 2%, or starve a stream.
    pub worse: u64,
    /// Changes that lose anything, or starve a stream.
    pub below: u64,
    /// Trials with a known cost.
    pub trials: u64,
    /// Median cost of a trial, in percent of the service in the minute before it.
    pub trial_cost_median_percent: Option<f64>,
    /// Number of forecasts; each time, every candidate is forecast.
    pub forecasts: u64,
    /// Share of forecasts that are within their stated 90% interval: 1.645 standard errors.
    pub within_percent: Option<f64>,
    /// Slope of measured over forecast gains, in logarithms, by least squares.
    pub slope: Option<f64>,
}

/// A controller compared with the best constant policy, in words.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// The controller.
    pub policy: String,
    /// By correct decisions.
    pub correct: String,
    /// By regret.
    pub regret: String,
}

/// One question under one policy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CaseScores {
    /// The seed that generated it.
    pub seed: u64,
    /// The load and the device.
    pub question: String,
    /// The load's kind.
    pub family: String,
    /// The device's kind.
    pub device: String,
    /// The policy.
    pub policy: String,
    /// As in [`Standing`].
    pub correct_percent: Option<f64>,
    /// As in [`Standing`].
    pub deciding_percent: Option<f64>,
    /// As in [`Standing`].
    pub regret_percent: Option<f64>,
    /// As in [`Standing`].
    pub over_default_percent: Option<f64>,
    /// As in [`Standing`].
    pub changes: u64,
    /// As in [`Standing`].
    pub worst_p99_ratio: Option<f64>,
    /// As in [`Standing`].
    pub starves: bool,
    /// Bytes that the device read, in percent of those that programs read; `None` if they read nothing.
    pub read_from_device_percent: Option<f64>,
    /// A controller's decisions, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub decisions: Vec<DecisionScores>,
    /// A controller's forecasts of each candidate, in order of time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub forecasts: Vec<ForecastScores>,
}

/// The kind of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DecisionKind {
    /// Tries a setting temporarily.
    Trial,
    /// Ends a trial by returning to the previous setting.
    Return,
    /// Changes the setting permanently.
    Change,
}

/// A decision that changed the active or the permanent setting.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DecisionScores {
    /// Time in seconds.
    pub at_s: f64,
    /// The kind of decision.
    pub kind: DecisionKind,
    /// The setting before; for a change the permanent setting before it.
    pub from: String,
    /// The setting after.
    pub to: String,
    /// The controller's reason.
    pub reason: String,
    /// The gain that the controller expected; `None` if it gave none.
    pub expected_gain_percent: Option<f64>,
    /// For a change: the gain of a run under `to` over a run under `from` in the rest of the phase; `None` if less than 4 s are left or there is no
    /// such run.
    pub true_gain_percent: Option<f64>,
    /// For a change: whether a run under `to` starves a stream of the phase that `from` serves.
    pub starves: bool,
    /// For a trial: service lost until it ended, including the return, in percent of a minute's service under `from`.
    pub cost_percent: Option<f64>,
}

/// A forecast of a candidate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ForecastScores {
    /// Time in seconds.
    pub at_s: f64,
    /// The candidate.
    pub setting: String,
    /// The setting that it is compared with: the active one.
    pub over: String,
    /// The expected gain.
    pub gain_percent: f64,
    /// The standard error of the expected gain.
    pub error_percent: f64,
    /// The gain of a run under `setting` in the rest of the phase.
    pub true_gain_percent: f64,
}

/// Effect of knowledge bases on a controller: each load is run a second time with other random numbers, without and with a base.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Memory {
    /// The controller.
    pub controller: String,
    /// Targets.
    pub bars: Vec<Bar>,
    /// Results by kind of base.
    pub bases: Vec<BaseStanding>,
    /// Results of every question with every base.
    pub questions: Vec<BaseScores>,
}

/// A target, and whether it is met.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bar {
    /// The condition.
    pub wanted: String,
    /// The measured value.
    pub found: String,
    /// Whether the condition is met.
    pub is_met: bool,
}

/// The results with one kind of base over all questions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BaseStanding {
    /// The source of the base.
    pub base: String,
    /// Number of questions.
    pub questions: u64,
    /// Share of second runs that are at most 2% worse than the same run without the base.
    pub as_good_percent: Option<f64>,
    /// Share of second runs at most 2% worse than the first run, each measured by its gain over the default with the same random numbers.
    pub as_good_as_first_percent: Option<f64>,
    /// Share of second runs that begin with a setting within 2% of the best in the runs that filled the base.
    pub begins_with_best_percent: Option<f64>,
    /// Mean gain of second runs over those without the base.
    pub gain_mean_percent: Option<Interval>,
    /// Number of second runs more than 2% worse than without the base.
    pub worse: u64,
    /// The lowest gain.
    pub worst_percent: Option<f64>,
    /// The question with the lowest gain.
    pub worst_question: String,
}

/// One question with one base.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BaseScores {
    /// The seed that generated it.
    pub seed: u64,
    /// The load and the device.
    pub question: String,
    /// The source of the base.
    pub base: String,
    /// Number of cases of the device in the base.
    pub cases: u64,
    /// The active setting two seconds after the second run began.
    pub begins_with: String,
    /// The best setting for the load in the runs that filled the base; `None` if these had other loads.
    pub served_best: Option<String>,
    /// As in [`BaseStanding`].
    pub begins_with_best: Option<bool>,
    /// As in [`BaseStanding`].
    pub gain_percent: Option<f64>,
    /// Gain over the first run, each measured by its gain over the default with the same random numbers.
    pub over_first_percent: Option<f64>,
}

/// Minimum share of second runs, in percent, that begin with the best setting and are as good as without a base.
const AS_GOOD: f64 = 95.0;

impl Memory {
    /// Derives the targets from the results. The first base must be that of the first run, the last that of other loads.
    pub fn new(controller: String, bases: Vec<BaseStanding>, questions: Vec<BaseScores>) -> Memory {
        let shown = |share: Option<f64>| optional(share, percent);
        let own = bases.first().map(|base| {
            let shares = [base.begins_with_best_percent, base.as_good_percent];
            Bar {
                wanted: format!(
                    "A second run of the same load starts with the setting that was best before, and is at least as good as without the base, in \
                     {AS_GOOD:.0}% of the cases"
                ),
                found: format!("{}% start with it, {}% are as good", shown(shares[0]), shown(shares[1])),
                is_met: shares.iter().all(|share| share.is_some_and(|share| share >= AS_GOOD)),
            }
        });
        let foreign = bases.last().map(|base| Bar {
            wanted: "With a base filled from other loads, no load is worse by more than 2%".to_owned(),
            found: format!("{} of {} are, at worst by {}%", base.worse, base.questions, shown(base.worst_percent.map(|it| -it))),
            is_met: base.worse == 0,
        });
        Memory { controller, bars: own.into_iter().chain(foreign).collect(), bases, questions }
    }
}

/// A learner's results on held-out data.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CrossValidation {
    /// The kind of group held out in turn: devices, or families of loads.
    pub held_out: String,
    /// Number of groups.
    pub groups: u64,
    /// The learner, or `always` and a setting.
    pub policy: String,
    /// Number of cases decided.
    pub cases: u64,
    /// Share of cases decided with a setting within 2% of the best.
    pub correct_percent: f64,
    /// Mean distance below the best setting, in percent.
    pub regret_percent: f64,
}

/// A column of a table.
struct Column<T> {
    heading: [&'static str; 2],
    cell: fn(&T) -> String,
}

fn percent(value: f64) -> String {
    format!("{value:.1}")
}

fn optional(value: Option<f64>, text: impl Fn(f64) -> String) -> String {
    value.filter(|value| value.is_finite()).map_or_else(|| MISSING.to_owned(), text)
}

fn with_interval(interval: Option<Interval>) -> String {
    // A dash next to a minus sign would be misread.
    let between = |it: &Interval| if it.low < 0.0 { " to " } else { "–" };
    interval.map_or_else(|| MISSING.to_owned(), |it| format!("{:.1} ({:.1}{}{:.1})", it.value, it.low, between(&it), it.high))
}

const COLUMNS: &[Column<Standing>] = &[
    Column { heading: ["correct", "%"], cell: |it| with_interval(it.correct_percent) },
    Column { heading: ["decisive", "phases %"], cell: |it| with_interval(it.deciding_percent) },
    Column { heading: ["regret mean", "%"], cell: |it| with_interval(it.regret.regret_mean_percent) },
    Column { heading: ["median", "%"], cell: |it| optional(it.regret.regret_median_percent, percent) },
    Column { heading: ["worst", "%"], cell: |it| optional(it.regret.regret_worst_percent, percent) },
    Column { heading: ["over default", "%"], cell: |it| with_interval(it.over_default.over_default_mean_percent) },
    Column { heading: ["worst", "%"], cell: |it| optional(it.over_default.over_default_worst_percent, percent) },
    Column { heading: ["2% below", "default"], cell: |it| format!("{} of {}", it.over_default.below_default, it.questions) },
    Column { heading: ["starves", ""], cell: |it| it.starves.to_string() },
    Column { heading: ["changes", "mean"], cell: |it| percent(it.changes_mean) },
    Column { heading: ["decides", "s"], cell: |it| optional(it.speed.decided_median_s, three_digits) },
    Column {
        heading: ["undecided", "phases"],
        cell: |it| format!("{} of {}", it.speed.never_decided, it.speed.phases_worth_deciding),
    },
    Column { heading: ["p99 ratio", "median"], cell: |it| optional(it.worst_p99_ratio_median, three_digits) },
    Column { heading: ["", "worst"], cell: |it| optional(it.worst_p99_ratio, three_digits) },
    Column { heading: ["CPU", "ns/req"], cell: |it| optional(it.cpu_ns_per_request, three_digits) },
];

const BASE_COLUMNS: &[Column<BaseStanding>] = &[
    Column { heading: ["starts with", "the best %"], cell: |it| optional(it.begins_with_best_percent, percent) },
    Column { heading: ["as good as", "without %"], cell: |it| optional(it.as_good_percent, percent) },
    Column { heading: ["as good as", "the first %"], cell: |it| optional(it.as_good_as_first_percent, percent) },
    Column { heading: ["gain mean", "%"], cell: |it| with_interval(it.gain_mean_percent) },
    Column { heading: ["worst", "%"], cell: |it| optional(it.worst_percent, percent) },
    Column { heading: ["2% worse", ""], cell: |it| format!("{} of {}", it.worse, it.questions) },
];

const DECISION_COLUMNS: &[Column<DecisionSummary>] = &[
    Column { heading: ["changes", ""], cell: |it| it.changes.to_string() },
    Column { heading: ["2% worse", ""], cell: |it| it.worse.to_string() },
    Column { heading: ["worse", ""], cell: |it| it.below.to_string() },
    Column { heading: ["trials", ""], cell: |it| it.trials.to_string() },
    Column { heading: ["median cost,", "% of a minute"], cell: |it| optional(it.trial_cost_median_percent, two_places) },
    Column { heading: ["forecasts", ""], cell: |it| it.forecasts.to_string() },
    Column { heading: ["within", "90% interval, %"], cell: |it| optional(it.within_percent, percent) },
    Column { heading: ["slope of measured", "over forecast"], cell: |it| optional(it.slope, two_places) },
];

fn two_places(value: f64) -> String {
    format!("{value:.2}")
}

/// Writes rows under a heading of two lines. Columns that do not fit into the width continue in another table below.
fn table<T>(text: &mut String, title: &str, columns: &[Column<T>], rows: &[(String, &T)], width: Option<usize>) {
    let length = |text: &str| text.chars().count();
    let label_width = rows.iter().map(|(label, _)| length(label)).max().unwrap_or(0).max(length(title));
    let cells: Vec<Vec<String>> = columns.iter().map(|column| rows.iter().map(|(_, it)| (column.cell)(it)).collect()).collect();
    let width_of = |(column, cells): (&Column<T>, &Vec<String>)| {
        let all = column.heading.iter().map(|head| length(head)).chain(cells.iter().map(|cell| length(cell)));
        all.max().unwrap_or(0) + 2
    };
    let widths: Vec<usize> = columns.iter().zip(&cells).map(width_of).collect();
    let mut first = 0;
    while first < columns.len() {
        let mut used = label_width + widths[first];
        let mut last = first + 1;
        while last < columns.len() && width.is_none_or(|width| used + widths[last] <= width) {
            used += widths[last];
            last += 1;
        }
        if first > 0 {
            text.push('\n');
        }
        for (line, title) in ["", title].into_iter().enumerate() {
            let mut row = format!("{title:label_width$}");
            (first..last).for_each(|column| row += &format!("{:>1$}", columns[column].heading[line], widths[column]));
            *text += row.trim_end();
            text.push('\n');
        }
        *text += &"─".repeat(used);
        text.push('\n');
        for (number, (label, _)) in rows.iter().enumerate() {
            let mut row = format!("{label:label_width$}");
            (first..last).for_each(|column| row += &format!("{:>1$}", cells[column][number], widths[column]));
            *text += row.trim_end();
            text.push('\n');
        }
        first = last;
    }
}

fn headings<T>(columns: &[Column<T>]) -> Vec<String> {
    columns.iter().map(|column| format!("{} {}", column.heading[0], column.heading[1]).trim().to_owned()).collect()
}

impl Report {
    /// The report as JSON.
    ///
    /// # Errors
    /// None for these types.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// The report as text for a terminal of this width, or a pipe: columns that do not fit continue in another table below.
    pub fn text(&self, width: Option<usize>) -> String {
        let mut text = String::new();
        for (name, value) in &self.setup {
            paragraph(&mut text, &printable(&format!("{name}: {value}")), width);
        }
        text.push('\n');
        let rows: Vec<(String, &Standing)> = self.standings.iter().map(|it| (printable(&label(it)), it)).collect();
        table(&mut text, "policy", COLUMNS, &rows, width);
        text.push('\n');
        for Verdict { policy, correct, regret } in &self.verdicts {
            let both =
                if correct == regret { correct.clone() } else { format!("by correct decisions {correct}, by regret {regret}") };
            paragraph(&mut text, &format!("{}: {both}.", printable(policy)), width);
        }
        self.decisions_table(&mut text, width);
        self.memory_table(&mut text, width);
        self.cross_validation_table(&mut text);
        text.push_str(&format!("\nCommand: {}\n", printable(&self.command)));
        text
    }

    fn decisions_table(&self, text: &mut String, width: Option<usize>) {
        let summaries = self.standings.iter().filter_map(|it| Some((printable(&it.policy), it.decisions.as_ref()?)));
        let rows: Vec<(String, &DecisionSummary)> = summaries.collect();
        if rows.is_empty() {
            return;
        }
        *text += "\nDecisions: changes of the setting that stays, trials, and forecasts, compared with runs under fixed settings\n";
        table(text, "controller", DECISION_COLUMNS, &rows, width);
    }

    fn memory_table(&self, text: &mut String, width: Option<usize>) {
        let Some(memory) = &self.memory else { return };
        *text += &format!("\nMemory: {} with a knowledge base\n", printable(&memory.controller));
        let rows: Vec<(String, &BaseStanding)> =
            memory.bases.iter().map(|it| (format!("of {}", printable(&it.base)), it)).collect();
        table(text, "base", BASE_COLUMNS, &rows, width);
        text.push('\n');
        for Bar { wanted, found, is_met } in &memory.bars {
            let verdict = if *is_met { "met" } else { "missed" };
            paragraph(text, &printable(&format!("{wanted}: {verdict} ({found}).")), width);
        }
        for base in memory.bases.iter().filter(|base| base.worse > 0) {
            let worst = optional(base.worst_percent, percent);
            paragraph(
                text,
                &printable(&format!("Worst case with a base of {}: {worst}%, {}.", base.base, base.worst_question)),
                width,
            );
        }
    }

    fn cross_validation_table(&self, text: &mut String) {
        let mut held_out = "";
        for row in &self.cross_validation {
            if row.held_out != held_out {
                held_out = &row.held_out;
                *text += &format!(
                    "\nTrained on all other {held_out}, {} held out in turn\n{:28}{:>10}{:>10}{:>8}\n",
                    row.groups, "", "correct %", "regret %", "cases"
                );
            }
            *text += &format!(
                "{:28}{:>10.1}{:>10.1}{:>8}\n",
                printable(&row.policy),
                row.correct_percent,
                row.regret_percent,
                row.cases
            );
        }
    }

    /// A self-contained page.
    pub fn html(&self) -> String {
        let page = Page {
            report: self,
            headings: headings(COLUMNS),
            rows: self
                .standings
                .iter()
                .map(|standing| (printable(&label(standing)), COLUMNS.iter().map(|column| (column.cell)(standing)).collect()))
                .collect(),
            bars: self.standings.iter().map(bar).collect(),
            base_headings: headings(BASE_COLUMNS),
            bases: self.memory.iter().flat_map(|memory| &memory.bases).map(base_row).collect(),
            base_questions: self.memory.as_ref().map_or_else(Vec::new, base_question_rows),
            questions: self.question_rows(),
            policies: self.standings.iter().map(|standing| printable(&standing.policy)).collect(),
        };
        // The template is checked at compile time; writing into memory cannot fail.
        page.render().unwrap_or_default()
    }

    /// A row per question with the regret of each policy.
    fn question_rows(&self) -> Vec<(String, Vec<String>)> {
        let policies = self.standings.len().max(1);
        let row = |scores: &[CaseScores]| {
            let regret = |one: &CaseScores| {
                let text = optional(one.regret_percent, percent);
                if one.starves { format!("{text} starves") } else { text }
            };
            (printable(&scores[0].question), scores.iter().map(regret).collect())
        };
        self.questions.chunks(policies).map(row).collect()
    }
}

fn label(standing: &Standing) -> String {
    if standing.is_constant { format!("always {}", standing.policy) } else { standing.policy.clone() }
}

fn base_row(base: &BaseStanding) -> (String, Vec<String>) {
    (printable(&base.base), BASE_COLUMNS.iter().map(|column| (column.cell)(base)).collect())
}

/// A row per question with the gain and the initial setting for each base.
fn base_question_rows(memory: &Memory) -> Vec<(String, Vec<String>)> {
    let cell = |scores: &BaseScores| printable(&format!("{} {}", optional(scores.gain_percent, percent), scores.begins_with));
    let row = |scores: &[BaseScores]| (printable(&scores[0].question), scores.iter().map(cell).collect());
    memory.questions.chunks(memory.bases.len().max(1)).map(row).collect()
}

/// A policy's correct decisions as a bar with its interval, in percent of the width.
struct BarPart {
    label: String,
    is_constant: bool,
    value: f64,
    low: f64,
    high: f64,
    text: String,
}

fn bar(standing: &Standing) -> BarPart {
    let interval = standing.correct_percent.unwrap_or(Interval { value: 0.0, low: 0.0, high: 0.0 });
    BarPart {
        label: printable(&label(standing)),
        is_constant: standing.is_constant,
        value: interval.value,
        low: interval.low,
        high: interval.high,
        text: with_interval(standing.correct_percent),
    }
}

#[derive(Template)]
#[template(path = "evaluation.html")]
struct Page<'a> {
    report: &'a Report,
    headings: Vec<String>,
    rows: Vec<(String, Vec<String>)>,
    bars: Vec<BarPart>,
    base_headings: Vec<String>,
    bases: Vec<(String, Vec<String>)>,
    base_questions: Vec<(String, Vec<String>)>,
    policies: Vec<String>,
    questions: Vec<(String, Vec<String>)>,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::*;

    fn standing(policy: &str, is_constant: bool) -> Standing {
        let interval = Some(Interval { value: 51.5, low: 40.0, high: 63.25 });
        Standing {
            policy: policy.to_owned(),
            is_constant,
            correct_percent: interval,
            deciding_percent: None,
            regret: RegretFigures {
                regret_mean_percent: interval,
                regret_median_percent: Some(0.5),
                regret_worst_percent: Some(31.0),
                worst_question: "q".to_owned(),
            },
            over_default: DefaultComparison {
                over_default_mean_percent: interval,
                over_default_worst_percent: Some(-2.5),
                below_default: 3,
            },
            questions: 12,
            starves: 1,
            changes_mean: 1.5,
            speed: DecisionSpeed { decided_median_s: Some(4.0), never_decided: 2, phases_worth_deciding: 9 },
            worst_p99_ratio_median: Some(1.0),
            worst_p99_ratio: Some(f64::INFINITY),
            cpu_ns_per_request: None,
            decisions: (!is_constant).then_some(DecisionSummary {
                changes: 12,
                worse: 1,
                below: 3,
                trials: 7,
                trial_cost_median_percent: Some(1.25),
                forecasts: 40,
                within_percent: Some(87.5),
                slope: Some(0.955),
            }),
        }
    }

    fn report() -> Report {
        let question = |policy: &str| CaseScores {
            seed: 1,
            question: "mail <1> on drawn".to_owned(),
            family: "mail".to_owned(),
            device: "drawn:laptop".to_owned(),
            policy: policy.to_owned(),
            correct_percent: Some(100.0),
            deciding_percent: None,
            regret_percent: Some(12.25),
            over_default_percent: Some(1.0),
            changes: 2,
            worst_p99_ratio: Some(2.0),
            starves: policy == "sstf",
            read_from_device_percent: None,
            decisions: Vec::new(),
            forecasts: Vec::new(),
        };
        Report {
            schema: SCHEMA,
            seekwise_version: "0".to_owned(),
            command: "seekwise-lab evaluate --seed 1".to_owned(),
            setup: vec![("Questions".to_owned(), "one".to_owned())],
            standings: vec![standing("sstf", true), standing("two-layer", false)],
            verdicts: vec![Verdict {
                policy: "two-layer".to_owned(),
                correct: "no better than a constant sstf".to_owned(),
                regret: "worse than a constant sstf".to_owned(),
            }],
            questions: vec![question("sstf"), question("two-layer")],
            memory: None,
            cross_validation: vec![CrossValidation {
                held_out: "devices".to_owned(),
                groups: 4,
                policy: "svm".to_owned(),
                cases: 7,
                correct_percent: 61.25,
                regret_percent: 3.5,
            }],
        }
    }

    #[test]
    fn the_text_names_constants_verdicts_and_what_does_it_again() {
        let text = report().text(None);
        for shown in [
            "always sstf",
            "51.5 (40.0–63.2)",
            "3 of 12",
            "two-layer: by correct decisions no better than a constant sstf, by regret worse than a constant sstf.",
            "all other devices, 4 held out",
            "61.2",
            "87.5",
            "Command: seekwise-lab evaluate --seed 1",
        ] {
            assert!(text.contains(shown), "{shown} is not in\n{text}");
        }
        assert!(!text.contains("inf") && !text.contains("NaN"), "{text}");
    }

    #[test]
    fn no_line_of_a_narrow_table_is_wider_than_the_terminal() {
        for width in [60, 80, 120] {
            let text = report().text(Some(width));
            let table = text.lines().filter(|line| line.contains("sstf") || line.contains('─'));
            assert!(table.into_iter().all(|line| line.chars().count() <= width), "{width}:\n{text}");
        }
    }

    fn memory(begins: f64, as_good: f64, worse: u64) -> Memory {
        let base = |base: &str| BaseStanding {
            base: base.to_owned(),
            questions: 20,
            as_good_percent: Some(as_good),
            as_good_as_first_percent: Some(80.0),
            begins_with_best_percent: Some(begins),
            gain_mean_percent: Some(Interval { value: 1.25, low: -0.5, high: 3.0 }),
            worse,
            worst_percent: Some(-7.5),
            worst_question: "mail <1> on drawn".to_owned(),
        };
        let scores = |base: &str| BaseScores {
            seed: 1,
            question: "mail <1> on drawn".to_owned(),
            base: base.to_owned(),
            cases: 2,
            begins_with: "cfq".to_owned(),
            served_best: None,
            begins_with_best: None,
            gain_percent: Some(-7.5),
            over_first_percent: None,
        };
        let bases = ["its first run", "other loads"];
        Memory::new("seekwise".to_owned(), bases.map(base).to_vec(), bases.map(scores).to_vec())
    }

    #[test]
    fn a_memory_is_judged_by_both_its_bars() {
        let met = |begins, as_good, worse| memory(begins, as_good, worse).bars.iter().map(|bar| bar.is_met).collect::<Vec<_>>();
        assert_eq!(met(95.0, 95.0, 0), [true, true]);
        assert_eq!(met(94.9, 100.0, 0), [false, true]);
        assert_eq!(met(100.0, 94.9, 1), [false, false]);
        let with = Report { memory: Some(memory(90.0, 95.0, 1)), ..report() };
        let text = with.text(None);
        for shown in [
            "Memory: seekwise with a knowledge base",
            "of its first run",
            "1.2 (-0.5 to 3.0)",
            "in 95% of the cases: missed (90.0% start with it, 95.0% are as good).",
            "by more than 2%: missed (1 of 20 are, at worst by 7.5%).",
            "Worst case with a base of other loads: -7.5%, mail <1> on drawn.",
        ] {
            assert!(text.contains(shown), "{shown} is not in\n{text}");
        }
        let html = with.html();
        let page = roxmltree::Document::parse(html.strip_prefix("<!doctype html>\n").unwrap()).unwrap();
        let text: String = page.descendants().filter_map(|node| node.text()).collect();
        for shown in ["missed (90.0% start with it, 95.0% are as good)", "-7.5 cfq", "other loads"] {
            assert!(text.contains(shown), "{shown} is not in {text}");
        }
    }

    #[test]
    fn the_page_is_well_formed_and_shows_every_policy_and_question() {
        let html = report().html();
        let page = roxmltree::Document::parse(html.strip_prefix("<!doctype html>\n").unwrap()).unwrap();
        let text: String = page.descendants().filter_map(|node| node.text()).collect();
        for shown in [
            "always sstf",
            "two-layer",
            "mail <1> on drawn",
            "12.2 starves",
            "no better than a constant sstf",
            "seekwise-lab evaluate --seed 1",
        ] {
            assert!(text.contains(shown), "{shown} is not in {text}");
        }
    }
}
