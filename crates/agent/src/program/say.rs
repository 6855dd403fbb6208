//! Entries and states in words.

use agent::daemon::history::{Entry, Kind};
use report::promises::{signed, with_error};
use report::{paragraph, printable};

/// An entry in a sentence or two.
pub fn entry(entry: &Entry) -> String {
    let Entry { device, from, to, why, .. } = entry;
    let promised = match (entry.promised_percent, entry.error_percent) {
        (Some(gain), Some(error)) => format!(" ({} promised)", with_error(gain, error)),
        (Some(gain), None) => format!(" ({} promised)", signed(gain)),
        _ => String::new(),
    };
    let measured = entry.measured_percent.map(|gain| format!("; measured {}", signed(gain))).unwrap_or_default();
    let what = match entry.kind {
        Kind::Began => format!("{device} {why}; {to} is in force"),
        Kind::WouldSet => format!("{device}: would set {to} instead of {from}: {why}"),
        Kind::Set => format!("{device}: set {to} instead of {from}: {why}{promised}{measured}"),
        Kind::Guarded => format!("{device}: {why}{measured}"),
        Kind::Refused => format!("{device}: did not set {to}: {why}"),
        Kind::Conflict => format!("{device}: {to} is in force instead of {from}: {why}"),
        Kind::Resumed => format!("{device}: is tuned again: {why}"),
        Kind::Restored => format!("{device}: put back: {why}"),
        Kind::Gone => format!("{device}: is not watched any more: {why}"),
        Kind::Trouble | Kind::Learning => format!("{device}: {why}"),
    };
    printable(&what)
}

/// A time for people, in UTC.
pub fn time(unix_seconds: u64) -> String {
    let (days, second) = (unix_seconds / 86_400, unix_seconds % 86_400);
    let (year, month, day) = date(days);
    format!("{year}-{month:02}-{day:02} {:02}:{:02}:{:02} UTC", second / 3600, second / 60 % 60, second % 60)
}

/// The date of a day counted from 1 January 1970, in the Gregorian calendar. Counts from March, so that the day that is sometimes there is
/// the last of its year, in spans of 400 years, which are all alike.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (span, day_of_span) = (days / 146_097, days % 146_097);
    let year = (day_of_span - day_of_span / 1_460 + day_of_span / 36_524 - day_of_span / 146_096) / 365;
    let day_of_year = day_of_span - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, is_next_year) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (400 * span + year + is_next_year, month, day)
}

/// Sentences, each a paragraph of this width.
pub fn lines(sentences: impl IntoIterator<Item = String>, width: Option<usize>) -> String {
    let mut text = String::new();
    sentences.into_iter().for_each(|sentence| paragraph(&mut text, &printable(&sentence), width));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_date() {
        assert_eq!(time(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(time(951_827_696), "2000-02-29 12:34:56 UTC");
        assert_eq!(time(1_767_225_599), "2025-12-31 23:59:59 UTC");
        assert_eq!(time(4_107_542_400), "2100-03-01 00:00:00 UTC");
    }
}
