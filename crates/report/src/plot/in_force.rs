//! The active settings of a controller over time.

use super::panel::{Axis, Panel, Size};
use super::{classes, label, time_axis};
use crate::comparison::Comparison;
use crate::number::grouped;
use crate::record::{ControlRecord, Record};
use crate::text::printable;

/// Rows of a strip; if there are more settings, the rarest share the last row.
const ROWS: usize = 12;
/// Height of a row, and of the margins above and below.
const ROW: f64 = 20.0;
const AROUND: f64 = 90.0;

/// A setting active from one time to another.
struct Span<'a> {
    setting: &'a str,
    from_s: f64,
    to_s: f64,
}

/// One strip per controller: a row per setting, with bars while it was active.
pub(crate) fn in_force(comparison: &Comparison) -> Vec<String> {
    let records = comparison.records();
    let Some(x) = time_axis(records) else { return Vec::new() };
    let steered = records.iter().filter_map(|record| Some((record, record.steering.as_ref()?)));
    steered.filter_map(|(record, steering)| strip(records, record, steering, &x)).collect()
}

fn strip(records: &[Record], record: &Record, steering: &ControlRecord, x: &Axis) -> Option<String> {
    let end = record.curves.throughput_mb_s.len() as f64 * record.curves.bin_s;
    let spans = spans(steering, end);
    let rows = rows(&spans);
    let size = Size { width: 480.0, height: AROUND + ROW * rows.len() as f64, left: 150.0 };
    let mut panel = Panel::new(size, x, None);
    for (number, (name, settings)) in rows.iter().enumerate() {
        let own = |span: &&Span| settings.contains(&span.setting);
        let bars: Vec<(f64, f64)> = spans.iter().filter(own).map(|span| (span.from_s, span.to_s)).collect();
        // A scheduler has the colour of its row in the comparison, if it has one.
        let colour = records.iter().position(|other| other.scheduler.label == *name).unwrap_or(records.len() + number);
        panel.bars((number, rows.len()), &printable(name), &classes(colour), &bars);
    }
    let note = format!("{} changes", grouped(steering.changes));
    let description = format!("Active settings of {} over time: {note}.", label(record));
    let index = records.iter().position(|other| std::ptr::eq(other, record))?;
    Some(panel.finish(&classes(index), &label(record), &note, &description))
}

/// The spans of settings in sequence, from the first decision, with gaps where the record omits
/// decisions.
fn spans(steering: &ControlRecord, end: f64) -> Vec<Span<'_>> {
    let mut spans: Vec<Span> = Vec::new();
    for decision in &steering.decisions {
        if let Some(last) = spans.last_mut() {
            last.to_s = decision.at_s;
            if last.setting == decision.to {
                continue;
            }
        }
        spans.push(Span { setting: &decision.to, from_s: decision.at_s, to_s: decision.at_s });
    }
    if let Some(last) = spans.last_mut().filter(|_| steering.left_out == 0 || steering.changes < steering.decisions.len() as u64) {
        last.to_s = last.to_s.max(end);
    }
    spans
}

/// The rows' names and the settings of each, the longest active first.
fn rows<'a>(spans: &[Span<'a>]) -> Vec<(String, Vec<&'a str>)> {
    let mut times: Vec<(&str, f64)> = Vec::new();
    for span in spans {
        let time = span.to_s - span.from_s;
        match times.iter_mut().find(|(setting, _)| *setting == span.setting) {
            Some((_, sum)) => *sum += time,
            None => times.push((span.setting, time)),
        }
    }
    times.sort_by(|a, b| b.1.total_cmp(&a.1));
    let others = if times.len() > ROWS { times.split_off(ROWS - 1) } else { Vec::new() };
    let mut rows: Vec<(String, Vec<&str>)> = times.iter().map(|&(setting, _)| (setting.to_owned(), vec![setting])).collect();
    if !others.is_empty() {
        rows.push((format!("{} others", others.len()), others.iter().map(|&(setting, _)| setting).collect()));
    }
    rows
}
