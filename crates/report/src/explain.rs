//! Controllers' decisions as text for a terminal: time, old and new setting, reason and result.

use crate::gains;
use crate::number::{grouped, three_digits};
use crate::record::{ControlRecord, Decision, Evidence, PredictionFigures, Record};
use crate::text::{printable, wrapped};

/// The facts and the sources' statements that were last shown: unchanged ones are not repeated.
#[derive(Default)]
struct ShownEvidence {
    seen: Vec<(String, String)>,
    sources: Vec<(String, String)>,
}

/// The decisions to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// Those that changed something, were refused or have evidence; the others are counted.
    Changes,
    /// All recorded ones.
    All,
}

/// The decisions of every record that has any, one paragraph per record. `width` is the terminal's, in characters; `None`, for a
/// pipe, keeps each sentence on one line.
pub fn text(records: &[Record], width: Option<usize>, shown: Shown) -> String {
    let width = width.unwrap_or(usize::MAX).max(20);
    let mut text = String::new();
    for (record, steering) in records.iter().filter_map(|record| Some((record, record.steering.as_ref()?))) {
        if !text.is_empty() {
            text.push('\n');
        }
        let heading = format!("{}: {}", printable(&record.scheduler.label), summary(steering));
        indented(&mut text, "", "", &heading, width);
        let mut shown_before = ShownEvidence::default();
        let before = text.len();
        for decision in steering.decisions.iter().filter(|one| shown == Shown::All || is_news(one) || one.evidence.is_some()) {
            match &decision.evidence {
                Some(evidence) if !is_news(decision) => leave_alone(&mut text, decision, evidence, &mut shown_before, width),
                Some(evidence) => {
                    let tables_width = (width < usize::MAX).then_some(width);
                    explain_by(&mut text, decision, evidence, &mut shown_before, tables_width);
                }
                None => explain(&mut text, decision, width),
            }
        }
        if let Some(last) = steering.decisions.last().filter(|_| text.len() == before) {
            let when = moment(last);
            indented(&mut text, &when, &" ".repeat(when.chars().count()), &format!("kept: {}", printable(&last.why)), width);
        }
        if steering.left_out > 0 {
            let sentence = format!("and {} more decisions, which the record omits", grouped(steering.left_out));
            indented(&mut text, "", "", &sentence, width);
        }
    }
    if text.is_empty() {
        text.push_str("No controller was run: no decisions to explain.\n");
    }
    text
}

/// Whether a decision changed something or was refused.
pub(crate) fn is_news(decision: &Decision) -> bool {
    decision.is_change() || decision.refused.is_some()
}

/// The numbers of windows, changes and kept settings with the controller's preference, on one line.
pub(crate) fn summary(steering: &ControlRecord) -> String {
    let times = |count: u64| match count {
        0 => "never".to_owned(),
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        count => format!("{} times", grouped(count)),
    };
    let windows = if steering.windows == 1 { "window" } else { "windows" };
    format!(
        "{} {windows}, preference {}; changed the setting {}, kept it {}",
        grouped(steering.windows),
        printable(&steering.preference),
        times(steering.changes),
        times(steering.kept),
    )
}

/// A gain as text: `+12.3%`.
pub(crate) fn gain(percent: f64) -> String {
    let sign = if percent > 0.0 { "+" } else { "" };
    format!("{sign}{}%", three_digits(percent))
}

fn explain(text: &mut String, decision: &Decision, width: usize) {
    let when = moment(decision);
    let margin = " ".repeat(when.chars().count());
    let what = if decision.is_change() {
        format!("{} → {}", printable(&decision.from), printable(&decision.to))
    } else {
        format!("keeps {}", printable(&decision.to))
    };
    indented(text, &when, &margin, &what, width);
    let expected = decision.expected_gain_percent.map(|percent| format!("expected {}", gain(percent)));
    let measured = decision.measured_gain_percent.map(|percent| format!("measured {}", gain(percent)));
    let gains: Vec<String> = expected.into_iter().chain(measured).collect();
    let gains = if gains.is_empty() { String::new() } else { format!(" ({})", gains.join(", ")) };
    indented(text, &margin, &margin, &format!("{}{gains}", printable(&decision.why)), width);
    if let Some(reason) = &decision.refused {
        indented(text, &margin, &margin, &format!("refused: {}", printable(reason)), width);
    }
}

/// A decision without a change: the sources' new statements, and one sentence.
fn leave_alone(text: &mut String, decision: &Decision, evidence: &Evidence, shown_before: &mut ShownEvidence, width: usize) {
    let when = moment(decision);
    let margin = " ".repeat(when.chars().count());
    let mut lines = contributions(evidence, shown_before);
    let kept = if evidence.sources.is_empty() { "" } else { "kept: " };
    lines.push(format!("{kept}{}", printable(&decision.why)));
    for (number, line) in lines.iter().enumerate() {
        indented(text, if number == 0 { &when } else { &margin }, &margin, line, width);
    }
}

/// Statements of the sources of knowledge that differ from their last ones.
fn contributions(evidence: &Evidence, shown_before: &mut ShownEvidence) -> Vec<String> {
    let news = evidence.sources.iter().filter(|source| !shown_before.sources.contains(source));
    let lines = news.map(|(source, says)| format!("{}: {}", printable(source), printable(says))).collect();
    shown_before.sources.clone_from(&evidence.sources);
    lines
}

/// Observations that are new, the prediction for each candidate, the chosen setting, and the result.
fn explain_by(text: &mut String, decision: &Decision, evidence: &Evidence, shown_before: &mut ShownEvidence, width: Option<usize>) {
    let when = moment(decision);
    let margin = " ".repeat(when.chars().count());
    let room = width.unwrap_or(usize::MAX);
    indented(text, &when, &margin, &format!("{} → {}", printable(&decision.from), printable(&decision.to)), room);
    let news: Vec<String> = evidence
        .seen
        .iter()
        .filter(|fact| !shown_before.seen.contains(fact))
        .map(|(name, value)| format!("{}: {}", printable(name), printable(value)))
        .collect();
    if !news.is_empty() {
        let begins = if shown_before.seen.is_empty() { "observed" } else { "observed since" };
        indented(text, &margin, &margin, &format!("{begins}: {}", news.join("; ")), room);
    }
    if !evidence.seen.is_empty() {
        shown_before.seen.clone_from(&evidence.seen);
    }
    if !evidence.candidates.is_empty() {
        let room = width.map(|width| width - TABLE_MARGIN);
        for line in gains::lines(&shown(decision, evidence), |prediction| note(decision, prediction), room) {
            text.push_str(&format!("{:TABLE_MARGIN$}{}\n", "", line.trim_end()));
        }
    }
    let left_out = evidence.candidates.len().saturating_sub(shown(decision, evidence).len());
    if left_out > 0 {
        text.push_str(&format!("{:TABLE_MARGIN$}and {left_out} with lower predicted gain\n", ""));
    }
    for line in contributions(evidence, shown_before) {
        indented(text, &margin, &margin, &line, room);
    }
    indented(text, &margin, &margin, &format!("chosen: {}", printable(&decision.why)), room);
    let came = match (decision.measured_gain_percent, &decision.refused) {
        (_, Some(reason)) => format!("refused: {}", printable(reason)),
        (Some(measured), None) => {
            let predicted = decision.prediction().map_or(String::new(), |prediction| {
                format!(", predicted {}", gains::with_error(prediction.gain_percent, prediction.error_percent))
            });
            format!("result: {}{predicted}", gains::signed(measured))
        }
        (None, None) => "result: not measured".to_owned(),
    };
    indented(text, &margin, &margin, &came, room);
}

/// Left margin of a table of candidates: less than of sentences, since settings have long names.
const TABLE_MARGIN: usize = 4;
/// Maximum number of candidates to show, in addition to the active and the chosen setting.
const MOST_CANDIDATES: usize = 6;

fn shown<'a>(decision: &Decision, evidence: &'a Evidence) -> Vec<&'a PredictionFigures> {
    let best = evidence.candidates.iter().enumerate();
    best.filter(|(place, prediction)| *place < MOST_CANDIDATES || !note(decision, prediction).is_empty())
        .map(|(_, prediction)| prediction)
        .collect()
}

fn note(decision: &Decision, prediction: &PredictionFigures) -> &'static str {
    match &prediction.setting {
        setting if *setting == decision.to => "chosen",
        setting if *setting == decision.from => "active",
        _ => "",
    }
}

fn moment(decision: &Decision) -> String {
    format!("{:>9} s  ", format!("{:.3}", decision.at_s))
}

/// Breaks a sentence into lines with a margin; the first line begins with `first` instead.
fn indented(text: &mut String, first: &str, margin: &str, sentence: &str, width: usize) {
    let room = width.saturating_sub(margin.chars().count()).max(20);
    for (number, line) in wrapped(sentence, room).iter().enumerate() {
        text.push_str(if number == 0 { first } else { margin });
        text.push_str(line);
        text.push('\n');
    }
}
