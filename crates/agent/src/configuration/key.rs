//! A key: its meaning, its default and the reading of its value, with errors that name line, key and the right values.

use std::path::PathBuf;

use block::did_you_mean;
use toml::Spanned;
use toml::de::DeValue;

/// A key of the file.
pub(super) struct Key<T> {
    pub(super) name: &'static str,
    /// The default as TOML; empty if there is none.
    pub(super) default: &'static str,
    pub(super) doc: &'static str,
    pub(super) read: fn(&DeValue) -> Result<T, String>,
}

/// An error: line number and message.
pub(super) type Wrong = (usize, String);

/// The text of a file, for line numbers.
pub(super) struct Source<'a>(pub(super) &'a str);

impl Source<'_> {
    /// The line number of a byte offset, from 1.
    pub(super) fn line(&self, byte: usize) -> usize {
        self.0.as_bytes()[..byte.min(self.0.len())].iter().filter(|&&byte| byte == b'\n').count() + 1
    }

    /// Parses the value of one key.
    pub(super) fn read<T>(&self, key: &Key<T>, name: &Spanned<impl AsRef<str>>, value: &Spanned<DeValue>) -> Result<T, Wrong> {
        let written = self.0.get(value.span()).unwrap_or_default().trim();
        (key.read)(value.get_ref()).map_err(|reason| (self.line(name.span().start), format!("{} = {written}: {reason}", key.name)))
    }
}

pub(super) fn find<'a, T>(keys: &'a [Key<T>], name: &str) -> Option<&'a Key<T>> {
    keys.iter().find(|key| key.name == name)
}

pub(super) fn unknown<'a>(key: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    let near = did_you_mean(key, known.clone());
    format!("{key}: there is no such key{near}; known are {}", known.collect::<Vec<_>>().join(", "))
}

pub(super) fn text<'a>(value: &'a DeValue) -> Result<&'a str, String> {
    value.as_str().ok_or_else(|| "should be a string in quotes".to_owned())
}

pub(super) fn texts<'a>(value: &'a DeValue) -> Result<Vec<&'a str>, String> {
    let wrong = || "should be a list of strings, as in [\"scheduler\"]".to_owned();
    let texts: Option<Vec<&str>> = value.as_array().ok_or_else(wrong)?.iter().map(|one| one.get_ref().as_str()).collect();
    texts.filter(|texts| !texts.is_empty()).ok_or_else(wrong)
}

pub(super) fn number(value: &DeValue, range: std::ops::RangeInclusive<i64>) -> Result<i64, String> {
    let number = value.as_integer().and_then(|number| i64::from_str_radix(number.as_str(), number.radix()).ok());
    let wrong = || format!("should be a whole number from {} to {}", range.start(), range.end());
    number.filter(|number| range.contains(number)).ok_or_else(wrong)
}

pub(super) fn one_of<T: Copy>(value: &DeValue, known: &[(&str, T)]) -> Result<T, String> {
    let found = value.as_str().and_then(|text| known.iter().find(|(name, _)| *name == text));
    let names = || known.iter().map(|(name, _)| format!("\"{name}\"")).collect::<Vec<_>>().join(" or ");
    found.map(|(_, value)| *value).ok_or_else(|| format!("should be {}", names()))
}

pub(super) fn path(value: &DeValue) -> Result<PathBuf, String> {
    let path = PathBuf::from(text(value)?);
    if path.is_absolute() { Ok(path) } else { Err("should be an absolute path, as in \"/run/seekwise-agent\"".to_owned()) }
}
