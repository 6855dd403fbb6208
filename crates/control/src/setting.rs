//! Settings of a target: a scheduler with its tunables, and tunables of the host.

use std::fmt;

use block::{HOST_TUNABLES, SchedulerSpec, SettingError, Tunable};

use device_model::sched;

/// A scheduler, the values of its tunables, and the changed host tunables.
///
/// As text: `anticipatory:antic_expire=12 read_ahead_kb=1024`. Two settings are equal if their texts are.
///
/// ```
/// use control::Setting;
///
/// let setting = Setting::parse("mq-deadline:fifo_batch=1 nr_requests=64")?;
/// assert_eq!((setting.spec.name, setting.host[0].1), ("mq-deadline", 64));
/// assert_eq!(setting.to_string(), "mq-deadline:fifo_batch=1 nr_requests=64");
/// let refused = Setting::parse("bfq nr_request=64").map_err(|error| error.to_string());
/// assert!(refused.is_err_and(|message| message.ends_with("; did you mean nr_requests?")));
/// # Ok::<(), block::SettingError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Setting {
    /// The scheduler.
    pub spec: &'static SchedulerSpec,
    /// The values, in the order of its tunables.
    pub values: Vec<i64>,
    /// Host tunables by name, in ascending order. Those not listed keep their original value.
    pub host: Vec<(String, i64)>,
}

/// The owner of host tunables in error messages. Choice: the word of the documentation; not varied.
const HOST: &str = "host";

impl Setting {
    /// A scheduler with its defaults and no host tunables.
    pub fn of(spec: &'static SchedulerSpec) -> Setting {
        Setting { spec, values: spec.defaults(), host: Vec::new() }
    }

    /// Parses a setting: a scheduler with its tunables, then [host tunables](HOST_TUNABLES), separated by spaces.
    ///
    /// # Errors
    /// An unknown scheduler or tunable, a tunable given twice, or a value out of range.
    pub fn parse(text: &str) -> Result<Setting, SettingError> {
        let mut words = text.split_whitespace();
        let scheduler = Setting::parse_scheduler(words.next().unwrap_or_default())?;
        let mut host = words.map(parse_host_tunable).collect::<Result<Vec<_>, SettingError>>()?;
        host.sort();
        let setting = Setting { host, ..scheduler };
        setting.check_host(HOST_TUNABLES)?;
        Ok(setting)
    }

    /// Parses a scheduler with its tunables, without host tunables.
    ///
    /// # Errors
    /// An unknown scheduler or tunable, a tunable given twice, or a value out of range.
    pub fn parse_scheduler(text: &str) -> Result<Setting, SettingError> {
        let (spec, values) = block::parse_among(sched::all(), text)?;
        Ok(Setting { spec, values, host: Vec::new() })
    }

    /// Checks that every host tunable is one of `settable`, is set once, and has a value in its range.
    ///
    /// # Errors
    /// The first violation.
    pub fn check_host(&self, settable: impl IntoIterator<Item = &'static Tunable>) -> Result<(), SettingError> {
        let settable: Vec<&'static Tunable> = settable.into_iter().collect();
        self.host.iter().enumerate().try_for_each(|(number, (name, value))| {
            let is_twice = self.host[..number].iter().any(|(before, _)| before == name);
            match settable.iter().find(|tunable| tunable.name == name) {
                Some(tunable) if is_twice => Err(SettingError::Twice { owner: HOST, key: tunable.name }),
                Some(tunable) => tunable.check(HOST, *value),
                None => {
                    let known = settable.iter().map(|tunable| tunable.name).collect();
                    Err(SettingError::UnknownKey { owner: HOST, known, key: name.clone() })
                }
            }
        })
    }

    /// This setting, with the host tunables of `active` that it does not name.
    pub fn keeping_host_of(&self, active: &Setting) -> Setting {
        let is_named = |name: &str| self.host.iter().any(|(own, _)| own == name);
        let kept = active.host.iter().filter(|(name, _)| !is_named(name)).cloned();
        let mut host: Vec<(String, i64)> = self.host.iter().cloned().chain(kept).collect();
        host.sort();
        Setting { host, ..self.clone() }
    }

    /// The scheduler's name, and its tunables that differ from the defaults.
    pub fn scheduler(&self) -> String {
        label(self.spec.name, self.spec.tunables, &self.values)
    }
}

/// Parses `name=value`; [`Setting::check_host`] checks the range.
fn parse_host_tunable(word: &str) -> Result<(String, i64), SettingError> {
    let known = || HOST_TUNABLES.iter().map(|tunable| tunable.name).collect();
    let no_value = || SettingError::NoValue { owner: HOST, known: known(), setting: word.to_owned() };
    let (key, value) = word.split_once('=').ok_or_else(no_value)?;
    let unknown = || SettingError::UnknownKey { owner: HOST, known: known(), key: key.to_owned() };
    let tunable = HOST_TUNABLES.iter().find(|tunable| tunable.name == key).ok_or_else(unknown)?;
    Ok((key.to_owned(), tunable.read(HOST, value)?))
}

/// A name with the tunables that differ from their defaults, which identifies the setting.
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
    fn an_invalid_setting_is_refused_with_the_valid_ones() {
        let message = |text: &str| Setting::parse(text).unwrap_err().to_string();
        assert!(message("").starts_with("there is no scheduler ''"));
        assert!(message("noop:a=1").starts_with("noop has no tunable 'a'"));
        assert!(
            message("noop read_ahead_kb")
                .starts_with("host: 'read_ahead_kb' should be a tunable and its value, key=value; known are ")
        );
        assert_eq!(message("noop read_ahead_kb=much"), "host: read_ahead_kb=much should be a whole number from 0 to 65536 KiB");
        assert_eq!(message("noop read_ahead_kb=70000"), "host: read_ahead_kb=70000 should be a whole number from 0 to 65536 KiB");
        assert!(message("noop swapiness=7").starts_with("host has no tunable 'swapiness'; known are nr_requests, "));
        assert!(message("noop swapiness=7").ends_with("; did you mean swappiness?"));
        assert_eq!(message("noop nr_requests=64 nr_requests=64"), "host: nr_requests is given twice; once is right");
    }

    #[test]
    fn a_target_may_offer_fewer_host_tunables() {
        let setting = Setting::parse("noop nr_requests=64 swappiness=0").unwrap();
        let of_the_queue = || HOST_TUNABLES.iter().filter(|tunable| tunable.name == "nr_requests");
        assert_eq!(
            setting.check_host(of_the_queue()).unwrap_err().to_string(),
            "host has no tunable 'swappiness'; known are nr_requests"
        );
    }
}
