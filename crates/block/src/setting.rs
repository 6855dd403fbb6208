//! A scheduler and the values of its tunables as people write them: `deadline` or `deadline:read_expire=100,fifo_batch=8`.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use crate::nearest::did_you_mean;
use crate::sched::{ALL, SchedulerSpec};
use crate::tunable::{Tunable, Unit};

/// The scheduler of that name.
pub fn find(name: &str) -> Option<&'static SchedulerSpec> {
    ALL.iter().copied().find(|spec| spec.name == name)
}

/// Reads a scheduler's name and, behind a colon, any of its tunables as `key=value` with commas between. Tunables that are not
/// named keep their defaults; the values come in the order of [`SchedulerSpec::tunables`].
///
/// # Errors
/// An unknown scheduler or key, a key given twice, a value that the tunable cannot have.
pub fn parse(text: &str) -> Result<(&'static SchedulerSpec, Vec<i64>), SettingError> {
    parse_among(ALL.iter().copied(), text)
}

/// As [`parse`], with other schedulers to choose from: a crate may bring its own.
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

/// Reads `key=value` pairs with commas between: each tunable's value, in the order of the tunables. What is not named has its default; no
/// text names nothing, and an empty one is an error. `owner` is whose tunables they are, for errors.
///
/// # Errors
/// An unknown key, a key given twice, a value that the tunable cannot have.
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
    /// Reads a value as people write it: a whole number, or one of the words.
    ///
    /// # Errors
    /// It is neither, or lies outside the range.
    pub fn read(&'static self, owner: &'static str, text: &str) -> Result<i64, SettingError> {
        let number = match self.unit {
            Unit::OneOf(words) => words.iter().position(|word| *word == text).map(|place| place as i64),
            _ => text.parse().ok(),
        };
        let number = number.ok_or_else(|| SettingError::BadValue { owner, tunable: self, value: text.to_string() })?;
        self.check(owner, number)?;
        Ok(number)
    }

    /// A value as people write it, which [`read`](Tunable::read) reads back.
    pub fn text(&self, value: i64) -> String {
        let word = match self.unit {
            Unit::OneOf(words) => usize::try_from(value).ok().and_then(|place| words.get(place)),
            _ => None,
        };
        word.map_or_else(|| value.to_string(), |word| word.to_string())
    }

    /// Checks that a value lies in the range. `owner` is whose tunable it is, for the error.
    ///
    /// # Errors
    /// It does not.
    pub fn check(&'static self, owner: &'static str, value: i64) -> Result<(), SettingError> {
        if (self.min..=self.max).contains(&value) {
            return Ok(());
        }
        Err(SettingError::BadValue { owner, tunable: self, value: value.to_string() })
    }
}

/// Why a text names no scheduler with its settings.
#[derive(Clone, Debug)]
pub enum SettingError {
    /// There is no scheduler of that name.
    UnknownScheduler {
        /// What was asked for.
        name: String,
        /// The schedulers that there are.
        known: Vec<&'static str>,
    },
    /// There is no such tunable.
    UnknownKey {
        /// Whose: a scheduler's name, or another part's.
        owner: &'static str,
        /// The tunables that there are.
        known: Vec<&'static str>,
        /// What was asked for.
        key: String,
    },
    /// There is no `=` in a setting.
    NoValue {
        /// Whose it would be.
        owner: &'static str,
        /// The tunables that there are.
        known: Vec<&'static str>,
        /// What was written.
        setting: String,
    },
    /// A tunable is set twice.
    Twice {
        /// Whose it is.
        owner: &'static str,
        /// The tunable's name.
        key: &'static str,
    },
    /// A value is no whole number or out of range, or none of the words.
    BadValue {
        /// Whose it is.
        owner: &'static str,
        /// The tunable.
        tunable: &'static Tunable,
        /// What was written.
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
    fn words_are_read_and_printed_where_a_tunable_is_one_of_several() {
        static LEARNER: Tunable = Tunable::one_of(&["c4.5", "svm"], "svm").named("learner", "What learns.");
        assert_eq!(LEARNER.read("two-layer", "c4.5").unwrap(), 0);
        assert_eq!((LEARNER.text(0), LEARNER.text(LEARNER.default)), ("c4.5".to_string(), "svm".to_string()));
        let message = |text| LEARNER.read("two-layer", text).unwrap_err().to_string();
        assert_eq!(message("knn"), "two-layer: learner=knn should be one of c4.5, svm");
        assert_eq!(message("1"), "two-layer: learner=1 should be one of c4.5, svm");
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
