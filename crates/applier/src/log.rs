//! The log on standard error: a line per event, with the time unless systemd's journal adds it.

use std::io::{self, Write as _};
use std::sync::OnceLock;
use std::time::SystemTime;

use endpoint::notify::printable;

/// The environment variable for the log level, for example `debug`.
const LOG: &str = "SEEKWISE_LOG";

/// The log level; each includes the ones before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Nothing.
    Off,
    /// Failures.
    Error,
    /// Likely failures.
    Warn,
    /// Each change and each refusal.
    Info,
    /// Also side effects of the kernel.
    Debug,
    /// The same as debug.
    Trace,
}

/// Names of the levels.
const LEVELS: [(&str, Level); 6] = [
    ("off", Level::Off),
    ("error", Level::Error),
    ("warn", Level::Warn),
    ("info", Level::Info),
    ("debug", Level::Debug),
    ("trace", Level::Trace),
];

struct Log {
    level: Level,
    has_times: bool,
}

static OPEN: OnceLock<Log> = OnceLock::new();

/// Opens the log at the level in `SEEKWISE_LOG` [default: info].
///
/// # Errors
/// The level is unknown; the message lists the levels.
pub fn open() -> Result<(), String> {
    let level = match std::env::var(LOG) {
        Ok(text) => level(&text).ok_or_else(|| format!("{LOG}={text}: should be off, error, warn, info, debug or trace"))?,
        Err(_) => Level::Info,
    };
    let has_times = std::env::var_os("JOURNAL_STREAM").is_none();
    OPEN.get_or_init(|| Log { level, has_times });
    Ok(())
}

/// A level by name, in any case, or by number: 0 is off and 5 is trace.
fn level(text: &str) -> Option<Level> {
    let by_number = || LEVELS.get(text.parse::<usize>().ok()?);
    LEVELS.iter().find(|(name, _)| name.eq_ignore_ascii_case(text)).or_else(by_number).map(|(_, level)| *level)
}

/// Logs a change or a refusal.
pub fn info(line: &str) {
    write(Level::Info, " INFO", line);
}

/// Logs a detail.
pub fn debug(line: &str) {
    write(Level::Debug, "DEBUG", line);
}

/// Writes a line. Errors are ignored: if standard error is closed, there is nowhere to report that.
fn write(level: Level, word: &str, line: &str) {
    let Some(log) = OPEN.get().filter(|log| level <= log.level) else { return };
    let time = if log.has_times { format!("{} ", now()) } else { String::new() };
    let _ = writeln!(io::stderr(), "{time}{word} {}", printable(line));
}

/// The current time, for example `2026-01-31T12:34:56.123456Z`.
fn now() -> String {
    let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    let (date, time) = date_and_time(since.as_secs());
    format!("{date}T{time}.{:06}Z", since.subsec_micros())
}

/// Date and time of day in UTC, for example `2026-01-31` and `12:34:56`, from seconds since 1970.
pub fn date_and_time(unix_seconds: u64) -> (String, String) {
    let (days, second) = (unix_seconds / 86_400, unix_seconds % 86_400);
    let (year, month, day) = date(days);
    (format!("{year}-{month:02}-{day:02}"), format!("{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60))
}

/// The Gregorian date of a day counted from 1 January 1970. Years start in March here, which puts the leap day at their end, in identical
/// cycles of 400 years.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (cycle, day_of_cycle) = (days / 146_097, days % 146_097);
    let year = (day_of_cycle - day_of_cycle / 1_460 + day_of_cycle / 36_524 - day_of_cycle / 146_096) / 365;
    let day_of_year = day_of_cycle - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, is_next_year) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (400 * cycle + year + is_next_year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_since_1970_become_date_and_time() {
        let text = |seconds| {
            let (date, time) = date_and_time(seconds);
            format!("{date} {time}")
        };
        assert_eq!(text(0), "1970-01-01 00:00:00");
        assert_eq!(text(951_827_696), "2000-02-29 12:34:56");
        assert_eq!(text(1_767_225_599), "2025-12-31 23:59:59");
        assert_eq!(text(4_107_542_400), "2100-03-01 00:00:00");
    }

    #[test]
    fn levels_have_names_and_numbers_and_other_words_are_refused() {
        assert_eq!([level("off"), level("DEBUG"), level("3")], [Some(Level::Off), Some(Level::Debug), Some(Level::Info)]);
        assert_eq!([level("loud"), level("6"), level("")], [None; 3]);
    }
}
