//! A scheduler and the values of its tunables as people write them: `deadline` or `deadline:read_expire=100,fifo_batch=8`.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use crate::sched::{ALL, Spec};
use crate::tunable::Tunable;

/// The scheduler of that name.
pub fn find(name: &str) -> Option<&'static Spec> {
    ALL.iter().copied().find(|spec| spec.name == name)
}

/// Reads a scheduler's name and, behind a colon, any of its tunables as `key=value` with commas between. Tunables that are not
/// named keep their defaults; the values come in the order of [`Spec::tunables`].
///
/// # Errors
/// An unknown scheduler or key, a key given twice, a value that is no whole number or lies outside the tunable's range.
pub fn parse(text: &str) -> Result<(&'static Spec, Vec<i64>), SettingError> {
    let (name, settings) = match text.split_once(':') {
        Some((name, settings)) => (name, Some(settings)),
        None => (text, None),
    };
    let spec = find(name).ok_or_else(|| SettingError::UnknownScheduler { name: name.to_string() })?;
    let mut given: Vec<Option<i64>> = alloc::vec![None; spec.tunables.len()];
    for setting in settings.into_iter().flat_map(|settings| settings.split(',')) {
        let (index, value) = spec.parse_setting(setting)?;
        if given[index].replace(value).is_some() {
            return Err(SettingError::Twice { scheduler: spec.name, key: spec.tunables[index].name });
        }
    }
    let values = given.iter().zip(spec.tunables).map(|(given, tunable)| given.unwrap_or(tunable.default)).collect();
    Ok((spec, values))
}

impl Spec {
    /// The default of each tunable.
    pub fn defaults(&self) -> Vec<i64> {
        self.tunables.iter().map(|tunable| tunable.default).collect()
    }

    fn parse_setting(&'static self, setting: &str) -> Result<(usize, i64), SettingError> {
        let (key, value) =
            setting.split_once('=').ok_or_else(|| SettingError::NoValue { scheduler: self, setting: setting.to_string() })?;
        let index = self
            .tunables
            .iter()
            .position(|tunable| tunable.name == key)
            .ok_or_else(|| SettingError::UnknownKey { scheduler: self, key: key.to_string() })?;
        let tunable = &self.tunables[index];
        let bad = || SettingError::BadValue { scheduler: self.name, tunable, value: value.to_string() };
        let number = value.parse::<i64>().map_err(|_| bad())?;
        if !(tunable.min..=tunable.max).contains(&number) {
            return Err(bad());
        }
        Ok((index, number))
    }
}

/// Why a text names no scheduler with its settings.
#[derive(Clone, Debug)]
pub enum SettingError {
    /// There is no scheduler of that name.
    UnknownScheduler {
        /// What was asked for.
        name: String,
    },
    /// The scheduler has no such tunable.
    UnknownKey {
        /// The scheduler.
        scheduler: &'static Spec,
        /// What was asked for.
        key: String,
    },
    /// There is no `=` in a setting.
    NoValue {
        /// The scheduler.
        scheduler: &'static Spec,
        /// What was written.
        setting: String,
    },
    /// A tunable is set twice.
    Twice {
        /// The scheduler's name.
        scheduler: &'static str,
        /// The tunable's name.
        key: &'static str,
    },
    /// A value is no whole number, or out of range.
    BadValue {
        /// The scheduler's name.
        scheduler: &'static str,
        /// The tunable.
        tunable: &'static Tunable,
        /// What was written.
        value: String,
    },
}

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingError::UnknownScheduler { name } => {
                write!(f, "there is no scheduler '{name}'; known are ")?;
                list(f, ALL.iter().map(|spec| spec.name))
            }
            SettingError::UnknownKey { scheduler, key } => {
                write!(f, "{} has no tunable '{key}'; ", scheduler.name)?;
                list_tunables(f, scheduler)
            }
            SettingError::NoValue { scheduler, setting } => {
                write!(f, "{}: '{setting}' should be a tunable and its value, key=value; ", scheduler.name)?;
                list_tunables(f, scheduler)
            }
            SettingError::Twice { scheduler, key } => write!(f, "{scheduler}: {key} is given twice; once is right"),
            SettingError::BadValue { scheduler, tunable, value } => {
                let Tunable { name, min, max, unit, .. } = tunable;
                let space = if unit.symbol().is_empty() { "" } else { " " };
                write!(f, "{scheduler}: {name}={value} should be a whole number from {min} to {max}{space}{}", unit.symbol())
            }
        }
    }
}

impl core::error::Error for SettingError {}

fn list_tunables(f: &mut fmt::Formatter<'_>, spec: &Spec) -> fmt::Result {
    if spec.tunables.is_empty() {
        return write!(f, "it has none");
    }
    write!(f, "known are ")?;
    list(f, spec.tunables.iter().map(|tunable| tunable.name))
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
    fn errors_name_what_was_wrong_and_what_would_be_right() {
        assert_eq!(message("cfk"), "there is no scheduler 'cfk'; known are noop, sstf, clook, deadline, anticipatory, cfq");
        assert_eq!(
            message("deadline:read_expires=1"),
            "deadline has no tunable 'read_expires'; known are read_expire, write_expire, fifo_batch, writes_starved, front_merges"
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
