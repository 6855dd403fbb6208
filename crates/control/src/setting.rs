//! Settings of a target: a scheduler with its tunables, and tunables of the host.

use std::fmt;

use block::{SchedulerSpec, SettingError, Tunable};

use device_model::sched;

/// A scheduler, the values of its tunables, and the host tunables that are changed.
///
/// As text: `anticipatory:antic_expire=12 read_ahead_kb=1024`. Two settings are equal if their texts are.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The scheduler.
    pub spec: &'static SchedulerSpec,
    /// In the order of its tunables.
    pub values: Vec<i64>,
    /// Host tunables by name, in ascending order. Those not listed keep the value they had before steering began.
    pub host: Vec<(String, i64)>,
}

impl Setting {
    /// A scheduler with its defaults and no host tunables.
    pub fn of(spec: &'static SchedulerSpec) -> Setting {
        Setting { spec, values: spec.defaults(), host: Vec::new() }
    }

    /// Parses a setting.
    ///
    /// # Errors
    /// An unknown scheduler or tunable, or a value out of range. Host tunables are not checked: only the plant knows them.
    pub fn parse(text: &str) -> Result<Setting, SettingError> {
        let mut words = text.split_whitespace();
        let (spec, values) = block::parse_among(sched::all(), words.next().unwrap_or_default())?;
        let pair = |word: &str| {
            let no_value = || SettingError::NoValue { owner: "host", known: Vec::new(), setting: word.to_owned() };
            let (key, value) = word.split_once('=').ok_or_else(no_value)?;
            Ok((key.to_owned(), value.parse().map_err(|_| no_value())?))
        };
        let mut host = words.map(pair).collect::<Result<Vec<_>, SettingError>>()?;
        host.sort();
        Ok(Setting { spec, values, host })
    }

    /// The scheduler's name, and its tunables that differ from the defaults.
    pub fn scheduler(&self) -> String {
        label(self.spec.name, self.spec.tunables, &self.values)
    }
}

/// A name with its tunables that differ from the defaults, which identifies the setting.
pub fn label(name: &str, tunables: &[Tunable], values: &[i64]) -> String {
    let changed = tunables.iter().zip(values).filter(|(tunable, value)| tunable.default != **value);
    let changed: Vec<String> = changed.map(|(tunable, value)| format!("{}={}", tunable.name, tunable.text(*value))).collect();
    if changed.is_empty() { name.to_owned() } else { format!("{name}:{}", changed.join(",")) }
}

impl PartialEq for Setting {
    fn eq(&self, other: &Setting) -> bool {
        self.spec.name == other.spec.name && self.values == other.values && self.host == other.host
    }
}

impl Eq for Setting {}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.scheduler())?;
        self.host.iter().try_for_each(|(name, value)| write!(f, " {name}={value}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_read_back_from_its_text() {
        for text in ["noop", "deadline:read_expire=100", "cfq nr_requests=64 read_ahead_kb=1024"] {
            let setting = Setting::parse(text).unwrap();
            assert_eq!(setting.to_string(), text);
        }
        assert_eq!(Setting::parse("cfq read_ahead_kb=0 nr_requests=4").unwrap().to_string(), "cfq nr_requests=4 read_ahead_kb=0");
    }

    #[test]
    fn what_is_no_setting_is_refused_with_a_reason() {
        for text in ["", "nope", "noop:a=1", "noop read_ahead_kb", "noop read_ahead_kb=much"] {
            assert!(Setting::parse(text).is_err(), "{text}");
        }
    }
}
