//! Controllers' decisions as text for a terminal: when, from what to what, why, and with what result.

use crate::number::{grouped, three_digits};
use crate::record::{Decision, Record, Steering};
use crate::text::{printable, wrapped};

/// Which decisions are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// Those that changed something or were refused; the others are counted.
    Changes,
    /// All that were recorded.
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
        for decision in steering.decisions.iter().filter(|one| shown == Shown::All || is_news(one)) {
            explain(&mut text, decision, width);
        }
        if steering.left_out > 0 {
            let sentence = format!("and {} more decisions that the record omits", grouped(steering.left_out));
            indented(&mut text, "", "", &sentence, width);
        }
    }
    if text.is_empty() {
        text.push_str("No controller was run, so there is nothing to explain.\n");
    }
    text
}

/// Whether a decision changed something or was refused.
pub(crate) fn is_news(decision: &Decision) -> bool {
    decision.is_change() || decision.refused.is_some()
}

/// How often a controller was asked and its preference, on one line.
pub(crate) fn summary(steering: &Steering) -> String {
    let times = |count: u64| match count {
        0 => "never".to_owned(),
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        count => format!("{} times", grouped(count)),
    };
    let windows = if steering.windows == 1 { "window" } else { "windows" };
    format!(
        "{} {windows}, preference {}; changed something {}, kept the setting {}",
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
    let when = format!("{:>9} s  ", format!("{:.3}", decision.at_s));
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

/// Breaks a sentence into lines with a margin; the first line begins with `first` instead.
fn indented(text: &mut String, first: &str, margin: &str, sentence: &str, width: usize) {
    let room = width.saturating_sub(margin.chars().count()).max(20);
    for (number, line) in wrapped(sentence, room).iter().enumerate() {
        text.push_str(if number == 0 { first } else { margin });
        text.push_str(line);
        text.push('\n');
    }
}
