//! History entries as text.

use agent::history::{Entry, EntryKind};
use applier::log::date_and_time;
use protect::live::{LimitStatus, PromiseStatus};
use report::gains::{signed, with_error};
use report::{paragraph, printable};

/// An entry as one or two sentences.
pub fn entry(entry: &Entry) -> String {
    let Entry { device, from, to, why, .. } = entry;
    let promised = match (entry.predicted_percent, entry.error_percent) {
        (Some(gain), Some(error)) => format!(" (predicted {})", with_error(gain, error)),
        (Some(gain), None) => format!(" (predicted {})", signed(gain)),
        _ => String::new(),
    };
    let measured = entry.measured().map(|measured| format!("; measured {}", measured.text())).unwrap_or_default();
    let what = match entry.kind {
        EntryKind::Began => format!("{device} {why}; {to} is active"),
        EntryKind::WouldSet => format!("{device}: would set {to} instead of {from}: {why} ({})", entry.id),
        EntryKind::Set => format!("{device}: set {to} instead of {from}: {why}{promised}{measured}"),
        EntryKind::Guarded => format!("{device}: {why}{measured}"),
        EntryKind::Refused => format!("{device}: did not set {to}: {why}"),
        EntryKind::Conflict => format!("{device}: {to} is active instead of {from}: {why}"),
        EntryKind::Resumed => format!("{device}: tuning resumed: {why}"),
        EntryKind::Restored => format!("{device}: restored: {why}"),
        EntryKind::Gone => format!("{device}: no longer monitored: {why}"),
        EntryKind::Trouble | EntryKind::Learning | EntryKind::Promise => format!("{device}: {why}"),
    };
    printable(&what)
}

/// State of a guarantee as a sentence.
pub fn promise(status: &PromiseStatus) -> String {
    let PromiseStatus { unit, promise, state, measured, because_of, admission } = status;
    let measured = if measured.is_empty() { String::new() } else { format!(": {measured}") };
    let blame = |(unit, share): &(String, f64)| format!("{unit} {:.0}%", 100.0 * share);
    let blamed = because_of.iter().take(3).map(blame).collect::<Vec<_>>().join(", ");
    let blamed = if blamed.is_empty() { blamed } else { format!("; waits behind {blamed}") };
    let admission = if admission.is_empty() { String::new() } else { format!("; {admission}") };
    format!("Promise to {unit} ({promise}): {state}{measured}{blamed}{admission}.")
}

/// Whether a unit is limited, as a sentence.
pub fn limit(status: &LimitStatus) -> String {
    let LimitStatus { unit, limit, why, .. } = status;
    match limit {
        Some(limit) => format!("{unit} is limited to {limit}: {why}."),
        None if why.is_empty() => format!("{unit} is not limited."),
        None => format!("{unit} is left alone: {why}."),
    }
}

/// Date and time in UTC.
pub fn time(unix_seconds: u64) -> String {
    let (date, time) = date_and_time(unix_seconds);
    format!("{date} {time} UTC")
}

/// Each sentence as a paragraph, wrapped at `width` characters; `None`: not wrapped.
pub fn lines(sentences: impl IntoIterator<Item = String>, width: Option<usize>) -> String {
    let mut text = String::new();
    sentences.into_iter().for_each(|sentence| paragraph(&mut text, &printable(&sentence), width));
    text
}
