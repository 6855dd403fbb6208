//! Parses schedulers and their tunables: `deadline` or `deadline:read_expire=100,fifo_batch=8`.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use crate::nearest::did_you_mean;
use crate::sched::ALL;
use crate::scheduler::SchedulerSpec;
use crate::tunable::{Tunable, Unit};

/// The scheduler with this name; `None` if there is none.
pub fn find(name: &str) -> Option<&'static SchedulerSpec> {
    ALL.iter().copied().find(|spec| spec.name == name)
}

/// Parses a scheduler's name, optionally followed by a colon and comma-separated `key=value` pairs of its tunables. Returns the values in
/// the order of [`SchedulerSpec::tunables`]; tunables that are not given have their defaults.
///
/// # Errors
/// An unknown scheduler or key, a duplicate key, or a value out of range.
///
/// ```
/// let (spec, values) = block::parse("deadline:fifo_batch=8,read_expire=100")?;
/// assert_eq!((spec.name, values), ("deadline", vec![100, 5_000, 8, 2, 1]));
/// let error = block::parse("deadline:fifo_batch=0").unwrap_err();
/// assert_eq!(error.to_string(), "deadline: fifo_batch=0 should be a whole number from 1 to 1024");
/// # Ok::<(), block::SettingError>(())
/// ```
pub fn parse(text: &str) -> Result<(&'static SchedulerSpec, Vec<i64>), SettingError> {
    parse_among(ALL.iter().copied(), text)
}

/// As [`parse`], among the given schedulers, so that a crate can add its own.
///
/// # Errors
/// As [`parse`].
pub fn parse_among(
    specs: impl Iterator<Item = &'static SchedulerSpec> + Clone,
    text: &str,
) -> Result<(&'static SchedulerSpec, Vec<i64>), SettingError> {
    let (name, settings) = match text.split_once(':') {
        Some((name, settings)) => (name, Some(settings)),
        None => (text, None),
    };
    let spec = specs
        .clone()
        .find(|spec| spec.name == name)
        .ok_or_else(|| SettingError::UnknownScheduler { name: name.to_string(), known: specs.map(|spec| spec.name).collect() })?;
    Ok((spec, parse_values(spec.name, spec.tunables, settings)?))
}

/// Parses comma-separated `key=value` pairs. Returns the values in the order of `tunables`, with defaults for missing ones. `None` means no
/// pairs, while an empty text is an error. `owner` names the owner of the tunables in error messages.
///
/// # Errors
/// An unknown key, a duplicate key, or a value out of range.
pub fn parse_values(owner: &'static str, tunables: &'static [Tunable], text: Option<&str>) -> Result<Vec<i64>, SettingError> {
    let known = || tunables.iter().map(|tunable| tunable.name).collect();
    let mut given: Vec<Option<i64>> = tunables.iter().map(|_| None).collect();
    for setting in text.into_iter().flat_map(|text| text.split(',')) {
        let no_value = || SettingError::NoValue { owner, known: known(), setting: setting.to_string() };
        let (key, value) = setting.split_once('=').ok_or_else(no_value)?;
        let (index, tunable) = tunables
            .iter()
            .enumerate()
            .find(|(_, tunable)| tunable.name == key)
            .ok_or_else(|| SettingError::UnknownKey { owner, known: known(), key: key.to_string() })?;
        let number = tunable.read(owner, value)?;
        if given[index].replace(number).is_some() {
            return Err(SettingError::Twice { owner, key: tunable.name });
        }
    }
    Ok(given.iter().zip(tunables).map(|(given, tunable)| given.unwrap_or(tunable.default)).collect())
}

impl Tunable {
    /// Parses a value: a whole number, percent with up to two decimals, or one of the words.
    ///
    /// # Errors
    /// The text is not valid, or the value is out of range.
    pub fn read(&'static self, owner: &'static str, text: &str) -> Result<i64, SettingError> {
        let number = match self.unit {
            Unit::OneOf(words) => words.iter().position(|word| *word == text).map(|place| place as i64),
            Unit::PercentHundredths => hundredths(text),
            _ => text.parse().ok(),
        };
        let number = number.ok_or_else(|| SettingError::BadValue { owner, tunable: self, value: text.to_string() })?;
        self.check(owner, number)?;
        Ok(number)
    }

    /// The text of a value, as [`read`](Tunable::read) parses it.
    pub fn text(&self, value: i64) -> String {
        let word = match self.unit {
            Unit::OneOf(words) => usize::try_from(value).ok().and_then(|place| words.get(place)).map(|word| word.to_string()),
            Unit::PercentHundredths => Some(decimal(value)),
            _ => None,
        };
        word.unwrap_or_else(|| value.to_string())
    }

    /// Checks that a value is in range. `owner` names the owner of the tunable in error messages.
    ///
    /// # Errors
    /// It is out of range.
    pub fn check(&'static self, owner: &'static str, value: i64) -> Result<(), SettingError> {
        if (self.min..=self.max).contains(&value) {
            return Ok(());
        }
        Err(SettingError::BadValue { owner, tunable: self, value: self.text(value) })
    }
}

/// Parses a decimal number with up to two decimals, in hundredths; `None` if it is not one.
fn hundredths(text: &str) -> Option<i64> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
    let all_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !(all_digits(whole) && all_digits(decimals)) {
        return None;
    }
    // The kernel prints two decimals; further ones must be zeros, to keep values exact.
    let (kept, rest) = decimals.split_at_checked(2).unwrap_or((decimals, ""));
    let scale = if kept.len() == 1 { 10 } else { 1 };
    let is_exact = rest.bytes().all(|byte| byte == b'0');
    let parts = whole.parse::<i64>().ok()?.checked_mul(100)?.checked_add(kept.parse::<i64>().ok()? * scale)?;
    is_exact.then_some(parts)
}

/// Formats hundredths as a decimal number, without trailing zeros.
fn decimal(hundredths: i64) -> String {
    let (whole, decimals) = (hundredths / 100, hundredths.unsigned_abs() % 100);
    match decimals {
        0 => format!("{whole}"),
        _ if decimals % 10 == 0 => format!("{whole}.{}", decimals / 10),
        _ => format!("{whole}.{decimals:02}"),
    }
}

/// Why a scheduler or tunable was rejected.
#[derive(Clone, Debug)]
pub enum SettingError {
    /// There is no scheduler with this name.
    UnknownScheduler {
        /// The name given.
        name: String,
        /// The existing schedulers.
        known: Vec<&'static str>,
    },
    /// There is no such tunable.
    UnknownKey {
        /// The owner of the tunables: a scheduler's name, or another part's.
        owner: &'static str,
        /// The existing tunables.
        known: Vec<&'static str>,
        /// The key given.
        key: String,
    },
    /// A setting without `=`.
    NoValue {
        /// The owner of the tunables.
        owner: &'static str,
        /// The existing tunables.
        known: Vec<&'static str>,
        /// The text given.
        setting: String,
    },
    /// A tunable is given twice.
    Twice {
        /// The owner of the tunable.
        owner: &'static str,
        /// The tunable's name.
        key: &'static str,
    },
    /// A value is neither a whole number in range nor one of the words.
    BadValue {
        /// The owner of the tunable.
        owner: &'static str,
        /// The tunable.
        tunable: &'static Tunable,
        /// The text given.
        value: String,
    },
}

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingError::UnknownScheduler { name, known } => {
                write!(f, "there is no scheduler '{name}'; known are ")?;
                list(f, known.iter().copied())?;
                f.write_str(&did_you_mean(name, known.iter().copied()))
            }
            SettingError::UnknownKey { owner, known, key } => {
                write!(f, "{owner} has no tunable '{key}'; ")?;
                list_tunables(f, known)?;
                f.write_str(&did_you_mean(key, known.iter().copied()))
            }
            SettingError::NoValue { owner, known, setting } => {
                write!(f, "{owner}: '{setting}' should be a tunable and its value, key=value; ")?;
                list_tunables(f, known)
            }
            SettingError::Twice { owner, key } => write!(f, "{owner}: {key} is given twice; once is right"),
            SettingError::BadValue { owner, tunable, value } => {
                let Tunable { name, min, max, unit, .. } = tunable;
                if let Unit::OneOf(words) = unit {
                    write!(f, "{owner}: {name}={value} should be one of ")?;
                    list(f, words.iter().copied())?;
                    return f.write_str(&did_you_mean(value, words.iter().copied()));
                }
                if let Unit::PercentHundredths = unit {
                    let (min, max) = (tunable.text(*min), tunable.text(*max));
                    return write!(
                        f,
                        "{owner}: {name}={value} should be a number from {min} to {max} %, with at most two decimals"
                    );
                }
                let space = if unit.symbol().is_empty() { "" } else { " " };
                write!(f, "{owner}: {name}={value} should be a whole number from {min} to {max}{space}{}", unit.symbol())
            }
        }
    }
}

impl core::error::Error for SettingError {}

fn list_tunables(f: &mut fmt::Formatter<'_>, known: &[&str]) -> fmt::Result {
    if known.is_empty() {
        return write!(f, "it has none");
    }
    write!(f, "known are ")?;
    list(f, known.iter().copied())
}

fn list<'a>(f: &mut fmt::Formatter<'_>, names: impl Iterator<Item = &'a str>) -> fmt::Result {
    for (index, name) in names.enumerate() {
        let separator = if index == 0 { "" } else { ", " };
        write!(f, "{separator}{name}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> String {
        parse(text).unwrap_err().to_string()
    }

    #[test]
    fn a_bare_name_means_the_defaults() {
        let (spec, values) = parse("deadline").unwrap();
        assert_eq!((spec.name, values.as_slice()), ("deadline", [500, 5_000, 16, 2, 1].as_slice()));
    }

    #[test]
    fn named_tunables_change_and_the_others_keep_their_defaults() {
        let (_, values) = parse("deadline:fifo_batch=8,read_expire=100").unwrap();
        assert_eq!(values, [100, 5_000, 8, 2, 1]);
    }

    #[test]
    fn words_are_parsed_and_printed() {
        static LEARNER: Tunable = Tunable::one_of(&["c4.5", "svm"], "svm").named("learner", "The learner.");
        assert_eq!(LEARNER.read("two-layer", "c4.5").unwrap(), 0);
        assert_eq!((LEARNER.text(0), LEARNER.text(LEARNER.default)), ("c4.5".to_string(), "svm".to_string()));
        let message = |text| LEARNER.read("two-layer", text).unwrap_err().to_string();
        assert_eq!(message("knn"), "two-layer: learner=knn should be one of c4.5, svm");
        assert_eq!(message("1"), "two-layer: learner=1 should be one of c4.5, svm");
    }

    #[test]
    fn percent_is_read_as_the_kernel_prints_it() {
        let values = |text: &str| {
            let (spec, values) = parse(text).unwrap();
            let named = spec.tunables.iter().zip(values);
            named
                .filter(|(tunable, value)| *value != tunable.default)
                .map(|(tunable, value)| tunable.text(value))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            values("io-cost:rpct=95.00,rlat=5000,wpct=99.5,wlat=75000,min=50.01,max=150"),
            ["95", "5000", "99.5", "75000", "50.01", "150"]
        );
        assert!(values("io-cost:rpct=0.00,wpct=0,min=1.000").is_empty(), "the defaults");
        let error = "should be a number from 0 to 100 %, with at most two decimals";
        for text in ["-1", "100.01", "5.", ".5", "5.001", "1e2", "+5", "", "99999999999999999999"] {
            assert_eq!(message(&format!("io-cost:rpct={text}")), format!("io-cost: rpct={text} {error}"));
        }
    }

    #[test]
    fn errors_name_what_was_wrong_and_what_would_be_right() {
        assert!(message("cfk").starts_with("there is no scheduler 'cfk'; known are noop, sstf, clook, "));
        assert!(message("cfk").ends_with("; did you mean cfq?") && !message("zzz").contains("did you mean"));
        assert_eq!(
            message("deadline:read_expires=1"),
            "deadline has no tunable 'read_expires'; known are read_expire, write_expire, fifo_batch, writes_starved, front_merges; did you mean read_expire?"
        );
        assert_eq!(message("noop:quantum=1"), "noop has no tunable 'quantum'; it has none");
        assert_eq!(message("deadline:read_expire=0"), "deadline: read_expire=0 should be a whole number from 1 to 60000 ms");
        assert_eq!(message("deadline:front_merges=yes"), "deadline: front_merges=yes should be a whole number from 0 to 1");
        assert_eq!(message("deadline:fifo_batch=4,fifo_batch=4"), "deadline: fifo_batch is given twice; once is right");
        assert!(message("deadline:fifo_batch").starts_with("deadline: 'fifo_batch' should be a tunable and its value, key=value;"));
        assert!(message("deadline:").starts_with("deadline: '' should be"));
        assert!(message("deadline:fifo_batch=99999999999999999999").contains("from 1 to 1024"));
    }
}
