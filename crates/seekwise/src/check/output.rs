//! Prints the findings as text and as JSON.

use report::text::wrapped;
use serde::Serialize;

use super::setting::Disk;
use super::state::State;
use super::verdict::Judged;
use super::worth::{Worth, Worths};

/// Version of the JSON format.
const SCHEMA: u32 = 1;
/// Minimum width of the verdict column; otherwise the verdict is printed on separate lines.
const MIN_VERDICT: usize = 48;

/// A setting with its verdict.
#[derive(Serialize)]
struct Row {
    /// `None` for machine-wide settings, and for missing devices.
    device: Option<String>,
    setting: String,
    value: String,
    file: String,
    line: usize,
    now: Option<String>,
    /// `in_force`, `overridden`, `does_nothing`, `fights`, `not_in_force` or `unknown`.
    verdict: &'static str,
    /// The verdict as text.
    text: String,
    is_finding: bool,
}

#[derive(Serialize)]
struct Json<'a> {
    schema: u32,
    seekwise_version: &'static str,
    settings: Vec<Row>,
    findings: usize,
    warnings: &'a [String],
    worth: &'a [Worth],
    notes: &'a [String],
}

fn row(judged: &Judged) -> Row {
    let (setting, verdict) = (&judged.setting, &judged.verdict);
    Row {
        device: setting.device.clone(),
        setting: setting.key.clone(),
        value: setting.value.clone(),
        file: setting.origin.file.clone(),
        line: setting.origin.line,
        now: judged.now.clone(),
        verdict: verdict.kind(),
        text: verdict.to_string(),
        is_finding: verdict.is_finding(),
    }
}

/// Number of findings.
pub fn findings(judged: &[Judged]) -> usize {
    judged.iter().filter(|judged| judged.verdict.is_finding()).count()
}

/// Formats the result as JSON.
pub fn json(judged: &[Judged], warnings: &[String], worths: &Worths) -> Result<String, serde_json::Error> {
    let json = Json {
        schema: SCHEMA,
        seekwise_version: env!("CARGO_PKG_VERSION"),
        settings: judged.iter().map(row).collect(),
        findings: findings(judged),
        warnings,
        worth: &worths.worths,
        notes: &worths.notes,
    };
    Ok(serde_json::to_string_pretty(&json)? + "\n")
}

/// Formats the result as text for a terminal of this width, or for a pipe.
pub fn text(judged: &[Judged], disks: &[Disk], worths: &Worths, width: Option<usize>) -> String {
    let mut text = String::new();
    for disk in disks {
        let rows: Vec<&Judged> = judged.iter().filter(|judged| judged.setting.device.as_deref() == Some(disk.name())).collect();
        if !rows.is_empty() {
            section(&mut text, &about(disk), &rows, width);
        }
    }
    let others = judged.iter().filter(|judged| judged.setting.device.is_none());
    let (machine, absent): (Vec<_>, Vec<_>) = others.partition(|judged| is_machines(&judged.setting.key));
    for (title, rows) in [("the machine", machine), ("no device here", absent)] {
        if !rows.is_empty() {
            section(&mut text, title, &rows, width);
        }
    }
    if judged.is_empty() {
        text += "Nothing sets anything about block I/O.\n";
    }
    worth(&mut text, worths);
    text
}

fn is_machines(key: &str) -> bool {
    key.contains('.') || key == "elevator"
}

fn about(disk: &Disk) -> String {
    let kind = if disk.device.rotational { "rotational" } else { "not rotational" };
    let active = State::of(disk).get("scheduler").map(|active| format!(", {active} is active")).unwrap_or_default();
    format!("{}: {kind}{active}", disk.name())
}

fn section(text: &mut String, title: &str, rows: &[&Judged], width: Option<usize>) {
    let cells = rows.iter().map(|judged| {
        let setting = &judged.setting;
        let now = judged.now.clone().unwrap_or_else(|| "-".to_owned());
        [setting.key.clone(), setting.value.clone(), now, setting.origin.to_string(), judged.verdict.to_string()]
    });
    let head = ["setting", "value", "now", "from", "verdict"].map(str::to_owned);
    let head = std::iter::once(head);
    table(text, title, head.chain(cells).collect(), width);
}

fn worth(text: &mut String, worths: &Worths) {
    if !worths.worths.is_empty() {
        let figure = |(with, without): (f64, f64)| {
            let change = if with > 0.0 { 100.0 * (without / with - 1.0) } else { 0.0 };
            format!("{with:.3} ms, without it {without:.3} ms ({change:+.1}%)")
        };
        let head = std::iter::once(["setting", "value", "device", "mean response time", "p99"].map(str::to_owned));
        let rows = worths.worths.iter().map(|worth| {
            [worth.setting.clone(), worth.value.clone(), worth.device.clone(), figure(worth.mean_ms), figure(worth.p99_ms)]
        });
        table(text, "what each setting is worth", head.chain(rows).collect(), None);
    }
    for note in &worths.notes {
        *text += &format!("Note: {note}.\n");
    }
}

/// Formats a table with a title; the last column is wrapped.
fn table(text: &mut String, title: &str, rows: Vec<[String; 5]>, width: Option<usize>) {
    let rows: Vec<[String; 5]> = rows.into_iter().map(|row| row.map(|cell| report::printable(&cell))).collect();
    let widths = [0, 1, 2, 3].map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default());
    let before = 2 + widths.iter().map(|width| width + 2).sum::<usize>();
    *text += &format!("{}\n", report::printable(title));
    for row in &rows {
        *text += "  ";
        for (cell, width) in row.iter().zip(widths) {
            *text += &format!("{cell:width$}  ");
        }
        let room = width.map(|width| width.saturating_sub(before));
        let (indent, room) = match room {
            Some(room) if room < MIN_VERDICT => {
                *text = format!("{}\n{:6}", text.trim_end_matches(' '), "");
                (6, width.unwrap_or(usize::MAX).saturating_sub(6))
            }
            room => (before, room.unwrap_or(usize::MAX)),
        };
        *text += &wrapped(&row[4], room).join(&format!("\n{:indent$}", ""));
        *text = format!("{}\n", text.trim_end_matches(' '));
    }
    text.push('\n');
}
